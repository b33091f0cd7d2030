//! Each lane, compared with its chain.
//!
//! Blocks show at once what happens to transactions that are followed. This is for the rest: every
//! `state_timeout` the count of each account is held against its lane's cursor, and whatever does
//! not fit is counted, told, and mended where that is safe. One endpoint tells the counts of all; where
//! its word would have consequences, a quorum of the endpoints says how many it is. What looks wrong
//! once may be an endpoint that is behind, so a lane is looked at a second time before anything is
//! done. Each chain is compared by itself, so one that hangs holds up no other.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use stile_chain::At;
use stile_domain::{Drift, HeadOwner, HoldStatus, Lane, LaneEventKind, Nonce, TxState, drift};
use stile_store::{LaneView, LedgerOwner, NewLaneEvent, NonceOwner, Refusal, StoreError};
use tracing::{debug, info, warn};

use crate::core::Core;
use crate::made_anew;
use crate::metrics;
use crate::pause;
use crate::settings::ChainQuery;
use crate::start;
use crate::task;
use crate::tx;
use crate::tx::track::Track;

/// Lanes asked about in one question.
const CHUNK: usize = 100;

/// How soon a lane is looked at again that is out of step.
const SECOND_LOOK: Duration = Duration::from_secs(5);

/// The shortest time between two looks, however often lanes are to be compared.
const LEAST_PAUSE: Duration = Duration::from_millis(100);

/// Nonces that nobody has, taken note of in one go.
const GAP_LIMIT: u64 = 100;

/// Something that does not fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// Its name: `outside_use`, `chain_reset`, `gap`, `suspect_hold`, `silent_hold`.
    pub kind: &'static str,
    /// In words.
    pub words: String,
}

/// A lane as it stands to its chain.
#[derive(Debug, Clone)]
pub(crate) struct Comparison {
    pub(crate) view: LaneView,
    pub(crate) latest: Nonce,
    pub(crate) head: Option<NonceOwner>,
    pub(crate) drift: Drift,
}

/// What is remembered of lanes from look to look.
#[derive(Debug, Default)]
struct Memory {
    looked: HashMap<Lane, Instant>,
    out_of_step: HashMap<Lane, OutOfStep>,
}

/// A lane that is out of step.
#[derive(Debug, Clone, Copy)]
struct OutOfStep {
    since: Instant,
    drift: Drift,
    /// Where.
    nonce: Nonce,
    /// How often it was found so before.
    looks: u32,
}

/// Starts a task for each chain.
pub(crate) fn start(core: &Arc<Core>) {
    if core.settings.chain_query == ChainQuery::Disabled {
        return;
    }
    for track in core.tracks.iter() {
        core.tasks.spawn(task::RECONCILE, run_chain(Arc::clone(core), Arc::clone(track)));
    }
}

async fn run_chain(core: Arc<Core>, track: Arc<Track>) {
    let every = core.settings.state_timeout;
    let mut ticks = tokio::time::interval(interval(every));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut memory = Memory::default();
    loop {
        tokio::select! {
            () = core.stopping.cancelled() => return,
            _ = ticks.tick() => {}
        }
        round(&core, &track, &mut memory, every).await;
    }
}

/// The time between two looks. Never none, which no timer takes.
fn interval(state_timeout: Duration) -> Duration {
    state_timeout.clamp(LEAST_PAUSE, SECOND_LOOK)
}

async fn round(core: &Arc<Core>, track: &Arc<Track>, memory: &mut Memory, every: Duration) {
    let chain = track.pool.chain();
    let held = core.lanes.held().into_iter().map(|(slot, _)| slot.lane());
    let held: HashSet<Lane> = held.filter(|lane| lane.chain == chain).collect();
    memory.looked.retain(|lane, _| {
        let keeps = lane.chain != chain || held.contains(lane);
        if !keeps {
            metrics::lane_gone(*lane);
        }
        keeps
    });
    memory.out_of_step.retain(|lane, _| lane.chain != chain || held.contains(lane));
    let due = held.into_iter().filter(|lane| {
        memory.out_of_step.contains_key(lane)
            || memory.looked.get(lane).is_none_or(|looked| looked.elapsed() >= every)
    });
    let due: Vec<Lane> = due.collect();
    for chunk in due.chunks(CHUNK) {
        let Some(compared) = compare(core, track, chunk).await else { return };
        for comparison in compared {
            memory.looked.insert(comparison.view.lane, Instant::now());
            attend(core, track, memory, comparison).await;
        }
    }
}

