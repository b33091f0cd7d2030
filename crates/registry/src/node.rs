//! What is known of a node.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{NodeId, PoolId, ServiceName};

/// Which of two states of a node is the later one. The incarnation rises with each start of the
/// node, the sequence with each write of one start; compared in this order, they only rise.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub struct Version {
    /// Which start of the node.
    pub incarnation: u64,
    /// Which write of that start.
    pub sequence: u64,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({}, {})", self.incarnation, self.sequence)
    }
}

/// Whether a node wants to be asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It does.
    #[default]
    Online,
    /// It lives, and wants no more work.
    Offline,
}

/// How a node says it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Health {
    /// Works.
    #[default]
    Online,
    /// Does not work.
    Offline,
    /// Not yet, or not at the moment.
    NotReady,
}

/// What a node offers, and for what: `asr: [zh, en]`. An empty set is a service without such
/// distinctions.
pub type Services = BTreeMap<ServiceName, BTreeSet<ServiceName>>;

/// What a node has and how much of it is in use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resources {
    /// How many jobs it takes at a time.
    pub max_concurrency: u32,
    /// How many ran at its last heartbeat, by the capacity record; not the node's own word.
    pub current_jobs: u32,
    /// Share of its processors in use, 0 to 1.
    pub cpu_usage: f64,
    /// Share of its graphics processors in use, if it has any.
    pub gpu_usage: Option<f64>,
    /// Share of its memory in use, 0 to 1.
    pub memory_usage: f64,
}

/// A node as of its last heartbeat. A snapshot: it does not change; a later one replaces it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    /// Its name.
    pub id: NodeId,
    /// Which start of it.
    pub incarnation: u64,
    /// Which write of that start.
    pub sequence: u64,
    /// Whether it wants to be asked.
    pub status: Status,
    /// How it says it is.
    pub health: Health,
    /// The pools it is in.
    pub pools: Vec<PoolId>,
    /// What it offers.
    pub services: Services,
    /// What it has.
    pub resources: Resources,
    /// What is installed on it, in its own words.
    pub installed_services: Vec<String>,
    /// What it can do, in its own words.
    pub features: BTreeMap<String, Value>,
    /// When it was last heard of: milliseconds since 1970 by the clock of Redis.
    pub last_heartbeat_ms: u64,
}

impl Node {
    /// Which state of the node this is.
    pub fn version(&self) -> Version {
        Version { incarnation: self.incarnation, sequence: self.sequence }
    }

    /// Whether it may be given work, as far as it says itself.
    pub fn is_ready(&self) -> bool {
        self.status == Status::Online && self.health == Health::Online
    }
}

/// What the capacity record of a node says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capacity {
    /// How many slots there are.
    pub max: u32,
    /// Slots in which jobs run.
    pub running: u32,
    /// Slots promised and not confirmed yet.
    pub reserved: u32,
}

impl Capacity {
    /// Slots that nobody else can have.
    pub fn used(&self) -> u32 {
        self.running.saturating_add(self.reserved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_start_is_later_whatever_the_sequence() {
        let version = |incarnation, sequence| Version { incarnation, sequence };
        assert!(version(2, 1) > version(1, 99));
        assert!(version(2, 2) > version(2, 1));
    }

    #[test]
    fn the_form_on_the_wire_is_the_documented_one() {
        let text = r#"{"id":"n","incarnation":1,"sequence":2,"status":"online","health":"NotReady",
            "pools":["p"],"services":{"asr":["en","zh"]},
            "resources":{"maxConcurrency":4,"currentJobs":1,"cpuUsage":0.5,"gpuUsage":null,"memoryUsage":0.25},
            "installedServices":["x"],"features":{"streaming":true},"lastHeartbeatMs":7}"#;
        let node: Node = serde_json::from_str(text).unwrap();
        let value: Value = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_value(&node).unwrap(), value);
        assert!(!node.is_ready());
    }
}
