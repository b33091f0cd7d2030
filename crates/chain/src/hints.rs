//! New heads are announced by endpoints that can; otherwise one looks.

use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::watch;

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
}

impl Hints {
    pub(crate) fn new() -> Self {
        let (sender, receiver) = watch::channel(0);
        Self { announcer: Announcer(sender), receiver: Mutex::new(receiver) }
    }

    pub(crate) fn announcer(&self) -> Announcer {
        self.announcer.clone()
    }

    /// Returns at the first announcement since it last returned, or when `longest` has passed.
    pub(crate) async fn next(&self, longest: Duration) {
        let mut receiver = self.lock().clone();
        let _ = tokio::time::timeout(longest, receiver.changed()).await;
        *self.lock() = receiver;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, watch::Receiver<u64>> {
        self.receiver.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
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
    async fn without_announcements_it_is_the_interval() {
        Hints::new().next(Duration::from_millis(1)).await;
    }
}
