//! The part of the trait that is about managed transactions.

use std::time::Duration;

use async_trait::async_trait;
use stile_domain::{B256, ChainId, Header, Lane, NodeId, Nonce, TxId};

use super::{SqliteStore, accept, bind_txs, headers, read_txs, record, retention, stream, wishes};
use crate::{
    Acceptance, Attempt, HeaderUpdate, InFlightFrom, InFlightPage, LaneChanges, NewTx, NonceOwner,
    OpenCost, OpenTx, PageLimit, Recorded, Refusal, StoreError, StreamEvent, StreamPosition, Tx,
    TxBinding, TxEvent, TxFilter, TxPage, TxStore, Wish, Withdrawal,
};

#[async_trait]
impl TxStore for SqliteStore {
    async fn accept(&self, node: &NodeId, txs: &[NewTx]) -> Result<Vec<Acceptance>, StoreError> {
        let (node, txs) = (node.clone(), txs.to_vec());
        self.write(move |c| accept::accept(c, &node, &txs)).await
    }

    async fn withdraw(&self, node: &NodeId, id: TxId) -> Result<Withdrawal, StoreError> {
        let node = node.clone();
        self.write(move |c| wishes::withdraw(c, &node, id)).await
    }

    async fn wish(&self, id: TxId, wish: &Wish) -> Result<Option<Tx>, StoreError> {
        let wish = *wish;
        self.write(move |c| wishes::wish(c, id, &wish)).await
    }

    async fn save_headers(&self, update: &HeaderUpdate) -> Result<(), StoreError> {
        let update = update.clone();
        self.write(move |c| headers::save(c, &update)).await
    }

    async fn sweep_txs(
        &self,
        chain: ChainId,
        below: u64,
        kept: Duration,
        limit: u32,
    ) -> Result<u64, StoreError> {
        let over = self.read(move |c| retention::txs_over(c, chain, below, kept, limit)).await?;
        let mut removed = 0;
        for part in over.chunks(retention::PART) {
            let part = part.to_vec();
            removed += self.write(move |c| retention::sweep_txs(c, &part, below, kept)).await?;
        }
        Ok(removed)
    }

    async fn bind_txs(
        &self,
        node: &NodeId,
        bindings: &[TxBinding],
        lease: Duration,
    ) -> Result<Vec<Result<Vec<Tx>, Refusal>>, StoreError> {
        bindings.iter().try_for_each(TxBinding::check)?;
        let (node, bindings) = (node.clone(), bindings.to_vec());
        self.give_out(move |c| {
            bindings.iter().map(|binding| bind_txs::bind(c, &node, binding, lease)).collect()
        })
        .await
    }

    async fn record(
        &self,
        node: &NodeId,
        changes: &[LaneChanges],
        lease: Duration,
    ) -> Result<Vec<Result<Vec<Recorded>, Refusal>>, StoreError> {
        let (node, changes) = (node.clone(), changes.to_vec());
        self.write(move |c| {
            changes.iter().map(|part| record::record(c, &node, part, lease)).collect()
        })
        .await
    }

    async fn wishes(&self, lanes: &[Lane]) -> Result<Vec<(Lane, TxId, Wish)>, StoreError> {
        let mut lanes = lanes.to_vec();
        lanes.sort_unstable();
        self.read(move |c| {
            let found: Result<Vec<_>, _> =
                lanes.iter().map(|lane| wishes::wishes(c, *lane)).collect();
            Ok(found?.into_iter().flatten().collect())
        })
        .await
    }

    async fn nonce_owners(
        &self,
        lane: Lane,
        from: Nonce,
        limit: u32,
    ) -> Result<Vec<NonceOwner>, StoreError> {
        self.read(move |c| read_txs::nonce_owners(c, lane, from, limit)).await
    }

    async fn with_attempts(&self, ids: &[TxId]) -> Result<Vec<OpenTx>, StoreError> {
        let ids = ids.to_vec();
        self.read(move |c| {
            let found: Result<Vec<_>, _> =
                ids.iter().map(|id| read_txs::with_attempts(c, *id)).collect();
            Ok(found?.into_iter().flatten().collect())
        })
        .await
    }

    async fn txs_of_attempts(&self, hashes: &[B256]) -> Result<Vec<Option<TxId>>, StoreError> {
        let hashes = hashes.to_vec();
        self.read(move |c| hashes.iter().map(|hash| read_txs::tx_of_attempt(c, hash)).collect())
            .await
    }

    async fn txs(&self, ids: &[TxId]) -> Result<Vec<Option<Tx>>, StoreError> {
        let ids = ids.to_vec();
        self.read(move |c| ids.iter().map(|id| read_txs::tx(c, *id)).collect()).await
    }

