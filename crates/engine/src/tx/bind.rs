//! Nonces for transactions that waited.
//!
//! What could not have its nonce at once waits in the store as `CREATED`: behind a full lane, a
//! pause, a silent chain, a signer in another process. One task per lane takes them in order of
//! acceptance, prepares what is slow outside any lock, and commits.

mod commit;
mod prepare;
mod waking;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stile_domain::{Lane, Planner};
use stile_store::{Acquisition, Claim, Tx};
use tracing::{debug, warn};

use crate::core::Core;
use crate::fill::{self, FILLER_TENANT};
use crate::lanes::Slot;
use crate::metrics;
use crate::restored;
use crate::start;
use crate::tx::wishes;

use self::commit::{Batch, Binder};
pub(crate) use self::commit::{bound, written};
use self::prepare::prepare;
pub(crate) use self::prepare::refuse;
pub(crate) use self::waking::{wake, wake_many};

/// Transactions bound in one commit.
const BATCH_LIMIT: usize = 1000;

/// Of a signer in another process: so many that a burst is signed side by side, so few that not
/// much is signed in vain if the plan changes.
const REMOTE_BATCH_LIMIT: usize = 64;

/// How often it is looked whether something waits that was held up, or, where other nodes are not
/// heard, that another node has accepted.
const POLL: Duration = Duration::from_millis(500);

/// Where other nodes are heard: how many looks at what is known to wait come before one at all
/// lanes.
const LOOKS_PER_FULL_LOOK: u32 = 4;

/// How old a fee quote may be.
const QUOTE_AGE: Duration = Duration::from_secs(60);

/// Fee quotes from before this moment are too old.
pub(crate) fn fresh_quote() -> Instant {
    let now = Instant::now();
    now.checked_sub(QUOTE_AGE).unwrap_or(now)
}

