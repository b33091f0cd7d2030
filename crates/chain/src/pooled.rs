//! What endpoints have of an account in their pools, and what proves it.
//!
//! Many endpoints do not show their pool: to them what is pending is what is mined. So one that claims
//! to have more is not outvoted by those that do not. It may be mistaken, or lie; but a transaction that
//! the account has signed for this chain cannot be made up.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use alloy::primitives::Address;
use futures::future::join_all;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use stile_domain::{Nonce, first_cursor};
use tokio::time::timeout;

use crate::accounts::{At, count_call, read_count};
use crate::blocks::quantity;
use crate::calls::Method;
use crate::classify;
use crate::endpoint::Endpoint;
use crate::estimate_block::is_about_the_block;
use crate::mined::read_signed;
use crate::rpc::{Answer, Call, CallError, read};
use crate::tags::{Tag, is_about_a_tag};
use crate::{ChainError, ChainPool};

/// What an endpoint has of an account, with what is in its pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    /// Host and port.
    pub endpoint: String,
    /// The first nonce above what it says it has.
    pub below: Nonce,
    /// The highest nonce from the asked one on of which it has shown a transaction that the account has
    /// signed for this chain.
    pub shown: Option<Nonce>,
}

/// What the endpoints in use have of an account, with their pools.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pools {
    /// Of those that say it.
    pub all: Vec<Pool>,
    /// Hosts and ports of those that do not.
    pub silent: Vec<String>,
}

impl ChainPool {
    /// What the endpoints in use have of an account with their pools. Those that say they have this nonce
    /// or more are asked to show it. None is waited for longer than `within`.
    pub async fn pools(
        &self,
        account: Address,
        from: Nonce,
        within: Duration,
    ) -> Result<Pools, ChainError> {
        let endpoints = self.usable().await?;
        let asked = endpoints.iter().map(|endpoint| {
            let asked = self.pool_of(endpoint, account, from);
            async move { timeout(within, asked).await.ok().flatten() }
        });
        let mut pools = Pools::default();
        for (endpoint, told) in endpoints.iter().zip(join_all(asked).await) {
            match told {
                Some(pool) => pools.all.push(pool),
                None => pools.silent.push(endpoint.shown().to_owned()),
            }
        }
        Ok(pools)
    }

    /// `None` if it does not say.
    async fn pool_of(
        &self,
        endpoint: &Arc<Endpoint>,
        account: Address,
        from: Nonce,
    ) -> Option<Pool> {
        let calls = [count_call(account, At::Latest), count_call(account, At::Pending)];
        let mut counts = endpoint.rpc.batch(&calls).await.into_iter().map(read_count);
        let latest = counts.next()?.inspect_err(|error| endpoint.note(error)).ok()?;
        let pending = match counts.next()? {
            Ok(pending) => Some(pending),
            Err(error) if counts_no_pool(&error, endpoint.is_unknown(Tag::Pending)) => None,
            Err(_) => return None,
        };
        let below = first_cursor(latest, pending);
        let endpoint_name = endpoint.shown().to_owned();
        let mut pool = Pool { endpoint: endpoint_name, below, shown: None };
        if below > from {
            let calls = [
                Call::new(Method::PoolContentFrom, json!([account])),
                Call::new(Method::TransactionBySenderAndNonce, json!([account, quantity(from)])),
            ];
            let mut answers = endpoint.rpc.batch(&calls).await.into_iter();
            let mut shown = content(answers.next()?);
            shown.extend(answers.next().and_then(|answer| read::<Box<RawValue>>(answer).ok()?));
            let signed = shown.iter().filter_map(|told| read_signed(told, account, self.chain()));
            pool.shown = signed.filter(|nonce| *nonce >= from).max();
        }
        Some(pool)
    }
}

/// Whether an error to the question for a count with the pool says that the node counts no pool. Any other
/// says nothing of what is in it: a node in trouble may have something there.
fn counts_no_pool(error: &CallError, is_tag_unknown: bool) -> bool {
    matches!(error, CallError::Said { .. })
        && classify::rate_limit(error).is_none()
        && (is_tag_unknown || is_about_the_block(error) || is_about_a_tag(error))
}

/// What a pool has of one account, by nonce: what can be mined next, and what waits for others.
#[derive(Deserialize)]
struct Content {
    #[serde(default)]
    pending: BTreeMap<String, Box<RawValue>>,
    #[serde(default)]
    queued: BTreeMap<String, Box<RawValue>>,
}

/// Nothing, if it cannot be read: most endpoints do not offer it.
fn content(answer: Answer) -> Vec<Box<RawValue>> {
    let content = read::<Content>(answer).ok().flatten();
    let all = content.map(|it| it.pending.into_values().chain(it.queued.into_values()));
    all.map(Iterator::collect).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hole_20_only_a_node_without_the_tag_says_that_it_counts_no_pool() {
        let said =
            |code, message: &str| CallError::Said { code, message: message.to_owned(), data: None };
        for (error, by_itself, where_unknown) in [
            (said(-32602, "invalid argument 1: hex string without 0x prefix"), true, true),
            (said(-32601, "Unsupported block tag: pending"), true, true),
            (said(-32000, "pending state is not available"), true, true),
            (said(-32000, "invalid block number"), true, true),
            (said(-32603, "Internal error"), false, true),
            (said(-32000, "header not found"), false, true),
            (said(-32000, "missing trie node"), false, true),
            (said(-32000, "cannot unmarshal the upstream's answer"), false, true),
            (said(-32601, "method not found"), false, true),
            (said(-32005, "rate limit reached"), false, false),
            (CallError::Unreadable(Box::default()), false, false),
            (CallError::Garbled("nothing"), false, false),
            (CallError::Http(500), false, false),
            (CallError::Unreachable, false, false),
        ] {
            assert_eq!(counts_no_pool(&error, false), by_itself, "{error}");
            assert_eq!(counts_no_pool(&error, true), where_unknown, "{error}");
        }
    }
}
