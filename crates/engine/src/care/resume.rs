//! Ending a pause.

use std::sync::Arc;

use serde_json::json;
use stile_domain::{Drift, Lane, Nonce, Step, TxState};
use stile_store::{
    LaneChanges, LedgerOwner, NewEvent, OpenTx, Realign, Recorded, Resumed, Set, StoreError,
    TxChange,
};
use tracing::{info, warn};

use super::CareError;
use crate::core::Core;
use crate::reconcile::{self, Comparison};
use crate::tx;

/// Nonces looked at when a chain has lost transactions.
const LOST_LIMIT: u32 = 10_000;

/// What ending a pause takes.
#[derive(Debug, Clone)]
pub struct Resumption {
    /// What is done, in words, in order.
    pub plan: Vec<String>,
    /// Whether it was done.
    pub resumed: bool,
}

/// What stands between a lane and its chain.
enum Way {
    /// Nothing.
    Straight,
    /// The cursor moves.
    Jump(Realign),
    /// Finished transactions that the chain has lost are sent again.
    Again(Vec<OpenTx>),
}

pub(super) async fn resume(
    core: &Arc<Core>,
    lane: Lane,
    dry_run: bool,
) -> Result<Resumption, CareError> {
    let view = core.store.lanes(&[lane]).await?.pop().flatten().ok_or(CareError::NotStarted)?;
    let mut plan = Vec::new();
    let way = match core.tracks.get(lane.chain) {
        // Nobody to compare it with.
        None => Way::Straight,
        Some(track) => match reconcile::compare(core, track, &[lane]).await.and_then(first) {
            Some(comparison) => way(core, &comparison, &mut plan).await?,
            None => {
                plan.push("the chain does not answer: the cursor stays where it is".to_owned());
                Way::Straight
            }
        },
    };
    let cursor = match &way {
        Way::Jump(realign) => Some(realign.to),
        _ => view.next_nonce,
    };
    if let Some(cursor) = cursor {
        plan.push(format!("give out nonces again, from {cursor} on"));
    }
    if dry_run {
        return Ok(Resumption { plan, resumed: false });
    }
    if let Way::Again(lost) = &way
        && !send_again(core, lane, lost).await?
    {
        let owner = view.owner.url.unwrap_or_else(|| view.owner.node.0.clone());
        plan.push(format!("not done: only the signer's holder can do that; ask {owner}"));
        return Ok(Resumption { plan, resumed: false });
    }
    let realign = match way {
        Way::Jump(realign) => Some(realign),
        _ => None,
    };
    let data = json!({ "plan": plan });
    let resumed = match core.store.resume(&core.holder.node, lane, realign, &data).await? {
        Resumed::Done => true,
        Resumed::Moved => {
            plan.push("not done: the signer has moved meanwhile; look again".to_owned());
            false
        }
        Resumed::NotFound => return Err(CareError::NotStarted),
    };
    if resumed {
        info!(signer = %lane.signer, chain = %lane.chain, ?plan, "lane resumed");
        let slot = core.lanes.slot(lane);
        slot.work.lock().await.forget();
        tx::wake(core, &slot);
    }
    Ok(Resumption { plan, resumed })
}

fn first(mut compared: Vec<Comparison>) -> Option<Comparison> {
    compared.pop()
}

/// What is to be done before nonces are given out again.
async fn way(
    core: &Core,
    comparison: &Comparison,
    plan: &mut Vec<String>,
) -> Result<Way, StoreError> {
    let (latest, cursor) = (comparison.latest, comparison.view.next_nonce.unwrap_or_default());
    match comparison.drift {
        Drift::OutsideUse => {
            plan.push(format!(
                "move the cursor from {cursor} to {latest}: the nonces below were used by somebody else"
            ));
            Ok(Way::Jump(Realign { from: cursor, to: latest }))
        }
        Drift::ChainReset => {
            let (lost, holds) = lost(core, comparison.view.lane, latest).await?;
            plan.push(format!(
                "send the stored bytes of {} transactions once more, from nonce {latest} on: the chain has lost them",
                lost.len()
            ));
            if holds > 0 {
                plan.push(format!(
                    "{holds} nonces from {latest} on are with callers who send by themselves: they must send again"
                ));
            }
            Ok(Way::Again(lost))
        }
        Drift::InStep | Drift::Gap | Drift::HeldUp(_) => Ok(Way::Straight),
    }
}

/// What is on record as done at nonces that the chain has not seen, and how many nonces from there
/// on are in callers' hands.
async fn lost(core: &Core, lane: Lane, from: Nonce) -> Result<(Vec<OpenTx>, usize), StoreError> {
    let owners = core.store.nonce_owners(lane, from, LOST_LIMIT).await?;
    let ids: Vec<_> = owners
        .iter()
        .filter_map(|owner| match owner.owner {
            LedgerOwner::Tx(id, TxState::Confirmed | TxState::Failed) => Some(id),
            _ => None,
        })
        .collect();
    let holds = owners.iter().filter(|o| matches!(o.owner, LedgerOwner::Hold(_))).count();
    Ok((core.store.with_attempts(&ids).await?, holds))
}

/// Opens finished transactions again. `false` if this node does not hold the lane.
async fn send_again(core: &Arc<Core>, lane: Lane, lost: &[OpenTx]) -> Result<bool, StoreError> {
    core.acquire(&[lane]).await?;
    let Some(claim) = core.lanes.slot(lane).claim() else { return Ok(false) };
    let changes = lost.iter().filter_map(|open| {
        let tx = &open.tx;
        let standing = tx.standing.after(Step::Unmined).ok()?;
        let mut change = TxChange::new(tx.id, tx.events, standing);
        let data =
            json!({ "newFork": true, "confirmations": [], "reason": "the chain has lost it" });
        change.event = Some(NewEvent { kind: tx.standing.kind_of(Step::Unmined), data });
        change.receipt = Set::Clear;
        change.told = Set::Clear;
        change.rival = Set::Clear;
        change.error = Set::Clear;
        Some(change)
    });
    let part = LaneChanges { claim, changes: changes.collect() };
    let parts = std::slice::from_ref(&part);
    let mut answers = core.store.record(&core.holder.node, parts, core.lease()).await?;
    core.events.send_modify(|count| *count += 1);
    match answers.pop() {
        Some(Ok(recorded)) => {
            let missed = recorded.iter().filter(|one| **one == Recorded::Lost).count();
            if missed > 0 {
                warn!(signer = %lane.signer, missed, "some had moved meanwhile");
            }
            tx::adopt(core, vec![lane]);
            Ok(true)
        }
        _ => Ok(false),
    }
}
