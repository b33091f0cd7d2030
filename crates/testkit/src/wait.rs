//! Waiting for a condition.

use std::panic::Location;
use std::time::Duration;

/// How long anything in a test may take before the test is called broken. Far longer than any
/// condition needs, so that a slow machine does not fail a sound test.
pub const DEADLINE: Duration = Duration::from_secs(30);

const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Asks `probe` every 10 ms until it has an answer.
///
/// Panics at the caller's line with `what` once [`DEADLINE`] has passed, even if the probe itself
/// hangs. `what` completes the sentence "waited for …".
#[track_caller]
pub fn eventually<T>(what: &str, probe: impl AsyncFnMut() -> Option<T>) -> impl Future<Output = T> {
    eventually_within(DEADLINE, what, probe)
}

/// [`eventually`] with a deadline of one's own.
#[track_caller]
pub fn eventually_within<T>(
    deadline: Duration,
    what: &str,
    probe: impl AsyncFnMut() -> Option<T>,
) -> impl Future<Output = T> {
    let caller = Location::caller();
    async move {
        match poll(deadline, probe).await {
            Some(answer) => answer,
            None => panic!("{caller}: waited {deadline:?} for {what}"),
        }
    }
}

/// Asks until there is an answer; `None` once the deadline has passed.
pub(crate) async fn poll<T>(
    deadline: Duration,
    mut probe: impl AsyncFnMut() -> Option<T>,
) -> Option<T> {
    let answer = async {
        loop {
            if let Some(answer) = probe().await {
                return answer;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    tokio::time::timeout(deadline, answer).await.ok()
}

/// The same for places that cannot be `async`, such as a `Drop`: true if the condition came.
pub(crate) fn poll_blocking(deadline: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let start = std::time::Instant::now();
    while !condition() {
        if start.elapsed() >= deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}
