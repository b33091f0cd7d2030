//! The tasks of a node, by name.
//!
//! Each one decides from what is in memory, so after a panic nothing of that can be trusted: the node
//! gives its lanes back and leaves, and what takes them over reads them from the store. The tasks that
//! only speak to one peer (connections of callers, to endpoints, to the database's notifications) are
//! made anew instead, and have no name here.

macro_rules! tasks {
    ($($(#[$what:meta])+ $name:ident = $text:literal;)+) => {
        $($(#[$what])+ pub(crate) const $name: &str = $text;)+

        /// The names of a node's tasks.
        pub const TASKS: &[&str] = &[$($text),+];
    };
}

tasks! {
    /// Keeps leases.
    RENEW = "renew";
    /// What follows from leases that could not be kept.
    FOLLOW_UP = "follow-up";
    /// Takes over what others have left.
    KEEP = "keep";
    /// Says that this node lives, learns of others, and moves lanes.
    CLUSTER = "cluster";
    /// Tells other nodes, and hears them.
    HEAR = "hear";
    /// Reads which lanes are Stile's.
    ROLLOUT = "rollout";
    /// Removes what is kept no longer.
    RETENTION = "retention";
    /// Looks at what a lost history may have sent.
    RESTORED = "restored";
    /// Compares lanes with their chains.
    RECONCILE = "reconcile";
    /// Ends holds that nobody came back for.
    SWEEP = "sweep";
    /// Releases what was given out to nobody.
    ORPHANS = "orphans";
    /// Serves calls for lanes, in queues.
    QUEUE = "queue";
    /// Serves one call.
    SERVE = "serve";
    /// Asks about a lane while its calls wait.
    PARK = "park";
    /// Looks at a lane's released nonces.
    OFFERS = "offers";
    /// One node's part of an endpoint's limit.
    SHARE = "share";
    /// Writes down what was decided about transactions.
    RECORD = "record";
    /// Binds what waits on a lane to nonces.
    BIND = "bind";
    /// Looks for lanes on which something waits.
    BIND_POLL = "bind-poll";
    /// Reads what is open on lanes that have come.
    ADOPT = "adopt";
    /// Takes what is to be sent from its queue.
    SUBMIT = "submit";
    /// Sends one batch.
    SEND = "send";
    /// Follows a chain.
    FOLLOW = "follow";
    /// Asks for receipts.
    RECEIPTS = "receipts";
    /// Estimates gas.
    ESTIMATES = "estimates";
    /// Sends again by time.
    RESUBMIT = "resubmit";
    /// Makes a new attempt of a transaction.
    REPLACE = "replace";
    /// Asks what a chain asks for.
    QUOTE = "quote";
    /// Looks at what accounts have.
    BALANCE = "balance";
    /// Finds out what endpoints can do.
    LEARN = "learn";
}
