//! The results, for people and for programs.

use serde::Serialize;
use stile_store::raw::{AdmissionLimits, BULK_ROWS};

use super::chain::Raw;
use crate::cli::bench::table::{align, plain, thousands};

/// The raw limit of taking transactions in.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RawStore {
    store: &'static str,
    rows_in_a_commit: usize,
    waiting_per_second: f64,
    waiting_connections: usize,
    bound_per_second: f64,
    bound_connections: usize,
}

impl RawStore {
    pub(super) fn new(store: &'static str, limits: &AdmissionLimits) -> Self {
        Self {
            store,
            rows_in_a_commit: BULK_ROWS,
            waiting_per_second: limits.waiting.per_second,
            waiting_connections: limits.waiting.connections,
            bound_per_second: limits.bound.per_second,
            bound_connections: limits.bound.connections,
        }
    }
}

/// The raw limit of the chain.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RawChain {
    store: &'static str,
    signers: usize,
    count: usize,
    taken_per_second: f64,
    mined_seconds: f64,
}

impl RawChain {
    pub(super) fn new(store: &'static str, signers: usize, count: usize, raw: Raw) -> Self {
        Self {
            store,
            signers,
            count,
            taken_per_second: count as f64 / raw.taken.as_secs_f64(),
            mined_seconds: raw.mined.as_secs_f64(),
        }
    }
}

/// Durable and answered.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Accepted {
    pub(super) store: &'static str,
    /// Transactions that the store had been done with before.
    pub(super) history: u64,
    pub(super) call: &'static str,
    pub(super) signers: usize,
    pub(super) callers: usize,
    pub(super) per_second: f64,
    /// Of a call, which for a batch is many transactions.
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) refused: u64,
    /// The share that had its nonce when the load ended; the rest waits for room in its lane.
    pub(super) with_nonce: f64,
    /// Against the same rows in bulk by plain SQL: with nonces if the window is open, else without.
    pub(super) share_of_raw: f64,
}

/// From the first call to the last one mined.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Landed {
    pub(super) store: &'static str,
    pub(super) signers: usize,
    pub(super) count: usize,
    pub(super) accepted_seconds: f64,
    pub(super) mined_seconds: f64,
    /// Against the chain alone, with transactions signed beforehand.
    pub(super) times_raw: f64,
}

/// Start and memory.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Footprint {
    pub(super) store: &'static str,
    pub(super) history: u64,
    pub(super) ready_ms: f64,
    pub(super) idle_megabytes: f64,
    pub(super) in_flight: usize,
    pub(super) resident_megabytes: f64,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    pub(super) raw_store: Vec<RawStore>,
    pub(super) raw_chain: Vec<RawChain>,
    pub(super) accepted: Vec<Accepted>,
    pub(super) landed: Vec<Landed>,
    pub(super) footprint: Vec<Footprint>,
}

impl Report {
    pub(super) fn tables(&self) -> String {
        let tables = [self.raw(), self.accepted(), self.landed(), self.footprint()];
        tables.into_iter().flatten().collect::<Vec<_>>().join("\n\n")
    }

    fn raw(&self) -> Option<String> {
        let mut table = plain(&["raw limit", "of", "per second"]);
        for limit in &self.raw_store {
            for (what, rate, connections) in [
                ("waiting", limit.waiting_per_second, limit.waiting_connections),
                ("with nonce", limit.bound_per_second, limit.bound_connections),
            ] {
                table.add_row([
                    format!(
                        "rows of transactions {what}, {} a commit, {connections} connections",
                        limit.rows_in_a_commit
                    ),
                    limit.store.to_owned(),
                    thousands(rate),
                ]);
            }
        }
        for limit in &self.raw_chain {
            table.add_row([
                format!(
                    "{} signed beforehand, {} signers: mined after {:.1} s",
                    limit.count, limit.signers, limit.mined_seconds
                ),
                "chain".to_owned(),
                thousands(limit.taken_per_second),
            ]);
        }
        align(&mut table, 2..3);
        Some(table.to_string())
    }

    fn accepted(&self) -> Option<String> {
        let mut table = plain(&[
            "store",
            "history",
            "call",
            "signers",
            "callers",
            "accepted/s",
            "p50 ms",
            "p99 ms",
            "refused",
            "with nonce",
            "of raw",
        ]);
        for line in &self.accepted {
            table.add_row([
                line.store.to_owned(),
                thousands(line.history as f64),
                line.call.to_owned(),
                line.signers.to_string(),
                line.callers.to_string(),
                thousands(line.per_second),
                format!("{:.1}", line.p50_ms),
                format!("{:.1}", line.p99_ms),
                line.refused.to_string(),
                format!("{:.0} %", line.with_nonce * 100.0),
                format!("{:.0} %", line.share_of_raw * 100.0),
            ]);
        }
        align(&mut table, 3..11);
        align(&mut table, 1..2);
        (!self.accepted.is_empty()).then(|| table.to_string())
    }

    fn landed(&self) -> Option<String> {
        let mut table =
            plain(&["store", "signers", "transactions", "accepted s", "last mined s", "× raw"]);
        for line in &self.landed {
            table.add_row([
                line.store.to_owned(),
                line.signers.to_string(),
                line.count.to_string(),
                format!("{:.2}", line.accepted_seconds),
                format!("{:.2}", line.mined_seconds),
                format!("{:.1}", line.times_raw),
            ]);
        }
        align(&mut table, 1..6);
        (!self.landed.is_empty()).then(|| table.to_string())
    }

    fn footprint(&self) -> Option<String> {
        let mut table =
            plain(&["store", "history", "ready after ms", "idle MB", "in flight", "resident MB"]);
        for line in &self.footprint {
            table.add_row([
                line.store.to_owned(),
                thousands(line.history as f64),
                format!("{:.0}", line.ready_ms),
                format!("{:.0}", line.idle_megabytes),
                line.in_flight.to_string(),
                format!("{:.0}", line.resident_megabytes),
            ]);
        }
        align(&mut table, 1..6);
        (!self.footprint.is_empty()).then(|| table.to_string())
    }
}
