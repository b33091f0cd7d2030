//! The members of a pool, as pointers to their slots.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;

use super::slot::{Age, Slot};
use crate::PoolId;
use crate::clock::Moment;

/// A pool, or all nodes. The list is replaced as a whole when somebody comes or goes; what the
/// members say of themselves changes in their slots, so heartbeats touch no list.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) pool: Option<PoolId>,
    /// When somebody first asked for it.
    since: Moment,
    pub(crate) members: ArcSwapOption<Vec<Arc<Slot>>>,
    fresh_until: AtomicU64,
    good_until: AtomicU64,
}

impl View {
    pub(crate) fn new(pool: Option<PoolId>, since: Moment) -> Self {
        Self {
            pool,
            since,
            members: ArcSwapOption::empty(),
            fresh_until: AtomicU64::new(0),
            good_until: AtomicU64::new(0),
        }
    }

    pub(crate) fn age(&self, now: Moment) -> Age {
        if now.0 < self.fresh_until.load(Ordering::Relaxed) {
            Age::Fresh
        } else if now.0 < self.good_until.load(Ordering::Relaxed) {
            Age::Older
        } else {
            Age::Old
        }
    }

    pub(crate) fn replace(&self, members: Vec<Arc<Slot>>, fresh_until: Moment, good_until: Moment) {
        self.members.store(Some(Arc::new(members)));
        self.good_until.store(good_until.0, Ordering::Relaxed);
        self.fresh_until.store(fresh_until.0, Ordering::Relaxed);
    }

    /// Whether it can be forgotten: nobody is in it, and nobody has asked for a while. One that was
    /// asked for just now is about to be read.
    pub(crate) fn is_idle(&self, now: Moment, patience: Duration) -> bool {
        let empty = self.members.load().as_ref().is_none_or(|members| members.is_empty());
        empty && self.age(now) == Age::Old && self.since.plus(patience) < now
    }

    /// Somebody who was written by this instance is in it at once.
    pub(crate) fn include(&self, slot: &Arc<Slot>) {
        let has = |members: &Vec<Arc<Slot>>| members.iter().any(|has| Arc::ptr_eq(has, slot));
        if self.members.load().as_deref().is_none_or(has) {
            return;
        }
        self.members.rcu(|members| {
            let members = members.as_ref()?;
            if has(members) {
                return Some(Arc::clone(members));
            }
            let with: Vec<_> = members.iter().chain([slot]).map(Arc::clone).collect();
            Some(Arc::new(with))
        });
    }
}
