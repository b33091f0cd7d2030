//! Calling transactions done.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stile_chain::{ChainError, View};
use stile_domain::{
    B256, Decision, Finality, Header, HeaderWindow, Heads, Receipt, Step, Successor, TxId, TxState,
    Verdict,
};
use stile_store::Set;
use tracing::debug;

use super::evidence::{self as quorum, Claim, Ruling, Subject, Word};
use super::{Memory, apply, gate};
use crate::core::Core;
use crate::metrics;
use crate::tx::book::Open;
use crate::tx::confirmations::{self, Telling};
use crate::tx::overtake;
use crate::tx::replace;
use crate::tx::track::Track;

/// How many blocks are decided about in one pass.
const HEIGHTS: usize = 50;

/// How soon the endpoints are asked again about what they did not agree on, if there is no new
/// block.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// What becomes of a transaction that has the depth it asked for.
enum Outcome {
    /// It is done, with this receipt if it differs from what was told.
    Final(Option<Receipt>),
    /// Its block is not canonical, or it is not in it.
    Gone,
    /// It is in its block, but went another way than was told.
    Corrected(Receipt),
    /// Nothing is known.
    Open,
}

/// A transaction that is to be concluded, and the block that decided about it.
type Due = (TxId, u64, B256);

/// Confirms what has the evidence it asked for: its receipt's block is the canonical one at its
/// height, deep enough, and a quorum of the endpoints has both. What is on top of it counts as far as
/// a quorum has come, and only if a quorum has the very block that makes it deep enough.
pub(super) async fn conclude(
    core: &Arc<Core>,
    track: &Track,
    view: &View,
    memory: &mut Memory,
) -> Result<(), ChainError> {
    let Some(heads) = track.heads() else { return Ok(()) };
    let window = track.window().clone();
    let heads = counted(heads, &window, track.pool.depth_height());
    let mut found: Vec<(Due, Option<Header>)> = {
        let book = track.book();
        let open = book.iter().filter(|open| !open.lost);
        let decided = open.filter_map(|open| Some((open, open.block()?)));
        decided
            .filter_map(|(open, (height, hash))| {
                let needed = needed(&asked(core, open), height, &heads)?;
                let on_top = on_top(&window, height, needed, &heads)?;
                Some(((open.id, height, hash), on_top))
            })
            .collect()
    };
    if found.is_empty() {
        return Ok(());
    }
    found.sort_unstable_by_key(|((_, height, _), _)| *height);
    let (due, on_top): (Vec<Due>, Vec<Option<Header>>) = found.into_iter().unzip();
    let claims: Vec<Option<Claim>> = {
        let book = track.book();
        due.iter().map(|due| claim(book.get(due.0), due)).collect()
    };
    let outcomes = match track.pool.quorum().configured() {
        1 => by_one(track, view, &due).await?,
        _ => by_quorum(core, track, view, (&due, &claims, &on_top), memory).await?,
    };
    let successors = overtake::successors(core, track, &due).await;
    let mut again = Vec::new();
    {
        let mut book = track.book();
        for ((due, claimed), outcome) in due.into_iter().zip(claims).zip(outcomes) {
            let (id, height, _) = due;
            // What was decided is about what was known then.
            if claimed.is_none() || claim(book.get(id), &due) != claimed {
                continue;
            }
            let agreed = match outcome {
                Outcome::Final(agreed) => agreed,
                Outcome::Open => continue,
                Outcome::Gone => {
                    apply::unmine(core, &mut book, id);
                    if let Some(open) = book.get_mut(id) {
                        // It may be in another block by now.
                        open.next_check = Instant::now();
                    }
                    again.push(id);
                    continue;
                }
                Outcome::Corrected(receipt) => {
                    apply::mine(core, &mut book, &window, id, receipt);
                    continue;
                }
            };
            let Some(open) = book.get(id) else { continue };
            let Some(receipt) = open.receipt.clone() else {
                overtake::settled(core, &mut book, id, &successors);
                continue;
            };
            let (lane, accepted) = (open.lane, open.accepted);
            let Telling { mut data, told } =
                confirmations::tell(&window, &receipt, open.finality, open.told, false);
            // Besides what there was a vote on, the first receipt was one endpoint's word.
            let agreed = agreed.filter(|agreed| *agreed != receipt);
            if let Some(agreed) = &agreed {
                data["gasUsed"] = agreed.gas_used.to_string().into();
            }
            let Some(mut change) = book.finish(id, Step::Final, data) else { continue };
            change.told = told.map_or(Set::Keep, Set::To);
            change.receipt = agreed.map_or(Set::Keep, Set::To);
            if let Some(accepted) = accepted {
                metrics::confirmed(accepted.elapsed());
            }
            debug!(txId = %id, signer = %lane.signer, block = height, "confirmed");
            core.recorder.write(lane, Some(change));
        }
    }
    core.submit(track, again);
    Ok(())
}