/// Holds lanes against the chain. The counts are asked for first: cursors only grow, so a count
/// above the cursor that is read after it is no accident of timing.
pub(crate) async fn compare(core: &Core, track: &Track, lanes: &[Lane]) -> Option<Vec<Comparison>> {
    let accounts: Vec<_> = lanes.iter().map(|lane| lane.signer).collect();
    let counts = match track.pool.counts(&accounts, At::Latest).await {
        Ok(counts) => counts,
        Err(error) => {
            debug!(%error, "lanes could not be compared with the chain");
            return None;
        }
    };
    if let Ok(balances) = track.pool.balances(&accounts).await {
        for (lane, balance) in lanes.iter().zip(balances) {
            metrics::balance(*lane, balance);
            metrics::runway(*lane, balance, track.book().usual_cost(*lane));
        }
    }
    let compared = async {
        let views = core.store.lanes(lanes).await?;
        let mut compared = Vec::with_capacity(lanes.len());
        for (view, latest) in views.into_iter().zip(counts) {
            let Some(view) = view else { continue };
            compared.push(compare_one(core, track, view, latest).await?);
        }
        Ok::<_, StoreError>(compared)
    };
    match compared.await {
        Ok(compared) => Some(compared),
        Err(error) => {
            metrics::store_failed("reconcile");
            warn!(%error, "lanes could not be compared with the chain");
            None
        }
    }
}

/// Holds a lane against the chain, by the word of one endpoint, and by that of a quorum where
/// something would follow from it.
async fn compare_one(
    core: &Core,
    track: &Track,
    view: LaneView,
    latest: Nonce,
) -> Result<Comparison, StoreError> {
    let (lane, alone) = (view.lane, track.pool.quorum().configured() == 1);
    let comparison = stand(core, track, view, latest).await?;
    if alone
        || (!is_of_consequence(comparison.drift) && !track.book().has_unmined_below(lane, latest))
    {
        return Ok(comparison);
    }
    let counted = track.pool.counted(lane.signer).await;
    let counted = counted.inspect_err(|error| debug!(%error, "no agreement on a lane's count"));
    // Nothing is concluded, and it is looked at again.
    let unknown = |view| Comparison { view, latest: 0, head: None, drift: Drift::InStep };
    let Ok(counted) = counted else { return Ok(unknown(comparison.view)) };
    let agreed = stand(core, track, comparison.view, counted.at_least).await?;
    let open = counted.exact().is_none() && agreed.drift != Drift::OutsideUse;
    match open && is_of_consequence(agreed.drift) {
        true => Ok(unknown(agreed.view)),
        false => Ok(agreed),
    }
}

/// Whether something is done about it that one endpoint is not believed for.
fn is_of_consequence(drift: Drift) -> bool {
    matches!(drift, Drift::OutsideUse | Drift::ChainReset | Drift::Gap)
}

/// How a lane stands to a chain that has so many transactions of its account.
async fn stand(
    core: &Core,
    track: &Track,
    view: LaneView,
    latest: Nonce,
) -> Result<Comparison, StoreError> {
    let in_step = |view| Comparison { view, latest, head: None, drift: Drift::InStep };
    let Some(cursor) = view.next_nonce.filter(|_| view.aligned) else { return Ok(in_step(view)) };
    // Most lanes wait for a transaction that is in the book, and then nobody has to be asked.
    if track.book().is_unmined_at(view.lane, latest) {
        return Ok(in_step(view));
    }
    let head =
        if latest < cursor { first_owner(core, view.lane, latest, cursor).await? } else { None };
    let owner = head.as_ref().filter(|head| head.nonce == latest).map(|head| match &head.owner {
        LedgerOwner::Hold(hold) => HeadOwner::Hold(hold.status),
        LedgerOwner::Tx(id, TxState::Tracking) if track.is_gone(*id) => HeadOwner::Gone,
        LedgerOwner::Tx(_, state) => HeadOwner::Tx(*state),
    });
    Ok(Comparison { drift: drift(latest, cursor, owner), view, latest, head })
}

/// Who has a nonce, or else the next one that somebody has below the cursor. What was given back and
/// used by somebody else is nobody's: if the chain waits for it, that was taken back.
pub(crate) async fn first_owner(
    core: &Core,
    lane: Lane,
    from: Nonce,
    cursor: Nonce,
) -> Result<Option<NonceOwner>, StoreError> {
    let mut from = from;
    while from < cursor {
        let owner = core.store.nonce_owners(lane, from, 1).await?.into_iter().next();
        match owner {
            Some(NonceOwner { nonce, owner: LedgerOwner::Hold(hold) }) if hold.is_nobodys() => {
                from = nonce + 1;
            }
            owner => return Ok(owner),
        }
    }
    Ok(None)
}

