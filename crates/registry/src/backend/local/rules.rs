//! What the scripts decide on Redis, decided here.

use super::Local;
use super::entry::Entry;
use crate::backend::{Removal, Reserve, Slot, Wrote};
use crate::clock::milliseconds;
use crate::{Heartbeat, JobId, Node, NodeId, Registration, Version};

impl Local {
    pub(super) fn register_at(&self, now: u64, registration: &Registration) -> Wrote {
        let mut state = self.state(now);
        let entry = state.nodes.entry(registration.id.clone()).or_default();
        let incarnation =
            registration.incarnation.unwrap_or_else(|| now.max(entry.version.incarnation + 1));
        let again = incarnation == entry.version.incarnation;
        if incarnation < entry.version.incarnation || (again && entry.removed) {
            let version = entry.version;
            return if entry.removed { Wrote::Removed(version) } else { Wrote::Stale(version) };
        }
        let sequence = if again { entry.version.sequence + 1 } else { 1 };
        entry.purge(now);
        entry.version = Version { incarnation, sequence };
        entry.removed = false;
        entry.kept_until = now + milliseconds(self.settings.tombstone_ttl);
        let node = Node {
            id: registration.id.clone(),
            incarnation,
            sequence,
            status: registration.status,
            health: registration.health,
            pools: registration.pools.clone(),
            services: registration.services.clone(),
            resources: registration.resources.with_jobs(entry.capacity(now).running),
            installed_services: registration.installed_services.clone(),
            features: registration.features.clone(),
            last_heartbeat_ms: now,
        };
        entry.live = Some((node, now + milliseconds(self.settings.node_ttl)));
        entry.wrote(now)
    }

    pub(super) fn heartbeat_at(&self, now: u64, id: &NodeId, heartbeat: &Heartbeat) -> Wrote {
        let mut state = self.state(now);
        let Some(entry) = state.nodes.get_mut(id) else {
            return Wrote::Unknown;
        };
        let version = entry.version;
        if entry.removed {
            return Wrote::Removed(version);
        }
        let late = heartbeat.sequence.is_some_and(|sequence| sequence <= version.sequence);
        if heartbeat.incarnation < version.incarnation
            || (heartbeat.incarnation == version.incarnation && late)
        {
            return Wrote::Stale(version);
        }
        if heartbeat.incarnation > version.incarnation || entry.live(now).is_none() {
            return Wrote::Unknown;
        }
        entry.purge(now);
        let running = entry.capacity(now).running;
        let mut sequence = version.sequence;
        if let Some((node, dies_at)) = &mut entry.live {
            if heartbeat.is_news(node) {
                sequence = heartbeat.sequence.unwrap_or(sequence + 1);
            }
            heartbeat.apply(node, running);
            node.sequence = sequence;
            node.last_heartbeat_ms = now;
            *dies_at = now + milliseconds(self.settings.node_ttl);
        }
        entry.version.sequence = sequence;
        entry.kept_until = now + milliseconds(self.settings.tombstone_ttl);
        entry.wrote(now)
    }

    pub(super) fn remove_at(&self, now: u64, id: &NodeId, incarnation: Option<u64>) -> Removal {
        let mut state = self.state(now);
        let Some(entry) = state.nodes.get_mut(id).filter(|entry| !entry.removed) else {
            return Removal::Unknown;
        };
        if incarnation.is_some_and(|incarnation| incarnation < entry.version.incarnation) {
            return Removal::Stale(entry.version);
        }
        entry.version.sequence += 1;
        entry.removed = true;
        entry.live = None;
        entry.kept_until = now + milliseconds(self.settings.tombstone_ttl);
        Removal::Done(entry.version)
    }

    pub(super) fn reserve_at(&self, now: u64, job: &JobId, slot: Slot) -> Reserve {
        let mut state = self.state(now);
        let entry = state.nodes.get_mut(job.node());
        let Some(entry) = entry.filter(|entry| entry.live(now).is_some_and(Node::is_ready)) else {
            return Reserve::Gone;
        };
        entry.purge(now);
        let taken = |entry: &Entry, expires_at_ms| Reserve::Taken {
            capacity: entry.capacity(now),
            tick: entry.tick,
            expires_at_ms,
        };
        if let Some((_, expires_at)) = entry.slots.get(job) {
            return taken(entry, *expires_at);
        }
        let capacity = entry.capacity(now);
        if capacity.used() >= capacity.max {
            return Reserve::Full { capacity, tick: entry.tick };
        }
        let expires_at = now + milliseconds(self.settings.job_ttl);
        entry.slots.insert(job.clone(), (slot, expires_at));
        entry.tick += 1;
        taken(entry, expires_at)
    }
}
