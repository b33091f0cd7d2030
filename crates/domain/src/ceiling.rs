//! The most that an attempt may offer, and the most gas that it may use.
//!
//! Whatever an attempt is for, its fees are [`Capped`] before it is signed, and only a chain's
//! [`Ceiling`] makes them so.

use crate::{FeeLimitReached, FeeQuote, Fees, Payload};

/// How many times what the chain asks for an attempt may offer where nobody has set a limit.
pub const TIMES_THE_MARKET: u128 = 10;

/// Where nobody has set a limit, so much may be offered whatever the chain asks for: 100 gwei.
pub(crate) const LEAST_LIMIT_WEI: u128 = 100_000_000_000;

/// The most gas that is taken while the chain does not say what its blocks have: no chain has transactions
/// that need more.
const MOST_GAS_UNKNOWN: u64 = 100_000_000;

/// The most that an attempt may offer for a unit of gas on a chain, in wei.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ceiling {
    limit: u128,
    is_known: bool,
}

/// Fees within what the chain's [`Ceiling`] allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capped(Fees);

impl Ceiling {
    /// The limit that is set; where none is, ten times what a first attempt offers at this quote, and 100
    /// gwei at least. Of several endpoints it takes a quote that one alone cannot drive up.
    ///
    /// While nobody says what the chain asks for, it is the 100 gwei, and [`Self::is_known`] says so.
    pub fn new(configured: Option<u128>, quote: Option<&FeeQuote>) -> Self {
        let market = quote.map(|quote| Fees::first(&Payload::default(), quote).most());
        let times = market.map(|market| market.saturating_mul(TIMES_THE_MARKET));
        let limit = configured.or(times.map(|times| times.max(LEAST_LIMIT_WEI)));
        Self { limit: limit.unwrap_or(LEAST_LIMIT_WEI), is_known: limit.is_some() }
    }

    /// The most, in wei.
    pub fn limit(&self) -> u128 {
        self.limit
    }

    /// Whether it stays as it is until the chain asks for something else. If not, what is above it may be
    /// within it a moment later.
    pub fn is_known(&self) -> bool {
        self.is_known
    }

    /// These fees, if they are within it.
    pub fn admit(&self, fees: Fees) -> Result<Capped, FeeLimitReached> {
        let wanted = fees.most().max(fees.tip());
        if wanted <= self.limit {
            Ok(Capped(fees))
        } else {
            Err(FeeLimitReached { wanted, limit: self.limit })
        }
    }

    /// As much of these fees as is within it.
    pub fn cut(&self, fees: Fees) -> Capped {
        Capped(fees.at_most(self.limit))
    }

    /// Whether the prices that a caller states are within it. Its `feeLimit` is no price: no more than
    /// this is offered whatever it allows.
    pub fn check(&self, payload: &Payload) -> Result<(), FeeLimitReached> {
        let stated = [payload.gas_price, payload.max_fee_per_gas, payload.max_priority_fee_per_gas];
        match stated.into_iter().flatten().max() {
            Some(wanted) if wanted > self.limit => {
                Err(FeeLimitReached { wanted, limit: self.limit })
            }
            _ => Ok(()),
        }
    }
}

impl Capped {
    /// The fees.
    pub fn fees(&self) -> Fees {
        self.0
    }
}

/// A gas limit that no block has room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GasLimitReached {
    /// No block of the chain has so much.
    #[error("a gas limit of {wanted} is above {limit}, which is all that a block of the chain has")]
    Block {
        /// What is asked for.
        wanted: u64,
        /// What a block has.
        limit: u64,
    },
    /// Nobody says what a block of the chain has.
    #[error(
        "a gas limit of {wanted} is above {limit}, the most that is taken while no endpoint says what a \
         block of the chain has"
    )]
    Unknown {
        /// What is asked for.
        wanted: u64,
        /// What is taken.
        limit: u64,
    },
}

impl GasLimitReached {
    /// The most that is taken.
    pub fn limit(&self) -> u64 {
        match *self {
            Self::Block { limit, .. } | Self::Unknown { limit, .. } => limit,
        }
    }
}

