//! Telling of oneself, and learning of the others.

use std::collections::HashMap;
use std::sync::Arc;

use stile_domain::{Holder, Incarnation, Lane, NodeMode, Timestamp};
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
    tell(core, true).await?;
    look(core).await
}

/// Tells of this node, and takes note of the database's time. `false` if a later start has its name.
async fn tell(core: &Core, start: bool) -> Result<bool, StoreError> {
    metrics::lease_statements("heartbeat", 1);
    let heard = core.membership.beat(&record(core), start).await?;
    if let Some(at) = heard {
        core.members.set_time(at);
    }
    Ok(heard.is_some())
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
    let mut misplaced = Misplaced::default();
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
        let held = core.lanes.held();
        let ripe = misplaced.ripe(held.iter().filter_map(|(slot, _)| {
            let lane = slot.lane();
            let (better, heard) = core.members.better_heard(&core.holder, lane)?;
            Some((lane, better, heard))
        }));
        if !ripe.is_empty() {
            hand_over(&core, ripe).await;
        }
    }
}

async fn beat(core: &Core) -> Result<(), StoreError> {
    if !tell(core, false).await? {
        warn!(node = %core.holder.node, "another process with this node's id has started since");
    }
    look(core).await
}

/// Lanes in the wrong place.
#[derive(Debug, Default)]
struct Misplaced(HashMap<Lane, Sighting>);

/// A lane in the wrong place, as it was first found so.
#[derive(Debug, Clone, Copy)]
struct Sighting {
    looks: u32,
    /// Where it had best be.
    better: Incarnation,
    /// When that node had last been heard of.
    heard: Timestamp,
}

impl Misplaced {
    /// Of the lanes that are in the wrong place now, those that have been for long enough, with
    /// where they had best be. A node that was not heard of in between may be gone: nothing is
    /// handed to it.
    fn ripe(
        &mut self,
        found: impl Iterator<Item = (Lane, Holder, Timestamp)>,
    ) -> Vec<(Lane, Holder)> {
        let mut still = HashMap::new();
        let mut ripe = Vec::new();
        for (lane, better, heard) in found {
            // Redis and the database each have their clock: what goes back is by another one.
            let same = |it: &&Sighting| it.better == better.incarnation && it.heard <= heard;
            let before = self.0.get(&lane).filter(same);
            let first = Sighting { looks: 0, better: better.incarnation, heard };
            let mut sighting = before.copied().unwrap_or(first);
            sighting.looks += 1;
            if sighting.looks >= SURE_AFTER && heard > sighting.heard {
                ripe.push((lane, better));
            }
            still.insert(lane, sighting);
        }
        self.0 = still;
        ripe
    }
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

#[cfg(test)]
mod tests {
    use stile_domain::{Address, ChainId, NodeId};

    use super::*;

    fn lane() -> Lane {
        Lane::new(ChainId::new(1).unwrap(), Address::repeat_byte(1))
    }

    fn holder() -> Holder {
        Holder { node: NodeId("b".into()), incarnation: Incarnation::fresh(), url: None }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_lane_moves_after_two_looks_in_a_row() {
        let (mut misplaced, b) = (Misplaced::default(), holder());
        assert!(misplaced.ripe([(lane(), b.clone(), at(1))].into_iter()).is_empty());
        assert!(misplaced.ripe([].into_iter()).is_empty(), "it was in its place for a moment");
        assert!(misplaced.ripe([(lane(), b.clone(), at(2))].into_iter()).is_empty());
        let ripe = misplaced.ripe([(lane(), b.clone(), at(3))].into_iter());
        assert_eq!(ripe, [(lane(), b)]);
    }

    #[test]
    fn nothing_is_handed_to_a_node_that_is_silent() {
        let (mut misplaced, b) = (Misplaced::default(), holder());
        for _ in 0..5 {
            let ripe = misplaced.ripe([(lane(), b.clone(), at(1))].into_iter());
            assert!(ripe.is_empty(), "it may be gone");
        }
        assert_eq!(misplaced.ripe([(lane(), b.clone(), at(2))].into_iter()), [(lane(), b)]);
    }

    #[test]
    fn by_another_clock_it_is_looked_anew() {
        let (mut misplaced, b) = (Misplaced::default(), holder());
        assert!(misplaced.ripe([(lane(), b.clone(), at(100))].into_iter()).is_empty());
        assert!(misplaced.ripe([(lane(), b.clone(), at(1))].into_iter()).is_empty());
        assert_eq!(misplaced.ripe([(lane(), b.clone(), at(2))].into_iter()), [(lane(), b)]);
    }

    #[test]
    fn another_node_is_another_matter() {
        let mut misplaced = Misplaced::default();
        assert!(misplaced.ripe([(lane(), holder(), at(1))].into_iter()).is_empty());
        assert!(misplaced.ripe([(lane(), holder(), at(2))].into_iter()).is_empty());
    }
}
