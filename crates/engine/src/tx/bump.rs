//! Which transactions offer more by the clock.

use std::sync::Arc;
use std::time::Instant;

use stile_domain::{SubState, TxId};
use tracing::debug;

use crate::core::Core;
use crate::tx::bind;
use crate::tx::cause::Cause;
use crate::tx::replace::{LOOK_AGAIN, fees_of, replace};
use crate::tx::track::Track;

/// The attempts whose time has come: of each lane the lowest, and of the others those that offer
/// less than the chain asks for, as they would be held up next.
pub(crate) fn due(core: &Arc<Core>, track: &Arc<Track>) {
    let after = core.settings.tx.bump_after.unwrap_or(LOOK_AGAIN);
    let (now, most) = (Instant::now(), core.settings.tx.max_sends);
    let (quote, unfunded) = (track.quote(bind::fresh_quote()), track.unfunded());
    let mut due: Vec<(TxId, Cause)> = Vec::new();
    {
        let mut book = track.book();
        let ripe: Vec<TxId> = book
            .all_unmined()
            .filter(|open| !open.replacing && open.next_bump.is_some_and(|at| at <= now))
            .filter(|open| most == 0 || open.sends < most)
            // What cannot be paid for now is not to cost more.
            .filter(|open| !unfunded.contains(&open.lane))
            .map(|open| open.id)
            .collect();
        for id in ripe {
            let Some(open) = book.get(id) else { continue };
            let offer = open.newest().and_then(fees_of);
            let too_low = match (offer, quote) {
                (Some(offer), Some(quote)) => core.settings.tx.fees.is_too_low(&offer, &quote),
                _ => false,
            };
            if open.standing.sub_state == Some(SubState::Underpriced) {
                due.push((id, Cause::Underpriced));
            } else if too_low || book.is_lowest(open) {
                due.push((id, Cause::NotMined));
            } else if let Some(open) = book.get_mut(id) {
                open.next_bump = Some(now + after);
            }
        }
    }
    if !due.is_empty() {
        debug!(chain = %track.pool.chain(), count = due.len(), "not mined for long: new attempts");
    }
    for (id, cause) in due {
        replace(core, track, id, cause);
    }
}
