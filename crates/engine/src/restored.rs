//! Lanes of a restored database.
//!
//! What waits on such a lane may have been sent in the history that was lost, so the store gives it
//! no nonce. Here it is found out. Every nonce that was stepped over is read from the chain: which
//! transaction used it, with the bytes that were signed. A waiting transaction that does the same is
//! what it was sent for: the mined one becomes its attempt, and it ends the normal way. The rest
//! waits for a person's word.
//!
//! With one exception: nothing but the chain's count says that something is missing, and others use the
//! key by declaration, or a person has ended a pause while nothing waited. Then the rest goes on once
//! everything is read and nothing of the account is on its way any more.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use serde_json::{Value, json};
use stile_chain::{ChainError, MinedTx, UnsignedTx, View};
use stile_domain::{
    AttemptKind, B256, Found, Lane, LaneEventKind, Nonce, Payload, Step, SubState, Waiting,
    match_found,
};
use stile_store::{
    Claim, LaneChanges, LostTx, NewAttempt, NewEvent, NewLaneEvent, Realign, Recovery, Refusal,
    RestoreMark, SETTLES_ITSELF, StoreError, Tx, TxChange,
};
use tracing::{debug, info, warn};

use crate::care;
use crate::core::Core;
use crate::lanes::Slot;
use crate::metrics;
use crate::tx::settings::OutsideUse;
use crate::tx::track::Track;
use crate::tx::{self, outside};

/// How often lanes that are known to be marked are looked at.
const POLL: Duration = Duration::from_secs(1);

/// Where none is known: how many polls come before the store is asked.
const POLLS_PER_LOOK: u32 = 5;

/// Lanes looked at side by side.
const AT_ONCE: usize = 8;

/// Nonces read in one go, so that what was found is written down before long.
const READ_LIMIT: u32 = 200;

/// Entries of a lane's history read in one go.
const ENTRIES: u32 = 100;

/// Transactions that wait, compared in one go.
const WAITING_LIMIT: u32 = 10_000;

/// Blocks read where endpoints have forgotten old states, and how many of them before a word in the
/// log.
const SCAN_LIMIT: u64 = 20_000;
const SCAN_TOLD: u64 = 1_000;

/// How far below the head a block may still be replaced, so that what was found in it is looked for again.
const RECENT_BLOCKS: u64 = 64;

/// Blocks asked for in one go.
const SCAN_STEP: u64 = 32;

/// Nonces looked for at most when blocks are read one by one.
const SCAN_NONCES: u32 = 20_000;

/// The longest pause before a lane is read again of which something could not be read; and of one that
/// a person has settled.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
const SETTLED_PAUSE: Duration = Duration::from_secs(3600);

/// How long a lane is left alone after so many reads in vain.
fn pause_after(in_vain: u32, open: bool) -> Duration {
    let longest = if open { LONGEST_PAUSE } else { SETTLED_PAUSE };
    match in_vain {
        0 if open => Duration::ZERO,
        0 => longest,
        again => POLL.saturating_mul(1_u32.checked_shl(again - 1).unwrap_or(u32::MAX)).min(longest),
    }
}

/// When a lane is read again.
#[derive(Debug, Clone, Copy)]
struct Pace {
    due: Instant,
    in_vain: u32,
    /// The mark that was looked at, and whether it was open.
    of: (u64, bool),
}

impl Pace {
    /// After a read, of which something is left or nothing.
    fn next(before: Option<Self>, left: bool, of: (u64, bool)) -> Self {
        let before = before.filter(|pace| pace.of == of);
        let in_vain =
            if left { before.map_or(0, |pace| pace.in_vain).saturating_add(1) } else { 0 };
        Self { due: Instant::now() + pause_after(in_vain, of.1), in_vain, of }
    }

    /// Whether a lane is to be read. The pause after one mark says nothing of the next.
    fn is_due(before: Option<Self>, of: (u64, bool), now: Instant) -> bool {
        before.is_none_or(|pace| pace.of != of || pace.due <= now)
    }
}

fn seen(mark: &RestoreMark) -> (u64, bool) {
    (mark.number, mark.is_open())
}

