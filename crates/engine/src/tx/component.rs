//! `Transactions`: hand one over once, and it lands once.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use stile_chain::EstimateError;
use stile_domain::{ChainId, Fees, Finality, Header, Lane, Payload, TxId, Wait, request_hash};
use stile_store::{
    Acquisition, Attempt, NewTx, Owner, StoreError, StreamEvent, StreamPosition, Tx, TxEvent,
    TxFilter, TxPage,
};
use tokio::sync::{oneshot, watch};
use uuid::Uuid;

use crate::core::Core;
use crate::dispatch::{Call, Dispatch};
use crate::error::NonceError;
use crate::tx::admit::{self, Admitted, SendCall};
use crate::tx::balance::{self, Ticket};
use crate::tx::confirmations::{self, BlockRef};
use crate::tx::error::TxError;
use crate::tx::limits;
use crate::tx::tags;
use crate::tx::waits;
use crate::tx::wishes::{self, Cancelled, ReplaceError};

/// A transaction to be handed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TxRequest {
    /// Whose it is; request ids are unique per tenant and lane.
    pub tenant: String,
    /// The lane it goes on.
    pub lane: Lane,
    /// The caller's own name for it. Handing it over again under the same name changes nothing.
    pub request_id: Option<String>,
    /// What it is to do.
    pub payload: Payload,
    /// The evidence it asks for; the configured one if it asks for none.
    pub finality: Option<Finality>,
}

impl TxRequest {
    /// What a lane's signer is to do, with the configured finality. Give it a request id as well, so
    /// that it can be handed over again after a crash or a time-out without being done twice.
    pub fn new(lane: Lane, payload: Payload) -> Self {
        Self { tenant: String::new(), lane, request_id: None, payload, finality: None }
    }

    /// The caller's own name for it: handed over again under the same name, it is the same.
    pub fn request_id(mut self, id: impl Into<String>) -> Self {
        self.request_id = Some(id.into());
        self
    }

    /// The evidence to wait for before it is called done.
    pub fn finality(mut self, finality: Finality) -> Self {
        self.finality = Some(finality);
        self
    }
}

/// A transaction that is on record.
#[derive(Debug, Clone)]
pub struct Accepted {
    /// As it stands.
    pub tx: Tx,
    /// Whether this call made it, or an earlier one under the same request id.
    pub new: bool,
}

/// The blocks that confirm a transaction, as of now.
#[derive(Debug, Clone)]
pub struct Confirmations {
    /// Whether what the caller had seen was replaced: `blocks` is then the whole list.
    pub new_fork: bool,
    /// The blocks: the transaction's own first.
    pub blocks: Vec<BlockRef>,
}

/// How long a transaction that is waited for goes without a look.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// However much is being written, it is looked at no more often than this.
const AT_MOST_EVERY: Duration = Duration::from_millis(10);

/// Requests whose gas is found out at one time.
const PREPARED_AT_ONCE: usize = 16;

/// A request before its lane's turn.
enum Prepared {
    New(Box<NewTx>, Option<Ticket>),
    /// Answered already.
    Repeated(Box<Accepted>),
}

/// An answer that is there, or will be.
enum Awaited {
    Known(Box<Result<Accepted, TxError>>),
    Answer(Lane, oneshot::Receiver<Result<Admitted, TxError>>),
}

/// Takes transactions and sees to it that each lands exactly once.
///
/// Cheap to clone. A call that is dropped half-way is either not begun or carried through.
#[derive(Debug, Clone)]
pub struct Transactions {
    core: Arc<Core>,
    dispatch: Arc<Dispatch>,
}

impl Transactions {
    pub(crate) fn new(core: Arc<Core>, dispatch: Arc<Dispatch>) -> Self {
        Self { core, dispatch }
    }

    /// Whether Stile can sign and send for a lane.
    pub fn serves(&self, lane: Lane) -> bool {
        self.check_lane(lane).is_ok()
    }

