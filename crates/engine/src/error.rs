//! What a caller is told when it does not work.

use std::time::Duration;

use stile_domain::{Elsewhere, Hold, Lane};
use stile_store::{Owner, StoreError};

/// Why a call did not get what it asked for. Each one says whether and when to come back.
#[derive(Debug, Clone, thiserror::Error)]
pub enum NonceError {
    /// Another node holds the lane.
    #[error("node {} holds lane {lane}", owner.node)]
    NotHolder {
        /// The lane.
        lane: Lane,
        /// Who holds it.
        owner: Box<Owner>,
    },
    /// This node held the lane when the call came and lost it before the commit. Nothing was
    /// written.
    #[error("lane {lane} was taken over by node {} in the middle of this call", owner.node)]
    Fenced {
        /// The lane.
        lane: Lane,
        /// Who holds it now.
        owner: Box<Owner>,
    },
    /// The lane is paused.
    #[error("lane {lane} is paused: {reason}")]
    LanePaused {
        /// The lane.
        lane: Lane,
        /// Why, in the words of whoever paused it.
        reason: String,
    },
    /// The lane is not Stile's: its nonces are given out elsewhere, or by nobody.
    #[error("lane {lane} is not Stile's: {}", elsewhere.words())]
    LaneNotOwned {
        /// The lane.
        lane: Lane,
        /// Why not.
        elsewhere: Elsewhere,
    },
    /// Too many calls wait for the lane's worker.
    #[error("too many calls are waiting; come back in a moment")]
    QueueFull,
    /// The node is stopping and takes no more work.
    #[error("this node is shutting down")]
    ShuttingDown,
    /// The database does not answer. Nothing was written, or (with an `Idempotency-Key`) asking
    /// again under the same key tells.
    #[error("the store is not available: {0}")]
    StoreUnavailable(String),
    /// The lane is new and the chain does not say where its nonces start.
    #[error("lane {lane} is new and its first nonce is unknown: {why}")]
    ChainUnavailable {
        /// The lane.
        lane: Lane,
        /// What the endpoints said.
        why: String,
    },
    /// The database failed over or was restored, and the chain does not say how far the lane's
    /// nonces are used. Transactions are accepted meanwhile.
    #[error(
        "the database failed over or was restored, and lane {lane} gives out nothing before it is compared with \
         its chain: {why}"
    )]
    Unaligned {
        /// The lane.
        lane: Lane,
        /// What the endpoints said.
        why: String,
    },
    /// The node has just started or got the lane, and the chain does not say whether it is ahead of
    /// the database. Transactions are accepted meanwhile.
    #[error("lane {lane} gives out nothing before it is compared with its chain: {why}")]
    Uncompared {
        /// The lane.
        lane: Lane,
        /// What the endpoints said.
        why: String,
    },
    /// No hold of that id on that nonce.
    #[error("there is no hold of that id on that nonce")]
    HoldNotFound,
    /// The mark contradicts what is known of the hold.
    #[error("the hold is {} already", hold.status)]
    HoldConflict {
        /// The hold as it stands.
        hold: Box<Hold>,
    },
    /// The hold was released and its nonce has been given to somebody else since.
    #[error("the hold was released and its nonce has been given out again since")]
    HoldSuperseded {
        /// The hold as it ended.
        hold: Box<Hold>,
    },
    /// A bug, or a database that somebody else has written to.
    #[error("internal error: {0}")]
    Internal(String),
}

impl NonceError {
    /// How long to wait before trying again; `None` if trying again is pointless.
    pub fn retry_after(&self) -> Option<Duration> {
        let second = Duration::from_secs(1);
        match self {
            Self::NotHolder { owner, .. } if owner.url.is_none() => {
                Some(owner.remaining.max(second))
            }
            Self::NotHolder { .. }
            | Self::Fenced { .. }
            | Self::QueueFull
            | Self::ShuttingDown
            | Self::StoreUnavailable(_)
            | Self::ChainUnavailable { .. }
            | Self::Unaligned { .. }
            | Self::Uncompared { .. } => Some(second),
            Self::LanePaused { .. }
            | Self::LaneNotOwned { .. }
            | Self::HoldNotFound
            | Self::HoldConflict { .. }
            | Self::HoldSuperseded { .. }
            | Self::Internal(_) => None,
        }
    }
}

impl From<&StoreError> for NonceError {
    fn from(error: &StoreError) -> Self {
        match error.retry_after() {
            Some(_) => Self::StoreUnavailable(error.to_string()),
            None => Self::Internal(error.to_string()),
        }
    }
}

impl From<StoreError> for NonceError {
    fn from(error: StoreError) -> Self {
        Self::from(&error)
    }
}
