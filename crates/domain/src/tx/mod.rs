//! The life of a managed transaction: one pure function from where it stands and what happened to
//! where it stands then.
//!
//! | file | what is in it |
//! |---|---|
//! | `mod` | the names of states, events and attempts |
//! | `rule` | the function |
//! | `rival` | another transaction at the same nonce |
//! | `reference` | the page made from the function |

mod reference;
mod rival;
mod rule;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

pub use reference::reference_markdown;
pub use rival::Rival;
pub use rule::{IllegalStep, Obstacle, Standing, Step};

/// A managed transaction's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TxId(pub Uuid);

impl fmt::Display for TxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

macro_rules! names {
    ($(#[$doc:meta])* $type:ident { $($(#[$variant_doc:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum $type {
            $($(#[$variant_doc])* #[serde(rename = $name)] $variant,)*
        }

        impl $type {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name used in the database, in JSON and in logs.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }

        impl FromStr for $type {
            type Err = UnknownName;
            fn from_str(text: &str) -> Result<Self, UnknownName> {
                Self::ALL.iter().copied().find(|it| it.name() == text).ok_or(UnknownName)
            }
        }
    };
}

/// A text that names nothing of the kind asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("is not a name of this kind")]
pub struct UnknownName;

pub(crate) use names;

names! {
    /// Where a transaction stands.
    TxState {
        /// Accepted; no nonce yet.
        Created = "CREATED",
        /// A nonce is bound; signed and stored, not yet known to a chain node.
        Allocated = "ALLOCATED",
        /// A chain node has it.
        Submitted = "SUBMITTED",
        /// In a canonical block.
        Tracking = "TRACKING",
        /// On chain, as final as was asked.
        Confirmed = "CONFIRMED",
        /// Not on chain, and final as asked.
        Failed = "FAILED",
    }
}

names! {
    /// What there is to say about a state.
    SubState {
        /// Nothing special.
        Pending = "PENDING",
        /// Sent long ago and not mined.
        Stale = "STALE",
        /// Chain nodes want a higher fee.
        Underpriced = "UNDERPRICED",
        /// The account cannot pay for it.
        InsufficientFunds = "INSUFFICIENT_FUNDS",
        /// A reorganisation took it out of its block.
        Reorged = "REORGED",
        /// Mined, and its execution was reverted.
        Reverted = "REVERTED",
        /// Withdrawn by its caller.
        Cancelled = "CANCELLED",
        /// Refused: by the estimate before a nonce was bound, or by every chain node after.
        Rejected = "REJECTED",
        /// Another transaction took its nonce.
        ReplacedExternally = "REPLACED_EXTERNALLY",
        /// Its lane is paused.
        Paused = "PAUSED",
        /// Its gas could not be estimated yet; it is tried again, and those behind it go on.
        Estimating = "ESTIMATING",
        /// The database was restored, and nobody knows whether it was sent before: a person decides.
        Restored = "RESTORED",
        /// A person said that it was never sent: it gets its nonce.
        Cleared = "CLEARED",
    }
}

names! {
    /// How a mined transaction's execution ended.
    Outcome {
        /// It did what it was to do.
        Success = "success",
        /// It was undone; the fee was paid all the same.
        Reverted = "reverted",
        /// It was mined, and no endpoint says how it ended.
        Unknown = "unknown",
    }
}

names! {
    /// The kinds of entries in a transaction's history.
    EventKind {
        /// Taken in.
        Accepted = "ACCEPTED",
        /// Its gas could not be estimated: it is set aside and tried again.
        NotEstimated = "NOT_ESTIMATED",
        /// Its gas is known after all: it takes its place among those that wait for a nonce.
        Estimated = "ESTIMATED",
        /// A nonce was bound; signed and stored.
        Bound = "BOUND",
        /// A chain node took it for the first time.
        Sent = "SENT",
        /// The stored bytes were sent again.
        Resent = "RESENT",
        /// Chain nodes refuse it for now.
        HeldUp = "HELD_UP",
        /// Nothing has been heard of it for too long.
        Stale = "STALE",
        /// A new attempt that offers more was signed and stored.
        Bumped = "BUMPED",
        /// Its caller wants it withdrawn: an empty transaction at its nonce was signed and stored.
        CancelRequested = "CANCEL_REQUESTED",
        /// Every chain node refuses it for good: an empty transaction at its nonce was signed and
        /// stored.
        GivenUp = "GIVEN_UP",
        /// Another transaction at its nonce is in a canonical block.
        Overtaken = "OVERTAKEN",
        /// It is in a canonical block.
        Mined = "MINED",
        /// The blocks on top of its own were replaced.
        NewFork = "NEW_FORK",
        /// Its block is no longer canonical.
        Reorged = "REORGED",
        /// As final as was asked.
        Confirmed = "CONFIRMED",
        /// Another transaction is final at its nonce.
        Replaced = "REPLACED",
        /// Refused before a nonce was bound.
        Rejected = "REJECTED",
        /// Withdrawn before a nonce was bound.
        Cancelled = "CANCELLED",
        /// The database was restored: it waits until it is known whether it was sent before.
        Restored = "RESTORED",
        /// A person said that it was never sent.
        Cleared = "CLEARED",
        /// The chain shows the transaction by which it was sent before the database was restored.
        Recovered = "RECOVERED",
        /// A person said that it was sent before the database was restored.
        Closed = "CLOSED",
    }
}

names! {
    /// What an attempt is for.
    AttemptKind {
        /// The first one: what was asked for.
        Send = "SEND",
        /// The same, and it offers more.
        Bump = "BUMP",
        /// Nothing, in place of what was asked for: its caller withdrew it.
        Cancel = "CANCEL",
        /// Nothing, in place of what was asked for: chain nodes refuse that for good.
        GiveUp = "GIVE_UP",
    }
}

impl AttemptKind {
    /// Who has won if this attempt is mined; `None` for the transaction itself.
    pub fn successor(self) -> Option<Successor> {
        match self {
            Self::Send | Self::Bump => None,
            Self::Cancel => Some(Successor::Cancel),
            Self::GiveUp => Some(Successor::GiveUp),
        }
    }
}

names! {
    /// Whose transaction took the nonce.
    Successor {
        /// Our own, because the caller withdrew what it had asked for.
        Cancel = "cancel",
        /// Our own, because chain nodes refused what was asked for.
        GiveUp = "give-up",
        /// Somebody else's, signed with the same key.
        Outsider = "outsider",
    }
}
