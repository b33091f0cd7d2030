//! A lane's first cursor, and its first in another history of the database.
//!
//! A copy of the database that was put back cannot always be told from the database: then the chain
//! has more of the account than the cursor says. So before a process plans the first nonce of a lane,
//! its cursor is held against the chain. If the chain is ahead, the lane is treated like one of a
//! restored database. Where others use the key by declaration that is nothing unusual: then what the
//! chain shows is enough, and no person is asked (see `restored`).
//!
//! Finding it out may take a slow question to the chain; see `park` for the calls that wait.

use std::sync::Arc;
use std::time::Duration;

use stile_chain::{BlockTag, ChainError};
use stile_domain::{Lane, Nonce, first_cursor};
use stile_store::{Beginning, LaneView, Refusal, StoreError};
use tracing::{info, warn};

use crate::core::Core;
use crate::error::NonceError;
use crate::lanes::Slot;
use crate::metrics;
use crate::realign;
use crate::reconcile;
use crate::settings::ChainQuery;

/// How long the first nonce of a lane waits for the chain's count.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);

/// Sets the cursor of a lane that has none yet, or none in this history of the database.
pub(crate) async fn start(core: &Arc<Core>, slot: &Arc<Slot>) -> Result<(), NonceError> {
    let mut view = read(core, slot.lane()).await?;
    let mut count = None;
    if view.as_ref().is_some_and(|view| view.next_nonce.is_some()) && is_to_be_compared(core, slot)
    {
        count = ask_count(core, slot.lane()).await;
        // Cursors only grow, so a count above one that is read after it is no accident of timing.
        view = read(core, slot.lane()).await?;
    }
    match view {
        Some(mut view) if view.next_nonce.is_some() => {
            let reason = match count {
                Some(count) => compare(core, slot, &mut view, count).await?,
                None => None,
            };
            realign::realign(core, slot, &view, reason.as_deref()).await?;
        }
        _ => begin(core, slot).await?,
    }
    if slot.claim().is_some() {
        slot.set_compared(true);
    }
    Ok(())
}

async fn read(core: &Core, lane: Lane) -> Result<Option<LaneView>, StoreError> {
    let view = core.store.lanes(&[lane]).await;
    Ok(view.inspect_err(|_| metrics::store_failed("start"))?.pop().flatten())
}

/// Whether a lane's cursor is to be held against the chain before anything is planned from it. Not
/// where no transactions are sent.
pub(crate) fn is_to_be_compared(core: &Core, slot: &Slot) -> bool {
    !slot.is_compared()
        && core.settings.chain_query != ChainQuery::Disabled
        && core.tracks.get(slot.lane().chain).is_some()
}

/// The account's count. `None` if the chain does not answer soon: then the lane goes on, and the
/// comparison of lanes with the chain finds later what does not fit.
async fn ask_count(core: &Core, lane: Lane) -> Option<Nonce> {
    let answer = tokio::time::timeout(ANSWER_WITHIN, core.ask_chain(lane, BlockTag::Latest)).await;
    match answer {
        Ok(Ok(count)) => Some(count),
        Ok(Err(error)) => {
            warn!(%error, signer = %lane.signer, chain = %lane.chain, "the cursor is not compared with the chain");
            None
        }
        Err(_) => {
            warn!(signer = %lane.signer, chain = %lane.chain, "the cursor is not compared with the chain: no answer");
            None
        }
    }
}

/// Holds the cursor against the chain. If the chain is ahead by the word of most endpoints, the lane
/// is to be realigned, and the answer says why.
async fn compare(
    core: &Arc<Core>,
    slot: &Arc<Slot>,
    view: &mut LaneView,
    count: Nonce,
) -> Result<Option<String>, NonceError> {
    let (lane, cursor) = (slot.lane(), view.next_nonce.unwrap_or_default());
    let (Some(track), Some(claim)) = (core.tracks.get(lane.chain), slot.claim()) else {
        return Ok(None);
    };
    let known = view.restored.is_some_and(|mark| mark.is_open());
    // A paused lane gives out nothing, and whoever resumes it compares it.
    let stopped = view.paused.is_some() || view.elsewhere.is_some();
    if count <= cursor || !view.aligned || stopped || known {
        return Ok(None);
    }
    if !reconcile::most_agree(track, lane, |count| count > cursor).await {
        return Ok(None);
    }
    match core.store.set_unaligned(&claim, core.lease()).await {
        Ok(Ok(())) => {}
        Ok(Err(Refusal::Fenced(owner))) if core.is_ours(&owner) => {
            let why = "the lane was paused or resumed meanwhile".to_owned();
            return Err(NonceError::Unaligned { lane, why });
        }
        Ok(Err(Refusal::Fenced(owner))) => {
            core.lost(slot, claim, &owner, "start");
            return Err(NonceError::Fenced { lane, owner: Box::new(owner) });
        }
        Ok(Err(refusal)) => return Err(NonceError::Internal(refusal.to_string())),
        Err(error) => {
            metrics::store_failed("start");
            return Err(error.into());
        }
    }
    view.aligned = false;
    let reason = format!(
        "the chain has {count} transactions of this account, but only nonces below {cursor} were given out: an older \
         copy of the database was put back, or somebody else signs with this key"
    );
    warn!(signer = %lane.signer, chain = %lane.chain, cursor, count, reason, "the chain is ahead of the database");
    Ok(Some(reason))
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
    let beginning = Beginning {
        at,
        used: used.unwrap_or(at),
        // Tokens only rise, and nobody gives out nonces of a lane that has no cursor: its row is lost.
        known_before: slot.given_out() > 0 || slot.seen_token() > claim.token().get(),
        failover: core.settings.failover,
    };
    let start = || core.store.start_cursor(&core.holder.node, &claim, beginning, core.lease());
    let mut started = start().await;
    if matches!(started, Err(StoreError::CommitUnknown(_))) {
        // A cursor that is set already stays as it is, so asking again is how to learn it.
        started = start().await;
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
