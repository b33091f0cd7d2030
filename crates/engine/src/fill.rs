//! Gaps that nobody else will close.
//!
//! A nonce that was given back below others that are on the wire holds all of those up. The next
//! managed transaction takes it. Where none comes within a few seconds, an empty transaction is
//! made for it: accepted like any other, under a name of its own, so that it is made once whatever
//! crashes, and bound to the lowest nonce that was given back. If it ends without closing the gap
//! (it was refused, or took another nonce), the next one is made under the next name, after a pause
//! that grows.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use stile_domain::{Lane, LaneEventKind, Nonce, Payload, Released, TxId, TxState, request_hash};
use stile_store::{Acceptance, NewLaneEvent, NewTx, StoreError, Tx};
use tracing::{info, warn};
use uuid::Uuid;

use crate::core::Core;
use crate::lanes::Slot;
use crate::metrics;
use crate::restored;
use crate::tx;

/// Whose the transactions are that close gaps.
pub const FILLER_TENANT: &str = "stile:filler";

/// How long a gap is left for a transaction that does something.
const PATIENCE: Duration = Duration::from_secs(3);

/// The longest pause before a gap is tried again.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Names looked up at one time.
const NAMES: u32 = 16;

/// The gaps that are known.
#[derive(Debug, Default)]
pub(crate) struct Gaps {
    open: HashMap<(Lane, Released), Gap>,
}

/// A gap.
#[derive(Debug, Clone, Copy)]
struct Gap {
    /// When it is filled, or tried again.
    due: Instant,
    /// How many transactions were made for it by this node.
    made: u32,
}

impl Gaps {
    /// Those that have been open for long enough.
    fn ripe(&mut self, lane: Lane, open: &[Released]) -> Vec<Released> {
        self.open.retain(|(of, gap), _| *of != lane || open.contains(gap));
        let now = Instant::now();
        let old = |gap: &&Released| {
            let new = Gap { due: now + PATIENCE, made: 0 };
            self.open.entry((lane, **gap)).or_insert(new).due <= now
        };
        open.iter().filter(old).copied().collect()
    }

    /// A transaction was made for a gap: the next one not before it had the time to be bound.
    fn filled(&mut self, lane: Lane, gap: Released) {
        if let Some(gap) = self.open.get_mut(&(lane, gap)) {
            let pause = PATIENCE.saturating_mul(1u32.checked_shl(gap.made).unwrap_or(u32::MAX));
            gap.due = Instant::now() + pause.min(LONGEST_PAUSE);
            gap.made = gap.made.saturating_add(1);
        }
    }
}

/// What filling a lane's gaps came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Filled {
    /// Transactions that were made, each for a nonce.
    pub(crate) made: Vec<(Nonce, TxId)>,
    /// Transactions that were made before and wait for a nonce still, each for a nonce, with what is
    /// wrong with it.
    pub(crate) waiting: Vec<(Nonce, TxId, Option<String>)>,
    /// Nonces that turn out to be taken.
    pub(crate) closed: Vec<Nonce>,
}

impl Filled {
    /// What was done, in words.
    pub(crate) fn words(&self) -> String {
        let made = self
            .made
            .iter()
            .map(|(nonce, id)| format!("an empty transaction for nonce {nonce} is accepted: {id}"));
        let waiting = self.waiting.iter().map(|(nonce, id, error)| {
            let why = error.as_ref().map(|error| format!(" ({error})")).unwrap_or_default();
            format!("the one for nonce {nonce} was made before and waits still: {id}{why}")
        });
        let closed = self.closed.iter().map(|nonce| format!("nonce {nonce} is taken already"));
        made.chain(waiting).chain(closed).collect::<Vec<_>>().join("; ")
    }
}

/// What a transaction that was made for a gap means for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It waits to be bound.
    Waits,
    /// It has the gap's nonce.
    Closes,
    /// It is over, or has another nonce: the next one is to be made.
    Over,
}

fn fate(gap: Nonce, state: TxState, nonce: Option<Nonce>) -> Fate {
    match (state, nonce) {
        (TxState::Created, _) => Fate::Waits,
        (_, Some(nonce)) if nonce == gap => Fate::Closes,
        _ => Fate::Over,
    }
}

