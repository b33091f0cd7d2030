//! Taking a transaction.

use std::sync::Arc;

use alloy_primitives::B256;

use super::Node;
use crate::chain::Tx;
use crate::options::Blocks;
use crate::pool::{Refusal, check};

impl Node {
    /// Takes a transaction into the pool. Where each transaction gets its block at once, the block
    /// is there when this returns.
    pub(crate) fn submit(&self, tx: Tx) -> Result<B256, Refusal> {
        let hash = tx.hash;
        self.accept(Arc::new(tx))?;
        if self.blocks() == Blocks::Instant {
            // The transaction waits all the same if a block cannot be made.
            if let Err(error) = self.mine_waiting() {
                tracing::error!(%error, "no block for a transaction");
            }
        }
        Ok(hash)
    }

    fn accept(&self, tx: Arc<Tx>) -> Result<(), Refusal> {
        let ledger = self.ledger();
        let sender = ledger.account(tx.from);
        let known = self.pool().get(tx.hash).is_some();
        if known {
            return Err(Refusal::Known);
        }
        check(&ledger.rules, &tx, &sender)?;
        // Under the ledger's lock, so that no block comes between the account and the pool.
        self.pool().add(tx, &sender)
    }
}
