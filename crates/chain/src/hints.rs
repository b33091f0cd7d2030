//! New heads are announced by endpoints that can; otherwise one looks.

use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// The least time from one hint to the next: an endpoint that announces without end makes nobody
/// look without a pause.
const LEAST_PAUSE: Duration = Duration::from_millis(100);

/// Says that there may be a new head. A hint and no more: what is true is asked for afterwards.
#[derive(Debug, Clone)]
pub(crate) struct Announcer(watch::Sender<u64>);

impl Announcer {
    pub(crate) fn announce(&self) {
        self.0.send_modify(|count| *count = count.wrapping_add(1));
    }
}

/// Waits for announcements.
#[derive(Debug)]
pub(crate) struct Hints {
    announcer: Announcer,
    receiver: Mutex<watch::Receiver<u64>>,
    /// When the last hint was given.
    last: Mutex<Option<Instant>>,
    least_pause: Duration,
}

impl Hints {
    pub(crate) fn new() -> Self {
        Self::with_pause(LEAST_PAUSE)
    }

    fn with_pause(least_pause: Duration) -> Self {
        let (sender, receiver) = watch::channel(0);
        let (announcer, receiver) = (Announcer(sender), Mutex::new(receiver));
        Self { announcer, receiver, last: Mutex::default(), least_pause }
    }

    pub(crate) fn announcer(&self) -> Announcer {
        self.announcer.clone()
    }

    /// Returns at the first announcement since it last returned, or when `longest` has passed; in
    /// any case a moment after it last returned.
    pub(crate) async fn next(&self, longest: Duration) {
        let mut receiver = lock(&self.receiver).clone();
        let _ = tokio::time::timeout(longest, receiver.changed()).await;
        let last = *lock(&self.last);
        if let Some(last) = last {
            tokio::time::sleep_until(last + self.least_pause.min(longest)).await;
        }
        // What was announced during the pause is part of this hint.
        receiver.mark_unchanged();
        *lock(&self.receiver) = receiver;
        *lock(&self.last) = Some(Instant::now());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    #[tokio::test]
    async fn an_announcement_is_not_lost_while_nobody_waits() {
        let hints = Hints::new();
        hints.announcer().announce();
        hints.announcer().announce();
        // Would take an hour otherwise.
        hints.next(LONG).await;
        let waiting = hints.next(LONG);
        tokio::pin!(waiting);
        assert!(futures::poll!(&mut waiting).is_pending(), "two announcements are one hint");
        hints.announcer().announce();
        waiting.await;
    }

    #[tokio::test]
    async fn hole_23_announcements_without_end_are_one_hint_at_a_time() {
        let hints = Hints::with_pause(LONG);
        hints.announcer().announce();
        // The first one is passed on at once.
        hints.next(LONG).await;
        hints.announcer().announce();
        let waiting = hints.next(LONG);
        tokio::pin!(waiting);
        assert!(futures::poll!(&mut waiting).is_pending(), "a moment after the one before");
        // Never longer than without announcements.
        hints.next(Duration::from_millis(1)).await;
    }

    #[tokio::test]
    async fn without_announcements_it_is_the_interval() {
        Hints::new().next(Duration::from_millis(1)).await;
    }
}