/// Whether a block of the chain has room for so much gas, by what its endpoints say.
pub fn check_gas(wanted: u64, block: Option<u64>) -> Result<(), GasLimitReached> {
    match block {
        Some(limit) if wanted > limit => Err(GasLimitReached::Block { wanted, limit }),
        None if wanted > MOST_GAS_UNKNOWN => {
            Err(GasLimitReached::Unknown { wanted, limit: MOST_GAS_UNKNOWN })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{FeePolicy, Market};

    const GWEI: u128 = 1_000_000_000;

    fn market(base_fee: u128, priority_fee: u128) -> FeeQuote {
        FeeQuote::Market { base_fee, priority_fee }
    }

    #[test]
    fn hole_42_the_limit_is_the_one_that_is_set_or_ten_times_the_market() {
        let (quiet, dear) = (market(GWEI, GWEI), market(30 * GWEI, 2 * GWEI));
        let legacy = FeeQuote::Legacy { gas_price: 40 * GWEI };
        for (configured, quote, limit, is_known) in [
            (Some(5 * GWEI), None, 5 * GWEI, true),
            (Some(5 * GWEI), Some(&dear), 5 * GWEI, true),
            (Some(5_000 * GWEI), Some(&quiet), 5_000 * GWEI, true),
            (None, Some(&quiet), 100 * GWEI, true),
            (None, Some(&dear), 620 * GWEI, true),
            (None, Some(&legacy), 400 * GWEI, true),
            (None, Some(&market(u128::MAX, 1)), u128::MAX, true),
            (None, None, 100 * GWEI, false),
        ] {
            let ceiling = Ceiling::new(configured, quote);
            assert_eq!(
                (ceiling.limit(), ceiling.is_known()),
                (limit, is_known),
                "{configured:?} {quote:?}"
            );
        }
    }

    #[test]
    fn hole_42_stated_prices_of_every_kind_are_held_against_it() {
        let ceiling = Ceiling::new(Some(100 * GWEI), None);
        let reached = |wanted| Err(FeeLimitReached { wanted, limit: 100 * GWEI });
        let (most, above) = (Some(100 * GWEI), Some(5_000 * GWEI));
        let none = Payload::default();
        for (payload, expected) in [
            (none.clone(), Ok(())),
            (Payload { gas_price: most, ..none.clone() }, Ok(())),
            (Payload { gas_price: above, ..none.clone() }, reached(5_000 * GWEI)),
            (Payload { max_fee_per_gas: most, ..none.clone() }, Ok(())),
            (Payload { max_fee_per_gas: above, ..none.clone() }, reached(5_000 * GWEI)),
            (Payload { max_priority_fee_per_gas: above, ..none.clone() }, reached(5_000 * GWEI)),
            (Payload { fee_limit: above, ..none.clone() }, Ok(())),
        ] {
            assert_eq!(ceiling.check(&payload), expected, "{payload:?}");
        }
    }

    #[test]
    fn hole_42_a_gas_limit_has_to_fit_into_a_block() {
        for (wanted, block, fits) in [
            (21_000, Some(30_000_000), true),
            (30_000_000, Some(30_000_000), true),
            (30_000_001, Some(30_000_000), false),
            (1 << 40, Some(1 << 50), true),
            (100_000_000, None, true),
            (100_000_001, None, false),
        ] {
            let found = check_gas(wanted, block);
            assert_eq!(found.is_ok(), fits, "{wanted} {block:?}");
            let limit = block.unwrap_or(MOST_GAS_UNKNOWN).to_string();
            assert!(found.map_or_else(|e| e.to_string().contains(&limit), |()| true));
        }
    }

    fn fees() -> impl Strategy<Value = Fees> {
        let price = || prop_oneof![0..1_000 * GWEI, any::<u128>()];
        prop_oneof![
            (price(), price()).prop_map(|(max_fee_per_gas, max_priority_fee_per_gas)| {
                Fees::Market { max_fee_per_gas, max_priority_fee_per_gas }
            }),
            price().prop_map(|gas_price| Fees::Legacy { gas_price }),
        ]
    }

    fn quote() -> impl Strategy<Value = FeeQuote> {
        let price = || prop_oneof![0..1_000 * GWEI, any::<u128>()];
        prop_oneof![
            (price(), price()).prop_map(|(base_fee, tip)| market(base_fee, tip)),
            price().prop_map(|gas_price| FeeQuote::Legacy { gas_price }),
        ]
    }

    proptest! {
        /// Whatever a caller states, the endpoints quote and was offered before: what comes out is
        /// within the limit, in every respect.
        #[test]
        fn hole_42_nothing_capped_is_above_the_limit(
            configured: Option<u64>,
            quote in proptest::option::of(quote()),
            before in fees(),
        ) {
            let ceiling = Ceiling::new(configured.map(u128::from), quote.as_ref());
            let within = |capped: Capped| {
                let fees = capped.fees();
                fees.most() <= ceiling.limit() && fees.tip() <= ceiling.limit()
            };
            prop_assert!(within(ceiling.cut(before)));
            if let Ok(capped) = ceiling.admit(before) {
                prop_assert!(within(capped));
                prop_assert_eq!(capped.fees(), before);
            }
            let policy = Market::default();
            if let Ok(next) = policy.next(&before, quote.as_ref(), ceiling.limit()) {
                prop_assert!(ceiling.admit(next).is_ok(), "the policy keeps the limit by itself");
            }
            if let Some(quote) = &quote {
                let stated = Payload { gas_price: Some(before.most()), ..Payload::default() };
                for payload in [Payload::default(), stated] {
                    let first = policy.first(&payload, quote, ceiling.limit());
                    prop_assert!(ceiling.admit(first).is_ok(), "{payload:?}");
                }
            }
        }
    }
}
