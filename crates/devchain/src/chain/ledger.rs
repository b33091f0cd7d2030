//! The chain: what is canonical, and what was replaced.

use std::collections::VecDeque;

use alloy::consensus::Header;
use alloy_primitives::map::B256Map;
use alloy_primitives::{Address, B256, U256};

use super::block::{Block, FIRST_BASE_FEE, Rules};
use super::state::{Account, Changes, State};

/// How many replaced blocks can still be asked for by their hashes, as with a real node.
const REPLACED_KEPT: usize = 1024;

/// A block with its place.
#[derive(Debug, Clone)]
pub(crate) struct Placed {
    pub(crate) number: u64,
    pub(crate) parent_hash: B256,
    pub(crate) block: Block,
}

/// The canonical blocks from the genesis to the head, and the state after each of them.
#[derive(Debug)]
pub(crate) struct Ledger {
    pub(crate) rules: Rules,
    pub(crate) state: State,
    /// The state root that the next block starts from. It differs from the head's if a balance
    /// was set since.
    pub(crate) root: B256,
    blocks: Vec<Block>,
    numbers: B256Map<u64>,
    /// Where each transaction is: the block and its place there.
    places: B256Map<(u64, usize)>,
    replaced: VecDeque<Placed>,
}

impl Ledger {
    /// A chain of nothing but its genesis.
    pub(crate) fn new(rules: Rules, timestamp: u64, accounts: &[(Address, U256)]) -> Self {
        let mut changes = Changes::default();
        for (address, balance) in accounts {
            let account = Account { balance: *balance, ..Account::default() };
            changes.accounts.insert(*address, Some(account));
        }
        let root = changes.digest(B256::ZERO);
        let genesis = Block {
            hash: B256::ZERO,
            timestamp,
            base_fee: FIRST_BASE_FEE,
            fork: 0,
            state_root: root,
            body: None,
        };
        let genesis = genesis.sealed(&rules, 0, B256::ZERO);
        let mut state = State::default();
        state.apply(0, changes);
        let numbers = B256Map::from_iter([(genesis.hash, 0)]);
        let (blocks, places, replaced) = (vec![genesis], B256Map::default(), VecDeque::new());
        Self { rules, state, root, blocks, numbers, places, replaced }
    }

    /// The number of the newest block.
    pub(crate) fn head(&self) -> u64 {
        self.blocks.len() as u64 - 1
    }

    /// The canonical block at this height.
    pub(crate) fn block(&self, number: u64) -> Option<&Block> {
        self.blocks.get(usize::try_from(number).ok()?)
    }

    /// The newest block.
    pub(crate) fn tip(&self) -> &Block {
        &self.blocks[self.blocks.len() - 1]
    }

    /// The height of a canonical block.
    pub(crate) fn number_of(&self, hash: B256) -> Option<u64> {
        self.numbers.get(&hash).copied()
    }

    /// The hash of the block before the one at this height.
    pub(crate) fn parent_hash(&self, number: u64) -> B256 {
        let parent = number.checked_sub(1).and_then(|parent| self.block(parent));
        parent.map(|parent| parent.hash).unwrap_or_default()
    }

    /// The canonical block at this height, with its place.
    pub(crate) fn placed(&self, number: u64) -> Option<Placed> {
        let block = self.block(number)?.clone();
        Some(Placed { number, parent_hash: self.parent_hash(number), block })
    }

    /// A block that was replaced by another one.
    pub(crate) fn replaced(&self, hash: B256) -> Option<&Placed> {
        self.replaced.iter().rev().find(|placed| placed.block.hash == hash)
    }

    /// Where a transaction is: the block and its place there.
    pub(crate) fn place_of(&self, tx: B256) -> Option<(u64, usize)> {
        self.places.get(&tx).copied()
    }

    /// Whether there is a transaction in any block.
    pub(crate) fn has_transactions(&self) -> bool {
        !self.places.is_empty()
    }

    /// An account as the newest block left it.
    pub(crate) fn account(&self, address: Address) -> Account {
        self.state.account(address, self.head()).unwrap_or_default()
    }

    /// Puts a block on top.
    pub(crate) fn push(&mut self, block: Block, changes: Changes) {
        let number = self.blocks.len() as u64;
        for (index, tx) in block.txs().iter().enumerate() {
            self.places.insert(tx.hash, (number, index));
        }
        self.numbers.insert(block.hash, number);
        self.root = block.state_root;
        self.state.apply(number, changes);
        self.blocks.push(block);
    }

    /// Changes the state after the newest block, outside of any transaction.
    fn amend(&mut self, changes: Changes) {
        self.root = changes.digest(self.root);
        self.state.apply(self.head(), changes);
    }

    /// Changes an account after the newest block, outside of any transaction.
    pub(crate) fn amend_account(
        &mut self,
        address: Address,
        change: impl FnOnce(Account) -> Account,
    ) {
        let account = change(self.account(address));
        let mut changes = Changes::default();
        changes.accounts.insert(address, Some(account));
        self.amend(changes);
    }

    /// Takes back the blocks above this height and returns them, lowest first.
    pub(crate) fn cut(&mut self, height: u64) -> Vec<Block> {
        let first = height + 1;
        let mut parent_hash = self.parent_hash(first);
        let gone = self.blocks.split_off(usize::try_from(first).unwrap_or(usize::MAX));
        for (number, block) in (first..).zip(&gone) {
            self.numbers.remove(&block.hash);
            for tx in block.txs() {
                self.places.remove(&tx.hash);
            }
            self.replaced.push_back(Placed { number, parent_hash, block: block.clone() });
            parent_hash = block.hash;
        }
        let too_many = self.replaced.len().saturating_sub(REPLACED_KEPT);
        self.replaced.drain(..too_many);
        self.state.cut(height);
        self.root = self.tip().state_root;
        gone
    }
}

impl Placed {
    /// Its header.
    pub(crate) fn header(&self, rules: &Rules) -> Header {
        self.block.header(rules, self.number, self.parent_hash)
    }
}
