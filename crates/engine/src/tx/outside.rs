//! Nonces that somebody else has used.
//!
//! Blocks show who sent what. A transaction of one of our accounts that Stile has not signed is
//! either a caller's with a bare nonce, or an outsider's: somebody else has the key. Then the lane
//! is paused or its cursor follows, as configured, and whoever lost its nonce is told.

use std::sync::Arc;

use serde_json::json;
use stile_chain::{At, ChainError, Sighting, View};
use stile_domain::{B256, Header, Lane, LaneEventKind, Nonce, Rival, Successor, TxId, TxState};
use stile_store::{LedgerOwner, NewLaneEvent, Realign, Refusal, StoreError};
use tracing::{debug, warn};

use crate::core::Core;
use crate::metrics;
use crate::settings::ChainQuery;
use crate::tx::overtake;
use crate::tx::settings::OutsideUse;
use crate::tx::track::Track;

/// A transaction of one of this node's accounts that is not in the book.
#[derive(Debug, Clone)]
pub(crate) struct Strange {
    pub(crate) lane: Lane,
    pub(crate) seen: Sighting,
    pub(crate) header: Header,
}

/// How many nonces are searched for in one go.
const SEARCHES: usize = 20;

/// Finds out whose the transactions are.
pub(crate) async fn look_at(core: &Arc<Core>, track: &Track, strange: Vec<Strange>) {
    if strange.is_empty() || core.settings.chain_query == ChainQuery::Disabled {
        return;
    }
    let hashes: Vec<B256> = strange.iter().map(|strange| strange.seen.hash).collect();
    let ours = match core.store.txs_of_attempts(&hashes).await {
        Ok(ours) => ours,
        Err(error) => return not_read(&error),
    };
    for (strange, ours) in strange.into_iter().zip(ours) {
        // On record, only not in the book yet: a lane that has just come.
        if ours.is_none()
            && let Err(error) = judge(core, track, &strange).await
        {
            return not_read(&error);
        }
    }
}

/// The comparison of lanes with the chain finds it again later.
fn not_read(error: &StoreError) {
    metrics::store_failed("outside_use");
    warn!(%error, "whose a transaction is could not be read; looked at again later");
}

async fn judge(core: &Arc<Core>, track: &Track, strange: &Strange) -> Result<(), StoreError> {
    let Strange { lane, seen, header } = strange;
    let owner = core.store.nonce_owners(*lane, seen.nonce, 1).await?.into_iter().next();
    match owner.filter(|owner| owner.nonce == seen.nonce).map(|owner| owner.owner) {
        // A caller who sends by itself has done so.
        Some(LedgerOwner::Hold(_)) => Ok(()),
        Some(LedgerOwner::Tx(id, TxState::Allocated | TxState::Submitted)) => {
            let rival = Rival {
                by: Successor::Outsider,
                tx_hash: Some(seen.hash),
                block_number: header.height,
                block_hash: header.hash,
            };
            if overtake::overtaken(core, &mut track.book(), id, rival) {
                used(core, *lane, seen.nonce, Some(seen.hash), Some(id)).await?;
            }
            Ok(())
        }
        // A reorganisation is under way: the follower sorts it out.
        Some(LedgerOwner::Tx(..)) => Ok(()),
        None => {
            let view = core.store.lanes(&[*lane]).await?.pop().flatten();
            // What the database has lost is nobody else's; the lane is being realigned.
            // And where others give the nonces out, they use them.
            let ours = view.filter(|view| view.aligned && view.elsewhere.is_none());
            match ours.and_then(|view| view.next_nonce) {
                Some(cursor) if seen.nonce >= cursor => {
                    used(core, *lane, seen.nonce, Some(seen.hash), None).await
                }
                // From before the lane's first cursor, or passed over since.
                _ => Ok(()),
            }
        }
    }
}

/// Somebody else has used a nonce: the lane is paused, or follows.
pub(crate) async fn used(
    core: &Arc<Core>,
    lane: Lane,
    nonce: Nonce,
    hash: Option<B256>,
    lost: Option<TxId>,
) -> Result<(), StoreError> {
    metrics::mismatch("outside_use");
    let which = hash.map_or_else(String::new, |hash| format!(" ({hash})"));
    let reason = format!(
        "nonce {nonce} was used by a transaction that is not Stile's{which}: somebody else signs with this key"
    );
    warn!(signer = %lane.signer, chain = %lane.chain, nonce, lost = lost.map(|id| id.to_string()), reason,
          "outside use");
    let data = json!({ "nonce": nonce, "txHash": hash, "lostTx": lost });
    let node = &core.holder.node;
    let event = NewLaneEvent { kind: LaneEventKind::OutsideUse, data: data.clone() };
    core.store.tell_lane(node, lane, &event).await?;
    match core.settings.tx.outside_use {
        OutsideUse::Pause => core.store.pause(node, lane, &reason, &data).await.map(|_| ()),
        OutsideUse::Follow => follow(core, lane, nonce + 1).await,
    }
}

