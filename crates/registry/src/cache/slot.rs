//! The place of one node in the memory of an instance.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;

use crate::backend::Known;
use crate::capability::Bits;
use crate::clock::Moment;
use crate::{Capacity, Node, NodeId, Version};

/// What is known of a node. Replaced as a whole, so that a reader sees one state or another and
/// never a mixture.
#[derive(Debug)]
pub(crate) enum State {
    Live(Live),
    /// Not there (any more), as of this version: nothing older is believed again.
    Gone(Version),
}

#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) node: Arc<Node>,
    pub(crate) offers: Bits,
    pub(crate) pools: Box<[u32]>,
    pub(crate) ready: bool,
    /// When it is dead unless heard of again.
    pub(crate) dies_at: Moment,
    /// When the question was asked that this is the answer to.
    pub(crate) as_of: Moment,
}

impl State {
    pub(crate) fn version(&self) -> Version {
        match self {
            Self::Live(live) => live.node.version(),
            Self::Gone(version) => *version,
        }
    }

    pub(crate) fn live(&self) -> Option<&Live> {
        match self {
            Self::Live(live) => Some(live),
            Self::Gone(_) => None,
        }
    }
}

/// How old what is known is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Age {
    /// L1: taken as it is.
    Fresh,
    /// L2: good enough, while somebody looks.
    Older,
    /// For times without Redis.
    Old,
}

/// One node. Lives in the map and in the views of its pools; what it holds is swapped.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) id: NodeId,
    since: Moment,
    /// Decides between nodes that are equally loaded.
    pub(crate) hash: u64,
    pub(crate) state: ArcSwap<State>,
    fresh_until: AtomicU64,
    good_until: AtomicU64,
    /// How often somebody has written.
    doubts: AtomicU64,
    /// Somebody has asked for a look at it and nobody has looked yet.
    pub(crate) queued: AtomicBool,
    /// Somebody has read it since it was last looked at.
    pub(crate) wanted: AtomicBool,
    /// Slots in use (high half) and slots there are (low half), as of the last answer about them.
    load: AtomicU64,
    tick: AtomicU64,
}

impl Slot {
    pub(crate) fn new(id: NodeId, since: Moment) -> Self {
        Self {
            since,
            hash: crate::rendezvous::hash(id.as_str().as_bytes()),
            id,
            state: ArcSwap::from_pointee(State::Gone(Version::default())),
            fresh_until: AtomicU64::new(0),
            good_until: AtomicU64::new(0),
            doubts: AtomicU64::new(0),
            queued: AtomicBool::new(false),
            wanted: AtomicBool::new(true),
            load: AtomicU64::new(0),
            tick: AtomicU64::new(0),
        }
    }

    #[inline]
    pub(crate) fn age(&self, now: Moment) -> Age {
        if now.0 < self.fresh_until.load(Ordering::Relaxed) {
            Age::Fresh
        } else if now.0 < self.good_until.load(Ordering::Relaxed) {
            Age::Older
        } else {
            Age::Old
        }
    }

    /// Whether anything was ever known of it.
    pub(crate) fn has_been_read(&self) -> bool {
        self.good_until.load(Ordering::Relaxed) > 0
    }

    /// Whether it can be forgotten: nobody has known anything of the node for so long. A slot that was
    /// made just now is about to be filled.
    pub(crate) fn is_over(&self, now: Moment, patience: Duration) -> bool {
        let last = match &**self.state.load() {
            State::Live(live) => live.dies_at,
            State::Gone(_) => Moment(self.good_until.load(Ordering::Relaxed)).max(self.since),
        };
        last.plus(patience) < now && !self.queued.load(Ordering::Relaxed)
    }

    /// What is known was held against the truth.
    pub(crate) fn renew(&self, fresh_until: Moment, good_until: Moment) {
        self.good_until.store(good_until.0, Ordering::Relaxed);
        self.fresh_until.store(fresh_until.0, Ordering::Relaxed);
    }

