//! A head that goes back and forth, as one does behind a load balancer with a node that lags. Nothing
//! of what it tells is wrong, but old.

use serde_json::{Value, json};

use super::{Truth, as_asked, hex};
use crate::run::chain::quantity;

/// How many times in a row what is told stays the same.
const STAYS: u32 = 4;

#[derive(Debug)]
pub(super) struct Flap {
    /// How far it goes back.
    back: u64,
    heard: u32,
    /// Newest blocks, to go back to.
    blocks: Vec<Value>,
    /// The newest block that it admits to, while it has gone back.
    shown: Option<Value>,
}

impl Flap {
    pub(super) fn new(back: u64) -> Self {
        Self { back, heard: 0, blocks: Vec::new(), shown: None }
    }

    pub(super) fn hear(&mut self, truth: &Truth) {
        // After a reorganisation it is of another chain, and begins anew.
        let follows = self.blocks.last().is_none_or(|last| {
            last["hash"] == truth.newest["hash"] || last["hash"] == truth.newest["parentHash"]
        });
        if !follows {
            self.blocks.clear();
            self.shown = None;
        }
        if self.blocks.last().is_none_or(|last| last["hash"] != truth.newest["hash"]) {
            self.blocks.push(truth.newest.clone());
        }
        self.heard += 1;
        if self.heard.is_multiple_of(STAYS) {
            let goes_back = self.shown.is_none();
            let back = usize::try_from(self.back).unwrap_or(usize::MAX);
            let place = self.blocks.len().saturating_sub(back + 1);
            self.shown = self.blocks.get(place).filter(|_| goes_back).cloned();
        }
    }

    pub(super) fn answer(&self, method: &str, params: &Value, result: &Value) -> Option<Value> {
        let shown = self.shown.as_ref()?;
        let newest = quantity(&shown["number"]);
        let unknown = |height: &Value| (quantity(height) > newest).then_some(Value::Null);
        match method {
            "eth_blockNumber" => Some(hex(newest)),
            "eth_getBlockByNumber" => match params[0].as_str()? {
                "latest" | "pending" => Some(as_asked(shown, params)),
                _ => unknown(&result["number"]),
            },
            "eth_getBlockByHash" => unknown(&result["number"]),
            "eth_getBlockReceipts" => unknown(&result[0]["blockNumber"]),
            "eth_getTransactionReceipt" => unknown(&result["blockNumber"]),
            "eth_getTransactionByHash" => {
                unknown(&result["blockNumber"])?;
                let mut waiting = result.clone();
                for field in ["blockHash", "blockNumber", "transactionIndex"] {
                    waiting[field] = json!(null);
                }
                Some(waiting)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::truth;
    use super::*;

    #[test]
    fn it_goes_back_to_blocks_that_there_were_and_forth_again() {
        let mut tale = Flap::new(2);
        let head = |tale: &Flap| tale.answer("eth_blockNumber", &json!([]), &json!("0x18"));
        let mut heads = Vec::new();
        for height in 20..32 {
            tale.hear(&truth(height, &[]));
            heads.push(head(&tale).map(|head| quantity(&head)));
        }
        let back = |height: u64| [Some(height); 4];
        assert_eq!(heads[..3], [None; 3]);
        assert_eq!(heads[3..7], back(21), "two below 23");
        assert_eq!(heads[7..11], [None; 4]);
        let above = json!({ "number": "0x40" });
        assert_eq!(tale.answer("eth_getBlockByHash", &json!(["0x1"]), &above), Some(Value::Null));
    }
}
