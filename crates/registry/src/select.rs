//! Which nodes could do a job, the least loaded first.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;

use crate::cache::slot::Slot;
use crate::cache::view::View;
use crate::capability::Bits;
use crate::clock::Moment;
use crate::error::RegistryError;
use crate::members::is_in;
use crate::metrics;
use crate::registry::Inner;
use crate::rendezvous::mixed;
use crate::{Node, PoolId, Registry, Requirement};

/// What is looked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    /// The pool; all nodes without one.
    pub pool: Option<PoolId>,
    /// What a node must offer.
    pub services: Vec<Requirement>,
    /// How many are wanted at most.
    pub limit: Option<usize>,
}

/// How many nodes each rule left out. A node is counted by the first rule that it fails.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LeftOut {
    /// Silent for too long, or removed.
    pub dead: usize,
    /// No longer in the pool.
    pub elsewhere: usize,
    /// Offline or not ready, by their own word.
    pub not_ready: usize,
    /// Without a service that is needed.
    pub lacking: usize,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { dead, elsewhere, not_ready, lacking } = self;
        write!(
            f,
            "{lacking} lack a service, {not_ready} are not ready, {dead} are silent, {elsewhere} have left"
        )
    }
}

/// Who could do it.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// The least loaded first.
    pub nodes: Vec<Arc<Node>>,
    /// Who could not.
    pub left_out: LeftOut,
}

/// Who could do it, as slots.
#[derive(Debug, Default)]
pub(crate) struct Ranked {
    pub(crate) slots: Vec<Arc<Slot>>,
    pub(crate) left_out: LeftOut,
}

impl Registry {
    /// The nodes that could do a job, the least loaded first. How loaded they are leaves nobody
    /// out: that is the business of [`Registry::dispatch`], which asks for a slot and is refused.
    pub async fn select(&self, query: &Query) -> Result<Selection, RegistryError> {
        let inner = self.inner();
        let view = inner.view(query.pool.as_ref()).await?;
        let began = Instant::now();
        let ranked = inner.rank(&view, &query.services, query.limit, 0);
        let node = |slot: &Arc<Slot>| Some(Arc::clone(&slot.state.load().live()?.node));
        let nodes = ranked.slots.iter().filter_map(node).collect();
        metrics::selected(began.elapsed());
        Ok(Selection { nodes, left_out: ranked.left_out })
    }
}

impl Inner {
    /// Holds the members against what is needed and sorts those that are left by load. Nodes that
    /// are equally loaded come in an order that `salt` decides.
    pub(crate) fn rank(
        &self,
        view: &View,
        services: &[Requirement],
        limit: Option<usize>,
        salt: u64,
    ) -> Ranked {
        let members = view.members.load();
        let Some(members) = members.as_deref() else {
            return Ranked::default();
        };
        let number = view.pool.as_ref().and_then(|pool| self.cache.pool_number(pool));
        let needed = self.cache.services.needed(services);
        let rules =
            Rules { inner: self, now: self.cache.now(), any: view.pool.is_none(), number, needed };
        let mut left_out = LeftOut::default();
        let mut order: Vec<(u64, u32)> = Vec::with_capacity(members.len());
        for (index, slot) in (0u32..).zip(members.iter()) {
            slot.touch();
            if rules.fits(slot, &mut left_out) {
                let tie = mixed(slot.hash ^ salt) >> 32;
                order.push((u64::from(slot.load()) << 32 | tie, index));
            }
        }
        if let Some(limit) = limit.filter(|limit| *limit < order.len()) {
            order.select_nth_unstable(limit);
            order.truncate(limit);
        }
        order.sort_unstable();
        let slots = order.into_iter().map(|(_, index)| Arc::clone(&members[index as usize]));
        Ranked { slots: slots.collect(), left_out }
    }
}

/// What a node is held against.
struct Rules<'a> {
    inner: &'a Inner,
    now: Moment,
    any: bool,
    number: Option<u32>,
    needed: Option<Bits>,
}

impl Rules<'_> {
    #[inline]
    fn fits(&self, slot: &Slot, left_out: &mut LeftOut) -> bool {
        let state = slot.state.load();
        let counted = match state.live() {
            None => &mut left_out.dead,
            Some(live) if !self.inner.lives(live.dies_at, self.now) => &mut left_out.dead,
            Some(live) if !self.any && !is_in(live, self.number) => &mut left_out.elsewhere,
            Some(live) if !live.ready => &mut left_out.not_ready,
            Some(live) => match &self.needed {
                Some(needed) if live.offers.contains(needed) => return true,
                _ => &mut left_out.lacking,
            },
        };
        *counted += 1;
        false
    }
}