/// Why a lane could not be looked at.
#[derive(Debug, thiserror::Error)]
enum Unread {
    #[error(transparent)]
    Chain(#[from] ChainError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("refused: {0}")]
    Refused(#[from] Refusal),
}

/// Looks after the lanes of this node that are marked.
pub(crate) async fn run(core: Arc<Core>) {
    let mut ticks = tokio::time::interval(POLL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut paces = HashMap::new();
    for count in 0_u32.. {
        tokio::select! {
            () = core.stopping.cancelled() => return,
            _ = ticks.tick() => {}
        }
        let known = core.lanes.held().iter().any(|(slot, _)| slot.is_restored());
        if known || count.is_multiple_of(POLLS_PER_LOOK) {
            tokio::select! {
                () = core.stopping.cancelled() => return,
                () = look(&core, &mut paces) => {}
            }
        }
    }
}

async fn look(core: &Arc<Core>, paces: &mut HashMap<Lane, Pace>) {
    let marked = match core.store.restored_lanes().await {
        Ok(marked) => marked,
        Err(error) => {
            metrics::store_failed("restored");
            return warn!(%error, "lanes of a restored database could not be looked for");
        }
    };
    for (slot, _) in core.lanes.held() {
        let mark = marked.iter().find(|(lane, _)| *lane == slot.lane()).map(|(_, mark)| mark);
        // Once it is settled, the store refuses what is like something that was found.
        let open = mark.is_some_and(RestoreMark::is_open);
        if slot.set_restored(open) && !open {
            metrics::restored_waiting(slot.lane(), 0);
            tx::wake(core, &slot);
        }
    }
    let held: Vec<_> = marked.into_iter().filter(|(lane, _)| core.lanes.holds(*lane)).collect();
    paces.retain(|lane, _| held.iter().any(|(held, _)| held == lane));
    let rounds = held.into_iter().map(|(lane, mark)| {
        let due = Pace::is_due(paces.get(&lane).copied(), seen(&mark), Instant::now());
        async move {
            let slot = core.lanes.slot(lane);
            let read = round(core, &slot, mark, due).await.unwrap_or_else(|error| {
                warn!(%error, signer = %lane.signer, chain = %lane.chain,
                      "what was lost with the database could not be read from the chain yet; tried again");
                Some(true)
            });
            (lane, seen(&mark), read)
        }
    });
    let done: Vec<_> = futures::stream::iter(rounds).buffer_unordered(AT_ONCE).collect().await;
    for (lane, of, read) in done {
        if let Some(left) = read {
            paces.insert(lane, Pace::next(paces.get(&lane).copied(), left, of));
        }
    }
}

/// One look at a marked lane, which is read if it is `due`. Answers with whether something is left to be
/// read; `None` if it was not read.
async fn round(
    core: &Arc<Core>,
    slot: &Arc<Slot>,
    mark: RestoreMark,
    due: bool,
) -> Result<Option<bool>, Unread> {
    let lane = slot.lane();
    let (Some(claim), Some(track)) = (slot.claim(), core.tracks.get(lane.chain)) else {
        return Ok(None);
    };
    // What waits is told first: reading may take long, or fail.
    let waiting = core.store.awaiting_word(lane, WAITING_LIMIT).await?;
    metrics::restored_waiting(lane, waiting.len());
    tell(core, claim, &waiting).await?;
    let read = match due {
        true => read_on(core, track, slot, claim, mark).await.map(Some),
        false => Ok(None),
    };
    if matches!(read, Err(Unread::Refused(_))) {
        return read;
    }
    if mark.is_open() && !waiting.is_empty() && recover_matching(core, claim, &waiting).await? > 0 {
        let waiting = core.store.awaiting_word(lane, WAITING_LIMIT).await?;
        metrics::restored_waiting(lane, waiting.len());
        core.events.send_modify(|count| *count += 1);
        tx::adopt(core, vec![lane]);
    }
    if mark.is_open()
        && matches!(read, Ok(Some(false)))
        && let Some(mark) = settles_itself(core, slot).await?
    {
        settle(core, slot, mark).await?;
    }
    read
}

/// Whether the chain alone decides about a marked lane: the mark comes from the chain's count and from
/// nothing else, where that may settle it; all of it was read, and what was on its way when the lane was
/// first looked at is mined or gone. Answers with the mark as it is then.
async fn settles_itself(core: &Arc<Core>, slot: &Slot) -> Result<Option<RestoreMark>, StoreError> {
    let lane = slot.lane();
    if !is_by_count(core, lane).await? {
        return Ok(None);
    }
    let known = care::restored::restoration(core, lane).await?;
    // An endpoint that does not say what is in its pool is no proof that nothing is: it may have what the
    // lost history sent, whatever the others have.
    if !known.unread.is_empty() || known.silent.is_some() || !known.all_pools_answer {
        return Ok(None);
    }
    // Others may send all the time: what came later is not waited for.
    let pooled = known.pooled.as_ref().map(|pooled| pooled.below);
    let is_past = slot.is_past_pooled(pooled, known.count.unwrap_or_default());
    Ok(known.mark.filter(|mark| is_past && mark.is_open()))
}

/// Whether a lane was last realigned because of the chain's count, where that may settle it.
async fn is_by_count(core: &Core, lane: Lane) -> Result<bool, StoreError> {
    let mut before = None;
    loop {
        let entries = core.store.lane_history(lane, before, ENTRIES).await?;
        // One that lost nothing leaves an open mark as it was.
        let marks = |it: &&stile_store::LaneEvent| {
            it.kind == LaneEventKind::Realigned && it.data["restored"] == true
        };
        if let Some(entry) = entries.iter().find(marks) {
            return Ok(may_settle(&entry.data, core.settings.tx.outside_use));
        }
        match entries.last() {
            Some(last) if entries.len() == ENTRIES as usize => before = Some(last.position),
            _ => return Ok(false),
        }
    }
}

/// Whether an entry of a lane's history says that the chain may settle the mark. Older ones have another
/// word for it, and said so only where others use the key by declaration.
fn may_settle(entry: &Value, outside_use: OutsideUse) -> bool {
    let followed = entry["follows"] == true && outside_use == OutsideUse::Follow;
    entry[SETTLES_ITSELF] == true || followed
}

/// What still waits is not on chain: it goes on.
async fn settle(core: &Arc<Core>, slot: &Arc<Slot>, mark: RestoreMark) -> Result<(), StoreError> {
    let lane = slot.lane();
    let data = json!({
        "verdict": "never-sent",
        "by": "the chain",
        "reason": "every nonce that was stepped over has been read, and what waits is not among them",
    });
    let settled = core.store.settle_restore(&core.holder.node, lane, &mark, &data).await?;
    // The database was restored once more meanwhile: what that lost is read first.
    let Some(cleared) = settled else { return Ok(()) };
    info!(signer = %lane.signer, chain = %lane.chain, cleared,
          "the chain was ahead, and what it has was read: the lane goes on");
    core.events.send_modify(|count| *count += 1);
    slot.set_waiting(true);
    tx::wake(core, slot);
    Ok(())
}

/// Steps over what the chain shows used, and reads what was stepped over. Answers with whether something
/// is left that could not be read.
async fn read_on(
    core: &Arc<Core>,
    track: &Track,
    slot: &Arc<Slot>,
    claim: Claim,
    mark: RestoreMark,
) -> Result<bool, Unread> {
    let lane = slot.lane();
    let Some(count) = core.chain_latest(lane).await? else { return Ok(false) };
    let view = core.store.lanes(&[lane]).await?.pop().flatten();
    let cursor = view.filter(|view| view.aligned).and_then(|view| view.next_nonce);
    let Some(cursor) = cursor else { return Ok(false) };
    if mark.is_open() && count > cursor {
        step_over(core, slot, claim, Realign { from: cursor, to: count }).await?;
    }
    let mut unreadable = BTreeSet::new();
    loop {
        // Those that cannot be read do not stand in the way of those above them.
        let limit = READ_LIMIT.saturating_add(u32::try_from(unreadable.len()).unwrap_or(u32::MAX));
        let mut unread = core.store.unread_nonces(lane, count, limit).await?;
        unread.retain(|nonce| !unreadable.contains(nonce));
        if unread.is_empty() {
            read_again(core, track, slot, claim).await?;
            return Ok(!unreadable.is_empty());
        }
        let view = track.pool.view().await?;
        let (found, forgotten) = read(track, &view, lane, &unread).await?;
        note(core, claim, &found).await?;
        if forgotten {
            let unread = core.store.unread_nonces(lane, count, SCAN_NONCES).await?;
            let mut wanted = unread.into_iter().collect();
            let found = scan(track, &view, lane, &mut wanted).await?;
            note(core, claim, &found).await?;
            return Ok(!wanted.is_empty());
        }
        unreadable.extend(unread);
    }
}

/// Reads those once more that are not in the blocks any more in which they were found, and belong to
/// nobody: a reorganisation may have put another transaction at their nonces.
async fn read_again(core: &Core, track: &Track, slot: &Slot, claim: Claim) -> Result<(), Unread> {
    let lane = claim.lane();
    let view = track.pool.view().await?;
    if !slot.is_new_head(view.head().height) {
        return Ok(());
    }
    let recent = view.head().height.saturating_sub(RECENT_BLOCKS);
    let found = core.store.lost_txs(lane).await?;
    let found: Vec<LostTx> = found
        .into_iter()
        .filter(|lost| lost.claimed_by.is_none() && lost.block_number > recent)
        .collect();
    let heights: BTreeSet<u64> = found.iter().map(|lost| lost.block_number).collect();
    let heights: Vec<u64> = heights.into_iter().collect();
    let blocks = view.blocks(&heights).await?;
    let there = blocks.iter().flatten().flat_map(|block| &block.transactions);
    let there: BTreeSet<B256> = there.map(|tx| tx.hash).collect();
    let moved = found.iter().filter(|lost| !there.contains(&lost.hash));
    let moved: Vec<Nonce> = moved.map(|lost| lost.nonce).collect();
    let (found, _) = read(track, &view, lane, &moved).await?;
    note(core, claim, &found).await
}

/// Writes down what was found.
async fn note(core: &Core, claim: Claim, found: &[LostTx]) -> Result<(), Unread> {
    let lane = claim.lane();
    if !found.is_empty() {
        core.store.note_lost(&claim, found, core.lease()).await??;
    }
    for lost in found {
        info!(signer = %lane.signer, chain = %lane.chain, nonce = lost.nonce, txHash = %lost.hash,
              block = lost.block_number, "found on chain what the database had lost");
    }
    Ok(())
}

/// Whether a transaction that is not ours is one that the database may have lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Noted {
    /// The lane is not marked, or settled: it is somebody else's.
    NotLost,
    /// It may be, and is written down.
    Written,
    /// It may be, and could not be read yet.
    NotYet,
}

/// A transaction that is not ours has a nonce that one of ours has. On a marked lane it may be what the
/// database has lost: then it is written down before anything is concluded from it.
pub(crate) async fn note_rival(
    core: &Core,
    view: &View,
    lane: Lane,
    hash: Option<B256>,
) -> Result<Noted, StoreError> {
    if !is_marked(core, lane).await? {
        return Ok(Noted::NotLost);
    }
    // Whoever holds the lane sees it too.
    let Some(claim) = core.lanes.slot(lane).claim() else { return Ok(Noted::NotLost) };
    let Some(hash) = hash else { return Ok(Noted::NotYet) };
    let mined = match view.mined(&[hash]).await {
        Ok(mined) => mined.into_iter().flatten().find(|tx| tx.from == lane.signer),
        Err(error) => {
            debug!(%error, signer = %lane.signer, txHash = %hash, "what has a nonce of ours could not be read");
            None
        }
    };
    let Some(mined) = mined else { return Ok(Noted::NotYet) };
    match note(core, claim, &[lost(lane, mined)]).await {
        Ok(()) => Ok(Noted::Written),
        Err(Unread::Store(error)) => Err(error),
        Err(error) => {
            debug!(%error, signer = %lane.signer, txHash = %hash, "not written down; looked at again");
            Ok(Noted::NotYet)
        }
    }
}

/// Whether a lane's database was restored and no person has settled it yet.
pub(crate) async fn is_marked(core: &Core, lane: Lane) -> Result<bool, StoreError> {
    let view = core.store.lanes(&[lane]).await?.pop().flatten();
    Ok(view.and_then(|view| view.restored).is_some_and(|mark| mark.is_open()))
}

/// The chain has gone past the cursor: the lost history, or somebody else, had sent more.
async fn step_over(
    core: &Arc<Core>,
    slot: &Arc<Slot>,
    claim: Claim,
    realign: Realign,
) -> Result<(), Unread> {
    let lane = slot.lane();
    let data = json!({ "from": realign.from, "to": realign.to, "restored": true });
    let event = NewLaneEvent { kind: LaneEventKind::FollowedChain, data };
    let mut work = slot.work.lock().await;
    let answer = core.store.step_over(&claim, realign, &event, core.lease()).await?;
    work.forget();
    match answer {
        Ok(()) => {
            slot.note_given_out(realign.to);
            warn!(signer = %lane.signer, chain = %lane.chain, from = realign.from, to = realign.to,
                  "the chain has more of this signer than the restored database: stepped over");
            Ok(())
        }
        // A paused lane, or one that has just given out a nonce: looked at again.
        Err(Refusal::Paused(_) | Refusal::CursorMoved) => Ok(()),
        Err(refusal) => Err(refusal.into()),
    }
}

/// Pairs what waits with what was found, and makes each pair one transaction. Answers with how many.
async fn recover_matching(
    core: &Arc<Core>,
    claim: Claim,
    waiting: &[Tx],
) -> Result<usize, StoreError> {
    let mut recovered = 0;
    for (tx, lost) in matching(core, claim.lane(), waiting).await? {
        match recover(core, claim, tx, &lost).await? {
            Recovered::Done => recovered += 1,
            Recovered::TooLate => {}
            // Whoever holds the lane by now looks at it too.
            Recovered::NotHeld => break,
        }
    }
    Ok(recovered)
}

/// What waits, each with what was found for it.
pub(crate) async fn matching<'t>(
    core: &Core,
    lane: Lane,
    waiting: &'t [Tx],
) -> Result<Vec<(&'t Tx, LostTx)>, StoreError> {
    let lost = core.store.lost_txs(lane).await?;
    let found: Vec<Found<'_>> = lost
        .iter()
        .filter(|lost| lost.claimed_by.is_none())
        .filter_map(|lost| {
            let (raw, payload) = lost.signed.as_ref()?;
            let signed = UnsignedTx::of(raw)?;
            let (gas_limit, fees) = (signed.gas_limit, signed.fees);
            Some(Found { nonce: lost.nonce, payload, gas_limit, fees })
        })
        .collect();
    let waits: Vec<Waiting<'_>> =
        waiting.iter().map(|tx| Waiting { id: tx.id, payload: &tx.payload }).collect();
    let pairs = match_found(&waits, &found);
    let pairs = pairs.into_iter().filter_map(|(id, nonce)| {
        let tx = waiting.iter().find(|tx| tx.id == id)?;
        Some((tx, lost.iter().find(|lost| lost.nonce == nonce)?.clone()))
    });
    Ok(pairs.collect())
}

/// What became of making what was found the attempt of a transaction that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recovered {
    /// It is.
    Done,
    /// The transaction waits no more, or what was found, or its nonce, belongs to another one.
    TooLate,
    /// Nothing is known: the lane is not held under this claim any more.
    NotHeld,
}

