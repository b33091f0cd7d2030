//! How long a lease lasts and how long it may be trusted.

use std::time::Duration;

/// The two times of a lease.
///
/// Safety never depends on them: a write is valid if the lane row still carries the writer's
/// token, whatever any clock says. They decide how soon a dead holder is replaced and how often a
/// live one has to speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseTerms {
    /// From the last sign of life to the moment another node may take the lane.
    pub duration: Duration,
    /// How often the holder renews in the background.
    pub renew_interval: Duration,
}

/// A lease whose renewal comes too late to be of use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("renew_interval ({renew:?}) must be below half of duration ({duration:?})")]
pub struct LeaseTermsError {
    renew: Duration,
    duration: Duration,
}

impl LeaseTerms {
    /// Checks that one renewal may fail without losing the lease.
    pub fn new(duration: Duration, renew_interval: Duration) -> Result<Self, LeaseTermsError> {
        if renew_interval.is_zero() || renew_interval * 2 >= duration {
            return Err(LeaseTermsError { renew: renew_interval, duration });
        }
        Ok(Self { duration, renew_interval })
    }

    /// How long after *sending* an acquire or renewal the holder believes in it without asking
    /// again: three quarters of the lease, counted from before the request, on a clock that does
    /// not jump. It ends before the database's own expiry however long the answer took.
    pub fn trust(&self) -> Duration {
        self.duration * 3 / 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renewal_must_come_twice_within_a_lease() {
        let seconds = Duration::from_secs;
        assert!(LeaseTerms::new(seconds(10), seconds(3)).is_ok());
        assert!(LeaseTerms::new(seconds(10), seconds(5)).is_err());
        assert!(LeaseTerms::new(seconds(10), seconds(0)).is_err());
    }

    #[test]
    fn trust_ends_before_the_lease_and_outlasts_two_renewals() {
        let terms = LeaseTerms::new(Duration::from_secs(10), Duration::from_secs(3)).unwrap();
        assert!(terms.trust() < terms.duration);
        assert!(terms.trust() > terms.renew_interval * 2);
    }
}