/// Looks for gaps on a lane, and has those filled that nobody took.
pub(crate) async fn look(core: &Arc<Core>, slot: &Arc<Slot>, gaps: &mut Gaps) {
    let lane = slot.lane();
    if !core.signers.signs(lane)
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
    match fill(core, slot, &ripe).await {
        Ok(filled) => {
            let made = |gap: &&Released| filled.made.iter().any(|(nonce, _)| *nonce == gap.nonce);
            ripe.iter().filter(made).for_each(|gap| gaps.filled(lane, *gap));
        }
        Err(error) => {
            metrics::store_failed("fill");
            warn!(%error, signer = %lane.signer, "gaps could not be filled; tried again");
        }
    }
}

/// Makes an empty transaction for each gap that has none on its way.
pub(crate) async fn fill(
    core: &Arc<Core>,
    slot: &Arc<Slot>,
    gaps: &[Released],
) -> Result<Filled, StoreError> {
    let lane = slot.lane();
    let mut filled = Filled::default();
    // What a lost history has in pools can be told of the lowest alone.
    let lowest = gaps.iter().min_by_key(|gap| gap.nonce);
    let gaps = match (restored::is_marked(core, lane).await?, lowest) {
        (true, Some(gap)) if is_free(core, lane, gap.nonce).await? => std::slice::from_ref(gap),
        (true, _) => &[],
        (false, _) => gaps,
    };
    let (mut wanted, mut fillers) = (Vec::new(), Vec::new());
    for gap in gaps {
        match last_made(core, lane, *gap).await? {
            (_, Some(tx)) if fate_of(&tx, *gap) == Fate::Waits => {
                filled.waiting.push((gap.nonce, tx.id, tx.error));
            }
            (_, Some(tx)) if fate_of(&tx, *gap) == Fate::Closes => filled.closed.push(gap.nonce),
            (next, _) => {
                wanted.push(gap);
                fillers.push(filler(core, lane, *gap, next));
            }
        }
    }
    let answers = core.store.accept(&core.holder.node, &fillers).await?;
    for (answer, gap) in answers.into_iter().zip(wanted) {
        match answer {
            Acceptance::New(tx) => filled.made.push((gap.nonce, tx.id)),
            // Somebody else has just made it.
            Acceptance::Existing(tx) => filled.waiting.push((gap.nonce, tx.id, tx.error)),
            // The lane is not Stile's any more, and so are its gaps.
            Acceptance::Elsewhere(_) => {}
        }
    }
    for (nonce, id) in &filled.made {
        metrics::gap_filled();
        info!(signer = %lane.signer, chain = %lane.chain, nonce, txId = %id,
              "a gap is filled with an empty transaction");
        let data = json!({ "nonce": nonce, "txId": id });
        let event = NewLaneEvent { kind: LaneEventKind::GapFilled, data };
        core.store.tell_lane(&core.holder.node, lane, &event).await?;
    }
    if !filled.made.is_empty() || !filled.waiting.is_empty() {
        core.events.send_modify(|count| *count += 1);
        slot.set_waiting(true);
        tx::wake(core, slot);
    }
    Ok(filled)
}

/// Whether an empty transaction takes nothing from a history that the database has lost: all that the
/// chain has used is read, and no endpoint has anything at the nonce.
pub(crate) async fn is_free(core: &Core, lane: Lane, gap: Nonce) -> Result<bool, StoreError> {
    if !core.store.unread_nonces(lane, gap, 1).await?.is_empty() {
        return Ok(false);
    }
    let Some(track) = core.tracks.get(lane.chain) else { return Ok(false) };
    let said = track.pool.report(lane.signer, None).await;
    let said: Vec<_> = said.iter().map(|said| (said.latest, said.pending)).collect();
    Ok(nobody_has(gap, &said))
}

/// The rule: some endpoint answers, and all that do wait for this very nonce, in their blocks and in their
/// pools. What is in a pool above a nonce that is missing cannot be told.
fn nobody_has(gap: Nonce, said: &[(Option<Nonce>, Option<Nonce>)]) -> bool {
    let counts = said.iter().filter_map(|(latest, pending)| Some((latest.as_ref()?, pending)));
    let mut counts = counts.peekable();
    counts.peek().is_some()
        && counts.all(|(latest, pending)| {
            *latest == gap && pending.is_some_and(|pending| pending <= gap)
        })
}

fn fate_of(tx: &Tx, gap: Released) -> Fate {
    fate(gap.nonce, tx.standing.state, tx.nonce)
}

/// The transaction that was made last for a gap, and the number of the next one.
async fn last_made(
    core: &Core,
    lane: Lane,
    gap: Released,
) -> Result<(u32, Option<Tx>), StoreError> {
    let (mut next, mut last) = (0, None);
    loop {
        let names: Vec<String> = (next..next + NAMES).map(|number| name(gap, number)).collect();
        for found in core.store.txs_by_request(FILLER_TENANT, lane, &names).await? {
            match found {
                Some(tx) => (next, last) = (next + 1, Some(tx)),
                None => return Ok((next, last)),
            }
        }
    }
}

