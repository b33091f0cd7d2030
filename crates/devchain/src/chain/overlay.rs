//! What the EVM reads and writes while a block is made.

use std::convert::Infallible;

use alloy_primitives::map::AddressMap;
use alloy_primitives::{Address, B256, U256};
use revm::bytecode::Bytecode;
use revm::state::AccountInfo;
use revm::{Database, DatabaseCommit};

use super::ledger::Ledger;
use super::state::{Account, Changes};

/// The state after a block, and what is changed on top of it. The state itself stays as it is.
#[derive(Debug)]
pub(crate) struct Overlay<'a> {
    ledger: &'a Ledger,
    height: u64,
    pub(crate) changes: Changes,
}

impl<'a> Overlay<'a> {
    /// On top of the block at this height.
    pub(crate) fn new(ledger: &'a Ledger, height: u64) -> Self {
        Self { ledger, height, changes: Changes::default() }
    }

    fn account(&self, address: Address) -> Option<Account> {
        match self.changes.accounts.get(&address) {
            Some(changed) => *changed,
            None => self.ledger.state.account(address, self.height),
        }
    }

    fn slot(&self, address: Address, key: U256) -> U256 {
        match self.changes.slots.get(&(address, key)) {
            Some(changed) => *changed,
            None => self.ledger.state.slot((address, key), self.height),
        }
    }
}

impl Database for Overlay<'_> {
    type Error = Infallible;

    fn basic(&mut self, address: Address) -> Result<Option<AccountInfo>, Infallible> {
        Ok(self.account(address).map(|account| AccountInfo {
            balance: account.balance,
            nonce: account.nonce,
            code_hash: account.code_hash,
            account_id: None,
            code: None,
        }))
    }

    fn code_by_hash(&mut self, hash: B256) -> Result<Bytecode, Infallible> {
        let made_here = self.changes.codes.get(&hash).cloned();
        Ok(made_here.unwrap_or_else(|| self.ledger.state.code(hash)))
    }

    fn storage(&mut self, address: Address, key: U256) -> Result<U256, Infallible> {
        Ok(self.slot(address, key))
    }

    fn block_hash(&mut self, number: u64) -> Result<B256, Infallible> {
        let block = (number <= self.height).then(|| self.ledger.block(number)).flatten();
        Ok(block.map(|block| block.hash).unwrap_or_default())
    }
}

impl DatabaseCommit for Overlay<'_> {
    fn commit(&mut self, changes: AddressMap<revm::state::Account>) {
        for (address, account) in changes {
            if !account.is_touched() {
                continue;
            }
            // Only what was made in the same transaction can be destroyed (EIP-6780), and what is
            // empty is not kept (EIP-161). Neither has storage on record.
            let gone = account.is_selfdestructed() || account.is_empty();
            let now = (!gone).then_some(Account {
                balance: account.info.balance,
                nonce: account.info.nonce,
                code_hash: account.info.code_hash,
            });
            if now != self.account(address) {
                self.changes.accounts.insert(address, now);
            }
            if gone {
                continue;
            }
            if let Some(code) = account.info.code.filter(|code| !code.is_empty()) {
                self.changes.codes.entry(account.info.code_hash).or_insert(code);
            }
            for (key, slot) in account.storage {
                if slot.is_changed() {
                    self.changes.slots.insert((address, key), slot.present_value);
                }
            }
        }
    }
}
