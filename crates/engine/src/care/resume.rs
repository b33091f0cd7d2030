//! Ending a pause.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use stile_domain::{Drift, Lane, Nonce, Step, TxId};
use stile_store::{
    LaneChanges, LaneView, LedgerOwner, NewEvent, NonceOwner, OpenTx, Realign, Recorded, Refusal,
    Resumed, Set, StoreError, TxChange,
};
use tracing::{info, warn};

use super::CareError;
use crate::behind::Behind;
use crate::core::Core;
use crate::fill::FILLER_TENANT;
use crate::made_anew::{self, Fate};
use crate::pause;
use crate::realign;
use crate::reconcile::{self, Comparison};
use crate::tx;
use crate::tx::settings::OutsideUse;
use crate::tx::track::Track;

/// Nonces read in one go when a chain has lost transactions, and transactions.
const OWNERS: u32 = 10_000;
const PAGE: usize = 500;

/// How long what is decided may take to be written before lost transactions are opened.
const WRITTEN_WITHIN: Duration = Duration::from_secs(5);

/// Transactions that wait, counted in one go.
const WAITING_LIMIT: u32 = 10_000;

/// What ending a pause takes.
#[derive(Debug, Clone)]
pub struct Resumption {
    /// What is done, in words, in order.
    pub plan: Vec<String>,
    /// Whether it was done.
    pub resumed: bool,
}

/// What ends the mark of a lane that is treated like one of a restored database.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Settles {
    /// What the chain shows.
    Itself,
    /// A person's word.
    ByWord,
}

/// What stands between a lane and its chain.
enum Way {
    /// Nothing.
    Straight,
    /// The cursor moves.
    Jump(Realign),
    /// The cursor moves, and what waits or is asked for later may be what the nonces below were used
    /// for: the lane is treated like one of a restored database. Where nothing waits, or others use the
    /// key by declaration, it goes on once those nonces are read.
    Restored(Realign, Settles),
    /// Transactions that the chain has lost are sent again, unless they were made anew.
    Again(Lost),
}

/// What the chain has lost of a lane, from the lowest nonce on, as much as is sent again in one go.
#[derive(Debug, Default, PartialEq, Eq)]
struct Lost {
    ids: Vec<TxId>,
    /// How many nonces among theirs are in the hands of callers who send by themselves.
    holds: usize,
    /// From which nonce on there are more.
    more_from: Option<Nonce>,
}