/// Makes what was found the attempt of a transaction that waits.
pub(crate) async fn recover(
    core: &Arc<Core>,
    claim: Claim,
    tx: &Tx,
    lost: &LostTx,
) -> Result<Recovered, StoreError> {
    let Some((raw, _)) = &lost.signed else { return Ok(Recovered::TooLate) };
    let Some(signed) = UnsignedTx::of(raw) else { return Ok(Recovered::TooLate) };
    let attempt = NewAttempt {
        kind: AttemptKind::Send,
        hash: lost.hash,
        raw: raw.clone(),
        fees: signed.fees,
        gas_limit: signed.gas_limit,
    };
    let data = json!({
        "nonce": lost.nonce,
        "txHash": lost.hash,
        "blockNumber": lost.block_number,
        "reason": "the chain has a transaction of this signer that does the same, at a nonce that the restored \
                   database did not know",
    });
    let recovery = Recovery { tx: tx.id, nonce: lost.nonce, attempt, data };
    // If a failover loses it, it is not sent again.
    tx::memorise::closes(&core.lanes.slot(tx.lane), tx.id);
    match core.store.recover(&core.holder.node, &claim, &recovery, core.lease()).await? {
        Ok(Some(bound)) => {
            metrics::restored_recovered();
            info!(txId = %bound.id, signer = %tx.lane.signer, chain = %tx.lane.chain, nonce = lost.nonce,
                  txHash = %lost.hash, "a transaction of a restored database was sent before: the chain has it");
            Ok(Recovered::Done)
        }
        Ok(None) => Ok(Recovered::TooLate),
        Err(Refusal::Fenced(owner)) => {
            core.lost(&core.lanes.slot(tx.lane), claim, &owner, "recover");
            Ok(Recovered::NotHeld)
        }
        Err(refusal) => Err(StoreError::Internal(refusal.to_string())),
    }
}

