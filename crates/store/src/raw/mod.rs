//! The raw limits of a database: what the store is measured against.
//!
//! Rows of the same shape as the store's, with the same indexes, are inserted by plain statements
//! with nothing around them. What the store reaches is then a share of what the database on this
//! very machine can do, not a number from somewhere else. [`seed_finished`] fills a store with
//! history, to measure what that costs. [`Watch`] sees from outside what nodes cost PostgreSQL, and
//! which of them holds what; [`OwnDatabase`] is where that can be measured undisturbed.

mod admission;
mod own;
mod postgres;
mod postgres_admission;
mod seed;
mod sqlite;
mod sqlite_admission;
mod watch;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub use admission::{AdmissionLimits, Rate, measure_admission};
pub use own::OwnDatabase;
pub use seed::seed_finished;
pub use watch::{Counters, LeftLane, Watch};

use crate::StoreError;

/// Rows in one bulk statement.
pub const BULK_ROWS: usize = 500;

/// What a database can do at best with nonces.
#[derive(Debug, Clone, Copy)]
pub struct RawLimits {
    /// Durable commits of one row, one after the other on one connection, a second.
    pub single_row_commits: f64,
    /// Rows a second in durable commits of [`BULK_ROWS`] rows each; the best of the numbers of
    /// connections tried.
    pub bulk_rows: f64,
    /// How many connections reached that.
    pub bulk_connections: usize,
}

/// Measures the database behind a store's URL, `each` long for every figure. The schema must be
/// up to date. Leaves nothing behind.
pub async fn measure(url: &str, each: Duration) -> Result<RawLimits, StoreError> {
    match url.strip_prefix("sqlite://") {
        Some(path) => sqlite::measure(path.into(), each).await,
        None => postgres::measure(url, each).await,
    }
}

/// A database file beside the given one, on the same disk.
fn beside(path: &Path) -> PathBuf {
    path.with_extension("raw-limit.db")
}

/// Removes a database file with what belongs to it.
fn remove(path: &Path) {
    for suffix in ["", "-wal", "-shm"] {
        let mut file = path.as_os_str().to_owned();
        file.push(suffix);
        let _ = std::fs::remove_file(file);
    }
}

/// Counts until the time is over; answers with the rate a second.
struct Meter {
    begun: Instant,
    each: Duration,
    count: usize,
}

impl Meter {
    fn start(each: Duration) -> Self {
        Self { begun: Instant::now(), each, count: 0 }
    }

    fn running(&self) -> bool {
        self.begun.elapsed() < self.each
    }

    fn rate(&self) -> f64 {
        self.count as f64 / self.begun.elapsed().as_secs_f64()
    }
}
