//! Nonces that somebody else has used.
//!
//! Blocks show who sent what. A transaction of one of our accounts that Stile has not signed is
//! either a caller's with a bare nonce, or an attempt that the database has lost (see
//! `lost_attempt`), or an outsider's: somebody else has the key. Then the lane is paused or its cursor
//! follows, as configured, and whoever lost its nonce is told.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use stile_chain::{At, ChainError, Sighting, View};
use stile_domain::{
    B256, Decision, Header, Lane, LaneEventKind, Nonce, Rival, Successor, TxId, TxState, Verdict,
};
use stile_store::{LaneView, LedgerOwner, NewLaneEvent, Realign, Refusal, StoreError};
use tracing::{debug, info, warn};

use crate::core::Core;
use crate::metrics;
use crate::pause;
use crate::restored::{self, Noted};
use crate::settings::ChainQuery;
use crate::start;
use crate::tx;
use crate::tx::follow::evidence::{self, Claim, Subject, Word};
use crate::tx::lost_attempt::{self, Competing, SignedBy};
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

/// How soon a nonce is searched for again whose use a quorum has not seen.
const SEARCHED_AGAIN: Duration = Duration::from_secs(2);

/// How soon a nonce is searched for again that an endpoint calls used and shows in no block: it may not
/// have come that far, or lie.
fn searched_again(vain_checks: u32) -> Duration {
    SEARCHED_AGAIN.saturating_mul(2u32.saturating_pow(vain_checks.saturating_sub(1).min(10)))
}

/// How many nonces are searched for in one go.
const SEARCHES: usize = 20;

/// Finds out whose the transactions are. Answers with those that a quorum has not seen yet.
pub(crate) async fn look_at(
    core: &Arc<Core>,
    track: &Track,
    view: &View,
    strange: Vec<Strange>,
) -> Vec<Strange> {
    if strange.is_empty() || core.settings.chain_query == ChainQuery::Disabled {
        return Vec::new();
    }
    let hashes: Vec<B256> = strange.iter().map(|strange| strange.seen.hash).collect();
    let ours = match core.store.txs_of_attempts(&hashes).await {
        Ok(ours) => ours,
        Err(error) => {
            not_read(&error);
            return Vec::new();
        }
    };
    // On record, only not in the book yet: a lane that has just come.
    let others = strange.into_iter().zip(ours).filter(|(_, ours)| ours.is_none());
    let mut others: Vec<Strange> = others.map(|(strange, _)| strange).collect();
    // First what has to be agreed on is found out, then the endpoints are asked for all of it at once.
    let mut ballot = Ballot::default();
    for round in 0..2 {
        for strange in std::mem::take(&mut others) {
            match judge(core, track, view, &mut ballot, &strange).await {
                Ok(Seen::Yes) => {}
                Ok(Seen::NotYet) => others.push(strange),
                Err(error) => {
                    not_read(&error);
                    return others;
                }
            }
        }
        if round > 0 || !ballot.hold(track, view).await {
            break;
        }
    }
    others
}

/// How many blocks the endpoints are asked about in one go.
const HEIGHTS: usize = 50;

/// What the endpoints say about nonces that were used.
#[derive(Debug, Default)]
struct Ballot {
    wanted: Vec<Claim>,
    decided: Vec<(Claim, Decision<()>)>,
}

impl Ballot {
    /// What was decided about a claim. One that nobody was asked about yet is asked about next.
    fn decision(&mut self, track: &Track, claim: Claim) -> Decision<()> {
        if track.pool.quorum().configured() == 1 {
            return Decision::Agreed;
        }
        match self.decided.iter().find(|(decided, _)| *decided == claim) {
            Some((_, decision)) => decision.clone(),
            None => {
                self.wanted.push(claim);
                Decision::Open(Verdict::TooFewVoters)
            }
        }
    }

    /// Asks the endpoints about what is wanted, the lowest blocks first; `false` if nothing is.
    async fn hold(&mut self, track: &Track, view: &View) -> bool {
        let claims = lowest(std::mem::take(&mut self.wanted));
        if claims.is_empty() {
            return false;
        }
        let ruled = evidence::rule(track, &claims, view.place()).await;
        let decisions = ruled.into_iter().map(|ruling| seen_by(Some(ruling.decision)));
        self.decided.extend(claims.into_iter().zip(decisions));
        true
    }
}

