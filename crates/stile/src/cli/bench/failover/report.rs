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
    /// When the transaction that was handed over after the kill got its nonce, if there was one.
    pub(super) bound_at: Option<Timestamp>,
}

/// How long lanes stood still, by what is counted from and to.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Stood {
    kill_to_held: Delays,
    kill_to_bound: Delays,
    expiry_to_held: Delays,
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
    #[serde(skip)]
    each: Each,
}

/// All that was seen, in milliseconds.
#[derive(Debug, Clone, Default)]
struct Each {
    kill_to_held: Vec<f64>,
    kill_to_bound: Vec<f64>,
    expiry_to_held: Vec<f64>,
    expiry_to_bound: Vec<f64>,
}

impl Each {
    fn stood(&self) -> Stood {
        Stood {
            kill_to_held: Delays::of(self.kill_to_held.clone()),
            kill_to_bound: Delays::of(self.kill_to_bound.clone()),
            expiry_to_held: Delays::of(self.expiry_to_held.clone()),
            expiry_to_bound: Delays::of(self.expiry_to_bound.clone()),
        }
    }

    fn add(&mut self, other: &Self) {
        self.kill_to_held.extend(&other.kill_to_held);
        self.kill_to_bound.extend(&other.kill_to_bound);
        self.expiry_to_held.extend(&other.expiry_to_held);
        self.expiry_to_bound.extend(&other.expiry_to_bound);
    }
}

impl Kill {
    pub(super) fn new(
        node: &str,
        killed_at: Timestamp,
        lanes: impl Iterator<Item = LaneSeen>,
    ) -> Self {
        let milliseconds =
            |from: Timestamp, to: Timestamp| to.duration_since(from).as_secs_f64() * 1e3;
        let mut each = Each::default();
        for lane in lanes {
            each.kill_to_held.push(milliseconds(killed_at, lane.taken_at));
            each.expiry_to_held.push(milliseconds(lane.expires_at, lane.taken_at));
            if let Some(bound_at) = lane.bound_at {
                each.kill_to_bound.push(milliseconds(killed_at, bound_at));
                each.expiry_to_bound.push(milliseconds(lane.expires_at, bound_at));
            }
        }
        Self { node: node.to_owned(), lanes: each.kill_to_held.len(), stood: each.stood(), each }
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    mode: &'static str,
    nodes: usize,
    lanes: usize,
    lease_ms: f64,
    /// The share of lanes that were at work again within the lease and two seconds of the kill.
    within_lease_and_2s: f64,
    all: Stood,
    kills: Vec<Kill>,
}

impl Report {
    pub(super) fn new(args: &FailoverArgs, kills: Vec<Kill>) -> Self {
        let mut each = Each::default();
        for kill in &kills {
            each.add(&kill.each);
        }
        let lease_ms = args.lease.get().as_secs_f64() * 1e3;
        let bound = &each.kill_to_bound;
        let in_time = bound.iter().filter(|ms| **ms <= lease_ms + PROMISED_MS).count();
        Self {
            mode: args.mode.name(),
            nodes: args.nodes,
            lanes: args.lanes,
            lease_ms,
            within_lease_and_2s: in_time as f64 / bound.len().max(1) as f64,
            all: each.stood(),
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
            ("kill", "next transaction bound", all.kill_to_bound, lease),
            ("lease's end", "held by another node", all.expiry_to_held, 0.0),
            ("lease's end", "next transaction bound", all.expiry_to_bound, 0.0),
        ] {
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
            "{} nodes, {}, {} lanes, leases of {lease:.0} ms; at work again within the lease and 2 s: \
             {:.1} %\n\n{table}",
            self.nodes,
            self.mode,
            self.lanes,
            self.within_lease_and_2s * 100.0,
        )
    }
}
