//! Holds that nobody settles.
//!
//! Every few seconds the holder looks through what is open on its lanes: holds that ran out become
//! suspect (or are released, by policy), silent ones are compared with the chain, released ones
//! are offered again. Marks may have been written by any node, so this is also how a holder learns
//! of them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use futures::StreamExt;
use stile_domain::{HeldExpiry, HoldId, Lane, Nonce};
use stile_store::{Claim, LaneSurvey, Refusal};
use tracing::{info, warn};

use crate::core::Core;
use crate::fill::{self, Gaps};
use crate::lanes::Slot;
use crate::metrics;

/// Lanes surveyed by one statement.
const CHUNK: usize = 500;

/// Questions to the chain at one time.
const CHAIN_READS: usize = 8;

/// What was open on a lane when the chain was last asked about it.
struct Asked {
    at: Instant,
    released: Vec<HoldId>,
    suspect: Vec<Nonce>,
}

pub(crate) async fn run(core: Arc<Core>) {
    let mut ticks = tokio::time::interval(core.settings.sweep_interval());
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let (mut asked, mut gaps) = (HashMap::new(), Gaps::default());
    loop {
        tokio::select! {
            () = core.stopping.cancelled() => return,
            _ = ticks.tick() => {}
        }
        sweep(&core, &mut asked).await;
        for (slot, _) in core.lanes.held() {
            fill::look(&core, &slot, &mut gaps).await;
        }
    }
}

async fn sweep(core: &Core, asked: &mut HashMap<Lane, Asked>) {
    core.release_orphans().await;
    let held = core.lanes.held();
    asked.retain(|lane, _| held.iter().any(|(slot, _)| slot.lane() == *lane));
    let (mut suspect, mut released) = (0, 0);
    for chunk in held.chunks(CHUNK) {
        let mut as_of = Instant::now();
        let Some(surveys) = survey(core, chunk).await else { return };
        let surveys = if expire(core, chunk, &surveys).await {
            // What ran out is suspect or released now: look again.
            as_of = Instant::now();
            let Some(again) = survey(core, chunk).await else { return };
            again
        } else {
            surveys
        };
        for survey in &surveys {
            suspect += survey.suspect.len();
            released += survey.released.len();
        }
        let by_lane: HashMap<Lane, &(Arc<Slot>, Claim)> =
            chunk.iter().map(|held| (held.0.lane(), held)).collect();
        let due: Vec<_> = surveys
            .into_iter()
            .filter(|survey| is_due(core, asked, survey))
            .filter_map(|survey| {
                by_lane.get(&survey.lane).map(|(slot, claim)| (survey, slot, *claim))
            })
            .collect();
        futures::stream::iter(&due)
            .for_each_concurrent(CHAIN_READS, |(survey, slot, claim)| async move {
                core.settle_and_offer(slot, *claim, survey, as_of).await;
            })
            .await;
    }
    metrics::holds_open(suspect, released);
}

/// Whether the chain is to be asked about a lane: something is new on it, or it is time again.
fn is_due(core: &Core, asked: &mut HashMap<Lane, Asked>, survey: &LaneSurvey) -> bool {
    let released: Vec<HoldId> = survey.released.iter().map(|released| released.hold).collect();
    if let Some(last) = asked.get(&survey.lane)
        && last.released == released
        && last.suspect == survey.suspect
        && last.at.elapsed() < core.settings.state_timeout
    {
        return false;
    }
    let now = Asked { at: Instant::now(), released, suspect: survey.suspect.clone() };
    asked.insert(survey.lane, now);
    true
}

async fn survey(core: &Core, chunk: &[(Arc<Slot>, Claim)]) -> Option<Vec<LaneSurvey>> {
    let lanes: Vec<Lane> = chunk.iter().map(|(slot, _)| slot.lane()).collect();
    match core.store.survey(&lanes).await {
        Ok(surveys) => Some(surveys),
        Err(error) => {
            metrics::store_failed("survey");
            warn!(%error, "open holds could not be looked through");
            None
        }
    }
}

/// Ends holds that ran out. `true` if there were any.
async fn expire(core: &Core, chunk: &[(Arc<Slot>, Claim)], surveys: &[LaneSurvey]) -> bool {
    let ran_out: Vec<&(Arc<Slot>, Claim)> = chunk
        .iter()
        .filter(|(slot, _)| surveys.iter().any(|s| s.lane == slot.lane() && s.expired > 0))
        .collect();
    if ran_out.is_empty() {
        return false;
    }
    let claims: Vec<Claim> = ran_out.iter().map(|(_, claim)| *claim).collect();
    let (policy, sent) = (core.settings.held_expiry, Instant::now());
    let answers = match core.store.expire(&claims, policy, core.lease()).await {
        Ok(answers) => answers,
        Err(error) => {
            metrics::store_failed("expire");
            warn!(%error, "holds that ran out could not be written");
            return false;
        }
    };
    metrics::committed("expire", answers.len(), sent.elapsed());
    for ((slot, claim), answer) in ran_out.into_iter().zip(answers) {
        let lane = slot.lane();
        match answer {
            Ok(holds) => {
                let became = match policy {
                    HeldExpiry::Suspect => "suspect",
                    HeldExpiry::Reclaim => "released",
                };
                metrics::holds_expired(became, holds.len());
                let nonces: Vec<Nonce> = holds.iter().map(|hold| hold.nonce).take(20).collect();
                info!(signer = %lane.signer, chain = %lane.chain, node = %core.holder.node,
                      token = claim.token().get(), op = "expire", count = holds.len(), ?nonces,
                      became, "holds ran out");
            }
            Err(Refusal::Fenced(owner)) => core.lost(slot, *claim, &owner, "expire"),
            Err(refusal) => warn!(%refusal, signer = %lane.signer, "not expired"),
        }
    }
    true
}
