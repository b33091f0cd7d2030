//! Gaps that nobody else will close.
//!
//! A nonce that was given back below others that are on the wire holds all of those up. The next
//! managed transaction takes it. Where none comes within a few seconds, an empty transaction is
//! made for it: accepted like any other, under a name of its own, so that it is made once whatever
//! crashes, and bound to the lowest nonce that was given back.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use stile_domain::{Lane, LaneEventKind, Payload, Released, TxId, request_hash};
use stile_store::{Acceptance, NewLaneEvent, NewTx, StoreError};
use tracing::{info, warn};
use uuid::Uuid;

use crate::core::Core;
use crate::lanes::Slot;
use crate::metrics;
use crate::tx;

/// Whose the transactions are that close gaps.
pub const FILLER_TENANT: &str = "stile:filler";

/// How long a gap is left for a transaction that does something.
const PATIENCE: Duration = Duration::from_secs(3);

/// Since when gaps are known.
#[derive(Debug, Default)]
pub(crate) struct Gaps {
    since: HashMap<(Lane, Released), Instant>,
}

impl Gaps {
    /// Those that have been open for long enough.
    fn ripe(&mut self, lane: Lane, open: &[Released]) -> Vec<Released> {
        self.since.retain(|(of, gap), _| *of != lane || open.contains(gap));
        let now = Instant::now();
        let old = |gap: &&Released| {
            let since = self.since.entry((lane, **gap)).or_insert(now);
            now.duration_since(*since) >= PATIENCE
        };
        open.iter().filter(old).copied().collect()
    }
}

/// Looks for gaps on a lane, and has those filled that nobody took.
pub(crate) async fn look(core: &Arc<Core>, slot: &Arc<Slot>, gaps: &mut Gaps) {
    let lane = slot.lane();
    if !core.signers.contains_key(&lane.signer)
        || core.tracks.get(lane.chain).is_none()
        || core.rollout.elsewhere(lane).is_some()
    {
        return;
    }
    let Some(claim) = slot.claim() else { return };
    let open: Vec<Released> = {
        let mut work = slot.work.lock().await;
        work.planner(&claim).map(|planner| planner.kept().collect()).unwrap_or_default()
    };
    let ripe = gaps.ripe(lane, &open);
    if ripe.is_empty() || slot.has_waiting() {
        return;
    }
    if let Err(error) = fill(core, slot, &ripe).await {
        metrics::store_failed("fill");
        warn!(%error, signer = %lane.signer, "gaps could not be filled; tried again");
    }
}

/// Makes an empty transaction for each gap.
pub(crate) async fn fill(
    core: &Arc<Core>,
    slot: &Arc<Slot>,
    gaps: &[Released],
) -> Result<usize, StoreError> {
    let lane = slot.lane();
    let fillers: Vec<NewTx> = gaps.iter().map(|gap| filler(core, lane, *gap)).collect();
    let answers = core.store.accept(&core.holder.node, &fillers).await?;
    let made = answers.iter().zip(gaps).filter_map(|(answer, gap)| match answer {
        Acceptance::New(tx) => Some((tx.id, gap)),
        Acceptance::Existing(_) => None,
    });
    let made: Vec<_> = made.collect();
    for (id, gap) in &made {
        metrics::gap_filled();
        info!(signer = %lane.signer, chain = %lane.chain, nonce = gap.nonce, txId = %id,
              "a gap is filled with an empty transaction");
        let data = json!({ "nonce": gap.nonce, "txId": id });
        let event = NewLaneEvent { kind: LaneEventKind::GapFilled, data };
        core.store.tell_lane(&core.holder.node, lane, &event).await?;
    }
    core.events.send_modify(|count| *count += 1);
    slot.set_waiting(true);
    tx::wake(core, slot);
    Ok(made.len())
}

fn filler(core: &Core, lane: Lane, gap: Released) -> NewTx {
    let payload = Payload { to: Some(lane.signer), ..Payload::default() };
    NewTx {
        id: TxId(Uuid::now_v7()),
        tenant: FILLER_TENANT.to_owned(),
        lane,
        request_id: Some(format!("gap-{}-{}", gap.nonce, gap.hold.0)),
        request_hash: request_hash(&payload, None),
        payload,
        finality: core.settings.tx.finality,
        gas_limit: None,
        replaces: None,
    }
}

#[cfg(test)]
mod tests {
    use stile_domain::{Address, ChainId, HoldId};

    use super::*;

    #[test]
    fn a_gap_is_left_alone_at_first() {
        let lane = Lane::new(ChainId::new(1).unwrap(), Address::ZERO);
        let gap = Released { nonce: 4, hold: HoldId::fresh() };
        let mut gaps = Gaps::default();
        assert!(gaps.ripe(lane, &[gap]).is_empty());
        let since = gaps.since.get_mut(&(lane, gap)).unwrap();
        *since = since.checked_sub(PATIENCE).unwrap();
        assert_eq!(gaps.ripe(lane, &[gap]), [gap]);
        assert!(gaps.ripe(lane, &[]).is_empty());
        assert!(gaps.ripe(lane, &[gap]).is_empty(), "it was closed in between");
    }
}
