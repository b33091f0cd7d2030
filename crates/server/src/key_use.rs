//! When keys were used.
//!
//! A call only sets a number in memory. What was used is written now and then, once a minute for each
//! key, beside the calls: nobody waits for it, and if it fails nothing else does.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The shortest time between two times that the use of a key is written, or that somebody who uses
/// it from the wrong place is told of.
const INTERVAL_MS: u64 = 60_000;

/// The uses of one key, in milliseconds since the guard began. 0: never.
#[derive(Debug)]
pub(crate) struct KeyUse {
    began: Instant,
    used_ms: AtomicU64,
    /// The use that was written last.
    written_ms: AtomicU64,
    tried_ms: AtomicU64,
    warned_ms: AtomicU64,
}

impl KeyUse {
    pub(crate) fn new(began: Instant) -> Self {
        let never = || AtomicU64::new(0);
        let (used_ms, written_ms, tried_ms, warned_ms) = (never(), never(), never(), never());
        Self { began, used_ms, written_ms, tried_ms, warned_ms }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX).saturating_add(1)
    }

    /// The key is used now.
    pub(crate) fn note(&self) {
        self.used_ms.store(self.now_ms(), Ordering::Relaxed);
    }

    /// How long ago the key was used, if that is to be written now.
    pub(crate) fn due(&self) -> Option<Due> {
        let (now, used) = (self.now_ms(), self.used_ms.load(Ordering::Relaxed));
        let fresh = used > self.written_ms.load(Ordering::Relaxed);
        (fresh && once(&self.tried_ms, now))
            .then(|| Due { ago: Duration::from_millis(now.saturating_sub(used)), used })
    }

    /// What was due is written.
    pub(crate) fn written(&self, due: Due) {
        self.written_ms.store(due.used, Ordering::Relaxed);
    }

    /// Whether a warning about the key may be logged: one a minute, however often there is reason to.
    pub(crate) fn may_warn(&self) -> bool {
        once(&self.warned_ms, self.now_ms())
    }
}

/// A use that is to be written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Due {
    pub(crate) ago: Duration,
    used: u64,
}

/// Whether the last time is long enough ago; then this is the last time.
fn once(last: &AtomicU64, now: u64) -> bool {
    let rule = |last: u64| (last == 0 || now.saturating_sub(last) >= INTERVAL_MS).then_some(now);
    last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, rule).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn once_a_minute_and_no_more() {
        let last = AtomicU64::new(0);
        for (now, expected) in [
            (1, true),
            (2, false),
            (60_000, false),
            (60_001, true),
            (60_002, false),
            (200_000, true),
        ] {
            assert_eq!(once(&last, now), expected, "{now}");
        }
    }

    #[test]
    fn what_was_written_is_not_due() {
        let key = KeyUse::new(Instant::now());
        assert!(key.due().is_none(), "never used");
        key.note();
        let due = key.due().unwrap();
        key.written(due);
        key.tried_ms.store(0, Ordering::Relaxed);
        assert!(key.due().is_none(), "not used since");
        std::thread::sleep(Duration::from_millis(2));
        key.note();
        assert!(key.due().is_some());
        key.note();
        assert!(key.due().is_none(), "not twice a minute, even if it was not written");
    }
}
