//! Holds that nobody settles.
//!
//! Every few seconds the holder looks through what is open on its lanes: holds that ran out become
//! suspect (or are released, by policy), silent ones are compared with the chain, released ones
//! are offered again. Marks may have been written by any node, so this is also how a holder learns
//! of them. Each chain has a sweeper of its own, so one that hangs holds up no other.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use futures::StreamExt;
use stile_domain::{ChainId, HeldExpiry, HoldId, Lane, Nonce, Planner};
use stile_store::{Acquisition, Claim, LaneSurvey, Refusal};
use tracing::{debug, info, warn};

use crate::core::Core;
use crate::fill::{self, Gaps};
use crate::lanes::Slot;
use crate::metrics;
use crate::start;
use crate::task;

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

/// Holds that were open when each chain's lanes were last looked through.
type Open = Mutex<HashMap<Option<ChainId>, (usize, usize)>>;

/// Starts a task for each chain that transactions go to, one for the lanes of all others, and one
/// for what was given out to nobody.
pub(crate) fn start(core: &Arc<Core>) {
    let open = Arc::new(Open::default());
    for chain in core.tracks.iter().map(|track| Some(track.pool.chain())).chain([None]) {
        core.tasks.spawn(task::SWEEP, run_chain(Arc::clone(core), chain, Arc::clone(&open)));
    }
    core.tasks.spawn(task::ORPHANS, run_orphans(Arc::clone(core)));
}

async fn run_orphans(core: Arc<Core>) {
    let mut ticks = ticks(&core);
    loop {
        tokio::select! {
            () = core.stopping.cancelled() => return,
            _ = ticks.tick() => {}
        }
        core.release_orphans().await;
    }
}

async fn run_chain(core: Arc<Core>, chain: Option<ChainId>, open: Arc<Open>) {
    let mut ticks = ticks(&core);
    let (mut asked, mut gaps) = (HashMap::new(), Gaps::default());
    loop {
        tokio::select! {
            () = core.stopping.cancelled() => return,
            _ = ticks.tick() => {}
        }
        let mut held = core.lanes.held();
        held.retain(|(slot, _)| {
            let of = slot.lane().chain;
            core.tracks.get(of).map(|track| track.pool.chain()) == chain
        });
        if let Some(counts) = sweep(&core, &held, &mut asked).await {
            let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
            open.insert(chain, counts);
            let suspect = open.values().map(|(suspect, _)| suspect).sum();
            metrics::holds_open(suspect, open.values().map(|(_, released)| released).sum());
        }
        for (slot, _) in held {
            fill::look(&core, &slot, &mut gaps).await;
        }
    }
}

fn ticks(core: &Core) -> tokio::time::Interval {
    let mut ticks = tokio::time::interval(core.settings.sweep_interval());
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    ticks
}

/// Looks through lanes. Answers with how many holds are suspect, and how many released.
async fn sweep(
    core: &Arc<Core>,
    held: &[(Arc<Slot>, Claim)],
    asked: &mut HashMap<Lane, Asked>,
) -> Option<(usize, usize)> {
    let lanes: HashSet<Lane> = held.iter().map(|(slot, _)| slot.lane()).collect();
    asked.retain(|lane, _| lanes.contains(lane));
    let (mut suspect, mut released) = (0, 0);
    for chunk in held.chunks(CHUNK) {
        let mut as_of = Instant::now();
        let surveys = survey(core, chunk).await?;
        let surveys = if expire(core, chunk, &surveys).await {
            // What ran out is suspect or released now: look again.
            as_of = Instant::now();
            survey(core, chunk).await?
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
                if !survey.released.is_empty() {
                    plan(core, slot, claim).await;
                }
                core.settle_and_offer(slot, *claim, survey, as_of).await;
            })
            .await;
    }
    Some((suspect, released))
}

/// Reads the cursor of a lane that came while others were at work on it, and of which nobody has asked
/// for a nonce since: without one nothing is on offer, and a gap below what is in flight stays open.
async fn plan(core: &Arc<Core>, slot: &Arc<Slot>, claim: &Claim) {
    if slot.work.lock().await.planner(claim).is_some() {
        return;
    }
    // Its cursor is held against the chain first, as before any other plan.
    if start::is_to_be_compared(core, slot)
        && let Err(error) = start::start(core, slot).await
    {
        return debug!(%error, signer = %slot.lane().signer, "the lane cannot start yet");
    }
    let mut work = slot.work.lock().await;
    let Ok(mut answers) = core.acquire(&[slot.lane()]).await else { return };
    if let Some(Acquisition::Held(held)) = answers.pop()
        && held.paused.is_none()
        && held.elsewhere.is_none()
        && let Some(cursor) = held.next_nonce
    {
        work.plan_from(&held.claim, Planner::new(cursor));
    }
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

/// What becomes of holds that ran out.
fn policy(core: &Core) -> HeldExpiry {
    #[cfg(feature = "planted-bugs")]
    if stile_store::planted::Bug::HeldReissued.is_planted() {
        return HeldExpiry::Reclaim;
    }
    core.settings.held_expiry
}

/// Ends holds that ran out. `true` if there were any.
async fn expire(core: &Core, chunk: &[(Arc<Slot>, Claim)], surveys: &[LaneSurvey]) -> bool {
    let expired = surveys.iter().filter(|survey| survey.expired > 0);
    let expired: HashSet<Lane> = expired.map(|survey| survey.lane).collect();
    let ran_out: Vec<&(Arc<Slot>, Claim)> =
        chunk.iter().filter(|(slot, _)| expired.contains(&slot.lane())).collect();
    if ran_out.is_empty() {
        return false;
    }
    let claims: Vec<Claim> = ran_out.iter().map(|(_, claim)| *claim).collect();
    let (policy, sent) = (policy(core), Instant::now());
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
