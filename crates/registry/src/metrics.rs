//! Names and labels of the metrics, in one place.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use metrics::{counter, gauge, histogram};

use crate::Mode;

/// Every metric: name, kind and what it counts. The reference page is made from it.
pub const METRICS: &[(&str, Kind, &str)] = &[
    (
        READS,
        Kind::Counter,
        "Reads of nodes, by what answered (level): l1, l2, local, redis, negative",
    ),
    (REDIS_SECONDS, Kind::Histogram, "Seconds a call to Redis took, by operation"),
    (
        REDIS_ERRORS,
        Kind::Counter,
        "Calls to Redis that failed, by operation and cause: timeout, error",
    ),
    (
        CHECKS,
        Kind::Counter,
        "Versions checked behind an answer, by result: same, newer, gone, timeout, error",
    ),
    (MODE, Kind::Gauge, "How far Redis is relied on: 0 normal, 1 L2 only, 2 local only"),
    (MODE_CHANGES, Kind::Counter, "Changes of that, by from and to"),
    (
        RESERVATIONS,
        Kind::Counter,
        "Slots asked for, by result: taken, full, gone, recovering, error",
    ),
    (
        JOBS,
        Kind::Counter,
        "Jobs, by what became of them (result): dispatched, full, completed, over, error",
    ),
    (COALESCED, Kind::Counter, "Reads that waited for somebody else's question to Redis"),
    (INVALIDATIONS, Kind::Counter, "Changes that Redis told of"),
    (SELECT_SECONDS, Kind::Histogram, "Seconds a selection of nodes took"),
    (DISPATCH_SECONDS, Kind::Histogram, "Seconds until a job had its slot or was refused"),
];

/// What a metric is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only rises.
    Counter,
    /// Rises and falls.
    Gauge,
    /// A distribution.
    Histogram,
}

const READS: &str = "stile_registry_reads_total";
const REDIS_SECONDS: &str = "stile_registry_redis_seconds";
const REDIS_ERRORS: &str = "stile_registry_redis_errors_total";
const CHECKS: &str = "stile_registry_version_checks_total";
const MODE: &str = "stile_registry_mode";
const MODE_CHANGES: &str = "stile_registry_mode_changes_total";
const RESERVATIONS: &str = "stile_registry_reservations_total";
const JOBS: &str = "stile_registry_jobs_total";
const COALESCED: &str = "stile_registry_coalesced_total";
const INVALIDATIONS: &str = "stile_registry_invalidations_total";
const SELECT_SECONDS: &str = "stile_registry_select_seconds";
const DISPATCH_SECONDS: &str = "stile_registry_dispatch_seconds";

/// Tells the recorder what the metrics mean.
pub fn describe() {
    for (name, kind, help) in METRICS {
        match kind {
            Kind::Counter => metrics::describe_counter!(*name, *help),
            Kind::Gauge => metrics::describe_gauge!(*name, *help),
            Kind::Histogram => {
                metrics::describe_histogram!(*name, metrics::Unit::Seconds, *help);
            }
        }
    }
}

pub(crate) fn redis_took(operation: &'static str, took: Duration) {
    histogram!(REDIS_SECONDS, "operation" => operation).record(took.as_secs_f64());
}

pub(crate) fn redis_failed(operation: &'static str, cause: &'static str) {
    counter!(REDIS_ERRORS, "operation" => operation, "cause" => cause).increment(1);
}

pub(crate) fn checked(result: &'static str, number: usize) {
    if number > 0 {
        counter!(CHECKS, "result" => result).increment(number as u64);
    }
}

pub(crate) fn mode(mode: Mode) {
    let number = match mode {
        Mode::Normal => 0,
        Mode::L2Only => 1,
        Mode::LocalOnly => 2,
    };
    gauge!(MODE).set(f64::from(number));
}

pub(crate) fn mode_changed(from: Mode, to: Mode) {
    counter!(MODE_CHANGES, "from" => from.to_string(), "to" => to.to_string()).increment(1);
}

pub(crate) fn reserved(result: &'static str) {
    counter!(RESERVATIONS, "result" => result).increment(1);
}

pub(crate) fn job(result: &'static str) {
    counter!(JOBS, "result" => result).increment(1);
}

pub(crate) fn coalesced(number: usize) {
    counter!(COALESCED).increment(number as u64);
}

pub(crate) fn invalidated() {
    counter!(INVALIDATIONS).increment(1);
}

pub(crate) fn selected(took: Duration) {
    histogram!(SELECT_SECONDS).record(took.as_secs_f64());
}

pub(crate) fn dispatched(took: Duration) {
    histogram!(DISPATCH_SECONDS).record(took.as_secs_f64());
}

/// What answered a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    L1,
    L2,
    Local,
    Redis,
    Negative,
}

const LEVELS: [(Level, &str); 5] = [
    (Level::L1, "l1"),
    (Level::L2, "l2"),
    (Level::Local, "local"),
    (Level::Redis, "redis"),
    (Level::Negative, "negative"),
];

const STRIPES: usize = 64;

/// Counts of one thread, on cache lines of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe([AtomicU64; LEVELS.len()]);

/// Reads, counted where threads do not meet: a counter that all of them share would cost a reader
/// more than the read. What has come together is handed to the recorder every second.
#[derive(Debug)]
pub(crate) struct Reads {
    /// The first threads have one each; the last is for all others.
    stripes: Box<[Stripe]>,
    told: [AtomicU64; LEVELS.len()],
}

impl Default for Reads {
    fn default() -> Self {
        Self {
            stripes: (0..=STRIPES).map(|_| Stripe::default()).collect(),
            told: Default::default(),
        }
    }
}

fn stripe() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static MINE: Cell<usize> = const { Cell::new(usize::MAX) });
    MINE.with(|mine| {
        if mine.get() == usize::MAX {
            mine.set(NEXT.fetch_add(1, Ordering::Relaxed).min(STRIPES));
        }
        mine.get()
    })
}

impl Reads {
    #[inline]
    pub(crate) fn count(&self, level: Level) {
        let stripe = stripe();
        let count = &self.stripes[stripe].0[level as usize];
        if stripe < STRIPES {
            // Nobody else writes it, so nothing has to be locked.
            count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        } else {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn sum(&self, level: Level) -> u64 {
        self.stripes.iter().map(|stripe| stripe.0[level as usize].load(Ordering::Relaxed)).sum()
    }

    pub(crate) fn flush(&self) {
        for (level, name) in LEVELS {
            let sum = self.sum(level);
            let told = self.told[level as usize].swap(sum, Ordering::Relaxed);
            if sum > told {
                counter!(READS, "level" => name).increment(sum - told);
            }
        }
    }

    /// Reads by level since the start, for tests and the console.
    pub(crate) fn by_level(&self) -> Vec<(&'static str, u64)> {
        LEVELS.iter().map(|(level, name)| (*name, self.sum(*level))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_of_all_threads_are_summed_up() {
        let reads = Reads::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| reads.count(Level::L2)));
            }
        });
        reads.flush();
        assert_eq!(reads.by_level()[1], ("l2", 4000));
        assert_eq!(reads.by_level()[0], ("l1", 0));
    }

    #[test]
    fn names_are_unique_and_described() {
        let names: std::collections::HashSet<_> = METRICS.iter().map(|(name, ..)| name).collect();
        assert_eq!(names.len(), METRICS.len());
        describe();
    }
}