/// What the only endpoint of a chain says.
async fn by_one(track: &Track, view: &View, due: &[Due]) -> Result<Vec<Outcome>, ChainError> {
    let canonical = canonical(track, view, due.iter().map(|(_, height, _)| *height)).await?;
    let outcome = |(_, height, hash): &Due| match evidence(&canonical, *height, *hash) {
        Evidence::Canonical => Outcome::Final(None),
        Evidence::Replaced => Outcome::Gone,
        Evidence::Unknown => Outcome::Open,
    };
    Ok(due.iter().map(outcome).collect())
}

/// What a quorum of the endpoints says, the lowest blocks first.
async fn by_quorum(
    core: &Arc<Core>,
    track: &Track,
    view: &View,
    (due, claims, on_top): (&[Due], &[Option<Claim>], &[Option<Header>]),
    memory: &mut Memory,
) -> Result<Vec<Outcome>, ChainError> {
    let tip = track.window().tip().map(|tip| tip.hash).unwrap_or_default();
    let asked_lately =
        memory.undecided.is_some_and(|(known, asked)| known == tip && asked.elapsed() < ASK_AGAIN);
    let mut heights: Vec<u64> = due.iter().map(|(_, height, _)| *height).collect();
    heights.dedup();
    if asked_lately {
        memory.withheld = track.withheld().map(|known| (known.verdict, known.words));
        return Ok(due.iter().map(|_| Outcome::Open).collect());
    }
    let within = stretch(&heights, memory.go_on_from);
    let first = due.partition_point(|(_, height, _)| *height < *within.start());
    let claims: Vec<Claim> = {
        let within = due[first..].iter().take_while(|(_, height, _)| within.contains(height));
        let claims = within.zip(&claims[first..]);
        claims.map(|(due, claim)| claim.clone().unwrap_or_else(|| was_closed(due))).collect()
    };
    let on_top = &on_top[first..];
    if first > 0 && memory.withheld.is_none() {
        // What is below is open still.
        memory.withheld = track.withheld().map(|known| (known.verdict, known.words));
    }
    let tops: BTreeMap<u64, Header> =
        on_top.iter().take(claims.len()).flatten().map(|top| (top.height, *top)).collect();
    let asked: Vec<Claim> = claims.iter().cloned().chain(tops.values().map(is_on_top)).collect();
    let mut rulings = quorum::rule(track, &asked, view.place()).await;
    let of_tops = rulings.split_off(claims.len().min(rulings.len()));
    let of_tops: BTreeMap<u64, Ruling> = tops.into_keys().zip(of_tops).collect();
    memory.undecided = None;
    let (mut outcomes, mut stale) = (Vec::with_capacity(due.len()), None);
    outcomes.resize_with(first, || Outcome::Open);
    for ((claim, ruling), top) in claims.iter().zip(rulings).zip(on_top) {
        let of_top = top.and_then(|top| of_tops.get(&top.height).map(|ruling| (top, ruling)));
        outcomes.push(match ruling.decision {
            Decision::Agreed => match of_top {
                None => Outcome::Final(ruling.receipt),
                Some((_, Ruling { decision: Decision::Agreed, .. })) => {
                    Outcome::Final(ruling.receipt)
                }
                // It is in its block, which is not as deep as the followed endpoint says.
                Some((top, Ruling { decision, followed, .. })) => {
                    memory.undecided = Some((tip, Instant::now()));
                    match decision {
                        // The newest blocks may differ for a moment.
                        Decision::Open(verdict) if quorum::is_settled(track, top.height) => {
                            memory.withhold(track, *verdict, top.height);
                        }
                        Decision::Outvoted(_) if matches!(followed, Some(Word::OtherBlock(_))) => {
                            stale = stale.or(Some(top.height));
                        }
                        _ => {}
                    }
                    Outcome::Open
                }
            },
            Decision::Outvoted(Word::Mined { .. }) => {
                ruling.receipt.map_or(Outcome::Open, Outcome::Corrected)
            }
            Decision::Outvoted(Word::NotInBlock | Word::Used | Word::OnTop) => Outcome::Gone,
            Decision::Outvoted(Word::OtherBlock(_)) => {
                let known = track.window().hash_at(claim.height) == Some(claim.block);
                match known {
                    false => Outcome::Gone,
                    // If the endpoint that is followed has another block there by now, following it
                    // does not show that this one was replaced.
                    true => {
                        if matches!(ruling.followed, Some(Word::OtherBlock(_))) {
                            stale = stale.or(Some(claim.height));
                        }
                        Outcome::Open
                    }
                }
            }
            Decision::Open(verdict) => {
                if verdict == Verdict::Contradicted {
                    metrics::disputed();
                }
                memory.withhold(track, verdict, claim.height);
                memory.undecided = Some((tip, Instant::now()));
                Outcome::Open
            }
        });
    }
    if let Some(height) = stale {
        gate::forget(core, track, height).await?;
    }
    // What is above waits for the next pass, and is next whatever becomes of these: what cannot be
    // decided does not hide it.
    memory.go_on_from = match heights.last().is_some_and(|last| last > within.end()) {
        true => {
            memory.undecided = None;
            within.end().saturating_add(1)
        }
        false => 0,
    };
    outcomes.resize_with(due.len(), || Outcome::Open);
    Ok(outcomes)
}

