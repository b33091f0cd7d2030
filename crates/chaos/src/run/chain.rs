//! The chain past the proxies: what outsiders and callers with nonces of their own do, and what is
//! on it in the end.

use std::time::Duration;

use alloy_primitives::{U256, hex, keccak256};
use serde_json::{Value, json};

use crate::evidence::{Block, Mined};

/// Whom every transfer goes to.
pub(super) const SINK: &str = "0x00000000000000000000000000000000000000ee";

/// How often a block is made.
pub(super) const BLOCK_SECONDS: u64 = 1;

/// Ten thousand ether, which every account has in the beginning.
const FUNDS: &str = "0x21e19e0c9bab2400000";

/// A chain node that is asked directly.
#[derive(Debug, Clone)]
pub(super) struct Chain {
    url: String,
    client: reqwest::Client,
}

/// A transaction of somebody who is not Stile.
#[derive(Debug, Clone, Copy)]
pub(super) struct Transfer<'t> {
    pub(super) from: &'t str,
    pub(super) nonce: u64,
    pub(super) wei: u64,
    pub(super) max_fee_gwei: u64,
    pub(super) tip_gwei: u64,
}

impl Chain {
    pub(super) fn new(url: &str) -> Self {
        let client = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(10)).build();
        Self { url: url.to_owned(), client: client.expect("build an HTTP client") }
    }

    /// A call; an error is somebody's answer, not the end of the run.
    pub(super) async fn ask(&self, method: &str, params: Value) -> Result<Value, String> {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let answer = async {
            self.client.post(&self.url).json(&request).send().await?.json::<Value>().await
        };
        let mut answer = answer.await.map_err(|error| error.to_string())?;
        match answer.get("error") {
            Some(error) => Err(error.to_string()),
            None => Ok(answer["result"].take()),
        }
    }

    /// The height of the newest block.
    pub(super) async fn height(&self) -> Result<u64, String> {
        Ok(quantity(&self.ask("eth_blockNumber", json!([])).await?))
    }

    /// How many transactions an account has made.
    pub(super) async fn count(&self, account: &str, tag: &str) -> Result<u64, String> {
        Ok(quantity(&self.ask("eth_getTransactionCount", json!([account, tag])).await?))
    }

    /// Gives an account all that it had, or nothing.
    pub(super) async fn fund(&self, account: &str, funded: bool) -> Result<(), String> {
        let wei = if funded { FUNDS } else { "0x0" };
        self.ask("anvil_setBalance", json!([account, wei])).await.map(|_| ())
    }

    /// The signed bytes of a transfer of an account that anvil has the key of, and their hash.
    pub(super) async fn sign(&self, transfer: Transfer<'_>) -> Result<(String, String), String> {
        let gwei = |gwei: u64| format!("{:#x}", gwei * 1_000_000_000);
        let transaction = json!({
            "from": transfer.from, "to": SINK, "value": format!("{:#x}", transfer.wei),
            "nonce": format!("{:#x}", transfer.nonce), "gas": "0x5208", "chainId": "0x7a69",
            "maxFeePerGas": gwei(transfer.max_fee_gwei),
            "maxPriorityFeePerGas": gwei(transfer.tip_gwei),
        });
        let raw = self.ask("eth_signTransaction", json!([transaction])).await?;
        let raw = raw.as_str().ok_or_else(|| format!("{raw} is not signed bytes"))?.to_owned();
        let bytes = hex::decode(&raw).map_err(|error| error.to_string())?;
        Ok((raw, keccak256(bytes).to_string()))
    }

    /// Has the chain make blocks, or none.
    pub(super) async fn make_blocks(&self, makes: bool) -> Result<(), String> {
        let seconds = if makes { BLOCK_SECONDS } else { 0 };
        self.ask("evm_setIntervalMining", json!([seconds])).await.map(|_| ())
    }

    /// Sends signed bytes.
    pub(super) async fn send(&self, raw: &str) -> Result<(), String> {
        self.ask("eth_sendRawTransaction", json!([raw])).await.map(|_| ())
    }

    /// Whether a transaction is in a block.
    pub(super) async fn is_mined(&self, hash: &str) -> bool {
        let receipt = self.ask("eth_getTransactionReceipt", json!([hash])).await;
        receipt.is_ok_and(|receipt| !receipt.is_null())
    }

    /// Whether a transaction waits for a block.
    pub(super) async fn waits(&self, hash: &str) -> bool {
        let tx = self.ask("eth_getTransactionByHash", json!([hash])).await;
        tx.is_ok_and(|tx| !tx.is_null() && tx["blockNumber"].is_null())
    }

    /// Replaces the newest blocks. Their transactions are dropped, or each comes again one block
    /// later.
    pub(super) async fn reorg(&self, depth: u64, keep: bool) -> Result<u64, String> {
        let height = self.height().await?;
        let kept = if keep { self.kept(height, depth).await? } else { Vec::new() };
        let done = self.ask("anvil_reorg", json!([depth, kept])).await;
        if done.is_err() && keep {
            // Bytes that do not fit any more; then all of them are dropped.
            self.ask("anvil_reorg", json!([depth, []])).await?;
        } else {
            done?;
        }
        Ok((height + 1).saturating_sub(depth))
    }

    /// Signed bytes of the newest blocks, each with the new block it goes into.
    async fn kept(&self, height: u64, depth: u64) -> Result<Vec<Value>, String> {
        let mut kept = Vec::new();
        for place in 0..depth {
            let height = (height + 1 + place).saturating_sub(depth);
            let block = self.ask("eth_getBlockByNumber", json!([format!("{height:#x}"), false]));
            let block = block.await?;
            for hash in block["transactions"].as_array().into_iter().flatten() {
                let raw = self.ask("eth_getRawTransactionByHash", json!([hash])).await?;
                kept.push(json!([raw, (place + 1).min(depth - 1)]));
            }
        }
        Ok(kept)
    }

    /// Every block with its transactions, lowest first.
    pub(super) async fn blocks(&self) -> Result<Vec<Block>, String> {
        let mut blocks = Vec::new();
        for height in 0..=self.height().await? {
            let params = json!([format!("{height:#x}"), true]);
            let block = self.ask("eth_getBlockByNumber", params).await?;
            let txs = block["transactions"].as_array().into_iter().flatten().map(|tx| Mined {
                hash: text(&tx["hash"]),
                from: text(&tx["from"]).to_lowercase(),
                nonce: quantity(&tx["nonce"]),
                wei: decimal(tx["value"].as_str().unwrap_or_default()),
            });
            blocks.push(Block {
                height,
                hash: text(&block["hash"]),
                timestamp: quantity(&block["timestamp"]).cast_signed(),
                txs: txs.collect(),
            });
        }
        Ok(blocks)
    }
}

/// A JSON-RPC quantity.
pub(super) fn quantity(value: &Value) -> u64 {
    let digits = value.as_str().and_then(|text| text.strip_prefix("0x"));
    digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or_default()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// An amount as people write it, from either way of writing.
pub(super) fn decimal(amount: &str) -> String {
    amount.parse::<U256>().map_or_else(|_| amount.to_owned(), |number| number.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_the_same_however_they_are_written() {
        assert_eq!((decimal("0x3e9"), decimal("1001")), ("1001".to_owned(), "1001".to_owned()));
        assert_eq!(decimal("0x0"), "0");
    }
}
