//! Time since this instance began, and chance.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds since the instance began, by the monotonic clock: a number that fits an atomic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Moment(pub(crate) u64);

impl Moment {
    pub(crate) fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanoseconds(duration)))
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

pub(crate) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Milliseconds since 1970 by this machine's clock.
pub(crate) fn wall_ms() -> u64 {
    milliseconds(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    began: u64,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { began: monotonic(CHEAP) }
    }

    #[inline]
    pub(crate) fn now(&self) -> Moment {
        self.moment(monotonic(CHEAP))
    }

    /// The same to the nanosecond: of two questions that are asked one after the other, the later has
    /// the later moment.
    pub(crate) fn exactly(&self) -> Moment {
        self.moment(monotonic(ClockId::Monotonic))
    }

    #[inline]
    fn moment(&self, monotonic: u64) -> Moment {
        // One for the beginning itself, so that zero means never.
        Moment(monotonic.saturating_sub(self.began).saturating_add(1))
    }
}

/// Exact to some milliseconds where there is such a one: it costs a reader a third of what the exact one
/// does, and nothing here lives for less than that.
#[cfg(target_os = "linux")]
const CHEAP: ClockId = ClockId::MonotonicCoarse;
#[cfg(not(target_os = "linux"))]
const CHEAP: ClockId = ClockId::Monotonic;

/// Nanoseconds by a clock that only goes forward.
#[inline]
fn monotonic(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    let (seconds, nanoseconds) = (u64::try_from(now.tv_sec), u64::try_from(now.tv_nsec));
    seconds.unwrap_or_default() * 1_000_000_000 + nanoseconds.unwrap_or_default()
}

/// A duration between these two, at random: what came at the same moment does not leave at the
/// same moment.
pub(crate) fn between(shortest: Duration, longest: Duration) -> Duration {
    let span = nanoseconds(longest.saturating_sub(shortest));
    if span == 0 {
        return shortest;
    }
    shortest + Duration::from_nanos(random() % span)
}

/// This long and at random up to so much longer.
pub(crate) fn jittered(duration: Duration, jitter: Duration) -> Duration {
    between(duration, duration + jitter)
}

/// Chance that spreads load and guards nothing.
pub(crate) fn random() -> u64 {
    fastrand::u64(..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hole_18e_times_to_live_differ_from_each_other() {
        let (shortest, longest) = (Duration::from_secs(1), Duration::from_secs(10));
        let drawn: std::collections::BTreeSet<Duration> =
            (0..1000).map(|_| between(shortest, longest)).collect();
        assert!(drawn.len() > 900, "only {} different times in 1000", drawn.len());
        assert!(*drawn.first().unwrap() < Duration::from_secs(2), "{:?}", drawn.first());
        assert!(*drawn.last().unwrap() > Duration::from_secs(9), "{:?}", drawn.last());
        assert!(drawn.iter().all(|time| (shortest..longest).contains(time)));
        assert_eq!(between(longest, shortest), longest, "nothing to choose from");
    }
}
