//! How a chain's blocks come, as its follower sees it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use stile_domain::{Content, Made, Pace};

/// How a chain's blocks come. The rules are [`Pace`]'s.
#[derive(Debug)]
pub(crate) struct BlockPace {
    /// What its times are counted from.
    began: Instant,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    pace: Pace,
    /// When the chain was last seen: while no endpoint answers nobody knows whether it makes
    /// blocks.
    looked: Duration,
}

/// A chain that has made no block for much longer than it usually takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Standstill {
    /// For how long.
    pub(crate) silent: Duration,
    /// How long a block usually takes, where that is known.
    pub(crate) usual: Option<Duration>,
    /// Nobody expects it to end by itself any more.
    pub(crate) is_long: bool,
}

impl Default for BlockPace {
    fn default() -> Self {
        Self { began: Instant::now(), known: Mutex::default() }
    }
}

impl BlockPace {
    /// The head rose to the last of these blocks, oldest first. `sent` is when the newest of our
    /// transactions in them was first sent.
    pub(crate) fn rose(&self, blocks: &[Made], sent: Option<Instant>) {
        let now = self.began.elapsed();
        self.known().pace.rose(now, blocks, sent.map(|sent| sent.elapsed()));
    }

    /// The chain was picked up at this block, far above what was known.
    pub(crate) fn picked_up(&self, newest: Made) {
        let now = self.began.elapsed();
        self.known().pace.picked_up(now, newest);
    }

    /// The chain was seen. Answers whether it is news that it makes blocks only when it has
    /// transactions.
    pub(crate) fn looked(&self) -> bool {
        let now = self.began.elapsed();
        let mut known = self.known();
        known.looked = now;
        known.pace.settle(now)
    }

    /// Whether older blocks would tell what nobody has measured.
    pub(crate) fn wants_history(&self) -> bool {
        let known = self.known();
        known.pace.wants_history(known.looked)
    }

    /// What older blocks tell: when each was made, and whether it holds anything.
    pub(crate) fn learn(&self, older: impl Iterator<Item = (u64, bool)>) {
        let content = |is_empty| if is_empty { Content::Nothing } else { Content::Others };
        let older = older.map(|(timestamp, empty)| Made { timestamp, content: content(empty) });
        self.known().pace.learn(&older.collect::<Vec<_>>());
    }

    /// Whether the chain makes blocks only when it has transactions.
    pub(crate) fn is_on_demand(&self) -> bool {
        let known = self.known();
        known.pace.is_on_demand(known.looked)
    }

    /// For how long there has been no block, as far as the chain was seen.
    pub(crate) fn silence(&self) -> Option<Duration> {
        let known = self.known();
        known.pace.silence(known.looked)
    }

    /// How long a block usually takes, where that is known.
    pub(crate) fn interval(&self) -> Option<Duration> {
        self.known().pace.interval()
    }

    /// The standstill of the chain, if it stands still. `waiting` is since when the oldest
    /// transaction has been with its nodes: see [`Pace::standstill`]. Who decides about fees gives
    /// `None`.
    pub(crate) fn standstill(&self, waiting: Option<Instant>) -> Option<Standstill> {
        let known = self.known();
        let waiting = waiting.map(|since| since.elapsed());
        let silent = known.pace.standstill(known.looked, waiting)?;
        let (usual, is_long) = (known.pace.interval(), known.pace.is_long(silent));
        Some(Standstill { silent, usual, is_long })
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
