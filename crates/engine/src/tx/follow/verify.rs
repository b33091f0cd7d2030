//! Comparing what was taken over with the chain.

use std::sync::Arc;

use stile_chain::{ChainError, View};
use stile_domain::{B256, Lane, TxId};
use stile_store::Tx;

use super::finality::{self, Evidence};
use super::{apply, done_above, take_back};
use crate::core::Core;
use crate::tx::track::Track;

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
            .filter(|open| open.unverified || open.untold_fork)
            .filter_map(|open| open.block().map(|(height, hash)| (open.id, height, hash)))
            .collect()
    };
    if unverified.is_empty() {
        return Ok(());
    }
    let heights = unverified.iter().map(|(_, height, _)| *height);
    let canonical = finality::canonical(track, view, heights).await?;
    let (window, heads) = (track.window().clone(), track.heads().unwrap_or_default());
    let mut again = Vec::new();
    {
        let mut book = track.book();
        for (id, height, hash) in unverified {
            let Some(open) = book.get_mut(id) else { continue };
            match finality::evidence(&canonical, height, hash) {
                // Looked at again in the next pass.
                Evidence::Unknown => continue,
                Evidence::Canonical if open.untold_fork && open.receipt.is_some() => {
                    open.unverified = false;
                    apply::forked(core, &mut book, &window, &heads, id);
                }
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

/// Finished transactions that a reorganisation may have reopened while nobody looked.
async fn finished(
    core: &Arc<Core>,
    track: &Track,
    view: &View,
    lanes: &[Lane],
) -> Result<(), ChainError> {
    let tip = view.head().height;
    let floor = tip.saturating_sub(u64::from(core.settings.tx.reorg_window));
    let done = done_above(core, track, lanes, floor).await?;
    let heights = done.iter().filter_map(|tx| Some(decided_in(&tx.tx)?.0));
    let canonical = finality::canonical(track, view, heights).await?;
    let mut again: Vec<TxId> = Vec::new();
    {
        let mut book = track.book();
        for tx in done {
            let Some((height, hash)) = decided_in(&tx.tx) else { continue };
            let (id, lane) = (tx.tx.id, tx.tx.lane);
            match finality::evidence(&canonical, height, hash) {
                Evidence::Canonical => continue,
                Evidence::Unknown => {
                    track.adopted().push(lane);
                    continue;
                }
                Evidence::Replaced => {}
            }
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
fn decided_in(tx: &Tx) -> Option<(u64, B256)> {
    let own = tx.receipt.as_ref().map(|receipt| (receipt.block_number, receipt.block_hash));
    own.or(tx.rival.map(|rival| (rival.block_number, rival.block_hash)))
}
