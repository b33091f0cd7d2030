//! A signed transaction, with its sender.

use alloy::consensus::transaction::SignerRecoverable;
use alloy::consensus::{Transaction, TxEnvelope, Typed2718};
use alloy::eips::eip2718::{Decodable2718, Encodable2718};
use alloy_primitives::{Address, B256, U256};
use revm::context::TxEnv;

use crate::pool::Refusal;

/// A signed transaction, with its sender.
#[derive(Debug)]
pub(crate) struct Tx {
    pub(crate) envelope: TxEnvelope,
    pub(crate) hash: B256,
    pub(crate) from: Address,
}

impl Tx {
    /// Reads signed bytes and finds out who signed them, which is what costs most about a
    /// transaction: nothing may be locked meanwhile.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Refusal> {
        let envelope = read(bytes)?;
        let from = envelope.recover_signer().map_err(|_| Refusal::InvalidSender)?;
        Ok(Self::new(envelope, from))
    }

    /// The same for bytes whose sender is on record.
    pub(crate) fn decode_known(bytes: &[u8], from: Address) -> Result<Self, Refusal> {
        Ok(Self::new(read(bytes)?, from))
    }

    /// A transaction that was signed here.
    pub(crate) fn new(envelope: TxEnvelope, from: Address) -> Self {
        Self { hash: *envelope.tx_hash(), envelope, from }
    }

    /// The signed bytes.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.envelope.encoded_2718()
    }

    /// The most that it can cost its sender.
    pub(crate) fn cost(&self) -> U256 {
        let gas = U256::from(self.envelope.gas_limit());
        let gas = gas.saturating_mul(U256::from(self.envelope.max_fee_per_gas()));
        gas.saturating_add(self.envelope.value())
    }

    /// The most that it offers for each unit of gas to whoever makes the block.
    pub(crate) fn max_tip(&self) -> u128 {
        self.envelope.max_priority_fee_per_gas().unwrap_or_else(|| self.envelope.max_fee_per_gas())
    }

    /// What is left of that with this base fee; `None` if it does not even offer the base fee.
    pub(crate) fn tip(&self, base_fee: u64) -> Option<u128> {
        self.envelope.effective_tip_per_gas(base_fee)
    }

    /// As the EVM takes it.
    pub(crate) fn environment(&self) -> TxEnv {
        let tx = &self.envelope;
        TxEnv {
            tx_type: tx.ty(),
            caller: self.from,
            gas_limit: tx.gas_limit(),
            gas_price: tx.max_fee_per_gas(),
            kind: tx.kind(),
            value: tx.value(),
            data: tx.input().clone(),
            nonce: tx.nonce(),
            chain_id: tx.chain_id(),
            access_list: tx.access_list().cloned().unwrap_or_default(),
            gas_priority_fee: tx.max_priority_fee_per_gas(),
            blob_hashes: Vec::new(),
            max_fee_per_blob_gas: 0,
            authorization_list: Vec::new(),
        }
    }
}

fn read(bytes: &[u8]) -> Result<TxEnvelope, Refusal> {
    match bytes.first() {
        None => return Err(Refusal::Undecodable("typed transaction too short".to_owned())),
        Some(3) => return Err(Refusal::Unsupported("blobs (EIP-4844)")),
        Some(4) => return Err(Refusal::Unsupported("authorizations (EIP-7702)")),
        Some(kind @ (5..=0x7f | 0)) => {
            return Err(Refusal::Undecodable(format!("transaction type {kind} not supported")));
        }
        _ => {}
    }
    let mut rest = bytes;
    let envelope = TxEnvelope::decode_2718(&mut rest)
        .map_err(|error| Refusal::Undecodable(format!("rlp: {error}")))?;
    if rest.is_empty() {
        Ok(envelope)
    } else {
        Err(Refusal::Undecodable("rlp: input contains more than one value".to_owned()))
    }
}
