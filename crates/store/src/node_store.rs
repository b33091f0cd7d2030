//! The part of the trait that is about the nodes themselves.

use std::time::Duration;

use async_trait::async_trait;
use stile_domain::{Holder, Incarnation, Lane, NodeId, NodeMode, Timestamp};
use tokio::sync::mpsc;

use crate::StoreError;

/// What a node tells of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRecord {
    /// Its name, which start of it, and where it is reached.
    pub holder: Holder,
    /// How calls reach their lanes on it.
    pub mode: NodeMode,
    /// What it serves, see [`stile_domain::serves`].
    pub serves: String,
    /// Whether it is about to end.
    pub draining: bool,
}

/// A node that was heard of lately.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveNode {
    /// What it told of itself.
    pub record: NodeRecord,
    /// When it started, by the database's clock.
    pub started_at: Timestamp,
    /// When it was last heard of.
    pub seen_at: Timestamp,
}

impl LiveNode {
    /// Its name.
    pub fn node(&self) -> &NodeId {
        &self.record.holder.node
    }
}

/// What nodes tell each other about a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LaneNews {
    /// Its holder has something to do: a transaction was accepted, or a wish left.
    Work(Lane),
    /// It was handed over, and nobody works it until its new holder has taken it.
    HandedOver(Lane),
}

/// What a node hears.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// This.
    News(Vec<LaneNews>),
    /// Nothing until now: what was said before is lost, so everything is to be looked at.
    Listening,
    /// Nothing from now on, until it is said that it is listened again.
    Deaf,
}

/// The nodes that share a database, as they tell of themselves. Nothing here decides who may write
/// what: a node that nobody has heard of may hold lanes, and one that everybody hears may not.
#[async_trait]
pub trait NodeStore: Send + Sync + std::fmt::Debug {
    /// Says that a node lives. With `start` it takes the name from whoever had it: of two that
    /// start, the later one has it. Answers with when it was heard, by the database's clock; `None` if
    /// a later start has the name: nothing is written then.
    async fn heartbeat(
        &self,
        node: &NodeRecord,
        start: bool,
    ) -> Result<Option<Timestamp>, StoreError>;

    /// The nodes that were heard of within this time, by name.
    async fn live_nodes(&self, within: Duration) -> Result<Vec<LiveNode>, StoreError>;

    /// Says that a node has ended. Leaves a later start of it alone.
    async fn leave(&self, node: &NodeId, incarnation: Incarnation) -> Result<(), StoreError>;

    /// Tells all nodes. It may get lost: whoever hears nothing looks by itself, only later.
    async fn tell_nodes(&self, news: &[LaneNews]) -> Result<(), StoreError>;

    /// Hears what nodes tell, for as long as the receiver is kept. `None` where one process has
    /// the database to itself.
    fn listen(&self) -> Option<mpsc::Receiver<Heard>>;
}
