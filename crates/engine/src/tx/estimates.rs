//! Transactions whose gas cannot be estimated for now.
//!
//! An estimate that nobody answers, or answers in words that nobody understands, must hold up
//! nobody. The transaction is set aside as `ESTIMATING`, those behind it go on, and its estimate is
//! tried again here, beside the lane's work. Once it is known, the transaction waits for a nonce
//! like any other, before all that were accepted after it. After a bounded number of tries it is
//! refused, with what the endpoints said.
//!
//! While no endpoint of the chain can be reached at all, that is the chain's trouble and not the
//! transaction's: nothing is set aside, and tries do not count. How often a transaction was tried is
//! kept in memory: a new holder of the lane begins to count anew.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::json;
use stile_chain::EstimateError;
use stile_domain::{AfterFailure, Lane, Step, TxId};
use stile_store::{Claim, LaneChanges, NewEvent, Recorded, Set, Tx, TxChange};
use tracing::{debug, info, warn};

use crate::core::Core;
use crate::metrics;
use crate::tx::bind;
use crate::tx::limits;
use crate::tx::track::Track;

/// Estimates at one time.
pub(crate) const AT_ONCE: usize = 16;

/// How often it is looked whether a try is due.
const TICK: Duration = Duration::from_millis(250);

/// How often the store is asked for what was set aside, for lanes that have come from elsewhere.
const DISCOVERY: Duration = Duration::from_secs(10);

/// Transactions of one chain tried in one round.
const ROUND: u32 = 1000;

/// Lanes asked about in one question.
const LANES: usize = 500;

/// How long what was learned about a transaction is kept for whoever binds it.
const REMEMBERED: Duration = Duration::from_secs(600);

/// What an estimate came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Estimate {
    /// The gas limit.
    Known(u64),
    /// It is refused for good, in these words.
    Refused(String),
    /// Nobody says; what the endpoints said instead.
    Silent(String),
}

/// What is remembered of the estimates on one chain.
#[derive(Debug, Default)]
pub(crate) struct Estimates {
    /// Gas limits that were found out after all.
    known: HashMap<TxId, (u64, Instant)>,
    /// Estimates that failed when the transaction was accepted, so that nobody waits for the same
    /// silence a second time.
    failed: HashMap<TxId, (String, Instant)>,
    /// Transactions that are set aside.
    aside: HashMap<TxId, Try>,
}

/// A transaction that is set aside.
#[derive(Debug, Clone, Copy)]
struct Try {
    /// How often its estimate has failed.
    failed: u32,
    /// When it is tried again.
    due: Instant,
}

impl Estimates {
    /// The estimate at acceptance failed, in these words.
    pub(crate) fn failed_at_acceptance(&mut self, id: TxId, words: String) {
        self.failed.insert(id, (words, Instant::now()));
    }

    /// The chain could not be reached: what failed meanwhile says nothing about the transaction.
    pub(crate) fn forget_failure(&mut self, id: TxId) {
        self.failed.remove(&id);
    }

    /// What is known of a transaction's gas without asking anybody.
    fn recall(&self, id: TxId) -> Option<Estimate> {
        let known = self.known.get(&id).map(|(gas, _)| Estimate::Known(*gas));
        known.or_else(|| self.failed.get(&id).map(|(words, _)| Estimate::Silent(words.clone())))
    }

    /// A transaction was set aside after its first failure.
    fn set_aside(&mut self, id: TxId, pause: Duration) {
        self.failed.remove(&id);
        self.aside.insert(id, Try { failed: 1, due: Instant::now() + pause });
    }

    fn is_due(&self) -> bool {
        let now = Instant::now();
        self.aside.values().any(|aside| aside.due <= now)
    }

    /// The try of a transaction that is set aside, if it is due. One that was set aside by another
    /// holder is due at once.
    fn due(&mut self, id: TxId) -> Option<Try> {
        let now = Instant::now();
        let aside = *self.aside.entry(id).or_insert(Try { failed: 1, due: now });
        (aside.due <= now).then_some(aside)
    }

    fn forget_old(&mut self) {
        self.known.retain(|_, (_, at)| at.elapsed() < REMEMBERED);
        self.failed.retain(|_, (_, at)| at.elapsed() < REMEMBERED);
    }
}

