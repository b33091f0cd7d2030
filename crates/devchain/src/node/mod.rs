//! A running chain: what is shared, what locks what, and everything that changes it.
//!
//! Three locks, always taken in this order, so that nobody waits in a circle:
//!
//! 1. `maker`: whoever adds or takes back blocks, one at a time. With it goes the file.
//! 2. `ledger`: blocks and state. A block is made while it is locked for reading only, so reads and
//!    acceptances go on; it is locked for writing for the moment in which the block appears.
//! 3. `pool`: who waits.
//!
//! Signatures are checked before any of them is taken. None is held while anything is awaited.
//!
//! | file | what it is for |
//! |---|---|
//! | `submit` | taking a transaction |
//! | `mine` | making blocks |
//! | `reorg` | replacing blocks |
//! | `ticker` | making blocks as time passes |
//! | `faults` | the faults that were asked for |

mod faults;
mod mine;
mod reorg;
mod submit;
mod ticker;

use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tokio::sync::watch;

use crate::chain::Ledger;
use crate::file::{Opened, StateFile, open};
use crate::options::{Blocks, Clock, Options};
use crate::pool::Pool;
use crate::{chain, error::DevChainError};

pub(crate) use faults::{Faults, Lie, LieAnswer};
pub(crate) use reorg::{Fate, NoReorg, Reorg};
pub(crate) use ticker::tick;

/// Why a chain cannot go on: what it does cannot be written down.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum Unwritten {
    #[error("the state file cannot be written: {0}")]
    Failed(String),
    #[error("the chain was stopped")]
    Stopped,
}

/// A running chain.
#[derive(Debug)]
pub(crate) struct Node {
    ledger: RwLock<Ledger>,
    pool: Mutex<Pool>,
    maker: Mutex<Maker>,
    /// What was asked for by `dev_delay`, `dev_oldHead` and `dev_lie`.
    faults: Mutex<Faults>,
    /// When blocks are made.
    blocks: watch::Sender<Blocks>,
    /// Who sends with an account of the chain's own, one at a time, since they need a nonce.
    sending: Mutex<()>,
    pub(crate) safe_depth: u64,
    pub(crate) finalized_depth: u64,
}

/// What is needed to make blocks.
#[derive(Debug)]
struct Maker {
    file: Option<StateFile>,
    clock: Clock,
    /// How many reorganisations there were.
    fork: u64,
    /// The base fee that was asked for.
    base_fee: Option<u64>,
    /// Set once nothing may be added any more.
    broken: Option<Unwritten>,
}

impl Node {
    /// A chain as its file has it, or a new one.
    pub(crate) fn open(options: &Options) -> Result<Self, DevChainError> {
        let Options { chain_id, seed, gas_limit, clock, .. } = *options;
        let rules = chain::Rules { chain_id, seed, gas_limit };
        let (ledger, file, fork) = match &options.state {
            Some(path) => {
                let Opened { file, ledger, fork } = open(path, rules, clock, &options.accounts)?;
                (ledger, Some(file), fork)
            }
            None => (Ledger::new(rules, clock.genesis(), &options.accounts), None, 0),
        };
        Ok(Self {
            ledger: RwLock::new(ledger),
            pool: Mutex::default(),
            maker: Mutex::new(Maker { file, clock, fork, base_fee: None, broken: None }),
            faults: Mutex::default(),
            blocks: watch::Sender::new(options.blocks),
            sending: Mutex::default(),
            safe_depth: options.safe_depth,
            finalized_depth: options.finalized_depth,
        })
    }

    /// Blocks and state, to read.
    pub(crate) fn ledger(&self) -> RwLockReadGuard<'_, Ledger> {
        self.ledger.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn ledger_mut(&self) -> RwLockWriteGuard<'_, Ledger> {
        self.ledger.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who waits. Not to be held when the ledger is locked.
    pub(crate) fn pool(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn maker(&self) -> MutexGuard<'_, Maker> {
        self.maker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The faults that were asked for.
    pub(crate) fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps others from sending with an account of the chain's own.
    pub(crate) fn sending(&self) -> MutexGuard<'_, ()> {
        self.sending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the file back. Nothing is added to the chain from now on.
    pub(crate) fn close(&self) {
        let mut maker = self.maker();
        maker.broken = Some(Unwritten::Stopped);
        maker.file = None;
    }

    /// When blocks are made.
    pub(crate) fn blocks(&self) -> Blocks {
        *self.blocks.borrow()
    }

    /// Changes when blocks are made.
    pub(crate) fn set_blocks(&self, blocks: Blocks) {
        self.blocks.send_replace(blocks);
    }
}
