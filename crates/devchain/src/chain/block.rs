//! Blocks, and the headers they have.

use std::sync::Arc;

use alloy::consensus::Header;
use alloy::consensus::constants::{EMPTY_OMMER_ROOT_HASH, EMPTY_ROOT_HASH, EMPTY_WITHDRAWALS};
use alloy::eips::eip1559::{BaseFeeParams, calc_next_block_base_fee};
use alloy::eips::eip7685::EMPTY_REQUESTS_HASH;
use alloy_primitives::{Address, B64, B256, Bloom, Bytes, Log, U256, keccak256};

use super::tx::Tx;

/// The base fee of the genesis: 1 gwei.
pub(crate) const FIRST_BASE_FEE: u64 = 1_000_000_000;

/// Who gets the tips.
pub(crate) const BENEFICIARY: Address = Address::ZERO;

/// What is the same for all blocks of a chain.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    pub(crate) chain_id: u64,
    pub(crate) seed: u64,
    pub(crate) gas_limit: u64,
}

impl Rules {
    /// The randomness of a block (`prevRandao`). The number of the fork is in it, so that a block
    /// that replaces another one is never the same block.
    pub(crate) fn randomness(&self, number: u64, fork: u64) -> B256 {
        let mut bytes = [0; 24];
        bytes[..8].copy_from_slice(&self.seed.to_be_bytes());
        bytes[8..16].copy_from_slice(&number.to_be_bytes());
        bytes[16..].copy_from_slice(&fork.to_be_bytes());
        keccak256(bytes)
    }

    /// The base fee that follows from a block (EIP-1559).
    pub(crate) fn base_fee_after(&self, block: &Block) -> u64 {
        let parameters = BaseFeeParams::ethereum();
        calc_next_block_base_fee(block.gas_used(), self.gas_limit, block.base_fee, parameters)
    }
}

/// A block: what cannot be had from its place in the chain. An empty one takes a hundred bytes.
#[derive(Debug, Clone)]
pub(crate) struct Block {
    pub(crate) hash: B256,
    pub(crate) timestamp: u64,
    pub(crate) base_fee: u64,
    /// How many reorganisations there had been.
    pub(crate) fork: u64,
    /// See [`super::state::Changes::digest`].
    pub(crate) state_root: B256,
    /// `None` without transactions.
    pub(crate) body: Option<Arc<Body>>,
}

/// The transactions of a block, at least one, and what became of them.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) txs: Vec<Arc<Tx>>,
    pub(crate) receipts: Vec<Receipt>,
    pub(crate) transactions_root: B256,
    pub(crate) receipts_root: B256,
    pub(crate) bloom: Bloom,
    pub(crate) gas_used: u64,
}

/// What became of a transaction.
#[derive(Debug)]
pub(crate) struct Receipt {
    pub(crate) success: bool,
    pub(crate) gas_used: u64,
    pub(crate) cumulative_gas_used: u64,
    pub(crate) effective_gas_price: u128,
    pub(crate) contract: Option<Address>,
    /// How many logs the transactions before it in the block made.
    pub(crate) logs_before: usize,
    pub(crate) logs: Vec<Log>,
    pub(crate) bloom: Bloom,
}

impl Block {
    /// Its transactions.
    pub(crate) fn txs(&self) -> &[Arc<Tx>] {
        self.body.as_ref().map_or(&[], |body| &body.txs)
    }

    /// What became of them, in the same order.
    pub(crate) fn receipts(&self) -> &[Receipt] {
        self.body.as_ref().map_or(&[], |body| &body.receipts)
    }

    /// The gas of all of them.
    pub(crate) fn gas_used(&self) -> u64 {
        self.body.as_ref().map_or(0, |body| body.gas_used)
    }

    /// The header at this place: of the Prague fork, without blobs, withdrawals or requests.
    pub(crate) fn header(&self, rules: &Rules, number: u64, parent_hash: B256) -> Header {
        let body = self.body.as_deref();
        Header {
            parent_hash,
            ommers_hash: EMPTY_OMMER_ROOT_HASH,
            beneficiary: BENEFICIARY,
            state_root: self.state_root,
            transactions_root: body.map_or(EMPTY_ROOT_HASH, |body| body.transactions_root),
            receipts_root: body.map_or(EMPTY_ROOT_HASH, |body| body.receipts_root),
            logs_bloom: body.map_or(Bloom::ZERO, |body| body.bloom),
            difficulty: U256::ZERO,
            number,
            gas_limit: rules.gas_limit,
            gas_used: self.gas_used(),
            timestamp: self.timestamp,
            extra_data: Bytes::new(),
            mix_hash: rules.randomness(number, self.fork),
            nonce: B64::ZERO,
            base_fee_per_gas: Some(self.base_fee),
            withdrawals_root: Some(EMPTY_WITHDRAWALS),
            blob_gas_used: Some(0),
            excess_blob_gas: Some(0),
            parent_beacon_block_root: Some(B256::ZERO),
            requests_hash: Some(EMPTY_REQUESTS_HASH),
            ..Header::default()
        }
    }

    /// The same block with the hash that its place gives it.
    pub(crate) fn sealed(mut self, rules: &Rules, number: u64, parent_hash: B256) -> Self {
        self.hash = self.header(rules, number, parent_hash).hash_slow();
        self
    }
}
