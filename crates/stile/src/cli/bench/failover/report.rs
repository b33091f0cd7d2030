//! The results, for people and for programs.

use serde::Serialize;
use stile_domain::Timestamp;

use super::FailoverArgs;
use crate::cli::bench::nodes::Delays;
use crate::cli::bench::table::{align, plain, thousands};

/// By how much lanes may be late after a whole lease.
const PROMISED_MS: f64 = 2000.0;

/// What became of a lane whose holder was killed.
pub(super) struct LaneSeen {
    pub(super) expires_at: Timestamp,
    pub(super) taken_at: Timestamp,
    /// When the lowest transaction in flight was sent again, if that was looked at.
    pub(super) sent_at: Option<Timestamp>,
    /// When the transaction that was handed over after the kill got its nonce, if there was one.
    pub(super) bound_at: Option<Timestamp>,
}

/// What the nodes that were not killed went through.
#[derive(Debug, Clone, Copy, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Survivors {
    /// Leases renewed, renewed late, and lost, and those that the database gave no answer about.
    pub(super) renewed: f64,
    pub(super) late: f64,
    pub(super) lost: f64,
    pub(super) failed: f64,
    /// The most that any of them has had.
    pub(super) peak_memory_mb: f64,
}

impl Survivors {
    /// What happened after an earlier look.
    pub(super) fn since(self, before: &Self) -> Self {
        Self {
            renewed: self.renewed - before.renewed,
            late: self.late - before.late,
            lost: self.lost - before.lost,
            failed: self.failed - before.failed,
            peak_memory_mb: self.peak_memory_mb,
        }
    }

    fn add(&mut self, other: &Self) {
        self.renewed += other.renewed;
        self.late += other.late;
        self.lost += other.lost;
        self.failed += other.failed;
        self.peak_memory_mb = self.peak_memory_mb.max(other.peak_memory_mb);
    }
}

/// How long lanes stood still, by what is counted from and to.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Stood {
    kill_to_held: Delays,
    kill_to_first_sent: Delays,
    kill_to_bound: Delays,
    expiry_to_held: Delays,
    expiry_to_first_sent: Delays,
    expiry_to_bound: Delays,
}

/// One kill.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Kill {
    node: String,
    lanes: usize,
    #[serde(flatten)]
    stood: Stood,
    survivors: Survivors,
    #[serde(skip)]
    each: Each,
}

/// All that was seen, in milliseconds.
#[derive(Debug, Clone, Default)]
struct Each {
    kill_to_held: Vec<f64>,
    kill_to_first_sent: Vec<f64>,
    kill_to_bound: Vec<f64>,
    expiry_to_held: Vec<f64>,
    expiry_to_first_sent: Vec<f64>,
    expiry_to_bound: Vec<f64>,
}

impl Each {
    fn stood(&self) -> Stood {
        Stood {
            kill_to_held: Delays::of(self.kill_to_held.clone()),
            kill_to_first_sent: Delays::of(self.kill_to_first_sent.clone()),
            kill_to_bound: Delays::of(self.kill_to_bound.clone()),
            expiry_to_held: Delays::of(self.expiry_to_held.clone()),
            expiry_to_first_sent: Delays::of(self.expiry_to_first_sent.clone()),
            expiry_to_bound: Delays::of(self.expiry_to_bound.clone()),
        }
    }

    fn add(&mut self, other: &Self) {
        self.kill_to_held.extend(&other.kill_to_held);
        self.kill_to_first_sent.extend(&other.kill_to_first_sent);
        self.kill_to_bound.extend(&other.kill_to_bound);
        self.expiry_to_held.extend(&other.expiry_to_held);
        self.expiry_to_first_sent.extend(&other.expiry_to_first_sent);
        self.expiry_to_bound.extend(&other.expiry_to_bound);
    }
}

