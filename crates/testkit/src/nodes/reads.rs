//! What is on the chain.

use alloy_primitives::U256;
use serde_json::{Value, json};

use super::DevNode;
use crate::anvil::Mined;

impl DevNode {
    /// What the node calls itself.
    pub async fn version(&self) -> String {
        text(&self.rpc("web3_clientVersion", json!([])).await)
    }

    /// The height of the newest block.
    pub async fn height(&self) -> u64 {
        quantity(&self.rpc("eth_blockNumber", json!([])).await)
    }

    /// How many transactions an account has made, as of a block: `"latest"`, `"pending"`, ….
    pub async fn nonce(&self, address: &str, tag: &str) -> u64 {
        quantity(&self.rpc("eth_getTransactionCount", json!([address, tag])).await)
    }

    /// The number that the test contract (see [`crate::Anvil::contract_creation`]) stored last.
    pub async fn contract_value(&self, contract: &str) -> U256 {
        amount(&self.rpc("eth_getStorageAt", json!([contract, "0x0", "latest"])).await)
    }

    /// Every transaction in any block from this height on, by sender and nonce.
    pub async fn transactions_from(&self, height: u64) -> Vec<Mined> {
        let mut found = Vec::new();
        for height in height..=self.height().await {
            let params = json!([format!("{height:#x}"), true]);
            let block = self.rpc("eth_getBlockByNumber", params).await;
            let transactions = block["transactions"].as_array().into_iter().flatten();
            found.extend(transactions.map(|transaction| Mined {
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
}

/// A JSON-RPC quantity: hexadecimal with a prefix.
fn quantity(value: &Value) -> u64 {
    let digits = value.as_str().and_then(|text| text.strip_prefix("0x"));
    let number = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
    number.unwrap_or_else(|| panic!("{value} is not a quantity"))
}

/// A JSON-RPC quantity that may be larger than 64 bits. geth before 1.9 gives stored words with their
/// leading zeros, and ganache an empty one for nothing.
pub(super) fn amount(value: &Value) -> U256 {
    if value.as_str() == Some("0x") {
        return U256::ZERO;
    }
    let number = value.as_str().and_then(|text| text.parse().ok());
    number.unwrap_or_else(|| panic!("{value} is not a quantity"))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is not a text")).to_owned()
}
