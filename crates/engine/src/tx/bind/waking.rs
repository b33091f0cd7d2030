//! One task at a time binds what waits on a lane, and none is asked for in vain.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use stile_domain::Lane;
use tracing::debug;

use super::{Progress, bind_some};
use crate::core::Core;
use crate::lanes::Slot;
use crate::metrics;
use crate::task;

/// Whether there is anything that this node could bind on a lane.
fn can_bind(core: &Core, lane: Lane) -> bool {
    !core.stopping.is_cancelled()
        && core.signers.signs(lane)
        && core.tracks.get(lane.chain).is_some()
}

/// Sees to it that somebody binds what waits on lanes that have just come here. One question tells
/// on which of them anything does; thousands of lanes would ask for a long time one by one, and those
/// with work would wait behind those without.
pub(crate) async fn wake_many(core: &Arc<Core>, lanes: &[Lane]) {
    let mut asked = Vec::with_capacity(lanes.len());
    for slot in lanes.iter().filter(|lane| can_bind(core, **lane)).map(|it| core.lanes.slot(*it)) {
        // As in `wake`: whoever is at it already looks once more.
        slot.woken.store(true, Ordering::SeqCst);
        if !slot.binding.swap(true, Ordering::SeqCst) {
            slot.woken.store(false, Ordering::SeqCst);
            asked.push(slot);
        }
    }
    if asked.is_empty() {
        return;
    }
    let lanes: Vec<Lane> = asked.iter().map(|slot| slot.lane()).collect();
    let waiting: Option<HashSet<Lane>> = match core.store.lanes_with_waiting(&lanes).await {
        Ok(waiting) => Some(waiting.into_iter().collect()),
        Err(error) => {
            metrics::store_failed("waiting");
            debug!(%error, "waiting transactions could not be looked for");
            None
        }
    };
    for slot in asked {
        let idle = waiting.as_ref().is_some_and(|waiting| !waiting.contains(&slot.lane()));
        if idle {
            slot.set_waiting(false);
        }
        slot.binding.store(false, Ordering::SeqCst);
        // One that came between the question and its answer is looked for next.
        if !idle || slot.woken.load(Ordering::SeqCst) {
            wake(core, &slot);
        }
    }
}

/// Sees to it that somebody binds what waits on a lane.
pub(crate) fn wake(core: &Arc<Core>, slot: &Arc<Slot>) {
    if !can_bind(core, slot.lane()) {
        return;
    }
    // Set first, then looked at by whoever runs: a wake-up is never lost between the two.
    slot.woken.store(true, Ordering::SeqCst);
    if slot.binding.swap(true, Ordering::SeqCst) {
        return;
    }
    let (core, slot) = (Arc::clone(core), Arc::clone(slot));
    let producers = core.producers.clone();
    producers.spawn(task::BIND, async move {
        loop {
            while slot.woken.swap(false, Ordering::SeqCst) && !core.stopping.is_cancelled() {
                while bind_some(&core, &slot).await == Progress::More
                    && !core.stopping.is_cancelled()
                {}
            }
            slot.reserved.send_replace(false);
            slot.binding.store(false, Ordering::SeqCst);
            // Woken after the last look and before the flag fell: somebody must go on.
            let missed = slot.woken.load(Ordering::SeqCst) && !core.stopping.is_cancelled();
            if !missed || slot.binding.swap(true, Ordering::SeqCst) {
                return;
            }
        }
    });
}
