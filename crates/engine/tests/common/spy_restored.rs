//! The part of the spy about restored databases: passed on, or fenced.

use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use stile_domain::{Lane, NodeId, Nonce, TxId};
use stile_store::{
    Claim, LostTx, NewLaneEvent, Realign, Recovery, Refusal, RestoreMark, RestoreStore, StoreError,
    Tx,
};

use super::spy::Spy;

#[async_trait]
impl RestoreStore for Spy {
    async fn restored_lanes(&self) -> Result<Vec<(Lane, RestoreMark)>, StoreError> {
        self.inner.restored_lanes().await
    }

    async fn lacks_synchronous_standby(&self) -> Result<bool, StoreError> {
        self.inner.lacks_synchronous_standby().await
    }

    async fn history_name(&self) -> Result<String, StoreError> {
        self.inner.history_name().await
    }

    async fn unread_nonces(
        &self,
        lane: Lane,
        below: Nonce,
        limit: u32,
    ) -> Result<Vec<Nonce>, StoreError> {
        self.inner.unread_nonces(lane, below, limit).await
    }

    async fn lost_txs(&self, lane: Lane) -> Result<Vec<LostTx>, StoreError> {
        self.inner.lost_txs(lane).await
    }

    async fn awaiting_word(&self, lane: Lane, limit: u32) -> Result<Vec<Tx>, StoreError> {
        self.inner.awaiting_word(lane, limit).await
    }

    async fn set_unaligned(
        &self,
        claim: &Claim,
        lease: Duration,
    ) -> Result<Result<(), Refusal>, StoreError> {
        self.inner.set_unaligned(claim, lease).await
    }

    async fn note_lost(
        &self,
        claim: &Claim,
        found: &[LostTx],
        lease: Duration,
    ) -> Result<Result<(), Refusal>, StoreError> {
        self.inner.note_lost(claim, found, lease).await
    }

    async fn step_over(
        &self,
        claim: &Claim,
        realign: Realign,
        event: &NewLaneEvent,
        lease: Duration,
    ) -> Result<Result<(), Refusal>, StoreError> {
        self.inner.step_over(claim, realign, event, lease).await
    }

    async fn recover(
        &self,
        node: &NodeId,
        claim: &Claim,
        recovery: &Recovery,
        lease: Duration,
    ) -> Result<Result<Option<Tx>, Refusal>, StoreError> {
        self.count("recover");
        if self.fences_recoveries.load(Ordering::SeqCst) {
            let view = self.inner.lanes(&[claim.lane()]).await?.pop().flatten();
            return Ok(Err(Refusal::Fenced(view.expect("a lane").owner)));
        }
        self.inner.recover(node, claim, recovery, lease).await
    }

    async fn clear(
        &self,
        node: &NodeId,
        tx: TxId,
        mark: &RestoreMark,
        data: &Value,
    ) -> Result<Option<Tx>, StoreError> {
        self.inner.clear(node, tx, mark, data).await
    }

    async fn close_as_sent(
        &self,
        node: &NodeId,
        tx: TxId,
        mark: &RestoreMark,
        words: &str,
        data: &Value,
    ) -> Result<Option<Tx>, StoreError> {
        self.inner.close_as_sent(node, tx, mark, words, data).await
    }

    async fn settle_restore(
        &self,
        node: &NodeId,
        lane: Lane,
        mark: &RestoreMark,
        data: &Value,
    ) -> Result<Option<u64>, StoreError> {
        self.inner.settle_restore(node, lane, mark, data).await
    }
}
