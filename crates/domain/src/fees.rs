//! What a transaction pays.
//!
//! [`FeePolicy`] decides; [`Market`] is the one that is used. Another can be put in its place.

use serde::{Deserialize, Serialize};

use crate::{Payload, wei};

/// What the chain asks for at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeeQuote {
    /// A chain with a base fee (EIP-1559).
    Market {
        /// The next block's base fee.
        base_fee: u128,
        /// What is usually paid on top of it.
        priority_fee: u128,
    },
    /// A chain without one.
    Legacy {
        /// The usual price.
        gas_price: u128,
    },
}

/// What an attempt offers to pay for a unit of gas, in wei.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", untagged)]
pub enum Fees {
    /// EIP-1559.
    Market {
        /// The most paid in all.
        #[serde(with = "wei")]
        max_fee_per_gas: u128,
        /// The most paid on top of the base fee.
        #[serde(with = "wei")]
        max_priority_fee_per_gas: u128,
    },
    /// The old kind.
    Legacy {
        /// The price.
        #[serde(with = "wei")]
        gas_price: u128,
    },
}

/// How many times the base fee an attempt can bear: enough for five full blocks in a row, each of
/// which raises it by an eighth.
const HEADROOM: u128 = 2;

/// The gas limit for an estimate: a fifth more, because the state it was made on changes until the
/// transaction is mined, as far as a block has room for that. A plain transfer always needs the same.
pub fn gas_limit_for(estimate: u64, block: Option<u64>) -> u64 {
    if estimate <= 21_000 {
        return estimate;
    }
    let with_room = estimate.saturating_add(estimate / 5);
    with_room.min(block.unwrap_or(u64::MAX)).max(estimate)
}

/// How fees are chosen.
pub trait FeePolicy: std::fmt::Debug + Send + Sync {
    /// What a first attempt offers. Never above `limit`, whatever the caller states.
    fn first(&self, payload: &Payload, quote: &FeeQuote, limit: u128) -> Fees;

    /// What the attempt after one with these fees offers: enough for chain nodes to take it in the
    /// other's place, and what the chain asks for by now. Never above `limit`.
    fn next(
        &self,
        before: &Fees,
        quote: Option<&FeeQuote>,
        limit: u128,
    ) -> Result<Fees, FeeLimitReached>;

    /// Whether an offer is below what the chain asks for, so that only a higher one is mined.
    fn is_too_low(&self, offer: &Fees, quote: &FeeQuote) -> bool;
}

/// An attempt that chain nodes would take in place of the one before costs more than is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the next attempt would have to offer {wanted} wei for a unit of gas, and the limit is {limit}"
)]
pub struct FeeLimitReached {
    /// What it would have to offer at least.
    pub wanted: u128,
    /// What is allowed.
    pub limit: u128,
}

/// Follows the market: bears twice the base fee at first, and goes up by a fixed part each time,
/// more if the market has risen further.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Market {
    /// By how many thousandths a replacement offers more. Chain nodes refuse those that offer less
    /// than a tenth more.
    pub bump_permille: u32,
}

impl Default for Market {
    fn default() -> Self {
        Self { bump_permille: 125 }
    }
}

impl Market {
    /// Rounded up, and by one wei at least.
    fn raised(&self, fee: u128) -> u128 {
        let permille = u128::from(self.bump_permille);
        let more = match fee.checked_mul(permille) {
            Some(product) => product.div_ceil(1000),
            None => (fee / 1000).saturating_mul(permille),
        };
        fee.saturating_add(more.max(1))
    }
}

impl FeePolicy for Market {
    fn first(&self, payload: &Payload, quote: &FeeQuote, limit: u128) -> Fees {
        Fees::first(payload, quote).at_most(limit)
    }

    fn next(
        &self,
        before: &Fees,
        quote: Option<&FeeQuote>,
        limit: u128,
    ) -> Result<Fees, FeeLimitReached> {
        let market = quote.map(|quote| Fees::first(&Payload::default(), quote));
        let within = |wanted: u128| {
            if wanted <= limit { Ok(()) } else { Err(FeeLimitReached { wanted, limit }) }
        };
        match *before {
            Fees::Market { max_fee_per_gas, max_priority_fee_per_gas } => {
                let (least, least_tip) =
                    (self.raised(max_fee_per_gas), self.raised(max_priority_fee_per_gas));
                within(least)?;
                let (asked, tip) = match market {
                    Some(Fees::Market { max_fee_per_gas, max_priority_fee_per_gas }) => {
                        (max_fee_per_gas, max_priority_fee_per_gas)
                    }
                    Some(Fees::Legacy { gas_price }) => (gas_price, gas_price),
                    None => (0, 0),
                };
                let max_fee_per_gas = least.max(asked).min(limit);
                let tip = least_tip.max(tip).min(max_fee_per_gas);
                Ok(Fees::Market { max_fee_per_gas, max_priority_fee_per_gas: tip })
            }
            Fees::Legacy { gas_price } => {
                let least = self.raised(gas_price);
                within(least)?;
                let asked = match quote {
                    Some(FeeQuote::Market { base_fee, priority_fee }) => {
                        base_fee.saturating_add(*priority_fee)
                    }
                    Some(FeeQuote::Legacy { gas_price }) => *gas_price,
                    None => 0,
                };
                Ok(Fees::Legacy { gas_price: least.max(asked).min(limit) })
            }
        }
    }

