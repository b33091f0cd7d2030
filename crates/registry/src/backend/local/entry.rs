//! What is kept of one node.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::{Life, Record, Slot, Wrote};
use crate::report::Usage;
use crate::{Capacity, JobId, Node, Version};

#[derive(Debug, Default)]
pub(super) struct Entry {
    pub(super) version: Version,
    /// Until when the version is remembered.
    pub(super) kept_until: u64,
    pub(super) removed: bool,
    /// The node and the moment it dies.
    pub(super) live: Option<(Node, u64)>,
    /// Slots by job: how they were taken and when they run out.
    pub(super) slots: HashMap<JobId, (Slot, u64)>,
    pub(super) tick: u64,
}

impl Entry {
    pub(super) fn live(&self, now: u64) -> Option<&Node> {
        self.live.as_ref().filter(|(_, dies_at)| *dies_at > now).map(|(node, _)| node)
    }

    pub(super) fn purge(&mut self, now: u64) {
        self.slots.retain(|_, (_, expires_at)| *expires_at > now);
    }

    pub(super) fn capacity(&self, now: u64) -> Capacity {
        let count = |kind: Slot| {
            let slots = self.slots.values();
            let taken = slots.filter(|(slot, expires_at)| *slot == kind && *expires_at > now);
            u32::try_from(taken.count()).unwrap_or(u32::MAX)
        };
        Capacity {
            max: self.live.as_ref().map_or(0, |(node, _)| node.resources.max_concurrency),
            running: count(Slot::Running),
            reserved: count(Slot::Reserved),
        }
    }

    pub(super) fn life(&self, now: u64) -> Option<Life> {
        let (node, dies_at) = self.live.as_ref().filter(|(_, dies_at)| *dies_at > now)?;
        Some(Life {
            remaining: Duration::from_millis(dies_at - now),
            at_ms: node.last_heartbeat_ms,
            usage: Usage::of(&node.resources),
        })
    }

    pub(super) fn record(&self, now: u64) -> Option<Record> {
        let (node, dies_at) = self.live.as_ref().filter(|(_, dies_at)| *dies_at > now)?;
        Some(Record {
            node: Arc::new(node.clone()),
            remaining: Duration::from_millis(dies_at - now),
            capacity: self.capacity(now),
            tick: self.tick,
        })
    }

    pub(super) fn wrote(&self, now: u64) -> Wrote {
        self.record(now).map_or(Wrote::Unknown, |record| Wrote::Done(Box::new(record)))
    }
}
