//! Accounts, storage and code, at every height.

use std::collections::BTreeMap;

use alloy_primitives::map::{AddressMap, B256Map, HashMap};
use alloy_primitives::{Address, B256, KECCAK256_EMPTY, U256, keccak256};
use revm::bytecode::Bytecode;

use super::versions::Versions;

/// What an account is, apart from its storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) balance: U256,
    pub(crate) nonce: u64,
    pub(crate) code_hash: B256,
}

impl Default for Account {
    fn default() -> Self {
        Self { balance: U256::ZERO, nonce: 0, code_hash: KECCAK256_EMPTY }
    }
}

/// A place in the storage of an account.
pub(crate) type Slot = (Address, U256);

/// What a block, or whatever else changes the state, does to it.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// `None`: the account is no more.
    pub(crate) accounts: AddressMap<Option<Account>>,
    pub(crate) slots: HashMap<Slot, U256>,
    pub(crate) codes: B256Map<Bytecode>,
}

impl Changes {
    /// The hash of these changes after what led to `previous`. It takes the place of the state
    /// root: the same history has the same one, and it costs no trie.
    pub(crate) fn digest(&self, previous: B256) -> B256 {
        if self.accounts.is_empty() && self.slots.is_empty() {
            return previous;
        }
        let mut bytes = previous.to_vec();
        let mut accounts: Vec<_> = self.accounts.iter().collect();
        accounts.sort_unstable_by_key(|(address, _)| **address);
        for (address, account) in accounts {
            let account = account.unwrap_or_default();
            bytes.extend_from_slice(address.as_slice());
            bytes.extend_from_slice(&account.balance.to_be_bytes::<32>());
            bytes.extend_from_slice(&account.nonce.to_be_bytes());
            bytes.extend_from_slice(account.code_hash.as_slice());
        }
        let mut slots: Vec<_> = self.slots.iter().collect();
        slots.sort_unstable_by_key(|(slot, _)| **slot);
        for ((address, key), value) in slots {
            bytes.extend_from_slice(address.as_slice());
            bytes.extend_from_slice(&key.to_be_bytes::<32>());
            bytes.extend_from_slice(&value.to_be_bytes::<32>());
        }
        keccak256(bytes)
    }
}

/// Accounts, storage and code, at every height.
#[derive(Debug, Default)]
pub(crate) struct State {
    accounts: AddressMap<Versions<Option<Account>>>,
    slots: HashMap<Slot, Versions<U256>>,
    codes: B256Map<Bytecode>,
    /// What was set at each height, so that it can be taken back.
    touched: BTreeMap<u64, Touched>,
}

#[derive(Debug, Default)]
struct Touched {
    accounts: Vec<Address>,
    slots: Vec<Slot>,
}

impl State {
    /// An account after the block at this height.
    pub(crate) fn account(&self, address: Address, height: u64) -> Option<Account> {
        self.accounts.get(&address)?.at(height).flatten()
    }

    /// A place in storage after the block at this height.
    pub(crate) fn slot(&self, slot: Slot, height: u64) -> U256 {
        self.slots.get(&slot).and_then(|versions| versions.at(height)).unwrap_or_default()
    }

    /// Code by its hash; empty if there is none.
    pub(crate) fn code(&self, hash: B256) -> Bytecode {
        self.codes.get(&hash).cloned().unwrap_or_default()
    }

    /// Makes the changes of the block at this height, which is the newest one.
    pub(crate) fn apply(&mut self, height: u64, changes: Changes) {
        if changes.accounts.is_empty() && changes.slots.is_empty() {
            return;
        }
        let touched = self.touched.entry(height).or_default();
        for (address, account) in changes.accounts {
            touched.accounts.push(address);
            self.accounts.entry(address).or_default().set(height, account);
        }
        for (slot, value) in changes.slots {
            touched.slots.push(slot);
            self.slots.entry(slot).or_default().set(height, value);
        }
        // Code is found by its hash, so that of a block which was taken back does no harm.
        self.codes.extend(changes.codes);
    }

    /// Takes back everything above this height.
    pub(crate) fn cut(&mut self, height: u64) {
        for touched in self.touched.split_off(&(height + 1)).into_values() {
            for address in touched.accounts {
                if self.accounts.get_mut(&address).is_some_and(|versions| !versions.cut(height)) {
                    self.accounts.remove(&address);
                }
            }
            for slot in touched.slots {
                if self.slots.get_mut(&slot).is_some_and(|versions| !versions.cut(height)) {
                    self.slots.remove(&slot);
                }
            }
        }
    }
}
