//! The part of the trait that is about managed transactions.

use std::time::Duration;

use async_trait::async_trait;
use stile_domain::{B256, ChainId, Header, Lane, NodeId, Nonce, TxId};

use super::accept::Accept;
use super::bind_txs::BindTxs;
use super::by_request::{ByRequest, Name};
use super::record::Record;
use super::{PostgresStore, headers, read_txs, retention, stream, wishes};
use crate::{
    Acceptance, Attempt, HeaderUpdate, InFlightFrom, InFlightPage, LaneChanges, NewTx, NonceOwner,
    OpenCost, OpenTx, PageLimit, Recorded, Refusal, StoreError, StreamEvent, StreamPosition, Tx,
    TxBinding, TxEvent, TxFilter, TxPage, TxStore, Wish, Withdrawal,
};

#[async_trait]
impl TxStore for PostgresStore {
    async fn accept(&self, node: &NodeId, txs: &[NewTx]) -> Result<Vec<Acceptance>, StoreError> {
        let work = Accept { node: node.clone() };
        self.acceptances.run(&self.sessions, work, txs).await
    }

    async fn withdraw(&self, node: &NodeId, id: TxId) -> Result<Withdrawal, StoreError> {
        wishes::withdraw(&self.sessions, node, id).await
    }

    async fn wish(&self, id: TxId, wish: &Wish) -> Result<Option<Tx>, StoreError> {
        wishes::wish(&self.sessions, id, wish).await
    }

    async fn save_headers(&self, update: &HeaderUpdate) -> Result<(), StoreError> {
        headers::save(&self.sessions, update).await
    }

    async fn sweep_txs(
        &self,
        chain: ChainId,
        below: u64,
        kept: Duration,
        limit: u32,
    ) -> Result<u64, StoreError> {
        retention::sweep_txs(&self.sessions, chain, below, kept, limit).await
    }

    async fn bind_txs(
        &self,
        node: &NodeId,
        bindings: &[TxBinding],
        lease: Duration,
    ) -> Result<Vec<Result<Vec<Tx>, Refusal>>, StoreError> {
        bindings.iter().try_for_each(TxBinding::check)?;
        let work = BindTxs { node: node.clone(), lease };
        self.tx_bindings.run(&self.sessions, work, bindings).await
    }

    async fn record(
        &self,
        node: &NodeId,
        changes: &[LaneChanges],
        lease: Duration,
    ) -> Result<Vec<Result<Vec<Recorded>, Refusal>>, StoreError> {
        let work = Record { node: node.clone(), lease };
        self.records.run(&self.sessions, work, changes).await
    }

    async fn wishes(&self, lanes: &[Lane]) -> Result<Vec<(Lane, TxId, Wish)>, StoreError> {
        wishes::wishes(&self.sessions, lanes).await
    }

    async fn nonce_owners(
        &self,
        lane: Lane,
        from: Nonce,
        limit: u32,
    ) -> Result<Vec<NonceOwner>, StoreError> {
        read_txs::nonce_owners(&self.sessions, lane, from, limit).await
    }

    async fn with_attempts(&self, ids: &[TxId]) -> Result<Vec<OpenTx>, StoreError> {
        read_txs::with_attempts(&self.sessions, ids).await
    }

    async fn txs_of_attempts(&self, hashes: &[B256]) -> Result<Vec<Option<TxId>>, StoreError> {
        read_txs::txs_of_attempts(&self.sessions, hashes).await
    }

    async fn txs(&self, ids: &[TxId]) -> Result<Vec<Option<Tx>>, StoreError> {
        read_txs::txs(&self.sessions, ids).await
    }

    async fn txs_by_request(
        &self,
        tenant: &str,
        lane: Lane,
        request_ids: &[String],
    ) -> Result<Vec<Option<Tx>>, StoreError> {
        let name = |id: &String| Name { tenant: tenant.to_owned(), lane, request_id: id.clone() };
        let names: Vec<Name> = request_ids.iter().map(name).collect();
        self.requests.run(&self.sessions, ByRequest, &names).await
    }

    async fn read_back_txs(&self, lane: Lane, ids: &[TxId]) -> Result<Vec<Option<Tx>>, StoreError> {
        read_txs::read_back(&self.sessions, lane, ids).await
    }

    async fn tx_page(&self, filter: &TxFilter) -> Result<TxPage, StoreError> {
        read_txs::tx_page(&self.sessions, filter).await
    }

    async fn history(&self, tx: TxId) -> Result<Vec<TxEvent>, StoreError> {
        read_txs::history(&self.sessions, tx).await
    }

    async fn attempts(&self, tx: TxId) -> Result<Vec<Attempt>, StoreError> {
        read_txs::attempts(&self.sessions, tx).await
    }

    async fn lanes_with_waiting(&self, lanes: &[Lane]) -> Result<Vec<Lane>, StoreError> {
        read_txs::lanes_with_waiting(&self.sessions, lanes).await
    }

    async fn waiting(&self, lane: Lane, limit: u32) -> Result<Vec<Tx>, StoreError> {
        read_txs::waiting(&self.sessions, lane, limit).await
    }

    async fn unestimated(&self, lanes: &[Lane], limit: u32) -> Result<Vec<Tx>, StoreError> {
        read_txs::unestimated(&self.sessions, lanes, limit).await
    }
    async fn in_flight_page(
        &self,
        from: &[InFlightFrom],
        limit: PageLimit,
    ) -> Result<InFlightPage, StoreError> {
        read_txs::in_flight_page(&self.sessions, from, limit).await
    }

    async fn open_costs(
        &self,
        from: &[InFlightFrom],
        limit: u32,
    ) -> Result<Vec<OpenCost>, StoreError> {
        read_txs::open_costs(&self.sessions, from, limit).await
    }

    async fn done_between(
        &self,
        chain: ChainId,
        lanes: &[Lane],
        above: u64,
        up_to: u64,
    ) -> Result<Vec<OpenTx>, StoreError> {
        read_txs::done_between(&self.sessions, chain, lanes, above, up_to).await
    }

    async fn events_after(
        &self,
        position: StreamPosition,
        limit: u32,
    ) -> Result<Vec<StreamEvent>, StoreError> {
        stream::events_after(&self.sessions, position, limit).await
    }

    async fn stream_end(&self) -> Result<StreamPosition, StoreError> {
        stream::stream_end(&self.sessions).await
    }

    async fn headers(&self, chain: ChainId) -> Result<Vec<Header>, StoreError> {
        headers::headers(&self.sessions, chain).await
    }

    async fn replaced_headers(&self, chain: ChainId) -> Result<Vec<Header>, StoreError> {
        headers::replaced(&self.sessions, chain).await
    }
}
