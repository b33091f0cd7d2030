//! Who a running process is.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::Lane;

/// The name people know a node by. It survives restarts and therefore proves nothing: two
/// processes may carry it at once, one of them a zombie. The protocol goes by [`Incarnation`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NodeId(pub String);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One start of one process. Fresh every time, so a restarted process never shares a token with
/// what is left of its predecessor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Incarnation(pub Uuid);

impl Incarnation {
    /// A new one. To be called once per process start.
    pub fn fresh() -> Self {
        Self(Uuid::new_v4())
    }
}

/// What a node writes on a lane row when it takes the lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// For people, logs and metrics.
    pub node: NodeId,
    /// For the protocol.
    pub incarnation: Incarnation,
    /// Where other nodes and clients reach this node, if it says so.
    pub url: Option<String>,
}

/// How calls reach their lanes on a node, as it tells the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NodeMode {
    /// Each call works by itself, on whatever node it lands.
    Basic,
    /// Calls queue per lane, and lanes have a node that they had best be on.
    WorkerQueue,
}

impl NodeMode {
    /// Its name in configurations and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Basic => "basic",
            Self::WorkerQueue => "worker-queue",
        }
    }

    /// The mode of this name.
    pub fn of_name(name: &str) -> Option<Self> {
        [Self::Basic, Self::WorkerQueue].into_iter().find(|mode| mode.name() == name)
    }
}

/// A short text for what a node serves: its lanes, and of which of them it has the key. Nodes of
/// one configuration have the same text, so lanes may move between them; where it differs, one of
/// them may be unable to sign for what the other one holds.
pub fn serves(lanes: impl IntoIterator<Item = (Lane, bool)>) -> String {
    let lines = lanes.into_iter().map(|(lane, with_key)| format!("{lane} {with_key}\n"));
    let lines: BTreeSet<String> = lines.collect();
    let digest = Sha256::digest(lines.into_iter().collect::<String>());
    digest[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Address, ChainId};

    #[test]
    fn nodes_that_serve_the_same_say_the_same() {
        let lane = |n: u8| Lane::new(ChainId::new(1).unwrap(), Address::repeat_byte(n));
        let text = serves([(lane(1), true), (lane(2), false)]);
        assert_eq!(text, serves([(lane(2), false), (lane(1), true)]));
        assert_ne!(text, serves([(lane(1), true), (lane(2), true)]));
        assert_ne!(text, serves([(lane(1), true)]));
        assert_eq!(text.len(), 16);
    }

    #[test]
    fn modes_are_known_by_name() {
        for mode in [NodeMode::Basic, NodeMode::WorkerQueue] {
            assert_eq!(NodeMode::of_name(mode.name()), Some(mode));
        }
        assert_eq!(NodeMode::of_name("queue"), None);
    }
}
