//! Blocks that nobody made, each the parent of the next, with our transactions in them.
//!
//! They branch off from the newest true block of the moment when the lie begins. With a leap they are
//! so many more than the true ones.

use std::collections::{BTreeMap, BTreeSet};

use alloy_primitives::keccak256;
use serde_json::{Value, json};

use super::{Truth, as_asked, hex, receipt};
use crate::run::chain::quantity;

#[derive(Debug)]
pub(super) struct MadeUpBlocks {
    /// The last true block.
    fork: Value,
    /// How many blocks above the truth it claims.
    leap: u64,
    /// The height of the newest block that is claimed.
    head: u64,
    /// Transactions by the height of the block that they are told to be in.
    placed: BTreeMap<u64, Vec<Value>>,
    /// Those that will be in the next block: one that was told of does not change.
    next: Vec<Value>,
    known: BTreeSet<String>,
}

impl MadeUpBlocks {
    pub(super) fn begin(truth: &Truth, leap: u64) -> Self {
        let mut tale = Self {
            fork: truth.newest.clone(),
            leap,
            head: truth.height(),
            placed: BTreeMap::new(),
            next: Vec::new(),
            known: BTreeSet::new(),
        };
        // Those of the last true block are in it.
        let mined = truth.newest["transactions"].as_array().into_iter().flatten();
        tale.known.extend(mined.filter_map(|tx| Some(tx["hash"].as_str()?.to_owned())));
        tale.hear(truth);
        tale
    }

    pub(super) fn hear(&mut self, truth: &Truth) {
        for tx in &truth.txs {
            let hash = tx["hash"].as_str().unwrap_or_default().to_owned();
            if self.known.insert(hash) {
                self.next.push(tx.clone());
            }
        }
        let head = (truth.height() + self.leap).max(self.head);
        if head > self.head {
            // As deep as can be: with a leap, what waits is told to be a thousand blocks deep.
            self.placed.insert(self.head + 1, std::mem::take(&mut self.next));
            self.head = head;
        }
    }

    fn last_true(&self) -> u64 {
        quantity(&self.fork["number"])
    }

    fn hash(&self, height: u64) -> String {
        let fork = self.fork["hash"].as_str().unwrap_or_default();
        keccak256(format!("{fork} {} {height}", self.leap)).to_string()
    }

    fn height_of(&self, hash: &Value) -> Option<u64> {
        (self.last_true() + 1..=self.head).find(|height| *hash == self.hash(*height))
    }

    fn block(&self, height: u64) -> Value {
        let last_true = self.last_true();
        let mut block = self.fork.clone();
        block["number"] = hex(height);
        block["hash"] = json!(self.hash(height));
        if height > last_true + 1 {
            block["parentHash"] = json!(self.hash(height - 1));
        } else {
            block["parentHash"] = self.fork["hash"].clone();
        }
        block["timestamp"] = hex(quantity(&self.fork["timestamp"]) + height - last_true);
        let txs = self.placed.get(&height).map_or(&[][..], Vec::as_slice);
        let txs = txs.iter().enumerate().map(|(index, tx)| {
            let mut tx = tx.clone();
            tx["blockHash"] = block["hash"].clone();
            tx["blockNumber"] = hex(height);
            tx["transactionIndex"] = hex(index as u64);
            tx
        });
        block["transactions"] = txs.collect();
        block
    }

    fn receipts(&self, height: u64) -> Vec<Value> {
        let (txs, hash) = (self.placed.get(&height), self.hash(height));
        let txs = txs.into_iter().flatten().enumerate();
        txs.map(|(index, tx)| receipt(tx, &hash, height, index)).collect()
    }

    /// Where a transaction is told to be.
    fn place_of(&self, hash: &Value) -> Option<(u64, usize)> {
        self.placed.iter().find_map(|(height, txs)| {
            Some((*height, txs.iter().position(|tx| tx["hash"] == *hash)?))
        })
    }

