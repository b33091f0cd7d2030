//! Calls to chain endpoints, shared out between the nodes (`[[chain]] max_concurrency`).
//!
//! An endpoint with a limit is a node of the registry, in the pool `chain:<id>`, that takes so many
//! jobs. A Stile node holds slots of it for as long as it has calls to make, and counts its calls
//! against them in memory: a call itself asks nobody. While Redis is away a node keeps to its share
//! by the number of nodes it knows; too many calls cost a refusal by the endpoint and nothing else,
//! so here a guess is good enough. Without Redis there is one node, and the limit is its own.
//!
//! | file | what is in it |
//! |---|---|
//! | `rule` | how many slots a node wants |
//! | `mod` | having them |

mod rule;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stile_chain::EndpointPlaces;
use stile_domain::ChainId;
use stile_registry::{
    InvalidName, JobId, NodeId, PoolId, Registration, Registry, RegistryError, ServiceName,
};
use tracing::{debug, warn};

use self::rule::{Limit, Standing};
use super::registered::ENDPOINT_POOLS;
use crate::core::Core;
use crate::metrics;
use crate::task;

/// How often slots are extended, at least.
const EXTEND_EVERY: Duration = Duration::from_secs(3);

/// How often demand is looked at, and how often at most.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const LOOK_PAUSE: Duration = Duration::from_millis(100);

/// How long what is not used is kept.
const IDLE_FOR: Duration = Duration::from_secs(3);

/// How many calls may be under way at each endpoint of a chain, and with whom that is shared.
#[derive(Debug, Clone, Default)]
pub struct CallLimits {
    /// By chain; those that are not named have none.
    pub chains: HashMap<ChainId, u32>,
    /// Where the nodes share them: a registry on Redis. `None`: this node has them to itself.
    pub registry: Option<Registry>,
}

/// Sets the limits, and keeps this node's part of those that are shared until it stops.
pub(crate) fn start(core: &Arc<Core>, limits: CallLimits) {
    for track in core.tracks.iter() {
        let chain = track.pool.chain();
        let Some(calls) = limits.chains.get(&chain).copied().filter(|calls| *calls > 0) else {
            continue;
        };
        for endpoint in track.pool.places() {
            let limit = Limit::of(calls);
            let Some(registry) = &limits.registry else {
                endpoint.places.set(limit.calls);
                metrics::call_places(chain, &endpoint.shown, limit.calls);
                continue;
            };
            let share = match Share::new(core, registry, chain, &endpoint, limit) {
                Ok(share) => share,
                Err(error) => {
                    warn!(%error, endpoint = endpoint.shown, "the endpoint's limit is not shared");
                    endpoint.places.set(limit.calls);
                    continue;
                }
            };
            core.tasks.spawn(task::SHARE, share.run());
        }
    }
}

/// One node's part of one endpoint's limit.
struct Share {
    core: Arc<Core>,
    registry: Registry,
    chain: ChainId,
    endpoint: EndpointPlaces,
    registration: Registration,
    limit: Limit,
    slots: Vec<JobId>,
    extended: Instant,
    /// Since when there are more than its share.
    borrowed: Option<Instant>,
    /// Since when there are fewer than its share, and than it wants.
    lacking: Option<Instant>,
    /// The highest demand lately, and when that was.
    peak: (usize, Instant),
}

impl Share {
    fn new(
        core: &Arc<Core>,
        registry: &Registry,
        chain: ChainId,
        endpoint: &EndpointPlaces,
        limit: Limit,
    ) -> Result<Self, InvalidName> {
        let id = NodeId::new(format!("{ENDPOINT_POOLS}{chain}:{}", endpoint.digest))?;
        let mut registration =
            Registration::new(id, u32::try_from(limit.slots).unwrap_or(u32::MAX));
        // Every node tells of the endpoint, so there is one start of it for all.
        registration.incarnation = Some(1);
        registration.pools = vec![PoolId::new(format!("{ENDPOINT_POOLS}{chain}"))?];
        let on = ServiceName::new(chain.to_string())?;
        registration.services = [(ServiceName::new("eth")?, [on].into())].into();
        let features = [
            ("endpoint", endpoint.shown.clone().into()),
            ("maxConcurrency", limit.calls.into()),
            ("callsPerSlot", limit.calls_per_slot.into()),
        ];
        registration.features = features.map(|(name, value)| (name.to_owned(), value)).into();
        let now = Instant::now();
        let share = Self {
            core: Arc::clone(core),
            registry: registry.clone(),
            chain,
            endpoint: endpoint.clone(),
            registration,
            limit,
            slots: Vec::new(),
            extended: now,
            borrowed: None,
            lacking: None,
            peak: (0, now),
        };
        // Before anybody calls.
        share.set(limit.places_alone(share.nodes()));
        Ok(share)
    }