/// Says of each that waits that it does, in its history.
async fn tell(core: &Arc<Core>, claim: Claim, waiting: &[Tx]) -> Result<(), StoreError> {
    let untold = waiting.iter().filter(|tx| tx.standing.sub_state != Some(SubState::Restored));
    let changes: Vec<TxChange> = untold
        .filter_map(|tx| {
            let standing = tx.standing.after(Step::Restored).ok()?;
            let mut change = TxChange::new(tx.id, tx.events, standing);
            let words = "the database was restored, and this may have been sent before: it is sent once a person \
                         says that it was not";
            let data = json!({ "reason": words });
            change.event = Some(NewEvent { kind: tx.standing.kind_of(Step::Restored), data });
            Some(change)
        })
        .collect();
    if changes.is_empty() {
        return Ok(());
    }
    let lane = claim.lane();
    warn!(signer = %lane.signer, chain = %lane.chain, count = changes.len(),
          "transactions of a restored database wait for a person's word: stile signer restored {}", lane.signer);
    let part = LaneChanges { claim, changes };
    core.store.record(&core.holder.node, std::slice::from_ref(&part), core.lease()).await?;
    core.events.send_modify(|count| *count += 1);
    Ok(())
}

/// Which transactions used these nonces, as far as the endpoint says, and whether it has forgotten the
/// states that tell. Those that it does not say anything about are left out.
async fn read(
    track: &Track,
    view: &View,
    lane: Lane,
    nonces: &[Nonce],
) -> Result<(Vec<LostTx>, bool), ChainError> {
    let mut wanted: BTreeSet<Nonce> = nonces.iter().copied().collect();
    let mut found = Vec::new();
    let mut from = None;
    while let Some(nonce) = wanted.first().copied() {
        let height = match block_of(view, lane, nonce, from).await {
            Ok(height) => height,
            Err(error) => {
                warn!(%error, signer = %lane.signer, chain = %lane.chain,
                      "the endpoint has forgotten old states: blocks are read one by one instead");
                return Ok((found, true));
            }
        };
        if let Some(height) = height {
            match read_blocks(track, view, lane, &[height], &mut wanted).await {
                Ok(more) => found.extend(more),
                Err(error) if found.is_empty() => return Err(error),
                // What was found is written down; the rest is read again.
                Err(_) => break,
            }
            from = Some(height);
        }
        wanted.remove(&nonce);
    }
    Ok((found, false))
}

