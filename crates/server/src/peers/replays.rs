//! Calls that were taken already are not taken again.
//!
//! A node numbers the calls that it passes on. Whoever takes them remembers, of each start of each
//! node, the highest number and which of those shortly before it have come: a few kilobytes a node,
//! however many calls there are. A number that is far behind counts as one that has come.
//!
//! How old a call may be goes by the database's clock, and how long numbers are remembered by this
//! process's own. The two need not run alike, so numbers are kept for far longer than a call is good.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use stile_domain::Incarnation;

/// So many numbers behind the highest one a call may come late.
const LATEST: usize = 1 << 16;

/// For so many times the window numbers are kept after the last one. A call is good for two: it may be
/// from that far ahead, and that old. The rest is for clocks that do not run alike.
const KEPT_FOR: u32 = 10;

/// Of so many starts of nodes numbers are kept, sixteen megabytes in all. Nobody but a node can take
/// one: a call is looked for here once its proof is good.
const MOST: usize = 2048;

/// Whether a call is new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// It is, and is remembered from now on.
    First,
    /// It was taken before, or is too far behind to tell.
    Again,
    /// It cannot be remembered, so it cannot be taken: too many starts of nodes have called.
    NoRoom,
}

/// The numbers that have come from one start of a node.
#[derive(Debug)]
struct Numbers {
    highest: u64,
    /// One bit for each of the last numbers, by its remainder.
    came: Box<[u64]>,
    heard: Instant,
}

impl Numbers {
    fn new(first: u64, now: Instant) -> Self {
        let came = vec![0; LATEST / 64].into_boxed_slice();
        let mut numbers = Self { highest: first, came, heard: now };
        numbers.set(first, true);
        numbers
    }

    fn place(number: u64) -> (usize, u64) {
        // The remainder is below `LATEST`.
        let bit = usize::try_from(number % LATEST as u64).unwrap_or_default();
        (bit / 64, 1 << (bit % 64))
    }

    fn set(&mut self, number: u64, came: bool) {
        let (word, bit) = Self::place(number);
        if came {
            self.came[word] |= bit;
        } else {
            self.came[word] &= !bit;
        }
    }

    /// Takes a number; `false` if it has come, or is too far behind to tell.
    fn take(&mut self, number: u64) -> bool {
        if number > self.highest {
            // Those in between have not come. Beyond the whole length there is nothing to keep.
            let skipped = (number - self.highest).min(LATEST as u64);
            for between in number - skipped + 1..number {
                self.set(between, false);
            }
            self.highest = number;
        } else {
            let (word, bit) = Self::place(number);
            if self.highest - number >= LATEST as u64 || self.came[word] & bit != 0 {
                return false;
            }
        }
        self.set(number, true);
        true
    }
}

/// What has come, from everybody.
#[derive(Debug, Default)]
pub(super) struct Replays {
    nodes: HashMap<Incarnation, Numbers>,
}

impl Replays {
    /// Takes a call by its number. What a node has sent is forgotten once nothing was heard of it for
    /// ten times `window`: by then all of it is too old to be taken.
    pub(super) fn take(
        &mut self,
        from: Incarnation,
        number: u64,
        now: Instant,
        window: Duration,
    ) -> Taken {
        if let Some(numbers) = self.nodes.get_mut(&from) {
            numbers.heard = now;
            return if numbers.take(number) { Taken::First } else { Taken::Again };
        }
        let kept = KEPT_FOR * window;
        self.nodes.retain(|_, numbers| now.saturating_duration_since(numbers.heard) < kept);
        if self.nodes.len() >= MOST {
            return Taken::NoRoom;
        }
        self.nodes.insert(from, Numbers::new(number, now));
        Taken::First
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_secs(60);

    #[test]
    fn each_number_is_taken_once_in_whatever_order() {
        let (mut replays, now, from) = (Replays::default(), Instant::now(), Incarnation::fresh());
        let mut take = |number| replays.take(from, number, now, WINDOW) == Taken::First;
        let far = 3 * LATEST as u64;
        for (number, taken) in [
            (5, true),
            (5, false),
            (4, true),
            (4, false),
            (9, true),
            (7, true),
            (5, false),
            (8, true),
            (7, false),
            (0, true),
            (0, false),
            // A leap: what is too far behind has come, what is not has not.
            (far, true),
            (9, false),
            (far - LATEST as u64, false),
            (far - LATEST as u64 + 1, true),
            (far - LATEST as u64 + 1, false),
            (far - 1, true),
            (far, false),
            // Round once.
            (far + LATEST as u64 - 1, true),
            (far, false),
            (far + 1, true),
            (u64::MAX, true),
            (u64::MAX, false),
            (u64::MAX - 1, true),
        ] {
            assert_eq!(take(number), taken, "{number}");
        }
    }

    #[test]
    fn it_agrees_with_a_memory_without_end() {
        let (mut replays, now, from) = (Replays::default(), Instant::now(), Incarnation::fresh());
        let mut came = std::collections::HashSet::new();
        let (mut random, mut highest) = (7_u64, 0_u64);
        for _ in 0..200_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let number = (highest + 40).saturating_sub(random >> 54);
            highest = highest.max(number);
            let taken = replays.take(from, number, now, WINDOW) == Taken::First;
            assert_eq!(taken, came.insert(number), "{number}");
        }
    }

    #[test]
    fn every_start_of_a_node_has_its_own_numbers_and_is_forgotten_in_time() {
        let (mut replays, now) = (Replays::default(), Instant::now());
        let (a, b) = (Incarnation::fresh(), Incarnation::fresh());
        assert_eq!(replays.take(a, 1, now, WINDOW), Taken::First);
        assert_eq!(replays.take(b, 1, now, WINDOW), Taken::First);
        for minute in 0..100 {
            let later = now + WINDOW * 2 * minute;
            replays.take(Incarnation::fresh(), 1, later, WINDOW);
            assert!(replays.nodes.len() <= 8, "{}", replays.nodes.len());
        }
    }

    /// The clock that says how old a call is may stand still for a while, or be set back. Another start
    /// of a node, which makes room, must not make this one forget too soon.
    #[test]
    fn hole_40_numbers_are_kept_for_longer_than_a_call_is_good() {
        let (mut replays, now, from) = (Replays::default(), Instant::now(), Incarnation::fresh());
        assert_eq!(replays.take(from, 1, now, WINDOW), Taken::First);
        let later = now + 10 * WINDOW - Duration::from_secs(1);
        assert_eq!(replays.take(Incarnation::fresh(), 1, later, WINDOW), Taken::First);
        assert_eq!(replays.take(from, 1, later, WINDOW), Taken::Again);
    }

    #[test]
    fn hole_40_where_there_is_no_room_nothing_is_forgotten() {
        let (mut replays, now) = (Replays::default(), Instant::now());
        let first = Incarnation::fresh();
        assert_eq!(replays.take(first, 1, now, WINDOW), Taken::First);
        for _ in 1..MOST {
            assert_eq!(replays.take(Incarnation::fresh(), 1, now, WINDOW), Taken::First);
        }
        assert_eq!(replays.take(Incarnation::fresh(), 1, now, WINDOW), Taken::NoRoom);
        assert_eq!(replays.take(first, 1, now, WINDOW), Taken::Again);
        assert_eq!(replays.take(first, 2, now, WINDOW), Taken::First);
        let later = now + 10 * WINDOW;
        assert_eq!(replays.take(Incarnation::fresh(), 1, later, WINDOW), Taken::First);
    }
}
