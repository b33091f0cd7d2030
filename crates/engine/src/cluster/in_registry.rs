//! The nodes as the store has them, with the registry's word that they live.
//!
//! Every node tells both. Which nodes there are is the store's word alone (`trust`); as long as the
//! registry says that all of them were heard of, and of nobody else, the store is not asked.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use stile_domain::Timestamp;
use stile_registry::{InvalidName, Kept, Mode, PoolId, Registry, Services};
use stile_store::{LiveNode, NodeRecord, StoreError};
use tracing::{debug, info, warn};

use super::membership::{InStore, Membership};
use super::registered::{self, POOL};
use super::trust::{Next, Source, Trust};
use crate::metrics;

/// A registry, and who else uses it.
#[derive(Debug, Clone)]
pub enum NodeRegistry {
    /// Nobody: it is in this process.
    Own(Registry),
    /// All nodes: it is on Redis.
    Shared(Registry),
}

impl NodeRegistry {
    /// The registry.
    pub fn registry(&self) -> &Registry {
        match self {
            Self::Own(registry) | Self::Shared(registry) => registry,
        }
    }
}

/// The nodes as the store has them, with the registry's word that they live.
pub struct InRegistry {
    registry: NodeRegistry,
    store: InStore,
    services: Services,
    kept: Mutex<Option<Kept>>,
    /// What this node said last. It knows that before the registry does.
    own: Mutex<Option<NodeRecord>>,
    trust: Mutex<Trust>,
}

impl InRegistry {
    /// Those who were heard of within this time live; a registry that was silent for as long is not
    /// waited for.
    pub fn new(
        registry: NodeRegistry,
        store: InStore,
        services: Services,
        within: Duration,
    ) -> Self {
        // What is read may be as old as this without anybody having been silent.
        let settings = registry.registry().settings();
        let within = within + settings.l1_ttl + settings.ttl_jitter;
        metrics::membership_source(Source::Store);
        Self {
            registry,
            store,
            services,
            kept: Mutex::default(),
            own: Mutex::default(),
            trust: Mutex::new(Trust::new(within)),
        }
    }

    /// Tells the registry. Nobody waits for it: it is told again until it has heard.
    fn tell(&self, node: &NodeRecord, start: bool) -> Result<(), InvalidName> {
        let registration = registered::registration(node, &self.services)?;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        match &*kept {
            Some(kept) if !start => kept.update(|said| *said = registration),
            _ => *kept = Some(self.registry.registry().keep(registration)),
        }
        Ok(())
    }

    /// The registry's list; `None` if it does not answer.
    async fn listed(&self, registry: &Registry) -> Option<Vec<LiveNode>> {
        if registry.mode() != Mode::Normal {
            return None;
        }
        let pool = PoolId::new(POOL).ok()?;
        let members = registry.members(&pool).await;
        let members =
            members.inspect_err(|error| debug!(%error, "the registry does not tell of nodes"));
        let members = members.ok()?;
        let own = self.own.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Some(with_own(members.iter().filter_map(|node| registered::live_node(node)).collect(), own))
    }

    fn trust(&self) -> MutexGuard<'_, Trust> {
        self.trust.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Membership for InRegistry {
    async fn beat(&self, node: &NodeRecord, start: bool) -> Result<Option<Timestamp>, StoreError> {
        if let Err(error) = self.tell(node, start)
            && start
        {
            warn!(%error, "this node cannot be in the registry; the others learn of it by the store");
        }
        *self.own.lock().unwrap_or_else(PoisonError::into_inner) = Some(node.clone());
        self.store.beat(node, start).await
    }

    async fn live(&self) -> Result<Vec<LiveNode>, StoreError> {
        let NodeRegistry::Shared(registry) = &self.registry else {
            return self.store.live().await;
        };
        let listed = self.listed(registry).await;
        let before = self.trust().source();
        let next = self.trust().listed(listed, Instant::now());
        let nodes = match next {
            Next::Take(nodes) => nodes,
            Next::AskStore { listed } => {
                let stored = self.store.live().await?;
                self.trust().stored(stored, listed, Instant::now())
            }
        };
        let now = self.trust().source();
        if before != now {
            metrics::membership_source(now);
            info!(nodes = nodes.len(), "that the other nodes live is learned from {}", words(now));
        }
        Ok(nodes)
    }

    async fn leave(&self, node: &NodeRecord) -> Result<(), StoreError> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(kept) = kept
            && let Err(error) = kept.leave().await
        {
            debug!(%error, "the registry could not be told that this node has ended");
        }
        self.store.leave(node).await
    }
}

/// The list with what this node knows of itself, whether the registry has heard of it yet or not.
fn with_own(mut nodes: Vec<LiveNode>, own: Option<NodeRecord>) -> Vec<LiveNode> {
    let Some(own) = own else { return nodes };
    let newest = nodes.iter().map(|node| node.seen_at).max().unwrap_or(Timestamp::UNIX_EPOCH);
    let (started_at, name) = (newest, own.holder.node.clone());
    match nodes.binary_search_by(|node| node.node().0.cmp(&name.0)) {
        Ok(place) if nodes[place].record.holder.incarnation == own.holder.incarnation => {
            nodes[place].record = own;
        }
        // A later start has the name, or an earlier one has it still; the store knows which.
        Ok(_) => {}
        Err(place) => {
            nodes.insert(place, LiveNode { record: own, started_at, seen_at: newest });
        }
    }
    nodes
}

fn words(source: Source) -> &'static str {
    match source {
        Source::Registry => "the registry",
        Source::LastKnown => "what the registry said last: Redis does not answer",
        Source::Store => "the database: the registry does not answer, or does not know all of them",
    }
}

impl fmt::Debug for InRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InRegistry").field("store", &self.store).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use stile_domain::{Holder, Incarnation, NodeId, NodeMode};

    use super::*;

    fn record(name: &str, draining: bool) -> NodeRecord {
        let (node, incarnation) = (NodeId(name.into()), Incarnation::fresh());
        let holder = Holder { node, incarnation, url: None };
        NodeRecord { holder, mode: NodeMode::WorkerQueue, serves: String::new(), draining }
    }

    fn live(record: NodeRecord) -> LiveNode {
        let at = Timestamp::from_second(7).unwrap();
        LiveNode { record, started_at: at, seen_at: at }
    }

    #[test]
    fn a_node_knows_what_it_said_before_the_registry_does() {
        let (a, mut b, c) = (record("a", false), record("b", false), record("c", false));
        let listed = vec![live(a.clone()), live(b.clone()), live(c.clone())];
        b.draining = true;
        let nodes = with_own(listed, Some(b.clone()));
        assert_eq!(nodes[1].record, b);
        let nodes = with_own(vec![live(a.clone()), live(c.clone())], Some(b.clone()));
        let records: Vec<&NodeRecord> = nodes.iter().map(|node| &node.record).collect();
        assert_eq!(records, [&a, &b, &c], "by name");
        let other = record("b", false);
        let nodes = with_own(vec![live(other.clone())], Some(b));
        assert_eq!(nodes[0].record, other, "somebody else has the name");
    }
}
