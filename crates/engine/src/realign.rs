//! Lanes in another history of the database.
//!
//! After a failover of PostgreSQL to a standby that had not heard of the last commits, or after a
//! backup was restored, the store refuses to give out nonces of a lane until it has been held
//! against its chain. Here that is done: the cursor goes past what the database still knows, past
//! what the chain has mined and past what this node remembers to have given out, and the token past
//! every one that anybody can have seen. What is on record is sent again; what is not any more is
//! told.

use std::sync::Arc;

use serde_json::json;
use stile_domain::{Ahead, Lane, LaneMemory, Others, Remembered, TxId};
use stile_store::{Claim, LaneView, Refusal, StoreError};
use tracing::{error, warn};

use crate::behind::Behind;
use crate::core::Core;
use crate::error::NonceError;
use crate::lanes::Slot;
use crate::metrics;
use crate::start;
use crate::tx;
use crate::tx::settings::OutsideUse;

/// Lost transactions that an entry in a lane's history names.
const LOST_NAMED: usize = 100;

/// The chain is ahead of a lane's cursor: the store gives out nothing of it before it is realigned. The
/// reason is kept for that, in this process alone, and for this claim in this history of the database:
/// whatever happens to either may be a loss.
pub(crate) async fn fall_behind(
    core: &Core,
    slot: &Slot,
    claim: &Claim,
    reason: String,
    settles_itself: bool,
) -> Result<Result<Behind, Refusal>, StoreError> {
    let history = core.store.history_name().await?;
    let ahead = Ahead { reason, settles_itself, history };
    let behind = Behind { ahead, token: claim.token().get() };
    // First: as soon as it is written, a call beside this one may realign the lane.
    slot.set_behind(Some(behind.clone()));
    let written = core.store.set_unaligned(claim, core.lease()).await;
    if !matches!(written, Ok(Ok(()))) {
        slot.set_behind(None);
    }
    written.map(|written| written.map(|()| behind))
}

/// `pooled`: some endpoint has transactions beyond the cursor in its pool.
pub(crate) async fn realign(
    core: &Arc<Core>,
    slot: &Arc<Slot>,
    view: &LaneView,
    pooled: bool,
) -> Result<(), NonceError> {
    let lane = slot.lane();
    if view.aligned {
        // By another node, maybe. The next time there may be another reason.
        slot.set_behind(None);
        return Ok(());
    }
    let Some(claim) = slot.claim() else { return Ok(()) };
    let used = start::used_below(core, lane).await;
    let used = used.map_err(|e| NonceError::Unaligned { lane, why: e.to_string() })?;
    let lost = lost(core, lane).await?;
    let remembered = Remembered {
        used,
        given_out: slot.given_out(),
        token: slot.seen_token(),
        failover: core.settings.failover,
        memory: memory(core, slot, claim),
        ahead: slot.ahead(&claim),
        pooled,
        others: match core.settings.tx.outside_use {
            _ if view.elsewhere.is_some() => Others::Owner,
            OutsideUse::Follow => Others::Declared,
            OutsideUse::Pause => Others::None,
        },
    };
    let named: Vec<String> = lost.iter().take(LOST_NAMED).map(TxId::to_string).collect();
    let more = json!({ "lostTransactions": lost.len(), "lost": named });
    let answer =
        core.store.realign(&core.holder.node, &claim, &remembered, &more, core.lease()).await;
    match answer.inspect_err(|_| metrics::store_failed("realign")) {
        Ok(Ok(Some(realigned))) => {
            slot.set_behind(None);
            metrics::realigned();
            warn!(signer = %lane.signer, chain = %lane.chain, node = %core.holder.node, op = "realign",
                  from = realigned.from, cursor = realigned.to, chain_nonce = used, token = realigned.token.get(),
                  "the database has lost its last commits or was restored: the lane goes on past all \
                   that can have been given out");
            if realigned.bound_again > 0 {
                warn!(signer = %lane.signer, chain = %lane.chain, count = realigned.bound_again,
                      "transactions were bound again to nonces that only this node remembered");
            }
            slot.set_restored(slot.is_restored() || realigned.restored);
            if realigned.restored {
                warn!(signer = %lane.signer, chain = %lane.chain,
                      "commits may be missing: what waits is not sent by itself, since it may have been sent before");
            }
            for id in &lost {
                error!(txId = %id, signer = %lane.signer, chain = %lane.chain,
                       "a transaction that was accepted is not in the database any more");
            }
            // Under the new token: what is on record is taken up and sent again, without waiting for
            // the next renewal.
            if let Err(error) = core.acquire(&[lane]).await {
                warn!(%error, "a lease could not be renewed");
            }
            tx::again(core, lane);
            Ok(())
        }
        // Done meanwhile, by a call beside this one.
        Ok(Ok(None)) => Ok(()),
        // By this node's own hands, under a newer token: so it is done, or will be asked for again.
        Ok(Err(Refusal::Fenced(owner))) if core.is_ours(&owner) => Ok(()),
        Ok(Err(Refusal::Fenced(owner))) => {
            core.lost(slot, claim, &owner, "realign");
            Err(NonceError::Fenced { lane, owner: Box::new(owner) })
        }
        Ok(Err(refusal)) => Err(NonceError::Internal(refusal.to_string())),
        // If it happened after all, the next look finds the lane aligned.
        Err(error) => Err(error.into()),
    }
}

/// What this node wrote for the lane, if nobody else can have held it: see
/// [`Remembered::lost_bindings`]. The database has just answered in the new history, so a lease that is
/// believed in now was believed in when the old one ended.
fn memory(core: &Core, slot: &Slot, claim: Claim) -> Option<Arc<LaneMemory>> {
    // A token that rose and is not known in this history: so is what was done under it.
    if claim.token().get() != slot.seen_token() {
        return None;
    }
    let mut memory = slot.memory(claim)?;
    memory.others_take_calls = !core.members.was_always_alone();
    Some(Arc::new(memory))
}

/// What is in the book and not in the store any more.
async fn lost(core: &Core, lane: Lane) -> Result<Vec<TxId>, StoreError> {
    let Some(track) = core.tracks.get(lane.chain) else { return Ok(Vec::new()) };
    let known: Vec<TxId> = track.book().of_lane(lane).map(|open| open.id).collect();
    if known.is_empty() {
        return Ok(known);
    }
    let found = core.store.txs(&known).await?;
    Ok(known.into_iter().zip(found).filter(|(_, tx)| tx.is_none()).map(|(id, _)| id).collect())
}
