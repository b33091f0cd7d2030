//! Telling of oneself, and learning of the others.

use std::collections::HashMap;
use std::sync::Arc;

use stile_domain::{Holder, Lane, NodeMode};
use stile_store::{NodeRecord, StoreError};
use tracing::{debug, warn};

use super::hand_over::hand_over;
use crate::core::Core;
use crate::metrics;
use crate::settings::Mode;

/// Looks in a row that must find a lane in the wrong place before it is handed over, so that nodes
/// that come and go do not take lanes along with them.
const SURE_AFTER: u32 = 2;

/// What this node tells of itself.
fn record(core: &Core) -> NodeRecord {
    let mode = match core.settings.mode {
        Mode::Basic => NodeMode::Basic,
        Mode::WorkerQueue(_) => NodeMode::WorkerQueue,
    };
    let serves = core.settings.serves.clone();
    let draining = core.members.is_draining();
    NodeRecord { holder: core.holder.clone(), mode, serves, draining }
}

/// At start: the others learn of this node, and it of them.
pub(crate) async fn join(core: &Core) -> Result<(), StoreError> {
    metrics::lease_statements("heartbeat", 1);
    core.membership.beat(&record(core), true).await?;
    look(core).await
}

async fn look(core: &Core) -> Result<(), StoreError> {
    metrics::lease_statements("look", 1);
    let live = core.membership.live().await?;
    metrics::nodes_live(live.len());
    core.members.set(live);
    Ok(())
}

/// Beats until the node stops.
pub(crate) async fn run(core: Arc<Core>) {
    let mut ticks = tokio::time::interval(core.settings.lease.renew_interval);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    // The first one comes at once, and the node has just joined.
    ticks.tick().await;
    let mut misplaced: HashMap<Lane, u32> = HashMap::new();
    loop {
        tokio::select! {
            () = core.stopping.cancelled() => return,
            _ = ticks.tick() => {}
        }
        if let Err(error) = beat(&core).await {
            metrics::store_failed("heartbeat");
            debug!(%error, "the other nodes could not be told or asked");
            // Where lanes had best be is not known any better now than at the last look.
            continue;
        }
        let ripe = ripe(&core, &mut misplaced);
        if !ripe.is_empty() {
            hand_over(&core, ripe).await;
        }
    }
}

async fn beat(core: &Core) -> Result<(), StoreError> {
    metrics::lease_statements("heartbeat", 1);
    if !core.membership.beat(&record(core), false).await? {
        warn!(node = %core.holder.node, "another process with this node's id has started since");
    }
    look(core).await
}

/// The lanes that have been in the wrong place for long enough, with where they had best be.
fn ripe(core: &Core, misplaced: &mut HashMap<Lane, u32>) -> Vec<(Lane, Holder)> {
    let mut still = HashMap::new();
    let mut ripe = Vec::new();
    for (slot, _) in core.lanes.held() {
        let lane = slot.lane();
        let Some(better) = core.members.better(&core.holder, lane) else { continue };
        let looks = misplaced.get(&lane).copied().unwrap_or(0) + 1;
        still.insert(lane, looks);
        if looks >= SURE_AFTER {
            ripe.push((lane, better));
        }
    }
    *misplaced = still;
    ripe
}

/// Before the lanes are given back: from here on nobody prefers this node any more.
pub(super) async fn drain(core: &Core) {
    core.members.drain();
    if let Err(error) = beat(core).await {
        metrics::store_failed("heartbeat");
        debug!(%error, "the other nodes could not be told that this one ends");
    }
}

/// At the very end.
pub(crate) async fn leave(core: &Core) {
    if let Err(error) = core.membership.leave(&record(core)).await {
        metrics::store_failed("heartbeat");
        debug!(%error, "the other nodes could not be told that this one has ended");
    }
}
