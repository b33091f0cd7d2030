//! What the chain asks for at the moment.

use std::sync::Arc;
use std::time::Duration;

use alloy::primitives::U256;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use serde::Deserialize;
use serde_json::json;
use stile_domain::FeeQuote;
use tokio::time::timeout;

use crate::blocks::{With, latest_call, quantity, read_block};
use crate::calls::Method;
use crate::capability::Capability;
use crate::classify;
use crate::endpoint::Endpoint;
use crate::pool::one;
use crate::rpc::{Call, CallError, read_some};
use crate::{ChainError, ChainPool, PoolOptions};

/// How long the rest of the endpoints is waited for once enough have answered.
const THE_REST: Duration = Duration::from_millis(300);

/// The least that is paid on top of the base fee: nodes do not pass on transactions that offer
/// nothing.
const LEAST_PRIORITY_FEE: u128 = 1;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct History {
    base_fee_per_gas: Option<Vec<Option<U256>>>,
    gas_used_ratio: Option<Vec<Option<f64>>>,
    reward: Option<Vec<Option<Vec<U256>>>>,
}

/// What the chain asks for, by what its endpoints say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeeQuotes {
    /// The middle of it, and of two the lower: what is offered.
    pub offered: FeeQuote,
    /// The middle of it, and of two the higher: what an offer is raised up to that is too low by the
    /// word of somebody.
    pub highest: FeeQuote,
    /// One endpoint of several says so, and no other one says anything.
    pub is_alone: bool,
}

impl ChainPool {
    /// What the chain asks for at the moment.
    pub async fn fee_quote(&self) -> Result<FeeQuote, ChainError> {
        Ok(self.fee_quotes().await?.offered)
    }

    /// What the chain asks for at the moment: one call to each endpoint, on a chain with a base fee
    /// that is not idle. Money is spent by it, so no endpoint is believed alone where there are
    /// others: it is the middle of what they say, and a second one is waited for where there is one.
    /// An error where fewer than a quorum answer.
    pub async fn fee_quotes(&self) -> Result<FeeQuotes, ChainError> {
        let PoolOptions { fee_blocks, fee_percentile, .. } = self.options();
        let history = json!([quantity(fee_blocks.max(1)), "latest", [fee_percentile]]);
        let history = Call::new(Method::FeeHistory, history);
        let endpoints = self.usable().await?;
        let mut asked: FuturesUnordered<_> = endpoints
            .iter()
            .map(|endpoint| {
                let history = &history;
                async move { (endpoint, quote(Arc::clone(endpoint), history).await) }
            })
            .collect();
        let required = self.quorum.required();
        let (mut quotes, mut said) = (Vec::new(), Vec::new());
        loop {
            let answer = match is_enough(quotes.len(), required, endpoints.len()) {
                // Each of its questions has a time limit of its own.
                false => asked.next().await,
                // The rest may say something too.
                true => timeout(THE_REST, asked.next()).await.ok().flatten(),
            };
            match answer {
                Some((_, Ok(quote))) => quotes.push(quote),
                Some((endpoint, Err(error))) => {
                    endpoint.note(&error);
                    said.push(endpoint.complaint(error));
                }
                None => break,
            }
        }
        if quotes.len() < required {
            said.push(format!("{} endpoints answered, and {required} have to agree", quotes.len()));
            return Err(ChainError::Unreachable { chain: self.chain(), said });
        }
        let is_alone = quotes.len() == 1 && self.endpoints.len() > 1;
        let middle = middle(quotes).map(|quotes| FeeQuotes { is_alone, ..quotes });
        middle.ok_or(ChainError::Unreachable { chain: self.chain(), said })
    }
}

/// Whether so many quotes are enough, where so many endpoints have to agree and so many were asked. One
/// that answers at once is not believed alone because the others are slower.
fn is_enough(quotes: usize, required: usize, asked: usize) -> bool {
    quotes >= required.max(asked.min(2))
}

/// The quotes in the middle, by what a transaction would offer: two of an even number.
fn middle(mut quotes: Vec<FeeQuote>) -> Option<FeeQuotes> {
    quotes.sort_by_key(FeeQuote::price);
    let offered = *quotes.get(quotes.len().checked_sub(1)? / 2)?;
    let highest = *quotes.get(quotes.len() / 2)?;
    Some(FeeQuotes { offered, highest, is_alone: false })
}

async fn quote(endpoint: Arc<Endpoint>, history: &Call) -> Result<FeeQuote, CallError> {
    let endpoint = endpoint.as_ref();
    let history = match endpoint.knows(Capability::FeeHistory) {
        // It is not asked each time for what it does not have.
        Some(false) => History::default(),
        _ => match read_some(one(endpoint, history).await) {
            Ok(history) => {
                endpoint.learn(Capability::FeeHistory, true);
                history
            }
            Err(error) => {
                if classify::is_unsupported(&error) {
                    endpoint.learn(Capability::FeeHistory, false);
                } else if !matches!(error, CallError::Said { .. }) {
                    return Err(error);
                }
                // Whatever the node has against the method, the long way may still work.
                History::default()
            }
        },
    };
    let base_fee = match history.next_base_fee()? {
        Some(base_fee) => base_fee,
        // Zero all along, or not told: old chains and those whose gas is free look the same here.
        None => match newest_base_fee(endpoint).await? {
            Some(base_fee) => base_fee.saturating_add(base_fee / 8),
            None => {
                return Ok(FeeQuote::Legacy {
                    gas_price: amount(endpoint, Method::GasPrice).await?,
                });
            }
        },
    };
    let priority_fee = match history.usual_priority_fee()? {
        Some(fee) => fee,
        // Nobody paid anything lately; the node knows what its kind insists on.
        None => advised_tip(endpoint, base_fee).await,
    };
    Ok(FeeQuote::Market { base_fee, priority_fee: priority_fee.max(LEAST_PRIORITY_FEE) })
}

