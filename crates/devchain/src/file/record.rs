//! What a line of the file says.

use alloy_primitives::{Address, B256, Bytes, FixedBytes, U256};
use serde::{Deserialize, Serialize};

use crate::chain::{Block, Rules};

/// The version of the format that is written, and the only one that is read.
pub(crate) const VERSION: u32 = 1;

/// What a line of the file says. The names are short where there are many.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) enum Record {
    /// The first line: which chain this is.
    #[serde(rename = "chain")]
    Chain { version: u32, chain_id: u64, timestamp: u64, genesis: B256 },
    /// A block without transactions and with the base fee that follows from its parent: its time
    /// and the beginning of its hash.
    #[serde(rename = "e")]
    Empty(u64, FixedBytes<4>),
    /// Any other block.
    #[serde(rename = "b")]
    Block { timestamp: u64, base_fee: u64, hash: B256, txs: Vec<(Address, Bytes)> },
    /// The blocks above this height were replaced by those that follow.
    #[serde(rename = "reorg")]
    Reorg { to: u64 },
    /// A balance was set after the newest block.
    #[serde(rename = "balance")]
    Balance(Address, U256),
    /// A nonce was set after the newest block.
    #[serde(rename = "nonce")]
    Nonce(Address, u64),
}

impl Record {
    /// What is written of a block that comes after `parent`.
    pub(crate) fn of(rules: &Rules, parent: &Block, block: &Block) -> Self {
        let (timestamp, base_fee, hash) = (block.timestamp, block.base_fee, block.hash);
        if block.body.is_none() && base_fee == rules.base_fee_after(parent) {
            return Self::Empty(timestamp, beginning(hash));
        }
        let txs = block.txs().iter().map(|tx| (tx.from, Bytes::from(tx.bytes()))).collect();
        Self::Block { timestamp, base_fee, hash, txs }
    }
}

/// The beginning of a hash, which is enough to notice that something else was made.
pub(crate) fn beginning(hash: B256) -> FixedBytes<4> {
    FixedBytes::from_slice(&hash[..4])
}
