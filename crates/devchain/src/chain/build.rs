//! Making a block.

use std::sync::Arc;

use alloy::consensus::proofs::{calculate_receipt_root, calculate_transaction_root};
use alloy::consensus::{
    Eip658Value, Receipt as ConsensusReceipt, ReceiptEnvelope, ReceiptWithBloom, Transaction,
    TxEnvelope,
};
use alloy_primitives::{B256, Bloom, logs_bloom};
use revm::ExecuteCommitEvm;
use revm::context::result::{EVMError, ExecutionResult};

use super::block::{Block, Body, Receipt};
use super::evm::{Checks, Evm, Surroundings, evm};
use super::ledger::Ledger;
use super::overlay::Overlay;
use super::state::Changes;
use super::tx::Tx;

/// A block that is being made on top of a chain.
pub(crate) struct Builder<'a> {
    ledger: &'a Ledger,
    evm: Evm<'a>,
    surroundings: Surroundings,
    txs: Vec<Arc<Tx>>,
    receipts: Vec<Receipt>,
    gas_used: u64,
    logs: usize,
}

/// Why a transaction does not go into a block.
#[derive(Debug)]
pub(crate) enum Unfit {
    /// There is not enough gas left in this one.
    NoRoom,
    /// It is not valid where it would be, for this reason.
    Invalid(String),
}

/// When a block is, and what it asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) timestamp: u64,
    pub(crate) base_fee: u64,
    pub(crate) fork: u64,
}

impl<'a> Builder<'a> {
    /// Starts a block on top of the newest one.
    pub(crate) fn new(ledger: &'a Ledger, plan: Plan) -> Self {
        let Plan { timestamp, base_fee, fork } = plan;
        let surroundings = Surroundings { number: ledger.head() + 1, timestamp, base_fee, fork };
        let overlay = Overlay::new(ledger, ledger.head());
        let evm = evm(&ledger.rules, overlay, surroundings, Checks::All);
        let (txs, receipts) = (Vec::new(), Vec::new());
        Self { ledger, evm, surroundings, txs, receipts, gas_used: 0, logs: 0 }
    }

    /// A block without transactions, for which no EVM has to be set up.
    pub(crate) fn empty(ledger: &Ledger, plan: Plan) -> (Block, Changes) {
        let Plan { timestamp, base_fee, fork } = plan;
        let state_root = ledger.root;
        let block = Block { hash: B256::ZERO, timestamp, base_fee, fork, state_root, body: None };
        (block.sealed(&ledger.rules, ledger.head() + 1, ledger.tip().hash), Changes::default())
    }

    /// How much gas is left.
    pub(crate) fn room(&self) -> u64 {
        self.ledger.rules.gas_limit - self.gas_used
    }

    /// Runs a transaction and adds it, unless it does not fit.
    pub(crate) fn add(&mut self, tx: &Arc<Tx>) -> Result<(), Unfit> {
        if tx.envelope.gas_limit() > self.room() {
            return Err(Unfit::NoRoom);
        }
        let result = match self.evm.transact_commit(tx.environment()) {
            Ok(result) => result,
            Err(EVMError::Transaction(reason)) => return Err(Unfit::Invalid(reason.to_string())),
            Err(reason) => return Err(Unfit::Invalid(reason.to_string())),
        };
        let gas_used = result.tx_gas_used();
        self.gas_used += gas_used;
        let success = result.is_success();
        let contract = match &result {
            ExecutionResult::Success { output, .. } => output.address().copied(),
            _ if tx.envelope.kind().is_create() => Some(tx.from.create(tx.envelope.nonce())),
            _ => None,
        };
        let logs = if success { result.into_logs() } else { Vec::new() };
        self.receipts.push(Receipt {
            success,
            gas_used,
            cumulative_gas_used: self.gas_used,
            effective_gas_price: tx.envelope.effective_gas_price(Some(self.surroundings.base_fee)),
            contract,
            logs_before: self.logs,
            bloom: logs_bloom(&logs),
            logs,
        });
        self.logs += self.receipts.last().map_or(0, |receipt| receipt.logs.len());
        self.txs.push(Arc::clone(tx));
        Ok(())
    }

    /// The finished block, and what it does to the state.
    pub(crate) fn finish(self) -> (Block, Changes) {
        let changes = self.evm.ctx.journaled_state.database.changes;
        let body = (!self.txs.is_empty()).then(|| {
            let bloom = self.receipts.iter().fold(Bloom::ZERO, |all, one| all | one.bloom);
            Arc::new(Body {
                transactions_root: transactions_root(&self.txs),
                receipts_root: receipts_root(&self.txs, &self.receipts),
                bloom,
                gas_used: self.gas_used,
                txs: self.txs,
                receipts: self.receipts,
            })
        });
        let Surroundings { number, timestamp, base_fee, fork } = self.surroundings;
        let state_root = changes.digest(self.ledger.root);
        let block = Block { hash: B256::ZERO, timestamp, base_fee, fork, state_root, body };
        (block.sealed(&self.ledger.rules, number, self.ledger.tip().hash), changes)
    }
}

fn transactions_root(txs: &[Arc<Tx>]) -> B256 {
    let envelopes: Vec<&TxEnvelope> = txs.iter().map(|tx| &tx.envelope).collect();
    calculate_transaction_root(&envelopes)
}

fn receipts_root(txs: &[Arc<Tx>], receipts: &[Receipt]) -> B256 {
    let envelopes = txs.iter().zip(receipts).map(|(tx, receipt)| {
        let status = Eip658Value::Eip658(receipt.success);
        let cumulative_gas_used = receipt.cumulative_gas_used;
        let logs = receipt.logs.clone();
        let consensus = ConsensusReceipt { status, cumulative_gas_used, logs };
        let with_bloom = ReceiptWithBloom { receipt: consensus, logs_bloom: receipt.bloom };
        ReceiptEnvelope::from_typed(tx.envelope.tx_type(), with_bloom)
    });
    calculate_receipt_root(&envelopes.collect::<Vec<ReceiptEnvelope>>())
}
