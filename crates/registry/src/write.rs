//! What nodes say of themselves, written where everybody sees it.

use std::sync::Arc;

use crate::backend::{Removal, Wrote};
use crate::clock::Moment;
use crate::error::RegistryError;
use crate::registry::Inner;
use crate::{Heartbeat, Node, NodeId, Registration, Registry, Version};

impl Registry {
    /// Registers a node: a new start of it, or the same start again with other properties. This
    /// instance sees it at once, the others within moments.
    ///
    /// Refused ([`RegistryError::Stale`], [`RegistryError::Removed`]) if a later start is known, or
    /// if this start was removed.
    pub async fn register(&self, registration: &Registration) -> Result<Arc<Node>, RegistryError> {
        let inner = self.inner();
        inner.may_write("register a node")?;
        let (id, since) = (&registration.id, inner.cache.asked());
        let floor = inner.cache.floor(id);
        let wrote = inner.backend.register(registration, floor);
        let wrote = inner.ask("register a node", wrote).await?;
        inner.written(id, wrote, since)
    }

    /// Says that a node lives, and what has changed. How many jobs it runs is what its capacity record
    /// says; if nothing else has changed, what it said when it was last looked at, which is done behind
    /// the answer.
    ///
    /// [`RegistryError::UnknownNode`] asks the node to register again; a heartbeat of a start that
    /// was removed or superseded, or one that was overtaken, changes nothing and says so.
    pub async fn heartbeat(
        &self,
        id: &NodeId,
        heartbeat: &Heartbeat,
    ) -> Result<Arc<Node>, RegistryError> {
        let inner = self.inner();
        inner.may_write("take a heartbeat")?;
        let since = inner.cache.asked();
        let known = inner.cache.slot(id).map(|slot| slot.state.load_full());
        let floor = known.as_ref().map(|state| state.version()).unwrap_or_default();
        let known = known.as_ref().and_then(|state| state.live()).map(|live| &*live.node);
        let wrote = inner.backend.heartbeat(id, heartbeat, floor, known);
        let wrote = inner.ask("take a heartbeat", wrote).await?;
        inner.written(id, wrote, since)
    }

    /// Removes a node: every start of it, or with `incarnation` that one and those before it.
    /// Heartbeats that are still on their way do not bring it back; a new start does.
    pub async fn remove(
        &self,
        id: &NodeId,
        incarnation: Option<u64>,
    ) -> Result<Version, RegistryError> {
        let inner = self.inner();
        inner.may_write("remove a node")?;
        let since = inner.cache.asked();
        match inner.ask("remove a node", inner.backend.remove(id, incarnation)).await? {
            Removal::Done(version) => {
                inner.cache.absorb_end(id, version, since);
                Ok(version)
            }
            Removal::Unknown => Err(RegistryError::UnknownNode { node: id.clone() }),
            Removal::Stale(version) => Err(RegistryError::Stale { node: id.clone(), version }),
        }
    }
}

impl Inner {
    /// A writer's own memory is fresh at once.
    fn written(
        &self,
        id: &NodeId,
        wrote: Wrote,
        since: Moment,
    ) -> Result<Arc<Node>, RegistryError> {
        let node = id.clone();
        match wrote {
            Wrote::Done(record) => {
                let node = Arc::clone(&record.node);
                let slot = self.cache.absorb_record(*record, since);
                self.cache.include(&slot, &node.pools);
                Ok(node)
            }
            Wrote::Prolonged(node, remaining) => {
                self.cache.absorb_again(&node, remaining, since);
                Ok(node)
            }
            Wrote::Unknown => Err(RegistryError::UnknownNode { node }),
            Wrote::Removed(version) => {
                self.cache.absorb_end(id, version, since);
                Err(RegistryError::Removed { node, version })
            }
            Wrote::Stale(version) => Err(RegistryError::Stale { node, version }),
        }
    }
}
