//! Figures before, during and after.

use serde::Serialize;

use super::super::nodes::Node;
use super::super::table::{align, plain, thousands};
use super::AbuseArgs;
use super::attack::Outcome;
use super::others::Seen;

/// What was seen in one phase.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Phase {
    phase: &'static str,
    calls: u64,
    failed: u64,
    p50_ms: f64,
    p99_ms: f64,
    /// Against the first phase.
    p50_ratio: f64,
    p99_ratio: f64,
    /// Of the server; `null` where the system does not tell.
    memory_mb: Option<f64>,
    open_files: Option<usize>,
    /// Of these, so many are sockets. The embedded store opens files as it needs them, and keeps them.
    sockets: Option<usize>,
}

impl Phase {
    pub(super) fn of(
        phase: &'static str,
        node: &Node,
        files: Option<(usize, usize)>,
        seen: Seen,
    ) -> Self {
        Self {
            phase,
            calls: seen.calls,
            failed: seen.failed,
            p50_ms: seen.p50.as_secs_f64() * 1e3,
            p99_ms: seen.p99.as_secs_f64() * 1e3,
            p50_ratio: 1.0,
            p99_ratio: 1.0,
            memory_mb: node.memory().map(|bytes| bytes as f64 / 1e6),
            open_files: files.map(|(all, _)| all),
            sockets: files.map(|(_, sockets)| sockets),
        }
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    streams: usize,
    half_sent: usize,
    wrong_keys_per_second: usize,
    phases: Vec<Phase>,
    pub(super) attack: Option<Outcome>,
}

impl Report {
    pub(super) fn new(args: &AbuseArgs) -> Self {
        Self {
            streams: args.streams,
            half_sent: args.half_sent,
            wrong_keys_per_second: args.wrong_keys,
            phases: Vec::new(),
            attack: None,
        }
    }

    pub(super) fn add(&mut self, mut phase: Phase) {
        if let Some(first) = self.phases.first() {
            phase.p50_ratio = phase.p50_ms / first.p50_ms;
            phase.p99_ratio = phase.p99_ms / first.p99_ms;
        }
        self.phases.push(phase);
    }

    pub(super) fn table(&self) -> String {
        let mut phases = plain(&[
            "others' calls",
            "calls",
            "failed",
            "p50 ms",
            "p99 ms",
            "× p50",
            "× p99",
            "server MB",
            "open files",
            "sockets",
        ]);
        let or_unknown = |text: Option<String>| text.unwrap_or_else(|| "?".to_owned());
        for phase in &self.phases {
            phases.add_row([
                phase.phase.to_owned(),
                thousands(phase.calls as f64),
                phase.failed.to_string(),
                format!("{:.2}", phase.p50_ms),
                format!("{:.2}", phase.p99_ms),
                format!("{:.2}", phase.p50_ratio),
                format!("{:.2}", phase.p99_ratio),
                or_unknown(phase.memory_mb.map(|mb| format!("{mb:.0}"))),
                or_unknown(phase.open_files.map(|files| files.to_string())),
                or_unknown(phase.sockets.map(|sockets| sockets.to_string())),
            ]);
        }
        align(&mut phases, 1..10);
        let Some(attack) = &self.attack else { return phases.to_string() };
        format!(
            "{phases}\n\nduring: {} idle streams; {} half-sent calls at any time, {} in all, of which \
             the server closed {};\n{} wrong keys, {} answered 401 and {} answered 429",
            attack.streams_open,
            self.half_sent,
            attack.half_sent,
            attack.half_sent_closed,
            attack.wrong_keys,
            attack.wrong_keys_unauthorized,
            attack.wrong_keys_slowed,
        )
    }
}