    fn is_too_low(&self, offer: &Fees, quote: &FeeQuote) -> bool {
        match (*offer, *quote) {
            (Fees::Market { max_fee_per_gas, .. }, FeeQuote::Market { base_fee, .. }) => {
                max_fee_per_gas < base_fee
            }
            (Fees::Legacy { gas_price }, FeeQuote::Market { base_fee, .. }) => gas_price < base_fee,
            (Fees::Legacy { gas_price: offered }, FeeQuote::Legacy { gas_price }) => {
                offered < gas_price
            }
            (Fees::Market { max_fee_per_gas, .. }, FeeQuote::Legacy { gas_price }) => {
                max_fee_per_gas < gas_price
            }
        }
    }
}

impl Fees {
    /// The most that is paid for a unit of gas.
    pub fn most(&self) -> u128 {
        match *self {
            Self::Market { max_fee_per_gas, .. } => max_fee_per_gas,
            Self::Legacy { gas_price } => gas_price,
        }
    }

    /// Whether it offers as much in every respect.
    pub fn cover(&self, other: &Self) -> bool {
        self.most() >= other.most() && self.tip() >= other.tip()
    }

    /// The most that whoever makes the block gets of it.
    pub fn tip(&self) -> u128 {
        match *self {
            Self::Market { max_priority_fee_per_gas, .. } => max_priority_fee_per_gas,
            Self::Legacy { gas_price } => gas_price,
        }
    }

    /// The same, or as much of it as the limit allows.
    pub(crate) fn at_most(self, limit: u128) -> Self {
        match self {
            Self::Market { max_fee_per_gas, max_priority_fee_per_gas } => {
                let max_fee_per_gas = max_fee_per_gas.min(limit);
                let tip = max_priority_fee_per_gas.min(max_fee_per_gas);
                Self::Market { max_fee_per_gas, max_priority_fee_per_gas: tip }
            }
            Self::Legacy { gas_price } => Self::Legacy { gas_price: gas_price.min(limit) },
        }
    }

    /// What a first attempt offers: what the caller says, and where it says nothing, what the
    /// chain asks for with room for the base fee to double.
    pub fn first(payload: &Payload, quote: &FeeQuote) -> Self {
        if let Some(gas_price) = payload.gas_price {
            return Self::Legacy { gas_price };
        }
        let (base_fee, usual_tip) = match *quote {
            FeeQuote::Market { base_fee, priority_fee } => (base_fee, priority_fee),
            FeeQuote::Legacy { gas_price } => match payload.max_fee_per_gas {
                // The caller asks for the new kind, so it knows better than the quote.
                Some(_) => (gas_price, 0),
                None => return Self::Legacy { gas_price },
            },
        };
        let tip = payload.max_priority_fee_per_gas.unwrap_or(usual_tip);
        let max_fee_per_gas = payload
            .max_fee_per_gas
            .unwrap_or_else(|| base_fee.saturating_mul(HEADROOM).saturating_add(tip));
        Self::Market { max_fee_per_gas, max_priority_fee_per_gas: tip.min(max_fee_per_gas) }
    }

