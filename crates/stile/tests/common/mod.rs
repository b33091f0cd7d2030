//! What the tests of the binary share.
//!
//! | file | what is in it |
//! |---|---|
//! | `node` | a real `stile serve` process and how it is configured |
//! | `answer` | what HTTP calls answer |
//! | `raw` | requests written to a socket by hand, answered later |
//! | `client` | a caller that goes where it is sent |
//! | `database` | PostgreSQL and SQLite past the store |
//! | `command` | commands that run to their end |

#![allow(dead_code, unused_imports, reason = "each test binary uses a part of it")]

/// A test on each store for every function named, which takes the test binary's own `Backend`.
#[allow(unused_macros, reason = "not every test binary runs on both stores")]
macro_rules! on_both_stores {
    ($($test:ident),+ $(,)?) => {
        mod sqlite {
            $(#[tokio::test]
            async fn $test() {
                super::$test($crate::support::Backend::sqlite()).await;
            })+
        }

        mod postgres {
            $(#[tokio::test]
            async fn $test() {
                super::$test($crate::support::Backend::postgres().await).await;
            })+
        }
    };
}

mod answer;
mod client;
mod command;
mod database;
mod node;
mod raw;

pub(crate) use answer::Answer;
pub(crate) use client::RetryingClient;
pub(crate) use command::{Finished, run, run_in, stile};
pub(crate) use database::{Database, dump_sqlite};
pub(crate) use node::{NodeOptions, StileProcess};
pub(crate) use raw::Pending;

/// Both ways of working, by their names in the configuration.
pub(crate) const MODES: [&str; 2] = ["basic", "worker-queue"];

/// The chain that every test uses.
pub(crate) const CHAIN: u64 = 31337;

/// An account that every development chain knows.
pub(crate) const SIGNER: &str = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";

/// An account for each number, with the checksum that answers carry.
pub(crate) fn signer(number: u8) -> String {
    stile::Address::with_last_byte(number.wrapping_add(0x10)).to_string()
}

pub(crate) fn signers(count: u8) -> Vec<String> {
    (0..count).map(signer).collect()
}

/// A transaction's hash for each number.
pub(crate) fn hash(number: u8) -> String {
    stile::B256::repeat_byte(number).to_string()
}