/// The heights that are decided about in this pass, of those that are due, in their order: from where
/// the last pass ended, so many at most; from the lowest again if there is nothing above.
fn stretch(heights: &[u64], from: u64) -> RangeInclusive<u64> {
    let skipped = heights.partition_point(|height| *height < from);
    let skipped = if skipped == heights.len() { 0 } else { skipped };
    let next = &heights[skipped..];
    let last = next.get(HEIGHTS - 1).or(next.last()).copied();
    next.first().copied().unwrap_or(0)..=last.unwrap_or(0)
}

/// What is to be true of the block that decided about a transaction. `None` if another one did, or
/// none, or it is not open any more.
fn claim(open: Option<&Open>, (_, height, block): &Due) -> Option<Claim> {
    let open = open.filter(|open| open.block() == Some((*height, *block)))?;
    let subject = match &open.receipt {
        Some(own) => {
            let (status, contract) = (own.status, own.contract());
            let mined = open.attempts.iter().find(|attempt| attempt.hash == own.tx_hash);
            let creates = mined.and_then(|mined| replace::creates(mined, open.lane.signer));
            Subject::Mined { tx_hash: own.tx_hash, status, contract, creates }
        }
        None => {
            let tx_hash = open.rival.and_then(|rival| rival.tx_hash);
            Subject::Used { lane: open.lane, nonce: open.nonce, tx_hash }
        }
    };
    Some(Claim { height: *height, block: *block, subject })
}

/// A claim that nothing is concluded from.
fn was_closed((_, height, block): &Due) -> Claim {
    Claim { height: *height, block: *block, subject: Subject::OnTop }
}

/// What is to be true of the block that makes another one deep enough.
fn is_on_top(top: &Header) -> Claim {
    Claim { height: top.height, block: top.hash, subject: Subject::OnTop }
}

/// The evidence that a transaction waits for: any of these. One that is to be made anew waits until
/// nothing can bring it back.
fn asked(core: &Core, open: &Open) -> Vec<Finality> {
    match (open.standing.state, open.rival) {
        (TxState::Tracking, None) => vec![open.finality],
        (TxState::Allocated | TxState::Submitted, Some(rival)) => {
            match open.resend && rival.by == Successor::Outsider {
                true => {
                    let buried = Finality::Confirmations(core.settings.tx.reorg_window);
                    vec![buried, Finality::Finalized]
                }
                false => vec![open.finality],
            }
        }
        _ => Vec::new(),
    }
}

/// How far the chain has come, as far as that counts: up to what is known and to what a quorum has
/// reached, whatever the endpoint says that is followed.
fn counted(heads: Heads, window: &HeaderWindow, reached: Option<u64>) -> Heads {
    let known = window.tip().map_or(0, |tip| tip.height);
    let latest = heads.latest.min(known).min(reached.unwrap_or(u64::MAX));
    Heads { latest, ..heads }
}