impl Kill {
    pub(super) fn new(
        node: &str,
        killed_at: Timestamp,
        lanes: impl Iterator<Item = LaneSeen>,
        survivors: Survivors,
    ) -> Self {
        let milliseconds =
            |from: Timestamp, to: Timestamp| to.duration_since(from).as_secs_f64() * 1e3;
        let mut each = Each::default();
        for lane in lanes {
            each.kill_to_held.push(milliseconds(killed_at, lane.taken_at));
            each.expiry_to_held.push(milliseconds(lane.expires_at, lane.taken_at));
            if let Some(sent_at) = lane.sent_at {
                each.kill_to_first_sent.push(milliseconds(killed_at, sent_at));
                each.expiry_to_first_sent.push(milliseconds(lane.expires_at, sent_at));
            }
            if let Some(bound_at) = lane.bound_at {
                each.kill_to_bound.push(milliseconds(killed_at, bound_at));
                each.expiry_to_bound.push(milliseconds(lane.expires_at, bound_at));
            }
        }
        let (lanes, stood) = (each.kill_to_held.len(), each.stood());
        Self { node: node.to_owned(), lanes, stood, survivors, each }
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    mode: &'static str,
    nodes: usize,
    lanes: usize,
    in_flight: usize,
    lease_ms: f64,
    /// The share of lanes that were at work again within the lease and two seconds of the kill.
    within_lease_and_2s: f64,
    /// The share of lanes whose first transaction in flight was sent again by then.
    sent_within_lease_and_2s: f64,
    all: Stood,
    survivors: Survivors,
    kills: Vec<Kill>,
}

impl Report {
    pub(super) fn new(args: &FailoverArgs, kills: Vec<Kill>) -> Self {
        let mut each = Each::default();
        let mut survivors = Survivors::default();
        for kill in &kills {
            each.add(&kill.each);
            survivors.add(&kill.survivors);
        }
        let lease_ms = args.lease.get().as_secs_f64() * 1e3;
        let share = |each: &[f64]| {
            let in_time = each.iter().filter(|ms| **ms <= lease_ms + PROMISED_MS).count();
            in_time as f64 / each.len().max(1) as f64
        };
        Self {
            mode: args.mode.name(),
            nodes: args.nodes,
            lanes: args.lanes,
            in_flight: args.in_flight * args.lanes,
            lease_ms,
            within_lease_and_2s: share(&each.kill_to_bound),
            sent_within_lease_and_2s: share(&each.kill_to_first_sent),
            all: each.stood(),
            survivors,
            kills,
        }
    }

    pub(super) fn tables(&self) -> String {
        let (all, lease) = (&self.all, self.lease_ms);
        let mut table = plain(&[
            "from",
            "until",
            "kills",
            "lanes",
            "median ms",
            "p90 ms",
            "worst ms",
            "worst after a lease ms",
        ]);
        for (from, until, delays, begins) in [
            ("kill", "held by another node", all.kill_to_held, lease),
            ("kill", "first in flight sent again", all.kill_to_first_sent, lease),
            ("kill", "next transaction bound", all.kill_to_bound, lease),
            ("lease's end", "held by another node", all.expiry_to_held, 0.0),
            ("lease's end", "first in flight sent again", all.expiry_to_first_sent, 0.0),
            ("lease's end", "next transaction bound", all.expiry_to_bound, 0.0),
        ] {
            if delays.count == 0 {
                continue;
            }
            table.add_row([
                from.to_owned(),
                until.to_owned(),
                self.kills.len().to_string(),
                delays.count.to_string(),
                thousands(delays.median_ms),
                thousands(delays.p90_ms),
                thousands(delays.worst_ms),
                thousands(delays.worst_ms - begins),
            ]);
        }
        align(&mut table, 2..8);
        format!(
            "{} nodes, {}, {} lanes, {} in flight, leases of {lease:.0} ms; at work again within the lease and \
             2 s: {:.1} %\nthe other nodes: {} leases renewed, {} of them late, {} lost, {} without an answer; \
             {} MB of memory at most\n\n{table}",
            self.nodes,
            self.mode,
            self.lanes,
            self.in_flight,
            self.within_lease_and_2s * 100.0,
            thousands(self.survivors.renewed),
            thousands(self.survivors.late),
            thousands(self.survivors.lost),
            thousands(self.survivors.failed),
            thousands(self.survivors.peak_memory_mb),
        )
    }
}
