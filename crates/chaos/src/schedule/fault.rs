//! What can go wrong, and whom it hits.

use super::{Kind, Millis};
use crate::hostile::Attack;

/// Which node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Victim {
    /// This one.
    Node(usize),
    /// Whoever holds this lane when it happens; this node if nobody does.
    HolderOf(usize, usize),
}

/// What goes wrong with an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// Connections are refused.
    Refuses,
    /// Every answer takes so much longer.
    Slow(Millis),
    /// Sent transactions are taken, and the answer is lost.
    LosesAnswers,
    /// Sent transactions are answered as taken, and forgotten.
    Forgets,
    /// Every request is answered with this HTTP status.
    Fails(u16),
    /// Sent transactions are refused with an error that may pass.
    RefusesSends,
    /// It has no receipt of anything.
    HidesReceipts,
    /// Its counts of transactions are older than its blocks.
    OldCounts,
}

/// What an endpoint tells instead of the truth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lie {
    /// Blocks that nobody made, with our transactions in them, at the true height.
    Blocks,
    /// The same, a thousand blocks ahead.
    Leap,
    /// Receipts in true blocks of what is not in them, and of failures that were none.
    Receipts,
    /// A head that goes back by so many blocks, and forth again.
    Flap { back: u64 },
}

/// How an endpoint says that it takes no transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadOnly {
    /// There is no such method.
    NoMethod,
    /// An HTTP status of 403.
    Forbidden,
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A node is killed, and started again when it is over.
    Kill(Victim),
    /// A node is asked to end, and started again when it is over.
    Restart(Victim),
    /// A node is stopped, and goes on when it is over, as if no time had passed.
    Stop(Victim),
    /// One node's connections to PostgreSQL are closed and refused.
    CutStore(Victim),
    /// One node's connections to PostgreSQL stay open, and nothing comes through.
    FreezeStore(Victim),
    /// PostgreSQL's next answer to a commit of one node is lost with its connection.
    LoseCommit(Victim),
    /// PostgreSQL crashes, and recovers when it is over.
    CrashStore,
    /// PostgreSQL crashes, or hangs, and its synchronous standby takes its place when it is over.
    Promote { hangs: bool },
    /// A backup is made, and put back when it is over: all nodes are stopped, the database is dropped,
    /// and whatever was answered meanwhile is gone.
    Restore,
    /// A standby is cut off, and takes the server's place when it is over: whatever was answered
    /// meanwhile is gone, and the nodes go on.
    PromoteLagging,
    /// Redis is killed, and another one without its memory takes its place when it is over.
    KillRedis,
    /// Redis is stopped, and goes on when it is over, as if no time had passed.
    FreezeRedis,
    /// Redis forgets everything.
    WipeRedis,
    /// One node's connections to Redis are closed and refused, or nothing comes through them.
    CutRedis { node: usize, hangs: bool },
    /// Somebody else writes to Redis, again and again until it is over.
    HostileRedis(Attack),
    /// One endpoint of one node is in trouble.
    Endpoint(usize, usize, Trouble),
    /// The last endpoint of a node takes no transactions from now on, to the end of the run and after
    /// it. Nothing is wrong with that: it is how some endpoints are.
    ReadOnly(usize, ReadOnly),
    /// One endpoint of every node lies, and the others do not.
    Liar(usize, Lie),
    /// All endpoints take transactions, and answer repeats in words that nobody knows. No block is
    /// made meanwhile, so that there are repeats.
    UnknownWords,
    /// All endpoints of all nodes take connections and answer nothing.
    ChainHangs,
    /// No endpoint of any node answers to estimates; and a transaction comes on this lane whose
    /// estimate is never answered to, not even when it is over.
    EstimatesHang { lane: usize },
    /// All endpoints of a node show receipts of blocks that are not on the chain.
    SideBlocks(Victim),
    /// So many blocks are replaced, and their transactions are dropped, or come again a block later.
    Reorg { depth: u64, keep: bool },
    /// Somebody else sends with the key of a lane: at the chain's next nonce, or at the next one
    /// after all that wait.
    Outsider { lane: usize, ahead: bool },
    /// The chain forgets what waits for a block.
    EmptyPool,
    /// A lane's account has nothing until it is over.
    EmptyAccount(usize),
}