/// The height up to which a chain has to be agreed on, so that a transaction decided at `height` has
/// the evidence that was asked for; `None` if it has not. Tags are a quorum's word themselves.
fn needed(asked: &[Finality], height: u64, heads: &Heads) -> Option<u64> {
    let reached = asked.iter().filter(|finality| finality.is_reached(height, heads));
    let up_to = reached.map(|finality| match finality {
        Finality::Confirmations(blocks) => height.saturating_add(u64::from(*blocks)),
        Finality::Safe | Finality::Finalized => height,
    });
    up_to.min()
}

/// The block to agree on besides the one at `height`: the lowest known one that makes it deep
/// enough. `Some(None)` if none is needed, `None` if none is known.
fn on_top(
    window: &HeaderWindow,
    height: u64,
    needed: u64,
    heads: &Heads,
) -> Option<Option<Header>> {
    if needed <= height {
        return Some(None);
    }
    let lowest = window.from(needed).next().copied();
    lowest.filter(|top| top.height <= heads.latest).map(Some)
}

/// What the chain says about a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Evidence {
    /// It is the one at its height.
    Canonical,
    /// Another one is.
    Replaced,
    /// Nothing: the endpoint has not come that far. That is no evidence against it.
    Unknown,
}

/// Reads the evidence about a block from the canonical hashes that were found.
pub(super) fn evidence(canonical: &BTreeMap<u64, B256>, height: u64, hash: B256) -> Evidence {
    match canonical.get(&height) {
        Some(found) if *found == hash => Evidence::Canonical,
        #[cfg(feature = "planted-bugs")]
        Some(_) if stile_store::planted::Bug::SideBlock.is_planted() => Evidence::Canonical,
        Some(_) => Evidence::Replaced,
        None => Evidence::Unknown,
    }
}

