//! Whether the database answers, asked once for all who want to know.
//!
//! Anybody may ask, without a key and as often as they like. So whoever asks while it is being found
//! out gets that answer, and so do those who ask shortly after.

use std::time::{Duration, Instant};

use tokio::sync::Mutex;

/// How long an answer is good for, and the shortest time between two looks.
const GOOD_FOR: Duration = Duration::from_millis(250);

/// What was found out last.
#[derive(Debug)]
pub(crate) struct Readiness {
    good_for: Duration,
    /// Held while it is being found out.
    looks: Mutex<Looks>,
}

/// A caller who goes away takes the look that it waits for along, so one that was tried is not always
/// one that was done.
#[derive(Debug, Default)]
struct Looks {
    tried: Option<Instant>,
    found: Option<(Instant, Result<(), String>)>,
}

impl Default for Readiness {
    fn default() -> Self {
        Self { good_for: GOOD_FOR, looks: Mutex::default() }
    }
}

impl Readiness {
    /// What is known, or what is found out by `look` if that is too old. Whoever goes away while it
    /// looks leaves it to the next one.
    pub(crate) async fn ask<Look>(&self, look: impl FnOnce() -> Look) -> Result<(), String>
    where
        Look: Future<Output = Result<(), String>>,
    {
        let mut looks = self.looks.lock().await;
        if let Some((at, found)) = &looks.found
            && at.elapsed() < self.good_for
        {
            return found.clone();
        }
        let left = |tried: Instant| self.good_for.checked_sub(tried.elapsed());
        if let Some(wait) = looks.tried.and_then(left) {
            tokio::time::sleep(wait).await;
        }
        looks.tried = Some(Instant::now());
        let found = look().await;
        looks.found = Some((Instant::now(), found.clone()));
        found
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures::future::join_all;

    use super::*;

    #[tokio::test]
    async fn hole_45_who_asks_together_is_answered_together() {
        let looks = AtomicU32::new(0);
        let look = || async {
            let before = looks.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
            if before.is_multiple_of(2) { Ok(()) } else { Err("away".to_owned()) }
        };
        let shared = Readiness { good_for: Duration::MAX, ..Readiness::default() };
        for answer in join_all((0..100).map(|_| shared.ask(look))).await {
            assert_eq!(answer, Ok(()));
        }
        assert_eq!(looks.load(Ordering::Relaxed), 1);
        let old = Readiness { good_for: Duration::ZERO, ..Readiness::default() };
        assert_eq!(old.ask(look).await, Err("away".to_owned()));
        assert_eq!(old.ask(look).await, Ok(()), "what is old is found out anew");
    }

    #[tokio::test]
    async fn whoever_goes_away_leaves_it_to_the_next() {
        let readiness = Readiness::default();
        let never = readiness.ask(std::future::pending);
        assert!(futures::poll!(std::pin::pin!(never)).is_pending());
        assert_eq!(readiness.ask(|| async { Ok(()) }).await, Ok(()));
    }
}
