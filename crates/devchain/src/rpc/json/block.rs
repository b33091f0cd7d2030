//! Blocks.

use alloy::consensus::Header;
use alloy::eips::eip2718::Encodable2718;
use alloy::rlp::Encodable;
use alloy_primitives::{Address, B64, B256, Bloom, Bytes, U64, U256};
use serde::Serialize;

use super::{Mined, TxJson};
use crate::chain::Rules;
use crate::chain::ledger::Placed;

/// A block, as geth writes it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BlockJson {
    hash: B256,
    parent_hash: B256,
    #[serde(rename = "sha3Uncles")]
    ommers_hash: B256,
    miner: Address,
    state_root: B256,
    transactions_root: B256,
    receipts_root: B256,
    logs_bloom: Bloom,
    difficulty: U256,
    number: U64,
    gas_limit: U64,
    gas_used: U64,
    timestamp: U64,
    extra_data: Bytes,
    mix_hash: B256,
    nonce: B64,
    base_fee_per_gas: Option<U64>,
    withdrawals_root: Option<B256>,
    blob_gas_used: Option<U64>,
    excess_blob_gas: Option<U64>,
    parent_beacon_block_root: Option<B256>,
    requests_hash: Option<B256>,
    size: U64,
    transactions: TransactionsJson,
    uncles: [B256; 0],
    withdrawals: [(); 0],
}

/// The transactions of a block, in short or in full.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum TransactionsJson {
    Hashes(Vec<B256>),
    Full(Vec<TxJson>),
}

impl BlockJson {
    /// A block with the hashes of its transactions, or with all of them.
    pub(crate) fn new(rules: &Rules, placed: &Placed, full: bool) -> Self {
        let header = placed.header(rules);
        let transactions = if full {
            TransactionsJson::Full(Mined::all(placed).map(TxJson::mined).collect())
        } else {
            TransactionsJson::Hashes(placed.block.txs().iter().map(|tx| tx.hash).collect())
        };
        Self {
            size: U64::from(size(&header, placed)),
            hash: placed.block.hash,
            parent_hash: header.parent_hash,
            ommers_hash: header.ommers_hash,
            miner: header.beneficiary,
            state_root: header.state_root,
            transactions_root: header.transactions_root,
            receipts_root: header.receipts_root,
            logs_bloom: header.logs_bloom,
            difficulty: header.difficulty,
            number: U64::from(header.number),
            gas_limit: U64::from(header.gas_limit),
            gas_used: U64::from(header.gas_used),
            timestamp: U64::from(header.timestamp),
            extra_data: header.extra_data,
            mix_hash: header.mix_hash,
            nonce: header.nonce,
            base_fee_per_gas: header.base_fee_per_gas.map(U64::from),
            withdrawals_root: header.withdrawals_root,
            blob_gas_used: header.blob_gas_used.map(U64::from),
            excess_blob_gas: header.excess_blob_gas.map(U64::from),
            parent_beacon_block_root: header.parent_beacon_block_root,
            requests_hash: header.requests_hash,
            transactions,
            uncles: [],
            withdrawals: [],
        }
    }
}

/// How many bytes a block has on the wire.
fn size(header: &Header, placed: &Placed) -> usize {
    let with_prefix = |length| length + alloy::rlp::length_of_length(length);
    let txs = placed.block.txs().iter().map(|tx| tx.envelope.network_len()).sum();
    // The lists of uncles and of withdrawals are empty: one byte each.
    with_prefix(header.length() + with_prefix(txs) + 2)
}
