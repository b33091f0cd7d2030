//! What the chain asks for at the moment.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use alloy::primitives::U256;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use serde::Deserialize;
use serde_json::json;
use stile_domain::FeeQuote;
use tokio::time::timeout;

use crate::blocks::quantity;
use crate::calls::Method;
use crate::quote::quote;
use crate::rpc::{Bad, Call};
use crate::{ChainError, ChainPool, PoolOptions};

/// How long the rest of the endpoints is waited for once enough have answered.
const THE_REST: Duration = Duration::from_millis(300);

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct History {
    oldest_block: Option<U256>,
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
        self.fee_quotes_by_others(&BTreeSet::new()).await
    }

    /// How many of the newest blocks a quote is made from.
    pub fn fee_blocks(&self) -> u64 {
        self.options().fee_blocks.max(1)
    }

    /// The same where `own` are the heights of blocks that have nobody's transactions but those of
    /// whoever asks: what is paid there says nothing of what others pay.
    pub async fn fee_quotes_by_others(&self, own: &BTreeSet<u64>) -> Result<FeeQuotes, ChainError> {
        let PoolOptions { fee_blocks, fee_percentile, .. } = self.options();
        let history = json!([quantity(fee_blocks.max(1)), "latest", [fee_percentile]]);
        let history = Call::new(Method::FeeHistory, history);
        let endpoints = self.usable().await?;
        let mut asked: FuturesUnordered<_> = endpoints
            .iter()
            .map(|endpoint| {
                let history = &history;
                async move { (endpoint, quote(Arc::clone(endpoint), history, own).await) }
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
                Some((_, Ok(quoted))) => quotes.push(quoted.quote),
                Some((endpoint, Err(none))) => {
                    endpoint.note(none.last());
                    said.push(endpoint.complaint(none));
                }
                None => break,
            }
        }
        if quotes.len() < required {
            if !quotes.is_empty() {
                said.push(format!(
                    "{} endpoints answered, and {required} have to agree",
                    quotes.len()
                ));
            }
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

/// What a history of fees says.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// The base fee of the block to come, and of the newest one.
    pub(crate) next_base_fee: Option<u128>,
    pub(crate) newest_base_fee: Option<u128>,
    /// The usual tip in the blocks of others, and the lowest in one's own.
    pub(crate) priority_fee: Option<u128>,
    pub(crate) least_of_own: Option<u128>,
}

impl History {
    pub(crate) fn told(&self, own: &BTreeSet<u64>) -> Result<Told, Bad> {
        Ok(Told {
            next_base_fee: self.next_base_fee()?,
            newest_base_fee: self.newest_base_fee()?,
            priority_fee: self.usual_priority_fee(own)?,
            least_of_own: self.least_of(own)?,
        })
    }

    /// The base fee of the block to come, unless there seems to be none.
    fn next_base_fee(&self) -> Result<Option<u128>, Bad> {
        let fees = self.base_fee_per_gas.as_deref().unwrap_or_default();
        let has_fees = fees.iter().flatten().any(|fee| !fee.is_zero());
        let next = fees.last().copied().flatten().filter(|_| has_fees);
        next.map(|fee| price(fee, "baseFeePerGas")).transpose()
    }

    /// The base fee of the newest block: the one before.
    fn newest_base_fee(&self) -> Result<Option<u128>, Bad> {
        let fees = self.base_fee_per_gas.as_deref().unwrap_or_default();
        let newest = fees.iter().rev().nth(1).copied().flatten();
        newest.map(|fee| price(fee, "baseFeePerGas")).transpose()
    }

    /// The median over the blocks of the tip at the percentile that was asked for; empty blocks say
    /// nothing, and those that are whoever asks' own do not count.
    fn usual_priority_fee(&self, own: &BTreeSet<u64>) -> Result<Option<u128>, Bad> {
        let mut fees: Vec<U256> =
            self.tips().filter(|(at, _)| !is_own(own, *at)).map(|(_, tip)| tip).collect();
        fees.sort_unstable();
        fees.get(fees.len() / 2).copied().map(|fee| price(fee, "reward")).transpose()
    }

    /// The lowest tip in one's own blocks.
    fn least_of(&self, own: &BTreeSet<u64>) -> Result<Option<u128>, Bad> {
        let tips = self.tips().filter(|(at, _)| is_own(own, *at)).map(|(_, tip)| tip);
        tips.min().map(|fee| price(fee, "reward")).transpose()
    }

    /// The heights of the blocks that are not empty, where they are told, and the tip in each.
    fn tips(&self) -> impl Iterator<Item = (Option<u64>, U256)> {
        let oldest = self.oldest_block.and_then(|height| u64::try_from(height).ok());
        let ratios = self.gas_used_ratio.as_deref().unwrap_or_default();
        let rewards = self.reward.as_deref().unwrap_or_default();
        let full = rewards.iter().enumerate().filter(|(place, _)| {
            ratios.get(*place).copied().flatten().is_none_or(|ratio| ratio > 0.0)
        });
        full.filter_map(move |(place, rewards)| {
            let at = oldest.and_then(|oldest| oldest.checked_add(place as u64));
            Some((at, rewards.as_ref()?.first().copied()?))
        })
    }
}

fn is_own(own: &BTreeSet<u64>, at: Option<u64>) -> bool {
    at.is_some_and(|at| own.contains(&at))
}

pub(crate) fn price(amount: U256, field: &'static str) -> Result<u128, Bad> {
    amount.try_into().map_err(|_| Bad { field, words: "a price that nobody can pay" })
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
        assert_eq!(told.usual_priority_fee(&BTreeSet::new()), Ok(Some(5)));
    }

    #[test]
    fn hole_38_what_one_paid_oneself_is_not_what_others_pay() {
        let told = history(json!({
            "oldestBlock": "0x10",
            "gasUsedRatio": [0.5, 0, 0.7, 0.1],
            "reward": [["0x9"], ["0x0"], ["0x30"], ["0x20"]],
        }));
        for (own, usual, least) in [
            (vec![], Some(0x20), None),
            (vec![18, 19], Some(9), Some(0x20)),
            (vec![16, 18, 19], None, Some(9)),
            (vec![17], Some(0x20), None),
            (vec![16, 17, 18, 19, 20], None, Some(9)),
        ] {
            let own: BTreeSet<u64> = own.into_iter().collect();
            assert_eq!(told.usual_priority_fee(&own), Ok(usual), "{own:?}");
            assert_eq!(told.least_of(&own), Ok(least), "{own:?}");
        }
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
        assert_eq!(
            history(json!({ "reward": null })).usual_priority_fee(&BTreeSet::new()),
            Ok(None)
        );
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
        assert!(
            history(json!({ "reward": [[huge]] })).usual_priority_fee(&BTreeSet::new()).is_err()
        );
    }
}