/// Moves the cursor past what somebody else has used.
async fn follow(core: &Arc<Core>, lane: Lane, to: Nonce) -> Result<(), StoreError> {
    let slot = core.lanes.slot(lane);
    let mut work = slot.work.lock().await;
    let Some(claim) = slot.claim() else { return Ok(()) };
    let view = core.store.lanes(&[lane]).await?.pop().flatten();
    let Some(from) = view.and_then(|view| view.next_nonce).filter(|from| *from < to) else {
        return Ok(());
    };
    let event = NewLaneEvent {
        kind: LaneEventKind::FollowedChain,
        data: json!({ "from": from, "to": to }),
    };
    let answer =
        core.store.follow_chain(&claim, Realign { from, to }, &event, core.lease()).await?;
    work.forget();
    match answer {
        Ok(()) => {
            warn!(signer = %lane.signer, chain = %lane.chain, from, to, "the cursor follows the chain");
        }
        Err(Refusal::Fenced(owner)) => core.lost(&slot, claim, &owner, "follow"),
        Err(refusal) => debug!(%refusal, signer = %lane.signer, "not followed; looked at again"),
    }
    Ok(())
}

/// Transactions of which no attempt is on chain: if their accounts' counts say that their nonces
/// are used, whoever used them is looked for.
pub(crate) async fn search(core: &Arc<Core>, track: &Track, view: &View, silent: &[TxId]) {
    let wanted: Vec<(TxId, Lane, Nonce)> = {
        let book = track.book();
        let open = silent.iter().filter_map(|id| book.get(*id)).filter(|open| open.is_unmined());
        open.take(SEARCHES).map(|open| (open.id, open.lane, open.nonce)).collect()
    };
    if wanted.is_empty() {
        return;
    }
    let accounts: Vec<_> = wanted.iter().map(|(_, lane, _)| lane.signer).collect();
    let counts = match track.pool.counts(&accounts, At::Latest).await {
        Ok(counts) => counts,
        Err(error) => return debug!(%error, "transaction counts could not be asked for"),
    };
    for ((id, lane, nonce), count) in wanted.into_iter().zip(counts) {
        if nonce >= count {
            continue;
        }
        match find(track, view, lane, nonce).await {
            Ok(Some(rival)) => {
                let news = overtake::overtaken(core, &mut track.book(), id, rival);
                if news && let Err(error) = used(core, lane, nonce, rival.tx_hash, Some(id)).await {
                    not_read(&error);
                }
            }
            Ok(None) => {
                if let Some(open) = track.book().get_mut(id) {
                    open.next_check = std::time::Instant::now();
                }
            }
            Err(error) => debug!(%error, "a nonce's transaction could not be looked for"),
        }
    }
}

/// The transaction that used a nonce, by halving the stretch of blocks in which the account's count
/// passed it. `None` if it is one of ours, or not to be found. Endpoints forget old states: where one
/// has, this fails, and nothing is concluded.
async fn find(
    track: &Track,
    view: &View,
    lane: Lane,
    nonce: Nonce,
) -> Result<Option<Rival>, ChainError> {
    let window = track.window().clone();
    let Some((bottom, tip)) = window.bottom().zip(window.tip().map(|tip| tip.height)) else {
        return Ok(None);
    };
    let passed = |count: &Nonce| *count > nonce;
    let ends = view.counts_at(lane.signer, &[bottom, tip]).await?;
    if !ends.last().is_some_and(passed) {
        // Not passed as far as this endpoint has come.
        return Ok(None);
    }
    let stretch = if ends.first().is_some_and(passed) {
        further_down(view, lane, nonce, bottom).await?
    } else {
        Some((bottom, tip))
    };
    let Some((mut below, mut above)) = stretch else { return Ok(None) };
    while above - below > 1 {
        let middle = below + (above - below) / 2;
        let count = view.counts_at(lane.signer, &[middle]).await?;
        if count.first().is_some_and(passed) { above = middle } else { below = middle }
    }
    let Some(block) = view.block_at(above).await? else { return Ok(None) };
    let used = block.transactions.iter().find(|tx| tx.from == lane.signer && tx.nonce == nonce);
    let ours = |hash: &B256| track.book().by_hash(hash).is_some();
    Ok(used.filter(|tx| !ours(&tx.hash)).map(|tx| Rival {
        by: Successor::Outsider,
        tx_hash: Some(tx.hash),
        block_number: block.header.height,
        block_hash: block.header.hash,
    }))
}

/// Where an account's count passed a nonce, below the headers that are kept: they may be few, of a
/// node that has just begun to follow. That nobody shows a receipt is no evidence that the nonce is
/// somebody else's, so its block is looked for until it is found.
async fn further_down(
    view: &View,
    lane: Lane,
    nonce: Nonce,
    bottom: u64,
) -> Result<Option<(u64, u64)>, ChainError> {
    let (mut above, mut step) = (bottom, 1);
    while above > 0 {
        let below = above.saturating_sub(step);
        let count = view.counts_at(lane.signer, &[below]).await?;
        if count.first().is_none_or(|count| *count <= nonce) {
            return Ok(Some((below, above)));
        }
        (above, step) = (below, step.saturating_mul(2));
    }
    Ok(None)
}