/// In the entry of a pause: from which nonce on lost transactions are left for the next resumption.
const MORE_FROM: &str = "moreFrom";

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
            Some(comparison) => way(core, track, &comparison, &mut plan).await?,
            None => {
                plan.push("the chain does not answer: the cursor stays where it is".to_owned());
                Way::Straight
            }
        },
    };
    let cursor = match &way {
        Way::Jump(realign) | Way::Restored(realign, _) => Some(realign.to),
        _ => view.next_nonce,
    };
    let more_from = match &way {
        Way::Again(lost) => lost.more_from,
        _ => None,
    };
    if let (Some(cursor), None) = (cursor, more_from) {
        plan.push(format!("give out nonces again, from {cursor} on"));
    }
    if dry_run {
        return Ok(Resumption { plan, resumed: false });
    }
    if let Way::Again(lost) = &way
        && !send_again(core, lane, &lost.ids).await?
    {
        let owner = view.owner.url.unwrap_or_else(|| view.owner.node.0.clone());
        plan.push(format!("not done: only the signer's holder can do that; ask {owner}"));
        return Ok(Resumption { plan, resumed: false });
    }
    if let Some(more_from) = more_from {
        let data = json!({ MORE_FROM: more_from, "plan": plan });
        let reason = more_is_lost(more_from);
        core.store.keep_paused(&core.holder.node, lane, &reason, &data).await?;
        info!(signer = %lane.signer, chain = %lane.chain, ?plan, "a part was sent again; the lane stays paused");
        return Ok(Resumption { plan, resumed: false });
    }
    let mut behind = None;
    if let Way::Restored(realign, settles) = &way {
        behind = set_unaligned(core, lane, *realign, *settles).await?;
        if behind.is_none() {
            let owner = view.owner.url.unwrap_or_else(|| view.owner.node.0.clone());
            plan.push(format!("not done: only the signer's holder can do that; ask {owner}"));
            return Ok(Resumption { plan, resumed: false });
        }
    }
    let realign = match way {
        Way::Jump(realign) => Some(realign),
        _ => None,
    };
    let data = json!({ "plan": plan });
    let slot = core.lanes.slot(lane);
    let resumed = match core.store.resume(&core.holder.node, lane, realign, &data).await {
        Ok(Resumed::Done) => true,
        Ok(Resumed::Moved) => {
            // Whatever has moved it may have lost something.
            slot.set_behind(None);
            plan.push("not done: the signer has moved meanwhile; look again".to_owned());
            false
        }
        Ok(Resumed::NotFound) => {
            slot.set_behind(None);
            return Err(CareError::NotStarted);
        }
        Err(error) => {
            slot.set_behind(None);
            return Err(error.into());
        }
    };
    if resumed {
        info!(signer = %lane.signer, chain = %lane.chain, ?plan, "lane resumed");
        slot.work.lock().await.forget();
        // The chain may have gone on, or may not have answered.
        slot.set_compared(false);
        if let Some(behind) = behind {
            // The claim under which it was noted is gone with the pause.
            slot.set_behind(Some(behind.resumed()));
            // A call beside this one may have realigned the lane meanwhile.
            let view = core.store.lanes(&[lane]).await?.pop().flatten();
            if view.is_none_or(|view| view.aligned) {
                slot.set_behind(None);
            }
        }
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
    track: &Track,
    comparison: &Comparison,
    plan: &mut Vec<String>,
) -> Result<Way, StoreError> {
    let (latest, cursor) = (comparison.latest, comparison.view.next_nonce.unwrap_or_default());
    match comparison.drift {
        Drift::OutsideUse => {
            plan.push(format!(
                "move the cursor from {cursor} to {latest}: the nonces below were used by somebody else"
            ));
            let realign = Realign { from: cursor, to: latest };
            // What the chain shows is stepped over and read on a lane that is marked already.
            if comparison.view.restored.is_some_and(|mark| mark.is_open()) {
                return Ok(Way::Jump(realign));
            }
            let (waiting, signer) =
                (waiting(core, &comparison.view).await?, comparison.view.lane.signer);
            let follows = core.settings.tx.outside_use == OutsideUse::Follow;
            let settles = if follows || waiting == 0 { Settles::Itself } else { Settles::ByWord };
            plan.push(match (waiting, settles) {
                (0, _) => "read what used them: a request that is the same as one of them is not sent by itself"
                    .to_owned(),
                (_, Settles::Itself) => format!(
                    "hold back what waits ({waiting}) until it is read what used them: what is the same is taken as sent"
                ),
                (_, Settles::ByWord) => format!(
                    "hold back what waits ({waiting}): it may be what those nonces were used for. What the chain shows \
                     to be the same is taken as sent; the rest waits for your word: stile signer restored {signer}"
                ),
            });
            Ok(Way::Restored(realign, settles))
        }
        Drift::ChainReset => {
            let mut lost = lost(core, comparison.view.lane, latest).await?;
            lost.add(gone(track, comparison.view.lane));
            again(core, latest, lost, plan).await
        }
        Drift::InStep | Drift::Gap | Drift::HeldUp(_) => {
            let lane = comparison.view.lane;
            let (from, mut lost) = match left_from(core, lane).await?.map(|from| from.max(latest)) {
                Some(from) => (from, lost(core, lane, from).await?),
                None => (latest, Lost::default()),
            };
            lost.add(gone(track, lane));
            match lost.ids.is_empty() {
                true => Ok(Way::Straight),
                false => again(core, from, lost, plan).await,
            }
        }
    }
}

/// What is to be done about transactions that the chain has lost.
async fn again(
    core: &Core,
    from: Nonce,
    lost: Lost,
    plan: &mut Vec<String>,
) -> Result<Way, StoreError> {
    let (mut count, mut others) = (0, Vec::new());
    for page in lost.ids.chunks(PAGE) {
        let fates = made_anew::fates(core, decided(core, page).await?).await?;
        count += fates.iter().filter(|(_, fate)| !matches!(fate, Fate::StaysClosed(_))).count();
        others.extend(fates.iter().filter_map(|(open, fate)| words(open, *fate)));
    }
    plan.push(format!(
        "send the stored bytes of {count} transactions once more, from nonce {from} on: the chain has lost them"
    ));
    plan.extend(others);
    let holds = lost.holds;
    if holds > 0 {
        plan.push(format!(
            "{holds} nonces from {from} on are with callers who send by themselves: they must send again"
        ));
    }
    if let Some(more_from) = lost.more_from {
        plan.push(format!("stay paused: {}", more_is_lost(more_from)));
    }
    Ok(Way::Again(lost))
}

/// Why a lane stays paused of which a part was sent again.
fn more_is_lost(from: Nonce) -> String {
    format!(
        "the chain has lost more transactions, from nonce {from} on. Resume again to send those, best once the \
         chain has those below"
    )
}

/// From which nonce on the last resumption has left lost transactions, if it has.
async fn left_from(core: &Core, lane: Lane) -> Result<Option<Nonce>, StoreError> {
    let last = pause::last_pause(core, lane).await?;
    Ok(last.and_then(|pause| pause.data[MORE_FROM].as_u64()))
}

