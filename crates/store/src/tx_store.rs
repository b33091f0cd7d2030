//! The part of the trait that is about managed transactions.

use std::time::Duration;

use async_trait::async_trait;
use stile_domain::{B256, ChainId, Header, Lane, NodeId, Nonce, TxId};

use crate::{
    Acceptance, Attempt, HeaderUpdate, InFlightFrom, InFlightPage, LaneChanges, NewTx, NonceOwner,
    OpenCost, OpenTx, PageLimit, Recorded, Refusal, StoreError, StreamEvent, StreamPosition, Tx,
    TxBinding, TxEvent, TxFilter, TxPage, Wish, Withdrawal,
};

/// The durable truth about managed transactions. See [`crate::Store`] for what holds of all calls.
///
/// Every change of a transaction writes one entry of its history in the same commit.
#[async_trait]
pub trait TxStore: Send + Sync + std::fmt::Debug {
    // --- what needs no lease -------------------------------------------------------------------

    /// Accepts transactions as `CREATED`. One whose request id is taken is not written; the answer
    /// is what took it. Two of the slice may carry the same request id: the first wins. None is
    /// accepted for a lane that is not Stile's, whatever is changing hands at the same moment.
    async fn accept(&self, node: &NodeId, txs: &[NewTx]) -> Result<Vec<Acceptance>, StoreError>;

    /// Withdraws a transaction that has no nonce yet, by compare-and-set on `CREATED`: it is
    /// `FAILED`, and nobody binds it any more. What waits for a person's word is not: it may be on the
    /// chain.
    async fn withdraw(&self, node: &NodeId, id: TxId) -> Result<Withdrawal, StoreError>;

    /// Leaves a wish for the lane's holder, in place of an earlier one, if the transaction has a
    /// nonce and is not in a block. Answers with the transaction as it stands then; whether the wish
    /// was left is in it. `None` if there is none of that name.
    async fn wish(&self, id: TxId, wish: &Wish) -> Result<Option<Tx>, StoreError>;

    /// Writes down which blocks are canonical. Any node may: it is a memory of what was seen, and
    /// nothing is believed because it stands there.
    async fn save_headers(&self, update: &HeaderUpdate) -> Result<(), StoreError>;

    /// Removes transactions of a chain that are over, at most `limit`, each with its attempts, its
    /// history and its row in the nonce ledger, all of it in one commit; answers with how many. Any
    /// node may. Over are those that have been done for at least `kept` and that no reorganisation
    /// reopens any more: mined, together with the blocks told on top of them, below the height
    /// `below`; or failed without a nonce, or with one that the chain has passed below that height.
    /// The lane and its cursor stay, so that no nonce is given out again. A request id is forgotten
    /// together with its transaction.
    async fn sweep_txs(
        &self,
        chain: ChainId,
        below: u64,
        kept: Duration,
        limit: u32,
    ) -> Result<u64, StoreError>;

    // --- the holder's writes, each of them fenced ----------------------------------------------

    /// Binds nonces to transactions: moves cursors, writes the ledger, the signed attempts and the
    /// history. All of a lane's part or none of it: [`Refusal::RowLost`] if a waiting transaction
    /// waits no longer, a request id is taken or a released nonce is gone;
    /// [`Refusal::OthersWait`] if a new one would overtake older ones.
    async fn bind_txs(
        &self,
        node: &NodeId,
        bindings: &[TxBinding],
        lease: Duration,
    ) -> Result<Vec<Result<Vec<Tx>, Refusal>>, StoreError>;

    /// Writes what happened to transactions. A change that is [`Recorded::Lost`] harms no other. One
    /// that would open a transaction again which has a successor is lost, too, unless the successor
    /// was withdrawn before it had a nonce: the two could both be executed.
    async fn record(
        &self,
        node: &NodeId,
        changes: &[LaneChanges],
        lease: Duration,
    ) -> Result<Vec<Result<Vec<Recorded>, Refusal>>, StoreError>;

    // --- reads -----------------------------------------------------------------------------------

    /// The wishes left for the holder of these lanes.
    async fn wishes(&self, lanes: &[Lane]) -> Result<Vec<(Lane, TxId, Wish)>, StoreError>;

    /// Who has a lane's nonces from one on, lowest first. Nonces that nobody has are left out.
    async fn nonce_owners(
        &self,
        lane: Lane,
        from: Nonce,
        limit: u32,
    ) -> Result<Vec<NonceOwner>, StoreError>;

    /// Transactions with all of their attempts, in any state; those that do not exist are left out.
    async fn with_attempts(&self, ids: &[TxId]) -> Result<Vec<OpenTx>, StoreError>;

    /// Which transactions these attempts belong to, in the slice's order.
    async fn txs_of_attempts(&self, hashes: &[B256]) -> Result<Vec<Option<TxId>>, StoreError>;