    /// Whether a payload says all there is to say, so that no quote is needed.
    pub fn given(payload: &Payload) -> Option<Self> {
        match (payload.gas_price, payload.max_fee_per_gas, payload.max_priority_fee_per_gas) {
            (Some(gas_price), _, _) => Some(Self::Legacy { gas_price }),
            (None, Some(max_fee_per_gas), Some(max_priority_fee_per_gas)) => {
                Some(Self::Market { max_fee_per_gas, max_priority_fee_per_gas })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUOTE: FeeQuote = FeeQuote::Market { base_fee: 100, priority_fee: 7 };

    #[test]
    fn the_quote_is_borne_twice_over() {
        let fees = Fees::first(&Payload::default(), &QUOTE);
        assert_eq!(fees, Fees::Market { max_fee_per_gas: 207, max_priority_fee_per_gas: 7 });
        let legacy = Fees::first(&Payload::default(), &FeeQuote::Legacy { gas_price: 9 });
        assert_eq!(legacy, Fees::Legacy { gas_price: 9 });
    }

    #[test]
    fn the_caller_knows_better() {
        let payload = Payload { max_fee_per_gas: Some(5), ..Payload::default() };
        let fees = Fees::first(&payload, &QUOTE);
        assert_eq!(fees, Fees::Market { max_fee_per_gas: 5, max_priority_fee_per_gas: 5 });
        let payload = Payload { gas_price: Some(3), ..Payload::default() };
        assert_eq!(Fees::first(&payload, &QUOTE), Fees::Legacy { gas_price: 3 });
        assert_eq!(Fees::given(&payload), Some(Fees::Legacy { gas_price: 3 }));
        assert_eq!(Fees::given(&Payload::default()), None);
    }

    fn market(max_fee_per_gas: u128, max_priority_fee_per_gas: u128) -> Fees {
        Fees::Market { max_fee_per_gas, max_priority_fee_per_gas }
    }

    #[test]
    fn a_replacement_offers_an_eighth_more_or_what_the_market_asks() {
        let policy = Market::default();
        assert_eq!(policy.next(&market(800, 8), None, 10_000), Ok(market(900, 9)));
        let risen = FeeQuote::Market { base_fee: 1000, priority_fee: 20 };
        assert_eq!(policy.next(&market(800, 8), Some(&risen), 10_000), Ok(market(2020, 20)));
        assert_eq!(policy.next(&market(800, 8), Some(&risen), 1500), Ok(market(1500, 20)));
        let legacy = Fees::Legacy { gas_price: 80 };
        assert_eq!(policy.next(&legacy, None, 1000), Ok(Fees::Legacy { gas_price: 90 }));
        assert_eq!(policy.next(&legacy, Some(&risen), 5000), Ok(Fees::Legacy { gas_price: 1020 }));
    }

    #[test]
    fn what_a_replacement_would_cost_above_the_limit_is_said() {
        let policy = Market::default();
        let error = policy.next(&market(800, 8), None, 899).unwrap_err();
        assert_eq!(error, FeeLimitReached { wanted: 900, limit: 899 });
        let legacy = Fees::Legacy { gas_price: 80 };
        assert!(policy.next(&legacy, None, 89).is_err());
    }

    #[test]
    fn an_offer_covers_another_only_in_every_respect() {
        assert!(market(9, 3).cover(&market(9, 3)));
        assert!(!market(9, 2).cover(&market(9, 3)) && !market(8, 3).cover(&market(9, 3)));
        assert!(Fees::Legacy { gas_price: 9 }.cover(&market(9, 3)));
        assert!(!market(9, 3).cover(&Fees::Legacy { gas_price: 9 }));
    }

    #[test]
    fn small_and_absurd_fees_rise_too() {
        let policy = Market::default();
        assert_eq!(policy.next(&market(0, 0), None, 10), Ok(market(1, 1)));
        let most = market(u128::MAX, 1);
        assert_eq!(policy.next(&most, None, u128::MAX), Ok(market(u128::MAX, 2)));
    }

    #[test]
    fn hole_42_a_first_offer_stays_within_the_limit_whatever_the_caller_says() {
        let policy = Market::default();
        assert_eq!(policy.first(&Payload::default(), &QUOTE, 150), market(150, 7));
        let stated = Payload { max_fee_per_gas: Some(500), ..Payload::default() };
        assert_eq!(policy.first(&stated, &QUOTE, 500), market(500, 7));
        assert_eq!(policy.first(&stated, &QUOTE, 150), market(150, 7));
        let legacy = Payload { gas_price: Some(500), ..Payload::default() };
        assert_eq!(policy.first(&legacy, &QUOTE, 150), Fees::Legacy { gas_price: 150 });
    }

    #[test]
    fn an_offer_below_the_base_fee_is_too_low() {
        let policy = Market::default();
        assert!(policy.is_too_low(&market(99, 7), &QUOTE));
        assert!(!policy.is_too_low(&market(100, 7), &QUOTE));
        assert!(policy.is_too_low(&Fees::Legacy { gas_price: 99 }, &QUOTE));
        assert!(
            policy.is_too_low(&Fees::Legacy { gas_price: 8 }, &FeeQuote::Legacy { gas_price: 9 })
        );
    }

    #[test]
    fn estimates_get_headroom_and_transfers_need_none() {
        assert_eq!(gas_limit_for(21_000, None), 21_000);
        assert_eq!(gas_limit_for(100_000, None), 120_000);
        assert_eq!(gas_limit_for(u64::MAX, None), u64::MAX);
        assert_eq!(gas_limit_for(100_000, Some(110_000)), 110_000, "no block has more");
        assert_eq!(gas_limit_for(100_000, Some(90_000)), 100_000, "it needs this much");
    }

    #[test]
    fn absurd_quotes_do_not_overflow() {
        let quote = FeeQuote::Market { base_fee: u128::MAX, priority_fee: u128::MAX };
        let fees = Fees::first(&Payload::default(), &quote);
        assert!(matches!(fees, Fees::Market { max_fee_per_gas: u128::MAX, .. }));
    }
}
