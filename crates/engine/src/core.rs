//! What every part of the engine shares.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stile_chain::{BlockTag, ChainError, NonceSource, TxSigner};
use stile_domain::{Address, Holder, Lane, Nonce};
use stile_store::{Acquisition, Claim, HeldLane, Owner, Store, StoreError, Takeover};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, error, info, warn};

use crate::lanes::{Lanes, Slot};
use crate::metrics;
use crate::orphans::Orphans;
use crate::settings::{ChainQuery, Settings};
use crate::signing::Signing;
use crate::tx;

#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) chain: Arc<dyn NonceSource>,
    pub(crate) settings: Settings,
    pub(crate) holder: Holder,
    pub(crate) lanes: Lanes,
    pub(crate) orphans: Orphans,
    /// Work that must be finished before the process may end, whoever has stopped waiting for it.
    pub(crate) tasks: TaskTracker,
    /// Which signers give no signatures.
    pub(crate) signing: Signing,
    /// Who signs for which account.
    pub(crate) signers: HashMap<Address, Arc<dyn TxSigner>>,
    /// The chains that transactions go to, and what is open on them.
    pub(crate) tracks: tx::Tracks,
    /// Where changes of transactions are written down.
    pub(crate) recorder: tx::Recorder,
    /// Work that decides such changes; the recorder outlives it.
    pub(crate) producers: TaskTracker,
    /// Rises with every commit that adds to the stream of events.
    pub(crate) events: watch::Sender<u64>,
    /// Cancelled when no more calls are taken.
    pub(crate) stopping: CancellationToken,
}

impl Core {
    pub(crate) fn lease(&self) -> Duration {
        self.settings.lease.duration
    }

    /// Until when a lease is believed in whose request is being sent now.
    pub(crate) fn trust_from_now(&self) -> Instant {
        Instant::now() + self.settings.lease.trust()
    }

    /// Asks the database for lanes. Answers in the lanes' order and remembers what it got.
    pub(crate) async fn acquire(
        self: &Arc<Self>,
        lanes: &[Lane],
    ) -> Result<Vec<Acquisition>, StoreError> {
        let until = self.trust_from_now();
        let mut answers = self.store.acquire(&self.holder, lanes, self.lease()).await;
        if matches!(answers, Err(StoreError::CommitUnknown(_))) {
            // What is ours already is answered as ours, so asking again is how to learn it.
            answers = self.store.acquire(&self.holder, lanes, self.lease()).await;
        }
        let answers = answers.inspect_err(|_| {
            metrics::lease_acquired("error");
            metrics::store_failed("acquire");
        })?;
        let mut taken = Vec::new();
        for (lane, answer) in lanes.iter().zip(&answers) {
            let slot = self.lanes.slot(*lane);
            match answer {
                Acquisition::Held(held) => {
                    self.remember(&slot, held, until);
                    taken.extend((held.takeover == Takeover::Taken).then_some(*lane));
                }
                Acquisition::Other(owner) => {
                    metrics::lease_acquired("other");
                    if let Some(claim) = slot.claim() {
                        self.lost(&slot, claim, owner, "allocate");
                    }
                }
            }
        }
        tx::adopt(self, taken);
        Ok(answers)
    }

    /// Takes note of a lane that is ours. If somebody else held it in between, what is remembered of
    /// it is forgotten first, before anything can be written under the new claim.
    pub(crate) fn remember(&self, slot: &Slot, held: &HeldLane, until: Instant) {
        let claim = held.claim;
        if held.takeover == Takeover::Taken {
            tx::give_up(self, slot.lane());
        }
        slot.trust(claim, until);
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
    }

    /// Takes note that a claim is superseded: counts it, says so, drops what is known of the lane.
    /// A token that was raised under ourselves, by a pause or resume, is no loss: the lane is asked
    /// for again, by the next allocation or the next renewal.
    pub(crate) fn lost(&self, slot: &Slot, claim: Claim, owner: &Owner, op: &'static str) {
        if self.is_ours(owner) {
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

    pub(crate) async fn ask_chain(&self, lane: Lane, at: BlockTag) -> Result<Nonce, ChainError> {
        let answer = self.chain.transaction_count(lane, at).await;
        metrics::chain_read(if answer.is_ok() { "ok" } else { "error" });
        answer
    }
}
