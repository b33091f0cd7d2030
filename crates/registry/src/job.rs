//! Jobs and their ids.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{InvalidName, NodeId, PoolId, Requirement};

/// A job: a slot of a node, taken until it is completed or runs out.
///
/// The id carries the name of the node, so that any instance can complete the job without looking
/// anything up, and frees that slot and no other.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct JobId {
    unique: Uuid,
    node: NodeId,
}

/// A text that is no job id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the id of a job: give the jobId that the dispatch was answered with")]
pub struct InvalidJobId(String);

impl JobId {
    /// A new id for a slot of this node.
    pub fn on(node: NodeId) -> Self {
        Self { unique: Uuid::now_v7(), node }
    }

    /// The node whose slot it is.
    pub fn node(&self) -> &NodeId {
        &self.node
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.unique.simple(), self.node)
    }
}

impl FromStr for JobId {
    type Err = InvalidJobId;

    fn from_str(text: &str) -> Result<Self, InvalidJobId> {
        let invalid = || InvalidJobId(text.chars().take(200).collect());
        let (unique, node) = text.split_once('@').ok_or_else(invalid)?;
        let unique = Uuid::try_parse(unique).map_err(|_| invalid())?;
        let node = NodeId::new(node).map_err(|_: InvalidName| invalid())?;
        Ok(Self { unique, node })
    }
}

impl TryFrom<String> for JobId {
    type Error = InvalidJobId;
    fn try_from(text: String) -> Result<Self, InvalidJobId> {
        text.parse()
    }
}

impl From<JobId> for String {
    fn from(id: JobId) -> String {
        id.to_string()
    }
}

/// What a session wants done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JobRequest {
    /// Whose job it is; its jobs stay in one pool.
    pub session: String,
    /// What the node must offer: `asr`, or `asr:zh` for one language of it.
    #[serde(default)]
    pub services: Vec<Requirement>,
    /// The pool, if the caller knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolId>,
}

/// A job that a node has been found for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Job {
    /// To complete it with.
    pub job_id: JobId,
    /// Whose job it is.
    pub session: String,
    /// The pool the session is in.
    pub pool: PoolId,
    /// The node that has the slot.
    pub node_id: NodeId,
    /// What was asked for.
    pub services: Vec<Requirement>,
    /// When the slot is free again if nobody completes or extends the job: milliseconds since
    /// 1970 by the clock of Redis.
    pub expires_at: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_back_as_it_was_written() {
        let id = JobId::on(NodeId::new("speech-1:80").unwrap());
        assert_eq!(id.to_string().parse::<JobId>().unwrap(), id);
        let text = serde_json::to_string(&id).unwrap();
        assert_eq!(serde_json::from_str::<JobId>(&text).unwrap(), id);
        for bad in ["", "x@node", "0197@", &format!("{}@a b", Uuid::nil().simple())] {
            assert!(bad.parse::<JobId>().is_err(), "{bad}");
        }
    }
}
