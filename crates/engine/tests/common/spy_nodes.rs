//! The nodes' part of the spy: passed on as it is.

use std::time::Duration;

use async_trait::async_trait;
use stile_domain::{Incarnation, NodeId, Timestamp};
use stile_store::{Heard, LaneNews, LiveNode, NodeRecord, NodeStore, StoreError};
use tokio::sync::mpsc;

use super::spy::Spy;

#[async_trait]
impl NodeStore for Spy {
    async fn heartbeat(
        &self,
        node: &NodeRecord,
        start: bool,
    ) -> Result<Option<Timestamp>, StoreError> {
        self.inner.heartbeat(node, start).await
    }

    async fn live_nodes(&self, within: Duration) -> Result<Vec<LiveNode>, StoreError> {
        self.inner.live_nodes(within).await
    }

    async fn leave(&self, node: &NodeId, incarnation: Incarnation) -> Result<(), StoreError> {
        self.inner.leave(node, incarnation).await
    }

    async fn tell_nodes(&self, news: &[LaneNews]) -> Result<(), StoreError> {
        self.inner.tell_nodes(news).await
    }

    fn listen(&self) -> Option<mpsc::Receiver<Heard>> {
        self.inner.listen()
    }
}
