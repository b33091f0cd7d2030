//! How many calls an endpoint is asked at once, by what came back before.
//!
//! Endpoints differ: some take no batches, some so many calls and no more, and some take a batch and
//! are too slow for it. What was refused is not asked for again for a while. What was not answered in
//! time is asked for in smaller parts, and in larger ones again as answers come.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// More are never asked at once.
const LARGEST: usize = 1_000;

/// How long a refusal is remembered: another node may be behind the address by then.
const REMEMBERED: Duration = Duration::from_secs(600);

/// The same of one that may have been about the moment.
const REMEMBERED_SHORTLY: Duration = Duration::from_secs(60);

/// How long a refusal is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lasts {
    Short,
    Long,
}

impl Lasts {
    fn time(self) -> Duration {
        match self {
            Self::Short => REMEMBERED_SHORTLY,
            Self::Long => REMEMBERED,
        }
    }
}

/// The size of batches for one endpoint.
#[derive(Debug)]
pub(super) struct BatchSize(Mutex<Sizes>);

impl Default for BatchSize {
    fn default() -> Self {
        Self(Mutex::new(Sizes {
            now: LARGEST,
            refused: None,
            slow: None,
            most: 0,
            answered: None,
            told: usize::MAX,
        }))
    }
}

impl BatchSize {
    /// So many calls are asked at once, one at least.
    pub(super) fn now(&self) -> usize {
        self.sizes().now
    }

    /// So many were answered.
    pub(super) fn answered(&self, calls: usize) {
        self.sizes().answered(calls, Instant::now());
    }

    /// So many were too many, by the endpoint's own word or by what came instead of answers. How many
    /// are asked from now on, and whether so few were never refused before.
    pub(super) fn refused(&self, calls: usize, lasts: Lasts) -> (usize, bool) {
        let mut sizes = self.sizes();
        let is_news = calls < sizes.told;
        sizes.told = sizes.told.min(calls);
        sizes.refused(calls, lasts, Instant::now());
        (sizes.now, is_news)
    }

    /// So many were not answered in time, where they were asked at this moment. Whether fewer are worth
    /// a try at once: the endpoint has answered just before.
    pub(super) fn timed_out(&self, calls: usize, asked: Instant) -> bool {
        self.sizes().timed_out(calls, asked, Instant::now())
    }

    /// Whether it takes batches, as far as that is known, and how large they may be.
    pub(super) fn known(&self) -> Batches {
        self.sizes().known(Instant::now())
    }

    fn sizes(&self) -> MutexGuard<'_, Sizes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is known of an endpoint's batches, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Batches {
    /// Whether it takes any.
    pub(crate) taken: Option<bool>,
    /// The most calls that were answered at once.
    pub(crate) answered: usize,
    /// The fewest that were refused lately, or not answered in time.
    pub(crate) too_many: Option<usize>,
}

/// How long fewer are asked than were not answered in time.
const SLOW_FOR: Duration = Duration::from_secs(60);

/// How many calls a batch has that may be asked again in smaller parts at once. Whoever does not answer
/// a few questions is away.
const WORTH_PARTING: usize = 8;

/// How long before a batch the endpoint must have answered to be there still.
const JUST_BEFORE: Duration = Duration::from_secs(1);

/// What is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sizes {
    now: usize,
    /// The fewest that were refused, and until when that is remembered.
    refused: Option<(usize, Instant)>,
    /// The fewest that were not answered in time, and when.
    slow: Option<(usize, Instant)>,
    /// The most that were answered at once, and not refused since.
    most: usize,
    /// When it last answered.
    answered: Option<Instant>,
    /// The fewest that were ever said to be refused.
    told: usize,
}

impl Sizes {
    /// Grows by a quarter, if the answer was to as many as are asked.
    fn answered(&mut self, calls: usize, at: Instant) {
        (self.most, self.answered) = (self.most.max(calls), Some(at));
        if calls < self.now {
            return;
        }
        self.refused = self.refused.filter(|(_, until)| *until > at);
        self.slow = self.slow.filter(|(_, when)| at.duration_since(*when) < SLOW_FOR);
        let below = |too_many: Option<(usize, Instant)>| too_many.map_or(LARGEST, |(it, _)| it - 1);
        let most = below(self.refused).min(below(self.slow));
        self.now = (calls + calls / 4 + 1).min(most).max(1);
    }

    /// One call is no batch, and is asked whatever is refused.
    fn refused(&mut self, calls: usize, lasts: Lasts, at: Instant) {
        let (calls, until) = (calls.max(2), at + lasts.time());
        let known = self.refused.filter(|(_, until)| *until > at);
        let known = known.map(|(fewest, known)| (fewest.min(calls), known.max(until)));
        self.refused = Some(known.unwrap_or((calls, until)));
        self.now = self.now.min(calls / 2).max(1);
        self.most = self.most.min(calls - 1);
    }

    /// Several batches may be under way: the smallest that was too much counts.
    fn timed_out(&mut self, calls: usize, asked: Instant, at: Instant) -> bool {
        self.now = self.now.min(calls / 2).max(1);
        if calls > 1 {
            let recent = self.slow.filter(|(_, when)| at.duration_since(*when) < SLOW_FOR);
            let fewest = recent.map_or(calls, |(slow, _)| slow.min(calls));
            self.slow = Some((fewest, at));
        }
        let is_there = |answered: Instant| answered + JUST_BEFORE >= asked;
        calls >= WORTH_PARTING && self.answered.is_some_and(is_there)
    }

