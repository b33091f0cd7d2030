//! The nodes as they are known, and which of them a lane had best be on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use stile_domain::{Holder, Lane, NodeId, NodeMode, Timestamp, preferred};
use stile_store::{LiveNode, NodeRecord};

/// The nodes that live, as far as this one knows.
#[derive(Debug)]
pub(crate) struct Members {
    /// Whether lanes move to where they had best be.
    moves: bool,
    /// Whether this node is about to end.
    draining: AtomicBool,
    /// Whether this node has ever been known to be one of several, and whether it has heard at all.
    several: AtomicBool,
    known: AtomicBool,
    live: RwLock<Arc<Vec<LiveNode>>>,
    /// What the database's clock showed, and when that was by this process's own.
    time: RwLock<Option<(Instant, Timestamp)>>,
}

impl Members {
    pub(crate) fn new(moves: bool) -> Self {
        Self {
            moves,
            draining: AtomicBool::new(false),
            several: AtomicBool::new(false),
            known: AtomicBool::new(false),
            live: RwLock::default(),
            time: RwLock::default(),
        }
    }

    /// This node is about to end.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Whether this node has been the only one all the time, as far as it knows.
    pub(crate) fn was_always_alone(&self) -> bool {
        self.known.load(Ordering::Relaxed) && !self.several.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self, live: Vec<LiveNode>) {
        self.several.fetch_or(live.len() > 1, Ordering::Relaxed);
        self.known.store(true, Ordering::Relaxed);
        *self.live.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(live);
    }

    /// The database's clock shows this.
    pub(crate) fn set_time(&self, at: Timestamp) {
        *self.time.write().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), at));
    }

    /// What the database's clock shows now, to within what it takes to ask. All nodes go by it, so
    /// their own clocks do not matter.
    pub(crate) fn time(&self) -> Timestamp {
        let (since, at) = match *self.time.read().unwrap_or_else(PoisonError::into_inner) {
            Some(known) => known,
            None => return Timestamp::UNIX_EPOCH,
        };
        at.checked_add(since.elapsed()).unwrap_or(at)
    }

    /// Whether this start of a node, reached at this place, is one of those that live.
    pub(crate) fn has(&self, node: &Holder) -> bool {
        self.live().iter().any(|live| live.record.holder == *node)
    }

    pub(crate) fn live(&self) -> Arc<Vec<LiveNode>> {
        Arc::clone(&self.live.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The node that a lane had best be on, from this node's point of view: one of those that serve
    /// what it serves. `None` if it is not one of those among which lanes move.
    pub(crate) fn preferred(&self, me: &Holder, lane: Lane) -> Option<Holder> {
        self.choice(me, lane).map(|(holder, _)| holder)
    }

    /// That node, and when it was last heard of.
    fn choice(&self, me: &Holder, lane: Lane) -> Option<(Holder, Timestamp)> {
        if !self.moves {
            return None;
        }
        let live = self.live();
        // Whoever is about to end is no candidate any more, but it hands its lanes to those who
        // are.
        let own = live.iter().find(|live| live.record.holder.incarnation == me.incarnation)?;
        if !takes_part(&own.record) {
            return None;
        }
        let candidates = || {
            live.iter().filter(|LiveNode { record, .. }| {
                takes_part(record) && !record.draining && record.serves == own.record.serves
            })
        };
        let chosen: NodeId = preferred(lane, candidates().map(LiveNode::node))?.clone();
        let chosen = candidates().find(|it| *it.node() == chosen)?;
        Some((chosen.record.holder.clone(), chosen.seen_at))
    }

    /// Whether this node is one of those among which lanes move.
    pub(crate) fn move_lanes(&self, me: &Holder) -> bool {
        let own = |live: &&LiveNode| live.record.holder.incarnation == me.incarnation;
        self.moves && self.live().iter().find(own).is_some_and(|live| takes_part(&live.record))
    }

    /// The node that a lane had best be on, if that is another one.
    pub(crate) fn better(&self, me: &Holder, lane: Lane) -> Option<Holder> {
        self.better_heard(me, lane).map(|(holder, _)| holder)
    }

    /// That node, and when it was last heard of.
    pub(crate) fn better_heard(&self, me: &Holder, lane: Lane) -> Option<(Holder, Timestamp)> {
        self.choice(me, lane).filter(|(holder, _)| holder.incarnation != me.incarnation)
    }
}

/// Lanes only move between nodes that queue calls per lane, and only where callers can follow.
fn takes_part(record: &NodeRecord) -> bool {
    record.mode == NodeMode::WorkerQueue && record.holder.url.is_some()
}

#[cfg(test)]
mod tests {
    use stile_domain::{Address, ChainId, Incarnation, Timestamp};

    use super::*;

    fn node(name: &str, change: impl FnOnce(&mut NodeRecord)) -> LiveNode {
        let mut record = NodeRecord {
            holder: Holder {
                node: NodeId(name.into()),
                incarnation: Incarnation::fresh(),
                url: Some(format!("http://{name}")),
            },
            mode: NodeMode::WorkerQueue,
            serves: "all".into(),
            draining: false,
        };
        change(&mut record);
        LiveNode { record, started_at: Timestamp::UNIX_EPOCH, seen_at: Timestamp::UNIX_EPOCH }
    }

    /// Where the first so many lanes had best be, from the first node's point of view.
    fn spread(nodes: &[LiveNode]) -> Vec<String> {
        let members = Members::new(true);
        members.set(nodes.to_vec());
        let chain = ChainId::new(1).unwrap();
        let lanes = (0..64).map(|n| Lane::new(chain, Address::repeat_byte(n)));
        let me = &nodes[0].record.holder;
        let mut found: Vec<String> = lanes
            .map(|lane| members.preferred(me, lane).map_or("-".into(), |holder| holder.node.0))
            .collect();
        found.sort();
        found.dedup();
        found
    }

    #[test]
    fn lanes_move_between_nodes_of_a_kind() {
        let a = node("a", |_| {});
        let others = [
            node("b", |_| {}),
            node("c", |record| record.mode = NodeMode::Basic),
            node("d", |record| record.holder.url = None),
            node("e", |record| record.serves = "less".into()),
            node("f", |record| record.draining = true),
        ];
        let nodes: Vec<LiveNode> = std::iter::once(a).chain(others).collect();
        assert_eq!(spread(&nodes), ["a", "b"]);
    }

    #[test]
    fn whoever_ends_has_no_lanes_and_knows_whose_they_are() {
        let a = node("a", |record| record.draining = true);
        assert_eq!(spread(&[a.clone(), node("b", |_| {}), node("c", |_| {})]), ["b", "c"]);
        assert_eq!(spread(&[a]), ["-"]);
    }

    #[test]
    fn whoever_takes_no_part_keeps_its_lanes() {
        for alone in [
            node("a", |record| record.mode = NodeMode::Basic),
            node("a", |record| record.holder.url = None),
        ] {
            assert_eq!(spread(&[alone, node("b", |_| {})]), ["-"]);
        }
    }
}
