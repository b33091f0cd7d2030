//! Wrong API keys: counted, told once a minute for each address, and not looked for without end.
//!
//! A key that is not known yet may have been made a moment ago on another node, so it is looked for in
//! the database. That is what wrong keys cost, and so each address may have it done so many times a
//! second. Above that a key that is not known is refused at once, with `Retry-After`: no connection is
//! held, and no database asked. Good keys are known, and are let in before any of this: whoever shares
//! an address with them, behind a proxy say, takes nothing from them. A key that was made elsewhere in
//! this very second is known a second later.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::buckets::{Buckets, Rate, Take};

/// How often an address is told of in the log.
const TELL_EVERY: Duration = Duration::from_secs(60);

/// How often those are looked for that need not be remembered any more.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// Of how many addresses it is remembered.
pub(super) const MOST: usize = 10_000;

/// What has come from where.
#[derive(Debug)]
pub(super) struct WrongKeys {
    looks: Buckets<IpAddr>,
    told: HashMap<IpAddr, Told>,
    /// When those were last looked for that need not be remembered any more.
    swept: Instant,
}

#[derive(Debug)]
struct Told {
    at: Instant,
    since: u64,
}

impl WrongKeys {
    pub(super) fn new(per_second: u32, now: Instant) -> Self {
        let per_second = f64::from(per_second.max(1));
        let rate = Rate { per_second, burst: 10.0 * per_second };
        Self { looks: Buckets::new(rate, MOST, now), told: HashMap::new(), swept: now }
    }

    /// Whether an unknown key from here may be looked for.
    pub(super) fn look(&mut self, from: IpAddr, now: Instant) -> Take {
        self.looks.take(from, now)
    }

    /// Counts one that was wrong. `Some` of how many came from here since it was told last, if it is
    /// time to tell.
    pub(super) fn count(&mut self, from: IpAddr, now: Instant) -> Option<u64> {
        let is_due = |told: &Told| now.saturating_duration_since(told.at) >= TELL_EVERY;
        if let Some(told) = self.told.get_mut(&from) {
            told.since += 1;
            if !is_due(told) {
                return None;
            }
            told.at = now;
            return Some(std::mem::take(&mut told.since));
        }
        if self.told.len() >= MOST && now.saturating_duration_since(self.swept) >= SWEEP_EVERY {
            self.swept = now;
            self.told.retain(|_, told| !is_due(told));
        }
        // Ten thousand addresses in a minute: the count of all of them is in the metrics.
        if self.told.len() >= MOST {
            return None;
        }
        self.told.insert(from, Told { at: now, since: 0 });
        Some(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_told_of_once_a_minute_with_all_that_came() {
        let begin = Instant::now();
        let mut wrong = WrongKeys::new(10, begin);
        let (one, other): (IpAddr, IpAddr) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        for (at, from, told) in [
            (0, one, Some(1)),
            (1, one, None),
            (2, other, Some(1)),
            (59, one, None),
            (60, one, Some(3)),
            (61, one, None),
            (600, one, Some(2)),
            (600, other, Some(1)),
        ] {
            let now = begin + Duration::from_secs(at);
            assert_eq!(wrong.count(from, now), told, "{from} at {at} s");
        }
    }

    #[test]
    fn memory_is_bounded() {
        let begin = Instant::now();
        let mut wrong = WrongKeys::new(10, begin);
        for number in 0..(2 * MOST as u32) {
            wrong.count(IpAddr::from(number.to_be_bytes()), begin);
        }
        assert_eq!(wrong.told.len(), MOST);
        let later = begin + TELL_EVERY;
        assert_eq!(wrong.count([192, 0, 2, 1].into(), later), Some(1));
        assert_eq!(wrong.told.len(), 1);
    }
}
