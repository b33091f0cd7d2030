//! Offers of accounts that cannot pay them, where the chain asks for less by now.

use stile_chain::UnsignedTx;
use stile_domain::{Lane, Payload, TxId, U256};

use crate::core::Core;
use crate::tx::bind;
use crate::tx::book::Open;
use crate::tx::track::Track;

/// Those of a lane whose account cannot pay that are to offer less: the chain asks for less than half of
/// what they offer by now, which nobody took and no caller stated, and the account can pay that for the
/// lowest.
pub(crate) fn too_dear(core: &Core, track: &Track, lane: Lane, balance: U256) -> Vec<TxId> {
    let Some(quote) = track.quote(bind::fresh_quote()) else { return Vec::new() };
    let ceiling = core.ceiling(lane.chain, Some(&quote));
    let cheaper = |open: &Open| {
        let before = UnsignedTx::of(&open.newest()?.raw)?;
        let limit = open.fee_limit.map_or(ceiling.limit(), |own| own.min(ceiling.limit()));
        let fees = core.settings.tx.fees.first(&Payload::default(), &quote, limit);
        let is_free = !open.has_stated_price && !open.may_be_had() && !open.replacing;
        let is_much = is_much_less(fees.most(), before.fees.most())
            && open.lowered.is_none_or(|lowered| is_much_less(fees.most(), lowered));
        let gas = U256::from(before.gas_limit).saturating_mul(U256::from(fees.most()));
        (is_free && is_much).then(|| gas.saturating_add(before.value))
    };
    let mut book = track.book();
    let market = core.settings.tx.fees.first(&Payload::default(), &quote, ceiling.limit()).most();
    let all: Vec<TxId> = book.unmined_of(lane).map(|open| open.id).collect();
    for id in all {
        if let Some(open) = book.get_mut(id) {
            open.lowered = still_lowered(open.lowered, market);
        }
    }
    let mut unmined = book.unmined_of(lane);
    let lowest = unmined.next().and_then(|open| Some((open.id, cheaper(open)?)));
    match lowest.filter(|(_, cost)| *cost <= balance) {
        Some((lowest, _)) => {
            let others = unmined.filter(|open| cheaper(open).is_some()).map(|open| open.id);
            std::iter::once(lowest).chain(others).collect()
        }
        None => Vec::new(),
    }
}

/// Whether the chain asks for so much less than what was offered that it is worth another attempt.
fn is_much_less(market: u128, offer: u128) -> bool {
    market.saturating_mul(2) <= offer
}

/// What a transaction was last lowered to, until the chain has asked for much more since: an endpoint that
/// quotes less than it takes has each lowered once for each time that its quote falls.
fn still_lowered(lowered: Option<u128>, market: u128) -> Option<u128> {
    lowered.filter(|lowered| !is_much_less(*lowered, market))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An endpoint quotes 10 and refuses less than 100 as underpriced, and the account cannot pay that.
    #[test]
    fn hole_42_an_offer_is_lowered_once_for_each_fall_of_the_quote() {
        let mut lowered = None;
        let mut times = 0;
        for (market, expected) in [
            (100, 0),
            (10, 1),
            (10, 1),
            (9, 1),
            (19, 1),
            (10, 1),
            (5, 2),
            (5, 2),
            (100, 2),
            (10, 3),
        ] {
            lowered = still_lowered(lowered, market);
            // It is raised to a hundred each time.
            if is_much_less(market, 100) && lowered.is_none_or(|it| is_much_less(market, it)) {
                (lowered, times) = (Some(market), times + 1);
            }
            assert_eq!(times, expected, "{market}");
        }
    }
}
