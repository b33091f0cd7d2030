//! The raw limit of taking transactions in: the rows that the store writes for each, by plain bulk
//! statements with nothing around them.

use std::time::Duration;

use serde_json::json;
use uuid::Uuid;

use super::{BULK_ROWS, postgres_admission, sqlite_admission};
use crate::StoreError;

/// What a database can do at best.
#[derive(Debug, Clone, Copy)]
pub struct AdmissionLimits {
    /// Transactions that wait for their nonce: the transaction and its first event.
    pub waiting: Rate,
    /// Transactions with their nonce: the transaction, its nonce, its signed bytes, two events.
    pub bound: Rate,
}

/// The best of the numbers of connections tried.
#[derive(Debug, Clone, Copy)]
pub struct Rate {
    /// Transactions a second, [`BULK_ROWS`] in each durable commit.
    pub per_second: f64,
    /// How many connections reached that.
    pub connections: usize,
}

/// Measures the database behind a store's URL, `each` long for every figure. The schema must be
/// up to date. Leaves nothing behind.
pub async fn measure_admission(url: &str, each: Duration) -> Result<AdmissionLimits, StoreError> {
    match url.strip_prefix("sqlite://") {
        Some(path) => sqlite_admission::measure(path.into(), each).await,
        None => postgres_admission::measure(url, each).await,
    }
}

/// Which rows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rows {
    Waiting,
    Bound,
}

/// The values of one commit. What does not differ between real transactions of a load does not
/// differ here.
pub(super) struct Batch {
    pub(super) signer: Vec<u8>,
    pub(super) ids: Vec<Uuid>,
    pub(super) request_ids: Vec<String>,
    pub(super) nonces: Vec<i64>,
    /// As long as a hash, and as different from each other.
    pub(super) hashes: Vec<Vec<u8>>,
    pub(super) payload: serde_json::Value,
    pub(super) fees: serde_json::Value,
    /// As long as a signed transfer.
    pub(super) raw: Vec<u8>,
}

impl Batch {
    pub(super) fn new() -> Self {
        Self {
            signer: Uuid::new_v4().into_bytes().repeat(2)[..20].to_vec(),
            ids: Vec::new(),
            request_ids: Vec::new(),
            nonces: Vec::new(),
            hashes: Vec::new(),
            payload: json!({
                "to": "0x70997970c51812dc3a010c7d01b50e0d17dc79c8", "value": "1",
                "data": "0x", "gasLimit": 21000,
            }),
            fees: json!({ "maxFeePerGas": "3000000000", "maxPriorityFeePerGas": "1000000000" }),
            raw: vec![0x02; 112],
        }
    }

    /// The next values, after so many.
    pub(super) fn next(&mut self, after: usize) {
        let numbers = after..after + BULK_ROWS;
        self.ids = numbers.clone().map(|_| Uuid::now_v7()).collect();
        self.request_ids = numbers.clone().map(|n| format!("bench-0-{n}")).collect();
        self.nonces = numbers.map(|n| n as i64).collect();
        self.hashes = self.ids.iter().map(|_| Uuid::new_v4().into_bytes().repeat(2)).collect();
    }
}
