//! A new lane's first cursor.
//!
//! Finding it out may take a slow question to the chain; see `park` for the calls that wait.

use stile_chain::{BlockTag, ChainError};
use stile_domain::first_cursor;
use stile_store::{Refusal, StoreError};
use tracing::{info, warn};

use crate::core::Core;
use crate::error::NonceError;
use crate::lanes::Slot;
use crate::metrics;
use crate::settings::ChainQuery;

/// Sets the cursor of a lane that has none yet.
pub(crate) async fn start(core: &Core, slot: &Slot) -> Result<(), NonceError> {
    let lane = slot.lane();
    let unavailable = |e: ChainError| NonceError::ChainUnavailable { lane, why: e.to_string() };
    let at = match core.settings.chain_query {
        ChainQuery::Disabled => 0,
        ChainQuery::Enabled(tag) => {
            let latest = core.ask_chain(lane, BlockTag::Latest).await.map_err(unavailable)?;
            let pending = match tag {
                BlockTag::Latest => None,
                tag => Some(core.ask_chain(lane, tag).await.map_err(unavailable)?),
            };
            let at = first_cursor(latest, pending);
            if pending.is_some_and(|pending| pending != at) {
                warn!(signer = %lane.signer, chain = %lane.chain, latest, pending, at,
                      "the endpoint's count of pending transactions cannot be right: the lane starts at its count of mined ones");
            }
            at
        }
    };
    let Some(claim) = slot.claim() else { return Ok(()) };
    let mut started = core.store.start_cursor(&core.holder.node, &claim, at, core.lease()).await;
    if matches!(started, Err(StoreError::CommitUnknown(_))) {
        // A cursor that is set already stays as it is, so asking again is how to learn it.
        started = core.store.start_cursor(&core.holder.node, &claim, at, core.lease()).await;
    }
    match started.inspect_err(|_| metrics::store_failed("start"))? {
        Ok(cursor) => {
            info!(signer = %lane.signer, chain = %lane.chain, node = %core.holder.node,
                  token = claim.token().get(), cursor, "lane starts");
            if core.settings.chain_query == ChainQuery::Enabled(BlockTag::Latest) {
                // For people who look at the lane; nothing depends on it.
                let _ = core.store.settle(&[(claim, at)], core.lease()).await;
            }
            Ok(())
        }
        // Paused or resumed since: the calls find out which.
        Err(Refusal::Fenced(owner)) if core.is_ours(&owner) => Ok(()),
        Err(Refusal::Fenced(owner)) => {
            core.lost(slot, claim, &owner, "start");
            Err(NonceError::Fenced { lane, owner: Box::new(owner) })
        }
        Err(refusal) => Err(NonceError::Internal(refusal.to_string())),
    }
}
