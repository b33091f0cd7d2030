//! Making blocks.

use alloy_primitives::{Address, U256};

use super::{Maker, Node, Unwritten};
use crate::chain::Ledger;
use crate::chain::build::{Builder, Plan};
use crate::chain::state::Account;
use crate::file::Record;
use crate::pool::fill;

impl Node {
    /// Makes a block of whatever waits and has room, even if that is nothing.
    pub(crate) fn mine(&self) -> Result<(), Unwritten> {
        let mut maker = self.maker();
        self.make(&mut maker, usize::MAX, true).map(drop)
    }

    /// Makes a block for each transaction that can have one.
    pub(crate) fn mine_waiting(&self) -> Result<(), Unwritten> {
        let mut maker = self.maker();
        while self.make(&mut maker, 1, false)? {}
        Ok(())
    }

    /// Makes a block of at most so many transactions; false if it would be empty and must not be.
    fn make(&self, maker: &mut Maker, most: usize, even_empty: bool) -> Result<bool, Unwritten> {
        maker.usable()?;
        let ledger = self.ledger();
        let queues = self.pool().executable(|sender| ledger.account(sender).nonce);
        let plan = maker.plan(&ledger);
        let mut invalid = Vec::new();
        let (block, changes) = if queues.is_empty() {
            Builder::empty(&ledger, plan)
        } else {
            let mut builder = Builder::new(&ledger, plan);
            invalid = fill(&mut builder, &queues, plan.base_fee, most);
            builder.finish()
        };
        let wanted = even_empty || block.body.is_some();
        if wanted {
            maker.write(&[Record::of(&ledger.rules, ledger.tip(), &block)])?;
        }
        drop(ledger);
        // Whoever sees the block no longer sees its transactions in the pool.
        let mut ledger = self.ledger_mut();
        let mut pool = self.pool();
        for (hash, reason) in invalid {
            tracing::debug!(%hash, reason, "a transaction left the pool");
            pool.remove(hash);
        }
        if wanted {
            for tx in block.txs() {
                pool.remove(tx.hash);
            }
            let senders: Vec<Address> = block.txs().iter().map(|tx| tx.from).collect();
            ledger.push(block, changes);
            for sender in senders {
                pool.used(sender, ledger.account(sender).nonce);
            }
        }
        Ok(wanted)
    }

    /// Gives an account this balance, from the newest block on.
    pub(crate) fn set_balance(&self, address: Address, balance: U256) -> Result<(), Unwritten> {
        let mut maker = self.maker();
        maker.usable()?;
        maker.write(&[Record::Balance(address, balance)])?;
        self.ledger_mut().amend_account(address, |account| Account { balance, ..account });
        Ok(())
    }

    /// Makes an account one that has sent so many, from the newest block on.
    pub(crate) fn set_nonce(&self, address: Address, nonce: u64) -> Result<(), Unwritten> {
        let mut maker = self.maker();
        maker.usable()?;
        maker.write(&[Record::Nonce(address, nonce)])?;
        self.ledger_mut().amend_account(address, |account| Account { nonce, ..account });
        self.pool().used(address, nonce);
        Ok(())
    }

    /// Gives the blocks from now on this base fee, or the one that follows from the blocks.
    pub(crate) fn set_base_fee(&self, base_fee: Option<u64>) {
        self.maker().base_fee = base_fee;
    }
}

impl Maker {
    pub(super) fn usable(&self) -> Result<(), Unwritten> {
        self.broken.clone().map_or(Ok(()), Err)
    }

    /// When the next block is, and what it asks for.
    pub(super) fn plan(&self, ledger: &Ledger) -> Plan {
        let parent = ledger.tip();
        Plan {
            timestamp: self.clock.after(parent.timestamp),
            base_fee: self.base_fee.unwrap_or_else(|| ledger.rules.base_fee_after(parent)),
            fork: self.fork,
        }
    }

    pub(super) fn write(&mut self, records: &[Record]) -> Result<(), Unwritten> {
        let Some(file) = &mut self.file else { return Ok(()) };
        file.append(records).map_err(|error| Unwritten::Failed(error.to_string()))
    }
}