    /// Transactions by name.
    async fn txs(&self, ids: &[TxId]) -> Result<Vec<Option<Tx>>, StoreError>;

    /// Transactions of a lane by the names their callers gave them.
    async fn txs_by_request(
        &self,
        tenant: &str,
        lane: Lane,
        request_ids: &[String],
    ) -> Result<Vec<Option<Tx>>, StoreError>;

    /// Which of these were written, read after waiting for whoever has the lane's row locked: the
    /// way to learn the fate of a commit whose answer was lost.
    async fn read_back_txs(&self, lane: Lane, ids: &[TxId]) -> Result<Vec<Option<Tx>>, StoreError>;

    /// A page of transactions.
    async fn tx_page(&self, filter: &TxFilter) -> Result<TxPage, StoreError>;

    /// A transaction's history, from the start.
    async fn history(&self, tx: TxId) -> Result<Vec<TxEvent>, StoreError>;

    /// A transaction's attempts, oldest first.
    async fn attempts(&self, tx: TxId) -> Result<Vec<Attempt>, StoreError>;

    /// Which of these lanes have transactions that wait for a nonce. Here and in
    /// [`TxStore::waiting`], and where a new one may not overtake others, those that wait for an
    /// estimate of their gas are left out: they hold up nobody.
    async fn lanes_with_waiting(&self, lanes: &[Lane]) -> Result<Vec<Lane>, StoreError>;

    /// The transactions of a lane that wait for a nonce, oldest first.
    async fn waiting(&self, lane: Lane, limit: u32) -> Result<Vec<Tx>, StoreError>;

    /// The transactions of these lanes that wait for an estimate of their gas (`ESTIMATING`), in
    /// order of acceptance.
    async fn unestimated(&self, lanes: &[Lane], limit: u32) -> Result<Vec<Tx>, StoreError>;

    /// The transactions of these lanes that have a nonce and are not done, as many as fit into one
    /// answer: the lowest nonce of each lane first, lanes in the order in which they are asked for. Go
    /// on with what the page says is left.
    async fn in_flight_page(
        &self,
        from: &[InFlightFrom],
        limit: PageLimit,
    ) -> Result<InFlightPage, StoreError>;

    /// All of them at once, by lane and nonce, however many there are: for tests and tools. Who
    /// serves reads pages.
    async fn open_txs(&self, lanes: &[Lane]) -> Result<Vec<OpenTx>, StoreError> {
        let limit = PageLimit { rows: 500, bytes: u64::MAX };
        let mut left: Vec<InFlightFrom> = lanes.iter().copied().map(InFlightFrom::start).collect();
        let mut all = Vec::new();
        while !left.is_empty() {
            let page = self.in_flight_page(&left, limit).await?;
            all.extend(page.txs);
            left = [page.unread, page.more].concat();
        }
        all.sort_unstable_by_key(|open: &OpenTx| (open.tx.lane, open.tx.nonce));
        Ok(all)
    }

    /// What the accounts of these lanes will be asked to pay for: what waits for a nonce, the oldest
    /// `limit` of each lane, and as many of what has this nonce or a later one and is in no block, as far
    /// as is on record.
    async fn open_costs(
        &self,
        from: &[InFlightFrom],
        limit: u32,
    ) -> Result<Vec<OpenCost>, StoreError>;

    /// The transactions of these lanes, of one chain, that are done and were mined above this
    /// height: what a reorganisation down to it reopens.
    async fn done_above(
        &self,
        chain: ChainId,
        lanes: &[Lane],
        height: u64,
    ) -> Result<Vec<OpenTx>, StoreError> {
        self.done_between(chain, lanes, height, i64::MAX.unsigned_abs()).await
    }

    /// The same, up to another height, which is one of them.
    async fn done_between(
        &self,
        chain: ChainId,
        lanes: &[Lane],
        above: u64,
        up_to: u64,
    ) -> Result<Vec<OpenTx>, StoreError>;

    /// The entries after a place in the stream, at most `limit`, in its order. Entries whose
    /// commits may still be overtaken are left for the next call.
    async fn events_after(
        &self,
        position: StreamPosition,
        limit: u32,
    ) -> Result<Vec<StreamEvent>, StoreError>;

    /// Where the stream ends now.
    async fn stream_end(&self) -> Result<StreamPosition, StoreError>;

    /// The canonical headers on record, oldest first.
    async fn headers(&self, chain: ChainId) -> Result<Vec<Header>, StoreError>;

    /// The headers on record that are canonical no longer, oldest first: they tell how far the chain
    /// had come before it was set back.
    async fn replaced_headers(&self, chain: ChainId) -> Result<Vec<Header>, StoreError>;
}
