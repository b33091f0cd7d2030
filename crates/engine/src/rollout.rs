//! Which lanes are Stile's, as this node last heard.
//!
//! It only saves callers a wait: nothing is accepted for a lane that others give out. Binding does not
//! ask here, but the lane's row.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use stile_domain::{Elsewhere, Lane, Rollout};
use tracing::{debug, info};

use crate::core::Core;
use crate::metrics;

/// How often it is asked whether something has changed.
const INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct RolloutView(RwLock<Arc<Rollout>>);

impl RolloutView {
    pub(crate) fn new(rollout: Rollout) -> Self {
        Self(RwLock::new(Arc::new(rollout)))
    }

    fn get(&self) -> Arc<Rollout> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn set(&self, rollout: Rollout) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rollout);
    }

    /// Why a lane is not Stile's.
    pub(crate) fn elsewhere(&self, lane: Lane) -> Option<Elsewhere> {
        self.get().elsewhere(lane)
    }
}

pub(crate) async fn run(core: Arc<Core>) {
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = core.stopping.cancelled() => return,
            _ = ticks.tick() => {}
        }
        if let Err(error) = look(&core).await {
            metrics::store_failed("rollout");
            debug!(%error, "it could not be asked which lanes are Stile's");
        }
    }
}

async fn look(core: &Core) -> Result<(), stile_store::StoreError> {
    let known = core.rollout.get().version;
    if core.store.rollout_version().await? != known {
        let rollout = core.store.rollout().await?;
        info!(version = rollout.version, node = %core.holder.node, "which lanes are Stile's has changed");
        core.rollout.set(rollout);
    }
    Ok(())
}