/// What the node advises to pay on top of the base fee: by the method that says so, else by the price
/// that it advises for transactions that have one.
async fn advised_tip(endpoint: &Endpoint, base_fee: u128) -> u128 {
    if endpoint.knows(Capability::MaxPriorityFee) != Some(false) {
        match amount(endpoint, Method::MaxPriorityFee).await {
            Ok(tip) => return tip,
            Err(error) if classify::is_unsupported(&error) => {
                endpoint.learn(Capability::MaxPriorityFee, false);
            }
            Err(_) => return LEAST_PRIORITY_FEE,
        }
    }
    let price = amount(endpoint, Method::GasPrice).await;
    price.map_or(LEAST_PRIORITY_FEE, |price| price.saturating_sub(base_fee))
}

impl History {
    /// The base fee of the block to come, unless there seems to be none.
    fn next_base_fee(&self) -> Result<Option<u128>, CallError> {
        let fees = self.base_fee_per_gas.as_deref().unwrap_or_default();
        let has_fees = fees.iter().flatten().any(|fee| !fee.is_zero());
        let next = fees.last().copied().flatten().filter(|_| has_fees);
        next.map(price).transpose()
    }

    /// The median over the blocks of the tip at the percentile that was asked for; empty blocks say
    /// nothing.
    fn usual_priority_fee(&self) -> Result<Option<u128>, CallError> {
        let ratios = self.gas_used_ratio.as_deref().unwrap_or_default();
        let rewards = self.reward.as_deref().unwrap_or_default();
        let full = rewards.iter().enumerate().filter(|(place, _)| {
            ratios.get(*place).copied().flatten().is_none_or(|ratio| ratio > 0.0)
        });
        let mut fees: Vec<U256> =
            full.filter_map(|(_, rewards)| rewards.as_ref()?.first().copied()).collect();
        fees.sort_unstable();
        fees.get(fees.len() / 2).copied().map(price).transpose()
    }
}

async fn newest_base_fee(endpoint: &Endpoint) -> Result<Option<u128>, CallError> {
    let block = read_block(one(endpoint, &latest_call(With::Hashes)).await)?;
    Ok(block.ok_or(CallError::Garbled("that it has no block at all"))?.base_fee)
}

async fn amount(endpoint: &Endpoint, method: Method) -> Result<u128, CallError> {
    price(read_some(one(endpoint, &Call::new(method, json!([]))).await)?)
}

fn price(amount: U256) -> Result<u128, CallError> {
    amount.try_into().map_err(|_| CallError::Garbled("a price that nobody can pay"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(text: serde_json::Value) -> History {
        serde_json::from_value(text).unwrap()
    }

    #[test]
    fn the_next_base_fee_is_the_last_and_empty_blocks_say_nothing() {
        let told = history(json!({
            "oldestBlock": "0x1",
            "baseFeePerGas": ["0x7", "0x8", "0x9", "0xa"],
            "gasUsedRatio": [0.5, 0, 0.7],
            "reward": [["0x5"], ["0x0"], ["0x3"]],
        }));
        assert_eq!(told.next_base_fee(), Ok(Some(10)));
        assert_eq!(told.usual_priority_fee(), Ok(Some(5)));
    }

    #[test]
    fn a_chain_without_a_base_fee_is_told_from_one_with() {
        for told in [
            json!({ "baseFeePerGas": ["0x0", "0x0"], "gasUsedRatio": [0.5], "reward": [["0x1"]] }),
            json!({ "baseFeePerGas": null, "gasUsedRatio": [0.5] }),
            json!({}),
        ] {
            assert_eq!(history(told).next_base_fee(), Ok(None));
        }
        assert_eq!(history(json!({ "reward": null })).usual_priority_fee(), Ok(None));
    }

    #[test]
    fn hole_23_no_endpoint_alone_says_what_is_paid() {
        let market = |tip| FeeQuote::Market { base_fee: 10, priority_fee: tip };
        type Case<'a> = (&'a [u128], Option<(u128, u128)>);
        let cases: [Case<'_>; 7] = [
            (&[], None),
            (&[3], Some((3, 3))),
            (&[3, 5_000], Some((3, 5_000))),
            (&[3, 1], Some((1, 3))),
            (&[5_000, 3, 4], Some((4, 4))),
            (&[1, 3, 4], Some((3, 3))),
            (&[5_000, 3, 3, 4], Some((3, 4))),
        ];
        for (tips, expected) in cases {
            let quotes = tips.iter().copied().map(market).collect();
            let found = middle(quotes).map(|quotes| (quotes.offered, quotes.highest));
            assert_eq!(found, expected.map(|(low, high)| (market(low), market(high))), "{tips:?}");
        }
    }

    #[test]
    fn hole_42_the_first_to_answer_is_not_believed_alone() {
        for (quotes, required, asked, enough) in [
            (0, 1, 1, false),
            (1, 1, 1, true),
            (0, 1, 2, false),
            (1, 1, 2, false),
            (2, 1, 2, true),
            (1, 1, 3, false),
            (1, 2, 3, false),
            (2, 2, 3, true),
            (1, 2, 2, false),
        ] {
            assert_eq!(is_enough(quotes, required, asked), enough, "{quotes} {required} {asked}");
        }
    }

    #[test]
    fn absurd_prices_are_errors() {
        let huge = format!("{:#x}", U256::MAX);
        assert!(history(json!({ "baseFeePerGas": [huge] })).next_base_fee().is_err());
        assert!(history(json!({ "reward": [[huge]] })).usual_priority_fee().is_err());
    }
}
