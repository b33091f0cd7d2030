//! Endpoints that lie: what they tell instead of the truth, and keep telling, without contradicting
//! themselves.
//!
//! | file | the lie |
//! |---|---|
//! | `blocks` | blocks that nobody made, at the true height or a thousand above it |
//! | `receipts` | receipts in true blocks of what is not in them, and of failures that were none |
//! | `flap` | a head that goes back and forth |
//!
//! and `naming`: whether operators are told who it is.
//!
//! A lie is a value that is told what is true from time to time, and answers questions without asking
//! anybody: so it is the same to every node that asks, and it can be tested by calling it.

mod blocks;
mod flap;
mod naming;
mod receipts;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::chain::{Chain, quantity};
use super::diary::now;
use super::stage::Stage;
use crate::evidence::LieTold;
use crate::schedule::{Fault, Lie};

use blocks::MadeUpBlocks;
use flap::Flap;
use receipts::MadeUpReceipts;

/// The questions that are not answered truly.
const METHODS: [&str; 7] = [
    "eth_blockNumber",
    "eth_getBlockByNumber",
    "eth_getBlockByHash",
    "eth_getBlockReceipts",
    "eth_getTransactionByHash",
    "eth_getTransactionReceipt",
    "eth_getTransactionCount",
];

/// How often a lie is told what is true.
const PAUSE: Duration = Duration::from_millis(300);

/// What is true at a moment, as far as a liar needs it.
#[derive(Debug)]
struct Truth {
    /// The newest block, with its transactions.
    newest: Value,
    /// All transactions that wait, and those of the newest block.
    txs: Vec<Value>,
}

impl Truth {
    async fn of(chain: &Chain) -> Result<Self, String> {
        let newest = chain.ask("eth_getBlockByNumber", json!(["latest", true])).await?;
        let pool = chain.ask("txpool_content", json!([])).await?;
        let waiting = pool["pending"].as_object().into_iter().flatten();
        let waiting = waiting.flat_map(|(_, by_nonce)| by_nonce.as_object().into_iter().flatten());
        let mined = newest["transactions"].as_array().into_iter().flatten();
        let txs = mined.chain(waiting.map(|(_, tx)| tx)).cloned().collect();
        Ok(Self { newest, txs })
    }

    fn height(&self) -> u64 {
        quantity(&self.newest["number"])
    }
}

/// What a liar tells.
#[derive(Debug)]
enum Tale {
    Blocks(MadeUpBlocks),
    Receipts(MadeUpReceipts),
    Flap(Flap),
}

impl Tale {
    /// Takes note of what is true.
    fn hear(&mut self, truth: &Truth) {
        match self {
            Self::Blocks(tale) => tale.hear(truth),
            Self::Receipts(tale) => tale.hear(truth),
            Self::Flap(tale) => tale.hear(truth),
        }
    }

    /// What is answered instead of this result; `None` where the truth is told.
    fn answer(&mut self, method: &str, params: &Value, result: &Value) -> Option<Value> {
        match self {
            Self::Blocks(tale) => tale.answer(method, params, result),
            Self::Receipts(tale) => tale.answer(method, params, result),
            Self::Flap(tale) => tale.answer(method, params, result),
        }
    }

    /// The hashes of blocks that there never were, and of transactions with receipts that there
    /// never were.
    fn made_up(&self) -> BTreeSet<String> {
        match self {
            Self::Blocks(tale) => tale.made_up(),
            Self::Receipts(tale) => tale.made_up(),
            Self::Flap(_) => BTreeSet::new(),
        }
    }
}

/// One endpoint of every node, as if all had the same provider, lies for this time. An error says that
/// the truth could not be learned in the beginning.
pub(super) async fn tell(
    stage: &Stage,
    endpoint: usize,
    lie: Lie,
    lasts: Duration,
) -> Result<(), String> {
    let until = Instant::now() + lasts;
    let truth = Truth::of(&stage.chain).await?;
    let tale = match lie {
        Lie::Blocks => Tale::Blocks(MadeUpBlocks::begin(&truth, 0)),
        Lie::Leap => Tale::Blocks(MadeUpBlocks::begin(&truth, 1_000)),
        Lie::Receipts => Tale::Receipts(MadeUpReceipts::begin(&truth)),
        Lie::Flap { back } => Tale::Flap(Flap::new(back)),
    };
    let tale = Arc::new(Mutex::new(tale));
    for proxy in stage.nodes.iter().map(|node| &node.endpoints[endpoint]) {
        for method in METHODS {
            let tale = Arc::clone(&tale);
            proxy.lie(method, move |params, result| {
                tale.lock().unwrap().answer(method, params, result)
            });
        }
    }
    let at = now();
    let hear = async {
        while Instant::now() < until {
            tokio::time::sleep(PAUSE).await;
            if let Ok(truth) = Truth::of(&stage.chain).await {
                tale.lock().unwrap().hear(&truth);
            }
        }
    };
    let ((), named) = tokio::join!(hear, naming::watch(stage, endpoint, until));
    for node in &stage.nodes {
        node.endpoints[endpoint].heal().await;
    }
    let made_up = tale.lock().unwrap().made_up();
    stage.diary.made_up.lock().unwrap().extend(made_up);
    stage.diary.lies.lock().unwrap().push(LieTold {
        at,
        kind: Fault::Liar(endpoint, lie).kind().name(),
        endpoint,
        nodes: stage.nodes.len(),
        doctors: named.doctors,
        metrics: named.metrics,
        others: named.others,
    });
    Ok(())
}

fn hex(number: u64) -> Value {
    json!(format!("{number:#x}"))
}

/// A block as it is asked for: with all of its transactions, or with their hashes.
fn as_asked(block: &Value, params: &Value) -> Value {
    let mut block = block.clone();
    if params[1] != true {
        let hashes = block["transactions"].as_array().into_iter().flatten();
        block["transactions"] = hashes.map(|tx| tx["hash"].clone()).collect();
    }
    block
}

/// The receipt of a transfer in a block.
fn receipt(tx: &Value, block_hash: &str, height: u64, index: usize) -> Value {
    json!({
        "type": tx["type"], "status": "0x1", "cumulativeGasUsed": "0x5208", "logs": [],
        "logsBloom": format!("0x{}", "00".repeat(256)), "transactionHash": tx["hash"],
        "transactionIndex": hex(index as u64), "blockHash": block_hash, "blockNumber": hex(height),
        "gasUsed": "0x5208", "effectiveGasPrice": tx["gasPrice"], "from": tx["from"],
        "to": tx["to"], "contractAddress": null,
    })
}

#[cfg(test)]
pub(super) mod sample {
    use super::*;

    /// A transaction that waits.
    pub(super) fn waiting(hash: &str, nonce: u64) -> Value {
        json!({ "hash": hash, "from": "0xlane", "to": "0xsink", "nonce": hex(nonce),
                "type": "0x2", "gasPrice": "0x1" })
    }

    /// A chain with this newest block, and these transactions on their way.
    pub(super) fn truth(height: u64, txs: &[Value]) -> Truth {
        let newest = json!({
            "number": hex(height), "hash": format!("0xtrue{height}"), "timestamp": hex(100 + height),
            "parentHash": format!("0xtrue{}", height - 1), "transactions": [],
        });
        Truth { newest, txs: txs.to_vec() }
    }
}
