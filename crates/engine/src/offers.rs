//! Released nonces, on their way back to callers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use stile_chain::ChainError;
use stile_domain::{Counted, Lane, Nonce, ReuseFate};
use stile_store::{Claim, LaneSurvey, Refusal};
use tracing::{debug, info, warn};

use crate::core::Core;
use crate::lanes::Slot;
use crate::metrics;
use crate::settings::ChainQuery;
use crate::task;

/// The longest a caller waits for the chain to be asked about released nonces.
const PATIENCE: Duration = Duration::from_millis(500);

/// How soon endpoints are asked again that are apart: a new block takes its time to reach all of them.
const ASKED_AGAIN: Duration = Duration::from_millis(250);

/// Whether a nonce is used by the word of some endpoints and unused by that of others: it is neither
/// consumed nor given out again.
fn is_in_doubt(nonce: Nonce, counted: Option<Counted>) -> bool {
    counted.is_some_and(|counted| (counted.at_least..counted.at_most).contains(&nonce))
}

impl Core {
    /// Looks at one lane's released nonces now: asks the chain about them, then offers what may be
    /// given out again. Does nothing for a lane that another node holds; its holder will see to it.
    /// `false`: it could not be learned.
    pub(crate) async fn refresh(&self, lane: Lane) -> bool {
        let slot = self.lanes.slot(lane);
        let Some(claim) = slot.claim() else { return false };
        let (as_of, given_back) = (Instant::now(), slot.given_back());
        let looked = match self.store.survey(&[lane]).await {
            Ok(surveys) => match surveys.first() {
                Some(survey) => self.settle_and_offer(&slot, claim, survey, as_of).await,
                None => {
                    slot.work.lock().await.offer(&claim, as_of, Vec::new(), Vec::new());
                    true
                }
            },
            Err(error) => {
                metrics::store_failed("survey");
                warn!(%error, signer = %lane.signer, "released nonces could not be looked at");
                false
            }
        };
        if looked {
            slot.looked(given_back);
        }
        looked
    }

    /// The same, waited for: for as long as the database takes, but not for a chain that hangs. It
    /// goes on when the wait is given up.
    pub(crate) async fn refreshed(self: &Arc<Self>, lane: Lane) -> bool {
        let core = Arc::clone(self);
        let looked = self.tasks.spawn(task::OFFERS, async move { core.refresh(lane).await });
        match self.settings.chain_query {
            ChainQuery::Disabled => looked.await.ok().flatten().unwrap_or(false),
            ChainQuery::Enabled(_) => {
                matches!(tokio::time::timeout(PATIENCE, looked).await, Ok(Ok(Some(true))))
            }
        }
    }

    /// The same, beside whatever is going on.
    pub(crate) fn refresh_soon(self: &Arc<Self>, slot: &Slot) {
        let (core, lane) = (Arc::clone(self), slot.lane());
        self.tasks.spawn(task::OFFERS, async move { core.refresh(lane).await });
    }

    /// Asks the chain about a lane's released and suspect nonces, consumes what it has seen, and
    /// offers what may be given out again. The question comes after the survey, so its answer is
    /// younger than every release in it. `as_of` is when the survey was asked for. `false`: the
    /// chain does not answer.
    pub(crate) async fn settle_and_offer(
        &self,
        slot: &Slot,
        claim: Claim,
        survey: &LaneSurvey,
        as_of: Instant,
    ) -> bool {
        if survey.released.is_empty() && survey.suspect.is_empty() {
            slot.work.lock().await.offer(&claim, as_of, Vec::new(), Vec::new());
            return true;
        }
        let lane = slot.lane();
        let counted = match self.counted_for(lane, survey).await {
            Ok(counted) => counted,
            Err(error) => {
                warn!(signer = %lane.signer, chain = %lane.chain, %error,
                      "the chain does not answer: released nonces wait, silent holds stay suspect");
                return false;
            }
        };
        let latest = counted.map(|counted| counted.at_least);
        if let Some(latest) = latest {
            self.settle(slot, claim, latest, survey).await;
        }
        let can_sign = self.settings.signs_for.contains(&lane);
        let (mut anybody, mut stile) = (Vec::new(), Vec::new());
        let sure = survey.released.iter().filter(|it| !is_in_doubt(it.nonce, counted));
        for released in sure {
            match ReuseFate::of(released.nonce, latest, survey.highest_consumed, can_sign) {
                ReuseFate::Offer => anybody.push(*released),
                ReuseFate::KeepForStile => stile.push(*released),
                ReuseFate::UsedOnChain => {}
            }
        }
        slot.work.lock().await.offer(&claim, as_of, anybody, stile);
        true
    }

    /// The account's count as far as the endpoints agree on it, if it is to be asked for. They are
    /// asked again shortly if a released nonce is used by the word of some of them only.
    async fn counted_for(
        &self,
        lane: Lane,
        survey: &LaneSurvey,
    ) -> Result<Option<Counted>, ChainError> {
        if self.settings.chain_query == ChainQuery::Disabled {
            return Ok(None);
        }
        let mut counted = self.ask_counted(lane).await?;
        let in_doubt = |counted| survey.released.iter().any(|it| is_in_doubt(it.nonce, counted));
        if in_doubt(Some(counted)) {
            tokio::time::sleep(ASKED_AGAIN).await;
            counted = self.ask_counted(lane).await?;
        }
        Ok(Some(counted))
    }

    /// Writes down what the chain has seen used.
    async fn settle(&self, slot: &Slot, claim: Claim, latest: Nonce, survey: &LaneSurvey) {
        let open = survey.released.iter().map(|released| released.nonce);
        if !open.chain(survey.suspect.iter().copied()).any(|nonce| nonce < latest) {
            return;
        }
        let lane = slot.lane();
        match self.store.settle(&[(claim, latest)], self.lease()).await {
            Ok(answers) => {
                for answer in answers {
                    match answer {
                        Ok(holds) => {
                            metrics::holds_settled(holds.len());
                            info!(signer = %lane.signer, chain = %lane.chain, op = "settle",
                                  node = %self.holder.node, token = claim.token().get(), latest,
                                  count = holds.len(), "the chain shows nonces used");
                        }
                        Err(Refusal::Fenced(owner)) => self.lost(slot, claim, &owner, "settle"),
                        Err(refusal) => debug!(%refusal, "not settled"),
                    }
                }
            }
            Err(error) => {
                metrics::store_failed("settle");
                warn!(%error, signer = %lane.signer, "what the chain shows could not be written");
            }
        }
    }
}
