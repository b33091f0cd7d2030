//! What a connection is doing, and since when: the rule for when it is ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::options::Limits;

/// Shared by a connection's socket, its calls and its timer. Times are milliseconds since it began; 0
/// stands for not at all.
#[derive(Debug)]
pub(super) struct Activity {
    begun: Instant,
    calls: AtomicU32,
    quiet_since: AtomicU64,
    head_since: AtomicU64,
    stuck_since: AtomicU64,
    /// What is read between calls is no head of one: there are pings and the like, too.
    has_frames: bool,
    /// There was a call.
    called: AtomicBool,
}

/// What a connection is doing at a moment; times in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Doing {
    calls: u32,
    /// Since when there is no call.
    quiet_since: u64,
    /// Since when a head is coming, if one is.
    head_since: Option<u64>,
    /// Since when the other side takes nothing, if it does not.
    stuck_since: Option<u64>,
}

/// Why a connection is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Overdue {
    /// The head of a call does not come.
    Head,
    /// No call comes.
    Idle,
    /// What is sent is not taken.
    Stuck,
}

impl Overdue {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Head => "headers",
            Self::Idle => "idle",
            Self::Stuck => "write",
        }
    }
}

impl Doing {
    /// Whether it is to be ended, or how long from now it is to be looked at again. `now` is in
    /// milliseconds, too.
    fn judge(self, now: u64, limits: &Limits) -> Result<Duration, Overdue> {
        let left = |since: u64, limit: Duration| {
            (since + limit.as_millis() as u64).checked_sub(now).filter(|left| *left > 0)
        };
        let mut next = limits.headers.as_millis() as u64;
        if let Some(since) = self.stuck_since {
            next = next.min(left(since, limits.idle).ok_or(Overdue::Stuck)?);
        }
        if self.calls == 0 {
            next = next.min(match self.head_since {
                Some(since) => left(since, limits.headers).ok_or(Overdue::Head)?,
                None => left(self.quiet_since, limits.idle).ok_or(Overdue::Idle)?,
            });
        }
        Ok(Duration::from_millis(next))
    }
}

impl Activity {
    /// A connection begins with a head. `has_frames`: it is one of HTTP/2.
    pub(super) fn new(has_frames: bool) -> Arc<Self> {
        Arc::new(Self {
            has_frames,
            called: AtomicBool::new(false),
            begun: Instant::now(),
            calls: AtomicU32::new(0),
            quiet_since: AtomicU64::new(0),
            head_since: AtomicU64::new(1),
            stuck_since: AtomicU64::new(0),
        })
    }

    fn now(&self) -> u64 {
        (self.begun.elapsed().as_millis() as u64).max(1)
    }

    /// Something was read.
    pub(super) fn heard(&self) {
        if self.has_frames && self.called.load(Ordering::Relaxed) {
            return;
        }
        if self.calls.load(Ordering::Relaxed) == 0 && self.head_since.load(Ordering::Relaxed) == 0 {
            self.head_since.store(self.now(), Ordering::Relaxed);
        }
    }

    /// Something was taken, or nothing is.
    pub(super) fn written(&self, taken: bool) {
        let is_stuck = self.stuck_since.load(Ordering::Relaxed) != 0;
        if taken == is_stuck {
            self.stuck_since.store(if taken { 0 } else { self.now() }, Ordering::Relaxed);
        }
    }

    /// A call has come. It lasts until its answer is over.
    pub(super) fn call(self: &Arc<Self>) -> Busy {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.called.store(true, Ordering::Relaxed);
        self.head_since.store(0, Ordering::Relaxed);
        Busy(Arc::clone(self))
    }

    /// Whether the connection is to be ended, or how long from now it is to be looked at again.
    pub(super) fn judge(&self, limits: &Limits) -> Result<Duration, Overdue> {
        let since = |at: &AtomicU64| Some(at.load(Ordering::Relaxed)).filter(|at| *at != 0);
        let doing = Doing {
            calls: self.calls.load(Ordering::Relaxed),
            quiet_since: self.quiet_since.load(Ordering::Relaxed),
            head_since: since(&self.head_since),
            stuck_since: since(&self.stuck_since),
        };
        doing.judge(self.now(), limits)
    }
}

/// A call that is not over.
#[derive(Debug)]
pub(super) struct Busy(Arc<Activity>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.quiet_since.store(self.0.now(), Ordering::Relaxed);
        self.0.calls.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_ends_when_nothing_comes_of_it() {
        let limits = Limits {
            headers: Duration::from_secs(10),
            idle: Duration::from_secs(60),
            ..Limits::default()
        };
        let quiet = Doing { calls: 0, quiet_since: 1_000, head_since: None, stuck_since: None };
        let head = Doing { head_since: Some(5_000), ..quiet };
        let busy = Doing { calls: 1, ..head };
        let stuck = Doing { stuck_since: Some(20_000), ..busy };
        let again = |ms| Ok(Duration::from_millis(ms));
        for (doing, now, expected) in [
            (quiet, 2_000, again(10_000)),
            (quiet, 55_000, again(6_000)),
            (quiet, 61_000, Err(Overdue::Idle)),
            (head, 5_000, again(10_000)),
            (head, 14_999, again(1)),
            (head, 15_000, Err(Overdue::Head)),
            // A call may take as long as it takes, and a stream has no end.
            (busy, 10_000_000, again(10_000)),
            (stuck, 75_000, again(5_000)),
            (stuck, 80_000, Err(Overdue::Stuck)),
        ] {
            assert_eq!(doing.judge(now, &limits), expected, "{doing:?} at {now}");
        }
    }

    #[test]
    fn between_calls_http2_has_pings_and_http1_has_heads() {
        for (has_frames, head_comes) in [(false, true), (true, false)] {
            let activity = Activity::new(has_frames);
            assert!(activity.head_since.load(Ordering::Relaxed) != 0, "the first head is awaited");
            drop(activity.call());
            activity.heard();
            assert_eq!(
                activity.head_since.load(Ordering::Relaxed) != 0,
                head_comes,
                "{has_frames}"
            );
        }
    }
}