impl Fault {
    /// Its kind, for counting.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Kill(_) => Kind::Kill,
            Self::Restart(_) => Kind::Restart,
            Self::Stop(_) => Kind::Stop,
            Self::CutStore(_) => Kind::CutStore,
            Self::FreezeStore(_) => Kind::FreezeStore,
            Self::LoseCommit(_) => Kind::LoseCommit,
            Self::CrashStore => Kind::CrashStore,
            Self::Promote { .. } => Kind::Promote,
            Self::Restore => Kind::Restore,
            Self::PromoteLagging => Kind::PromoteLagging,
            Self::KillRedis => Kind::KillRedis,
            Self::FreezeRedis => Kind::FreezeRedis,
            Self::WipeRedis => Kind::WipeRedis,
            Self::CutRedis { .. } => Kind::CutRedis,
            Self::HostileRedis(_) => Kind::HostileRedis,
            Self::Endpoint(_, _, trouble) => match trouble {
                Trouble::Refuses => Kind::EndpointRefuses,
                Trouble::Slow(_) => Kind::EndpointSlow,
                Trouble::LosesAnswers => Kind::EndpointLosesAnswers,
                Trouble::Forgets => Kind::EndpointForgets,
                Trouble::Fails(_) => Kind::EndpointFails,
                Trouble::RefusesSends => Kind::EndpointRefusesSends,
                Trouble::HidesReceipts => Kind::EndpointHidesReceipts,
                Trouble::OldCounts => Kind::EndpointOldCounts,
            },
            Self::ReadOnly(..) => Kind::EndpointReadOnly,
            Self::Liar(_, lie) => match lie {
                Lie::Blocks => Kind::LiarBlocks,
                Lie::Leap => Kind::LiarLeap,
                Lie::Receipts => Kind::LiarReceipts,
                Lie::Flap { .. } => Kind::LiarFlap,
            },
            Self::UnknownWords => Kind::UnknownWords,
            Self::ChainHangs => Kind::ChainHangs,
            Self::EstimatesHang { .. } => Kind::EstimatesHang,
            Self::SideBlocks(_) => Kind::SideBlocks,
            Self::Reorg { .. } => Kind::Reorg,
            Self::Outsider { .. } => Kind::Outsider,
            Self::EmptyPool => Kind::EmptyPool,
            Self::EmptyAccount(_) => Kind::EmptyAccount,
        }
    }

    /// What it hits. What is hit is left alone until it is well again.
    pub(super) fn target(&self) -> Option<Target> {
        match self {
            Self::Kill(victim)
            | Self::Restart(victim)
            | Self::Stop(victim)
            | Self::CutStore(victim)
            | Self::FreezeStore(victim)
            | Self::LoseCommit(victim)
            | Self::SideBlocks(victim) => Some(Target::Node(match victim {
                Victim::Node(node) | Victim::HolderOf(_, node) => *node,
            })),
            Self::CrashStore | Self::Promote { .. } | Self::Restore | Self::PromoteLagging => {
                Some(Target::Store)
            }
            // One liar at a time, whatever it says: a majority of the endpoints is honest.
            Self::Liar(..) => Some(Target::Word),
            Self::UnknownWords | Self::ChainHangs | Self::EstimatesHang { .. } => {
                Some(Target::Chain)
            }
            Self::KillRedis | Self::FreezeRedis | Self::WipeRedis | Self::HostileRedis(_) => {
                Some(Target::Redis)
            }
            // The node itself may be hit as well: it has to start without Redis, too.
            Self::CutRedis { node, .. } => Some(Target::WayToRedis(*node)),
            Self::Endpoint(node, endpoint, _) => Some(Target::Endpoint(*node, *endpoint)),
            Self::EmptyAccount(lane) => Some(Target::Account(*lane)),
            Self::ReadOnly(..) | Self::Reorg { .. } | Self::Outsider { .. } | Self::EmptyPool => {
                None
            }
        }
    }
}

/// What a fault hits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Target {
    Node(usize),
    Store,
    Redis,
    WayToRedis(usize),
    Endpoint(usize, usize),
    Word,
    Chain,
    Account(usize),
}
