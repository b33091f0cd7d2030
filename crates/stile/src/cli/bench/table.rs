//! The results, for people and for programs.

use comfy_table::{CellAlignment, Table};
use serde::Serialize;

/// One line of the table.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Line {
    pub(super) store: &'static str,
    pub(super) what: &'static str,
    pub(super) mode: &'static str,
    pub(super) lanes: usize,
    pub(super) callers: usize,
    pub(super) per_second: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) failed: u64,
    /// Against durable single-row commits of the same database in the same run.
    pub(super) times_single_row_commits: f64,
    /// Against rows in bulk statements of the same database in the same run.
    pub(super) share_of_bulk_rows: f64,
}

/// The raw limits of one database.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Raw {
    pub(super) store: &'static str,
    pub(super) single_row_commits_per_second: f64,
    pub(super) bulk_rows_per_second: f64,
    pub(super) bulk_rows: usize,
    pub(super) bulk_connections: usize,
}

#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    pub(super) raw: Vec<Raw>,
    pub(super) allocate: Vec<Line>,
}

impl Report {
    pub(super) fn table(&self) -> String {
        let mut raw = plain(&["store", "raw limit", "per second"]);
        for limit in &self.raw {
            raw.add_row([
                limit.store.to_owned(),
                "durable commits of one row, 1 connection".to_owned(),
                thousands(limit.single_row_commits_per_second),
            ]);
            raw.add_row([
                limit.store.to_owned(),
                format!(
                    "rows, {} a commit, {} connections",
                    limit.bulk_rows, limit.bulk_connections
                ),
                thousands(limit.bulk_rows_per_second),
            ]);
        }
        align(&mut raw, 2..3);
        let mut lines = plain(&[
            "store",
            "calls",
            "mode",
            "lanes",
            "callers",
            "nonces/s",
            "p50 ms",
            "p99 ms",
            "× single-row",
            "% of bulk",
        ]);
        for line in &self.allocate {
            lines.add_row([
                line.store.to_owned(),
                line.what.to_owned(),
                line.mode.to_owned(),
                line.lanes.to_string(),
                line.callers.to_string(),
                thousands(line.per_second),
                format!("{:.2}", line.p50_ms),
                format!("{:.2}", line.p99_ms),
                format!("{:.1}", line.times_single_row_commits),
                format!("{:.0}", line.share_of_bulk_rows * 100.0),
            ]);
        }
        align(&mut lines, 3..10);
        format!("{raw}\n\n{lines}")
    }
}

pub(super) fn plain(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::ASCII_MARKDOWN).set_header(header);
    table
}

pub(super) fn align(table: &mut Table, columns: std::ops::Range<usize>) {
    for column in columns {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

/// 12345.6 as `12,346`.
pub(super) fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut grouped = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}
