//! History by the million, for measuring what it costs.
//!
//! The rows are as those of transactions that were accepted under a request id, bound, sent once,
//! mined and confirmed three blocks later: a row of `tx`, an attempt, five entries of history and a
//! row of the nonce ledger for each.

mod postgres;
mod sqlite;

use stile_domain::{Lane, Nonce};

use crate::StoreError;

/// Transactions written in one commit.
const CHUNK: u64 = 20_000;

/// Blocks told on top of each.
const CONFIRMATIONS: u64 = 3;

/// How long ago the last of them was confirmed: a day.
const AGE_SECONDS: i64 = 24 * 3600;

/// The distance that the newest of them keeps from the newest header on record, so that none is
/// within a reorganisation's reach. Where no header is on record, all are in block 0.
const DEPTH: i64 = 400;

/// Fills a lane with so many finished transactions, at the nonces from its cursor on, and tells how
/// many are written. Answers with the cursor then: a lane that is to go on needs an account of
/// as many transactions on its chain. The schema must be up to date, and no node may be at work.
pub async fn seed_finished(
    url: &str,
    lane: Lane,
    count: u64,
    progress: impl Fn(u64),
) -> Result<Nonce, StoreError> {
    match url.strip_prefix("sqlite://") {
        Some(path) => sqlite::seed(path.into(), lane, count, &progress).await,
        None => postgres::seed(url, lane, count, &progress).await,
    }
}
