//! Several real processes on one PostgreSQL.
//!
//! | file | what is checked |
//! |---|---|
//! | `allocations` | many callers, any node, both modes: every nonce once, none left out |
//! | `takeover` | a node that is killed, and one that is started twice |
//! | `zombie` | a process that was stopped while its successor went on |
//! | `stale_holder` | everything a superseded holder can try is refused and counted |
//! | `stopping` | a node that is asked to end |

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod common;

#[path = "cluster/allocations.rs"]
mod allocations;
#[path = "cluster/stale_holder.rs"]
mod stale_holder;
#[path = "cluster/stopping.rs"]
mod stopping;
#[path = "cluster/superseded_claim.rs"]
mod superseded_claim;
#[path = "cluster/takeover.rs"]
mod takeover;
#[path = "cluster/zombie.rs"]
mod zombie;
