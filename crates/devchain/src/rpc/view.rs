//! The chain as a caller sees it: how far, and what `latest` means.

use std::ops::Deref;
use std::sync::RwLockReadGuard;

use alloy_primitives::B256;

use super::error::RpcError;
use super::params::BlockId;
use crate::chain::ledger::Placed;
use crate::chain::{Block, Ledger};
use crate::node::Node;

/// The chain, locked for reading, up to the block that callers take for the newest: that is the
/// head, unless the node says that it is behind.
pub(crate) struct View<'a> {
    ledger: RwLockReadGuard<'a, Ledger>,
    /// The number of the newest block.
    pub(crate) head: u64,
    safe_depth: u64,
    finalized_depth: u64,
}

impl Deref for View<'_> {
    type Target = Ledger;

    fn deref(&self) -> &Ledger {
        &self.ledger
    }
}

impl<'a> View<'a> {
    /// What callers see now.
    pub(crate) fn of(node: &'a Node) -> Self {
        let behind = node.faults().behind;
        let ledger = node.ledger();
        let head = ledger.head().saturating_sub(behind);
        let (safe_depth, finalized_depth) = (node.safe_depth, node.finalized_depth);
        Self { ledger, head, safe_depth, finalized_depth }
    }

    /// The height of a block; `None` if there is none, or none yet.
    pub(crate) fn height(&self, block: BlockId) -> Option<u64> {
        let height = match block {
            BlockId::Latest | BlockId::Pending => self.head,
            BlockId::Earliest => 0,
            BlockId::Safe => self.head.saturating_sub(self.safe_depth),
            BlockId::Finalized => self.head.saturating_sub(self.finalized_depth),
            BlockId::Number(number) => number,
            BlockId::Hash(hash) => self.ledger.number_of(hash)?,
        };
        (height <= self.head).then_some(height)
    }

    /// The height of a block whose state is asked for.
    pub(crate) fn state_at(&self, block: BlockId) -> Result<u64, RpcError> {
        self.height(block).ok_or_else(RpcError::no_block)
    }

    /// A block with its place. By hash also one that was replaced.
    pub(crate) fn find(&self, block: BlockId) -> Option<Placed> {
        match (self.height(block), block) {
            (Some(height), _) => self.ledger.placed(height),
            (None, BlockId::Hash(hash)) => self.ledger.replaced(hash).cloned(),
            (None, _) => None,
        }
    }

    /// The newest block.
    pub(crate) fn newest(&self) -> &Block {
        self.ledger.block(self.head).unwrap_or_else(|| self.ledger.tip())
    }

    /// Where a transaction is, if it is in a block.
    pub(crate) fn mined(&self, tx: B256) -> Option<(u64, usize)> {
        self.ledger.place_of(tx).filter(|(number, _)| *number <= self.head)
    }
}