    /// Who else holds a lane; `None` if this node does, or has just taken it, and for a lane that
    /// no transaction can be sent on here: that is said before anybody is asked. What the database
    /// said within the given time need not be asked again.
    pub async fn held_elsewhere(
        &self,
        lane: Lane,
        within: Duration,
    ) -> Result<Option<Owner>, NonceError> {
        if self.check_lane(lane).is_err() {
            return Ok(None);
        }
        let slot = self.core.lanes.slot(lane);
        if slot.trusted_claim().is_some() {
            return Ok(None);
        }
        if let Some(owner) = slot.elsewhere(within).filter(|_| self.core.queues()) {
            return Ok(Some(owner));
        }
        Ok(match self.core.acquire(&[lane]).await?.pop() {
            Some(Acquisition::Other(owner)) => Some(owner),
            _ => None,
        })
    }

    fn check_lane(&self, lane: Lane) -> Result<(), TxError> {
        if !self.core.signers.signs(lane) {
            return Err(TxError::NoKey { lane });
        }
        if self.core.tracks.get(lane.chain).is_none() {
            return Err(TxError::NoChain { lane });
        }
        Ok(())
    }

    /// Takes a transaction. When this returns it is durable, and it will land.
    pub async fn send(&self, request: TxRequest) -> Result<Accepted, TxError> {
        let stopping = || Err(TxError::Lane(NonceError::ShuttingDown));
        self.send_all(vec![request]).await.pop().unwrap_or_else(stopping)
    }

    /// Takes many, with an answer for each, in order. Those of one lane keep their order.
    pub async fn send_all(&self, requests: Vec<TxRequest>) -> Vec<Result<Accepted, TxError>> {
        let came = Instant::now();
        let prepared: Vec<_> = requests.into_iter().map(|request| self.prepare(request)).collect();
        let prepared: Vec<_> =
            futures::stream::iter(prepared).buffered(PREPARED_AT_ONCE).collect().await;
        let mut lanes: BTreeMap<Lane, Vec<SendCall>> = BTreeMap::new();
        let mut answers = Vec::with_capacity(prepared.len());
        for prepared in prepared {
            answers.push(match prepared {
                Ok(Prepared::New(new, ticket)) => {
                    let (reply, answer) = oneshot::channel();
                    let lane = new.lane;
                    let call = SendCall { new: *new, came, ticket, reply };
                    lanes.entry(lane).or_default().push(call);
                    Awaited::Answer(lane, answer)
                }
                Ok(Prepared::Repeated(accepted)) => Awaited::Known(Box::new(Ok(*accepted))),
                Err(error) => Awaited::Known(Box::new(Err(error))),
            });
        }
        let until = tokio::time::Instant::now() + self.core.settings.patience;
        let mut refused: HashMap<Lane, NonceError> = HashMap::new();
        for (lane, calls) in lanes {
            // A refused call is dropped, and its answers with it.
            if let Err(error) = self.dispatch.send(&self.core, Call::Send(lane, calls)).await {
                refused.insert(lane, error);
            }
        }
        let mut results = Vec::with_capacity(answers.len());
        for answer in answers {
            results.push(match answer {
                Awaited::Known(result) => *result,
                Awaited::Answer(lane, answer) => match self.core.in_time(until, answer).await {
                    Ok(Ok(result)) => result.map(|Admitted { tx, new }| Accepted { tx, new }),
                    Ok(Err(_)) => {
                        let error = refused.get(&lane).cloned();
                        Err(TxError::Lane(error.unwrap_or(NonceError::ShuttingDown)))
                    }
                    Err(late) => Err(TxError::Lane(late)),
                },
            });
        }
        results
    }

    /// Everything that can be found out before the lane's turn.
    async fn prepare(&self, request: TxRequest) -> Result<Prepared, TxError> {
        self.check_lane(request.lane)?;
        request.payload.check()?;
        let new = self.new_tx(request);
        let allowed = match tags::check(&self.core, new.lane, new.finality).await {
            Ok(()) => limits::check(&self.core, new.lane, &new.payload).await,
            lacking => lacking,
        };
        if let Err(above) = allowed {
            // What was taken before is answered as it was, whatever the limit is by now.
            let repeated = self.repeated(&new).await?;
            return repeated.map(|repeated| Prepared::Repeated(Box::new(repeated))).ok_or(above);
        }
        if new.gas_limit.is_none()
            && let Some(repeated) = self.repeated(&new).await?
        {
            return Ok(Prepared::Repeated(Box::new(repeated)));
        }
        let new = self.estimated(new).await?;
        match balance::enter(&self.core, &new).await {
            Ok(ticket) => Ok(Prepared::New(Box::new(new), ticket)),
            Err(low) => {
                let repeated = self.repeated(&new).await?;
                let repeated = repeated.map(|repeated| Prepared::Repeated(Box::new(repeated)));
                repeated.ok_or(low.into())
            }
        }
    }

