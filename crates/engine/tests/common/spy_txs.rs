//! The transactions' part of the spy: passed on as it is.

use std::time::Duration;

use async_trait::async_trait;
use stile_domain::{B256, ChainId, Header, Lane, NodeId, Nonce, TxId};
use stile_store::{
    Acceptance, Attempt, HeaderUpdate, InFlightFrom, InFlightPage, LaneChanges, NewTx, NonceOwner,
    OpenCost, OpenTx, PageLimit, Recorded, Refusal, StoreError, StreamEvent, StreamPosition, Tx,
    TxBinding, TxEvent, TxFilter, TxPage, TxStore, Wish, Withdrawal,
};

use super::spy::Spy;

#[async_trait]
impl TxStore for Spy {
    async fn accept(&self, node: &NodeId, txs: &[NewTx]) -> Result<Vec<Acceptance>, StoreError> {
        self.inner.accept(node, txs).await
    }

    async fn withdraw(&self, node: &NodeId, id: TxId) -> Result<Withdrawal, StoreError> {
        self.inner.withdraw(node, id).await
    }

    async fn wish(&self, id: TxId, wish: &Wish) -> Result<Option<Tx>, StoreError> {
        self.inner.wish(id, wish).await
    }

    async fn wishes(&self, lanes: &[Lane]) -> Result<Vec<(Lane, TxId, Wish)>, StoreError> {
        self.inner.wishes(lanes).await
    }

    async fn nonce_owners(
        &self,
        lane: Lane,
        from: Nonce,
        limit: u32,
    ) -> Result<Vec<NonceOwner>, StoreError> {
        self.inner.nonce_owners(lane, from, limit).await
    }

    async fn with_attempts(&self, ids: &[TxId]) -> Result<Vec<OpenTx>, StoreError> {
        self.inner.with_attempts(ids).await
    }

    async fn txs_of_attempts(&self, hashes: &[B256]) -> Result<Vec<Option<TxId>>, StoreError> {
        self.inner.txs_of_attempts(hashes).await
    }

    async fn save_headers(&self, update: &HeaderUpdate) -> Result<(), StoreError> {
        self.inner.save_headers(update).await
    }

    async fn sweep_txs(
        &self,
        chain: ChainId,
        below: u64,
        kept: Duration,
        limit: u32,
    ) -> Result<u64, StoreError> {
        self.inner.sweep_txs(chain, below, kept, limit).await
    }

    async fn bind_txs(
        &self,
        node: &NodeId,
        bindings: &[TxBinding],
        lease: Duration,
    ) -> Result<Vec<Result<Vec<Tx>, Refusal>>, StoreError> {
        self.inner.bind_txs(node, bindings, lease).await
    }

    async fn record(
        &self,
        node: &NodeId,
        changes: &[LaneChanges],
        lease: Duration,
    ) -> Result<Vec<Result<Vec<Recorded>, Refusal>>, StoreError> {
        self.count("record");
        self.answers()?;
        self.inner.record(node, changes, lease).await
    }

    async fn txs(&self, ids: &[TxId]) -> Result<Vec<Option<Tx>>, StoreError> {
        self.inner.txs(ids).await
    }

    async fn txs_by_request(
        &self,
        tenant: &str,
        lane: Lane,
        request_ids: &[String],
    ) -> Result<Vec<Option<Tx>>, StoreError> {
        self.inner.txs_by_request(tenant, lane, request_ids).await
    }

    async fn read_back_txs(&self, lane: Lane, ids: &[TxId]) -> Result<Vec<Option<Tx>>, StoreError> {
        self.inner.read_back_txs(lane, ids).await
    }

    async fn tx_page(&self, filter: &TxFilter) -> Result<TxPage, StoreError> {
        self.inner.tx_page(filter).await
    }

    async fn history(&self, tx: TxId) -> Result<Vec<TxEvent>, StoreError> {
        self.inner.history(tx).await
    }

    async fn attempts(&self, tx: TxId) -> Result<Vec<Attempt>, StoreError> {
        self.inner.attempts(tx).await
    }

    async fn lanes_with_waiting(&self, lanes: &[Lane]) -> Result<Vec<Lane>, StoreError> {
        self.inner.lanes_with_waiting(lanes).await
    }

    async fn waiting(&self, lane: Lane, limit: u32) -> Result<Vec<Tx>, StoreError> {
        self.inner.waiting(lane, limit).await
    }

    async fn unestimated(&self, lanes: &[Lane], limit: u32) -> Result<Vec<Tx>, StoreError> {
        self.inner.unestimated(lanes, limit).await
    }
    async fn in_flight_page(
        &self,
        from: &[InFlightFrom],
        limit: PageLimit,
    ) -> Result<InFlightPage, StoreError> {
        self.page_begins();
        let page = self.inner.in_flight_page(from, limit).await.unwrap();
        self.page_read(&page);
        Ok(page)
    }

    async fn open_costs(
        &self,
        from: &[InFlightFrom],
        limit: u32,
    ) -> Result<Vec<OpenCost>, StoreError> {
        self.inner.open_costs(from, limit).await
    }

    async fn done_between(
        &self,
        chain: ChainId,
        lanes: &[Lane],
        above: u64,
        up_to: u64,
    ) -> Result<Vec<OpenTx>, StoreError> {
        self.inner.done_between(chain, lanes, above, up_to).await
    }

    async fn events_after(
        &self,
        position: StreamPosition,
        limit: u32,
    ) -> Result<Vec<StreamEvent>, StoreError> {
        self.inner.events_after(position, limit).await
    }

    async fn stream_end(&self) -> Result<StreamPosition, StoreError> {
        self.inner.stream_end().await
    }

    async fn headers(&self, chain: ChainId) -> Result<Vec<Header>, StoreError> {
        self.inner.headers(chain).await
    }

    async fn replaced_headers(&self, chain: ChainId) -> Result<Vec<Header>, StoreError> {
        self.inner.replaced_headers(chain).await
    }
}
