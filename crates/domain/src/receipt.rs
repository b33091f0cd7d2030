//! What a chain says of a mined transaction.

use alloy_primitives::{Address, B256};
use serde::{Deserialize, Serialize};

use crate::{Outcome, wei};

/// Where a transaction was mined, and how its execution ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Receipt {
    /// The attempt that was mined.
    pub tx_hash: B256,
    /// The block's height.
    pub block_number: u64,
    /// The block. The receipt counts only while this is the canonical block at that height.
    pub block_hash: B256,
    /// Its place in the block.
    pub transaction_index: u64,
    /// Whether its execution succeeded.
    pub status: bool,
    /// The gas it used.
    pub gas_used: u64,
    /// What was paid for a unit of it, in wei.
    #[serde(with = "wei")]
    pub effective_gas_price: u128,
    /// The contract it deployed.
    pub contract_address: Option<Address>,
}

impl Receipt {
    /// How its execution ended.
    pub fn outcome(&self) -> Outcome {
        if self.status { Outcome::Success } else { Outcome::Reverted }
    }
}
