//! Who a running process is.

use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

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
