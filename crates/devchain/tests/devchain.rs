//! The development chain, over HTTP, as clients use it.
//!
//! | file | what is tested |
//! |---|---|
//! | `common` | a chain, its client, and transactions to send |
//! | `envelope` | JSON-RPC: batches, ids, errors |
//! | `pool` | what is taken, what waits, what replaces what |
//! | `wording` | refusals, as Stile's own client understands them |
//! | `blocks` | headers, roots, fees, tags |
//! | `contracts` | deployments, calls, reverts, logs, gas |
//! | `accounts` | sending from the chain's own accounts |
//! | `reorgs` | replaced blocks, and what becomes of their transactions |
//! | `faults` | old heads, lies, delays |
//! | `determinism` | the same calls make the same blocks |
//! | `persistence` | what is kept over restarts and kills |
//! | `cast`, `viem` | real clients |
//! | `anvil` | the same as another development chain |

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "devchain/common.rs"]
mod common;

#[path = "devchain/accounts.rs"]
mod accounts;
#[path = "devchain/anvil.rs"]
mod anvil;
#[path = "devchain/blocks.rs"]
mod blocks;
#[path = "devchain/cast.rs"]
mod cast;
#[path = "devchain/contracts.rs"]
mod contracts;
#[path = "devchain/determinism.rs"]
mod determinism;
#[path = "devchain/envelope.rs"]
mod envelope;
#[path = "devchain/faults.rs"]
mod faults;
#[path = "devchain/persistence.rs"]
mod persistence;
#[path = "devchain/pool.rs"]
mod pool;
#[path = "devchain/reorgs.rs"]
mod reorgs;
#[path = "devchain/viem.rs"]
mod viem;
#[path = "devchain/wording.rs"]
mod wording;