impl Comparison {
    /// What does not fit, in words.
    pub(crate) fn mismatch(&self) -> Option<Mismatch> {
        let (latest, cursor) = (self.latest, self.view.next_nonce.unwrap_or_default());
        let (kind, words) = match self.drift {
            // Its caller has time still.
            Drift::InStep | Drift::HeldUp(HoldStatus::Held) => return None,
            Drift::OutsideUse => (
                "outside_use",
                format!(
                    "the chain has {latest} transactions of this account, but only nonces below {cursor} were given \
                     out: somebody else signs with this key"
                ),
            ),
            Drift::ChainReset => (
                "chain_reset",
                format!(
                    "the chain waits for nonce {latest}, which is on record as used and final: it has lost \
                     transactions, or was reset"
                ),
            ),
            Drift::Gap => {
                ("gap", format!("the chain waits for nonce {latest}, and nobody will send it"))
            }
            Drift::HeldUp(HoldStatus::Suspect) => (
                "suspect_hold",
                format!(
                    "the chain waits for nonce {latest}: its caller let its time run out and has not said whether it was sent"
                ),
            ),
            Drift::HeldUp(HoldStatus::Consumed) => (
                "silent_hold",
                format!(
                    "the chain waits for nonce {latest}: its caller says that it was sent, but it is not mined"
                ),
            ),
            // Given back: on its way to somebody else.
            Drift::HeldUp(HoldStatus::Released) => return None,
        };
        Some(Mismatch { kind, words })
    }
}

/// Sees to what was found on a lane.
async fn attend(core: &Arc<Core>, track: &Arc<Track>, memory: &mut Memory, comparison: Comparison) {
    let (lane, latest) = (comparison.view.lane, comparison.latest);
    metrics::lane_paused(lane, comparison.view.paused.is_some());
    if comparison.view.restored.is_none() {
        metrics::restored_waiting(lane, 0);
    }
    let slot = core.lanes.slot(lane);
    let uncompared = (comparison.drift == Drift::OutsideUse || slot.goes_on_uncompared())
        && comparison.view.paused.is_none()
        && start::is_to_be_compared(core, &slot);
    if !comparison.view.aligned || uncompared {
        // Whatever does not fit, the database has lost it; nobody else is to blame.
        if let Err(error) = start::start(core, &slot).await {
            warn!(%error, signer = %lane.signer, chain = %lane.chain, "not realigned yet");
        }
        return;
    }
    catch_up(core, track, &comparison);
    // Where others give out the nonces, the chain is ahead of what is known here, and rightly so.
    let owned = comparison.view.elsewhere.is_none();
    let Some(mismatch) = comparison.mismatch().filter(|_| owned) else {
        metrics::gap_age(lane, Duration::ZERO);
        if memory.out_of_step.remove(&lane).is_some() {
            info!(signer = %lane.signer, chain = %lane.chain, "the lane is in step with its chain again");
        }
        return;
    };
    let now = Instant::now();
    let known = memory.out_of_step.get(&lane).copied();
    let known = known.filter(|it| it.drift == comparison.drift && it.nonce == latest);
    let new = OutOfStep { since: now, drift: comparison.drift, nonce: latest, looks: 0 };
    let found = known.map_or(new, |it| OutOfStep { looks: it.looks + 1, ..it });
    memory.out_of_step.insert(lane, found);
    let age = now.duration_since(found.since);
    if matches!(comparison.drift, Drift::Gap | Drift::HeldUp(_)) {
        metrics::gap_age(lane, age);
    }
    if found.looks == 0 {
        return;
    }
    if comparison.drift == Drift::ChainReset && found.looks == 1 {
        // A reorganisation may have taken back what is on record as final: that is looked at anew
        // before anybody is called.
        tx::adopt(core, vec![lane]);
        return;
    }
    let result = mend(core, track, &comparison, &mismatch, age).await;
    if let Err(error) = result {
        metrics::store_failed("reconcile");
        warn!(%error, signer = %lane.signer, "a mismatch could not be seen to");
    }
}