    fn new_tx(&self, request: TxRequest) -> NewTx {
        NewTx {
            id: TxId(Uuid::now_v7()),
            replaces: None,
            tenant: request.tenant,
            lane: request.lane,
            request_id: request.request_id,
            request_hash: request_hash(&request.payload, request.finality.as_ref()),
            finality: request.finality.unwrap_or(self.core.settings.tx.finality),
            gas_limit: request.payload.gas_limit,
            payload: request.payload,
        }
    }

    /// A request that was made before is answered without an estimate.
    async fn repeated(&self, new: &NewTx) -> Result<Option<Accepted>, TxError> {
        let Some(request_id) = &new.request_id else { return Ok(None) };
        let ids = std::slice::from_ref(request_id);
        let found = self.core.store.txs_by_request(&new.tenant, new.lane, ids).await?.pop();
        let Some(tx) = found.flatten() else { return Ok(None) };
        admit::repeated(new, tx).map(|Admitted { tx, new }| Some(Accepted { tx, new }))
    }

    /// Finds out what gas it needs. With no endpoint reachable that is put off until a nonce is
    /// bound.
    async fn estimated(&self, mut new: NewTx) -> Result<NewTx, TxError> {
        if new.gas_limit.is_some() {
            return Ok(new);
        }
        let Some(track) = self.core.tracks.get(new.lane.chain) else { return Ok(new) };
        match track.pool.estimate_gas(new.lane.signer, &new.payload).await {
            Ok(estimate) => {
                // An endpoint that says less would have the lane stand still: no block has such a one.
                let estimate = limits::at_least(&self.core, track, &new.payload, estimate).await;
                new.gas_limit = Some(limits::gas_limit_to_take(track, estimate).await?);
            }
            Err(EstimateError::Reverted { reason, data }) => {
                let data = data.map(|data| data.to_string());
                return Err(TxError::EstimationReverted { reason, data });
            }
            Err(EstimateError::Refused(why)) => return Err(TxError::EstimationFailed(why)),
            Err(EstimateError::Unavailable(error)) => {
                tracing::debug!(%error, txId = %new.id, "no estimate yet");
                track.estimates().failed_at_acceptance(new.id, error.to_string());
            }
        }
        Ok(new)
    }

    /// Withdraws a transaction, if that can be had still. One that has a nonce gets an empty
    /// transaction at that nonce beside it, and whichever is mined decides.
    pub async fn cancel(&self, id: TxId) -> Result<Cancelled, ReplaceError> {
        wishes::cancel(&self.core, id).await
    }

    /// Has a transaction offer more: these fees, or what the policy says. What is stated here may be
    /// above what the request allowed, but not above the chain's limit.
    pub async fn speed_up(&self, id: TxId, fees: Option<Fees>) -> Result<Tx, ReplaceError> {
        wishes::speed_up(&self.core, id, fees).await
    }

    /// One transaction.
    pub async fn get(&self, id: TxId) -> Result<Option<Tx>, StoreError> {
        Ok(self.core.store.txs(&[id]).await?.pop().flatten())
    }

    /// One transaction, by its caller's name for it.
    pub async fn by_request(
        &self,
        tenant: &str,
        lane: Lane,
        request_id: &str,
    ) -> Result<Option<Tx>, StoreError> {
        let ids = [request_id.to_owned()];
        Ok(self.core.store.txs_by_request(tenant, lane, &ids).await?.pop().flatten())
    }

    /// A page of transactions, newest first.
    pub async fn page(&self, filter: &TxFilter) -> Result<TxPage, StoreError> {
        self.core.store.tx_page(filter).await
    }

    /// A transaction's history.
    pub async fn history(&self, id: TxId) -> Result<Vec<TxEvent>, StoreError> {
        self.core.store.history(id).await
    }

