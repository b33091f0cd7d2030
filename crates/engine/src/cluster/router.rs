//! Where a lane is, for callers who would rather ask the right node at once.

use std::sync::Arc;

use std::time::Duration;

use stile_domain::{Holder, Lane, Timestamp};
use stile_store::{LiveNode, StoreError};

use crate::core::Core;

/// For how long the database remembers a node that was not heard of.
const TOLD_WITHIN: Duration = Duration::from_secs(24 * 3600);

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
    pub preferred: Option<Holder>,
    /// Who holds it; `None` if nobody does at this moment.
    pub holder: Option<Holder>,
    /// When the holder's lease ends unless it is renewed.
    pub expires_at: Option<Timestamp>,
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
        Ok(Route {
            lane,
            preferred,
            expires_at: held.as_ref().map(|view| view.expires_at),
            holder: held.map(|view| view.owner.holder()),
        })
    }

    /// Who this node is.
    pub fn own(&self) -> &Holder {
        &self.core.holder
    }

    /// What the database's clock shows, as far as this node knows. All nodes go by it, so that their
    /// own clocks do not matter.
    pub fn time(&self) -> Timestamp {
        self.core.members.time()
    }

    /// Whether this start of a node has told the database that it is reached at this place. One that
    /// is not known yet is looked for.
    pub async fn knows(&self, node: &Holder) -> Result<bool, StoreError> {
        if self.core.members.has(node) {
            return Ok(true);
        }
        let told = self.core.store.live_nodes(TOLD_WITHIN).await?;
        Ok(told.iter().any(|told| told.record.holder == *node))
    }

    /// The nodes that live, as far as this one knows, by name.
    pub fn nodes(&self) -> Vec<LiveNode> {
        self.core.members.live().to_vec()
    }
}
