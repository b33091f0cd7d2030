//! How fast a chain makes blocks, whether it has stopped, and whether it makes any without
//! transactions.
//!
//! What is measured is when the head rose, by the clock of the process that follows the chain, and
//! what the new blocks hold. Time is given as what has passed since any fixed moment, by a clock
//! that never goes back.

use std::collections::VecDeque;
use std::time::Duration;

/// How many intervals are kept.
const KEPT: usize = 16;

/// With so many intervals by this process's own clock the timestamps are not needed.
const ENOUGH: usize = 4;

/// Below this no chain is called silent.
const SHORTEST: Duration = Duration::from_secs(15);

/// From when on a chain is called silent of which no interval is known.
const UNMEASURED: Duration = Duration::from_secs(60);

/// From when on a standstill is long, whatever the interval.
const LONG: Duration = Duration::from_secs(120);

/// A block that holds a transaction came for it if it was seen within this of its being sent.
const PROMPT: Duration = Duration::from_millis(1500);

/// For how long no block may come before a few blocks that came for a transaction say that there
/// are no others, and before many do.
const QUIET_AFTER_ONE: Duration = Duration::from_secs(30);
const QUIET_AFTER_MANY: Duration = Duration::from_secs(10);

/// So many blocks that came for a transaction are many.
const MANY: u32 = 3;

/// Blocks that come faster than this are too fast to be told regular from irregular ones.
const COUNTABLE: Duration = Duration::from_millis(200);

/// What a block holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// No transaction.
    Nothing,
    /// Transactions of ours, and no others.
    Ours,
    /// Transactions of others.
    Others,
}

/// A block, as far as its chain's pace is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Made {
    /// When it was made, in seconds since 1970, by its maker's clock.
    pub timestamp: u64,
    /// What it holds.
    pub content: Content,
}

/// How fast a chain makes blocks, as one process has seen it.
#[derive(Debug, Clone, Default)]
pub struct Pace {
    /// When the head last rose, and before that when the chain was first seen.
    risen: Option<Duration>,
    /// The newest block's timestamp.
    timestamp: Option<u64>,
    /// The time between blocks by this process's clock, the newest last.
    arrivals: VecDeque<Duration>,
    /// The time between blocks by their timestamps, the newest last.
    stamps: VecDeque<Duration>,
    /// How many blocks came at once for transactions of ours, since nothing spoke against their
    /// having come for them.
    answers: u32,
    /// An empty block was seen: the chain makes such by the clock, or somebody has had it make one.
    has_empty: bool,
    /// The chain was found to make blocks only when it has transactions, and nothing has spoken
    /// against it since.
    on_demand: bool,
    /// Its older blocks were looked at, or need not be.
    looked_back: bool,
}

impl Pace {
    /// The head rose to the last of these blocks, which go on top of what was known, oldest first.
    /// `sent` is how long ago the newest of our transactions in them was sent, if any is in them.
    pub fn rose(&mut self, now: Duration, blocks: &[Made], sent: Option<Duration>) {
        let Some(newest) = blocks.last() else { return };
        if self.risen.is_none() {
            self.learn(blocks);
            self.looked_back = blocks.len() > ENOUGH;
            (self.risen, self.timestamp) = (Some(now), Some(newest.timestamp));
            return;
        }
        let count = u32::try_from(blocks.len()).unwrap_or(u32::MAX);
        if let (Some(risen), Some(timestamp)) = (self.risen, self.timestamp) {
            keep(&mut self.arrivals, now.saturating_sub(risen) / count);
            let stamped = Duration::from_secs(newest.timestamp.saturating_sub(timestamp));
            keep(&mut self.stamps, stamped / count);
        }
        let has = |content| blocks.iter().any(|block| block.content == content);
        let is_answer = sent.is_some_and(|sent| sent <= PROMPT) && !has(Content::Others);
        if has(Content::Nothing) {
            self.contradict();
        } else if is_answer {
            self.answers = self.answers.saturating_add(1);
        }
        self.risen = Some(now);
        self.timestamp = Some(newest.timestamp);
    }