/// The block in which an account's count passed a nonce. `None` if it has not, as far as the endpoint
/// has come.
async fn block_of(
    view: &View,
    lane: Lane,
    nonce: Nonce,
    from: Option<u64>,
) -> Result<Option<u64>, ChainError> {
    let passed = async |height: u64| -> Result<bool, ChainError> {
        let counts = view.counts_at(lane.signer, &[height]).await?;
        Ok(counts.first().is_some_and(|count| *count > nonce))
    };
    let mut above = view.head().height;
    if !passed(above).await? {
        return Ok(None);
    }
    let mut below = match from {
        // Nonces rise, and so do their blocks.
        Some(from) if !passed(from).await? => from,
        _ => {
            let mut step = 1;
            loop {
                let Some(lower) = above.checked_sub(step) else {
                    if above == 0 || passed(0).await? {
                        return Ok(None);
                    }
                    break 0;
                };
                if !passed(lower).await? {
                    break lower;
                }
                (above, step) = (lower, step.saturating_mul(2));
            }
        }
    };
    while above - below > 1 {
        let middle = below + (above - below) / 2;
        if passed(middle).await? { above = middle } else { below = middle }
    }
    Ok(Some(above))
}

/// Looks for the rest block by block, the newest first.
async fn scan(
    track: &Track,
    view: &View,
    lane: Lane,
    wanted: &mut BTreeSet<Nonce>,
) -> Result<Vec<LostTx>, ChainError> {
    let (mut found, mut read, began) = (Vec::new(), 0, Instant::now());
    let mut top = view.head().height;
    while !wanted.is_empty() && read < SCAN_LIMIT {
        let bottom = top.saturating_sub(SCAN_STEP - 1);
        let heights: Vec<u64> = (bottom..=top).rev().collect();
        match read_blocks(track, view, lane, &heights, wanted).await {
            Ok(more) => found.extend(more),
            Err(error) if found.is_empty() => return Err(error),
            Err(_) => break,
        }
        read += heights.len() as u64;
        if read % SCAN_TOLD < SCAN_STEP {
            info!(signer = %lane.signer, chain = %lane.chain, blocks = read, height = bottom,
                  missing = wanted.len(), seconds = began.elapsed().as_secs(), "blocks are read for what was lost");
        }
        let Some(next) = bottom.checked_sub(1) else { break };
        top = next;
    }
    Ok(found)
}