    async fn txs_by_request(
        &self,
        tenant: &str,
        lane: Lane,
        request_ids: &[String],
    ) -> Result<Vec<Option<Tx>>, StoreError> {
        let (tenant, request_ids) = (tenant.to_owned(), request_ids.to_vec());
        self.read(move |c| {
            let found = request_ids.iter().map(|id| read_txs::tx_by_request(c, &tenant, lane, id));
            found.collect()
        })
        .await
    }

    async fn read_back_txs(&self, lane: Lane, ids: &[TxId]) -> Result<Vec<Option<Tx>>, StoreError> {
        let ids = ids.to_vec();
        // On the writer's thread: behind every commit that was under way.
        self.write(move |c| {
            let found = ids.iter().map(|id| read_txs::tx(c, *id));
            found.map(|tx| Ok(tx?.filter(|tx| tx.lane == lane))).collect()
        })
        .await
    }

    async fn tx_page(&self, filter: &TxFilter) -> Result<TxPage, StoreError> {
        let filter = filter.clone();
        self.read(move |c| read_txs::tx_page(c, &filter)).await
    }

    async fn history(&self, tx: TxId) -> Result<Vec<TxEvent>, StoreError> {
        self.read(move |c| read_txs::history(c, tx)).await
    }

    async fn attempts(&self, tx: TxId) -> Result<Vec<Attempt>, StoreError> {
        self.read(move |c| read_txs::attempts(c, tx)).await
    }

    async fn lanes_with_waiting(&self, lanes: &[Lane]) -> Result<Vec<Lane>, StoreError> {
        let lanes = lanes.to_vec();
        self.read(move |c| {
            let mut with_waiting = Vec::new();
            for lane in lanes {
                if read_txs::has_waiting(c, lane)? {
                    with_waiting.push(lane);
                }
            }
            Ok(with_waiting)
        })
        .await
    }

    async fn waiting(&self, lane: Lane, limit: u32) -> Result<Vec<Tx>, StoreError> {
        self.read(move |c| read_txs::waiting(c, lane, limit)).await
    }

    async fn unestimated(&self, lanes: &[Lane], limit: u32) -> Result<Vec<Tx>, StoreError> {
        let lanes = lanes.to_vec();
        self.read(move |c| {
            let found: Result<Vec<_>, _> =
                lanes.iter().map(|lane| read_txs::unestimated(c, *lane, limit)).collect();
            let mut found: Vec<Tx> = found?.into_iter().flatten().collect();
            found.sort_unstable_by_key(|tx| tx.position);
            found.truncate(limit as usize);
            Ok(found)
        })
        .await
    }
    async fn in_flight_page(
        &self,
        from: &[InFlightFrom],
        limit: PageLimit,
    ) -> Result<InFlightPage, StoreError> {
        let from = from.to_vec();
        self.read(move |c| read_txs::in_flight_page(c, &from, limit)).await
    }

    async fn open_costs(
        &self,
        from: &[InFlightFrom],
        limit: u32,
    ) -> Result<Vec<OpenCost>, StoreError> {
        let from = from.to_vec();
        self.read(move |c| {
            let mut costs = Vec::new();
            for from in &from {
                costs.extend(read_txs::open_costs(c, from, limit)?);
            }
            Ok(costs)
        })
        .await
    }

    async fn done_between(
        &self,
        chain: ChainId,
        lanes: &[Lane],
        above: u64,
        up_to: u64,
    ) -> Result<Vec<OpenTx>, StoreError> {
        let mut lanes: Vec<Lane> =
            lanes.iter().copied().filter(|lane| lane.chain == chain).collect();
        lanes.sort_unstable();
        self.read(move |c| {
            let done: Result<Vec<_>, _> =
                lanes.iter().map(|lane| read_txs::done_between(c, *lane, above, up_to)).collect();
            Ok(done?.into_iter().flatten().collect())
        })
        .await
    }

    async fn events_after(
        &self,
        position: StreamPosition,
        limit: u32,
    ) -> Result<Vec<StreamEvent>, StoreError> {
        self.read(move |c| stream::events_after(c, position, limit)).await
    }

    async fn stream_end(&self) -> Result<StreamPosition, StoreError> {
        self.read(stream::stream_end).await
    }

    async fn headers(&self, chain: ChainId) -> Result<Vec<Header>, StoreError> {
        self.read(move |c| headers::headers(c, chain)).await
    }

    async fn replaced_headers(&self, chain: ChainId) -> Result<Vec<Header>, StoreError> {
        self.read(move |c| headers::replaced(c, chain)).await
    }
}
