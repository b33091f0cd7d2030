//! The part of the trait that is about whose the lanes are.

use async_trait::async_trait;
use stile_domain::v1::export::LedgerNonce;
use stile_domain::{ChainId, Lane, LaneOwner, NodeId, Nonce, Percent, Rollout};

use super::{PostgresStore, import, rollout};
use crate::{ImportPart, Imported, OwnerChange, RolloutStore, StoreError};

#[async_trait]
impl RolloutStore for PostgresStore {
    async fn rollout_version(&self) -> Result<u64, StoreError> {
        rollout::version(&self.sessions).await
    }

    async fn rollout(&self) -> Result<Rollout, StoreError> {
        rollout::rollout(&self.sessions).await
    }

    async fn set_share(
        &self,
        node: &NodeId,
        chain: ChainId,
        percent: Option<Percent>,
    ) -> Result<Vec<Lane>, StoreError> {
        rollout::set_share(&self.sessions, node, chain, percent).await
    }

    async fn set_owner(
        &self,
        node: &NodeId,
        lanes: &[Lane],
        from: &[Option<LaneOwner>],
        to: LaneOwner,
    ) -> Result<Vec<OwnerChange>, StoreError> {
        rollout::set_owner(&self.sessions, node, lanes, from, to).await
    }

    async fn import_lane(
        &self,
        node: &NodeId,
        part: ImportPart<'_>,
    ) -> Result<Imported, StoreError> {
        import::import_lane(&self.sessions, node, part).await
    }

    async fn ledger(
        &self,
        lane: Lane,
        from: Nonce,
        limit: u32,
    ) -> Result<Vec<LedgerNonce>, StoreError> {
        import::ledger(&self.sessions, lane, from, limit).await
    }
}
