//! Comparing what was taken over with the chain.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use stile_chain::{ChainError, View};
use stile_domain::{
    B256, Decision, Finality, Header, HeaderWindow, Heads, Lane, SetBack, TakenBack, TxId,
};
use stile_store::{OpenTx, Tx};

use super::alarm::{self, Lost};
use super::evidence;
use super::finality::{self, Evidence};
use super::{HIGHEST, apply, done_between, held_lanes, is_made_anew, take_back};
use crate::core::Core;
use crate::metrics;
use crate::tx::track::{Left, Place, Track};

/// Looks at transactions that came with a lane and are in a block according to the store: whether
/// that block is canonical still, and whether somebody has to be told that the blocks on top of it
/// were replaced.
pub(super) async fn adopted(
    core: &Arc<Core>,
    track: &Track,
    view: &View,
) -> Result<(), ChainError> {
    let mut lanes: Vec<Lane> = std::mem::take(&mut *track.adopted());
    lanes.sort_unstable();
    lanes.dedup();
    if !lanes.is_empty()
        && let Err(error) = finished(core, track, view, &lanes).await
    {
        track.adopted().extend(lanes);
        return Err(error);
    }
    let unverified: Vec<(TxId, u64, B256)> = {
        let book = track.book();
        book.iter()
            .filter(|open| (open.unverified || open.untold_fork) && !open.lost)
            .filter_map(|open| open.block().map(|(height, hash)| (open.id, height, hash)))
            .collect()
    };
    if unverified.is_empty() {
        return Ok(());
    }
    let heights = unverified.iter().map(|(_, height, _)| *height);
    let canonical = finality::canonical(track, view, heights).await?;
    let claims = unverified.iter().map(|(_, height, hash)| (*height, *hash));
    let canonical = confirmed(track, view, canonical, claims).await;
    let (window, heads) = (track.window().clone(), track.heads().unwrap_or_default());
    let end = end(core, track, unverified.iter().map(|(_, height, _)| *height)).await?;
    let (highest, set_back) = track.fallen();
    let lost: Vec<Lost> = {
        let book = track.book();
        let seen = unverified.iter().filter_map(|(id, height, block)| {
            let open = book.get(*id)?;
            let evidence = seen(&canonical, *height, *block, end);
            let place = (*height, *block);
            let fate = fate(core, track, open.finality, place, &heads, highest, set_back);
            let is_lost = evidence == Evidence::Replaced && fate == TakenBack::Alarm;
            is_lost.then_some(Lost { lane: open.lane, id: *id, height: *height, block: *block })
        });
        seen.collect()
    };
    let is_lost: HashSet<TxId> = lost.iter().map(|lost| lost.id).collect();
    alarm::raise(core, track, lost).await?;
    let mut again = Vec::new();
    {
        let mut book = track.book();
        for (id, height, hash) in unverified {
            let Some(open) = book.get_mut(id) else { continue };
            if is_lost.contains(&id) {
                apply::lose(&mut book, id);
                continue;
            }
            match seen(&canonical, height, hash, end) {
                // Looked at again in the next pass.
                Evidence::Unknown => continue,
                Evidence::Canonical if open.untold_fork && open.receipt.is_some() => {
                    open.unverified = false;
                    apply::forked(core, &mut book, &window, &heads, id);
                }
                // It was opened again to be looked at, and is what it was.
                Evidence::Canonical if open.standing.is_done() => book.close(id),
                Evidence::Canonical => open.unverified = false,
                Evidence::Replaced => {
                    apply::unmine(core, &mut book, id);
                    again.push(id);
                }
            }
        }
        // It may be in another block by now: that is asked for before anything else.
        for id in &again {
            if let Some(open) = book.get_mut(*id) {
                open.next_check = std::time::Instant::now();
            }
        }
    }
    core.submit(track, again);
    Ok(())
}

/// Looks at these claims again that the endpoint which is followed contradicts: only where a quorum
/// does, too, is there another block. Where none does, nothing is known.
async fn confirmed(
    track: &Track,
    view: &View,
    mut canonical: BTreeMap<u64, B256>,
    claims: impl Iterator<Item = (u64, B256)>,
) -> BTreeMap<u64, B256> {
    if track.pool.quorum().configured() == 1 {
        return canonical;
    }
    let is_replaced = |(height, hash): &(u64, B256)| {
        finality::evidence(&canonical, *height, *hash) == Evidence::Replaced
    };
    let mut claims: Vec<(u64, B256)> = claims.filter(is_replaced).collect();
    claims.sort_unstable();
    claims.dedup();
    let decided = match claims.is_empty() {
        true => Vec::new(),
        false => evidence::canonical(track, &claims, view.place()).await,
    };
    for ((height, hash), (decision, _)) in claims.into_iter().zip(decided) {
        match decision {
            Decision::Agreed => canonical.insert(height, hash),
            Decision::Outvoted(other) => canonical.insert(height, other),
            Decision::Open(_) => canonical.remove(&height),
        };
    }
    canonical
}

