//! Trying a node before it is configured.
//!
//! Everything that Stile cannot do without is asked once, and then what nodes differ in. Nothing is
//! changed: what is sent as a transaction is none, so that it is refused by whoever takes any.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use alloy::primitives::{Address, B256, U64, U256};
use serde::Serialize;
use serde_json::json;
use stile_domain::ChainId;

use crate::accounts::{At, count_call, read_count};
use crate::blocks::{
    Block, With, at_call, hash_call, latest_call, quantity, read_at, read_block, read_hash,
};
use crate::calls::Method;
use crate::capability::{Capability, CapabilityRow};
use crate::classify::{self, SendClass};
use crate::endpoint::{Endpoint, Extent, chain_call};
use crate::estimate::estimate_of;
use crate::hints::Hints;
use crate::pool::one;
use crate::probe::{ask_all, nothing_to_nobody};
use crate::quote::{Failure, quote};
use crate::receipts::{read_receipt, read_receipts, receipt_call};
use crate::rpc::{Call, CallError, Rpc, read, read_some};
use crate::target::{EndpointError, Scheme, Target};

/// So many blocks back it is looked how fast the chain is, and for a transaction.
const LOOK_BACK: u64 = 20;

/// How many calls are tried in one batch.
const BATCH: usize = 100;

/// The age of a newest block that is worth a remark.
const OLD: u64 = 60;

/// What a node can do, and whether Stile can work with it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeCheck {
    /// Host and port.
    pub endpoint: String,
    /// Whether Stile can work with it.
    pub works: bool,
    /// Why not.
    pub reasons: Vec<String>,
    /// The chain that it serves.
    pub chain_id: Option<u64>,
    /// What it calls itself.
    pub client_version: Option<String>,
    /// The height of its newest block.
    pub head: Option<u64>,
    /// How old that block is, by the clock of this machine.
    pub head_age_seconds: Option<u64>,
    /// The time from one block to the next, over the newest ones.
    pub block_time_seconds: Option<f64>,
    /// What is good to know.
    pub remarks: Vec<String>,
    /// What nodes differ in.
    pub capabilities: Vec<CapabilityRow>,
}

/// Tries a node. A URL without a scheme is understood as `http`. `expected`: the chain that it should
/// serve. Each answer is waited for as long as `timeout`.
pub async fn check(
    url: &str,
    expected: Option<ChainId>,
    timeout: Duration,
) -> Result<NodeCheck, EndpointError> {
    let url = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
    let target = Target::parse(&url)?;
    let (shown, scheme, hints) = (target.shown.clone(), target.scheme, Hints::new());
    let mut checked = NodeCheck {
        endpoint: shown,
        works: false,
        reasons: Vec::new(),
        chain_id: None,
        client_version: None,
        head: None,
        head_age_seconds: None,
        block_time_seconds: None,
        remarks: Vec::new(),
        capabilities: Vec::new(),
    };
    let rpc = Rpc::new(target, timeout, None)?;
    let chain = match rpc.ask::<U64>(Method::ChainId, json!([])).await {
        Ok(Some(id)) => id.to::<u64>(),
        Ok(None) => return Ok(checked.because("eth_chainId: answered null")),
        Err(error) => return Ok(checked.because(format!("eth_chainId: {error}"))),
    };
    checked.chain_id = Some(chain);
    let Ok(chain) = ChainId::new(chain) else {
        return Ok(checked.because(format!("{chain} is no chain id that Stile takes")));
    };
    if let Some(expected) = expected.filter(|expected| *expected != chain) {
        return Ok(checked.because(format!("it serves chain {chain}, not {expected}")));
    }
    let endpoint = Endpoint::new(chain, Target::parse(&url)?, &url, timeout, hints.announcer())?;
    let endpoint = Arc::new(endpoint);
    match read_block(one(&endpoint, &latest_call(With::Hashes)).await) {
        Ok(Some(block)) => {
            endpoint.note_block(&block);
            checked.newest(&endpoint, &block).await;
        }
        Ok(None) => checked.lacks("eth_getBlockByNumber", "it has no block at all"),
        Err(error) => checked.lacks("eth_getBlockByNumber", error),
    }
    checked.needs(&endpoint).await;
    ask_all(&endpoint).await;
    // As Stile looks at the chain the whole time, and then as large a batch as it sends.
    if let Err(why) = endpoint.look(Extent::Header).await
        && checked.reasons.is_empty()
    {
        checked.reasons.push(format!("eth_chainId and eth_getBlockByNumber together: {why}"));
    }
    endpoint.rpc.try_batches(&chain_call(), BATCH).await;
    if let Err(error) = estimate_of(&endpoint, &nothing_to_nobody()).await {
        checked.remarks.push(format!(
            "eth_estimateGas: {error}. Transactions may have to state their gas limit"
        ));
    }
    if scheme == Scheme::Http && takes_web_sockets(&url, timeout).await {
        let words = "it takes WebSockets at the same address: with ws:// or wss:// new blocks are heard of at once";
        checked.remarks.push(words.to_owned());
    }
    let capabilities = endpoint.capabilities();
    checked.client_version = capabilities.client_version;
    checked.capabilities = capabilities.rows;
    checked.works = checked.reasons.is_empty();
    Ok(checked)
}

impl NodeCheck {
    fn because(mut self, reason: impl Into<String>) -> Self {
        self.reasons.push(reason.into());
        self
    }

