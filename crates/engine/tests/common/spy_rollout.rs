//! The part of the spy about whose the lanes are: passed on as it is.

use async_trait::async_trait;
use stile_domain::v1::export::LedgerNonce;
use stile_domain::{ChainId, Lane, LaneOwner, NodeId, Nonce, Percent, Rollout};
use stile_store::{ImportPart, Imported, OwnerChange, RolloutStore, StoreError};

use super::spy::Spy;

#[async_trait]
impl RolloutStore for Spy {
    async fn rollout_version(&self) -> Result<u64, StoreError> {
        self.inner.rollout_version().await
    }

    async fn rollout(&self) -> Result<Rollout, StoreError> {
        self.inner.rollout().await
    }

    async fn set_share(
        &self,
        node: &NodeId,
        chain: ChainId,
        percent: Option<Percent>,
    ) -> Result<Vec<Lane>, StoreError> {
        self.inner.set_share(node, chain, percent).await
    }

    async fn set_owner(
        &self,
        node: &NodeId,
        lanes: &[Lane],
        from: &[Option<LaneOwner>],
        to: LaneOwner,
    ) -> Result<Vec<OwnerChange>, StoreError> {
        self.inner.set_owner(node, lanes, from, to).await
    }

    async fn import_lane(
        &self,
        node: &NodeId,
        part: ImportPart<'_>,
    ) -> Result<Imported, StoreError> {
        self.inner.import_lane(node, part).await
    }

    async fn ledger(
        &self,
        lane: Lane,
        from: Nonce,
        limit: u32,
    ) -> Result<Vec<LedgerNonce>, StoreError> {
        self.inner.ledger(lane, from, limit).await
    }
}
