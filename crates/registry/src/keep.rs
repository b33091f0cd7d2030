//! Keeping a node alive for as long as its process is.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Notify, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::clock::between;
use crate::error::RegistryError;
use crate::{Heartbeat, Node, NodeId, Registration, Registry};

/// A node that is kept alive. Dropped, it is heard of no more and dies after
/// [`crate::Settings::node_ttl`]; [`Kept::leave`] removes it at once.
#[derive(Debug)]
pub struct Kept {
    registry: Registry,
    shared: Arc<Shared>,
    current: watch::Receiver<Option<Arc<Node>>>,
    _stops_when_dropped: DropGuard,
}

#[derive(Debug)]
struct Shared {
    registration: Mutex<Registration>,
    changed: Notify,
}

impl Shared {
    fn registration(&self) -> Registration {
        self.registration.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Registry {
    /// Registers a node as a new start and keeps it alive: heartbeats three times in the life of a
    /// node, at slightly different intervals, and another registration if Redis has lost it. A Redis
    /// that is away at first is waited for.
    pub fn keep(&self, registration: Registration) -> Kept {
        let stop = CancellationToken::new();
        let (tell, current) = watch::channel(None);
        let shared =
            Arc::new(Shared { registration: Mutex::new(registration), changed: Notify::new() });
        let keeper = Keeper { registry: self.clone(), shared: Arc::clone(&shared), tell };
        let (inner, cancelled) = (Arc::clone(self.inner()), stop.clone());
        self.inner().tasks.spawn("registry-keep", async move {
            tokio::select! {
                () = inner.stop.cancelled() => {}
                () = cancelled.cancelled() => {}
                () = keeper.run() => {}
            }
        });
        Kept { registry: self.clone(), shared, current, _stops_when_dropped: stop.drop_guard() }
    }
}

impl Kept {
    /// The node as it was last written; `None` before the first time.
    pub fn current(&self) -> Option<Arc<Node>> {
        self.current.borrow().clone()
    }

    /// Waits until it is registered.
    pub async fn registered(&self) -> Option<Arc<Node>> {
        let mut current = self.current.clone();
        current.wait_for(Option::is_some).await.ok().and_then(|node| node.clone())
    }

    /// Changes what the node says of itself, and says it at once.
    pub fn update(&self, change: impl FnOnce(&mut Registration)) {
        change(&mut self.shared.registration.lock().unwrap_or_else(PoisonError::into_inner));
        self.shared.changed.notify_one();
    }

    /// Removes the node.
    pub async fn leave(self) -> Result<(), RegistryError> {
        let id: NodeId = self.shared.registration().id;
        let incarnation = self.current().map(|node| node.incarnation);
        drop(self._stops_when_dropped);
        match self.registry.remove(&id, incarnation).await {
            Ok(_) | Err(RegistryError::UnknownNode { .. } | RegistryError::Stale { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

struct Keeper {
    registry: Registry,
    shared: Arc<Shared>,
    tell: watch::Sender<Option<Arc<Node>>>,
}

impl Keeper {
    async fn run(self) {
        let mut incarnation = self.shared.registration().incarnation;
        loop {
            let written = self.write(incarnation).await;
            match written {
                Ok(node) => {
                    incarnation = Some(node.incarnation);
                    self.tell.send_replace(Some(node));
                }
                Err(error @ (RegistryError::Stale { .. } | RegistryError::Removed { .. })) => {
                    // Somebody has this name now, or wants the node gone. To go on would be to fight.
                    tracing::error!(%error, "this node is not registered any more");
                    return;
                }
                Err(error) => tracing::debug!(%error, "the node could not be kept alive this time"),
            }
            let third = self.registry.settings().node_ttl / 3;
            tokio::select! {
                () = tokio::time::sleep(between(third * 9 / 10, third)) => {}
                () = self.shared.changed.notified() => {}
            }
        }
    }

    async fn write(&self, incarnation: Option<u64>) -> Result<Arc<Node>, RegistryError> {
        let registration = Registration { incarnation, ..self.shared.registration() };
        if self.tell.borrow().is_none() {
            return self.registry.register(&registration).await;
        }
        let heartbeat = heartbeat(&registration);
        match self.registry.heartbeat(&registration.id, &heartbeat).await {
            Err(RegistryError::UnknownNode { .. }) => self.registry.register(&registration).await,
            written => written,
        }
    }
}

/// Everything that the node says of itself, as a sign of life.
fn heartbeat(registration: &Registration) -> Heartbeat {
    let registration = registration.clone();
    Heartbeat {
        incarnation: registration.incarnation.unwrap_or_default(),
        sequence: None,
        status: Some(registration.status),
        health: Some(registration.health),
        pools: Some(registration.pools),
        services: Some(registration.services),
        resources: Some(registration.resources),
        installed_services: Some(registration.installed_services),
        features: Some(registration.features),
    }
}
