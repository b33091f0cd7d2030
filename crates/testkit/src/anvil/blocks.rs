//! What is on the chain.

use alloy_primitives::U256;
use serde_json::{Value, json};

use super::{Anvil, amount, quantity, text};

/// Blocks read with one request.
const CHUNK: usize = 50;

/// A transaction in a block.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mined {
    /// Who sent it, in lower case.
    pub from: String,
    /// Its place in its sender's order.
    pub nonce: u64,
    /// Its name.
    pub hash: String,
    /// The height of its block.
    pub block: u64,
    /// The wei it carries. A test that gives each transaction another amount finds it by that.
    pub value: U256,
}

impl Anvil {
    /// The height of the newest block.
    pub async fn height(&self) -> u64 {
        quantity(&self.rpc("eth_blockNumber", json!([])).await)
    }

    /// A block with the hashes of its transactions; `None` above the newest.
    pub async fn block(&self, height: u64) -> Option<Value> {
        let block = self.rpc("eth_getBlockByNumber", json!([format!("{height:#x}"), false])).await;
        (!block.is_null()).then_some(block)
    }

    /// The receipt of a transaction, if it is in a block.
    pub async fn receipt(&self, hash: &str) -> Option<Value> {
        let receipt = self.rpc("eth_getTransactionReceipt", json!([hash])).await;
        (!receipt.is_null()).then_some(receipt)
    }

    /// The signed bytes of a transaction in the pool or in a block; `None` if it is not known.
    pub async fn raw_transaction(&self, hash: &str) -> Option<String> {
        let raw = self.rpc("eth_getRawTransactionByHash", json!([hash])).await;
        raw.as_str().map(str::to_owned)
    }

    /// Every transaction in any block, by sender and nonce.
    ///
    /// Reads the whole chain, so that nothing has to be believed. Anvil takes its time for that.
    pub async fn transactions(&self) -> Vec<Mined> {
        let heights: Vec<u64> = (0..=self.height().await).collect();
        let mut found = Vec::new();
        for chunk in heights.chunks(CHUNK) {
            let params = chunk.iter().map(|height| json!([format!("{height:#x}"), true]));
            let blocks = self.rpc_batch("eth_getBlockByNumber", params.collect()).await;
            let transactions = blocks.iter().filter_map(|block| block["transactions"].as_array());
            found.extend(transactions.flatten().map(|transaction| Mined {
                from: text(&transaction["from"]).to_lowercase(),
                nonce: quantity(&transaction["nonce"]),
                hash: text(&transaction["hash"]),
                block: quantity(&transaction["blockNumber"]),
                value: amount(&transaction["value"]),
            }));
        }
        found.sort();
        found
    }

    /// Every transaction of an account in any block, by nonce.
    pub async fn transactions_of(&self, address: &str) -> Vec<Mined> {
        let mut transactions = self.transactions().await;
        transactions.retain(|mined| mined.from.eq_ignore_ascii_case(address));
        transactions
    }
}