/// The canonical hashes at some heights: from the window, or asked for where it does not reach.
pub(crate) async fn canonical(
    track: &Track,
    view: &View,
    heights: impl Iterator<Item = u64>,
) -> Result<BTreeMap<u64, B256>, ChainError> {
    let (mut hashes, mut unknown) = (BTreeMap::new(), BTreeSet::new());
    {
        let window = track.window();
        for height in heights {
            match window.hash_at(height) {
                Some(hash) => {
                    hashes.insert(height, hash);
                }
                None => {
                    unknown.insert(height);
                }
            }
        }
    }
    let unknown: Vec<u64> = unknown.into_iter().collect();
    for chunk in unknown.chunks(50) {
        for (height, header) in chunk.iter().zip(view.headers(chunk).await?) {
            hashes.extend(header.map(|header| (*height, header.hash)));
        }
    }
    Ok(hashes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_that_has_not_come_that_far_is_no_evidence() {
        let canonical = BTreeMap::from([(7, B256::repeat_byte(7))]);
        assert_eq!(evidence(&canonical, 7, B256::repeat_byte(7)), Evidence::Canonical);
        assert_eq!(evidence(&canonical, 7, B256::repeat_byte(8)), Evidence::Replaced);
        assert_eq!(evidence(&canonical, 8, B256::repeat_byte(8)), Evidence::Unknown);
    }

    #[test]
    fn hole_23_a_verdict_is_about_what_was_claimed() {
        let block = B256::repeat_byte(5);
        let receipt = Receipt {
            tx_hash: B256::repeat_byte(1),
            block_number: 5,
            block_hash: block,
            transaction_index: 0,
            status: Some(true),
            gas_used: 1,
            effective_gas_price: 1,
            contract_address: None,
        };
        let unmined = crate::tx::book::tests::open(1, 0);
        let due = (unmined.id, 5, block);
        let of = |receipt: Receipt| {
            claim(Some(&Open { receipt: Some(receipt), ..unmined.clone() }), &due)
        };
        let claimed = of(receipt.clone());
        assert!(claimed.is_some());
        assert_eq!(of(Receipt { gas_used: 2, ..receipt.clone() }), claimed, "no part of it");
        // While the endpoints were asked it was found in another block, by another attempt, to have
        // gone another way, in no block, or done.
        let other = B256::repeat_byte(9);
        assert_eq!(of(Receipt { block_hash: other, ..receipt.clone() }), None);
        assert_eq!(of(Receipt { block_number: 6, ..receipt.clone() }), None);
        for changed in [
            of(Receipt { tx_hash: other, ..receipt.clone() }),
            of(Receipt { status: Some(false), ..receipt.clone() }),
            of(Receipt { status: None, ..receipt.clone() }),
            of(Receipt { contract_address: Some(Default::default()), ..receipt }),
        ] {
            assert!(changed.is_some() && changed != claimed, "{changed:?}");
        }
        assert_eq!(claim(Some(&unmined), &due), None);
        assert_eq!(claim(None, &due), None);
    }

    const UNSAID: Heads = Heads { latest: 110, safe: None, finalized: None };

    fn window(heights: std::ops::RangeInclusive<u64>) -> HeaderWindow {
        let hash = |height: u64| B256::with_last_byte(height as u8);
        let header = |height| Header { height, hash: hash(height), parent: hash(height - 1) };
        HeaderWindow::new(200, heights.map(header))
    }

    #[test]
    fn hole_23_depth_counts_as_far_as_a_quorum_has_come() {
        // known up to, reached by a quorum, depth
        let table = [
            (110, Some(110), 110),
            // Twenty made-up blocks on top of a true one.
            (110, Some(90), 90),
            (110, Some(1010), 110),
            // What was known was forgotten, or is waited for.
            (95, Some(110), 95),
            (110, None, 110),
        ];
        for (known, reached, depth) in table {
            let found = counted(UNSAID, &window(80..=known), reached).latest;
            assert_eq!(found, depth, "{known} {reached:?}");
        }
        assert_eq!(counted(UNSAID, &HeaderWindow::new(9, []), Some(110)).latest, 0);
    }

    #[test]
    fn hole_23_the_block_that_makes_another_deep_enough_is_agreed_on_too() {
        let tagged = Heads { finalized: Some(100), ..UNSAID };
        let deep = Finality::Confirmations;
        let table = [
            (vec![deep(3)], 100, UNSAID, Some(103)),
            (vec![deep(0)], 100, UNSAID, Some(100)),
            (vec![deep(11)], 100, UNSAID, None),
            (vec![Finality::Finalized], 100, UNSAID, None),
            (vec![Finality::Finalized], 100, tagged, Some(100)),
            // A successor: buried, or finalized.
            (vec![deep(9), Finality::Finalized], 100, UNSAID, Some(109)),
            (vec![deep(9), Finality::Finalized], 100, tagged, Some(100)),
            (vec![deep(11), Finality::Finalized], 100, tagged, Some(100)),
            (vec![], 100, tagged, None),
        ];
        for (asked, height, heads, up_to) in table {
            assert_eq!(needed(&asked, height, &heads), up_to, "{asked:?} {heads:?}");
        }
        let top = |window: &HeaderWindow, needed| {
            on_top(window, 100, needed, &UNSAID).map(|top| top.map(|top| top.height))
        };
        assert_eq!(top(&window(90..=110), 100), Some(None));
        assert_eq!(top(&window(90..=110), 103), Some(Some(103)));
        // After a leap only the newest ones are known.
        assert_eq!(top(&window(108..=110), 103), Some(Some(108)));
        assert_eq!(top(&window(111..=120), 103), None, "nobody else has come that far");
        assert_eq!(top(&window(90..=102), 103), None);
    }

    #[test]
    fn hole_23_what_cannot_be_decided_hides_nothing_above_it() {
        let heights: Vec<u64> = (1..=120).collect();
        let table = [
            (&heights[..], 0, 1..=50),
            (&heights[..], 51, 51..=100),
            (&heights[..], 101, 101..=120),
            (&heights[..], 121, 1..=50),
            (&heights[..3], 0, 1..=3),
            // What was next is decided by now.
            (&heights[..3], 51, 1..=3),
            (&[][..], 51, 0..=0),
        ];
        for (heights, from, within) in table {
            assert_eq!(stretch(heights, from), within, "from {from} of {}", heights.len());
        }
        // Pass after pass every height has its turn, if none is ever decided.
        let (mut from, mut seen) = (0, BTreeSet::new());
        for _ in 0..3 {
            let within = stretch(&heights, from);
            from = within.end() + 1;
            seen.extend(within);
        }
        assert_eq!(seen.len(), heights.len());
    }
}
