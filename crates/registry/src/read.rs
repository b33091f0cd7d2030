//! Reading nodes: from memory, and from Redis only if there is nothing in memory.

use std::sync::Arc;

use crate::backend::{Found, Seen};
use crate::cache::slot::{Age, Slot, State};
use crate::clock::{Moment, jittered};
use crate::error::{BackendError, RegistryError};
use crate::flight::Key;
use crate::metrics::{self, Level};
use crate::mode::Mode;
use crate::registry::{Inner, Work};
use crate::{Capacity, Node, NodeId, Registry};

/// So many nodes are read in one go.
const AT_ONCE: usize = 256;

/// What memory says.
enum Look {
    Is(Option<Arc<Node>>),
    /// It does not know.
    Miss,
}

impl Registry {
    /// A node, if it lives. Answered from memory whenever there is something; waits for Redis, for
    /// [`crate::Settings::redis_timeout`] at most, if there is not.
    ///
    /// The answer may be as old as [`crate::Settings::l1_ttl`], or older by one read: what is older
    /// is answered with and looked at behind the answer.
    pub async fn get_node(&self, id: &NodeId) -> Result<Option<Arc<Node>>, RegistryError> {
        let inner = self.inner();
        match inner.look(id.as_str()) {
            Look::Is(node) => Ok(node),
            Look::Miss => inner.read_through(id).await,
        }
    }

    /// A node as this instance remembers it, whatever its age. Never waits and never asks.
    pub fn peek(&self, id: &str) -> Option<Arc<Node>> {
        let node = |slot: &Arc<Slot>| slot.state.load().live().map(|live| Arc::clone(&live.node));
        self.inner().cache.with(id, node).flatten()
    }

    /// Several nodes in the order asked for. Those that memory does not know are read together.
    pub async fn get_nodes(&self, ids: &[NodeId]) -> Result<Vec<Option<Arc<Node>>>, RegistryError> {
        let inner = self.inner();
        let looks: Vec<Look> = ids.iter().map(|id| inner.look(id.as_str())).collect();
        let unknown = ids.iter().zip(&looks).filter(|(_, look)| matches!(look, Look::Miss));
        let unknown: Vec<NodeId> = unknown.map(|(id, _)| id.clone()).collect();
        if !unknown.is_empty() {
            inner.may_read()?;
            let read = inner.fetch(unknown).await;
            read.map_err(|error| inner.away("read nodes", error.to_string()))?;
        }
        let node = |(id, look): (&NodeId, Look)| match look {
            Look::Is(node) => node,
            Look::Miss => inner.after_reading(id),
        };
        Ok(ids.iter().zip(looks).map(node).collect())
    }

    /// What the capacity record of a node says now; `None` if the node does not live. Always asks
    /// Redis.
    pub async fn capacity(&self, id: &NodeId) -> Result<Option<Capacity>, RegistryError> {
        let inner = self.inner();
        inner.may_write("read a capacity")?;
        inner.ask("read a capacity", inner.backend.capacity(id)).await
    }
}

impl Inner {
    /// Answers from memory. Takes no lock and waits for nothing; at most it leaves a note for whoever
    /// looks behind the answer.
    fn look(&self, id: &str) -> Look {
        let now = self.cache.now();
        let seen = self.cache.with(id, |slot| {
            slot.touch();
            let level = self.level(slot, now)?;
            let state = slot.state.load();
            match &**state {
                State::Live(live) if self.lives(live.dies_at, now) => {
                    self.reads.count(level);
                    Some(Look::Is(Some(Arc::clone(&live.node))))
                }
                // Probably dead; that is looked up, not guessed.
                State::Live(_) => None,
                State::Gone(_) => {
                    self.reads.count(Level::Negative);
                    Some(Look::Is(None))
                }
            }
        });
        match seen {
            Some(Some(look)) => look,
            Some(None) => Look::Miss,
            None if self.cache.negative.contains(id, now) => {
                self.reads.count(Level::Negative);
                Look::Is(None)
            }
            None => Look::Miss,
        }
    }

    /// Which level may answer; `None` if Redis has to.
    #[inline]
    fn level(&self, slot: &Arc<Slot>, now: Moment) -> Option<Level> {
        let age = slot.age(now);
        if age == Age::Fresh {
            return Some(Level::L1);
        }
        match (age, self.monitor.mode()) {
            (Age::Fresh, _) => Some(Level::L1),
            (Age::Older, Mode::Normal) => {
                self.queue(Work::Node(Arc::clone(slot)));
                Some(Level::L2)
            }
            (Age::Older, _) => Some(Level::L2),
            // Redis is back from having been away, and everything is old at once: it is looked at
            // little by little, behind the answers.
            (Age::Old, Mode::Normal) if self.is_refilling(now) && slot.has_been_read() => {
                self.queue(Work::Node(Arc::clone(slot)));
                Some(Level::L2)
            }
            (Age::Old, Mode::LocalOnly) if slot.has_been_read() => Some(Level::Local),
            (Age::Old, _) => None,
        }
    }

    fn is_refilling(&self, now: Moment) -> bool {
        let back_since = self.monitor.back_since();
        back_since.0 > 0 && now < back_since.plus(self.settings.node_ttl / 2)
    }