/// The chain was picked up far above where it was left, by this process or by one before it. If the
/// block is gone at which it was left, what stood on it is looked at again: now on the lanes that are
/// held, and later on those that come.
pub(super) async fn left(core: &Core, track: &Track, view: &View) {
    let open: Vec<Left> = track.left().into_iter().filter(|left| !left.is_gone).collect();
    if open.is_empty() {
        return;
    }
    let mut claims: Vec<(u64, B256)> =
        open.iter().map(|left| (left.tip.height, left.tip.hash)).collect();
    claims.extend(open.iter().map(|left| (left.base.height, left.base.hash)));
    let mut decided = evidence::canonical(track, &claims, view.place()).await;
    let below = decided.split_off(open.len().min(decided.len()));
    for ((left, (decision, _)), (below, _)) in open.into_iter().zip(decided).zip(below) {
        let tip = left.tip;
        // How much is gone is found out first.
        let is_deep = match below {
            Decision::Agreed => false,
            Decision::Outvoted(_) => left.base != tip,
            Decision::Open(_) => continue,
        };
        match decision {
            Decision::Agreed => track.found_left(tip, false, false),
            Decision::Outvoted(_) => {
                tracing::warn!(chain = %track.pool.chain(), height = tip.height, hash = %tip.hash, is_deep,
                      "the block at which the chain was left is gone: what stood on it is looked at again");
                track.found_left(tip, true, is_deep);
                let lanes = held_lanes(core, track);
                track.adopted().extend(lanes);
            }
            // Asked again in the next pass.
            Decision::Open(_) => {}
        }
    }
}

/// The newest headers on record that nothing on record goes on from, below what is known: there the
/// chain was left, and picked up again far above.
pub(super) fn left_behind(headers: &[Header], window: &HeaderWindow) -> Vec<Header> {
    let Some(bottom) = window.bottom() else { return Vec::new() };
    let parents: HashSet<B256> = headers.iter().map(|header| header.parent).collect();
    let below = headers.iter().filter(|header| header.height < bottom);
    below.filter(|header| !parents.contains(&header.hash)).copied().collect()
}

/// The lowest of these headers that is no further below another than reorganisations are followed
/// through, and one more.
pub(super) fn base(headers: &[Header], tip: Header, reorg_window: u32) -> Header {
    let lowest = tip.height.saturating_sub(u64::from(reorg_window) + 1);
    let below = headers.iter().filter(|it| (lowest..=tip.height).contains(&it.height));
    below.min_by_key(|header| header.height).copied().unwrap_or(tip)
}

/// Up to which height a person decides about what is gone, by the headers that were replaced: stretches
/// with the first block, or longer than reorganisations are followed through. Not what is below that
/// window by now.
pub(super) fn gone_up_to(replaced: &[Header], tip: u64, reorg_window: u32) -> Option<u64> {
    let window = u64::from(reorg_window);
    let heights: BTreeSet<u64> = replaced.iter().map(|header| header.height).collect();
    let (mut gone, mut first, mut last) = (None, None, None);
    for height in heights {
        if last.is_none_or(|last: u64| last + 1 != height) {
            first = Some(height);
        }
        last = Some(height);
        let is_deep = first.is_some_and(|first| first == 0 || height - first >= window);
        if is_deep && height.saturating_add(window) >= tip {
            gone = Some(height);
        }
    }
    gone
}

/// The heights between which finished transactions may have been reopened while nobody looked: the
/// newest, and those below each block that is gone at which the chain was left.
fn stretches(head: u64, gone: &[u64], window: u64) -> Vec<(u64, u64)> {
    let below = gone.iter().map(|height| (height.saturating_sub(window), *height));
    below.chain([(head.saturating_sub(window), HIGHEST)]).collect()
}

/// What becomes of a transaction whose block is gone. `come` is how far the chain had come that had it,
/// and `set_back` is how it was set back from there.
pub(super) fn fate(
    core: &Core,
    track: &Track,
    finality: Finality,
    (height, block): (u64, B256),
    heads: &Heads,
    come: u64,
    set_back: SetBack,
) -> TakenBack {
    let (come, set_back) = match track.place_of(height, block) {
        Place::Lost => return TakenBack::Alarm,
        Place::Since => (heads.latest, SetBack::default()),
        Place::Usual => (heads.latest.max(come), set_back),
    };
    let heads = Heads { latest: come, ..*heads };
    set_back.fate(finality, height, &heads, core.settings.tx.reorg_window)
}

