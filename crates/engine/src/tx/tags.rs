//! Finality that a chain cannot give: it has no block that it calls `safe`, or `finalized`.
//!
//! What the chain has is kept by its pool, by the word of a quorum; as long as that is not known,
//! nothing is refused and nothing is said.

use std::collections::HashSet;
use std::time::Duration;

use stile_chain::Tag;
use stile_domain::{Finality, Lane};
use tracing::warn;

use crate::core::Core;
use crate::tx::error::TxError;
use crate::tx::track::Track;

/// How long a caller waits who is the first to ask for a tag.
const AT_THE_DOOR: Duration = Duration::from_secs(1);

/// How long the follower waits.
const BESIDE_BLOCKS: Duration = Duration::from_millis(300);

/// Refuses what would never be done.
pub(super) async fn check(core: &Core, lane: Lane, finality: Finality) -> Result<(), TxError> {
    if matches!(finality, Finality::Confirmations(_)) {
        return Ok(());
    }
    let Some(track) = core.tracks.get(lane.chain) else { return Ok(()) };
    if !is_lacking(track, finality, AT_THE_DOOR).await {
        return Ok(());
    }
    // Asked a moment ago, if at all.
    let has_safe = finality == Finality::Finalized
        && track.pool.offers(Tag::Safe, AT_THE_DOOR).await == Some(true);
    Err(TxError::FinalityUnavailable { chain: lane.chain, finality, has_safe })
}

/// Whether the chain is known not to give it.
async fn is_lacking(track: &Track, finality: Finality, within: Duration) -> bool {
    // What is finalized is safe as well.
    let tags: &[Tag] = match finality {
        Finality::Confirmations(_) => return false,
        Finality::Safe => &[Tag::Safe, Tag::Finalized],
        Finality::Finalized => &[Tag::Finalized],
    };
    for tag in tags {
        if track.pool.offers(*tag, within).await != Some(false) {
            return false;
        }
    }
    true
}

/// Takes note, beside the blocks, of what is waited for and does not come: what was accepted before
/// that was known, and what the configuration says.
pub(super) async fn note(core: &Core, track: &Track) {
    let default = core.settings.tx.finality;
    let mut wanted: HashSet<Finality> = {
        let book = track.book();
        book.iter().filter(|open| !open.is_unmined()).map(|open| open.finality).collect()
    };
    wanted.insert(default);
    wanted.retain(|finality| !matches!(finality, Finality::Confirmations(_)));
    for finality in wanted {
        let is_lacking = is_lacking(track, finality, BESIDE_BLOCKS).await;
        if track.note_lacking(finality, is_lacking) {
            let (chain, tag) = (track.pool.chain(), name(finality));
            let configured = finality == default;
            warn!(%chain, tag, configured,
                  "the chain calls none of its blocks so: what waits for that is never done, and \
                   requests for it are refused; ask for a number of confirmations");
        }
    }
}

/// The name of the block that it goes by.
pub(super) fn name(finality: Finality) -> &'static str {
    match finality {
        Finality::Confirmations(_) => "latest",
        Finality::Safe => Tag::Safe.name(),
        Finality::Finalized => Tag::Finalized.name(),
    }
}
