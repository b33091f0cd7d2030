//! Who is in a pool, from memory, and from Redis if memory does not know.

use std::sync::Arc;

use crate::cache::slot::{Age, Live, Slot};
use crate::cache::view::View;
use crate::clock::Moment;
use crate::error::{BackendError, RegistryError};
use crate::flight::Key;
use crate::mode::Mode;
use crate::registry::Inner;
use crate::{Node, NodeId, PoolId, Registry};

impl Registry {
    /// The living members of a pool, by name.
    pub async fn members(&self, pool: &PoolId) -> Result<Vec<Arc<Node>>, RegistryError> {
        self.inner().living(Some(pool)).await
    }

    /// All living nodes, by name.
    pub async fn nodes(&self) -> Result<Vec<Arc<Node>>, RegistryError> {
        self.inner().living(None).await
    }
}

impl Inner {
    async fn living(
        self: &Arc<Self>,
        pool: Option<&PoolId>,
    ) -> Result<Vec<Arc<Node>>, RegistryError> {
        let view = self.view(pool).await?;
        let (now, number) = (self.cache.now(), pool.and_then(|pool| self.cache.pool_number(pool)));
        let members = view.members.load_full();
        let living = members.iter().flat_map(|members| members.iter()).filter_map(|slot| {
            let state = slot.state.load();
            let live = state.live().filter(|live| self.lives(live.dies_at, now));
            let live = live.filter(|live| pool.is_none() || is_in(live, number));
            live.map(|live| Arc::clone(&live.node))
        });
        let mut living: Vec<Arc<Node>> = living.collect();
        living.sort_unstable_by(|one, other| one.id.cmp(&other.id));
        Ok(living)
    }

    /// The members of a pool as this instance knows them; asks Redis if it does not know enough.
    pub(crate) async fn view(
        self: &Arc<Self>,
        pool: Option<&PoolId>,
    ) -> Result<Arc<View>, RegistryError> {
        let view = self.cache.view(pool);
        let known = view.members.load().is_some();
        match (view.age(self.cache.now()), self.monitor.mode()) {
            (Age::Fresh, _) | (Age::Older, Mode::L2Only) => {}
            (_, Mode::LocalOnly) if known => {}
            (Age::Older, Mode::Normal) => {
                let (inner, view) = (Arc::clone(self), Arc::clone(&view));
                self.tasks.spawn("registry-members", async move {
                    // If it fails, the list stays as old as it is and the next caller tries again.
                    let _ = inner.load(&view).await;
                });
            }
            (Age::Older | Age::Old, mode) => {
                if mode != Mode::Normal {
                    self.may_read()?;
                }
                let loaded = self.load(&view).await;
                loaded.map_err(|error| self.away("read a pool", error.to_string()))?;
            }
        }
        Ok(view)
    }

    /// Reads the members of a pool, and what is not fresh of them.
    async fn load(self: &Arc<Self>, view: &Arc<View>) -> Result<(), BackendError> {
        let target = Arc::clone(view);
        let read = |inner: Arc<Self>, _| async move { inner.load_now(&target).await };
        self.fly(vec![Key::Members(view.pool.clone())], read).await
    }

    async fn load_now(self: &Arc<Self>, view: &View) -> Result<(), BackendError> {
        let since = self.cache.now();
        let members = self.backend.members(view.pool.as_ref());
        let members: Vec<NodeId> = self.measured("read members", members).await?;
        let listed: Vec<Arc<Slot>> = members.iter().map(|id| self.cache.slot_or_new(id)).collect();
        let aged = listed.iter().filter(|slot| slot.age(since) != Age::Fresh);
        self.check(&aged.map(Arc::clone).collect::<Vec<_>>()).await?;
        let (fresh_until, good_until) = self.cache.lifetimes(since);
        // Lists read in Redis are hints; who is known to be in the pool is in it. If this instance
        // writes a node while the list is made, it is made again.
        loop {
            let written = self.cache.written();
            view.replace(
                self.with_known(view, &listed),
                fresh_until,
                good_until.min(self.trusted(since)),
            );
            if written == self.cache.written() {
                return Ok(());
            }
        }
    }

    /// A list of members is trusted for half the life of a node: after that some may look dead who
    /// are merely not looked at.
    fn trusted(&self, since: Moment) -> Moment {
        since.plus(self.settings.node_ttl / 2)
    }

    fn with_known(&self, view: &View, listed: &[Arc<Slot>]) -> Vec<Arc<Slot>> {
        let number = view.pool.as_ref().and_then(|pool| self.cache.pool_number(pool));
        let now = self.cache.now();
        let known = self.cache.slots().into_iter().filter(|slot| {
            let state = slot.state.load();
            state.live().is_some_and(|live| {
                self.lives(live.dies_at, now) && (view.pool.is_none() || is_in(live, number))
            })
        });
        let mut members: Vec<Arc<Slot>> = listed.iter().map(Arc::clone).chain(known).collect();
        members.sort_unstable_by(|one, other| one.id.cmp(&other.id));
        members.dedup_by(|one, other| one.id == other.id);
        members
    }
}

/// Whether a node is in the pool with this number.
pub(crate) fn is_in(live: &Live, pool: Option<u32>) -> bool {
    pool.is_some_and(|pool| live.pools.contains(&pool))
}
