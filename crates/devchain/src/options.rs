//! How a chain is set up.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use alloy_primitives::{Address, U256};

use crate::accounts;

/// How a chain is set up. [`Options::default`] is a chain that makes a block for each transaction,
/// on a free port, kept nowhere.
#[derive(Debug, Clone)]
pub struct Options {
    /// The chain's number.
    pub chain_id: u64,
    /// Where the JSON-RPC server listens; port 0 is any free one. Only loopback addresses are
    /// taken: whoever reaches the chain may change it.
    pub listen: SocketAddr,
    /// When blocks are made.
    pub blocks: Blocks,
    /// What the blocks' randomness (`prevRandao`) is made from.
    pub seed: u64,
    /// What time blocks have.
    pub clock: Clock,
    /// The accounts that have something at the start, and what they have.
    pub accounts: Vec<(Address, U256)>,
    /// The file that keeps the chain over restarts.
    pub state: Option<PathBuf>,
    /// How many blocks the `safe` one is behind the head.
    pub safe_depth: u64,
    /// How many blocks the `finalized` one is behind the head.
    pub finalized_depth: u64,
    /// How much gas a block has room for.
    pub gas_limit: u64,
}

impl Default for Options {
    fn default() -> Self {
        let ether = U256::from(10).pow(U256::from(18));
        let accounts = accounts::ALL.iter().map(|account| account.address);
        Self {
            chain_id: 31337,
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            blocks: Blocks::Instant,
            seed: 0,
            clock: Clock::System,
            accounts: accounts.map(|address| (address, U256::from(10_000) * ether)).collect(),
            state: None,
            safe_depth: 32,
            finalized_depth: 64,
            gas_limit: 60_000_000,
        }
    }
}

/// When blocks are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blocks {
    /// One after each such time, with whatever waits.
    Every(Duration),
    /// One for each accepted transaction, before its sender has an answer.
    Instant,
    /// Only by `dev_mine` and `evm_mine`.
    OnDemand,
}

/// What time blocks have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// That of the system; each block is at least a second later than the one before it.
    System,
    /// A given one, so that the same calls make the same blocks.
    Given {
        /// The time of the genesis, in seconds since 1970.
        start: u64,
        /// How many seconds each block is later than the one before it.
        step: u64,
    },
}

impl Clock {
    /// The time of the genesis of a new chain.
    pub(crate) fn genesis(self) -> u64 {
        match self {
            Self::System => now(),
            Self::Given { start, .. } => start,
        }
    }

    /// The time of a block after one with the time `parent`.
    pub(crate) fn after(self, parent: u64) -> u64 {
        match self {
            Self::System => now().max(parent.saturating_add(1)),
            Self::Given { step, .. } => parent.saturating_add(step),
        }
    }
}

fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