    /// A transaction's attempts.
    pub async fn attempts(&self, id: TxId) -> Result<Vec<Attempt>, StoreError> {
        self.core.store.attempts(id).await
    }

    /// How many blocks are on top of a transaction's own, as far as this node has followed the
    /// chain.
    pub fn confirmations_of(&self, tx: &Tx) -> u64 {
        let heads = self.core.tracks.get(tx.lane.chain).and_then(|track| track.heads());
        match (&tx.receipt, heads) {
            (Some(receipt), Some(heads)) => heads.confirmations(receipt.block_number),
            _ => 0,
        }
    }

    /// What each of these waits for, in the same order; `None` for those that are done.
    ///
    /// It follows from the rows, from what this node has in memory and, of lanes that it does not
    /// hold, from one read of the store. What only another node knows is not said.
    pub async fn waits(&self, txs: &[Tx]) -> Result<Vec<Option<Wait>>, StoreError> {
        waits::waits(&self.core, txs).await
    }

    /// The same for one, from memory alone.
    pub fn wait_known(&self, tx: &Tx) -> Option<Wait> {
        waits::wait(&self.core, tx, None)
    }

    /// The blocks that confirm a transaction. Given the newest block that the caller has seen on
    /// the list, only what has come since, unless that block is no longer canonical.
    pub async fn confirmations(
        &self,
        tx: &Tx,
        seen: Option<BlockRef>,
    ) -> Result<Confirmations, StoreError> {
        let headers = self.headers(tx.lane.chain).await?;
        let Some(receipt) = &tx.receipt else {
            return Ok(Confirmations { new_fork: seen.is_some(), blocks: Vec::new() });
        };
        let mut blocks =
            confirmations::list(headers.iter(), receipt, tx.finality, receipt.block_number);
        let own = BlockRef { number: receipt.block_number, hash: receipt.block_hash };
        if blocks.first() != Some(&own) {
            blocks.insert(0, own);
        }
        let Some(seen) = seen else { return Ok(Confirmations { new_fork: false, blocks }) };
        if blocks.contains(&seen) {
            blocks.retain(|block| block.number > seen.number);
            return Ok(Confirmations { new_fork: false, blocks });
        }
        Ok(Confirmations { new_fork: true, blocks })
    }

    /// The canonical headers: as this node follows them, or as they are on record.
    async fn headers(&self, chain: ChainId) -> Result<Vec<Header>, StoreError> {
        let track = self.core.tracks.get(chain);
        let followed: Vec<Header> =
            track.map(|track| track.window().from(0).copied().collect()).unwrap_or_default();
        if followed.is_empty() { self.core.store.headers(chain).await } else { Ok(followed) }
    }

    /// Waits until a transaction is done: `CONFIRMED`, or `FAILED`. `None` if there is none of that
    /// name. A database that is away is waited for; only the node's end cuts it short.
    pub async fn wait(&self, id: TxId) -> Result<Option<Tx>, StoreError> {
        let mut written = self.written();
        loop {
            match self.get(id).await {
                Ok(Some(tx)) if !tx.standing.is_done() => {}
                Err(error) if error.retry_after().is_some() => {}
                answer => return answer,
            }
            // Other nodes' entries come unannounced.
            let news = tokio::time::timeout(LOOK_AGAIN, written.changed());
            tokio::select! {
                () = self.core.stopping.cancelled() => {
                    return Err(StoreError::Unavailable("the node stops".into()));
                }
                _ = news => tokio::time::sleep(AT_MOST_EVERY).await,
            }
        }
    }

    /// The entries of all histories after a place in the stream.
    pub async fn events_after(
        &self,
        position: StreamPosition,
        limit: u32,
    ) -> Result<Vec<StreamEvent>, StoreError> {
        self.core.store.events_after(position, limit).await
    }

    /// Where the stream ends now.
    pub async fn stream_end(&self) -> Result<StreamPosition, StoreError> {
        self.core.store.stream_end().await
    }

    /// Changes whenever this node has written something to the stream. Other nodes' entries come
    /// unannounced.
    pub fn written(&self) -> watch::Receiver<u64> {
        self.core.events.subscribe()
    }
}