/// Finds out a transaction's gas limit, from memory where that is possible.
pub(crate) async fn estimate(track: &Track, tx: &Tx) -> Estimate {
    if let Some(gas_limit) = tx.gas_limit {
        return Estimate::Known(gas_limit);
    }
    let recalled = track.estimates().recall(tx.id);
    match recalled {
        Some(recalled) => recalled,
        None => ask(track, tx).await,
    }
}

async fn ask(track: &Track, tx: &Tx) -> Estimate {
    match track.pool.estimate_gas(tx.lane.signer, &tx.payload).await {
        Ok(gas) => match limits::gas_limit_to_bind(track, gas).await {
            Ok(gas_limit) => Estimate::Known(gas_limit),
            Err(above) => Estimate::Refused(format!("its estimate is refused: {above}")),
        },
        Err(EstimateError::Reverted { reason, .. }) => {
            Estimate::Refused(format!("the estimate says that it would be reverted: {reason}"))
        }
        Err(EstimateError::Refused(why)) => {
            Estimate::Refused(format!("its gas could not be estimated: {why}"))
        }
        Err(EstimateError::Unavailable(error)) => Estimate::Silent(error.to_string()),
    }
}

/// Sets transactions aside whose first estimate failed, or refuses them if one try is all there is.
/// `false` if that could not be written.
pub(crate) async fn set_aside(
    core: &Arc<Core>,
    track: &Track,
    claim: Claim,
    silent: Vec<(Tx, String)>,
) -> bool {
    let pause = match core.settings.tx.estimate.after_failures(1) {
        AfterFailure::TryAgain(pause) => pause,
        AfterFailure::Refuse => {
            let refused = silent.into_iter().map(|(tx, words)| (tx, give_up_words(1, &words)));
            bind::refuse(core, claim, refused.collect()).await;
            return true;
        }
    };
    let mut changes = Vec::with_capacity(silent.len());
    for (tx, words) in silent {
        info!(txId = %tx.id, signer = %tx.lane.signer, chain = %tx.lane.chain, why = words,
              "its gas cannot be estimated for now; those behind it go on");
        let data = json!({ "reason": words });
        changes.extend(change(&tx, Step::NotEstimated, data, Set::To(words)));
        track.estimates().set_aside(tx.id, pause);
    }
    write(core, claim, changes).await
}

fn give_up_words(tries: u32, words: &str) -> String {
    let times = if tries == 1 { "once".to_owned() } else { format!("{tries} times") };
    format!("its gas could not be estimated, tried {times}: {words}")
}

fn change(tx: &Tx, step: Step, data: serde_json::Value, error: Set<String>) -> Option<TxChange> {
    let standing = tx.standing.after(step).ok()?;
    let mut change = TxChange::new(tx.id, tx.events, standing);
    change.event = Some(NewEvent { kind: tx.standing.kind_of(step), data });
    change.error = error;
    Some(change)
}

async fn write(core: &Arc<Core>, claim: Claim, changes: Vec<TxChange>) -> bool {
    if changes.is_empty() {
        return true;
    }
    let part = LaneChanges { claim, changes };
    let answer =
        core.store.record(&core.holder.node, std::slice::from_ref(&part), core.lease()).await;
    match answer.map(|mut answers| answers.pop()) {
        Ok(Some(Ok(recorded))) => {
            core.events.send_modify(|count| *count += 1);
            recorded.iter().all(|recorded| matches!(recorded, Recorded::Written { .. }))
        }
        Ok(_) => false,
        Err(error) => {
            metrics::store_failed("record");
            warn!(%error, "what became of estimates could not be written; tried again");
            false
        }
    }
}

/// Tries again what was set aside on one chain.
pub(crate) async fn run(core: Arc<Core>, track: Arc<Track>) {
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut looked: Option<Instant> = None;
    loop {
        tokio::select! {
            () = core.stopping.cancelled() => return,
            _ = ticks.tick() => {}
        }
        let is_due = track.estimates().is_due();
        if is_due || looked.is_none_or(|looked| looked.elapsed() >= DISCOVERY) {
            looked = Some(Instant::now());
            round(&core, &track).await;
        }
    }
}