/// Those of them that are in a block by the record, or that another one took the nonce of in one.
async fn decided(core: &Core, ids: &[TxId]) -> Result<Vec<OpenTx>, StoreError> {
    let mut found = core.store.with_attempts(ids).await?;
    found.retain(|open| {
        open.tx.receipt.is_some() || open.tx.rival.is_some() || open.tx.standing.is_done()
    });
    Ok(found)
}

/// Open transactions in blocks that the chain does not have, each with its nonce.
fn gone(track: &Track, lane: Lane) -> Vec<(TxId, Nonce)> {
    let gone = track.gone_of(lane);
    let book = track.book();
    let with_nonce = |(id, _)| Some((id, book.get(id)?.nonce));
    gone.into_iter().filter_map(with_nonce).collect()
}

/// How many transactions wait that may be what unknown nonces were used for.
async fn waiting(core: &Core, view: &LaneView) -> Result<u64, StoreError> {
    let waiting = core.store.waiting(view.lane, WAITING_LIMIT).await?;
    let fillers = waiting.iter().filter(|tx| tx.tenant == FILLER_TENANT).count();
    Ok(view.queued.saturating_sub(fillers as u64))
}

/// Has a lane realigned before it gives out anything. `None` if another node holds it.
async fn set_unaligned(
    core: &Arc<Core>,
    lane: Lane,
    realign: Realign,
    settles: Settles,
) -> Result<Option<Behind>, StoreError> {
    core.acquire(&[lane]).await?;
    let slot = core.lanes.slot(lane);
    let Some(claim) = slot.claim() else { return Ok(None) };
    let reason = format!(
        "while the signer was paused, nonces from {} to {} were used by somebody else",
        realign.from,
        realign.to - 1
    );
    let settles_itself = settles == Settles::Itself;
    match realign::fall_behind(core, &slot, &claim, reason, settles_itself).await? {
        Ok(behind) => Ok(Some(behind)),
        Err(Refusal::Fenced(owner)) => {
            core.lost(&slot, claim, &owner, "resume");
            Ok(None)
        }
        Err(Refusal::CursorMoved) => Err(StoreError::Unavailable(
            "the database has just failed over or was restored: look again".to_owned(),
        )),
        Err(refusal) => Err(StoreError::Internal(refusal.to_string())),
    }
}

/// What is done about a transaction that was made anew, in words.
fn words(open: &OpenTx, fate: Fate) -> Option<String> {
    let (id, nonce) = (open.tx.id, open.tx.nonce.unwrap_or_default());
    match fate {
        Fate::SentAgain => None,
        Fate::InPlaceOf(successor) => Some(format!(
            "withdraw {successor}, which has no nonce yet: {id}, in whose place it was made, is sent again"
        )),
        Fate::StaysClosed(successor) => Some(format!(
            "{id} is not sent again, since it was made anew as {successor}: an empty transaction takes its nonce {nonce}"
        )),
    }
}

impl Lost {
    /// The next owners of nonces, in order, and those of them that the chain has lost: of all it is so
    /// many at most. `false` if no more of them are taken.
    fn take(&mut self, owners: &[NonceOwner], lost: &HashSet<TxId>, most: usize) -> bool {
        for owner in owners {
            match owner.owner {
                LedgerOwner::Hold(_) => self.holds += 1,
                LedgerOwner::Tx(id, _) if !lost.contains(&id) => {}
                LedgerOwner::Tx(..) if self.ids.len() >= most => {
                    self.more_from = Some(owner.nonce);
                    return false;
                }
                LedgerOwner::Tx(id, _) => self.ids.push(id),
            }
        }
        true
    }

    /// Open transactions in blocks that the chain does not have, each with its nonce.
    fn add(&mut self, gone: Vec<(TxId, Nonce)>) {
        let known: HashSet<TxId> = self.ids.iter().copied().collect();
        let more_from = self.more_from.unwrap_or(Nonce::MAX);
        let new = gone.into_iter().filter(|(id, nonce)| *nonce < more_from && !known.contains(id));
        self.ids.extend(new.map(|(id, _)| id));
    }
}

/// What has nonces that the chain has not seen, though it is on record as done or in a block. None of
/// them is mined.
async fn lost(core: &Core, lane: Lane, from: Nonce) -> Result<Lost, StoreError> {
    let (mut lost, mut from) = (Lost::default(), from);
    loop {
        let owners = core.store.nonce_owners(lane, from, OWNERS).await?;
        for page in owners.chunks(PAGE) {
            let ids: Vec<TxId> = page.iter().filter_map(tx_of).collect();
            let decided = decided(core, &ids).await?.into_iter().map(|open| open.tx.id).collect();
            if !lost.take(page, &decided, core.settings.tx.resent_at_once) {
                return Ok(lost);
            }
        }
        match owners.last() {
            Some(last) if owners.len() == OWNERS as usize => from = last.nonce + 1,
            _ => return Ok(lost),
        }
    }
}