    fn lacks(&mut self, method: &str, why: impl std::fmt::Display) {
        self.reasons.push(format!("{method}: {why}"));
    }

    /// What the newest block tells, and those before it.
    async fn newest(&mut self, endpoint: &Endpoint, block: &Block) {
        let height = block.header.height;
        self.head = Some(height);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs());
        let age = now.saturating_sub(block.timestamp);
        self.head_age_seconds = Some(age);
        let by_hash = one(endpoint, &hash_call(block.header.hash, With::Transactions)).await;
        match read_hash(by_hash, block.header.hash) {
            Ok(Some(_)) => {}
            Ok(None) => self.lacks("eth_getBlockByHash", "does not give its newest block"),
            Err(error) => self.lacks("eth_getBlockByHash", error),
        }
        let mut made = None;
        let lowest = height.saturating_sub(LOOK_BACK);
        for at in (lowest..=height).rev() {
            match read_at(one(endpoint, &at_call(at, With::Hashes)).await, at) {
                Ok(Some(older)) => {
                    if at == lowest && height > lowest {
                        let took = block.timestamp.saturating_sub(older.timestamp);
                        self.block_time_seconds = Some(took as f64 / (height - lowest) as f64);
                    }
                    let of_it = older.transactions.first().map(|it| it.hash);
                    made = made.or(of_it.map(|hash| (hash, older.header.hash)));
                }
                Ok(None) if at == height => {}
                Ok(None) => {
                    self.lacks("eth_getBlockByNumber", format!("does not give block {at}"));
                    break;
                }
                Err(error) => {
                    self.lacks("eth_getBlockByNumber", format!("block {at}: {error}"));
                    break;
                }
            }
        }
        let is_old = age > OLD.max(self.block_time_seconds.map_or(0, |it| (it * 10.0) as u64));
        if is_old {
            self.remarks.push(format!(
                "its newest block is {age} s old: it stands still, is far behind, or makes blocks only for transactions"
            ));
        }
        match made {
            Some((tx, block)) => self.receipts(endpoint, tx, block).await,
            None => self.remarks.push(format!(
                "the newest {LOOK_BACK} blocks have no transaction: whether its receipts can be read was not tried"
            )),
        }
    }

    /// Whether its receipts can be read: of one transaction, and of a block.
    async fn receipts(&mut self, endpoint: &Endpoint, tx: B256, block: B256) {
        match read_receipt(one(endpoint, &receipt_call(tx)).await, tx) {
            Ok(Some(_)) => {}
            Ok(None) => self.remarks.push(format!("it does not show the receipt of {tx}")),
            Err(error) => self.lacks("eth_getTransactionReceipt", error),
        }
        let call = Call::new(Method::BlockReceipts, json!([block]));
        match read_receipts(one(endpoint, &call).await, &HashSet::from([&tx])) {
            // Some leave out what they have, or all.
            Ok(told) => {
                let has = told.is_some_and(|receipts| !receipts.found.is_empty());
                endpoint.learn(Capability::BlockReceipts, has);
            }
            Err(error @ CallError::Said { .. }) if classify::rate_limit(&error).is_none() => {
                endpoint.learn(Capability::BlockReceipts, false);
            }
            _ => {}
        }
    }

    /// What Stile cannot do without.
    async fn needs(&mut self, endpoint: &Arc<Endpoint>) {
        let nobody = Address::ZERO;
        if let Err(error) = read_count(one(endpoint, &count_call(nobody, At::Latest)).await) {
            self.lacks("eth_getTransactionCount", error);
        }
        let balance = Call::new(Method::Balance, json!([nobody, "latest"]));
        if let Err(error) = read_some::<U256>(one(endpoint, &balance).await) {
            self.lacks("eth_getBalance", error);
        }
        let none = Call::new(Method::TransactionByHash, json!([B256::repeat_byte(0x11)]));
        if let Err(error) = read::<serde_json::Value>(one(endpoint, &none).await) {
            self.lacks("eth_getTransactionByHash", error);
        }
        let history = json!([quantity(5), "latest", [50.0]]);
        let history = Call::new(Method::FeeHistory, history);
        match quote(Arc::clone(endpoint), &history, &BTreeSet::new()).await {
            // What it says in proper words is in the table; what it does not give, for short or for
            // long, is told.
            Ok(quoted) => {
                let said = |it: &Failure| matches!(it.error, CallError::Said { .. });
                for failure in quoted.failed.iter().filter(|failure| !said(failure)) {
                    if let Some(capability) = failure.capability() {
                        endpoint.learn(capability, false);
                    }
                    self.remarks.push(format!("{failure}. Fees are quoted without it"));
                }
            }
            Err(none) => self.lacks("what gas costs", none),
        }
        // This is no transaction, and whoever takes any says so.
        let nothing = Call::new(Method::SendRaw, json!(["0x00"]));
        if let Err(error) = one(endpoint, &nothing).await
            && classify::send_class(&error) == SendClass::ReadOnly
        {
            self.lacks("eth_sendRawTransaction", error);
        }
    }
}

/// Whether the same address speaks over a WebSocket as well.
async fn takes_web_sockets(url: &str, timeout: Duration) -> bool {
    let Some(rest) = url.strip_prefix("http") else { return false };
    let Ok(target) = Target::parse(&format!("ws{rest}")) else { return false };
    let Ok(rpc) = Rpc::new(target, timeout, None) else { return false };
    matches!(rpc.ask::<U64>(Method::ChainId, json!([])).await, Ok(Some(_)))
}