    /// Somebody has written: what is known is to be looked at again before it counts as fresh.
    pub(crate) fn doubt(&self) {
        self.doubts.fetch_add(1, Ordering::Release);
        self.fresh_until.store(0, Ordering::Relaxed);
    }

    pub(crate) fn doubts(&self) -> u64 {
        self.doubts.load(Ordering::Acquire)
    }

    /// Marks it as read. A store only where it changes something, or all readers would fight over
    /// the line.
    #[inline]
    pub(crate) fn touch(&self) {
        if !self.wanted.load(Ordering::Relaxed) {
            self.wanted.store(true, Ordering::Relaxed);
        }
    }

    /// True for the one who has to look; others know that somebody will.
    pub(crate) fn enqueue(&self) -> bool {
        !self.queued.swap(true, Ordering::AcqRel)
    }

    /// Replaces what is known unless something later is known already. True if it was replaced.
    pub(crate) fn advance(&self, next: State) -> bool {
        let next = Arc::new(next);
        let mut advanced = false;
        self.state.rcu(|known| {
            advanced = supersedes(&next, known);
            if advanced { Arc::clone(&next) } else { Arc::clone(known) }
        });
        advanced
    }

    /// Replaces what is known by the same node of the same version, heard of again. False if another
    /// version is known.
    pub(crate) fn live_again(&self, node: &Arc<Node>, dies_at: Moment, as_of: Moment) -> bool {
        let state = self.state.load_full();
        let Some(live) = state.live().filter(|live| live.node.version() == node.version()) else {
            return false;
        };
        let (offers, pools) = (live.offers.clone(), live.pools.clone());
        let again = Live { offers, pools, ..Live::new(Arc::clone(node), dies_at, as_of) };
        self.advance(State::Live(again))
    }

    /// An answer that was overtaken by a later one changes nothing, and is false.
    pub(crate) fn set_capacity(&self, capacity: Capacity, tick: u64) -> bool {
        let latest = tick >= self.tick.fetch_max(tick, Ordering::Relaxed);
        if latest {
            let load = u64::from(capacity.used()) << 32 | u64::from(capacity.max);
            self.load.store(load, Ordering::Relaxed);
        }
        latest
    }

    /// A slot is free again: until the next answer, this is how many are in use.
    pub(crate) fn one_less(&self) {
        let less = |load: u64| (load >> 32 > 0).then(|| load - (1 << 32));
        let _ = self.load.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// How much of it is in use, in millionths.
    #[inline]
    pub(crate) fn load(&self) -> u32 {
        let load = self.load.load(Ordering::Relaxed);
        let (used, max) = (load >> 32, load & u64::from(u32::MAX));
        u32::try_from((used * 1_000_000).checked_div(max).unwrap_or(1_000_000)).unwrap_or(u32::MAX)
    }

    pub(crate) fn known(&self) -> Known {
        Known { version: self.state.load().version(), tick: self.tick.load(Ordering::Relaxed) }
    }
}

/// Versions only move forward. Of two words of the same version that the node is gone wins: it was
/// silent for too long; else the one that was asked for later.
fn supersedes(next: &State, known: &State) -> bool {
    match next.version().cmp(&known.version()) {
        std::cmp::Ordering::Greater => true,
        std::cmp::Ordering::Less => false,
        std::cmp::Ordering::Equal => {
            matches!(next, State::Gone(_))
                || known
                    .live()
                    .is_none_or(|known| next.live().is_some_and(|next| next.as_of >= known.as_of))
        }
    }
}

impl Live {
    /// A node, yet without the numbers of what it offers and where it is.
    pub(crate) fn new(node: Arc<Node>, dies_at: Moment, as_of: Moment) -> Self {
        let (offers, pools) = (Bits::default(), Box::default());
        Self { ready: node.is_ready(), node, offers, pools, dies_at, as_of }
    }
}