/// The claims about the lowest blocks, as many as are asked about in one go.
fn lowest(mut claims: Vec<Claim>) -> Vec<Claim> {
    let heights: BTreeSet<u64> = claims.iter().map(|claim| claim.height).collect();
    if let Some(above) = heights.into_iter().nth(HEIGHTS) {
        claims.retain(|claim| claim.height < above);
    }
    claims
}

/// Whether enough endpoints have seen a transaction to conclude from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// Or it does not matter, or they have something else there.
    Yes,
    /// Looked at again.
    NotYet,
}

/// Whether a quorum of the endpoints has seen that a nonce was used in a block. Nobody's lane is
/// paused, and nobody's nonce is lost, on the word of one.
async fn is_seen(track: &Track, view: &View, claim: Claim) -> Decision<()> {
    if track.pool.quorum().configured() == 1 {
        return Decision::Agreed;
    }
    let ruled = evidence::rule(track, std::slice::from_ref(&claim), view.place()).await.pop();
    seen_by(ruled.map(|ruling| ruling.decision))
}

/// Which of a lane's transactions, each in its block, a quorum of the endpoints has seen, in their order.
pub(crate) async fn are_seen(
    track: &Track,
    view: &View,
    lane: Lane,
    found: &[(Nonce, B256, Header)],
) -> Vec<bool> {
    if track.pool.quorum().configured() == 1 || found.is_empty() {
        return vec![true; found.len()];
    }
    let claims: Vec<Claim> = found
        .iter()
        .map(|(nonce, hash, header)| {
            let subject = Subject::Used { lane, nonce: *nonce, tx_hash: Some(*hash) };
            Claim { height: header.height, block: header.hash, subject }
        })
        .collect();
    let ruled = evidence::rule(track, &claims, view.place()).await;
    ruled.into_iter().map(|ruling| matches!(ruling.decision, Decision::Agreed)).collect()
}

fn seen_by(decision: Option<Decision<Word>>) -> Decision<()> {
    match decision {
        Some(Decision::Agreed) => Decision::Agreed,
        Some(Decision::Outvoted(_)) => Decision::Outvoted(()),
        Some(Decision::Open(verdict)) => Decision::Open(verdict),
        None => Decision::Open(Verdict::TooFewVoters),
    }
}

fn used_by(strange: &Strange) -> Claim {
    let Strange { lane, seen, header } = strange;
    let subject = Subject::Used { lane: *lane, nonce: seen.nonce, tx_hash: Some(seen.hash) };
    Claim { height: header.height, block: header.hash, subject }
}

/// The comparison of lanes with the chain finds it again later.
fn not_read(error: &StoreError) {
    metrics::store_failed("outside_use");
    warn!(%error, "whose a transaction is could not be read; looked at again later");
}

