//! What every endpoint says of an account: for whoever looks for what is wrong.

use std::sync::Arc;

use alloy::primitives::{Address, B256};
use futures::future::{join, join_all};
use serde::Serialize;
use stile_domain::Nonce;

use crate::ChainPool;
use crate::accounts::{At, count_call, read_count};
use crate::endpoint::{Endpoint, chain_call, height_call, read_height};
use crate::known::{known_call, read_known};
use crate::rpc::CallError;

/// What one endpoint says now. What it did not answer is `None`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointReport {
    /// Host and port.
    pub endpoint: String,
    /// Whether it is in use, or set aside.
    pub usable: bool,
    /// The height of its newest block.
    pub head: Option<u64>,
    /// What is wrong with it.
    pub why: Option<String>,
    /// The account's transaction count after its newest block.
    pub latest: Option<Nonce>,
    /// The same with what is in its pool.
    pub pending: Option<Nonce>,
    /// Whether it knows the transaction that was asked for.
    pub knows: Option<bool>,
    /// Why it takes no transactions, in its own words, if it is known to take none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only: Option<String>,
    /// What it said lately that the other endpoints contradict.
    pub contradiction: Option<String>,
    /// What is not possible with it because of what it cannot do.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub impossible: Vec<&'static str>,
}

impl ChainPool {
    /// Asks every endpoint at once, those set aside too, how it sees an account and whether it
    /// knows a transaction. In the order of the configuration.
    pub async fn report(&self, account: Address, hash: Option<B256>) -> Vec<EndpointReport> {
        let asked = self.endpoints.iter().map(|endpoint| report(endpoint, account, hash));
        // Whoever is the first to ask finds nobody in use, for want of a look.
        let (_, mut reports) = join(self.usable(), join_all(asked)).await;
        for (report, endpoint) in reports.iter_mut().zip(&self.endpoints) {
            let status = endpoint.status();
            report.usable = status.usable;
            report.contradiction = status.contradiction;
            report.why = report.why.take().or(status.why);
            report.read_only = status.read_only;
            report.impossible = endpoint.impossible();
        }
        reports
    }
}

async fn report(endpoint: &Arc<Endpoint>, account: Address, hash: Option<B256>) -> EndpointReport {
    let mut calls = vec![
        chain_call(),
        height_call(),
        count_call(account, At::Latest),
        count_call(account, At::Pending),
    ];
    calls.extend(hash.map(known_call));
    let mut answers = endpoint.rpc.batch(&calls).await.into_iter();
    let mut next = || answers.next().unwrap_or(Err(CallError::Garbled("nothing")));
    let mut report = EndpointReport {
        endpoint: endpoint.shown().to_owned(),
        usable: false,
        head: None,
        why: None,
        latest: None,
        pending: None,
        knows: None,
        read_only: None,
        contradiction: None,
        impossible: Vec::new(),
    };
    // What a node of another chain says of the account is about another account.
    if let Err(why) = endpoint.verify(next()) {
        report.why = Some(why);
        return report;
    }
    let why = &mut report.why;
    report.head = keep(read_height(next()), why);
    report.latest = keep(read_count(next()), why);
    report.pending = keep(read_count(next()), why);
    report.knows = hash.and_then(|hash| keep(read_known(next(), hash), why));
    report
}

/// The answer, or the first error as what is wrong.
fn keep<T, E: ToString>(answer: Result<T, E>, why: &mut Option<String>) -> Option<T> {
    answer.map_err(|error| why.get_or_insert_with(|| error.to_string())).ok()
}
