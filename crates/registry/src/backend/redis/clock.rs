//! The clock of Redis, as far as this instance knows it.
//!
//! Scripts take the time from the server. A heartbeat that needs no script is written under the time
//! that the server has by what it last said of it; the lists of who lives are ordered by it, and no
//! life or slot depends on it.

use std::sync::atomic::{AtomicI64, Ordering};

use crate::clock::wall_ms;

/// By how many milliseconds it is ahead of this machine's.
#[derive(Debug, Default)]
pub(super) struct ServerClock(AtomicI64);

fn own_ms() -> i64 {
    i64::try_from(wall_ms()).unwrap_or(i64::MAX)
}

impl ServerClock {
    /// The server has said just now what time it is.
    pub(super) fn is(&self, ms: u64) {
        let ms = i64::try_from(ms).unwrap_or(i64::MAX);
        self.0.store(ms.saturating_sub(own_ms()), Ordering::Relaxed);
    }

    pub(super) fn now_ms(&self) -> u64 {
        let ms = own_ms().saturating_add(self.0.load(Ordering::Relaxed));
        u64::try_from(ms).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_on_from_what_the_server_said() {
        let clock = ServerClock::default();
        for said in [1_000, 9_999_999_999_999] {
            clock.is(said);
            let now = clock.now_ms();
            assert!((said..said + 60_000).contains(&now), "{now} after {said}");
        }
    }
}
