//! Replacing blocks.

use std::collections::VecDeque;
use std::sync::Arc;

use alloy_primitives::B256;

use super::{Node, Unwritten};
use crate::chain::Tx;
use crate::chain::build::Builder;
use crate::file::Record;

/// What becomes of the transactions of replaced blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// They are in the new blocks, each this many blocks later than it was.
    Keep { later: u64 },
    /// They are gone from the chain and from the pool.
    Drop,
    /// They are back in the pool, for whatever block comes next.
    Delay,
}

/// A reorganisation to make.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reorg {
    /// How many blocks are replaced.
    pub(crate) depth: u64,
    /// By how many.
    pub(crate) length: u64,
    pub(crate) fate: Fate,
}

/// Why there is no reorganisation.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoReorg {
    #[error("the genesis cannot be replaced: depth {depth}, and the head is block {head}")]
    TooDeep { depth: u64, head: u64 },
    #[error(transparent)]
    Unwritten(#[from] Unwritten),
}

impl Node {
    /// Replaces the newest blocks by others. Nobody sees anything between the old ones and the new.
    /// Returns the hash of the new head.
    pub(crate) fn reorganise(&self, reorg: Reorg) -> Result<B256, NoReorg> {
        let mut maker = self.maker();
        maker.usable()?;
        let mut ledger = self.ledger_mut();
        let mut pool = self.pool();
        let head = ledger.head();
        let Some(ancestor) = head.checked_sub(reorg.depth) else {
            return Err(NoReorg::TooDeep { depth: reorg.depth, head });
        };
        let gone = ledger.cut(ancestor);
        maker.fork += 1;
        let mut records = vec![Record::Reorg { to: ancestor }];
        let mut left: VecDeque<(u64, Arc<Tx>)> = VecDeque::new();
        for (place, block) in (0..).zip(&gone) {
            left.extend(block.txs().iter().map(|tx| (place, Arc::clone(tx))));
        }
        for place in 0..reorg.length {
            let plan = maker.plan(&ledger);
            let mut builder = Builder::new(&ledger, plan);
            if let Fate::Keep { later } = reorg.fate {
                let is_last = place + 1 == reorg.length;
                while let Some((was, tx)) = left.front() {
                    if !is_last && was + later > place {
                        break;
                    }
                    // What fits no more stays in front, and goes back to the pool in the end.
                    if builder.add(tx).is_err() {
                        break;
                    }
                    left.pop_front();
                }
            }
            let (block, changes) = builder.finish();
            records.push(Record::of(&ledger.rules, ledger.tip(), &block));
            ledger.push(block, changes);
        }
        if reorg.fate != Fate::Drop {
            pool.put_back(left.into_iter().map(|(_, tx)| tx));
        }
        let hash = ledger.tip().hash;
        if let Err(error) = maker.write(&records) {
            // The chain in memory is ahead of its file, so nothing may be built on it.
            maker.broken = Some(error.clone());
            return Err(error.into());
        }
        Ok(hash)
    }
}
