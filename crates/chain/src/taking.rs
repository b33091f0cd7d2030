//! Whether an endpoint takes transactions, and when it is asked to take one next.
//!
//! This is apart from whether it is in use: a read-only endpoint answers questions, and one that
//! limits how often it takes transactions may answer them too. Time is an argument.

use std::time::{Duration, Instant};

use crate::rpc::rest::LONGEST_RETRY_AFTER;

/// The first pause after an exchange that failed; twice as long each time, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(8);

/// The same for an endpoint that says it is asked too often, and does not say for how long.
const FIRST_LIMITED_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_LIMITED_PAUSE: Duration = Duration::from_secs(10);

/// How soon a read-only endpoint is tried again; twice as long each time, up to the longest.
const FIRST_PROBE: Duration = Duration::from_secs(30);
const LONGEST_PROBE: Duration = Duration::from_secs(3600);

/// The longest where no endpoint of the chain takes transactions: nothing can be sent meanwhile.
const LONGEST_PROBE_ALONE: Duration = Duration::from_secs(10);

/// What is known of an endpoint as one that transactions are sent to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Taking {
    read_only: Option<ReadOnly>,
    /// It is not asked before this moment.
    not_before: Option<Instant>,
    /// It said itself that it is asked too often.
    limited: bool,
    /// Exchanges in a row that said nothing about any transaction.
    failures: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct ReadOnly {
    why: String,
    /// When it last said so, or was last tried.
    tried: Instant,
    /// How often it was tried since.
    probes: u32,
}

/// What one exchange with an endpoint showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Exchange {
    /// It said something about a transaction.
    Heard,
    /// It takes no transactions, in its own words.
    ReadOnly(String),
    /// It is asked too often, and says when to come back, if it does.
    Limited(Option<Duration>),
    /// It did not answer, or not so that it can be understood.
    Failed,
    /// It was not asked after all.
    Nothing,
}

/// Whether an endpoint may be asked to take transactions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Now.
    Ask,
    /// After this time. `limited`: by its own word.
    Wait { left: Duration, limited: bool },
    /// Not for long: it takes none.
    ReadOnly(String),
}

impl Turn {
    /// The same for what somebody waits for: only the endpoint's own word keeps that back.
    pub(crate) fn for_one_in_a_hurry(self, hurried: bool) -> Self {
        match self {
            Self::Wait { limited: false, .. } if hurried => Self::Ask,
            turn => turn,
        }
    }
}

/// What changed, for whoever tells people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    BecameReadOnly,
    TakesAgain,
}

impl Taking {
    /// Whether it may be asked now. Asking a read-only endpoint is a probe, of which there is one
    /// at a time. `alone`: no endpoint of the chain takes transactions.
    pub(crate) fn turn(&mut self, now: Instant, alone: bool) -> Turn {
        if let Some(read_only) = &mut self.read_only {
            let longest = if alone { LONGEST_PROBE_ALONE } else { LONGEST_PROBE };
            let due = read_only.tried + doubled(FIRST_PROBE, read_only.probes).min(longest);
            if now < due {
                return Turn::ReadOnly(read_only.why.clone());
            }
            read_only.tried = now;
            read_only.probes = read_only.probes.saturating_add(1);
            return Turn::Ask;
        }
        match self.not_before.filter(|moment| now < *moment) {
            Some(moment) => Turn::Wait { left: moment - now, limited: self.limited },
            None => Turn::Ask,
        }
    }

    /// Takes note of an exchange.
    pub(crate) fn note(&mut self, now: Instant, exchange: Exchange) -> Option<Change> {
        match exchange {
            Exchange::Nothing => None,
            Exchange::Heard => {
                let was_read_only = self.read_only.is_some();
                *self = Self::default();
                was_read_only.then_some(Change::TakesAgain)
            }
            Exchange::ReadOnly(why) => {
                let probes = self.read_only.as_ref().map(|read_only| read_only.probes);
                let known = probes.is_some();
                let read_only = ReadOnly { why, tried: now, probes: probes.unwrap_or(0) };
                *self = Self { read_only: Some(read_only), ..Self::default() };
                (!known).then_some(Change::BecameReadOnly)
            }
            Exchange::Limited(retry_after) => {
                let own = doubled(FIRST_LIMITED_PAUSE, self.failures).min(LONGEST_LIMITED_PAUSE);
                let pause = retry_after.map_or(own, |told| told.min(LONGEST_RETRY_AFTER));
                self.pause(now, pause, true);
                None
            }
            Exchange::Failed => {
                let pause = doubled(FIRST_PAUSE, self.failures).min(LONGEST_PAUSE);
                self.pause(now, pause, false);
                None
            }
        }
    }

    /// Why it takes no transactions, if it is known to take none.
    pub(crate) fn read_only(&self) -> Option<&str> {
        self.read_only.as_ref().map(|read_only| read_only.why.as_str())
    }

