//! Blocks, as endpoints tell of them.

use alloy::primitives::{B256, U64, U256};
use serde::Deserialize;
use serde_json::{Value, json};
use stile_domain::Header;

use crate::Sighting;
use crate::calls::Method;
use crate::rpc::{Answer, Call, CallError, read};
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
    #[serde(default)]
    transactions: Vec<Entry>,
}

const ANOTHER: CallError = CallError::Garbled("another block than was asked for");
const ABSURD: CallError = CallError::Garbled("a block that cannot be");

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
    let Some(told) = read::<Told>(answer)? else { return Ok(None) };
    let height = told.number.to::<u64>();
    let base_fee = told.base_fee_per_gas.map(u128::try_from).transpose().map_err(|_| ABSURD)?;
    if height > i64::MAX as u64 || told.hash == told.parent_hash {
        return Err(ABSURD);
    }
    Ok(Some(Block {
        header: Header { height, hash: told.hash, parent: told.parent_hash },
        transactions: told.transactions.into_iter().map(Into::into).collect(),
        timestamp: told.timestamp.to(),
        base_fee,
        gas_limit: told.gas_limit.and_then(|limit| u64::try_from(limit).ok()),
    }))
}

/// Reads the block at a height; any other is an error.
pub(crate) fn read_at(answer: Answer, height: u64) -> Result<Option<Block>, CallError> {
    match read_block(answer)? {
        Some(block) if block.header.height != height => Err(ANOTHER),
        block => Ok(block),
    }
}

/// Reads the block with a hash; any other is an error.
pub(crate) fn read_hash(answer: Answer, hash: B256) -> Result<Option<Block>, CallError> {
    match read_block(answer)? {
        Some(block) if block.header.hash != hash => Err(ANOTHER),
        block => Ok(block),
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
        Ok(to_raw_value(&block).unwrap())
    }

    #[test]
    fn a_block_that_was_not_asked_for_is_not_taken() {
        let block = read_at(answer("0x5", 1, 2), 5).unwrap().unwrap();
        assert_eq!((block.header.height, block.timestamp, block.base_fee), (5, 16, None));
        assert_eq!(block.transactions, [Sighting::of_nobody(B256::repeat_byte(9))]);
        assert_eq!(read_at(answer("0x6", 1, 2), 5), Err(ANOTHER));
        assert_eq!(read_hash(answer("0x5", 1, 2), B256::repeat_byte(3)), Err(ANOTHER));
        assert_eq!(read_block(Ok(to_raw_value(&json!(null)).unwrap())), Ok(None));
    }

    #[test]
    fn absurd_blocks_are_errors() {
        assert_eq!(read_block(answer("0xffffffffffffffff", 1, 2)), Err(ABSURD));
        assert_eq!(read_block(answer("0x5", 1, 1)), Err(ABSURD));
        assert!(read_block(answer("five", 1, 2)).is_err());
        assert!(read_block(Ok(to_raw_value(&json!([1])).unwrap())).is_err());
    }
}
