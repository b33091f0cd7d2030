//! Which transactions offer more by the clock.
//!
//! An attempt could only be mined where there was a block. While a chain makes none, offering more
//! helps nobody: the time counts anew from the first block that comes then. A chain that makes blocks
//! only when it has transactions is another matter: it makes none for an offer that is too low.

use std::sync::Arc;
use std::time::Instant;

use stile_domain::{FeeQuote, SubState, TxId};
use tracing::debug;

use crate::core::Core;
use crate::tx::bind;
use crate::tx::book::Open;
use crate::tx::cause::Cause;
use crate::tx::replace::{LOOK_AGAIN, fees_of, replace};
use crate::tx::track::Track;

/// What there is to do about an attempt whose time has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// It was passed over by a block.
    Now,
    /// The first block since then has come after the time: it is given the time once more.
    Anew,
    /// No block has come since.
    Wait,
}

/// Decides by the newest block, if it is known. `waits_for_offers`: the chain makes no block for an offer
/// that is too low. How soon more is offered after that, and how much at most, is decided as ever.
fn turn(open: &mut Open, head: Option<u64>, waits_for_offers: bool) -> Turn {
    let Some(head) = head else { return Turn::Wait };
    // A chain that was set back has to come further than it is now, not than it was.
    let bid_at = open.bid_at.map_or(head, |bid_at| bid_at.min(head));
    open.bid_at = Some(bid_at);
    if head == bid_at {
        if waits_for_offers {
            return Turn::Now;
        }
        open.stalled = true;
        return Turn::Wait;
    }
    match std::mem::take(&mut open.stalled) {
        true => Turn::Anew,
        false => Turn::Now,
    }
}

/// Whether the chain makes blocks only when it has transactions. Of a chain that is not seen, or whose
/// blocks are not followed, nobody knows whether it has made one.
fn waits_for_offers(track: &Track) -> bool {
    let is_seen = track.pool.why_away().is_none()
        && track.unfollowed().is_none()
        && track.withheld().is_none();
    is_seen && track.pace.is_on_demand()
}

/// The attempts whose time has come: of each lane the lowest, and of the others those that offer
/// less than the chain asks for, as they would be held up next.
pub(crate) fn due(core: &Arc<Core>, track: &Arc<Track>) {
    let after = core.settings.tx.bump_after.unwrap_or(LOOK_AGAIN);
    let (now, most) = (Instant::now(), core.settings.tx.max_sends);
    let (quote, unfunded) = (track.quote(bind::fresh_quote()), track.unfunded());
    let head = track.heads().map(|heads| heads.latest);
    let waits_for_offers = waits_for_offers(track);
    let mut due: Vec<(TxId, Cause)> = Vec::new();
    {
        let mut book = track.book();
        let new = book.all_unmined().filter(|o| o.next_bump.is_some() && o.bid_at.is_none());
        for id in new.map(|open| open.id).collect::<Vec<_>>() {
            if let Some(open) = book.get_mut(id) {
                open.bid_at = head;
            }
        }
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
            // No block can have what is below the base fee, which only blocks change.
            let is_barred = too_low && matches!(quote, Some(FeeQuote::Market { .. }));
            if open.standing.sub_state == Some(SubState::Underpriced) {
                due.push((id, Cause::Underpriced));
                continue;
            }
            let is_next = too_low || book.is_lowest(open);
            let Some(open) = book.get_mut(id) else { continue };
            let turn = match (is_next, is_barred) {
                (false, _) => Turn::Anew,
                (true, true) => Turn::Now,
                (true, false) => turn(open, head, waits_for_offers),
            };
            match turn {
                Turn::Now => due.push((id, Cause::NotMined)),
                Turn::Anew => open.next_bump = Some(now + after),
                Turn::Wait => {}
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tx::book::tests::open;

    #[test]
    fn hole_38_no_fee_is_raised_while_no_block_is_made() {
        use Turn::{Anew, Now, Wait};
        // Where it was sent, and what becomes of it at these heads, one after the other.
        type Looks<'a> = &'a [(Option<u64>, Turn)];
        let table: &[(Option<u64>, Looks<'_>)] = &[
            (Some(7), &[(Some(8), Now), (Some(8), Now), (Some(9), Now)]),
            // The chain stands still, and goes on.
            (Some(7), &[(Some(7), Wait), (Some(7), Wait), (Some(8), Anew), (Some(8), Now)]),
            (Some(7), &[(None, Wait), (Some(7), Wait), (Some(9), Anew), (Some(10), Now)]),
            (None, &[(None, Wait), (Some(7), Wait), (Some(8), Anew), (Some(9), Now)]),
            // It was emptied.
            (Some(400), &[(Some(3), Wait), (Some(3), Wait), (Some(4), Anew), (Some(5), Now)]),
        ];
        for (bid_at, looks) in table {
            let mut open = Open { bid_at: *bid_at, ..open(1, 0) };
            for (head, expected) in *looks {
                let found = turn(&mut open, *head, false);
                assert_eq!(found, *expected, "{bid_at:?} {head:?} of {looks:?}");
            }
        }
    }

    #[test]
    fn hole_38_more_is_offered_where_no_block_is_made_for_less() {
        use Turn::{Anew, Now, Wait};
        // Where it was sent, and what becomes of it at these heads of a chain that is known by then to
        // make blocks only when it has transactions, or is not.
        type Looks<'a> = &'a [(Option<u64>, bool, Turn)];
        let table: &[(Option<u64>, Looks<'_>)] = &[
            (Some(7), &[(Some(7), true, Now), (Some(7), true, Now)]),
            (Some(7), &[(Some(8), true, Now)]),
            // It was not seen when it was sent, or is not now.
            (None, &[(None, true, Wait), (Some(7), true, Now)]),
            (Some(7), &[(None, true, Wait), (Some(7), false, Wait), (Some(7), true, Now)]),
            // It was emptied.
            (Some(400), &[(Some(3), true, Now)]),
            // An empty block has come: it makes blocks by itself.
            (Some(7), &[(Some(7), false, Wait), (Some(8), false, Anew), (Some(8), false, Now)]),
        ];
        for (bid_at, looks) in table {
            let mut open = Open { bid_at: *bid_at, ..open(1, 0) };
            for (head, on_demand, expected) in *looks {
                let found = turn(&mut open, *head, *on_demand);
                assert_eq!(found, *expected, "{bid_at:?} {head:?} {on_demand} of {looks:?}");
            }
        }
    }
}