    fn known(&self, at: Instant) -> Batches {
        let refused = self.refused.filter(|(_, until)| *until > at);
        let slow = self.slow.filter(|(_, when)| at.duration_since(*when) < SLOW_FOR);
        let too_many = refused.into_iter().chain(slow).map(|(calls, _)| calls).min();
        let taken = match refused {
            _ if self.most > 1 => Some(true),
            Some((2, _)) => Some(false),
            _ => None,
        };
        Batches { taken, answered: self.most, too_many }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(now: usize) -> Sizes {
        Sizes { now, refused: None, slow: None, most: 0, answered: None, told: usize::MAX }
    }

    #[test]
    fn hole_37_a_batch_that_is_too_much_is_asked_in_smaller_parts() {
        let mut size = sizes(LARGEST);
        let mut asked = Vec::new();
        for _ in 0..9 {
            let now = Instant::now();
            size.timed_out(size.now.min(100), now, now);
            asked.push(size.now);
        }
        assert_eq!(asked, [50, 25, 12, 6, 3, 1, 1, 1, 1]);
        // And in larger ones once it answers again.
        let mut exchanges = 0;
        let later = Instant::now() + SLOW_FOR;
        while size.now < 100 {
            size.answered(size.now, later);
            exchanges += 1;
        }
        assert!(exchanges < 20, "{exchanges}");
        let before = size.now;
        size.answered(3, later);
        assert_eq!(size.now, before, "a small one says nothing about large ones");
    }

    /// Row 37: an endpoint that answers so many in time and no more.
    ///
    /// Fails if batches grow again at once beyond what was not answered in time: what was asked is then
    /// asked for ever.
    #[test]
    fn hole_37_a_batch_that_was_too_slow_is_not_grown_to_again_at_once() {
        let (mut size, start) = (sizes(LARGEST), Instant::now());
        let (mut slow, mut at) = (0, start);
        for _ in 0..40 {
            let calls = size.now.min(100);
            at += Duration::from_secs(1);
            if calls > 30 {
                slow += 1;
                size.timed_out(calls, at, at);
            } else {
                size.answered(calls, at);
            }
        }
        assert!(slow <= 4, "{slow} batches were too slow");
        assert!((25..=30).contains(&size.now), "{}", size.now);
        size.answered(size.now, at + SLOW_FOR);
        assert!(size.now > 30, "it may be quicker by now");
    }

    #[test]
    fn an_endpoint_that_has_just_answered_is_asked_for_less_at_once() {
        let start = Instant::now();
        for (calls, answered, expected) in [
            (100, Some(0), true),
            (100, Some(900), true),
            (100, Some(5_000), false),
            (100, None, false),
            (2, Some(0), false),
        ] {
            let mut size = sizes(LARGEST);
            size.answered = answered.map(|_| start);
            let asked = start + Duration::from_millis(answered.unwrap_or_default());
            let found = size.timed_out(calls, asked, asked + Duration::from_secs(3));
            assert_eq!(found, expected, "{calls} {answered:?}");
        }
    }

    #[test]
    fn whether_batches_are_taken_is_told() {
        let (mut size, now) = (sizes(LARGEST), Instant::now());
        let batches = |taken, answered, too_many| Batches { taken, answered, too_many };
        assert_eq!(size.known(now), batches(None, 0, None));
        size.answered(1, now);
        size.refused(100, Lasts::Long, now);
        assert_eq!(size.known(now), batches(None, 1, Some(100)));
        size.answered(10, now);
        assert_eq!(size.known(now), batches(Some(true), 10, Some(100)));
        let mut size = sizes(LARGEST);
        size.refused(2, Lasts::Long, now);
        assert_eq!(size.known(now), batches(Some(false), 0, Some(2)));
    }

    /// Fails if an endpoint that once took batches is said to take them whatever it refuses since.
    #[test]
    fn hole_37_an_endpoint_that_takes_no_batches_any_more_is_told() {
        for lasts in [Lasts::Short, Lasts::Long] {
            let (mut size, now) = (sizes(LARGEST), Instant::now());
            size.answered(100, now);
            for calls in [100, 50, 25, 12, 6, 3, 2] {
                assert_eq!(size.known(now).taken, Some(true), "{calls}");
                size.refused(calls, lasts, now);
            }
            size.answered(1, now);
            assert_eq!((size.now, size.known(now).taken), (1, Some(false)));
            // Soon, or some day, it is tried again.
            let later = now + lasts.time();
            assert_eq!(size.known(later).taken, None);
            size.answered(1, later);
            assert_eq!(size.now, 2);
            size.answered(2, later);
            assert_eq!(size.known(later).taken, Some(true));
        }
    }

    #[test]
    fn hole_37_what_was_refused_is_not_asked_for_again_for_a_while() {
        // An endpoint that takes ten at once.
        let (mut size, mut refusals) = (sizes(LARGEST), 0);
        let mut at = Instant::now();
        for _ in 0..50 {
            match size.now.min(100) {
                calls if calls > 10 => {
                    refusals += 1;
                    size.refused(calls, Lasts::Long, at);
                }
                calls => size.answered(calls, at),
            }
        }
        assert_eq!((size.now, refusals <= 6), (10, true), "{refusals} refusals");
        at += REMEMBERED;
        size.answered(10, at);
        assert!(size.now > 10, "another node may be there by now");
    }

    #[test]
    fn whoever_takes_no_batches_is_asked_one_thing_at_a_time() {
        let mut size = sizes(2);
        size.refused(2, Lasts::Long, Instant::now());
        for _ in 0..5 {
            size.answered(1, Instant::now());
            assert_eq!(size.now, 1);
        }
    }
}