/// What these blocks have of an account at the wanted nonces, which are then wanted no longer. What a
/// quorum of the endpoints has not seen there is left out.
async fn read_blocks(
    track: &Track,
    view: &View,
    lane: Lane,
    heights: &[u64],
    wanted: &mut BTreeSet<Nonce>,
) -> Result<Vec<LostTx>, ChainError> {
    let blocks = view.blocks(heights).await?;
    let mut told = Vec::new();
    for block in blocks.iter().flatten() {
        let ours = block.transactions.iter().filter(|tx| tx.from == lane.signer);
        let ours = ours.filter(|tx| wanted.contains(&tx.nonce));
        told.extend(ours.map(|tx| (tx.nonce, tx.hash, block.header)));
    }
    let seen = outside::are_seen(track, view, lane, &told).await;
    let hashes: Vec<_> =
        told.iter().zip(seen).filter_map(|((_, hash, _), seen)| seen.then_some(*hash)).collect();
    let mined = track.pool.mined(view, &hashes).await?;
    let found: Vec<LostTx> = mined
        .into_iter()
        .flatten()
        .filter(|tx| tx.from == lane.signer && wanted.contains(&tx.nonce))
        .map(|tx| lost(lane, tx))
        .collect();
    for tx in &found {
        wanted.remove(&tx.nonce);
    }
    Ok(found)
}

