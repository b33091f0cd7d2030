//! Receipts.

use alloy::consensus::{Transaction, Typed2718};
use alloy_primitives::{Address, B256, Bloom, U64, U256};
use serde::Serialize;

use super::{LogJson, Mined};

/// A receipt, as geth writes it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReceiptJson {
    block_hash: B256,
    block_number: U64,
    transaction_hash: B256,
    transaction_index: U64,
    #[serde(rename = "type")]
    kind: U64,
    from: Address,
    to: Option<Address>,
    status: U64,
    cumulative_gas_used: U64,
    gas_used: U64,
    effective_gas_price: U256,
    contract_address: Option<Address>,
    logs: Vec<LogJson>,
    logs_bloom: Bloom,
}

impl From<Mined<'_>> for ReceiptJson {
    fn from(mined: Mined<'_>) -> Self {
        let (tx, receipt) = (mined.tx(), mined.receipt());
        Self {
            block_hash: mined.placed.block.hash,
            block_number: U64::from(mined.placed.number),
            transaction_hash: tx.hash,
            transaction_index: U64::from(mined.index),
            kind: U64::from(tx.envelope.ty()),
            from: tx.from,
            to: tx.envelope.to(),
            status: U64::from(u64::from(receipt.success)),
            cumulative_gas_used: U64::from(receipt.cumulative_gas_used),
            gas_used: U64::from(receipt.gas_used),
            effective_gas_price: U256::from(receipt.effective_gas_price),
            contract_address: receipt.contract,
            logs: LogJson::of(mined).collect(),
            logs_bloom: receipt.bloom,
        }
    }
}
