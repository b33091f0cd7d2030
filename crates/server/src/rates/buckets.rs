//! Token buckets: so many at once, and then so many a second, for each of many sources.
//!
//! What is kept is bounded, whoever asks: a source whose bucket is full again is forgotten, and where
//! there are too many that are not, all further ones share one bucket.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

/// How many may be taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rate {
    pub(super) per_second: f64,
    /// As many at once.
    pub(super) burst: f64,
}

/// Whether one more may be taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Take {
    /// It may, and so many more right away.
    Taken { left: u64 },
    /// It may not, before so long.
    Refused { wait: Duration },
}

/// One bucket for each source.
#[derive(Debug)]
pub(super) struct Buckets<K> {
    rate: Rate,
    most: usize,
    kept: HashMap<K, Bucket>,
    /// Of those that there is no room for.
    others: Bucket,
    swept: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    level: f64,
    at: Instant,
}

/// How often it is looked for full buckets at most: a look goes through all of them.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

impl<K: Hash + Eq> Buckets<K> {
    pub(super) fn new(rate: Rate, most: usize, now: Instant) -> Self {
        let others = Bucket { level: rate.burst, at: now };
        Self { rate, most, kept: HashMap::new(), others, swept: None }
    }

    /// Takes one, if there is one.
    pub(super) fn take(&mut self, source: K, now: Instant) -> Take {
        let rate = self.rate;
        self.of(source, now).take(rate, now)
    }

    /// Takes as many more, also if there are not so many: they are owed, and whoever owes gets nothing
    /// before it is paid. So what costs more than a bucket holds can be had, and has its price.
    pub(super) fn take_more(&mut self, source: K, more: u32, now: Instant) -> Take {
        let rate = self.rate;
        self.of(source, now).take_more(rate, more, now)
    }

    /// The bucket of a source, or the one of all for whom there is no room.
    fn of(&mut self, source: K, now: Instant) -> &mut Bucket {
        let rate = self.rate;
        let is_kept = self.kept.contains_key(&source);
        let swept_lately = |at: Instant| now.saturating_duration_since(at) < SWEEP_EVERY;
        let is_full = !is_kept && self.kept.len() >= self.most;
        if is_full && !self.swept.is_some_and(swept_lately) {
            self.swept = Some(now);
            self.kept.retain(|_, bucket| bucket.level_at(rate, now) < rate.burst);
        }
        if !is_kept && self.kept.len() >= self.most {
            return &mut self.others;
        }
        self.kept.entry(source).or_insert(Bucket { level: rate.burst, at: now })
    }
}

impl Bucket {
    fn level_at(&self, rate: Rate, now: Instant) -> f64 {
        let since = now.saturating_duration_since(self.at).as_secs_f64();
        (self.level + since * rate.per_second).min(rate.burst)
    }

    fn take(&mut self, rate: Rate, now: Instant) -> Take {
        self.take_above(1.0, 1.0, rate, now)
    }

    fn take_more(&mut self, rate: Rate, more: u32, now: Instant) -> Take {
        self.take_above(0.0, f64::from(more), rate, now)
    }

    /// Takes so many, if there are at least so many.
    fn take_above(&mut self, least: f64, count: f64, rate: Rate, now: Instant) -> Take {
        (self.level, self.at) = (self.level_at(rate, now), now.max(self.at));
        if self.level < least {
            let wait = Duration::from_secs_f64((1.0 - self.level) / rate.per_second);
            return Take::Refused { wait };
        }
        self.level -= count;
        // Below nothing is nothing.
        Take::Taken { left: self.level as u64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { per_second: 2.0, burst: 3.0 };

    #[test]
    fn so_many_at_once_and_then_so_many_a_second() {
        let begin = Instant::now();
        let mut buckets = Buckets::new(RATE, 10, begin);
        let taken = |left| Take::Taken { left };
        let refused = |ms| Take::Refused { wait: Duration::from_millis(ms) };
        for (at_ms, source, expected) in [
            (0, "a", taken(2)),
            (0, "a", taken(1)),
            (0, "a", taken(0)),
            (0, "a", refused(500)),
            (0, "b", taken(2)),
            (250, "a", refused(250)),
            (500, "a", taken(0)),
            (500, "a", refused(500)),
            // A bucket holds no more than it does.
            (60_000, "a", taken(2)),
            (60_000, "b", taken(2)),
            // A clock that stands still gives nothing.
            (60_000, "a", taken(1)),
        ] {
            let now = begin + Duration::from_millis(at_ms);
            assert_eq!(buckets.take(source, now), expected, "{source} at {at_ms} ms");
        }
    }

    #[test]
    fn hole_45_what_costs_more_than_there_is_is_owed() {
        let begin = Instant::now();
        let mut buckets = Buckets::new(RATE, 10, begin);
        let at = |ms| begin + Duration::from_millis(ms);
        let (taken, refused) =
            (|left| Take::Taken { left }, |ms| Take::Refused { wait: Duration::from_millis(ms) });
        assert_eq!(buckets.take("a", at(0)), taken(2));
        assert_eq!(buckets.take_more("a", 1, at(0)), taken(1));
        assert_eq!(buckets.take("a", at(0)), taken(0));
        assert_eq!(buckets.take_more("a", 9, at(0)), taken(0));
        // Nine are owed. Whoever owes gets neither one nor more, and owes nothing more for having asked.
        assert_eq!(buckets.take("a", at(0)), refused(5_000));
        assert_eq!(buckets.take_more("a", 9, at(0)), refused(5_000));
        assert_eq!(buckets.take("a", at(4_500)), refused(500));
        assert_eq!(buckets.take("a", at(5_000)), taken(0));
        assert_eq!(buckets.take("b", at(0)), taken(2), "another one owes nothing");
    }

    #[test]
    fn what_is_kept_is_bounded_and_those_that_are_known_lose_nothing() {
        let begin = Instant::now();
        let mut buckets = Buckets::new(RATE, 100, begin);
        assert_eq!(buckets.take(0, begin), Take::Taken { left: 2 });
        for source in 1..1_000 {
            buckets.take(source, begin);
            assert!(buckets.kept.len() <= 100);
        }
        assert_eq!(buckets.take(0, begin), Take::Taken { left: 1 });
        // Those that came too late have one bucket together, and it is empty.
        assert!(matches!(buckets.take(5_000, begin), Take::Refused { .. }));
        // Once the others have filled up, there is room again.
        let later = begin + Duration::from_secs(10);
        assert_eq!(buckets.take(5_000, later), Take::Taken { left: 2 });
        assert_eq!(buckets.kept.len(), 1);
    }
}