    /// The chain was picked up at this block: what was before is not measured.
    pub fn picked_up(&mut self, now: Duration, newest: Made) {
        *self = Self { risen: Some(now), timestamp: Some(newest.timestamp), ..Self::default() };
    }

    /// Whether older blocks would tell what nobody has measured: the chain is silent, and too few
    /// of its blocks were seen coming.
    pub fn wants_history(&self, now: Duration) -> bool {
        !self.looked_back
            && self.arrivals.len() < ENOUGH
            && self.silence(now).is_some_and(|silent| silent >= QUIET_AFTER_MANY / 2)
    }

    /// What older blocks tell, oldest first and without the first of the chain, which is empty
    /// everywhere.
    pub fn learn(&mut self, older: &[Made]) {
        self.looked_back = true;
        if older.iter().any(|block| block.content == Content::Nothing) {
            self.contradict();
        }
        if self.stamps.len() >= ENOUGH {
            return;
        }
        let between = older.iter().zip(older.iter().skip(1));
        self.stamps = between
            .map(|(one, next)| Duration::from_secs(next.timestamp.saturating_sub(one.timestamp)))
            .collect();
        let surplus = self.stamps.len().saturating_sub(KEPT);
        self.stamps.drain(..surplus);
    }

    /// The usual time between blocks, where it is known.
    pub fn interval(&self) -> Option<Duration> {
        let mut known: Vec<Duration> = self.intervals().iter().copied().collect();
        known.sort_unstable();
        known.get(known.len() / 2).copied()
    }

    /// For how long no block has come. `None` before the chain was seen.
    pub fn silence(&self, now: Duration) -> Option<Duration> {
        self.risen.map(|risen| now.saturating_sub(risen))
    }

    /// For how long the chain has made no block, if that is much longer than it usually takes.
    ///
    /// A chain that makes blocks only when it has transactions is silent while it has none. Of such
    /// a chain only the time counts in which a transaction waited: `waiting` says for how long the
    /// oldest one has been with its nodes. Whether an offer is high enough is another matter: such
    /// a chain makes no block for one that is too low either, so who decides about fees gives
    /// `None`.
    pub fn standstill(&self, now: Duration, waiting: Option<Duration>) -> Option<Duration> {
        let silent = self.silence(now)?;
        let (silent, allowed) = match self.is_on_demand(now) {
            true => (silent.min(waiting?), SHORTEST),
            false => (silent, self.allowed()),
        };
        (silent >= allowed).then_some(silent)
    }

    /// Whether a standstill has lasted so long that nobody expects it to end by itself.
    pub fn is_long(&self, standstill: Duration) -> bool {
        standstill >= LONG.max(self.allowed().saturating_mul(4))
    }

    /// Whether the chain makes blocks only when it has transactions: its blocks come at once for
    /// what we send, hold nothing else, and there are no others.
    pub fn is_on_demand(&self, now: Duration) -> bool {
        if self.on_demand {
            return true;
        }
        let quiet = match self.answers {
            MANY.. => QUIET_AFTER_MANY,
            1.. if !self.has_empty => QUIET_AFTER_ONE,
            _ => return false,
        };
        !self.is_regular() && self.silence(now).is_some_and(|silent| silent >= quiet)
    }

    /// Takes note of what the chain is found to be, so that it stays that until an empty block
    /// comes. Answers whether it is news that it makes blocks only when it has transactions.
    pub fn settle(&mut self, now: Duration) -> bool {
        let is_news = !self.on_demand && self.is_on_demand(now);
        self.on_demand |= is_news;
        is_news
    }

    /// There are blocks without transactions.
    fn contradict(&mut self) {
        (self.answers, self.on_demand, self.has_empty) = (0, false, true);
    }

