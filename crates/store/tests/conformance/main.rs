//! One suite for both stores: whatever is said here holds on PostgreSQL and on SQLite.
//!
//! | file | what is checked |
//! |---|---|
//! | `lease` | acquire, renew, release |
//! | `takeover` | a node's own lanes after a restart, and other nodes' expired ones |
//! | `bind` | planned holds: cursors, reissue, what is refused and what is then left unwritten |
//! | `together` | calls that come at one time |
//! | `keys` | idempotency keys of allocations |
//! | `marks` | what callers say about their holds |
//! | `mark_table` | every status and event, against the rule in the domain |
//! | `model` | random histories of a lane, against a model in memory |
//! | `sweep` | the first cursor, holds that ran out, what the chain shows |
//! | `pause` | pause and resume |
//! | `reads` | surveys, lanes, pages of holds, reading back |
//! | `schema` | migrations |
//! | `constraints` | what the database itself refuses, whoever asks |
//! | `accept` | acceptance of transactions and its idempotency |
//! | `bind_txs` | transactions that get their nonces |
//! | `estimates` | transactions that wait for an estimate of their gas |
//! | `record` | what happens to them |
//! | `tx_reads` | reads of transactions |
//! | `in_flight` | what is in flight on many lanes, page by page |
//! | `stream` | the stream of events |
//! | `retention` | removing what is over |
//! | `replacements` | attempts and transactions that take each other's place |
//! | `wishes` | what callers want of transactions afterwards |
//! | `lane_events` | what happens to lanes |
//! | `headers` | which blocks are canonical, and forks that nobody has told of |
//! | `nodes` | the nodes that share a database, and what they tell each other |
//! | `hand_over` | lanes that go to another node |
//! | `api_keys` | who may call: made, listed, revoked, expired |
//! | `origin` | lanes in another history of the database |
//! | `rollout` | which lanes are Stile's |
//! | `import` | nonces taken over from V1 |
//! | `opening` | URLs, and one server at a time |

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

#[path = "../common/mod.rs"]
mod common;

/// Runs each of these functions on a fresh database of either kind, and on PostgreSQL once more by way
/// of PgBouncer in transaction mode.
macro_rules! on_both_stores {
    ($($name:ident),* $(,)?) => {
        mod postgres {
            $(#[tokio::test]
            async fn $name() {
                super::$name(crate::common::Bench::postgres().await).await;
            })*
        }

        mod pgbouncer {
            $(#[tokio::test]
            async fn $name() {
                super::$name(crate::common::Bench::pooled().await).await;
            })*
        }

        mod sqlite {
            $(#[tokio::test]
            async fn $name() {
                super::$name(crate::common::Bench::sqlite().await).await;
            })*
        }
    };
}

mod accept;
mod api_keys;
mod bind;
mod bind_txs;
mod constraints;
mod estimates;
mod hand_over;
mod headers;
mod import;
mod in_flight;
mod keys;
mod lane_events;
mod lease;
mod mark_table;
mod marks;
mod model;
mod nodes;
mod opening;
mod origin;
mod pause;
mod reads;
mod record;
mod replacements;
mod restored;
mod retention;
mod rollout;
mod schema;
mod stream;
mod sweep;
mod takeover;
mod together;
mod tx_reads;
mod wishes;