    fn pause(&mut self, now: Instant, pause: Duration, limited: bool) {
        self.failures = self.failures.saturating_add(1);
        // What was said of several exchanges under way at one time: the latest moment counts.
        self.not_before = Some((now + pause).max(self.not_before.unwrap_or(now)));
        self.limited = limited;
    }
}

/// Doubled so many times.
fn doubled(first: Duration, times: u32) -> Duration {
    first.saturating_mul(2u32.saturating_pow(times.min(16)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    fn read_only() -> Exchange {
        Exchange::ReadOnly("method not found".to_owned())
    }

    #[test]
    fn hole_38_only_an_endpoints_own_word_keeps_back_what_somebody_waits_for() {
        let start = Instant::now();
        for (exchanges, is_asked) in [
            (vec![], true),
            (vec![Exchange::Failed; 6], true),
            (vec![Exchange::Limited(Some(seconds(30)))], false),
            (vec![Exchange::Limited(None)], false),
            (vec![read_only()], false),
        ] {
            let mut taking = Taking::default();
            for exchange in &exchanges {
                taking.note(start, exchange.clone());
            }
            let turn = taking.turn(start, false);
            assert_eq!(turn == Turn::Ask, exchanges.is_empty(), "{exchanges:?}");
            assert_eq!(turn.clone().for_one_in_a_hurry(false), turn);
            let hurried = turn.for_one_in_a_hurry(true);
            assert_eq!(hurried == Turn::Ask, is_asked, "{exchanges:?}");
        }
    }

    #[test]
    fn a_read_only_endpoint_is_tried_ever_more_seldom_and_told_of_once() {
        let (mut taking, start) = (Taking::default(), Instant::now());
        assert_eq!(taking.turn(start, false), Turn::Ask);
        assert_eq!(taking.note(start, read_only()), Some(Change::BecameReadOnly));
        let mut now = start;
        for pause in [30, 60, 120, 240, 480, 960, 1920, 3600, 3600] {
            let early = now + seconds(pause) - Duration::from_millis(1);
            assert!(matches!(taking.turn(early, false), Turn::ReadOnly(_)), "{pause}");
            now += seconds(pause);
            assert_eq!(taking.turn(now, false), Turn::Ask, "{pause}");
            assert!(matches!(taking.turn(now, false), Turn::ReadOnly(_)), "one probe at a time");
            assert_eq!(taking.note(now, read_only()), None);
        }
        assert_eq!(taking.note(now, Exchange::Heard), Some(Change::TakesAgain));
        assert_eq!(taking, Taking::default());
    }

    #[test]
    fn where_nobody_takes_transactions_each_is_tried_often() {
        let (mut taking, mut now) = (Taking::default(), Instant::now());
        for _ in 0..10 {
            taking.note(now, read_only());
            now += LONGEST_PROBE_ALONE;
            assert_eq!(taking.turn(now, true), Turn::Ask);
        }
    }

    /// Fails if an endpoint that fails stays known as one that takes transactions again.
    #[test]
    fn a_probe_that_fails_says_nothing() {
        let (mut taking, now) = (Taking::default(), Instant::now());
        taking.note(now, read_only());
        for exchange in [Exchange::Failed, Exchange::Limited(None), Exchange::Nothing] {
            assert_eq!(taking.note(now, exchange), None);
            assert!(taking.read_only().is_some());
        }
    }

    #[test]
    fn pauses_grow_end_with_an_answer_and_are_the_endpoints_own_where_it_names_one() {
        let wait = |left, limited| Turn::Wait { left, limited };
        for (exchanges, expected) in [
            (vec![Exchange::Failed], wait(FIRST_PAUSE, false)),
            (vec![Exchange::Failed; 3], wait(4 * FIRST_PAUSE, false)),
            (vec![Exchange::Failed; 40], wait(LONGEST_PAUSE, false)),
            (vec![Exchange::Failed, Exchange::Nothing], wait(FIRST_PAUSE, false)),
            (vec![Exchange::Failed, Exchange::Heard], Turn::Ask),
            (vec![Exchange::Limited(None)], wait(seconds(1), true)),
            (vec![Exchange::Limited(None); 40], wait(LONGEST_LIMITED_PAUSE, true)),
            (vec![Exchange::Limited(Some(seconds(77)))], wait(seconds(77), true)),
            (vec![Exchange::Limited(Some(seconds(77))), Exchange::Heard], Turn::Ask),
            (
                vec![Exchange::Limited(Some(seconds(77))), Exchange::Limited(None)],
                wait(seconds(77), true),
            ),
            (vec![Exchange::Limited(Some(seconds(99_999)))], wait(LONGEST_RETRY_AFTER, true)),
        ] {
            let (mut taking, now) = (Taking::default(), Instant::now());
            for exchange in exchanges.clone() {
                taking.note(now, exchange);
            }
            assert_eq!(taking.turn(now, false), expected, "{exchanges:?}");
        }
    }
}
