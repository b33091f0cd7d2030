//! The truth in this process, for one machine without Redis.
//!
//! The same rules as the scripts, over plain maps. One lock guards them: it is held for the moment of
//! a write, or of a read that the cache could not answer; whatever the cache answers takes none.

mod entry;
mod rules;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

use self::entry::Entry;
use super::{Backend, Found, Known, Removal, Reserve, Seen, Slot, Swap, Wrote};
use crate::clock::{milliseconds, wall_ms};
use crate::error::BackendError;
use crate::{
    Capacity, Config, ConfigName, Heartbeat, JobId, Node, NodeId, PoolId, Registration, Settings,
    Version,
};

#[derive(Debug)]
pub(crate) struct Local {
    settings: Settings,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    nodes: BTreeMap<NodeId, Entry>,
    sessions: HashMap<String, (PoolId, u64)>,
    configs: HashMap<ConfigName, Config>,
    swept_at: u64,
}

/// How often what is over is looked for.
const SWEEP_MS: u64 = 1_000;

impl Local {
    pub(crate) fn new(settings: Settings) -> Self {
        Self { settings, state: Mutex::default() }
    }

    fn state(&self, now: u64) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.swept_at + SWEEP_MS < now {
            state.swept_at = now;
            state.nodes.retain(|_, entry| entry.kept_until > now);
            state.sessions.retain(|_, (_, until)| *until > now);
        }
        state
    }
}

#[async_trait]
impl Backend for Local {
    async fn register(
        &self,
        registration: &Registration,
        _floor: Version,
    ) -> Result<Wrote, BackendError> {
        Ok(self.register_at(wall_ms(), registration))
    }

    async fn heartbeat(
        &self,
        id: &NodeId,
        heartbeat: &Heartbeat,
        _floor: Version,
        _known: Option<&Node>,
    ) -> Result<Wrote, BackendError> {
        Ok(self.heartbeat_at(wall_ms(), id, heartbeat))
    }

    async fn remove(&self, id: &NodeId, incarnation: Option<u64>) -> Result<Removal, BackendError> {
        Ok(self.remove_at(wall_ms(), id, incarnation))
    }

    async fn nodes(&self, ids: &[NodeId]) -> Result<Vec<Found>, BackendError> {
        let now = wall_ms();
        let state = self.state(now);
        let found = ids.iter().map(|id| match state.nodes.get(id) {
            None => Found::Absent,
            Some(entry) if entry.removed => Found::Removed(entry.version),
            Some(entry) => match entry.record(now) {
                Some(record) => Found::Live(Box::new(record)),
                None => Found::Expired(entry.version),
            },
        });
        Ok(found.collect())
    }

    async fn versions(
        &self,
        starts: &[(NodeId, u64)],
        _limit: Duration,
    ) -> Result<Vec<Seen>, BackendError> {
        let now = wall_ms();
        let state = self.state(now);
        let seen = starts.iter().map(|(id, incarnation)| match state.nodes.get(id) {
            None => Seen::Absent,
            Some(entry) if entry.removed => Seen::Removed(entry.version),
            Some(entry) => Seen::At {
                version: entry.version,
                life: entry.life(now).filter(|_| entry.version.incarnation == *incarnation),
                capacity: entry.capacity(now),
                tick: entry.tick,
            },
        });
        Ok(seen.collect())
    }

    async fn members(&self, pool: Option<&PoolId>) -> Result<Vec<NodeId>, BackendError> {
        let now = wall_ms();
        let state = self.state(now);
        let live = state.nodes.values().filter_map(|entry| entry.live(now));
        let members = live.filter(|node| pool.is_none_or(|pool| node.pools.contains(pool)));
        Ok(members.map(|node| node.id.clone()).collect())
    }

    async fn capacity(&self, id: &NodeId) -> Result<Option<Capacity>, BackendError> {
        let now = wall_ms();
        let state = self.state(now);
        let live = state.nodes.get(id).filter(|entry| entry.live(now).is_some());
        Ok(live.map(|entry| entry.capacity(now)))
    }

    async fn reserve(
        &self,
        job: &JobId,
        slot: Slot,
        _known: Known,
    ) -> Result<Reserve, BackendError> {
        Ok(self.reserve_at(wall_ms(), job, slot))
    }

    async fn confirm(&self, job: &JobId) -> Result<Option<u64>, BackendError> {
        let now = wall_ms();
        let mut state = self.state(now);
        let Some(entry) = state.nodes.get_mut(job.node()) else {
            return Ok(None);
        };
        entry.purge(now);
        let Some(slot) = entry.slots.get_mut(job) else {
            return Ok(None);
        };
        *slot = (Slot::Running, now + milliseconds(self.settings.job_ttl));
        entry.tick += 1;
        Ok(entry.slots.get(job).map(|(_, expires_at)| *expires_at))
    }

    async fn release(&self, job: &JobId) -> Result<bool, BackendError> {
        let now = wall_ms();
        let mut state = self.state(now);
        let Some(entry) = state.nodes.get_mut(job.node()) else {
            return Ok(false);
        };
        entry.purge(now);
        let had = entry.slots.remove(job).is_some();
        entry.tick += u64::from(had);
        Ok(had)
    }

    async fn session_pool(
        &self,
        session: &str,
        pool: Option<&PoolId>,
        anew: bool,
    ) -> Result<Option<PoolId>, BackendError> {
        let now = wall_ms();
        let until = now + milliseconds(self.settings.session_ttl);
        let mut state = self.state(now);
        let has = state.sessions.get_mut(session).filter(|(_, until)| !anew && *until > now);
        if let Some((has, has_until)) = has {
            *has_until = until;
            return Ok(Some(has.clone()));
        }
        if let Some(pool) = pool {
            state.sessions.insert(session.to_owned(), (pool.clone(), until));
        }
        Ok(pool.cloned())
    }

    async fn config(&self, name: &ConfigName) -> Result<Option<Config>, BackendError> {
        Ok(self.state(wall_ms()).configs.get(name).cloned())
    }

    async fn swap_config(
        &self,
        name: &ConfigName,
        expected: u64,
        value: &Value,
        _floor: u64,
    ) -> Result<Swap, BackendError> {
        let now = wall_ms();
        let mut state = self.state(now);
        let version = state.configs.get(name).map_or(0, |config| config.version);
        if version != expected {
            return Ok(Swap::Conflict(version));
        }
        let version = if version == 0 { now } else { version + 1 };
        let config =
            Config { name: name.clone(), value: value.clone(), version, updated_at_ms: now };
        state.configs.insert(name.clone(), config.clone());
        Ok(Swap::Done(config))
    }

    async fn ping(&self) -> Result<(), BackendError> {
        Ok(())
    }
}