/// Where the chain ends, if that tells anything of these heights: what is above it is gone. Not where
/// somebody else has seen it come further, or the endpoints say that it has.
async fn end(
    core: &Core,
    track: &Track,
    heights: impl Iterator<Item = u64>,
) -> Result<Option<u64>, ChainError> {
    let Some(ends_at) = track.ends_at() else { return Ok(None) };
    if heights.max().is_none_or(|highest| highest <= ends_at) {
        return Ok(None);
    }
    let chain = track.pool.chain();
    let headers = core.store.headers(chain).await.map_err(|error| {
        metrics::store_failed("headers");
        let why = format!("the headers on record could not be read: {error}");
        ChainError::Unreachable { chain, said: vec![why] }
    })?;
    let on_record = headers.last().map_or(0, |header| header.height);
    Ok(track.pool.depth_height().map(|reached| reached.max(on_record).max(ends_at)))
}

/// What the chain says about a block. A receipt above the end of the chain is no receipt.
fn seen(canonical: &BTreeMap<u64, B256>, height: u64, block: B256, end: Option<u64>) -> Evidence {
    match finality::evidence(canonical, height, block) {
        Evidence::Unknown if end.is_some_and(|end| height > end) => Evidence::Replaced,
        evidence => evidence,
    }
}

/// Finished transactions that a reorganisation may have reopened while nobody looked.
async fn finished(
    core: &Arc<Core>,
    track: &Track,
    view: &View,
    lanes: &[Lane],
) -> Result<(), ChainError> {
    // An endpoint that is behind does not make the chain any shorter.
    let head = track.window().tip().map_or(view.head().height, |tip| tip.height);
    let left = track.left();
    let left_at: Vec<u64> =
        left.iter().filter(|left| left.is_gone).map(|left| left.tip.height).collect();
    let mut done: BTreeMap<TxId, OpenTx> = BTreeMap::new();
    for stretch in stretches(head, &left_at, u64::from(core.settings.tx.reorg_window)) {
        let found = done_between(core, track, lanes, stretch).await?;
        done.extend(found.into_iter().map(|tx| (tx.tx.id, tx)));
    }
    let done: Vec<OpenTx> = done.into_values().collect();
    let heights = done.iter().filter_map(|tx| Some(decided_in(&tx.tx)?.0));
    let canonical = finality::canonical(track, view, heights).await?;
    let claims = done.iter().filter_map(|tx| decided_in(&tx.tx));
    let canonical = confirmed(track, view, canonical, claims).await;
    let heights = done.iter().filter_map(|tx| Some(decided_in(&tx.tx)?.0));
    let end = end(core, track, heights).await?;
    let heads = track.heads().unwrap_or_default();
    let (highest, set_back) = track.fallen();
    let (mut gone, mut lost) = (Vec::new(), Vec::new());
    for tx in done {
        let Some((height, block)) = decided_in(&tx.tx) else { continue };
        if is_made_anew(&tx.tx) {
            continue;
        }
        match seen(&canonical, height, block, end) {
            Evidence::Canonical => continue,
            Evidence::Unknown => {
                track.adopted().push(tx.tx.lane);
                continue;
            }
            Evidence::Replaced => {}
        }
        // How deep it was when the chain was left counts.
        let left_at = left_at.iter().copied().filter(|left| height <= *left).min();
        let (latest, come) = left_at.map_or((head, highest), |left| (left, left));
        let heads = Heads { latest, ..heads };
        match fate(core, track, tx.tx.finality, (height, block), &heads, come, set_back) {
            TakenBack::Reopened => gone.push(tx),
            TakenBack::Alarm => lost.push(Lost { lane: tx.tx.lane, id: tx.tx.id, height, block }),
        }
    }
    alarm::raise(core, track, lost).await?;
    let mut again: Vec<TxId> = Vec::new();
    {
        let mut book = track.book();
        for tx in gone {
            let id = tx.tx.id;
            take_back(&mut book, tx);
            apply::unmine(core, &mut book, id);
            if let Some(open) = book.get_mut(id) {
                open.next_check = std::time::Instant::now();
            }
            again.push(id);
        }
    }
    core.submit(track, again);
    Ok(())
}

