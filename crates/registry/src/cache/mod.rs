//! The memory of an instance: L1, L2 and what there is not.
//!
//! One map from names to slots. L1 and L2 are two ages of the same entry: fresh for `l1_ttl`, good
//! enough for `l2_ttl`, and kept beyond that for times without Redis.

pub(crate) mod negative;
pub(crate) mod slot;
pub(crate) mod view;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use self::negative::Negative;
use self::slot::{Live, Slot, State};
use self::view::View;
use crate::backend::{Found, Life, Record};
use crate::capability::Numbers;
use crate::clock::{Clock, Moment, jittered};
use crate::report::Usage;
use crate::{Capacity, Node, NodeId, PoolId, Settings, Version};

type Map<K, V> = papaya::HashMap<K, V, foldhash::fast::RandomState>;

/// For how many lives of a node its version is remembered after its end.
const KEPT_FOR: u32 = 10;

#[derive(Debug)]
pub(crate) struct Cache {
    clock: Clock,
    l1_ttl: Duration,
    l2_ttl: Duration,
    node_ttl: Duration,
    jitter: Duration,
    slots: Map<NodeId, Arc<Slot>>,
    views: Map<PoolId, Arc<View>>,
    everybody: Arc<View>,
    pub(crate) services: Numbers,
    pools: Numbers,
    pub(crate) negative: Negative,
    written: AtomicU64,
}

impl Cache {
    pub(crate) fn new(clock: Clock, settings: &Settings) -> Self {
        Self {
            clock,
            l1_ttl: settings.l1_ttl,
            l2_ttl: settings.l2_ttl,
            node_ttl: settings.node_ttl,
            jitter: settings.ttl_jitter,
            slots: Map::default(),
            views: Map::default(),
            everybody: Arc::new(View::new(None, clock.now())),
            services: Numbers::default(),
            pools: Numbers::default(),
            negative: Negative::new(settings.negative_ttl),
            written: AtomicU64::new(0),
        }
    }

    #[inline]
    pub(crate) fn now(&self) -> Moment {
        self.clock.now()
    }

    /// When something is asked that the memory is to be brought up to date by.
    pub(crate) fn asked(&self) -> Moment {
        self.clock.exactly()
    }

    /// Looks at a slot where it is, without counting a reference to it.
    #[inline]
    pub(crate) fn with<T>(&self, id: &str, look: impl FnOnce(&Arc<Slot>) -> T) -> Option<T> {
        self.slots.pin().get(id).map(look)
    }

    pub(crate) fn slot(&self, id: &NodeId) -> Option<Arc<Slot>> {
        self.with(id.as_str(), Arc::clone)
    }

    pub(crate) fn slot_or_new(&self, id: &NodeId) -> Arc<Slot> {
        let slots = self.slots.pin();
        let slot =
            slots.get_or_insert_with(id.clone(), || Arc::new(Slot::new(id.clone(), self.now())));
        Arc::clone(slot)
    }

    pub(crate) fn slots(&self) -> Vec<Arc<Slot>> {
        self.slots.pin().values().map(Arc::clone).collect()
    }

    /// The latest version seen of a node.
    pub(crate) fn floor(&self, id: &NodeId) -> Version {
        self.with(id.as_str(), |slot| slot.state.load().version()).unwrap_or_default()
    }

    pub(crate) fn view(&self, pool: Option<&PoolId>) -> Arc<View> {
        let Some(pool) = pool else {
            return Arc::clone(&self.everybody);
        };
        let views = self.views.pin();
        if let Some(view) = views.get(pool.as_str()) {
            return Arc::clone(view);
        }
        let new = || Arc::new(View::new(Some(pool.clone()), self.now()));
        Arc::clone(views.get_or_insert_with(pool.clone(), new))
    }

    /// The number of a pool that some node is or was in.
    pub(crate) fn pool_number(&self, pool: &PoolId) -> Option<u32> {
        self.pools.known(pool.as_str())
    }

    /// How often this instance has written a node: whoever makes a list of members meanwhile has to
    /// look again.
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// What this instance has written is in its lists at once.
    pub(crate) fn include(&self, slot: &Arc<Slot>, pools: &[PoolId]) {
        self.written.fetch_add(1, Ordering::AcqRel);
        self.everybody.include(slot);
        let views = self.views.pin();
        for view in pools.iter().filter_map(|pool| views.get(pool.as_str())) {
            view.include(slot);
        }
    }

    /// Until when something held against the truth at this moment is fresh, and good enough.
    pub(crate) fn lifetimes(&self, since: Moment) -> (Moment, Moment) {
        let fresh = since.plus(jittered(self.l1_ttl, self.jitter));
        (fresh, since.plus(jittered(self.l2_ttl, self.jitter)).max(fresh))
    }

