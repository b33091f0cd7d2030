//! How far one endpoint's word about fees goes.
//!
//! Money is spent by a quote. Where a chain has several endpoints and only one of them answers, the
//! others may be kept from answering, so its word counts only within reach of what was agreed before.

use crate::FeeQuote;
use crate::ceiling::LEAST_LIMIT_WEI;

/// How many times as much one quote may be as another for the two to say the same, and how many times
/// what was last agreed one word alone counts. Base fees double within six full blocks, so honest
/// endpoints that are a few blocks apart stay within it.
pub const TIMES_AGREED: u128 = 4;

impl FeeQuote {
    /// What a unit of gas costs in all.
    pub fn price(&self) -> u128 {
        match *self {
            Self::Market { base_fee, priority_fee } => base_fee.saturating_add(priority_fee),
            Self::Legacy { gas_price } => gas_price,
        }
    }

    /// What is asked for, where it is known whether somebody else offers anything lately. If nobody
    /// does, what nodes tell of tips and prices is what this account's owner has offered before, and it
    /// rises with each higher offer: so it is not more than was asked before. The base fee is the chain's.
    #[must_use]
    pub fn heeded(self, before: Option<&Self>, by_others: bool) -> Self {
        match (self, before.filter(|_| !by_others)) {
            (
                Self::Market { base_fee, priority_fee },
                Some(Self::Market { priority_fee: known, .. }),
            ) => Self::Market { base_fee, priority_fee: priority_fee.min(*known) },
            (Self::Legacy { gas_price }, Some(Self::Legacy { gas_price: known })) => {
                Self::Legacy { gas_price: gas_price.min(*known) }
            }
            (told, _) => told,
        }
    }

    /// The tip, or the price where there is no base fee: what rises with what is offered.
    fn bid(&self) -> u128 {
        match *self {
            Self::Market { priority_fee, .. } => priority_fee,
            Self::Legacy { gas_price } => gas_price,
        }
    }

    /// The one of two that asks for the higher tip or price; of two kinds, the newer one.
    #[must_use]
    pub fn dearer(self, newer: Self) -> Self {
        let alike = matches!(
            (self, newer),
            (Self::Market { .. }, Self::Market { .. }) | (Self::Legacy { .. }, Self::Legacy { .. })
        );
        if alike && self.bid() > newer.bid() { self } else { newer }
    }

    /// The same with a tip or a price that is a quarter higher.
    #[must_use]
    pub fn raised(self) -> Self {
        let more = |bid: u128| bid.saturating_add(bid / 4).saturating_add(1);
        match self {
            Self::Market { base_fee, priority_fee } => {
                Self::Market { base_fee, priority_fee: more(priority_fee) }
            }
            Self::Legacy { gas_price } => Self::Legacy { gas_price: more(gas_price) },
        }
    }

    /// Whether two endpoints mean the same by these, apart from what a few blocks change.
    pub fn is_like(&self, other: &Self) -> bool {
        let (low, high) = (self.price().min(other.price()), self.price().max(other.price()));
        high <= low.saturating_mul(TIMES_AGREED)
    }