    /// How long a silence may be. Blocks that are found by chance may be many usual intervals
    /// apart, and an interval as long as one that was seen lately is nothing special.
    fn allowed(&self) -> Duration {
        let Some(usual) = self.interval() else { return UNMEASURED };
        let longest = self.intervals().iter().max().copied().unwrap_or(usual);
        let by_longest = longest.saturating_mul(2).min(usual.saturating_mul(20));
        SHORTEST.max(usual.saturating_mul(8)).max(by_longest)
    }

    /// Whether blocks come by the clock.
    fn is_regular(&self) -> bool {
        let known = self.intervals();
        let (Some(usual), Some(longest)) = (self.interval(), known.iter().max()) else {
            return false;
        };
        known.len() >= ENOUGH && usual >= COUNTABLE && *longest <= usual.saturating_mul(4)
    }

    /// What was measured; what the timestamps say while that is too little.
    fn intervals(&self) -> &VecDeque<Duration> {
        match self.arrivals.len() >= ENOUGH || self.stamps.is_empty() {
            true => &self.arrivals,
            false => &self.stamps,
        }
    }
}

fn keep(intervals: &mut VecDeque<Duration>, interval: Duration) {
    if intervals.len() == KEPT {
        intervals.pop_front();
    }
    intervals.push_back(interval);
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn made(timestamp: u64, content: Content) -> Made {
        Made { timestamp, content }
    }

    /// A chain that was seen at 0 and then had one block at each of these seconds.
    fn paced(content: Content, at: impl IntoIterator<Item = u64>) -> Pace {
        let mut pace = Pace::default();
        pace.picked_up(seconds(0), made(1_000, content));
        let sent = (content == Content::Ours).then_some(Duration::from_millis(50));
        for at in at {
            pace.rose(seconds(at), &[made(1_000 + at, content)], sent);
        }
        pace
    }

    fn every(interval: u64) -> impl Iterator<Item = u64> {
        (1..=20).map(move |block| block * interval)
    }

    #[test]
    fn hole_38_a_chain_stands_still_after_many_usual_intervals() {
        // blocks at, first silence that is a standstill
        let table: [(Vec<u64>, u64); 5] = [
            // Seconds apart: some seconds more are nothing.
            (every(2).collect(), 16),
            (every(1).collect(), 15),
            (every(12).collect(), 96),
            // By chance: 4, 30, 9 and 17 s apart. Twice the longest is nothing special.
            (vec![4, 34, 43, 60, 64, 94, 103, 120], 136),
            // Nothing was measured.
            (vec![], 60),
        ];
        for (at, first) in table {
            let pace = paced(Content::Others, at.clone());
            let last = at.last().copied().unwrap_or_default();
            let after = |silent| pace.standstill(seconds(last + silent), None);
            assert_eq!(after(first - 1), None, "{at:?}");
            assert_eq!(after(first), Some(seconds(first)), "{at:?}");
            assert_eq!(after(first + 1000), Some(seconds(first + 1000)), "it lasts, {at:?}");
        }
        assert_eq!(Pace::default().standstill(seconds(1000), None), None, "never seen");
    }

    #[test]
    fn hole_38_one_outage_does_not_hide_the_next() {
        let mut pace = paced(Content::Others, every(2));
        pace.rose(seconds(640), &[made(1_640, Content::Others)], None);
        assert_eq!(pace.standstill(seconds(679), None), None);
        assert_eq!(pace.standstill(seconds(680), None), Some(seconds(40)));
        assert!(!pace.is_long(seconds(119)) && !pace.is_long(seconds(159)));
        assert!(pace.is_long(seconds(160)));
    }

    #[test]
    fn several_blocks_at_once_are_as_many_intervals() {
        let mut pace = paced(Content::Others, []);
        for pass in 1..=6 {
            let blocks = [
                made(1_000 + pass * 4 - 2, Content::Others),
                made(1_000 + pass * 4, Content::Others),
            ];
            pace.rose(seconds(pass * 4), &blocks, None);
        }
        assert_eq!(pace.interval(), Some(seconds(2)));
    }

    #[test]
    fn older_blocks_tell_what_was_not_measured() {
        let mut pace = paced(Content::Others, []);
        assert!(!pace.wants_history(seconds(4)) && pace.wants_history(seconds(5)));
        pace.learn(&[
            made(990, Content::Others),
            made(992, Content::Nothing),
            made(994, Content::Others),
        ]);
        assert!(!pace.wants_history(seconds(5)), "once");
        assert_eq!(pace.interval(), Some(seconds(2)));
        assert_eq!(pace.standstill(seconds(16), None), Some(seconds(16)));
    }

    #[test]
    fn hole_38_a_chain_that_mines_on_demand_is_recognised() {
        use Content::{Nothing, Others, Ours};
        // what its blocks hold, when they came, first silence after which it is called so
        let table: [(Content, Vec<u64>, Option<u64>); 7] = [
            (Ours, vec![100], Some(30)),
            (Ours, vec![3, 60, 61, 300], Some(10)),
            // A burst of ours, one block for each.
            (Ours, vec![9, 9, 9, 9, 9, 9], Some(10)),
            // By the clock: whatever they hold, blocks come without them.
            (Ours, every(2).collect(), None),
            (Nothing, vec![100, 130], None),
            (Others, vec![100, 103, 190], None),
            (Others, vec![], None),
        ];
        for (content, at, quiet) in table {
            let pace = paced(content, at.clone());
            let last = at.last().copied().unwrap_or_default();
            let after = |silent| pace.is_on_demand(seconds(last + silent));
            match quiet {
                Some(quiet) => assert!(!after(quiet - 1) && after(quiet), "{content:?} {at:?}"),
                None => assert!(!after(9) && !after(10_000), "{content:?} {at:?}"),
            }
        }
    }

    #[test]
    fn hole_38_a_slow_chain_is_not_taken_for_one_that_mines_on_demand() {
        // Its one block with ours came at once by chance; the others were empty, before or after.
        let mut seen = paced(Content::Nothing, [600]);
        seen.rose(seconds(1200), &[made(2_200, Content::Ours)], Some(seconds(1)));
        assert!(!seen.is_on_demand(seconds(9999)));
        let mut before = paced(Content::Ours, [1200]);
        assert!(before.is_on_demand(seconds(1230)), "nothing else is known");
        before.learn(&[made(400, Content::Nothing), made(1_600, Content::Nothing)]);
        assert!(!before.is_on_demand(seconds(1230)));
        let mut after = paced(Content::Ours, [1200]);
        assert!(after.settle(seconds(1230)) && !after.settle(seconds(1231)), "told once");
        after.rose(seconds(1800), &[made(2_800, Content::Nothing)], None);
        assert!(!after.is_on_demand(seconds(9999)));
        // One that is late was not made for it, and one that others are in proves nothing.
        let mut late = paced(Content::Others, [600]);
        late.rose(seconds(1200), &[made(2_200, Content::Ours)], Some(seconds(2)));
        late.rose(seconds(1800), &[made(2_800, Content::Others)], Some(seconds(0)));
        assert!(!late.is_on_demand(seconds(9999)));
    }

    #[test]
    fn hole_38_a_chain_that_mines_on_demand_stands_still_only_while_something_waits() {
        let mut pace = paced(Content::Ours, [3, 60, 300]);
        assert!(pace.settle(seconds(310)));
        assert_eq!(pace.standstill(seconds(9999), None), None);
        assert_eq!(pace.standstill(seconds(9999), Some(seconds(14))), None);
        assert_eq!(pace.standstill(seconds(9999), Some(seconds(15))), Some(seconds(15)));
        // It stays what it is when the next block comes for ours.
        pace.rose(seconds(10_000), &[made(11_000, Content::Ours)], Some(seconds(0)));
        assert!(pace.is_on_demand(seconds(10_001)));
    }
}