    pub(super) fn answer(&self, method: &str, params: &Value, result: &Value) -> Option<Value> {
        let is_above = |height: &Value| quantity(height) > self.last_true();
        match method {
            "eth_blockNumber" => Some(hex(self.head)),
            "eth_getBlockByNumber" => {
                let height = match params[0].as_str()? {
                    "latest" | "pending" => self.head,
                    tag if tag.starts_with("0x") => quantity(&params[0]),
                    _ => return None,
                };
                match height {
                    _ if height <= self.last_true() => None,
                    _ if height > self.head => Some(Value::Null),
                    _ => Some(as_asked(&self.block(height), params)),
                }
            }
            "eth_getBlockByHash" => match self.height_of(&params[0]) {
                Some(height) => Some(as_asked(&self.block(height), params)),
                None => is_above(&result["number"]).then_some(Value::Null),
            },
            "eth_getBlockReceipts" => {
                let asked = params[0].get("blockHash").unwrap_or(&params[0]);
                let by_number = is_above(asked).then(|| quantity(asked)).filter(|_| {
                    // A hash is no height, however it begins.
                    asked.as_str().is_some_and(|text| text.len() < 20)
                });
                match self.height_of(asked).or(by_number) {
                    Some(height) if height <= self.head => Some(json!(self.receipts(height))),
                    Some(_) => Some(Value::Null),
                    None => is_above(&result[0]["blockNumber"]).then_some(Value::Null),
                }
            }
            "eth_getTransactionReceipt" => match self.place_of(&params[0]) {
                Some((height, index)) => self.receipts(height).into_iter().nth(index),
                None => is_above(&result["blockNumber"]).then_some(Value::Null),
            },
            "eth_getTransactionByHash" => {
                let (height, index) = self.place_of(&params[0])?;
                Some(self.block(height)["transactions"][index].clone())
            }
            "eth_getTransactionCount" => {
                let account = params[0].as_str()?.to_lowercase();
                let of_account = |tx: &&Value| {
                    tx["from"].as_str().is_some_and(|from| from.to_lowercase() == account)
                };
                let told = self.placed.values().flatten().filter(of_account);
                let told = told.map(|tx| quantity(&tx["nonce"]) + 1).max()?;
                (told > quantity(result)).then(|| hex(told))
            }
            _ => None,
        }
    }

    pub(super) fn made_up(&self) -> BTreeSet<String> {
        (self.last_true() + 1..=self.head).map(|height| self.hash(height)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::{truth, waiting};
    use super::*;

    fn ask(tale: &MadeUpBlocks, method: &str, params: Value) -> Value {
        tale.answer(method, &params, &Value::Null).unwrap_or_default()
    }

    #[test]
    fn made_up_blocks_are_linked_and_have_what_waited() {
        let mut tale = MadeUpBlocks::begin(&truth(20, &[waiting("0xa", 5)]), 0);
        assert_eq!(ask(&tale, "eth_blockNumber", json!([])), "0x14", "nothing is told yet");
        tale.hear(&truth(21, &[]));
        tale.hear(&truth(22, &[waiting("0xb", 6)]));
        let first = ask(&tale, "eth_getBlockByNumber", json!(["0x15", true]));
        let second = ask(&tale, "eth_getBlockByNumber", json!(["latest", false]));
        assert_eq!(first["parentHash"], "0xtrue20");
        assert_eq!(second["parentHash"], first["hash"]);
        assert_eq!(first["transactions"][0]["blockHash"], first["hash"]);
        assert_eq!(second["transactions"], json!(["0xb"]));
        assert_eq!(ask(&tale, "eth_getBlockByHash", json!([first["hash"], true])), first);
        assert_eq!(ask(&tale, "eth_getBlockByNumber", json!(["0x17", true])), Value::Null);
        assert_eq!(tale.made_up().len(), 2);
    }

    #[test]
    fn a_leap_is_a_thousand_blocks_with_what_waited_at_their_bottom() {
        let tale = MadeUpBlocks::begin(&truth(20, &[waiting("0xa", 5)]), 1_000);
        assert_eq!(ask(&tale, "eth_blockNumber", json!([])), hex(1_020));
        let receipt = ask(&tale, "eth_getTransactionReceipt", json!(["0xa"]));
        assert_eq!(receipt["blockNumber"], hex(21));
        let block = ask(&tale, "eth_getBlockByNumber", json!(["0x15", true]));
        assert_eq!(receipt["blockHash"], block["hash"]);
        let all = ask(&tale, "eth_getBlockReceipts", json!([block["hash"]]));
        assert_eq!(all, json!([receipt]));
        let head = ask(&tale, "eth_getBlockByNumber", json!(["latest", true]));
        let below = ask(&tale, "eth_getBlockByNumber", json!([hex(1_019), true]));
        assert_eq!(head["parentHash"], below["hash"]);
        let count = ask(&tale, "eth_getTransactionCount", json!(["0xLANE", "latest"]));
        assert_eq!(count, hex(6));
    }

    #[test]
    fn the_true_blocks_above_the_fork_are_not_known() {
        let mut tale = MadeUpBlocks::begin(&truth(20, &[]), 0);
        tale.hear(&truth(21, &[]));
        let above = json!({ "number": "0x15", "hash": "0xtrue21" });
        let by_hash = tale.answer("eth_getBlockByHash", &json!(["0xtrue21", true]), &above);
        assert_eq!(by_hash, Some(Value::Null));
        let below = json!({ "number": "0x14" });
        assert_eq!(tale.answer("eth_getBlockByHash", &json!(["0xtrue20", true]), &below), None);
        assert_eq!(tale.answer("eth_getBlockByNumber", &json!(["0x14", true]), &below), None);
    }
}
