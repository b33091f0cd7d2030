//! The results, for people and for programs.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::cli::bench::table::{align, plain, thousands};

/// The raw limit of the same server: transactions with their nonce.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Raw {
    pub(super) rows_in_a_commit: usize,
    pub(super) bound_per_second: f64,
    pub(super) bound_connections: usize,
}

/// So many nodes under load.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row {
    pub(super) nodes: usize,
    /// Whom calls go to.
    pub(super) calls: &'static str,
    pub(super) mode: &'static str,
    pub(super) signers: usize,
    pub(super) callers: usize,
    pub(super) per_second: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) refused: u64,
    /// For leases and membership, by kind.
    pub(super) lease_statements_per_second: BTreeMap<String, f64>,
    /// All that the nodes committed, reads included, for each transaction accepted.
    pub(super) commits_per_tx: f64,
    pub(super) wal_bytes_per_tx: f64,
    /// Against the same rows in bulk by plain SQL.
    pub(super) share_of_raw: f64,
    /// Against one node in the same run, if that was measured.
    pub(super) times_one_node: Option<f64>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    pub(super) raw: Raw,
    pub(super) cluster: Vec<Row>,
}

impl Report {
    pub(super) fn tables(&self) -> String {
        let mut raw = plain(&["raw limit", "per second"]);
        raw.add_row([
            format!(
                "rows of transactions with nonce, {} a commit, {} connections",
                self.raw.rows_in_a_commit, self.raw.bound_connections
            ),
            thousands(self.raw.bound_per_second),
        ]);
        align(&mut raw, 1..2);
        let mut rows = plain(&[
            "nodes",
            "calls to",
            "mode",
            "signers",
            "callers",
            "accepted/s",
            "p50 ms",
            "p99 ms",
            "refused",
            "lease statements/s",
            "commits/tx",
            "WAL bytes/tx",
            "of raw",
            "× one node",
        ]);
        for row in &self.cluster {
            let leases: f64 = row.lease_statements_per_second.values().sum();
            rows.add_row([
                row.nodes.to_string(),
                row.calls.to_owned(),
                row.mode.to_owned(),
                row.signers.to_string(),
                row.callers.to_string(),
                thousands(row.per_second),
                format!("{:.1}", row.p50_ms),
                format!("{:.1}", row.p99_ms),
                row.refused.to_string(),
                format!("{leases:.1}"),
                format!("{:.2}", row.commits_per_tx),
                thousands(row.wal_bytes_per_tx),
                format!("{:.0} %", row.share_of_raw * 100.0),
                row.times_one_node.map_or("-".into(), |times| format!("{times:.2}")),
            ]);
        }
        align(&mut rows, 3..14);
        align(&mut rows, 0..1);
        let leases = self.leases();
        format!("{raw}\n\n{rows}\n\n{leases}")
    }

    /// What the statements for leases are.
    fn leases(&self) -> String {
        let kinds = ["acquire", "renew", "take_over", "heartbeat", "look"];
        let mut table = plain(&[
            "nodes",
            "calls to",
            "acquires/s",
            "renewals/s",
            "takeovers/s",
            "heartbeats/s",
            "looks/s",
        ]);
        for row in &self.cluster {
            let each = kinds.map(|kind| {
                let found = row.lease_statements_per_second.get(kind);
                format!("{:.1}", found.copied().unwrap_or_default())
            });
            table.add_row([row.nodes.to_string(), row.calls.to_owned()].into_iter().chain(each));
        }
        align(&mut table, 2..7);
        align(&mut table, 0..1);
        table.to_string()
    }
}
