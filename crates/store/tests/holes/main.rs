//! The holes that protocols like this one have, each tried on a running server.
//!
//! A test carries the number of the hole it is about. Every one of them fails when the statement
//! or the setting that closes its hole is taken out.
//!
//! | file | holes |
//! |---|---|
//! | `fencing` | 2, 3, 4, 9: writes of a holder that is none any more |
//! | `interleaving` | 5, 6, 32, 33: writes that wait for a takeover, and takeovers that wait for a write |
//! | `clocks` | 7, 8: long transactions, frozen holders, time zones |
//! | `durability` | 10, 15: a server that loses commits, and commits whose answer is lost |
//! | `acquiring` | 11: racing and losing acquires, spellings, absent keys |
//! | `requests` | 15, 16a, 16b, 16e: request ids, nonces and the order of acceptance |
//! | `renewal` | 16d: renewal under load |
//! | `held_up` | 36: renewals while everything else waits, reads that take too long |
//! | `retention` | removing what is over in the same moment as something else happens to it |
//! | `swapped` | 20: an older database in the place of the one that nodes work on |
//! | `upgrading` | 44: nodes of the version before, while the schema is brought up to date |
//! | `away` | a server that is away or silent |

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

#[path = "../common/mod.rs"]
mod common;

/// A test on each store, by its own name there, for every function named.
macro_rules! on_both_stores {
    ($($name:ident $on_postgres:ident $on_sqlite:ident,)*) => {
        $(#[tokio::test]
        async fn $on_postgres() {
            $name($crate::common::Bench::postgres().await).await;
        }

        #[tokio::test]
        async fn $on_sqlite() {
            $name($crate::common::Bench::sqlite().await).await;
        })*
    };
}

mod acquiring;
mod away;
mod clocks;
mod durability;
mod fencing;
mod held_up;
mod interleaving;
mod renewal;
mod requests;
mod retention;
mod swapped;
mod upgrading;
