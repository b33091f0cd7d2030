//! What accounts have, as far as more than half of the endpoints agree on it.

use std::sync::Arc;

use alloy::primitives::{Address, U256};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use serde_json::json;
use stile_domain::Nonce;

use crate::ChainPool;
use crate::accounts::{At, count_call};
use crate::batches::ask_each;
use crate::calls::Method;
use crate::endpoint::Endpoint;
use crate::rpc::{Call, CallError, read_some};

/// What an account has, and how many of its transactions are mined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Means {
    /// In wei, after the newest block.
    pub balance: U256,
    /// So many transactions have been paid for.
    pub count: Nonce,
}

impl Means {
    /// The better word of two endpoints: more money, and more that is paid for already.
    fn at_best(self, other: Self) -> Self {
        Self { balance: self.balance.max(other.balance), count: self.count.max(other.count) }
    }
}

/// One of the two questions about an account. The balance is asked for first: what is mined in between
/// is then in the count and not in the balance, so that nothing is taken to be paid for twice.
#[derive(Debug, Clone, Copy)]
enum About {
    Balance(Address),
    Count(Address),
}

impl About {
    fn call(self) -> Call {
        match self {
            Self::Balance(account) => Call::new(Method::Balance, json!([account, "latest"])),
            Self::Count(account) => count_call(account, At::Latest),
        }
    }
}

impl ChainPool {
    /// What each of the accounts has at best, in the same order, by the first endpoints that answer: more
    /// than half of all that are configured, so that what one of several says does not make an account
    /// poor. `None` if fewer answer.
    pub async fn means(&self, accounts: &[Address]) -> Option<Vec<Means>> {
        let endpoints = self.usable().await.ok()?;
        let wanted = self.endpoints.len() / 2 + 1;
        if endpoints.len() < wanted {
            return None;
        }
        let ask = async |endpoint: Arc<Endpoint>| {
            let told = means_of(&endpoint, self.batch_limit(), accounts).await;
            told.inspect_err(|error| endpoint.note(error)).ok()
        };
        let mut asked: FuturesUnordered<_> = endpoints.into_iter().map(ask).collect();
        let mut told = Vec::with_capacity(wanted);
        while told.len() < wanted {
            told.extend(asked.next().await?);
        }
        at_best(told)
    }
}

/// What is best for each account of what several endpoints say.
fn at_best(told: Vec<Vec<Means>>) -> Option<Vec<Means>> {
    told.into_iter().reduce(|one, other| {
        one.into_iter().zip(other).map(|(one, other)| one.at_best(other)).collect()
    })
}

async fn means_of(
    endpoint: &Endpoint,
    limit: usize,
    accounts: &[Address],
) -> Result<Vec<Means>, CallError> {
    let both = |account: &Address| [About::Balance(*account), About::Count(*account)];
    let questions: Vec<About> = accounts.iter().flat_map(both).collect();
    let read = |answer, _| read_some::<U256>(answer);
    let answers = ask_each(endpoint, limit, &questions, About::call, read).await?;
    let means = answers
        .chunks_exact(2)
        .map(|both| Means { balance: both[0], count: u64::try_from(both[1]).unwrap_or(u64::MAX) });
    Ok(means.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hole_37_one_endpoint_does_not_make_an_account_poor() {
        let means = |balance: u64, count| Means { balance: U256::from(balance), count };
        for (told, expected) in [
            (vec![], None),
            (vec![vec![means(5, 1)]], Some(vec![means(5, 1)])),
            (vec![vec![means(0, 0)], vec![means(5, 1)]], Some(vec![means(5, 1)])),
            (vec![vec![means(5, 0)], vec![means(0, 1)]], Some(vec![means(5, 1)])),
            (
                vec![vec![means(1, 0), means(7, 7)], vec![means(2, 0), means(6, 8)]],
                Some(vec![means(2, 0), means(7, 8)]),
            ),
        ] {
            assert_eq!(at_best(told.clone()), expected, "{told:?}");
        }
    }
}
