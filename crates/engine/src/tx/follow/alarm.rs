//! What was final and is not on the chain any more.
//!
//! Whoever follows a chain never takes that back by itself. The lane is paused, with the reason in
//! words, and a person is called, once.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::json;
use stile_chain::ChainError;
use stile_domain::{B256, Lane, LaneEventKind, TxId};
use stile_store::{LaneEvent, NewLaneEvent, StoreError};
use tracing::error;

use crate::core::Core;
use crate::metrics;
use crate::pause;
use crate::tx::track::Track;

/// A transaction that was as final as anything gets, in this block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lost {
    pub(super) lane: Lane,
    pub(super) id: TxId,
    pub(super) height: u64,
    pub(super) block: B256,
}

/// Calls a person about them, once for each lane. A pass that cannot do so is made again.
pub(super) async fn raise(
    core: &Arc<Core>,
    track: &Track,
    lost: Vec<Lost>,
) -> Result<(), ChainError> {
    let mut by_lane: BTreeMap<Lane, Vec<Lost>> = BTreeMap::new();
    {
        let alarmed = alarmed(track);
        // One that was made up for may be lost again, in another block.
        let is_news = |lost: &Lost| alarmed.get(&lost.id) != Some(&(lost.height, lost.block));
        let news = lost.into_iter().filter(is_news);
        news.for_each(|lost| by_lane.entry(lost.lane).or_default().push(lost));
    }
    for (lane, mut lost) in by_lane {
        lost.sort_unstable_by_key(|lost| (lost.height, lost.id));
        let called = call(core, lane, &lost).await.map_err(|error| {
            metrics::store_failed("pause");
            let why = format!("a lane could not be paused: {error}");
            ChainError::Unreachable { chain: track.pool.chain(), said: vec![why] }
        })?;
        match called {
            Called::Yes => {
                let mut alarmed = alarmed(track);
                lost.iter().for_each(|it| remember(&mut alarmed, it.id, (it.height, it.block)));
            }
            Called::NotYet => track.adopted().push(lane),
            Called::NotOurs => {}
        }
    }
    Ok(())
}

fn alarmed(track: &Track) -> std::sync::MutexGuard<'_, HashMap<TxId, (u64, B256)>> {
    track.alarmed.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// How many are remembered. The history of a paused lane says of the others that they were told.
const REMEMBERED: usize = 10_000;

/// Remembers that a person was called. The lowest are forgotten first: they are the first that nobody
/// looks at any more.
fn remember(alarmed: &mut HashMap<TxId, (u64, B256)>, id: TxId, block: (u64, B256)) {
    alarmed.insert(id, block);
    if alarmed.len() > REMEMBERED {
        let mut heights: Vec<u64> = alarmed.values().map(|(height, _)| *height).collect();
        let (_, middle, _) = heights.select_nth_unstable(REMEMBERED / 2);
        let middle = *middle;
        alarmed.retain(|known, (height, _)| *height > middle || *known == id);
    }
}

/// Whether a person was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Called {
    /// The lane is paused, and its history says what was lost.
    Yes,
    /// The lane changed hands or its token meanwhile: it is looked at again.
    NotYet,
    /// This node does not hold the lane. Whoever takes it over looks at it.
    NotOurs,
}

/// Pauses the lane, if it is this node's by the store's word. One that is paused for another reason
/// keeps it, and its history says what was lost all the same.
async fn call(core: &Arc<Core>, lane: Lane, lost: &[Lost]) -> Result<Called, StoreError> {
    let Some(Lost { id, height, block, .. }) = lost.first().copied() else {
        return Ok(Called::Yes);
    };
    let Some(claim) = core.lanes.slot(lane).claim() else { return Ok(Called::NotOurs) };
    let Some(view) = core.store.lanes(&[lane]).await?.pop().flatten() else {
        return Ok(Called::NotOurs);
    };
    if !core.is_ours(&view.owner) || view.owner.token != claim.token() {
        return Ok(Called::NotYet);
    }
    if view.paused.is_some() && is_told(core, lane, id, block).await? {
        return Ok(Called::Yes);
    }
    lost.iter().for_each(|_| metrics::finality_contradicted());
    let reason = words(lost.len(), id, height, block);
    error!(signer = %lane.signer, chain = %lane.chain, txId = %id, height, %block, count = lost.len(), reason,
           "final and gone");
    let data = json!({
        "txId": id, "blockNumber": height, "blockHash": block, "transactions": lost.len(),
    });
    let event = NewLaneEvent { kind: LaneEventKind::ChainReset, data };
    match pause::is_paused_as_holder(core, lane, &event, &reason).await? {
        true => Ok(Called::Yes),
        false => Ok(Called::NotYet),
    }
}

/// Why the lane is paused.
fn words(count: usize, lowest: TxId, height: u64, block: B256) -> String {
    match count {
        1 => format!(
            "transaction {lowest} was final in block {height} ({block}), which is not on the chain any more: \
             what was final is never taken back without a person"
        ),
        _ => format!(
            "{count} transactions, the first of them {lowest} in block {height} ({block}), are not on the chain any \
             more, which was reset or has lost more than reorganisations are followed through: nothing of that is \
             sent again without a person"
        ),
    }
}

/// How many entries of a lane's history are read, to see whether a person was called before.
const HISTORY: u32 = 100;

/// Whether the lane's history says already that this one was lost from this block: another process may
/// have seen it.
async fn is_told(core: &Core, lane: Lane, id: TxId, block: B256) -> Result<bool, StoreError> {
    let told = core.store.lane_history(lane, None, HISTORY).await?;
    let of_this = |event: &LaneEvent| {
        event.kind == LaneEventKind::ChainReset
            && event.data["txId"] == json!(id)
            && event.data["blockHash"] == json!(block)
    };
    Ok(told.iter().any(of_this))
}

#[cfg(test)]
mod tests {
    use stile_domain::TxId;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn hole_24_what_a_person_was_called_about_is_not_remembered_without_end() {
        let id = |n: usize| TxId(Uuid::from_u128(n as u128));
        let mut alarmed = HashMap::new();
        for n in 0..3 * REMEMBERED {
            remember(&mut alarmed, id(n), (n as u64, B256::ZERO));
            assert!(alarmed.len() <= REMEMBERED && alarmed.contains_key(&id(n)), "{n}");
        }
        // All at one height.
        let mut alarmed = HashMap::new();
        for n in 0..3 * REMEMBERED {
            remember(&mut alarmed, id(n), (7, B256::ZERO));
            assert!(alarmed.len() <= REMEMBERED && alarmed.contains_key(&id(n)), "{n}");
        }
    }
}
