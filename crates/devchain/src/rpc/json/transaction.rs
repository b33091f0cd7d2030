//! Transactions.

use alloy::consensus::{Transaction, Typed2718};
use alloy_primitives::{Address, B256, Bytes, U64, U256};
use serde::Serialize;

use super::Mined;
use crate::chain::Tx;

/// A transaction, as geth writes it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TxJson {
    block_hash: Option<B256>,
    block_number: Option<U64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    block_timestamp: Option<U64>,
    transaction_index: Option<U64>,
    hash: B256,
    #[serde(rename = "type")]
    kind: U64,
    #[serde(skip_serializing_if = "Option::is_none")]
    chain_id: Option<U64>,
    nonce: U64,
    from: Address,
    to: Option<Address>,
    value: U256,
    gas: U64,
    gas_price: U256,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_fee_per_gas: Option<U256>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_priority_fee_per_gas: Option<U256>,
    input: Bytes,
    #[serde(skip_serializing_if = "Option::is_none")]
    access_list: Option<Vec<AccessJson>>,
    r: U256,
    s: U256,
    v: U64,
    #[serde(skip_serializing_if = "Option::is_none")]
    y_parity: Option<U64>,
}

/// One account of an access list.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct AccessJson {
    address: Address,
    storage_keys: Vec<B256>,
}

impl TxJson {
    /// One that is in a block.
    pub(crate) fn mined(mined: Mined<'_>) -> Self {
        let block = &mined.placed.block;
        Self {
            block_hash: Some(block.hash),
            block_number: Some(U64::from(mined.placed.number)),
            block_timestamp: Some(U64::from(block.timestamp)),
            transaction_index: Some(U64::from(mined.index)),
            gas_price: U256::from(mined.receipt().effective_gas_price),
            ..Self::pending(mined.tx())
        }
    }

    /// One that waits.
    pub(crate) fn pending(tx: &Tx) -> Self {
        let envelope = &tx.envelope;
        let signature = envelope.signature();
        let parity = u64::from(signature.v());
        let legacy = envelope.is_legacy();
        let access_list = envelope.access_list().map(|list| {
            let accounts = list.iter().map(|item| AccessJson {
                address: item.address,
                storage_keys: item.storage_keys.clone(),
            });
            accounts.collect()
        });
        Self {
            block_hash: None,
            block_number: None,
            block_timestamp: None,
            transaction_index: None,
            hash: tx.hash,
            kind: U64::from(envelope.ty()),
            chain_id: envelope.chain_id().map(U64::from),
            nonce: U64::from(envelope.nonce()),
            from: tx.from,
            to: envelope.to(),
            value: envelope.value(),
            gas: U64::from(envelope.gas_limit()),
            gas_price: U256::from(envelope.max_fee_per_gas()),
            max_fee_per_gas: envelope.is_eip1559().then(|| U256::from(envelope.max_fee_per_gas())),
            max_priority_fee_per_gas: envelope.max_priority_fee_per_gas().map(U256::from),
            input: envelope.input().clone(),
            access_list,
            r: signature.r(),
            s: signature.s(),
            v: U64::from(match (legacy, envelope.chain_id()) {
                (true, Some(chain_id)) => parity + 35 + 2 * chain_id,
                (true, None) => parity + 27,
                (false, _) => parity,
            }),
            y_parity: (!legacy).then_some(U64::from(parity)),
        }
    }
}
