//! Pauses that nobody asked for, and those that a person did.
//!
//! A node that finds something wrong with a lane pauses it, and only while the lane is its own: behind
//! the fence, like all that a holder writes. A node that slept and wakes up knows nothing of what its
//! successor has signed, nor of what a person has looked at and resumed since. A person's pause needs no
//! lease, and only a person ends it.

use std::sync::Arc;

use serde_json::json;
use stile_domain::{Lane, LaneEventKind};
use stile_store::{LaneEvent, NewLaneEvent, Refusal, StoreError};
use tracing::{debug, info};

use crate::core::Core;

/// A pause or a resumption raises the token under its holder, which then only has to claim it anew.
const TRIES: usize = 2;

/// Entries of a lane's history read in one go.
const ENTRIES: u32 = 100;

/// A person pauses a lane. `false`: nobody ever took it.
pub(crate) async fn by_person(
    core: &Arc<Core>,
    lane: Lane,
    reason: &str,
) -> Result<bool, StoreError> {
    let node = &core.holder.node;
    let known = core.store.pause(node, lane, reason, &json!({ "by": "person" })).await?;
    if known && !is_by_person(core, lane).await? {
        // Stile had paused it before, for a reason of its own: now it takes a person to resume it.
        let data = json!({ "by": "person", "reason": reason });
        core.store
            .tell_lane(node, lane, &NewLaneEvent { kind: LaneEventKind::Paused, data })
            .await?;
    }
    Ok(known)
}

/// Whether a lane's last pause is a person's. What a node pauses is written under its token.
pub(crate) async fn is_by_person(core: &Core, lane: Lane) -> Result<bool, StoreError> {
    let last = last_pause(core, lane).await?;
    Ok(last.is_some_and(|pause| pause.fencing_token.is_none()))
}

/// What a lane's history says of its last pause, unless that has ended.
pub(crate) async fn last_pause(core: &Core, lane: Lane) -> Result<Option<LaneEvent>, StoreError> {
    let mut before = None;
    loop {
        let entries = core.store.lane_history(lane, before, ENTRIES).await?;
        let last = entries.last().map(|entry| entry.position);
        let is_full = entries.len() == ENTRIES as usize;
        for entry in entries {
            match entry.kind {
                LaneEventKind::Paused => return Ok(Some(entry)),
                LaneEventKind::Resumed => return Ok(None),
                _ => {}
            }
        }
        if !is_full {
            return Ok(None);
        }
        before = last;
    }
}

/// Pauses a lane, with what was found, if this node holds it.
pub(crate) async fn as_holder(
    core: &Arc<Core>,
    lane: Lane,
    found: &NewLaneEvent,
    reason: &str,
) -> Result<(), StoreError> {
    is_paused_as_holder(core, lane, found, reason).await.map(|_| ())
}

/// The same. Answers whether the lane is paused now, by this or for another reason, and what was
/// found is in its history.
pub(crate) async fn is_paused_as_holder(
    core: &Arc<Core>,
    lane: Lane,
    found: &NewLaneEvent,
    reason: &str,
) -> Result<bool, StoreError> {
    let slot = core.lanes.slot(lane);
    for _ in 0..TRIES {
        let Some(claim) = slot.claim() else { break };
        match core.store.pause_as_holder(&claim, found, reason, core.lease()).await? {
            Ok(()) => {
                info!(signer = %lane.signer, chain = %lane.chain, reason, "lane paused");
                return Ok(true);
            }
            Err(Refusal::Fenced(owner)) => {
                core.lost(&slot, claim, &owner, "pause");
                if !core.is_ours(&owner) {
                    return Ok(false);
                }
                core.acquire(&[lane]).await?;
            }
            Err(refusal) => {
                debug!(%refusal, signer = %lane.signer, "not paused; looked at again");
                return Ok(false);
            }
        }
    }
    debug!(signer = %lane.signer, chain = %lane.chain, "not paused: its holder sees to it");
    Ok(false)
}