fn lost(lane: Lane, tx: MinedTx) -> LostTx {
    // What was signed for another chain is none of ours.
    let signed = tx.signed.filter(|(_, signed)| signed.chain == lane.chain).map(|(raw, signed)| {
        let UnsignedTx { to, value, data, .. } = signed;
        (raw, Payload { to, value, data, ..Payload::default() })
    });
    LostTx {
        nonce: tx.nonce,
        hash: tx.hash,
        block_number: tx.block_number,
        signed,
        claimed_by: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hole_20_what_cannot_be_read_is_tried_less_and_less_often() {
        let open = [0, 1, 2, 4, 8, 16, 32, 60, 60].map(Duration::from_secs);
        for (in_vain, pause) in (0..).zip(open) {
            assert_eq!(pause_after(in_vain, true), pause, "{in_vain}");
        }
        assert_eq!(pause_after(u32::MAX, true), LONGEST_PAUSE);
        // Nobody waits for what is read on a lane that is settled.
        assert_eq!(pause_after(0, false), SETTLED_PAUSE);
        assert_eq!(pause_after(1, false), POLL);
        assert_eq!(pause_after(u32::MAX, false), SETTLED_PAUSE);
        let first = (1, true);
        let pace = Pace::next(None, true, first);
        assert_eq!((pace.in_vain, Pace::next(Some(pace), true, first).in_vain), (1, 2));
        assert_eq!(Pace::next(Some(pace), false, first).in_vain, 0);
    }

    #[test]
    fn hole_20_what_may_settle_itself_is_told_by_entries_of_earlier_versions_too() {
        use OutsideUse::{Follow, Pause};
        for (entry, outside_use, settles) in [
            (json!({ "settlesItself": true }), Pause, true),
            (json!({ "settlesItself": true }), Follow, true),
            (json!({ "settlesItself": false }), Follow, false),
            (json!({ "follows": true }), Follow, true),
            (json!({ "follows": true }), Pause, false),
            (json!({ "follows": false }), Follow, false),
            (json!({}), Follow, false),
        ] {
            assert_eq!(may_settle(&entry, outside_use), settles, "{entry} {outside_use:?}");
        }
    }

    #[test]
    fn hole_20_the_pause_after_one_restore_is_none_after_the_next() {
        let settled = Pace::next(None, false, (1, false));
        let now = Instant::now();
        assert!(!Pace::is_due(Some(settled), (1, false), now), "nobody waits for it");
        assert!(Pace::is_due(Some(settled), (2, true), now), "restored once more");
        assert_eq!(Pace::next(Some(Pace { in_vain: 9, ..settled }), true, (2, true)).in_vain, 1);
        assert!(Pace::is_due(None, (1, true), now));
    }
}