async fn judge(
    core: &Arc<Core>,
    track: &Track,
    view: &View,
    ballot: &mut Ballot,
    strange: &Strange,
) -> Result<Seen, StoreError> {
    let Strange { lane, seen, header } = strange;
    let owner = core.store.nonce_owners(*lane, seen.nonce, 1).await?.into_iter().next();
    match owner.filter(|owner| owner.nonce == seen.nonce).map(|owner| owner.owner) {
        // A caller who sends by itself has done so.
        Some(LedgerOwner::Hold(_)) => Ok(Seen::Yes),
        // Its own, since a moment ago: a restored database has been told what the chain has.
        Some(LedgerOwner::Tx(..)) if is_attempt(core, seen.hash).await? => Ok(Seen::Yes),
        Some(LedgerOwner::Tx(id, TxState::Allocated | TxState::Submitted)) => {
            match ballot.decision(track, used_by(strange)) {
                Decision::Agreed => {}
                Decision::Outvoted(()) => return Ok(Seen::Yes),
                Decision::Open(_) => return Ok(Seen::NotYet),
            }
            let (nonce, hash) = (seen.nonce, seen.hash);
            let competing = Competing { id, lane: *lane, nonce, hash };
            match lost_attempt::take_back(core, track, view, competing).await? {
                SignedBy::Outsider => {}
                // Looked at again, until the record has it.
                SignedBy::Stile | SignedBy::Unknown => return Ok(Seen::NotYet),
            }
            let rival = Rival {
                by: Successor::Outsider,
                tx_hash: Some(seen.hash),
                block_number: header.height,
                block_hash: header.hash,
            };
            if restored::note_rival(core, view, *lane, Some(seen.hash)).await? == Noted::NotYet {
                return Ok(Seen::NotYet);
            }
            if overtake::overtaken(core, &mut track.book(), id, rival) {
                used(core, *lane, seen.nonce, Some(seen.hash), Some(id)).await?;
            }
            Ok(Seen::Yes)
        }
        // A reorganisation is under way: the follower sorts it out.
        Some(LedgerOwner::Tx(..)) => Ok(Seen::Yes),
        None => {
            let lane_view = core.store.lanes(&[*lane]).await?.pop().flatten();
            // What the database has lost is nobody else's; the lane is being realigned.
            // And where others give the nonces out, they use them.
            // What a restored database does not know may be its own: it is read, and nobody is blamed.
            let restored = |view: &LaneView| view.restored.is_some_and(|mark| mark.is_open());
            let ours = lane_view
                .filter(|view| view.aligned && view.elsewhere.is_none() && !restored(view));
            match ours.and_then(|view| view.next_nonce) {
                Some(cursor) if seen.nonce >= cursor => {
                    let slot = core.lanes.slot(*lane);
                    if start::is_to_be_compared(core, &slot) {
                        // It may be a copy of the database that does not know its own.
                        if let Err(error) = start::start(core, &slot).await {
                            debug!(%error, signer = %lane.signer, "not compared with the chain yet");
                        }
                        return Ok(Seen::NotYet);
                    }
                    match ballot.decision(track, used_by(strange)) {
                        Decision::Agreed => {
                            used(core, *lane, seen.nonce, Some(seen.hash), None).await?;
                            Ok(Seen::Yes)
                        }
                        Decision::Outvoted(()) => Ok(Seen::Yes),
                        Decision::Open(_) => Ok(Seen::NotYet),
                    }
                }
                // From before the lane's first cursor, or passed over since.
                _ => Ok(Seen::Yes),
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
    if core.lanes.slot(lane).claim().is_none() {
        // Whoever holds it sees it too.
        return Ok(());
    }
    if is_on_record(core, lane, nonce, hash, lost).await? {
        debug!(signer = %lane.signer, chain = %lane.chain, nonce, "on record after all: the lane is read again");
        tx::adopt(core, vec![lane]);
        return Ok(());
    }
    if restored::is_marked(core, lane).await? {
        // It may be what the restored database does not know any more: nobody is blamed.
        info!(signer = %lane.signer, chain = %lane.chain, nonce, "used before the database was restored, or since");
        return Ok(());
    }
    metrics::mismatch("outside_use");
    let which = hash.map_or_else(String::new, |hash| format!(" ({hash})"));
    let reason = format!(
        "nonce {nonce} was used by a transaction that is not Stile's{which}: somebody else signs with this key"
    );
    warn!(signer = %lane.signer, chain = %lane.chain, nonce, lost = lost.map(|id| id.to_string()), reason,
          "outside use");
    let data = json!({ "nonce": nonce, "txHash": hash, "lostTx": lost });
    let event = NewLaneEvent { kind: LaneEventKind::OutsideUse, data };
    match core.settings.tx.outside_use {
        OutsideUse::Pause => pause::as_holder(core, lane, &event, &reason).await,
        OutsideUse::Follow => {
            core.store.tell_lane(&core.holder.node, lane, &event).await?;
            follow(core, lane, nonce + 1).await
        }
    }
}

/// Whether the store says that a nonce was used by Stile or by a caller it gave it to. Whoever judges
/// by memory alone takes what another node has signed meanwhile for somebody else's: so nothing is
/// concluded before this is asked. `lost` is the transaction that is known to have the nonce.
async fn is_on_record(
    core: &Core,
    lane: Lane,
    nonce: Nonce,
    hash: Option<B256>,
    lost: Option<TxId>,
) -> Result<bool, StoreError> {
    if let Some(hash) = hash
        && is_attempt(core, hash).await?
    {
        return Ok(true);
    }
    let owner = core.store.nonce_owners(lane, nonce, 1).await?.into_iter().next();
    Ok(match owner.filter(|owner| owner.nonce == nonce).map(|owner| owner.owner) {
        Some(LedgerOwner::Hold(_)) => true,
        Some(LedgerOwner::Tx(id, _)) => lost != Some(id),
        None => false,
    })
}

async fn is_attempt(core: &Core, hash: B256) -> Result<bool, StoreError> {
    Ok(core.store.txs_of_attempts(&[hash]).await?.iter().any(Option::is_some))
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
            // Another node may have signed what this one does not know.
            Ok(Some(rival)) if is_stiles(core, &rival).await => tx::again(core, lane),
            Ok(Some(rival)) => {
                let tx_hash = rival.tx_hash;
                let subject = Subject::Used { lane, nonce, tx_hash };
                let claim = Claim { height: rival.block_number, block: rival.block_hash, subject };
                if is_seen(track, view, claim).await != Decision::Agreed {
                    search_again(track, id);
                    continue;
                }
                // An attempt of its own that the database has lost is nobody else's.
                if !is_outsiders(core, track, view, (id, lane, nonce), &rival).await {
                    continue;
                }
                // What is not read is not written down either: looked for again.
                let noted = restored::note_rival(core, view, lane, tx_hash).await;
                if let Err(error) = &noted {
                    not_read(error);
                }
                if matches!(noted, Err(_) | Ok(Noted::NotYet)) {
                    search_again(track, id);
                    continue;
                }
                let news = overtake::overtaken(core, &mut track.book(), id, rival);
                if news && let Err(error) = used(core, lane, nonce, rival.tx_hash, Some(id)).await {
                    not_read(&error);
                }
            }
            Ok(None) => {
                if let Some(open) = track.book().get_mut(id) {
                    let again = Instant::now() + searched_again(open.vain_checks);
                    open.next_check = open.next_check.min(again);
                }
            }
            Err(error) => debug!(%error, "a nonce's transaction could not be looked for"),
        }
    }
}

fn search_again(track: &Track, id: TxId) {
    if let Some(open) = track.book().get_mut(id) {
        open.next_check = std::time::Instant::now() + SEARCHED_AGAIN;
    }
}

/// Whether what has the nonce of one of ours is somebody else's: it is not on record, and does
/// something else than ours. What cannot be read is looked for again.
async fn is_outsiders(
    core: &Core,
    track: &Track,
    view: &View,
    (id, lane, nonce): (TxId, Lane, Nonce),
    rival: &Rival,
) -> bool {
    let Some(hash) = rival.tx_hash else { return true };
    let competing = Competing { id, lane, nonce, hash };
    match lost_attempt::take_back(core, track, view, competing).await {
        Ok(SignedBy::Outsider) => return true,
        Ok(SignedBy::Stile) => {}
        Ok(SignedBy::Unknown) => {
            if let Some(open) = track.book().get_mut(id) {
                open.next_check = Instant::now() + SEARCHED_AGAIN;
            }
        }
        Err(error) => not_read(&error),
    }
    false
}

/// Whether a transaction that is not in the book is on record as an attempt. What cannot be read is not
/// held against anybody: it is looked for again.
async fn is_stiles(core: &Core, rival: &Rival) -> bool {
    let Some(hash) = rival.tx_hash else { return false };
    match core.store.txs_of_attempts(&[hash]).await {
        Ok(found) => found.iter().any(Option::is_some),
        Err(error) => {
            not_read(&error);
            true
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

#[cfg(test)]
mod tests {
    use stile_domain::{Address, ChainId};

    use super::*;

    #[test]
    fn hole_13_a_nonce_that_is_not_found_is_searched_for_less_and_less() {
        let pauses: Vec<u64> = (1..=5).map(|vain| searched_again(vain).as_secs()).collect();
        assert_eq!(pauses, [2, 4, 8, 16, 32]);
        assert!(searched_again(u32::MAX) > Duration::from_secs(600));
    }

    #[test]
    fn hole_23_strange_transactions_are_asked_about_at_once_and_not_without_end() {
        let lane = Lane::new(ChainId::new(1).unwrap(), Address::repeat_byte(3));
        let claim = |height: u64| {
            let subject = Subject::Used { lane, nonce: height, tx_hash: None };
            Claim { height, block: B256::ZERO, subject }
        };
        let heights = |claims: Vec<Claim>| -> BTreeSet<u64> {
            lowest(claims).into_iter().map(|claim| claim.height).collect()
        };
        assert!(heights(Vec::new()).is_empty());
        assert_eq!(lowest(vec![claim(7), claim(7), claim(5)]).len(), 3, "all of a block");
        let many = (1..=120).rev().map(claim).collect();
        assert_eq!(heights(many), (1..=50).collect());
    }
}
