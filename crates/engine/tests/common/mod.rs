//! What the tests of the engine share.
//!
//! | file | what is in it |
//! |---|---|
//! | `database` | a database of one's own, and handles on it |
//! | `bench` | a database, a mode, and the nodes started on them |
//! | `chain` | a chain that hangs, fails and counts its questions, in front of a real one or not |
//! | `spy` | a store that watches, stops and breaks what passes through to a real one |
//! | `ledger` | what the database says in the end, against what callers were told |

#![allow(dead_code, unused_imports, unused_macros, reason = "each test binary uses a part of it")]

mod bench;
mod chain;
mod database;
mod ledger;
mod spy;
mod spy_keys;
mod spy_nodes;
mod spy_restored;
mod spy_rollout;
mod spy_txs;

pub(crate) use bench::{
    Bench, LANE, QUEUE, key, lane, lanes_of_one_worker, lease, lease_without_renewal,
    once_reachable, queue,
};
pub(crate) use chain::{Chain, lane_of};
pub(crate) use database::{Database, proxied};
pub(crate) use ledger::{accounted, hold_as_it_stands, ledger, nonces, status, until_status, view};
pub(crate) use spy::{Gate, Lost, Spy};

/// Runs each of these functions on both stores, in both modes.
macro_rules! in_every_setup {
    ($($name:ident),* $(,)?) => {
        on! { postgres_basic: postgres(Mode::Basic) => $($name)* }
        on! { postgres_queue: postgres(crate::common::QUEUE) => $($name)* }
        on! { sqlite_basic: sqlite(Mode::Basic) => $($name)* }
        on! { sqlite_queue: sqlite(crate::common::QUEUE) => $($name)* }
    };
}

/// Runs each of these functions on both stores, in worker-queue mode.
macro_rules! on_both_stores {
    ($($name:ident),* $(,)?) => {
        on! { postgres: postgres(crate::common::QUEUE) => $($name)* }
        on! { sqlite: sqlite(crate::common::QUEUE) => $($name)* }
    };
}

/// Runs each of these functions on PostgreSQL, the store of clusters, in both modes.
macro_rules! in_clusters {
    ($($name:ident),* $(,)?) => {
        on! { basic: postgres(Mode::Basic) => $($name)* }
        on! { queue: postgres(crate::common::QUEUE) => $($name)* }
    };
}

macro_rules! on {
    ($setup:ident: $store:ident($mode:expr) => $($name:ident)*) => {
        mod $setup {
            #[allow(unused_imports, reason = "not every set-up names a mode")]
            use stile_engine::Mode;
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let test = async {
                    super::$name(crate::common::Bench::$store($mode).await).await;
                };
                // So that a call without an answer is a failure, not a wait without an end.
                tokio::time::timeout(testkit::DEADLINE * 2, test).await.expect("an end");
            })*
        }
    };
}

pub(crate) use {in_clusters, in_every_setup, on, on_both_stores};
