//! A slot for a job.

use std::sync::Arc;
use std::time::Instant;

use crate::backend::{self, Reserve};
use crate::cache::slot::Slot;
use crate::clock::random;
use crate::error::RegistryError;
use crate::registry::{Inner, Work};
use crate::rendezvous;
use crate::select::Ranked;
use crate::{Job, JobId, JobRequest, NodeId, PoolId, Registry, Requirement, metrics};

/// So many nodes that were full when last heard of are asked all the same, before a job is refused.
const FULL_ASKED: usize = 32;

/// A slot on a node, promised for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// To confirm or release it with.
    pub job: JobId,
    /// When it is free again: milliseconds since 1970 by the clock of Redis.
    pub expires_at_ms: u64,
}

impl Registry {
    /// Finds a node for a job and takes a slot of it, at once running. The pool is the one asked for,
    /// or the one that the session is in; of its nodes the least loaded is asked first, and the next
    /// if it refuses.
    ///
    /// [`RegistryError::Full`] if nobody has a slot. While Redis is away nothing is given out.
    pub async fn dispatch(&self, request: &JobRequest) -> Result<Job, RegistryError> {
        let began = Instant::now();
        let job = self.inner().dispatch(request).await;
        metrics::dispatched(began.elapsed());
        metrics::job(match &job {
            Ok(_) => "dispatched",
            Err(RegistryError::Full { .. }) => "full",
            Err(_) => "error",
        });
        job
    }

    /// Frees the slot of a job, and no other. [`RegistryError::JobOver`] if it has none any more.
    pub async fn complete(&self, job: &JobId) -> Result<(), RegistryError> {
        let completed = self.release(job).await;
        metrics::job(match &completed {
            Ok(true) => "completed",
            Ok(false) => "over",
            Err(_) => "error",
        });
        if completed? { Ok(()) } else { Err(RegistryError::JobOver { job: job.clone() }) }
    }

    /// Takes a slot of one node without running anything yet; `None` if it has none to give. To be
    /// confirmed or released before it runs out.
    pub async fn reserve(&self, node: &NodeId) -> Result<Option<Reservation>, RegistryError> {
        let inner = self.inner();
        inner.may_write("reserve a slot")?;
        let slot = inner.cache.slot_or_new(node);
        let job = JobId::on(node.clone());
        let taken = inner.ask_for_slot(&slot, &job, backend::Slot::Reserved).await?;
        Ok(taken.map(|expires_at_ms| Reservation { job, expires_at_ms }))
    }

    /// A reserved job runs, or a running one goes on: from now it has its slot for another
    /// [`crate::Settings::job_ttl`]. Returns when it runs out; [`RegistryError::JobOver`] if it has.
    pub async fn confirm(&self, job: &JobId) -> Result<u64, RegistryError> {
        let inner = self.inner();
        inner.may_write("confirm a job")?;
        let confirmed = inner.ask("confirm a job", inner.backend.confirm(job)).await?;
        confirmed.ok_or_else(|| RegistryError::JobOver { job: job.clone() })
    }

    /// Frees the slot of a job; `false` if it had none any more.
    pub async fn release(&self, job: &JobId) -> Result<bool, RegistryError> {
        let inner = self.inner();
        inner.may_write("release a slot")?;
        let released = inner.ask("release a slot", inner.backend.release(job)).await?;
        if released {
            inner.cache.with(job.node().as_str(), |slot| slot.one_less());
        }
        Ok(released)
    }
}

impl Inner {
    async fn dispatch(self: &Arc<Self>, request: &JobRequest) -> Result<Job, RegistryError> {
        self.may_write("dispatch a job")?;
        let (pool, ranked) = match &request.pool {
            Some(pool) => (pool.clone(), self.candidates(Some(pool), &request.services).await?),
            None => self.pool_of(&request.session, &request.services).await?,
        };
        let mut tried = 0;
        let mut full = 0;
        for slot in &ranked.slots {
            full += usize::from(slot.load() >= 1_000_000);
            if full > FULL_ASKED {
                break;
            }
            let job_id = JobId::on(slot.id.clone());
            let taken = self.ask_for_slot(slot, &job_id, backend::Slot::Running).await?;
            if let Some(expires_at) = taken {
                return Ok(Job {
                    job_id,
                    session: request.session.clone(),
                    pool,
                    node_id: slot.id.clone(),
                    services: request.services.clone(),
                    expires_at,
                });
            }
            tried += 1;
        }
        Err(RegistryError::Full { tried, left_out: ranked.left_out })
    }

