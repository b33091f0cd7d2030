//! What every part of the engine shares.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stile_chain::{BlockTag, ChainError, NonceSource};
use stile_domain::{Counted, Holder, Lane, Nonce};
use stile_store::{Acquisition, Claim, HeldLane, Owner, Store, StoreError, Takeover};
use stile_tasks::Tasks;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};

use crate::cluster::membership::Membership;
use crate::cluster::{Bell, Members};
use crate::error::NonceError;
use crate::lanes::{Lanes, Slot};
use crate::metrics;
use crate::orphans::Orphans;
use crate::rollout::RolloutView;
use crate::settings::{ChainQuery, Mode, Settings};
use crate::signers::Signers;
use crate::signing::Signing;
use crate::start;
use crate::tx;

/// How long a lane that has run out is left to the node that it had best be on, before any other
/// takes it. Each looks once a second, so that node has looked by then, if it lives.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) chain: Arc<dyn NonceSource>,
    pub(crate) settings: Settings,
    pub(crate) holder: Holder,
    pub(crate) lanes: Lanes,
    pub(crate) orphans: Orphans,
    /// Work that must be finished before the process may end, whoever has stopped waiting for it.
    pub(crate) tasks: Tasks,
    /// On which lanes no signatures are had.
    pub(crate) signing: Signing,
    /// Who signs on which lane.
    pub(crate) signers: Signers,
    /// The chains that transactions go to, and what is open on them.
    pub(crate) tracks: tx::Tracks,
    /// Where changes of transactions are written down.
    pub(crate) recorder: tx::Recorder,
    /// Work that decides such changes; the recorder outlives it.
    pub(crate) producers: Tasks,
    /// Rises with every commit that adds to the stream of events.
    pub(crate) events: watch::Sender<u64>,
    /// Where the other nodes are learned from.
    pub(crate) membership: Arc<dyn Membership>,
    /// The nodes that live.
    pub(crate) members: Members,
    /// What is to be told to other nodes.
    pub(crate) bell: Bell,
    /// Which lanes are Stile's.
    pub(crate) rollout: RolloutView,
    /// Cancelled when no more calls are taken.
    pub(crate) stopping: CancellationToken,
}

impl Core {
    pub(crate) fn lease(&self) -> Duration {
        self.settings.lease.duration
    }

    /// Whether calls queue per lane.
    pub(crate) fn queues(&self) -> bool {
        matches!(self.settings.mode, Mode::WorkerQueue(_))
    }

    /// Whether asking for a lane would be in vain, as far as is known. Where calls queue per lane,
    /// they share what the last one was told. Only for work that is left to whoever holds the lane:
    /// if it has changed hands since, the next holder finds it.
    pub(crate) fn is_known_elsewhere(&self, slot: &Slot) -> bool {
        let lease = self.settings.lease.duration;
        self.queues() && slot.trusted_claim().is_none() && slot.elsewhere(lease).is_some()
    }

    /// Until when a lease is believed in whose request is being sent now.
    pub(crate) fn trust_from_now(&self) -> Instant {
        Instant::now() + self.settings.lease.trust()
    }

    /// Asks the database for lanes. Answers in the lanes' order and remembers what it got. A cursor
    /// is not told before it has been held against the chain once, see `start`.
    pub(crate) async fn acquire(
        self: &Arc<Self>,
        lanes: &[Lane],
    ) -> Result<Vec<Acquisition>, StoreError> {
        let until = self.trust_from_now();
        let mut answers = self.ask(lanes).await;
        if matches!(answers, Err(StoreError::CommitUnknown(_))) {
            // What is ours already is answered as ours, so asking again is how to learn it.
            answers = self.ask(lanes).await;
        }
        let mut answers = answers.inspect_err(|_| {
            metrics::lease_acquired("error");
            metrics::store_failed("acquire");
        })?;
        let mut taken = Vec::new();
        for (lane, answer) in lanes.iter().zip(&mut answers) {
            let slot = self.lanes.slot(*lane);
            match answer {
                Acquisition::Held(held) => {
                    let new = self.remember(&slot, held, until);
                    taken.extend(new.then_some(*lane));
                    if start::is_to_be_compared(self, &slot) && !slot.goes_on_uncompared() {
                        // As if it had none: whoever needs it asks for the lane to be started.
                        held.next_nonce = None;
                    }
                }
                Acquisition::Other(owner) => {
                    metrics::lease_acquired("other");
                    slot.is_elsewhere(owner);
                    slot.note_token(owner.token);
                    if let Some(claim) = slot.claim() {
                        self.lost(&slot, claim, owner, "allocate");
                    }
                }
            }
        }
        tx::adopt(self, taken);
        Ok(answers)
    }