/// The block that decided about a finished transaction: its own, or that of the one which took its
/// nonce.
pub(super) fn decided_in(tx: &Tx) -> Option<(u64, B256)> {
    let own = tx.receipt.as_ref().map(|receipt| (receipt.block_number, receipt.block_hash));
    own.or(tx.rival.map(|rival| (rival.block_number, rival.block_hash)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(fork: u8, height: u64) -> B256 {
        let mut bytes = [fork; 32];
        bytes[31] = height as u8;
        B256::from(bytes)
    }

    fn header(fork: u8, height: u64) -> Header {
        Header { height, hash: hash(fork, height), parent: hash(fork, height - 1) }
    }

    fn headers(fork: u8, heights: std::ops::RangeInclusive<u64>) -> Vec<Header> {
        heights.map(|height| header(fork, height)).collect()
    }

    #[test]
    fn hole_39_what_a_deep_loss_took_is_known_from_the_headers_that_were_replaced() {
        let header = |height| Header { height, hash: hash(1, height), parent: hash(1, height) };
        // stretches that were replaced, the tip, and up to where a person decides
        for (stretches, tip, expected) in [
            (vec![], 50, None),
            (vec![5..=8], 50, None),
            (vec![0..=8], 20, Some(8)),
            (vec![0..=8], 28, Some(8)),
            (vec![0..=8], 29, None),
            (vec![100..=119], 125, None),
            (vec![100..=120], 125, Some(120)),
            (vec![0..=8, 10..=12], 20, Some(8)),
        ] {
            let replaced: Vec<Header> = stretches.iter().cloned().flatten().map(header).collect();
            assert_eq!(gone_up_to(&replaced, tip, 20), expected, "{stretches:?} {tip}");
        }
    }

    #[test]
    fn hole_39_where_a_chain_was_left_a_block_below_the_window_is_remembered() {
        let header = |height| Header { height, hash: hash(1, height), parent: hash(1, height - 1) };
        let known: Vec<Header> = (100..=180).map(header).collect();
        for (tip, window, expected) in [(180, 20, 159), (180, 200, 100), (110, 20, 100)] {
            assert_eq!(base(&known, header(tip), window).height, expected, "{tip} {window}");
        }
        assert_eq!(base(&[], header(180), 20).height, 180, "nothing else is on record");
    }

    #[test]
    fn hole_31_where_the_chain_was_left_is_told_by_the_record() {
        for (on_record, limit, expected) in [
            (vec![], 10, vec![]),
            (headers(1, 5..=9), 10, vec![]),
            // More than is looked back, and all of one chain.
            (headers(1, 5..=9), 3, vec![]),
            // Left at 9, and picked up at 90.
            ([headers(1, 7..=9), headers(1, 90..=95)].concat(), 10, vec![header(1, 9)]),
            ([headers(1, 9..=9), headers(1, 90..=90)].concat(), 10, vec![header(1, 9)]),
            // Twice.
            (
                [headers(1, 9..=9), headers(1, 50..=50), headers(1, 90..=95)].concat(),
                10,
                vec![header(1, 9), header(1, 50)],
            ),
            // Another chain goes on right above.
            ([headers(1, 7..=9), headers(2, 10..=12)].concat(), 10, vec![header(1, 9)]),
        ] {
            let window = HeaderWindow::new(limit, on_record.iter().copied());
            assert_eq!(left_behind(&on_record, &window), expected, "{on_record:?}");
        }
    }

    #[test]
    fn hole_39_a_receipt_above_the_head_is_no_receipt() {
        let canonical = BTreeMap::from([(7, hash(1, 7))]);
        for (height, fork, end, expected) in [
            (7, 1, Some(9), Evidence::Canonical),
            (7, 2, None, Evidence::Replaced),
            (10, 1, Some(9), Evidence::Replaced),
            // The chain has come that far, and the endpoint does not say.
            (9, 1, Some(9), Evidence::Unknown),
            (8, 1, Some(9), Evidence::Unknown),
            // It was set back a moment ago, or somebody else knows more.
            (10, 1, None, Evidence::Unknown),
        ] {
            let found = seen(&canonical, height, hash(fork, height), end);
            assert_eq!(found, expected, "{height} {end:?}");
        }
    }

    #[test]
    fn hole_31_what_was_done_below_a_block_that_is_gone_is_looked_at() {
        assert_eq!(stretches(1000, &[], 100), [(900, HIGHEST)]);
        assert_eq!(stretches(1000, &[200], 100), [(100, 200), (900, HIGHEST)]);
        assert_eq!(stretches(1000, &[50, 200], 100), [(0, 50), (100, 200), (900, HIGHEST)]);
    }
}
