//! What a connection is doing, and since when: the rule for when it is ended.
//!
//! Nothing here reads a clock. Times are milliseconds since the connection began.

use std::collections::BTreeMap;
use std::time::Duration;

use super::options::Limits;

/// How long a connection that is ended may take to take leave, and how long somebody may take nothing
/// of what is sent once the server stops.
pub(super) const LEAVE: Duration = Duration::from_secs(5);

/// How soon it is looked, once the server stops, whether there is still something to wait for.
pub(super) const SOON: Duration = Duration::from_millis(100);

/// What a connection is doing.
#[derive(Debug, Clone, Default)]
pub(super) struct Doing {
    /// It is one of HTTP/2. What is read between calls is no head of one, and what is written no
    /// answer: there are pings and the like, too. And the other side says how much it takes of each
    /// answer.
    has_frames: bool,
    /// There was a call.
    called: bool,
    calls: u32,
    /// Since when there is no call.
    quiet_since: u64,
    /// Since when a head is coming, if one is.
    head_since: Option<u64>,
    /// Since when the other side takes nothing, if it does not.
    stuck_since: Option<u64>,
    /// Whether something was written that may not have left yet: an answer is over before it is sent.
    unsent: bool,
    /// Of HTTP/2, since when nothing more of an answer is asked for, by its number.
    untaken_since: BTreeMap<u64, u64>,
    next: u64,
}

/// What became of something that was to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wrote {
    /// The system has taken a part of it.
    Some,
    /// It takes nothing at the moment.
    Nothing,
    /// It has all of it.
    All,
}

/// Why a connection is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Overdue {
    /// The head of a call does not come.
    Head,
    /// No call comes.
    Idle,
    /// What is sent is not taken.
    Stuck,
}

impl Overdue {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Head => "headers",
            Self::Idle => "idle",
            Self::Stuck => "write",
        }
    }
}

/// How long what is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Patience {
    head: Duration,
    idle: Duration,
    stuck: Duration,
    /// The longest until it is looked again.
    look: Duration,
}

impl Patience {
    pub(super) fn new(limits: &Limits) -> Self {
        let Limits { headers, idle, .. } = *limits;
        Self { head: headers, idle, stuck: idle, look: headers.min(idle) }
    }

    /// What is left of it when the server stops: whoever has no call under way is not waited for, but
    /// for a `farewell` where one is taken.
    pub(super) fn at_the_end(self, farewell: Duration) -> Self {
        Self { head: Duration::ZERO, idle: farewell, stuck: self.stuck.min(LEAVE), look: SOON }
    }
}

impl Doing {
    /// A connection begins with a head. `has_frames`: it is one of HTTP/2.
    pub(super) fn new(has_frames: bool) -> Self {
        Self { has_frames, head_since: Some(0), ..Self::default() }
    }

    /// Something was read.
    pub(super) fn heard(&mut self, now: u64) {
        let is_ping = self.has_frames && self.called;
        if !is_ping && self.calls == 0 {
            self.head_since.get_or_insert(now);
        }
    }

    /// Something was written, or could not be.
    pub(super) fn wrote(&mut self, what: Wrote, now: u64) {
        if what == Wrote::Nothing {
            self.unsent = true;
            self.stuck_since.get_or_insert(now);
            return;
        }
        let was_unsent = std::mem::replace(&mut self.unsent, what == Wrote::Some);
        self.stuck_since = None;
        // The rest of an answer that is over: it is not idle yet, and no head is read meanwhile.
        if (was_unsent || self.unsent) && self.calls == 0 && !self.has_frames {
            self.quiet_since = now;
            self.head_since = self.head_since.map(|_| now);
        }
    }

    /// A call has come. Its number, to speak of it.
    pub(super) fn begin(&mut self) -> u64 {
        self.calls += 1;
        self.called = true;
        self.head_since = None;
        self.next += 1;
        self.next
    }

