//! How blocks, transactions, receipts and logs are written: with the fields and forms of geth.

mod block;
mod log;
mod receipt;
mod transaction;

pub(crate) use block::BlockJson;
pub(crate) use log::LogJson;
pub(crate) use receipt::ReceiptJson;
pub(crate) use transaction::TxJson;

use crate::chain::ledger::Placed;
use crate::chain::{Receipt, Tx};

/// A transaction with its block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mined<'a> {
    pub(crate) placed: &'a Placed,
    pub(crate) index: usize,
}

impl<'a> Mined<'a> {
    /// All transactions of a block.
    pub(crate) fn all(placed: &'a Placed) -> impl Iterator<Item = Self> {
        (0..placed.block.txs().len()).map(move |index| Self { placed, index })
    }

    /// The transaction at this place of a block.
    pub(crate) fn at(placed: &'a Placed, index: usize) -> Option<Self> {
        (index < placed.block.txs().len()).then_some(Self { placed, index })
    }

    pub(crate) fn tx(&self) -> &'a Tx {
        &self.placed.block.txs()[self.index]
    }

    pub(crate) fn receipt(&self) -> &'a Receipt {
        &self.placed.block.receipts()[self.index]
    }
}