    async fn candidates(
        self: &Arc<Self>,
        pool: Option<&PoolId>,
        services: &[Requirement],
    ) -> Result<Ranked, RegistryError> {
        let view = self.view(pool).await?;
        Ok(self.rank(&view, services, None, random()))
    }

    /// The pool that a session is in, with those of its nodes that could do the job. A new session
    /// gets one of the pools that could do it, and stays; if its pool cannot do it any more, it gets
    /// another.
    async fn pool_of(
        self: &Arc<Self>,
        session: &str,
        services: &[Requirement],
    ) -> Result<(PoolId, Ranked), RegistryError> {
        if let Some(pool) = self.sessions.get(session, self.cache.now()) {
            let ranked = self.candidates(Some(&pool), services).await?;
            if !ranked.slots.is_empty() {
                return Ok((pool, ranked));
            }
        }
        let everybody = self.candidates(None, services).await?;
        let pools: Vec<PoolId> = everybody.slots.iter().flat_map(|slot| pools_of(slot)).collect();
        let Some(chosen) = rendezvous::choose(session, &pools) else {
            return Err(RegistryError::Full { tried: 0, left_out: everybody.left_out });
        };
        let mut pool = self.settle(session, chosen, false).await?;
        let mut ranked = self.candidates(Some(&pool), services).await?;
        if ranked.slots.is_empty() && pool != *chosen {
            pool = self.settle(session, chosen, true).await?;
            ranked = self.candidates(Some(&pool), services).await?;
        }
        Ok((pool, ranked))
    }

    /// Puts a session into a pool, unless it is in one; with `anew` whatever it is in.
    async fn settle(
        &self,
        session: &str,
        pool: &PoolId,
        anew: bool,
    ) -> Result<PoolId, RegistryError> {
        let now = self.cache.now();
        let settled = self.backend.session_pool(session, Some(pool), anew);
        let settled = self.ask("choose a pool", settled).await?.unwrap_or_else(|| pool.clone());
        self.sessions.insert(session, settled.clone(), now);
        Ok(settled)
    }

    /// When the slot runs out, if the node gave one.
    async fn ask_for_slot(
        self: &Arc<Self>,
        slot: &Arc<Slot>,
        job: &JobId,
        how: backend::Slot,
    ) -> Result<Option<u64>, RegistryError> {
        let asked = self.measured("reserve a slot", self.backend.reserve(job, how, slot.known()));
        let answer = asked.await.map_err(|error| {
            metrics::reserved("error");
            self.release_behind(job.clone());
            self.away("reserve a slot", error.to_string())
        })?;
        let (result, expires_at) = match answer {
            Reserve::Taken { capacity, tick, expires_at_ms } => {
                self.cache.absorb_capacity(slot, capacity, tick);
                ("taken", Some(expires_at_ms))
            }
            Reserve::Full { capacity, tick } => {
                self.cache.absorb_capacity(slot, capacity, tick);
                ("full", None)
            }
            Reserve::Gone => {
                slot.doubt();
                self.queue(Work::Node(Arc::clone(slot)));
                ("gone", None)
            }
            Reserve::Recovering => ("recovering", None),
        };
        metrics::reserved(result);
        Ok(expires_at)
    }

    /// A slot may have been taken although nobody answered. It would run out by itself; the word sent
    /// behind it, on the same connection, frees it earlier.
    fn release_behind(self: &Arc<Self>, job: JobId) {
        let inner = Arc::clone(self);
        self.tasks.spawn("registry-release", async move {
            let _ = inner.backend.release(&job).await;
        });
    }
}

fn pools_of(slot: &Slot) -> Vec<PoolId> {
    slot.state.load().live().map(|live| live.node.pools.clone()).unwrap_or_default()
}
