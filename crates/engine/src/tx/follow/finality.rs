//! Calling transactions done.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use stile_chain::{ChainError, View};
use stile_domain::{B256, Finality, Heads, Step, Successor, TxId, TxState};
use stile_store::Set;
use tracing::{debug, warn};

use super::apply;
use crate::core::Core;
use crate::metrics;
use crate::tx::book::Open;
use crate::tx::confirmations::{self, Telling};
use crate::tx::overtake;
use crate::tx::track::Track;

/// Confirms what has the evidence it asked for: its receipt's block is the canonical one at its
/// height, deep enough, and the endpoints do not contradict each other about it.
pub(super) async fn conclude(
    core: &Arc<Core>,
    track: &Track,
    view: &View,
    disputed: &mut bool,
) -> Result<(), ChainError> {
    let Some(heads) = track.heads() else { return Ok(()) };
    let due: Vec<(TxId, u64, B256)> = {
        let book = track.book();
        let decided = book.iter().filter_map(|open| Some((open, open.block()?)));
        decided
            .filter(|(open, (height, _))| is_due(core, open, *height, &heads))
            .map(|(open, (height, hash))| (open.id, height, hash))
            .collect()
    };
    let Some(highest) = due.iter().map(|(_, height, _)| *height).max() else { return Ok(()) };
    let canonical = canonical(track, view, due.iter().map(|(_, height, _)| *height)).await?;
    let Some(hash) = canonical.get(&highest) else { return Ok(()) };
    if track.pool.endpoints().len() > 1 {
        let votes = track.pool.votes(highest, *hash).await;
        if !votes.carry() {
            metrics::disputed();
            if !std::mem::replace(disputed, true) {
                warn!(chain = %track.pool.chain(), height = highest, agree = votes.agree, disagree = votes.disagree,
                  "the endpoints are on different forks: nothing is confirmed until most agree");
            }
            return Ok(());
        }
    }
    *disputed = false;
    let window = track.window().clone();
    let successors = overtake::successors(core, track, &due).await;
    let mut again = Vec::new();
    {
        let mut book = track.book();
        for (id, height, hash) in due {
            match evidence(&canonical, height, hash) {
                Evidence::Canonical => {}
                Evidence::Unknown => continue,
                Evidence::Replaced => {
                    apply::unmine(core, &mut book, id);
                    again.push(id);
                    continue;
                }
            }
            let Some(open) = book.get(id) else { continue };
            let Some(receipt) = open.receipt.clone() else {
                overtake::settled(core, &mut book, id, &successors);
                continue;
            };
            let (lane, accepted) = (open.lane, open.accepted);
            let Telling { data, told } =
                confirmations::tell(&window, &receipt, open.finality, open.told, false);
            let mut change = book.step(id, Step::Final, data);
            if let Some(change) = &mut change {
                change.told = told.map_or(Set::Keep, Set::To);
            }
            if let Some(accepted) = accepted {
                metrics::confirmed(accepted.elapsed());
            }
            debug!(txId = %id, signer = %lane.signer, block = height, "confirmed");
            core.recorder.write(lane, change);
            book.close(id);
        }
    }
    core.submit(track, again);
    Ok(())
}

/// Whether a transaction has the evidence that it asked for, from the height of the block that
/// decided about it. One that is to be made anew waits until nothing can bring it back.
fn is_due(core: &Core, open: &Open, height: u64, heads: &Heads) -> bool {
    match (open.standing.state, open.rival) {
        (TxState::Tracking, None) => open.finality.is_reached(height, heads),
        (TxState::Allocated | TxState::Submitted, Some(rival)) => {
            let buried = heads.confirmations(height) >= u64::from(core.settings.tx.reorg_window)
                || Finality::Finalized.is_reached(height, heads);
            let anew = open.resend && rival.by == Successor::Outsider;
            if anew { buried } else { open.finality.is_reached(height, heads) }
        }
        _ => false,
    }
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
}