/// One round over all lanes of the chain that this node holds.
async fn round(core: &Arc<Core>, track: &Arc<Track>) {
    let chain = track.pool.chain();
    let held = core.lanes.held().into_iter().map(|(slot, _)| slot.lane());
    let lanes: Vec<Lane> =
        held.filter(|lane| lane.chain == chain && core.signers.signs(*lane)).collect();
    let mut aside: Vec<Tx> = Vec::new();
    for lanes in lanes.chunks(LANES) {
        match core.store.unestimated(lanes, ROUND).await {
            Ok(found) => aside.extend(found),
            Err(error) => {
                metrics::store_failed("waiting");
                debug!(%error, "what waits for an estimate could not be read");
                return;
            }
        }
    }
    metrics::unestimated(chain, aside.len());
    let due: Vec<(Tx, Try)> = {
        let mut estimates = track.estimates();
        estimates.forget_old();
        let found: HashSet<TxId> = aside.iter().map(|tx| tx.id).collect();
        // What was withdrawn, or has gone with its lane, is nobody's to try here.
        estimates.aside.retain(|id, _| found.contains(id));
        aside.into_iter().filter_map(|tx| estimates.due(tx.id).map(|it| (tx, it))).collect()
    };
    for due in due.chunks(AT_ONCE) {
        if core.stopping.is_cancelled() {
            return;
        }
        try_again(core, track, due).await;
    }
}

/// What is to be done about the transactions of one lane.
#[derive(Default)]
struct Outcome {
    known: Vec<TxChange>,
    refused: Vec<(Tx, String)>,
    /// Words that are new.
    told: Vec<TxChange>,
}

async fn try_again(core: &Arc<Core>, track: &Arc<Track>, due: &[(Tx, Try)]) {
    // Under the claims from before the question: what is answered after a failover or a restore says
    // nothing about what may have been sent before it.
    let claim = |lane: Lane| core.lanes.slot(lane).claim();
    let claims: BTreeMap<Lane, Claim> =
        due.iter().filter_map(|(tx, _)| Some((tx.lane, claim(tx.lane)?))).collect();
    let answers = join_all(due.iter().map(|(tx, _)| ask(track, tx))).await;
    let is_silent = answers.iter().any(|answer| matches!(answer, Estimate::Silent(_)));
    let is_reachable = !is_silent || track.pool.is_reachable().await;
    let policy = core.settings.tx.estimate;
    let mut lanes: BTreeMap<Lane, Outcome> = BTreeMap::new();
    for ((tx, aside), answer) in due.iter().zip(answers) {
        let outcome = lanes.entry(tx.lane).or_default();
        // Where it cannot be written, it is tried once more.
        let mut next = Try { due: Instant::now() + policy.first_pause, ..*aside };
        match answer {
            Estimate::Known(gas) => {
                track.estimates().known.insert(tx.id, (gas, Instant::now()));
                let data = json!({ "gasLimit": gas });
                outcome.known.extend(change(tx, Step::Estimated, data, Set::Clear));
            }
            Estimate::Refused(why) => outcome.refused.push((tx.clone(), why)),
            Estimate::Silent(_) if !is_reachable => {}
            Estimate::Silent(words) => {
                next.failed = next.failed.saturating_add(1);
                match policy.after_failures(next.failed) {
                    AfterFailure::TryAgain(pause) => next.due = Instant::now() + pause,
                    AfterFailure::Refuse => {
                        let words = give_up_words(next.failed, &words);
                        outcome.refused.push((tx.clone(), words));
                    }
                }
                if tx.error.as_ref() != Some(&words) {
                    let mut told = TxChange::new(tx.id, tx.events, tx.standing);
                    told.error = Set::To(words);
                    outcome.told.push(told);
                }
            }
        }
        track.estimates().aside.insert(tx.id, next);
    }
    for (lane, outcome) in lanes {
        let slot = core.lanes.slot(lane);
        let Some(claim) = claims.get(&lane).copied() else { continue };
        let is_refused: HashSet<TxId> = outcome.refused.iter().map(|(tx, _)| tx.id).collect();
        bind::refuse(core, claim, outcome.refused).await;
        let mut changes = outcome.told;
        changes.retain(|change| !is_refused.contains(&change.tx));
        let wakes = !outcome.known.is_empty();
        changes.extend(outcome.known);
        write(core, claim, changes).await;
        if wakes {
            slot.set_waiting(true);
            bind::wake(core, &slot);
        }
    }
}
