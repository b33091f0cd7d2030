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

/// The size of batches for one endpoint.
#[derive(Debug)]
pub(super) struct BatchSize(Mutex<Sizes>);

impl Default for BatchSize {
    fn default() -> Self {
        Self(Mutex::new(Sizes { now: LARGEST, refused: None }))
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

    /// So many were too many, by the endpoint's own word. How many are asked from now on.
    pub(super) fn refused(&self, calls: usize) -> usize {
        let mut sizes = self.sizes();
        sizes.refused(calls, Instant::now());
        sizes.now
    }

    /// So many were not answered in time.
    pub(super) fn timed_out(&self, calls: usize) {
        self.sizes().timed_out(calls);
    }

    fn sizes(&self) -> MutexGuard<'_, Sizes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sizes {
    now: usize,
    /// The fewest that were refused, and when.
    refused: Option<(usize, Instant)>,
}

impl Sizes {
    /// Grows by a quarter, if the answer was to as many as are asked.
    fn answered(&mut self, calls: usize, at: Instant) {
        if calls < self.now {
            return;
        }
        self.refused = self.refused.filter(|(_, when)| at.duration_since(*when) < REMEMBERED);
        let most = self.refused.map_or(LARGEST, |(refused, _)| refused - 1);
        self.now = (calls + calls / 4 + 1).min(most).max(1);
    }

    /// One call is no batch, and is asked whatever is refused.
    fn refused(&mut self, calls: usize, at: Instant) {
        let calls = calls.max(2);
        let fewest = self.refused.map_or(calls, |(refused, _)| refused.min(calls));
        self.refused = Some((fewest, at));
        self.now = calls / 2;
    }

    /// Several batches may be under way: the smallest that was too much counts.
    fn timed_out(&mut self, calls: usize) {
        self.now = self.now.min(calls / 2).max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(now: usize, refused: Option<usize>) -> Sizes {
        Sizes { now, refused: refused.map(|calls| (calls, Instant::now())) }
    }

    #[test]
    fn hole_37_a_batch_that_is_too_much_is_asked_in_smaller_parts() {
        let mut size = sizes(LARGEST, None);
        let mut asked = Vec::new();
        for _ in 0..9 {
            size.timed_out(size.now.min(100));
            asked.push(size.now);
        }
        assert_eq!(asked, [50, 25, 12, 6, 3, 1, 1, 1, 1]);
        // And in larger ones once it answers again.
        let mut exchanges = 0;
        while size.now < 100 {
            size.answered(size.now, Instant::now());
            exchanges += 1;
        }
        assert!(exchanges < 20, "{exchanges}");
        let before = size;
        size.answered(3, Instant::now());
        assert_eq!(size, before, "a small one says nothing about large ones");
    }

    #[test]
    fn hole_37_what_was_refused_is_not_asked_for_again_for_a_while() {
        // An endpoint that takes ten at once.
        let (mut size, mut refusals) = (sizes(LARGEST, None), 0);
        let mut at = Instant::now();
        for _ in 0..50 {
            match size.now.min(100) {
                calls if calls > 10 => {
                    refusals += 1;
                    size.refused(calls, at);
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
        let mut size = sizes(2, None);
        size.refused(2, Instant::now());
        for _ in 0..5 {
            size.answered(1, Instant::now());
            assert_eq!(size.now, 1);
        }
    }
}
