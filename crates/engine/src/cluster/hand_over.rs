//! Lanes on their way to where they had best be.
//!
//! A lane is handed over between two commits: whoever binds its nonces is waited for, nobody begins
//! anew, and the lane's row goes to the other node under a raised token. What this node had still
//! on its way for the lane, a record of what happened to a transaction, is refused from then on,
//! and the new holder finds it out anew, from the store and from the chain.

use std::sync::Arc;

use futures::StreamExt;
use stile_domain::{Holder, Lane};
use stile_store::{LaneNews, StoreError};
use tracing::{debug, info, warn};

use super::beat;
use super::news::tell;
use crate::core::Core;
use crate::{metrics, tx};

/// Lanes that are on their way at one time. Callers of each wait for a moment, so not many do.
const AT_ONCE: usize = 8;

/// Hands lanes over, each to its node, and tells them.
pub(super) async fn hand_over(core: &Arc<Core>, lanes: Vec<(Lane, Holder)>) -> usize {
    let total = lanes.len();
    let handed: Vec<Lane> = futures::stream::iter(lanes)
        .map(|(lane, to)| async move { one(core, lane, &to).await.then_some(lane) })
        .buffer_unordered(AT_ONCE)
        .filter_map(std::future::ready)
        .collect()
        .await;
    metrics::handed_over(handed.len());
    info!(node = %core.holder.node, lanes = handed.len(), of = total, "lanes handed over");
    let news: Vec<LaneNews> = handed.iter().map(|lane| LaneNews::HandedOver(*lane)).collect();
    tell(core, &news).await;
    handed.len()
}

async fn one(core: &Arc<Core>, lane: Lane, to: &Holder) -> bool {
    let slot = core.lanes.slot(lane);
    // Whoever is at work finishes; whoever comes next finds the lane gone.
    let mut work = slot.work.lock().await;
    let Some(claim) = slot.claim() else { return false };
    let handed = core.store.hand_over(&claim, to).await;
    // If its fate is unknown the lane may be gone, and asking for it tells.
    if matches!(handed, Ok(true) | Err(StoreError::CommitUnknown(_))) {
        work.forget();
        slot.let_go(claim);
        slot.set_waiting(true);
        tx::give_up(core, lane);
    }
    match handed {
        Ok(true) => {
            debug!(signer = %lane.signer, chain = %lane.chain, node = %core.holder.node,
                   to = %to.node, token = claim.token().get(), op = "hand_over", "fenced write");
            true
        }
        Ok(false) => {
            // The lane is another node's, or still ours because the database does not know this start of
            // the other node any more. Asking for it tells which.
            drop(work);
            if let Err(error) = core.acquire(&[lane]).await {
                warn!(%error, signer = %lane.signer, chain = %lane.chain, "a lane could not be asked for");
            }
            false
        }
        Err(error) => {
            metrics::store_failed("hand_over");
            warn!(%error, signer = %lane.signer, chain = %lane.chain, "a lane could not be handed over");
            false
        }
    }
}

/// At the end: hands every lane to the node that it had best be on when this one is gone. Those for
/// which there is none are left for the caller to release.
pub(crate) async fn hand_over_all(core: &Arc<Core>) -> usize {
    if !core.members.move_lanes(&core.holder) {
        return 0;
    }
    beat::drain(core).await;
    let held = core.lanes.held();
    let lanes: Vec<(Lane, Holder)> = held
        .iter()
        .filter_map(|(slot, _)| {
            let lane = slot.lane();
            Some((lane, core.members.better(&core.holder, lane)?))
        })
        .collect();
    if lanes.is_empty() { 0 } else { hand_over(core, lanes).await }
}
