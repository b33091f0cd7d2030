//! What a transaction waits for: where the facts come from. The rule is [`waiting_for`].
//!
//! Nothing is asked of the chain for it. What this node has in memory is enough for lanes that it
//! holds, but for what has no nonce; of other lanes the store's rows are read, once for a page.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use stile_domain::{
    Behind, ChainState, Finality, Lane, LaneHolder, LaneState, TxState, Wait, WaitFacts,
    waiting_for,
};
use stile_store::{LaneView, StoreError, Tx};

use crate::core::Core;
use crate::tx::track::Track;

/// What each of these waits for, in the same order; `None` for those that are done. One read of the
/// store at most.
pub(crate) async fn waits(core: &Core, txs: &[Tx]) -> Result<Vec<Option<Wait>>, StoreError> {
    let asked: HashSet<Lane> =
        txs.iter().filter(|tx| needs_row(core, tx)).map(|tx| tx.lane).collect();
    let asked: Vec<Lane> = asked.into_iter().collect();
    let rows: HashMap<Lane, LaneView> = match asked.is_empty() {
        true => HashMap::new(),
        false => {
            let rows = core.store.lanes(&asked).await?;
            rows.into_iter().flatten().map(|row| (row.lane, row)).collect()
        }
    };
    Ok(txs.iter().map(|tx| wait(core, tx, rows.get(&tx.lane))).collect())
}

/// Whether what this node has in memory is not enough.
fn needs_row(core: &Core, tx: &Tx) -> bool {
    let is_open = !tx.standing.is_done();
    is_open && (tx.standing.state == TxState::Created || !core.lanes.holds(tx.lane))
}

/// What one waits for, as far as memory tells, and the row of its lane if there is one.
pub(crate) fn wait(core: &Core, tx: &Tx, row: Option<&LaneView>) -> Option<Wait> {
    if tx.standing.is_done() {
        return None;
    }
    let lane = tx.lane;
    let track = core.tracks.get(lane.chain);
    let here = Here::of(core, lane, track.map(|track| &**track));
    let chain = track.map(|track| chain_state(track, here.waiting));
    let holder = match row {
        _ if core.lanes.holds(lane) => LaneHolder::ThisNode,
        None => LaneHolder::Unknown,
        Some(row) if row.owner.remaining.is_zero() => LaneHolder::Nobody(&row.owner.node.0),
        Some(row) if core.is_ours(&row.owner) => LaneHolder::ThisNode,
        Some(row) => LaneHolder::Other(&row.owner.node.0),
    };
    let in_flight = here.in_flight.or(row.map(|row| row.in_flight));
    let unaligned = row.filter(|row| !row.aligned).map(|_| UNALIGNED);
    let state = LaneState {
        holder,
        paused: row.and_then(|row| row.paused.as_deref()),
        elsewhere: row.and_then(|row| row.elsewhere).map(|elsewhere| elsewhere.words()),
        uncompared: here.uncompared.as_deref().or(unaligned),
        is_restored: match row {
            Some(row) => row.restored.is_some_and(|mark| mark.is_open()),
            None => here.is_restored,
        },
        in_flight: in_flight.map(|count| (count, core.settings.tx.max_in_flight as u64)),
        is_unfunded: here.is_unfunded,
        signer_trouble: here.signer_trouble.as_deref(),
    };
    waiting_for(&WaitFacts {
        standing: tx.standing,
        nonce: tx.nonce,
        finality: tx.finality,
        block: tx.receipt.as_ref().map(|receipt| receipt.block_number),
        rival: tx.rival.map(|rival| rival.block_number),
        error: tx.error.as_deref(),
        lane: state,
        chain: chain.as_ref(),
        lowest: here.lowest,
        shown_in: track.and_then(|track| track.book().get(tx.id)?.shown_in),
    })
}

const UNALIGNED: &str = "the database failed over or was restored";

/// What this node knows of a lane by itself.
#[derive(Default)]
struct Here {
    /// The lowest in no block.
    lowest: Option<Behind>,
    /// Since when that one is with the chain's nodes.
    waiting: Option<Instant>,
    in_flight: Option<u64>,
    is_restored: bool,
    is_unfunded: bool,
    uncompared: Option<String>,
    signer_trouble: Option<String>,
}

impl Here {
    fn of(core: &Core, lane: Lane, track: Option<&Track>) -> Self {
        let Some(track) = track.filter(|_| core.lanes.holds(lane)) else { return Self::default() };
        let slot = core.lanes.slot(lane);
        let signer_trouble = match core.signers.signs(lane) {
            true => core.signing.trouble(lane),
            false => Some("this node has no key for it".to_owned()),
        };
        let book = track.book();
        let lowest = book.unmined_of(lane).next();
        let in_flight = book.in_flight(lane);
        Self {
            lowest: lowest.map(|open| Behind { nonce: open.nonce, id: open.id }),
            waiting: lowest.and_then(|open| open.sent),
            // While the lane is being read nobody knows.
            in_flight: u64::try_from(in_flight).ok().filter(|_| in_flight != usize::MAX),
            is_restored: slot.is_restored(),
            is_unfunded: track.is_unfunded(lane),
            uncompared: slot.uncompared(),
            signer_trouble,
        }
    }
}

/// What is known of a chain. `waiting` is since when something has been with its nodes.
pub(crate) fn chain_state(track: &Track, waiting: Option<Instant>) -> ChainState {
    let standstill = track.pace.standstill(waiting);
    ChainState {
        chain: track.pool.chain().get(),
        heads: track.heads(),
        lacks_safe: track.lacks(Finality::Safe),
        lacks_finalized: track.lacks(Finality::Finalized),
        unreachable: track.pool.why_away(),
        unfollowed: track.unfollowed(),
        unquoted: track.unquoted(),
        withheld: track.withheld().map(|withheld| withheld.words),
        is_on_demand: track.pace.is_on_demand(),
        standstill: standstill.map(|it| (it.silent, it.usual)),
    }
}
