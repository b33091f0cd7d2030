//! How often the gas of a transaction is estimated before it is refused.

use std::time::Duration;

/// How often an estimate is tried, and with what pauses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EstimatePolicy {
    /// The most tries for one transaction. One is always made.
    pub tries: u32,
    /// The pause after the first failure; each further one is twice as long.
    pub first_pause: Duration,
    /// The longest pause.
    pub longest_pause: Duration,
}

impl Default for EstimatePolicy {
    fn default() -> Self {
        Self {
            tries: 8,
            first_pause: Duration::from_secs(2),
            longest_pause: Duration::from_secs(60),
        }
    }
}

/// What becomes of a transaction whose estimate has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterFailure {
    /// It is tried again after this pause.
    TryAgain(Duration),
    /// It is refused.
    Refuse,
}

impl EstimatePolicy {
    /// What becomes of a transaction whose estimate has failed so often.
    pub fn after_failures(&self, failed: u32) -> AfterFailure {
        if failed >= self.tries {
            return AfterFailure::Refuse;
        }
        let doubled = 1u32.checked_shl(failed.saturating_sub(1)).unwrap_or(u32::MAX);
        let pause = self.first_pause.checked_mul(doubled).unwrap_or(self.longest_pause);
        AfterFailure::TryAgain(pause.min(self.longest_pause))
    }
}

#[cfg(test)]
mod tests {
    use super::AfterFailure::{Refuse, TryAgain};
    use super::*;

    #[test]
    fn pauses_grow_and_tries_end() {
        let seconds = Duration::from_secs;
        let policy =
            EstimatePolicy { tries: 5, first_pause: seconds(2), longest_pause: seconds(10) };
        let after: Vec<AfterFailure> = (1..=6).map(|n| policy.after_failures(n)).collect();
        let (two, four, eight) = (TryAgain(seconds(2)), TryAgain(seconds(4)), TryAgain(seconds(8)));
        assert_eq!(after, [two, four, eight, TryAgain(seconds(10)), Refuse, Refuse]);
    }

    #[test]
    fn no_number_is_too_large() {
        let policy = EstimatePolicy { tries: u32::MAX, ..EstimatePolicy::default() };
        assert_eq!(policy.after_failures(0), TryAgain(policy.first_pause));
        for failed in [31, 32, 33, 1_000_000] {
            assert_eq!(policy.after_failures(failed), TryAgain(policy.longest_pause));
        }
        let once = EstimatePolicy { tries: 1, ..policy };
        assert_eq!(once.after_failures(1), Refuse);
    }
}
