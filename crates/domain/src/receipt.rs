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
    /// Whether its execution succeeded; `None` where no endpoint says so. Chains from before Byzantium
    /// do not, and some nodes leave it out.
    pub status: Option<bool>,
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
        match self.status {
            Some(true) => Outcome::Success,
            Some(false) => Outcome::Reverted,
            None => Outcome::Unknown,
        }
    }

    /// The contract it deployed. Nodes name one for what was reverted, too, where none is.
    pub fn contract(&self) -> Option<Address> {
        self.contract_address.filter(|_| self.status != Some(false))
    }
}
