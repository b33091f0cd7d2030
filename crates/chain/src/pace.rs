//! How fast a chain makes blocks, and how often it is looked at.
//!
//! A chain that makes a block every twelve seconds need not be looked at twice a second. One that
//! makes blocks now and then, as when there are transactions, is looked at as often as before: its
//! next block may be there at once.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// New heads that are remembered.
const REMEMBERED: usize = 9;

/// Intervals that it takes to see a rule in them.
const ENOUGH: usize = 4;

/// Looks from one block to the next, at least.
const LOOKS_PER_BLOCK: u32 = 4;

/// The longest time without a look, however slow the chain: nobody waits longer for news.
const LONGEST: Duration = Duration::from_secs(2);

/// How many times the shortest interval the longest one may be where blocks come by a clock.
const REGULAR: u32 = 3;

/// When the newest heads were first seen.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pace {
    seen: VecDeque<(u64, Instant)>,
}

impl Pace {
    /// The newest block is at this height. Going back is a reorganisation, or another endpoint: what
    /// was above it does not count.
    pub(crate) fn note(&mut self, height: u64, now: Instant) {
        while self.seen.back().is_some_and(|(seen, _)| *seen > height) {
            self.seen.pop_back();
        }
        if self.seen.back().is_none_or(|(seen, _)| *seen < height) {
            self.seen.push_back((height, now));
        }
        if self.seen.len() > REMEMBERED {
            self.seen.pop_front();
        }
    }

    /// The time from one block to the next, where several were seen.
    pub(crate) fn block_time(&self) -> Option<Duration> {
        if self.seen.len() <= ENOUGH {
            return None;
        }
        let ((first, since), (last, until)) = (*self.seen.front()?, *self.seen.back()?);
        let blocks = u32::try_from(last - first).ok().filter(|blocks| *blocks > 0)?;
        Some(until.duration_since(since) / blocks)
    }

    /// How long to wait until the chain is looked at again. Never more often than `least`.
    pub(crate) fn next_look(&self, least: Duration, now: Instant) -> Duration {
        let since_last = self.seen.back().map(|(_, seen)| now.duration_since(*seen));
        next_look(&self.intervals(), since_last.unwrap_or_default(), least)
    }

    /// The time per block between one head and the next.
    fn intervals(&self) -> Vec<Duration> {
        let pairs = self.seen.iter().zip(self.seen.iter().skip(1));
        let each = pairs.map(|((before, since), (height, until))| {
            let blocks = u32::try_from(height - before).unwrap_or(u32::MAX).max(1);
            until.duration_since(*since) / blocks
        });
        each.collect()
    }
}

/// A part of the time from block to block where blocks come by a clock, within bounds; else `least`.
fn next_look(intervals: &[Duration], since_last: Duration, least: Duration) -> Duration {
    let (Some(shortest), Some(longest)) = (intervals.iter().min(), intervals.iter().max()) else {
        return least;
    };
    let by_a_clock = intervals.len() >= ENOUGH && *longest <= *shortest * REGULAR;
    // A block that is overdue breaks the rule that was seen before.
    if !by_a_clock || since_last > *longest * REGULAR {
        return least;
    }
    (*shortest / LOOKS_PER_BLOCK).clamp(least, LONGEST.max(least))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn looks_follow_the_blocks_within_bounds() {
        // Milliseconds between heads, since the last one, the setting, and until the next look.
        type Case<'a> = (&'a [u64], u64, u64, u64);
        let cases: [Case<'_>; 12] = [
            (&[], 0, 500, 500),
            (&[12_000; 3], 0, 500, 500),
            (&[12_000; 8], 0, 500, 2_000),
            (&[12_000, 11_800, 12_300, 12_000, 24_000], 5_000, 500, 2_000),
            (&[5_000, 4_800, 5_200, 5_000], 0, 500, 1_200),
            (&[2_000; 8], 0, 500, 500),
            (&[250; 8], 0, 500, 500),
            // Nothing is looked at more often than it is set.
            (&[250; 8], 0, 5_000, 5_000),
            (&[12_000; 8], 0, 5_000, 5_000),
            // Blocks that come when there are transactions.
            (&[9_000, 300, 40_000, 700, 8_000], 0, 500, 500),
            (&[60_000; 8], 180_001, 500, 500),
            (&[60_000; 8], 60_000, 500, 2_000),
        ];
        for (intervals, since_last, least, expected) in cases {
            let intervals: Vec<Duration> = intervals.iter().copied().map(ms).collect();
            let found = next_look(&intervals, ms(since_last), ms(least));
            assert_eq!(found, ms(expected), "{intervals:?} {since_last} {least}");
        }
    }

    #[test]
    fn the_time_from_block_to_block_is_measured() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        pace.note(100, start);
        pace.note(100, start + ms(300));
        assert_eq!(pace.block_time(), None);
        for block in 1..=4 {
            pace.note(100 + block, start + ms(1_000 * block));
        }
        assert_eq!(pace.block_time(), Some(ms(1_000)));
        // Two at once.
        pace.note(106, start + ms(6_000));
        assert_eq!(pace.block_time(), Some(ms(1_000)));
        // A reorganisation, and a leap of the clock's.
        pace.note(105, start + ms(6_500));
        pace.note(107, start + ms(7_000));
        assert_eq!(pace.block_time(), Some(ms(1_000)));
        assert_eq!(pace.next_look(ms(100), start + ms(7_000)), ms(250));
    }
}