    /// Whether a node that dies at this moment unless heard of lives. While Redis is away nobody can
    /// be heard of, and for a while after that nobody has been: whoever lived when it went is taken
    /// to live.
    #[inline]
    pub(crate) fn lives(&self, dies_at: Moment, now: Moment) -> bool {
        now < dies_at || (self.is_excused(now) && self.monitor.lost_at() < dies_at)
    }

    fn is_excused(&self, now: Moment) -> bool {
        self.monitor.mode() != Mode::Normal || self.is_refilling(now)
    }

    pub(crate) fn may_read(&self) -> Result<(), RegistryError> {
        match self.monitor.mode() {
            Mode::Normal => Ok(()),
            Mode::L2Only | Mode::LocalOnly => {
                Err(self.away("read nodes", "nothing is known that is recent enough".to_owned()))
            }
        }
    }

    async fn read_through(
        self: &Arc<Self>,
        id: &NodeId,
    ) -> Result<Option<Arc<Node>>, RegistryError> {
        self.may_read()?;
        let read = self.fetch(vec![id.clone()]).await;
        read.map_err(|error| self.away("read a node", error.to_string()))?;
        Ok(self.after_reading(id))
    }

    fn after_reading(&self, id: &NodeId) -> Option<Arc<Node>> {
        self.reads.count(Level::Redis);
        let now = self.cache.now();
        let node = |slot: &Arc<Slot>| {
            let state = slot.state.load();
            let live = state.live().filter(|live| self.lives(live.dies_at, now));
            live.map(|live| Arc::clone(&live.node))
        };
        self.cache.with(id.as_str(), node).flatten()
    }

    /// Reads nodes from Redis into memory; those that somebody reads already are waited for.
    pub(crate) async fn fetch(self: &Arc<Self>, ids: Vec<NodeId>) -> Result<(), BackendError> {
        let keys = ids.into_iter().map(Key::Node).collect();
        let read = |inner: Arc<Self>, keys: Vec<Key>| async move {
            let nodes = keys.into_iter().filter_map(|key| match key {
                Key::Node(id) => Some(id),
                Key::Members(_) => None,
            });
            inner.read_all(&nodes.collect::<Vec<_>>()).await
        };
        self.fly(keys, read).await
    }

    async fn read_all(&self, ids: &[NodeId]) -> Result<(), BackendError> {
        for ids in ids.chunks(AT_ONCE) {
            let since = self.cache.asked();
            let found = self.measured("read nodes", self.backend.nodes(ids)).await?;
            for (id, found) in ids.iter().zip(found) {
                self.take_in(id, found, since);
            }
        }
        Ok(())
    }

    /// A node whose record ran out while Redis was away had nobody to tell that it lives.
    fn take_in(&self, id: &NodeId, found: Found, since: Moment) {
        let excused = matches!(found, Found::Expired(_)) && self.is_excused(since);
        let slot = self.cache.slot(id).filter(|_| excused);
        let lives = |slot: &Slot| {
            let state = slot.state.load();
            state.live().is_some_and(|live| self.lives(live.dies_at, since))
        };
        match slot.filter(|slot| lives(slot)) {
            Some(slot) => {
                let (fresh_until, good_until) = self.cache.lifetimes(since);
                slot.renew(fresh_until, good_until);
            }
            None => self.cache.absorb(id, found, since),
        }
    }

    /// Holds what is known of these nodes against their versions, and reads those that have changed.
    pub(crate) async fn check(self: &Arc<Self>, slots: &[Arc<Slot>]) -> Result<(), BackendError> {
        for slots in slots.chunks(AT_ONCE) {
            let start =
                |slot: &Arc<Slot>| (slot.id.clone(), slot.state.load().version().incarnation);
            let starts: Vec<(NodeId, u64)> = slots.iter().map(start).collect();
            let since = self.cache.asked();
            let limit = self.settings.version_check_timeout;
            let seen = self.measured("check versions", self.backend.versions(&starts, limit)).await;
            let seen = seen.inspect_err(|error| {
                let timed_out = matches!(error, BackendError::TimedOut(_));
                metrics::checked(if timed_out { "timeout" } else { "error" }, slots.len());
            })?;
            let mut changed = Vec::new();
            let mut gone = 0;
            for (slot, seen) in slots.iter().zip(seen) {
                match seen {
                    Seen::At { version, life, capacity, tick }
                        if self.cache.confirm(slot, version, life, since) =>
                    {
                        self.cache.absorb_capacity(slot, capacity, tick);
                    }
                    Seen::Removed(version) => {
                        gone += 1;
                        self.cache.absorb_end(&slot.id, version, since);
                    }
                    Seen::At { .. } | Seen::Absent => changed.push(slot.id.clone()),
                }
            }
            metrics::checked("same", slots.len() - changed.len() - gone);
            metrics::checked("newer", changed.len());
            metrics::checked("gone", gone);
            if !changed.is_empty() {
                self.fetch(changed).await?;
            }
        }
        Ok(())
    }

    /// The time until an instance looks again after Redis came back: another one for each instance.
    pub(crate) fn refill_delay(&self) -> std::time::Duration {
        jittered(std::time::Duration::ZERO, self.settings.ttl_jitter)
    }
}
