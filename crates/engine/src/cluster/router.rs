//! Where a lane is, for callers who would rather ask the right node at once.

use std::sync::Arc;

use stile_domain::{Lane, NodeId, Timestamp};
use stile_store::{LiveNode, StoreError};

use crate::core::Core;

/// Tells where lanes are. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Router {
    core: Arc<Core>,
}

/// Where a lane is, and where it had best be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The lane.
    pub lane: Lane,
    /// The node that it had best be on; `None` where lanes do not move.
    pub preferred: Option<Place>,
    /// Who holds it; `None` if nobody does at this moment.
    pub holder: Option<Place>,
    /// When the holder's lease ends unless it is renewed.
    pub expires_at: Option<Timestamp>,
}

/// A node, and where it is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Its name.
    pub node: NodeId,
    /// Its URL, if it says one.
    pub url: Option<String>,
}

impl Router {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        Self { core }
    }

    /// Where a lane is. It may move in the next moment; whoever is asked in vain says where to.
    pub async fn route(&self, lane: Lane) -> Result<Route, StoreError> {
        let core = &self.core;
        let preferred = core.members.preferred(&core.holder, lane);
        let view = core.store.lanes(&[lane]).await?.pop().flatten();
        let held = view.filter(|view| !view.owner.remaining.is_zero());
        let place =
            |node: &NodeId, url: &Option<String>| Place { node: node.clone(), url: url.clone() };
        Ok(Route {
            lane,
            preferred: preferred.map(|holder| place(&holder.node, &holder.url)),
            expires_at: held.as_ref().map(|view| view.expires_at),
            holder: held.map(|view| place(&view.owner.node, &view.owner.url)),
        })
    }

    /// The nodes that live, as far as this one knows, by name.
    pub fn nodes(&self) -> Vec<LiveNode> {
        self.core.members.live().to_vec()
    }
}
