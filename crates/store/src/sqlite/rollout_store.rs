//! The part of the trait that is about whose the lanes are.

use async_trait::async_trait;
use stile_domain::v1::export::LedgerNonce;
use stile_domain::{ChainId, Lane, LaneOwner, NodeId, Nonce, Percent, Rollout};

use super::{SqliteStore, import, rollout};
use crate::{ImportPart, Imported, OwnerChange, RolloutStore, StoreError};

#[async_trait]
impl RolloutStore for SqliteStore {
    async fn rollout_version(&self) -> Result<u64, StoreError> {
        self.read(rollout::version).await
    }

    async fn rollout(&self) -> Result<Rollout, StoreError> {
        self.read(rollout::rollout).await
    }

    async fn set_share(
        &self,
        node: &NodeId,
        chain: ChainId,
        percent: Option<Percent>,
    ) -> Result<Vec<Lane>, StoreError> {
        let node = node.clone();
        self.write(move |c| rollout::set_share(c, &node, chain, percent)).await
    }

    async fn set_owner(
        &self,
        node: &NodeId,
        lanes: &[Lane],
        from: &[Option<LaneOwner>],
        to: LaneOwner,
    ) -> Result<Vec<OwnerChange>, StoreError> {
        let (node, lanes, from) = (node.clone(), lanes.to_vec(), from.to_vec());
        self.write(move |c| rollout::set_owner(c, &node, &lanes, &from, to)).await
    }

    async fn import_lane(
        &self,
        node: &NodeId,
        part: ImportPart<'_>,
    ) -> Result<Imported, StoreError> {
        let (node, lane, nonces, end) = (node.clone(), part.lane, part.nonces.to_vec(), part.end);
        self.write(move |c| import::import_lane(c, &node, lane, &nonces, end.as_ref())).await
    }

    async fn ledger(
        &self,
        lane: Lane,
        from: Nonce,
        limit: u32,
    ) -> Result<Vec<LedgerNonce>, StoreError> {
        self.read(move |c| import::ledger(c, lane, from, limit)).await
    }
}