    /// Takes over what was read of a node at this moment. Only what is later than what is known.
    pub(crate) fn absorb(&self, id: &NodeId, found: Found, since: Moment) {
        match found {
            Found::Live(record) => {
                self.absorb_record(*record, since);
            }
            Found::Expired(version) | Found::Removed(version) => {
                self.absorb_end(id, version, since)
            }
            // Redis knows nothing at all of a node that lived a moment ago: it has lost it, which is
            // not the node's end. It is answered with until it would be dead anyway.
            Found::Absent => match self.slot(id) {
                Some(slot) if slot.state.load().live().is_some_and(|live| live.dies_at > since) => {
                    let (fresh_until, good_until) = self.lifetimes(since);
                    slot.renew(fresh_until, good_until);
                }
                Some(slot) if slot.state.load().live().is_some() => {
                    let version = slot.state.load().version();
                    self.absorb_end(id, version, since);
                }
                _ => self.negative.insert(id.clone(), since),
            },
        }
    }

    /// Takes over a record, whoever it comes from, and returns its slot.
    pub(crate) fn absorb_record(&self, record: Record, since: Moment) -> Arc<Slot> {
        let slot = self.slot_or_new(&record.node.id);
        let live = {
            let before = slot.state.load();
            // Most heartbeats change neither; then what was numbered before is good.
            let before = before.live();
            let same = before.filter(|live| live.node.services == record.node.services);
            let offers = same.map(|live| live.offers.clone());
            let offers = offers.unwrap_or_else(|| self.services.offered(&record.node.services));
            let same = before.filter(|live| live.node.pools == record.node.pools);
            let pools = same.map(|live| live.pools.clone()).unwrap_or_else(|| {
                record.node.pools.iter().map(|pool| self.pools.of(pool.as_str())).collect()
            });
            let dies_at = since.plus(record.remaining);
            Live { offers, pools, ..Live::new(Arc::clone(&record.node), dies_at, since) }
        };
        slot.advance(State::Live(live));
        slot.set_capacity(record.capacity, record.tick);
        let (fresh_until, good_until) = self.lifetimes(since);
        slot.renew(fresh_until, good_until);
        self.negative.remove(&slot.id);
        slot
    }

    /// Takes over a node that was heard of again and says nothing new: of the version that is known,
    /// so it is in its lists already.
    pub(crate) fn absorb_again(&self, node: &Arc<Node>, remaining: Duration, since: Moment) {
        self.with(node.id.as_str(), |slot| {
            if slot.live_again(node, since.plus(remaining), since) {
                let (fresh_until, good_until) = self.lifetimes(since);
                slot.renew(fresh_until, good_until);
            }
        });
    }

    /// What the capacity record of a node was seen to say.
    pub(crate) fn absorb_capacity(&self, slot: &Slot, capacity: Capacity, tick: u64) {
        let state = slot.state.load_full();
        let live = state.live();
        let max = live.map_or(capacity.max, |live| live.node.resources.max_concurrency);
        let latest = slot.set_capacity(Capacity { max, ..capacity }, tick);
        let outdated = |live: &&Live| live.node.resources.current_jobs != capacity.running;
        if let Some(live) = live.filter(outdated).filter(|_| latest) {
            let mut node = Node::clone(&live.node);
            node.resources.current_jobs = capacity.running;
            slot.live_again(&Arc::new(node), live.dies_at, live.as_of);
        }
    }

    /// Whether what is known is of this version and lives, or does not, as was seen. Then it is fresh
    /// again, with what the node has said since of what is in use.
    pub(crate) fn confirm(
        &self,
        slot: &Slot,
        version: Version,
        life: Option<Life>,
        since: Moment,
    ) -> bool {
        let state = slot.state.load();
        if state.version() != version {
            return false;
        }
        match (&**state, life) {
            (State::Live(live), Some(life)) => {
                let mut node = Arc::clone(&live.node);
                let same = node.last_heartbeat_ms == life.at_ms
                    && Usage::of(&node.resources) == life.usage;
                if !same {
                    let node = Arc::make_mut(&mut node);
                    node.last_heartbeat_ms = life.at_ms;
                    life.usage.apply(&mut node.resources);
                }
                slot.live_again(&node, since.plus(life.remaining), since);
            }
            (State::Gone(_), None) => {}
            (State::Live(_), None) | (State::Gone(_), Some(_)) => return false,
        }
        let (fresh_until, good_until) = self.lifetimes(since);
        slot.renew(fresh_until, good_until);
        true
    }

    pub(crate) fn absorb_end(&self, id: &NodeId, version: Version, since: Moment) {
        let slot = self.slot_or_new(id);
        slot.advance(State::Gone(version));
        let (fresh_until, good_until) = self.lifetimes(since);
        slot.renew(fresh_until, good_until);
    }

    /// Forgets pools that nobody is in, and nodes that have been gone for much longer than any word of
    /// them can be on its way.
    pub(crate) fn sweep(&self) {
        let now = self.now();
        let keep = self.node_ttl * KEPT_FOR;
        self.slots.pin().retain(|_, slot| !slot.is_over(now, keep));
        self.views.pin().retain(|_, view| !view.is_idle(now, keep));
        self.negative.sweep(now);
    }
}
