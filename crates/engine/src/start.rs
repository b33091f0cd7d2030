//! A lane's first cursor, and its first in another history of the database.
//!
//! Finding it out may take a slow question to the chain; see `park` for the calls that wait.

use std::sync::Arc;

use stile_chain::{BlockTag, ChainError};
use stile_domain::{Lane, Nonce, first_cursor};
use stile_store::{Refusal, StoreError};
use tracing::{info, warn};

use crate::core::Core;
use crate::error::NonceError;
use crate::lanes::Slot;
use crate::metrics;
use crate::realign;
use crate::settings::ChainQuery;

/// Sets the cursor of a lane that has none yet, or none in this history of the database.
pub(crate) async fn start(core: &Arc<Core>, slot: &Arc<Slot>) -> Result<(), NonceError> {
    let view = core.store.lanes(&[slot.lane()]).await;
    let view = view.inspect_err(|_| metrics::store_failed("start"))?.pop().flatten();
    match view {
        Some(view) if view.next_nonce.is_some() => realign::realign(core, slot, &view).await,
        _ => begin(core, slot).await,
    }
}

/// How far the account's nonces are used, by the chain and as configured; `None` if it is not to be
/// asked.
pub(crate) async fn used_below(core: &Core, lane: Lane) -> Result<Option<Nonce>, ChainError> {
    let ChainQuery::Enabled(tag) = core.settings.chain_query else { return Ok(None) };
    let latest = core.ask_chain(lane, BlockTag::Latest).await?;
    let pending = match tag {
        BlockTag::Latest => None,
        tag => Some(core.ask_chain(lane, tag).await?),
    };
    let below = first_cursor(latest, pending);
    if pending.is_some_and(|pending| pending != below) {
        warn!(signer = %lane.signer, chain = %lane.chain, latest, pending, below,
              "the endpoint's count of pending transactions cannot be right: only its count of mined ones counts");
    }
    Ok(Some(below))
}

async fn begin(core: &Core, slot: &Slot) -> Result<(), NonceError> {
    let lane = slot.lane();
    let used = used_below(core, lane).await;
    let used = used.map_err(|e| NonceError::ChainUnavailable { lane, why: e.to_string() })?;
    // In a database that was emptied under this node the lane is new, but not its nonces.
    let at = used.unwrap_or(0).max(slot.given_out());
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
            if let (Some(latest), ChainQuery::Enabled(BlockTag::Latest)) =
                (used, core.settings.chain_query)
            {
                // For people who look at the lane; nothing depends on it.
                let _ = core.store.settle(&[(claim, latest)], core.lease()).await;
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
