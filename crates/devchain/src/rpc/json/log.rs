//! Logs.

use alloy_primitives::{Address, B256, Bytes, U64};
use serde::Serialize;

use super::Mined;

/// A log, as geth writes it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LogJson {
    address: Address,
    topics: Vec<B256>,
    data: Bytes,
    block_number: U64,
    block_hash: B256,
    block_timestamp: U64,
    transaction_hash: B256,
    transaction_index: U64,
    log_index: U64,
    removed: bool,
}

impl LogJson {
    /// The logs of a transaction.
    pub(crate) fn of(mined: Mined<'_>) -> impl Iterator<Item = Self> {
        (0..mined.receipt().logs.len()).map(move |place| Self::at(mined, place))
    }

    /// The log at this place of a transaction.
    pub(crate) fn at(mined: Mined<'_>, place: usize) -> Self {
        let block = &mined.placed.block;
        let log = &mined.receipt().logs[place];
        Self {
            address: log.address,
            topics: log.topics().to_vec(),
            data: log.data.data.clone(),
            block_number: U64::from(mined.placed.number),
            block_hash: block.hash,
            block_timestamp: U64::from(block.timestamp),
            transaction_hash: mined.tx().hash,
            transaction_index: U64::from(mined.index),
            log_index: U64::from(mined.receipt().logs_before + place),
            removed: false,
        }
    }
}
