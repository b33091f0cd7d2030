//! Several real processes on one PostgreSQL.
//!
//! | file | what is checked |
//! |---|---|
//! | `allocations` | many callers, any node, both modes: every nonce once, none left out |
//! | `takeover` | a node that is killed, and one that is started twice |
//! | `zombie` | a process that was stopped while its successor went on |
//! | `stale_holder` | everything a superseded holder can try is refused and counted |
//! | `store_away` | PostgreSQL stopped, frozen, restarted, and out of connections |
//! | `stopping` | a node that is asked to end |
//! | `not_holder` | calls for a lane that another node holds: accepted, passed on, refused |
//! | `passing_on` | who may pass calls on, and how often |
//! | `between_nodes` | what goes from one node to another, where to, and which way |
//! | `scaling` | nodes that come and go under load, and lanes that follow them |
//! | `rolling` | nodes restarted one after the other, and their mode changed, under load |
//! | `acquires` | how often nodes ask for lanes in vain, by mode |

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

#[macro_use]
mod common;

#[path = "tx/support/mod.rs"]
mod support;

#[path = "cluster/acquires.rs"]
mod acquires;
#[path = "cluster/allocations.rs"]
mod allocations;
#[path = "cluster/between_nodes.rs"]
mod between_nodes;
#[path = "cluster/holds.rs"]
mod holds;
#[path = "cluster/not_holder.rs"]
mod not_holder;
#[path = "cluster/passing_on.rs"]
mod passing_on;
#[path = "cluster/rolling.rs"]
mod rolling;
#[path = "cluster/scaling.rs"]
mod scaling;
#[path = "cluster/stale_holder.rs"]
mod stale_holder;
#[path = "cluster/stopping.rs"]
mod stopping;
#[path = "cluster/store_away.rs"]
mod store_away;
#[path = "cluster/superseded_claim.rs"]
mod superseded_claim;
#[path = "cluster/takeover.rs"]
mod takeover;
#[path = "cluster/zombie.rs"]
mod zombie;