    /// A part of its answer was handed over to be sent. While the rest is not asked for, the other side
    /// does not take it. Without frames there is nothing that a socket does not show.
    pub(super) fn handed_over(&mut self, call: u64, now: u64) {
        if self.has_frames {
            self.untaken_since.insert(call, now);
        }
    }

    /// More of its answer is asked for. If there is none yet, that is not the other side's doing.
    pub(super) fn asked(&mut self, call: u64) {
        self.untaken_since.remove(&call);
    }

    /// Its answer is over.
    pub(super) fn end(&mut self, call: u64, now: u64) {
        self.untaken_since.remove(&call);
        self.calls = self.calls.saturating_sub(1);
        self.quiet_since = now;
    }

    /// Whether it is to be ended, or how long from now it is to be looked at again.
    pub(super) fn judge(&self, now: u64, patience: &Patience) -> Result<Duration, Overdue> {
        let left = |since: u64, limit: Duration| {
            (since + limit.as_millis() as u64).checked_sub(now).filter(|left| *left > 0)
        };
        let mut next = patience.look.as_millis() as u64;
        for since in self.stuck_since.iter().chain(self.untaken_since.values()) {
            next = next.min(left(*since, patience.stuck).ok_or(Overdue::Stuck)?);
        }
        if self.calls == 0 && !self.unsent {
            next = next.min(match self.head_since {
                Some(since) => left(since, patience.head).ok_or(Overdue::Head)?,
                None => left(self.quiet_since, patience.idle).ok_or(Overdue::Idle)?,
            });
        }
        Ok(Duration::from_millis(next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patience() -> Patience {
        let (headers, idle) = (Duration::from_secs(10), Duration::from_secs(60));
        Patience::new(&Limits { headers, idle, ..Limits::default() })
    }

    fn again(ms: u64) -> Result<Duration, Overdue> {
        Ok(Duration::from_millis(ms))
    }

    fn check(doing: &Doing, table: &[(u64, Result<Duration, Overdue>)]) {
        for (now, expected) in table {
            assert_eq!(doing.judge(*now, &patience()), *expected, "{doing:?} at {now}");
        }
    }

    #[test]
    fn a_connection_ends_when_nothing_comes_of_it() {
        let mut doing = Doing::new(false);
        check(&doing, &[(0, again(10_000)), (9_999, again(1)), (10_000, Err(Overdue::Head))]);
        let call = doing.begin();
        // A call may take as long as it takes, and a stream has no end.
        check(&doing, &[(10_000_000, again(10_000))]);
        doing.end(call, 1_000);
        let quiet = [(2_000, again(10_000)), (55_000, again(6_000)), (61_000, Err(Overdue::Idle))];
        check(&doing, &quiet);
        doing.heard(5_000);
        doing.heard(9_000);
        check(&doing, &[(5_000, again(10_000)), (14_999, again(1)), (15_000, Err(Overdue::Head))]);
        doing.begin();
        doing.wrote(Wrote::Nothing, 20_000);
        doing.wrote(Wrote::Nothing, 30_000);
        check(&doing, &[(75_000, again(5_000)), (80_000, Err(Overdue::Stuck))]);
        doing.wrote(Wrote::Some, 79_000);
        check(&doing, &[(80_000, again(10_000))]);
    }

    #[test]
    fn between_calls_http2_has_pings_and_http1_has_heads() {
        for (has_frames, head) in [(false, Some(2_000)), (true, None)] {
            let mut doing = Doing::new(has_frames);
            assert_eq!(doing.head_since, Some(0), "the first head is awaited");
            let call = doing.begin();
            doing.end(call, 1_000);
            doing.heard(2_000);
            assert_eq!(doing.head_since, head, "{has_frames}");
        }
    }

    /// The other side says how much it takes of each answer, and may say nothing for ever. The socket is
    /// never held up by that.
    #[test]
    fn hole_45_an_answer_over_http2_that_is_not_asked_for_is_stuck() {
        let mut doing = Doing::new(true);
        let (taken, waits) = (doing.begin(), doing.begin());
        doing.handed_over(taken, 1_000);
        doing.handed_over(waits, 2_000);
        doing.wrote(Wrote::Some, 2_000);
        doing.wrote(Wrote::All, 2_000);
        check(&doing, &[(60_999, again(1)), (61_000, Err(Overdue::Stuck))]);
        doing.asked(taken);
        check(&doing, &[(61_000, again(1_000)), (62_000, Err(Overdue::Stuck))]);
        // A stream that waits for its next event is not stuck.
        doing.asked(waits);
        check(&doing, &[(10_000_000, again(10_000))]);
        doing.handed_over(waits, 10_000_000);
        doing.end(waits, 10_000_000);
        doing.end(taken, 10_000_000);
        check(&doing, &[(10_060_000, Err(Overdue::Idle))]);
    }

    /// Over HTTP/1.1 the socket shows all there is: whoever takes a little now and then is not stuck.
    #[test]
    fn over_http1_a_slow_reader_is_not_stuck() {
        let mut doing = Doing::new(false);
        let call = doing.begin();
        doing.handed_over(call, 1_000);
        check(&doing, &[(10_000_000, again(10_000))]);
    }

    /// An answer is over for whoever made it as soon as it is queued, long before it is sent.
    #[test]
    fn hole_45_a_connection_that_is_busy_sending_is_not_idle() {
        let mut doing = Doing::new(false);
        let call = doing.begin();
        doing.wrote(Wrote::Some, 1_000);
        doing.end(call, 1_000);
        for now in [1_000, 50_000, 100_000] {
            doing.wrote(Wrote::Some, now);
            doing.wrote(Wrote::Nothing, now);
        }
        // The next call may be there already, and is not read before.
        doing.heard(100_000);
        check(&doing, &[(101_000, again(10_000)), (160_000, Err(Overdue::Stuck))]);
        doing.wrote(Wrote::Some, 150_000);
        doing.wrote(Wrote::All, 150_000);
        check(&doing, &[(155_000, again(5_000)), (160_000, Err(Overdue::Head))]);
        let call = doing.begin();
        doing.end(call, 160_000);
        doing.wrote(Wrote::Some, 200_000);
        doing.wrote(Wrote::All, 200_000);
        check(&doing, &[(259_000, again(1_000)), (260_000, Err(Overdue::Idle))]);
        // To send all of nothing is not to send.
        doing.wrote(Wrote::All, 259_000);
        check(&doing, &[(260_000, Err(Overdue::Idle))]);
    }

    /// Whoever has pings answered is idle all the same.
    #[test]
    fn hole_45_pings_keep_no_connection() {
        let mut doing = Doing::new(true);
        let call = doing.begin();
        doing.end(call, 1_000);
        for now in [20_000, 40_000, 60_000] {
            doing.heard(now);
            doing.wrote(Wrote::Some, now);
            doing.wrote(Wrote::All, now);
        }
        check(&doing, &[(60_999, again(1)), (61_000, Err(Overdue::Idle))]);
    }

    #[test]
    fn hole_45_whoever_does_nothing_holds_up_no_stop() {
        let plain = patience().at_the_end(Duration::ZERO);
        let mut doing = Doing::new(false);
        assert_eq!(doing.judge(0, &plain), Err(Overdue::Head), "half a head");
        let call = doing.begin();
        assert_eq!(doing.judge(0, &plain), again(100), "a call goes on to its end");
        doing.wrote(Wrote::Nothing, 1_000);
        assert_eq!(doing.judge(5_999, &plain), again(1));
        assert_eq!(doing.judge(6_000, &plain), Err(Overdue::Stuck), "nobody takes its answer");
        doing.end(call, 6_000);
        assert_eq!(doing.judge(5_999, &plain), again(1), "the rest of it is still to be sent");
        doing.wrote(Wrote::All, 7_000);
        assert_eq!(doing.judge(7_000, &plain), Err(Overdue::Idle));
        let farewell = patience().at_the_end(Duration::from_secs(1));
        assert_eq!(doing.judge(7_950, &farewell), again(50));
        assert_eq!(doing.judge(8_000, &farewell), Err(Overdue::Idle));
    }
}