/// What the chain has passed is settled, and what the book has lost is read again.
fn catch_up(core: &Arc<Core>, track: &Track, comparison: &Comparison) {
    let (lane, latest) = (comparison.view.lane, comparison.latest);
    if let Some(last) = latest.checked_sub(1) {
        let stale = core.settings.tx.stale_receipt;
        track.book().check_up_to(lane, last, Instant::now(), stale);
    }
    if let Some(LedgerOwner::Tx(id, state)) = comparison.head.as_ref().map(|head| &head.owner) {
        use stile_domain::TxState::{Allocated, Submitted};
        if matches!(state, Allocated | Submitted) && track.book().get(*id).is_none() {
            tx::adopt(core, vec![lane]);
        }
    }
}

/// A mismatch that was there the last time too.
async fn mend(
    core: &Arc<Core>,
    track: &Track,
    comparison: &Comparison,
    mismatch: &Mismatch,
    age: Duration,
) -> Result<(), StoreError> {
    let (lane, latest) = (comparison.view.lane, comparison.latest);
    let tell = age < core.settings.state_timeout.max(SECOND_LOOK) + SECOND_LOOK;
    if tell && comparison.drift != Drift::OutsideUse {
        metrics::mismatch(mismatch.kind);
        warn!(signer = %lane.signer, chain = %lane.chain, nonce = latest, kind = mismatch.kind,
              words = mismatch.words, op = "reconcile", "the lane is out of step with its chain");
    }
    match comparison.drift {
        // The lost history may have sent it: it is stepped over and read.
        Drift::OutsideUse if comparison.view.restored.is_some_and(|mark| mark.is_open()) => {}
        Drift::OutsideUse if comparison.view.paused.is_none() => {
            tx::outside_use(core, lane, latest - 1).await?;
        }
        Drift::ChainReset if comparison.view.paused.is_none() => {
            if made_anew::send_empty_again(core, track, comparison).await? {
                return Ok(());
            }
            let data = json!({ "chainNonce": latest });
            let event = NewLaneEvent { kind: LaneEventKind::ChainReset, data };
            pause::as_holder(core, lane, &event, &mismatch.words).await?;
        }
        Drift::Gap => own_up(core, track, comparison, &[]).await?,
        _ => {}
    }
    Ok(())
}

/// Nonces that nobody has are taken note of as if they had been given back, unless a pool has
/// transactions for them: then whoever sent those has them. A pool may be mistaken, and a person may
/// know better: of what it claims to have, nonces that somebody vouches for are taken note of.
pub(crate) async fn own_up(
    core: &Arc<Core>,
    track: &Track,
    comparison: &Comparison,
    vouched: &[Nonce],
) -> Result<(), StoreError> {
    let (lane, latest) = (comparison.view.lane, comparison.latest);
    let slot = core.lanes.slot(lane);
    let Some(claim) = slot.claim() else { return Ok(()) };
    if comparison.head.as_ref().is_some_and(|head| head.nonce == latest) {
        // Given back already: it is offered, and filled.
        core.refresh(lane).await;
        return Ok(());
    }
    let reports = track.pool.report(lane.signer, None).await;
    let counts: Vec<Nonce> = reports.iter().filter_map(|said| said.latest).collect();
    if counts.iter().filter(|count| **count <= latest).count() * 2 <= counts.len() {
        // Used by the word of most: whoever said otherwise is behind.
        return Ok(());
    }
    let claimed = reports.iter().any(|said| said.pending.is_some_and(|pending| pending > latest));
    let cursor = comparison.view.next_nonce.unwrap_or(latest);
    let end = comparison.head.as_ref().map_or(cursor, |head| head.nonce);
    let nonces = latest..end.min(latest + GAP_LIMIT);
    let nonces = nonces.take_while(|nonce| !claimed || vouched.contains(nonce));
    let nonces: Vec<Nonce> = nonces.collect();
    if nonces.is_empty() {
        return Ok(());
    }
    let reason = "nobody has it";
    match core.store.own_up(&claim, &nonces, reason, core.lease()).await? {
        Ok(holds) => {
            slot.gave_back();
            info!(signer = %lane.signer, chain = %lane.chain, from = latest, count = holds.len(),
                  "nonces that nobody has are given out again");
            core.refresh(lane).await;
        }
        Err(Refusal::Fenced(owner)) => core.lost(&slot, claim, &owner, "own_up"),
        Err(refusal) => debug!(%refusal, "not owned up to"),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_timer_takes_whatever_is_asked_for() {
        for state_timeout in [Duration::ZERO, Duration::from_secs(1), Duration::MAX] {
            tokio::time::interval(interval(state_timeout)).tick().await;
        }
        assert_eq!(interval(Duration::from_secs(1)), Duration::from_secs(1));
    }
}
