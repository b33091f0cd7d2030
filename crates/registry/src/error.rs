//! What goes wrong, and what to do then.

use std::time::Duration;

use crate::{ConfigName, InvalidJobId, InvalidName, JobId, LeftOut, Mode, NodeId, Version};

/// Why a call was not done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// A name that cannot be one.
    #[error(transparent)]
    InvalidName(#[from] InvalidName),

    /// A text that is no job id.
    #[error(transparent)]
    InvalidJobId(#[from] InvalidJobId),

    /// The node is not registered, or was silent for too long.
    #[error("node {node} is not registered, or was silent for too long: register it (again)")]
    UnknownNode {
        /// The node.
        node: NodeId,
    },

    /// The node was removed, and this word comes from before.
    #[error(
        "node {node} was removed at version {version}: to come back it has to register as a new start"
    )]
    Removed {
        /// The node.
        node: NodeId,
        /// The version under which it was removed.
        version: Version,
    },

    /// A later word has been heard.
    #[error("node {node} is at version {version} already: this word is older and was not taken")]
    Stale {
        /// The node.
        node: NodeId,
        /// The version that is known.
        version: Version,
    },

    /// Nobody has a slot.
    #[error("no node has a free slot: {tried} refused, {left_out}; try again later or add nodes")]
    Full {
        /// How many nodes were asked and refused.
        tried: usize,
        /// Why the others were not asked.
        left_out: LeftOut,
    },

    /// The slot is not, or no longer, the job's.
    #[error("job {job} has no slot: it was completed, or ran out")]
    JobOver {
        /// The job.
        job: JobId,
    },

    /// Somebody else has written the configuration in the meantime.
    #[error("configuration {name} is at version {version}: read it again and decide anew")]
    ConfigConflict {
        /// The configuration.
        name: ConfigName,
        /// Its version now; 0 if there is none.
        version: u64,
    },

    /// Redis cannot be asked, and no guess will do.
    #[error("cannot {operation} while Redis is away (mode {mode}): {reason}; try again later")]
    Unavailable {
        /// What was wanted.
        operation: &'static str,
        /// The mode of this instance.
        mode: Mode,
        /// What Redis, or the way to it, said.
        reason: String,
    },
}

impl RegistryError {
    /// A stable name of the error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::InvalidName(_) => "invalid-name",
            Self::InvalidJobId(_) => "invalid-job-id",
            Self::UnknownNode { .. } => "node-unknown",
            Self::Removed { .. } => "node-removed",
            Self::Stale { .. } => "node-stale",
            Self::Full { .. } => "nodes-full",
            Self::JobOver { .. } => "job-over",
            Self::ConfigConflict { .. } => "config-conflict",
            Self::Unavailable { .. } => "registry-away",
        }
    }

    /// After what time trying the same again may help; `None` if it never does.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Full { .. } | Self::Unavailable { .. } => Some(Duration::from_secs(1)),
            _ => None,
        }
    }
}

/// Why a question was not answered by where the truth is kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BackendError {
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    #[error("{0}")]
    Failed(String),
}
