//! Several nodes on one PostgreSQL, as processes of their own.
//!
//! | file | what is in it |
//! |---|---|
//! | `cluster` | a database, a chain and nodes, and their end |
//! | `node` | one process |
//! | `in_flight` | transactions that are in flight before any node starts |
//! | `accounts` | as many signers as are wanted, with their keys |
//! | `spread` | those who hand transactions over to many nodes |
//! | `figures` | distributions |

mod accounts;
mod cluster;
mod figures;
mod in_flight;
mod node;
mod spread;

pub(super) use accounts::Accounts;
pub(super) use cluster::{Cluster, Signers, Wanted};
pub(super) use figures::Delays;
pub(super) use in_flight::InFlight;
pub(super) use node::{Node, ready};
pub(super) use spread::{Sender, Way, hand_over_once, lanes_by_node, request};

use clap::ValueEnum;

/// The chain that all nodes send to.
pub(super) const CHAIN_ID: u64 = 31337;

/// Room for as many transfers in a block as come in a second.
pub(super) const GAS_LIMIT: u64 = 1_000_000_000;

/// Whom all transfers go to: an account without code.
pub(super) const RECEIVER: &str = "0x000000000000000000000000000000000000dEaD";

/// How nodes work their lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Mode {
    WorkerQueue,
    Basic,
}

impl Mode {
    /// As the configuration has it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::WorkerQueue => "worker-queue",
            Self::Basic => "basic",
        }
    }
}