    /// As much of one endpoint's word as is within reach of what was last agreed; where nothing ever was,
    /// as is within the limit that holds while nobody says what the chain asks for.
    pub fn alone_after(self, agreed: Option<&Self>) -> Self {
        let most = match agreed {
            Some(agreed) => agreed.price().saturating_mul(TIMES_AGREED),
            None => LEAST_LIMIT_WEI,
        };
        match self {
            Self::Market { base_fee, priority_fee } => {
                let base_fee = base_fee.min(most);
                let left = most.saturating_sub(base_fee).max(1);
                Self::Market { base_fee, priority_fee: priority_fee.min(left) }
            }
            Self::Legacy { gas_price } => Self::Legacy { gas_price: gas_price.min(most) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn market(base_fee: u128, priority_fee: u128) -> FeeQuote {
        FeeQuote::Market { base_fee, priority_fee }
    }

    fn legacy(gas_price: u128) -> FeeQuote {
        FeeQuote::Legacy { gas_price }
    }

    #[test]
    fn hole_38_own_bids_do_not_feed_the_quote() {
        let market = |base_fee, priority_fee| FeeQuote::Market { base_fee, priority_fee };
        let legacy = |gas_price| FeeQuote::Legacy { gas_price };
        // told, before, by others, heeded
        for (told, before, by_others, heeded) in [
            (market(10, 5), None, false, market(10, 5)),
            (market(10, 5), Some(market(9, 3)), false, market(10, 3)),
            (market(10, 2), Some(market(9, 3)), false, market(10, 2)),
            (market(10, 5), Some(market(9, 3)), true, market(10, 5)),
            (legacy(9), Some(legacy(7)), false, legacy(7)),
            (legacy(9), Some(legacy(7)), true, legacy(9)),
            (legacy(6), Some(legacy(7)), false, legacy(6)),
            // The chain has got a base fee meanwhile.
            (market(10, 5), Some(legacy(7)), false, market(10, 5)),
            (legacy(9), Some(market(1, 1)), false, legacy(9)),
        ] {
            assert_eq!(told.heeded(before.as_ref(), by_others), heeded, "{told:?} {before:?}");
        }
    }

    #[test]
    fn what_was_asked_before_is_the_dearer_and_may_rise() {
        let market = |base_fee, priority_fee| FeeQuote::Market { base_fee, priority_fee };
        let legacy = |gas_price| FeeQuote::Legacy { gas_price };
        for (before, newer, dearer) in [
            (market(9, 3), market(10, 2), market(9, 3)),
            (market(9, 3), market(10, 4), market(10, 4)),
            (legacy(7), legacy(6), legacy(7)),
            (legacy(7), market(1, 1), market(1, 1)),
        ] {
            assert_eq!(before.dearer(newer), dearer, "{before:?} {newer:?}");
        }
        assert_eq!(market(9, 100).raised(), market(9, 126));
        assert_eq!(legacy(0).raised(), legacy(1), "nothing stays nothing for ever");
    }

    #[test]
    fn hole_42_one_word_alone_counts_only_within_reach_of_what_was_agreed() {
        let agreed = market(90, 10);
        for (alone, agreed, expected) in [
            (market(5_000, 900), None, market(5_000, 900)),
            (legacy(u128::MAX), None, legacy(LEAST_LIMIT_WEI)),
            (market(95, 12), Some(&agreed), market(95, 12)),
            (market(300, 100), Some(&agreed), market(300, 100)),
            (market(400, 400), Some(&agreed), market(400, 1)),
            (market(401, 10), Some(&agreed), market(400, 1)),
            (market(90, 5_000), Some(&agreed), market(90, 310)),
            (market(u128::MAX, u128::MAX), Some(&agreed), market(400, 1)),
            (market(1, 1), Some(&agreed), market(1, 1)),
            (legacy(5_000), Some(&agreed), legacy(400)),
            (market(5_000, 1), Some(&legacy(7)), market(28, 1)),
            (legacy(9), Some(&legacy(u128::MAX)), legacy(9)),
        ] {
            assert_eq!(alone.alone_after(agreed), expected, "{alone:?} {agreed:?}");
        }
    }

    #[test]
    fn hole_42_words_that_are_far_apart_are_no_agreement() {
        for (one, other, alike) in [
            (market(90, 10), market(90, 10), true),
            (market(90, 10), market(390, 10), true),
            (market(90, 10), market(391, 10), false),
            (market(90, 10), market(90, 5_000), false),
            (market(90, 10), legacy(25), true),
            (market(90, 10), legacy(24), false),
            (legacy(0), legacy(0), true),
            (legacy(0), legacy(1), false),
            (legacy(u128::MAX), legacy(u128::MAX), true),
        ] {
            assert_eq!(one.is_like(&other), alike, "{one:?} {other:?}");
            assert_eq!(other.is_like(&one), alike, "{other:?} {one:?}");
        }
    }
}