/// What the transactions made for a gap are called, so that each is made once.
fn name(gap: Released, number: u32) -> String {
    match number {
        0 => format!("gap-{}-{}", gap.nonce, gap.hold.0),
        again => format!("gap-{}-{}-{again}", gap.nonce, gap.hold.0),
    }
}

fn filler(core: &Core, lane: Lane, gap: Released, number: u32) -> NewTx {
    let payload = Payload { to: Some(lane.signer), ..Payload::default() };
    NewTx {
        id: TxId(Uuid::now_v7()),
        tenant: FILLER_TENANT.to_owned(),
        lane,
        request_id: Some(name(gap, number)),
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
        let ripen = |gaps: &mut Gaps| {
            let known = gaps.open.get_mut(&(lane, gap)).unwrap();
            let left = known.due.duration_since(Instant::now());
            known.due = Instant::now();
            left
        };
        assert!(ripen(&mut gaps) <= PATIENCE);
        assert_eq!(gaps.ripe(lane, &[gap]), [gap]);
        // Each that is made for it in vain has more time than the last one.
        for pause in [3, 6, 12, 24, 48, 60, 60].map(Duration::from_secs) {
            gaps.filled(lane, gap);
            assert!(gaps.ripe(lane, &[gap]).is_empty());
            let left = ripen(&mut gaps);
            assert!(left <= pause && left > pause / 2, "{left:?} of {pause:?}");
        }
        assert!(gaps.ripe(lane, &[]).is_empty());
        assert!(gaps.ripe(lane, &[gap]).is_empty(), "it was closed in between");
    }

    #[test]
    fn hole_20_a_gap_of_a_restored_lane_is_filled_if_nobody_has_its_nonce() {
        let waits = (Some(7), Some(7));
        let table: [(&str, &[_], bool); 7] = [
            ("all wait for it", &[waits, waits, waits], true),
            ("one is away", &[waits, (None, None)], true),
            ("nobody answers", &[(None, None)], false),
            ("it is in a pool", &[waits, (Some(7), Some(8))], false),
            ("a pool is not shown", &[(Some(7), None)], false),
            ("it is used", &[waits, (Some(8), Some(8))], false),
            ("one below it is waited for", &[(Some(6), Some(6))], false),
        ];
        for (case, said, expected) in table {
            assert_eq!(nobody_has(7, said), expected, "{case}");
        }
    }

    #[test]
    fn hole_28_what_a_filler_means_for_its_gap() {
        use TxState::{Allocated, Confirmed, Created, Failed, Submitted, Tracking};
        for (state, nonce, expected) in [
            (Created, None, Fate::Waits),
            (Allocated, Some(4), Fate::Closes),
            (Submitted, Some(4), Fate::Closes),
            (Tracking, Some(4), Fate::Closes),
            (Confirmed, Some(4), Fate::Closes),
            (Failed, Some(4), Fate::Closes),
            // Refused before a nonce: the chain was away, or a user's transaction was to take the gap.
            (Failed, None, Fate::Over),
            // It took a lower gap, and whoever was to take this one did not.
            (Submitted, Some(3), Fate::Over),
            (Confirmed, Some(3), Fate::Over),
        ] {
            assert_eq!(fate(4, state, nonce), expected, "{state} at {nonce:?}");
        }
    }

    #[test]
    fn hole_28_words_tell_what_was_done() {
        let id = TxId(Uuid::nil());
        assert_eq!(Filled::default().words(), "");
        let filled = Filled {
            made: vec![(4, id)],
            waiting: vec![(6, id, Some("no answer".to_owned()))],
            closed: vec![7],
        };
        let words = filled.words();
        for part in ["for nonce 4 is accepted", "nonce 6 was made before", "no answer", "nonce 7"] {
            assert!(words.contains(part), "{words}");
        }
    }

    #[test]
    fn hole_28_every_try_has_a_name_of_its_own() {
        let gap = Released { nonce: 4, hold: HoldId::fresh() };
        assert_eq!(name(gap, 0), format!("gap-4-{}", gap.hold.0), "as it always was");
        let names: std::collections::HashSet<String> = (0..100).map(|n| name(gap, n)).collect();
        assert_eq!(names.len(), 100);
    }
}