fn tx_of(owner: &NonceOwner) -> Option<TxId> {
    match owner.owner {
        LedgerOwner::Tx(id, _) => Some(id),
        LedgerOwner::Hold(_) => None,
    }
}

/// Opens lost transactions again. `false` if this node does not hold the lane.
async fn send_again(core: &Arc<Core>, lane: Lane, lost: &[TxId]) -> Result<bool, StoreError> {
    core.acquire(&[lane]).await?;
    if core.lanes.slot(lane).claim().is_none() {
        return Ok(false);
    }
    if !core.recorder.is_written(WRITTEN_WITHIN).await {
        return Err(StoreError::Internal("what was decided before is not written yet".to_owned()));
    }
    for page in lost.chunks(PAGE) {
        let fates = made_anew::fates(core, decided(core, page).await?).await?;
        if !send_page_again(core, lane, &fates).await? {
            return Ok(false);
        }
    }
    // What was open is in the book as it was.
    tx::again(core, lane);
    Ok(true)
}

async fn send_page_again(
    core: &Arc<Core>,
    lane: Lane,
    lost: &[(OpenTx, Fate)],
) -> Result<bool, StoreError> {
    let (mut again, mut closed) = (Vec::new(), Vec::new());
    for (open, fate) in lost {
        match made_anew::withdraw_successor(core, *fate).await? {
            Fate::StaysClosed(successor) => closed.push((open, successor)),
            Fate::SentAgain | Fate::InPlaceOf(_) => again.push(open),
        }
    }
    if !reopen(core, lane, &again).await? {
        return Ok(false);
    }
    for (open, successor) in closed {
        if let Some(track) = core.tracks.get(lane.chain)
            && !made_anew::empty(core, track, open, successor).await?
        {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Writes that transactions are open again. `false` if the lane is no longer this node's.
async fn reopen(core: &Arc<Core>, lane: Lane, lost: &[&OpenTx]) -> Result<bool, StoreError> {
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
            Ok(true)
        }
        _ => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use stile_domain::TxState;
    use uuid::Uuid;

    use super::*;

    fn id(nonce: Nonce) -> TxId {
        TxId(Uuid::from_u128(nonce.into()))
    }

    fn owners(nonces: std::ops::Range<Nonce>) -> Vec<NonceOwner> {
        let owner = |nonce| LedgerOwner::Tx(id(nonce), TxState::Confirmed);
        nonces.map(|nonce| NonceOwner { nonce, owner: owner(nonce) }).collect()
    }

    #[test]
    fn hole_39_only_so_many_of_the_lowest_are_sent_again_in_one_go() {
        // Of nonces from 5 on: those that are lost, how many are sent at most, what is, and what is left.
        type Case<'a> = (&'a [Nonce], usize, &'a [Nonce], Option<Nonce>);
        let table: &[Case<'_>] = &[
            (&[], 3, &[], None),
            (&[5, 6, 7], 3, &[5, 6, 7], None),
            (&[5, 6, 7, 8], 3, &[5, 6, 7], Some(8)),
            (&[5, 6, 7, 8, 9, 10, 11], 3, &[5, 6, 7], Some(8)),
            // What is on its way already does not count, nor what is at the end.
            (&[6, 8, 10, 11], 3, &[6, 8, 10], Some(11)),
            (&[6, 8, 10], 3, &[6, 8, 10], None),
        ];
        for (lost, most, sent, more_from) in table {
            let decided: HashSet<TxId> = lost.iter().map(|nonce| id(*nonce)).collect();
            // However they are read.
            for page in [1, 2, 100] {
                let mut found = Lost::default();
                let all = owners(5..12);
                let is_all = all.chunks(page).all(|page| found.take(page, &decided, *most));
                let ids = sent.iter().map(|nonce| id(*nonce)).collect();
                let expected = Lost { ids, holds: 0, more_from: *more_from };
                assert_eq!((found, is_all), (expected, more_from.is_none()), "{lost:?} by {page}");
            }
        }
    }

    #[test]
    fn what_is_in_blocks_that_are_gone_is_sent_once_and_not_before_what_is_below_it() {
        let mut lost = Lost { ids: vec![id(5), id(6)], holds: 0, more_from: Some(7) };
        lost.add([6, 4, 7, 8].map(|nonce| (id(nonce), nonce)).to_vec());
        assert_eq!(lost.ids, [id(5), id(6), id(4)]);
        let mut all = Lost::default();
        all.add([6, 4].map(|nonce| (id(nonce), nonce)).to_vec());
        assert_eq!(all.ids, [id(6), id(4)]);
    }
}
