//! What a transaction pays.

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
/// transaction is mined. A plain transfer always needs the same.
pub fn gas_limit_for(estimate: u64) -> u64 {
    if estimate <= 21_000 { estimate } else { estimate.saturating_add(estimate / 5) }
}

impl Fees {
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

    #[test]
    fn estimates_get_headroom_and_transfers_need_none() {
        assert_eq!(gas_limit_for(21_000), 21_000);
        assert_eq!(gas_limit_for(100_000), 120_000);
        assert_eq!(gas_limit_for(u64::MAX), u64::MAX);
    }

    #[test]
    fn absurd_quotes_do_not_overflow() {
        let quote = FeeQuote::Market { base_fee: u128::MAX, priority_fee: u128::MAX };
        let fees = Fees::first(&Payload::default(), &quote);
        assert!(matches!(fees, Fees::Market { max_fee_per_gas: u128::MAX, .. }));
    }
}