/// Looks for what waits on the lanes this node holds.
pub(crate) async fn poll(core: Arc<Core>) {
    let mut ticks = tokio::time::interval(POLL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    for count in 0_u32.. {
        tokio::select! {
            () = core.stopping.cancelled() => return,
            _ = ticks.tick() => {}
        }
        if core.bell.hears() && !count.is_multiple_of(LOOKS_PER_FULL_LOOK) {
            let held = core.lanes.held().into_iter().map(|(slot, _)| slot);
            held.filter(|slot| slot.has_waiting()).for_each(|slot| wake(&core, &slot));
        } else {
            look(&core).await;
        }
    }
}

/// Looks for what waits, transactions and wishes, on all lanes that this node holds.
pub(crate) async fn look(core: &Arc<Core>) {
    let lanes: Vec<Lane> = core.lanes.held().into_iter().map(|(slot, _)| slot.lane()).collect();
    for chunk in lanes.chunks(500) {
        wishes::look(core, chunk).await;
        match core.store.lanes_with_waiting(chunk).await {
            Ok(waiting) => {
                let waiting: HashSet<Lane> = waiting.into_iter().collect();
                for lane in chunk {
                    let slot = core.lanes.slot(*lane);
                    if waiting.contains(lane) {
                        slot.set_waiting(true);
                        wake(core, &slot);
                    } else if slot.has_waiting() {
                        // What waited was withdrawn while somebody was at it: it is looked at once more, since
                        // no gap is filled and nothing is bound at once while something seems to wait.
                        wake(core, &slot);
                    }
                }
            }
            Err(error) => {
                metrics::store_failed("waiting");
                debug!(%error, "waiting transactions could not be looked for");
            }
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Progress {
    /// There may be more.
    More,
    /// Nothing waits, or what waits must wait on; the next wake-up or look finds it.
    Stop,
}

async fn bind_some(core: &Arc<Core>, slot: &Arc<Slot>) -> Progress {
    let lane = slot.lane();
    let (Some(track), Some(signer)) = (core.tracks.get(lane.chain), core.signers.get(lane)) else {
        return Progress::Stop;
    };
    // That node is told of what waits, and whatever it leaves is found when its lease is over.
    if core.is_known_elsewhere(slot) {
        return Progress::Stop;
    }
    let before = slot.claim();
    let in_flight = track.book().in_flight(lane);
    let room = match core.settings.tx.max_in_flight.saturating_sub(in_flight) {
        // What closes a gap needs no room: nothing in flight can be mined before it.
        0 => gaps(slot).await,
        room => room,
    };
    let most = if signer.is_local() { BATCH_LIMIT } else { REMOTE_BATCH_LIMIT };
    let asked = most.min(room.max(1));
    let waiting = match core.store.waiting(lane, asked as u32).await {
        Ok(waiting) => waiting,
        Err(error) => {
            metrics::store_failed("waiting");
            warn!(%error, signer = %lane.signer, "waiting transactions could not be read");
            return Progress::Stop;
        }
    };
    if waiting.is_empty() {
        slot.set_waiting(false);
        // One that came between the question and its answer has woken us, and is looked for next.
        return Progress::Stop;
    }
    slot.set_waiting(true);
    if room == 0
        || core.recorder.is_behind()
        || track.unfunded().contains(&lane)
        || !lease(core, slot).await
    {
        return Progress::Stop;
    }
    let Some(claim) = slot.claim() else { return Progress::Stop };
    if before != Some(claim) {
        // Read before the lane was ours, or before it was realigned, and then marked: it is read again.
        return Progress::More;
    }
    let found = waiting.len();
    let waiting = match without_idle_fillers(core, slot, claim, waiting).await {
        Some(waiting) => waiting,
        None => return Progress::Stop,
    };
    let (waiting, to_sign) = match prepare(core, track, claim, waiting).await {
        Some(prepared) => prepared,
        None => return Progress::Stop,
    };
    if waiting.is_empty() {
        return Progress::More;
    }
    let unsure = {
        let mut work = slot.work.lock().await;
        let on_offer = work.planner(&claim).is_some_and(|p| p.on_offer_for_stile() > 0);
        on_offer || !work.is_looked_up() || slot.has_unlooked()
    };
    if unsure {
        core.refresh(lane).await;
    }
    let last = found < asked && waiting.len() == found;
    let batch = Batch { waiting, to_sign, last };
    let binder = Binder { core, slot, track, claim, signer };
    if signer.is_local() { binder.here(&batch).await } else { binder.elsewhere(&batch).await }
}

/// How many nonces were given back below what is on the wire.
async fn gaps(slot: &Slot) -> usize {
    let Some(claim) = slot.claim() else { return 0 };
    let mut work = slot.work.lock().await;
    work.planner(&claim).map_or(0, |planner| planner.kept().count())
}

/// Whether an empty transaction may take the lowest gap: always, but on a lane of a restored database, where
/// it could take it from what a lost history sent. What is not known is waited for.
async fn may_fill(core: &Core, slot: &Slot, claim: Claim) -> bool {
    let lane = slot.lane();
    match restored::is_marked(core, lane).await {
        Ok(false) => return true,
        Ok(true) => {}
        Err(_) => return false,
    }
    let lowest = {
        let mut work = slot.work.lock().await;
        work.planner(&claim).and_then(|planner| planner.kept().map(|gap| gap.nonce).min())
    };
    match lowest {
        Some(gap) => fill::is_free(core, lane, gap).await.unwrap_or(false),
        None => true,
    }
}

/// Leaves out empty transactions for gaps that are closed already: with a fresh nonce they would
/// only cost. `None` if only such ones wait, and it cannot be learned whether their gaps are closed.
async fn without_idle_fillers(
    core: &Arc<Core>,
    slot: &Slot,
    claim: Claim,
    mut waiting: Vec<Tx>,
) -> Option<Vec<Tx>> {
    if !waiting.iter().any(|tx| tx.tenant == FILLER_TENANT) {
        return Some(waiting);
    }
    if !core.refresh(slot.lane()).await {
        // They are neither bound nor refused, and nobody waits for them.
        waiting.retain(|tx| tx.tenant != FILLER_TENANT);
        return (!waiting.is_empty()).then_some(waiting);
    }
    let gaps = {
        let mut work = slot.work.lock().await;
        work.planner(&claim).map_or(0, |planner| planner.on_offer_for_stile())
    };
    if !may_fill(core, slot, claim).await {
        waiting.retain(|tx| tx.tenant != FILLER_TENANT);
        return (!waiting.is_empty()).then_some(waiting);
    }
    let others = waiting.iter().filter(|tx| tx.tenant != FILLER_TENANT).count();
    let mut needed = gaps.saturating_sub(others);
    let (wanted, idle): (Vec<Tx>, Vec<Tx>) = waiting.drain(..).partition(|tx| {
        let filler = tx.tenant == FILLER_TENANT;
        let stays = !filler || needed > 0;
        needed -= usize::from(filler && stays);
        stays
    });
    let why = || "the gap it was for is closed".to_owned();
    refuse(core, claim, idle.into_iter().map(|tx| (tx, why())).collect()).await;
    Some(wanted)
}

/// Makes sure that the lane is ours and has a cursor.
async fn lease(core: &Arc<Core>, slot: &Arc<Slot>) -> bool {
    for _ in 0..3 {
        let mut work = slot.work.lock().await;
        if slot.trusted_claim().is_some_and(|claim| work.planner(&claim).is_some()) {
            return true;
        }
        let Ok(mut answers) = core.acquire(&[slot.lane()]).await else { return false };
        let Some(Acquisition::Held(held)) = answers.pop() else {
            work.forget();
            return false;
        };
        if held.paused.is_some() || held.elsewhere.is_some() {
            return false;
        }
        match held.next_nonce {
            Some(cursor) => {
                work.plan_from(&held.claim, Planner::new(cursor));
            }
            None => {
                drop(work);
                if let Err(error) = start::start(core, slot).await {
                    debug!(%error, signer = %slot.lane().signer, "the lane cannot start yet");
                    return false;
                }
            }
        }
    }
    false
}
