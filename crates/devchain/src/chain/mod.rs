//! The chain itself: blocks, the state at every height, and the EVM. Nothing here waits, locks or
//! reads a clock.
//!
//! | file | what it is for |
//! |---|---|
//! | `tx` | a signed transaction, with its sender |
//! | `versions` | a value at every height |
//! | `state` | accounts, storage and code, at every height |
//! | `overlay` | what the EVM reads and writes while a block is made |
//! | `block` | blocks, and the headers they have |
//! | `ledger` | the chain: what is canonical, and what was replaced |
//! | `evm` | the EVM with this chain's rules |
//! | `build` | making a block |
//! | `call` | calls that change nothing, and how much gas they need |

pub(crate) mod block;
pub(crate) mod build;
pub(crate) mod call;
pub(crate) mod ledger;
pub(crate) mod state;
pub(crate) mod tx;

pub(crate) mod evm;
mod overlay;
mod versions;

pub(crate) use block::{Block, Receipt, Rules};
pub(crate) use ledger::Ledger;
pub(crate) use tx::Tx;
