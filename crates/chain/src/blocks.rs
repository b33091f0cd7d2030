//! Blocks, as endpoints tell of them.

use alloy::primitives::{B256, U64, U256};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use stile_domain::{GasRules, Header};

use crate::Sighting;
use crate::calls::Method;
use crate::rpc::{Answer, Bad, Call, CallError, read_checked};
use crate::sighting::Entry;

/// A block, as far as it matters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Its place in the chain.
    pub header: Header,
    /// Its transactions, in their order.
    pub transactions: Vec<Sighting>,
    /// When it was made, in seconds since 1970, by its maker's clock.
    pub timestamp: u64,
    /// Its base fee, on chains that have one.
    pub base_fee: Option<u128>,
    /// The most gas that its transactions may use together, where the endpoint says so.
    pub gas_limit: Option<u64>,
    /// What its chain counts as gas, as far as the fields of its header show.
    pub rules: GasRules,
}

/// As much of a block as tells how its chain makes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outline {
    /// Its height.
    pub height: u64,
    /// When it was made, in seconds since 1970, by its maker's clock.
    pub timestamp: u64,
    /// Whether it holds no transaction.
    pub is_empty: bool,
}

impl Outline {
    pub(crate) fn of(block: &Block) -> Self {
        let (height, timestamp) = (block.header.height, block.timestamp);
        Self { height, timestamp, is_empty: block.transactions.is_empty() }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Told {
    number: U64,
    hash: B256,
    parent_hash: B256,
    #[serde(default)]
    timestamp: U64,
    #[serde(default)]
    base_fee_per_gas: Option<U256>,
    #[serde(default)]
    gas_limit: Option<U256>,
    /// From Shanghai on.
    #[serde(default)]
    withdrawals_root: Option<IgnoredAny>,
    /// From Prague on.
    #[serde(default)]
    requests_hash: Option<IgnoredAny>,
    #[serde(default)]
    transactions: Option<Vec<Entry>>,
}

const ANOTHER: &str = "another block than was asked for";
const ABSURD: &str = "a block that cannot be";

/// How much of a block's transactions is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum With {
    /// Their hashes: the least that can be asked for, where only the header matters.
    Hashes,
    /// All of each, since nothing between that and a hash can be asked for. It makes the answer
    /// some ten times as long.
    Transactions,
}

/// Asks for the newest block.
pub(crate) fn latest_call(with: With) -> Call {
    tag_call("latest", with)
}

/// Asks for the block at a height.
pub(crate) fn at_call(height: u64, with: With) -> Call {
    Call::new(Method::BlockByNumber, json!([quantity(height), with.is_full()]))
}

/// Asks for a block by its tag.
pub(crate) fn tag_call(tag: &'static str, with: With) -> Call {
    Call::new(Method::BlockByNumber, json!([tag, with.is_full()]))
}

/// Asks for a block by its hash.
pub(crate) fn hash_call(hash: B256, with: With) -> Call {
    Call::new(Method::BlockByHash, json!([hash, with.is_full()]))
}

impl With {
    fn is_full(self) -> bool {
        self == Self::Transactions
    }
}

/// A number as JSON-RPC writes it.
pub(crate) fn quantity(number: u64) -> Value {
    Value::String(format!("{number:#x}"))
}

/// Reads a block, whichever it is.
pub(crate) fn read_block(answer: Answer) -> Result<Option<Block>, CallError> {
    read_checked(answer, Told::into_block)
}

/// Reads the block at a height; any other is an error.
pub(crate) fn read_at(answer: Answer, height: u64) -> Result<Option<Block>, CallError> {
    read_checked(answer, |told: Told| match told.into_block()? {
        block if block.header.height != height => Err(Bad { field: "number", words: ANOTHER }),
        block => Ok(block),
    })
}

/// Reads the block with a hash; any other is an error.
pub(crate) fn read_hash(answer: Answer, hash: B256) -> Result<Option<Block>, CallError> {
    read_checked(answer, |told: Told| match told.into_block()? {
        block if block.header.hash != hash => Err(Bad { field: "hash", words: ANOTHER }),
        block => Ok(block),
    })
}

impl Told {
    fn into_block(self) -> Result<Block, Bad> {
        let absurd = |field| Bad { field, words: ABSURD };
        let height = self.number.to::<u64>();
        let base_fee = self.base_fee_per_gas.map(u128::try_from).transpose();
        if height > i64::MAX as u64 {
            return Err(absurd("number"));
        }
        if self.hash == self.parent_hash {
            return Err(absurd("parentHash"));
        }
        let rules = GasRules {
            counts_initcode: self.withdrawals_root.is_some(),
            has_data_floor: self.requests_hash.is_some(),
            // No field of a header shows that.
            has_dear_data: false,
        };
        let transactions = self.transactions.unwrap_or_default();
        Ok(Block {
            header: Header { height, hash: self.hash, parent: self.parent_hash },
            transactions: transactions.into_iter().map(Into::into).collect(),
            timestamp: self.timestamp.to(),
            base_fee: base_fee.map_err(|_| absurd("baseFeePerGas"))?,
            gas_limit: self.gas_limit.and_then(|limit| u64::try_from(limit).ok()),
            rules,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::to_raw_value;

    use super::*;

    fn answer(number: &str, hash: u8, parent: u8) -> Answer {
        let block = json!({
            "number": number,
            "hash": B256::repeat_byte(hash),
            "parentHash": B256::repeat_byte(parent),
            "timestamp": "0x10",
            "transactions": [B256::repeat_byte(9)],
        });
        Ok(to_raw_value(&block).unwrap().into())
    }

    fn is_told<T>(found: Result<T, CallError>, words: &str) -> bool {
        found.is_err_and(|error| error.to_string().contains(words))
    }

    #[test]
    fn a_block_that_was_not_asked_for_is_not_taken() {
        let block = read_at(answer("0x5", 1, 2), 5).unwrap().unwrap();
        assert_eq!((block.header.height, block.timestamp, block.base_fee), (5, 16, None));
        assert_eq!(block.transactions, [Sighting::of_nobody(B256::repeat_byte(9))]);
        assert!(is_told(read_at(answer("0x6", 1, 2), 5), ANOTHER));
        assert!(is_told(read_hash(answer("0x5", 1, 2), B256::repeat_byte(3)), ANOTHER));
        assert_eq!(read_block(Ok(to_raw_value(&json!(null)).unwrap().into())), Ok(None));
    }

    #[test]
    fn hole_37_a_header_shows_which_rules_its_chain_has() {
        let root = B256::ZERO;
        for (fields, counts_initcode, has_data_floor) in [
            (json!({}), false, false),
            (json!({ "withdrawalsRoot": null, "requestsHash": null }), false, false),
            (json!({ "withdrawalsRoot": root }), true, false),
            (json!({ "withdrawalsRoot": root, "requestsHash": root }), true, true),
        ] {
            let mut block = json!({
                "number": "0x5", "hash": B256::repeat_byte(1), "parentHash": B256::ZERO,
            });
            block.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            let block = read_block(Ok(to_raw_value(&block).unwrap().into())).unwrap().unwrap();
            let rules = GasRules { counts_initcode, has_data_floor, has_dear_data: false };
            assert_eq!(block.rules, rules, "{fields}");
        }
    }

    #[test]
    fn a_block_that_tells_no_transactions_is_read_as_one_that_has_none() {
        for transactions in [None, Some(json!(null)), Some(json!([]))] {
            let mut block = json!({
                "number": "0x5", "hash": B256::repeat_byte(1), "parentHash": B256::ZERO,
            });
            if let Some(transactions) = transactions {
                block["transactions"] = transactions;
            }
            let read = read_block(Ok(to_raw_value(&block).unwrap().into())).unwrap().unwrap();
            assert_eq!(read.transactions, [], "{block}");
        }
    }

    #[test]
    fn absurd_blocks_are_errors() {
        assert!(is_told(read_block(answer("0xffffffffffffffff", 1, 2)), ABSURD));
        assert!(is_told(read_block(answer("0x5", 1, 1)), ABSURD));
        assert!(read_block(answer("five", 1, 2)).is_err());
        assert!(read_block(Ok(to_raw_value(&json!([1])).unwrap().into())).is_err());
    }
}