    async fn run(mut self) {
        let _kept = self.registry.keep(self.registration.clone());
        let stopping = self.core.stopping.clone();
        loop {
            let places = self.endpoint.places.clone();
            tokio::select! {
                () = stopping.cancelled() => break,
                () = tokio::time::sleep(LOOK_EVERY) => {}
                () = places.wanted() => {}
            }
            match self.look().await {
                Ok(()) => {
                    let lacking = self.lacking.map(|since| since.elapsed()).unwrap_or_default();
                    let (held, nodes) = (self.slots.len(), self.nodes());
                    self.set(self.limit.places_lacking(held, nodes, lacking));
                }
                Err(error) => {
                    debug!(%error, endpoint = self.endpoint.shown, "no slots can be asked for");
                    self.set(self.limit.places_alone(self.nodes()));
                }
            }
            tokio::time::sleep(LOOK_PAUSE).await;
        }
        for slot in std::mem::take(&mut self.slots) {
            if self.registry.release(&slot).await.is_err() {
                // They run out by themselves.
                break;
            }
        }
    }

    fn nodes(&self) -> usize {
        self.core.members.live().len().max(1)
    }

    fn set(&self, places: usize) {
        self.endpoint.places.set(places);
        metrics::call_places(self.chain, &self.endpoint.shown, places);
    }

    /// Extends what there is, and takes or gives back what is wanted.
    async fn look(&mut self) -> Result<(), RegistryError> {
        let now = Instant::now();
        let extend_every = EXTEND_EVERY.min(self.registry.settings().job_ttl / 3);
        if now.duration_since(self.extended) >= extend_every {
            self.extend().await?;
            self.extended = now;
        }
        let standing = self.standing(now);
        let wanted = self.limit.wanted(standing);
        while self.slots.len() < wanted {
            match self.registry.reserve(&self.registration.id).await? {
                Some(slot) => self.slots.push(slot.job),
                None => break,
            }
        }
        if self.slots.len() > wanted {
            // Calls that are under way keep their slots.
            self.endpoint.places.set(self.limit.places(wanted));
            let in_force = self.endpoint.places.in_force().div_ceil(self.limit.calls_per_slot);
            let kept = wanted.max(in_force.min(self.slots.len()));
            // A single call needs no slot.
            let kept = if wanted == 0 && in_force <= 1 { 0 } else { kept };
            while self.slots.len() > kept {
                if let Some(slot) = self.slots.pop() {
                    self.registry.release(&slot).await?;
                }
            }
        }
        let share = self.limit.share(self.nodes());
        let held = self.slots.len();
        self.borrowed = (held > share).then(|| self.borrowed.unwrap_or(now));
        self.lacking = (held < wanted.min(share)).then(|| self.lacking.unwrap_or(now));
        Ok(())
    }

    fn standing(&mut self, now: Instant) -> Standing {
        let demand = self.endpoint.places.demand();
        if demand >= self.peak.0 || now.duration_since(self.peak.1) >= IDLE_FOR {
            self.peak = (demand, now);
        }
        Standing {
            held: self.slots.len(),
            demand: self.peak.0,
            nodes: self.nodes(),
            borrowed: self.borrowed.map(|since| now.duration_since(since)).unwrap_or_default(),
        }
    }

    async fn extend(&mut self) -> Result<(), RegistryError> {
        let mut kept = Vec::with_capacity(self.slots.len());
        let mut slots = std::mem::take(&mut self.slots).into_iter();
        let mut failure = None;
        for slot in slots.by_ref() {
            match self.registry.confirm(&slot).await {
                Ok(_) => kept.push(slot),
                Err(RegistryError::JobOver { .. }) => {}
                Err(error) => {
                    // Whether it lasts is found out next time.
                    kept.push(slot);
                    failure = Some(error);
                    break;
                }
            }
        }
        kept.extend(slots);
        self.slots = kept;
        failure.map_or(Ok(()), Err)
    }
}
