//! Where the nodes are learned from.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use stile_domain::Timestamp;
use stile_store::{LiveNode, NodeRecord, Store, StoreError};

/// Knows which nodes live. What it says makes things fast or slow and never right or wrong.
#[async_trait]
pub trait Membership: Send + Sync + std::fmt::Debug {
    /// Says that this node lives; with `start`, that it has just started. Answers with when that was
    /// heard, by the database's clock; `None` if a later start has its name.
    async fn beat(&self, node: &NodeRecord, start: bool) -> Result<Option<Timestamp>, StoreError>;

    /// The nodes that live, this one included, by name.
    async fn live(&self) -> Result<Vec<LiveNode>, StoreError>;

    /// Says that this node has ended.
    async fn leave(&self, node: &NodeRecord) -> Result<(), StoreError>;
}

/// The nodes as the store has them.
#[derive(Debug)]
pub struct InStore {
    store: Arc<dyn Store>,
    within: Duration,
}

impl InStore {
    /// Those who were heard of within this time live.
    pub fn new(store: Arc<dyn Store>, within: Duration) -> Self {
        Self { store, within }
    }
}

#[async_trait]
impl Membership for InStore {
    async fn beat(&self, node: &NodeRecord, start: bool) -> Result<Option<Timestamp>, StoreError> {
        self.store.heartbeat(node, start).await
    }

    async fn live(&self) -> Result<Vec<LiveNode>, StoreError> {
        self.store.live_nodes(self.within).await
    }

    async fn leave(&self, node: &NodeRecord) -> Result<(), StoreError> {
        self.store.leave(&node.holder.node, node.holder.incarnation).await
    }
}
