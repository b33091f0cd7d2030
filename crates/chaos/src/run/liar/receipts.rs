//! Receipts that are not true, in blocks that are: of transactions that wait, as if the newest block
//! had them, and of half of those that were mined, as if they had failed.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{Truth, receipt};

#[derive(Debug)]
pub(super) struct MadeUpReceipts {
    newest: Value,
    waiting: BTreeMap<String, Value>,
    /// What was told once is told again.
    told: BTreeMap<String, Value>,
    failures: BTreeSet<String>,
}

impl MadeUpReceipts {
    pub(super) fn begin(truth: &Truth) -> Self {
        let mut tale = Self {
            newest: Value::Null,
            waiting: BTreeMap::new(),
            told: BTreeMap::new(),
            failures: BTreeSet::new(),
        };
        tale.hear(truth);
        tale
    }

    pub(super) fn hear(&mut self, truth: &Truth) {
        self.newest = truth.newest.clone();
        let txs = truth.txs.iter().filter_map(|tx| Some((tx["hash"].as_str()?, tx)));
        self.waiting.extend(txs.map(|(hash, tx)| (hash.to_owned(), tx.clone())));
    }

    pub(super) fn answer(&mut self, method: &str, params: &Value, result: &Value) -> Option<Value> {
        match method {
            "eth_getTransactionReceipt" if result.is_null() => self.made(params[0].as_str()?),
            "eth_getTransactionReceipt" => {
                let told = self.told.get(params[0].as_str()?).cloned();
                told.or_else(|| self.failed(result))
            }
            "eth_getBlockReceipts" => {
                let receipts = result.as_array()?.iter();
                let told =
                    receipts.map(|true_one| self.failed(true_one).unwrap_or(true_one.clone()));
                Some(Value::Array(told.collect()))
            }
            _ => None,
        }
    }

    /// A receipt in the newest block of a transaction that waits.
    fn made(&mut self, hash: &str) -> Option<Value> {
        if let Some(told) = self.told.get(hash) {
            return Some(told.clone());
        }
        let tx = self.waiting.get(hash)?;
        let height = crate::run::chain::quantity(&self.newest["number"]);
        let told = receipt(tx, self.newest["hash"].as_str()?, height, 0);
        self.told.insert(hash.to_owned(), told.clone());
        Some(told)
    }

    /// A true receipt with another end, for every other transaction.
    fn failed(&mut self, receipt: &Value) -> Option<Value> {
        let hash = receipt["transactionHash"].as_str()?;
        let is_chosen = hash.bytes().last().is_some_and(|digit| digit % 2 == 0);
        let told = is_chosen.then(|| {
            let mut receipt = receipt.clone();
            receipt["status"] = json!("0x0");
            receipt
        });
        if told.is_some() {
            self.failures.insert(hash.to_owned());
        }
        told
    }

    pub(super) fn made_up(&self) -> BTreeSet<String> {
        self.told.keys().chain(&self.failures).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::{truth, waiting};
    use super::*;

    #[test]
    fn what_waits_has_a_receipt_in_the_newest_block_and_keeps_it() {
        let mut tale = MadeUpReceipts::begin(&truth(20, &[waiting("0xa", 5)]));
        let ask = |tale: &mut MadeUpReceipts, hash: &str| {
            tale.answer("eth_getTransactionReceipt", &json!([hash]), &Value::Null)
        };
        let told = ask(&mut tale, "0xa").unwrap();
        assert_eq!((&told["blockHash"], &told["status"]), (&json!("0xtrue20"), &json!("0x1")));
        tale.hear(&truth(21, &[]));
        assert_eq!(ask(&mut tale, "0xa"), Some(told));
        assert_eq!(ask(&mut tale, "0xnobody"), None);
    }

    #[test]
    fn every_other_one_that_was_mined_is_told_to_have_failed() {
        let mut tale = MadeUpReceipts::begin(&truth(20, &[]));
        let mined = |hash: &str| json!({ "transactionHash": hash, "status": "0x1" });
        let all = json!([mined("0x2"), mined("0x3")]);
        let told = tale.answer("eth_getBlockReceipts", &json!(["0xtrue20"]), &all).unwrap();
        assert_eq!((&told[0]["status"], &told[1]["status"]), (&json!("0x0"), &json!("0x1")));
        assert_eq!(tale.made_up(), BTreeSet::from(["0x2".to_owned()]));
    }
}