    /// Lanes that had best be on another node are left to it for a moment after they have run out;
    /// until then it stands in their row, or is named as the one to ask.
    async fn ask(&self, lanes: &[Lane]) -> Result<Vec<Acquisition>, StoreError> {
        let better: Vec<Option<Holder>> =
            lanes.iter().map(|lane| self.members.better(&self.holder, *lane)).collect();
        if better.iter().all(Option::is_none) {
            metrics::lease_statements("acquire", 1);
            return self.store.acquire(&self.holder, lanes, self.lease()).await;
        }
        let pick = |others: bool| {
            let picked = lanes.iter().zip(&better).filter(|(_, it)| it.is_some() == others);
            picked.map(|(lane, _)| *lane).collect::<Vec<_>>()
        };
        let (own, others) = (pick(false), pick(true));
        metrics::lease_statements("acquire", 1 + usize::from(!own.is_empty()));
        let mut answers = HashMap::with_capacity(lanes.len());
        if !own.is_empty() {
            let found = self.store.acquire(&self.holder, &own, self.lease()).await?;
            answers.extend(own.into_iter().zip(found));
        }
        let found =
            self.store.acquire_patiently(&self.holder, &others, PATIENCE, self.lease()).await?;
        answers.extend(others.into_iter().zip(found));
        let gone = |lane: &Lane| StoreError::Internal(format!("no answer for {lane}"));
        let answers =
            lanes.iter().zip(better).map(|(lane, better)| match (answers.remove(lane), better) {
                (Some(Acquisition::Other(owner)), Some(better)) if owner.remaining.is_zero() => {
                    let Holder { node, incarnation, url } = better;
                    Ok(Acquisition::Other(Owner { node, incarnation, url, ..owner }))
                }
                (Some(answer), _) => Ok(answer),
                (None, _) => Err(gone(lane)),
            });
        answers.collect()
    }

    /// Takes note of a lane that is ours, and tells whether it is so under another claim than the
    /// last one: a lane that was handed here is ours before we know of it. Somebody else may have
    /// worked it in between, so what is remembered of it is forgotten before anything can be written
    /// under the new claim.
    pub(crate) fn remember(&self, slot: &Slot, held: &HeldLane, until: Instant) -> bool {
        let claim = held.claim;
        if claim.token().get() < slot.seen_token() {
            // Tokens never fall: the database is another one, or an older one. What was found in the one
            // before says nothing about this one.
            slot.set_compared(false);
        }
        let new = held.takeover == Takeover::Taken || slot.claim() != Some(claim);
        if new {
            tx::give_up(self, slot.lane());
        }
        slot.trust(claim, until, held.next_nonce);
        slot.note_given_out(held.next_nonce.unwrap_or(0));
        let (signer, chain, node) = (slot.lane().signer, slot.lane().chain, &self.holder.node);
        let (token, expires_at) = (claim.token().get(), held.expires_at);
        match held.takeover {
            Takeover::Taken => {
                metrics::lease_acquired("taken");
                info!(%signer, %chain, %node, token, %expires_at, "lane acquired");
            }
            Takeover::Kept => {
                metrics::lease_acquired("kept");
                debug!(%signer, %chain, %node, token, %expires_at, "lane kept");
            }
        }
        new
    }

    /// Takes note that a claim is superseded: counts it, says so, drops what is known of the lane.
    /// A token that was raised under ourselves, by a pause or resume, is no loss: the lane is asked
    /// for again, by the next allocation or the next renewal.
    pub(crate) fn lost(&self, slot: &Slot, claim: Claim, owner: &Owner, op: &'static str) {
        slot.note_token(owner.token);
        if self.is_ours(owner) {
            return;
        }
        if slot.has_let_go(claim) {
            debug!(signer = %slot.lane().signer, op, "too late: the lane was handed over");
            return;
        }
        metrics::fence_rejected(op);
        let (signer, chain, node) = (slot.lane().signer, slot.lane().chain, &self.holder.node);
        let (provided_token, token) = (claim.token().get(), owner.token.get());
        warn!(%signer, %chain, %node, op, provided_token, token, owner = %owner.node,
              "write refused: the lane has a newer token");
        let known = slot.drop_claim(claim);
        tx::give_up(self, slot.lane());
        let namesake =
            owner.node == self.holder.node && owner.incarnation != self.holder.incarnation;
        if known && namesake {
            metrics::duplicate_node();
            error!(%signer, %chain, %node, "another process with this node's id has taken the lane: \
                    give every node its own node.id, or make sure the old process is gone");
        }
    }

    /// Waits for an answer for as long as a caller is made to. What comes later finds nobody.
    pub(crate) async fn in_time<T>(
        &self,
        until: tokio::time::Instant,
        answer: impl Future<Output = T>,
    ) -> Result<T, NonceError> {
        let patience = self.settings.patience;
        tokio::time::timeout_at(until, answer).await.map_err(|_| {
            NonceError::StoreUnavailable(format!("this took longer than {patience:?}"))
        })
    }

    /// Whether a lane's owner is this very process.
    pub(crate) fn is_ours(&self, owner: &Owner) -> bool {
        owner.incarnation == self.holder.incarnation
    }

    /// Asks the chain, if it is to be asked at all. `None`: it is not.
    pub(crate) async fn chain_latest(&self, lane: Lane) -> Result<Option<Nonce>, ChainError> {
        match self.settings.chain_query {
            ChainQuery::Disabled => Ok(None),
            ChainQuery::Enabled(_) => self.ask_chain(lane, BlockTag::Latest).await.map(Some),
        }
    }

    /// How many of the account's transactions are mined, as far as the endpoints agree on it.
    pub(crate) async fn ask_counted(&self, lane: Lane) -> Result<Counted, ChainError> {
        let answer = self.chain.counted(lane).await;
        metrics::chain_read(if answer.is_ok() { "ok" } else { "error" });
        answer
    }

    pub(crate) async fn ask_chain(&self, lane: Lane, at: BlockTag) -> Result<Nonce, ChainError> {
        let answer = self.chain.transaction_count(lane, at).await;
        metrics::chain_read(if answer.is_ok() { "ok" } else { "error" });
        answer
    }
}
