//! What a proxy has been told to do wrong.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

/// Shared by all connections of a proxy.
#[derive(Debug)]
pub(super) struct Faults {
    frozen: watch::Sender<bool>,
    armed: Mutex<Option<Vec<u8>>>,
    dropped: AtomicU64,
}

impl Default for Faults {
    fn default() -> Self {
        Self { frozen: watch::Sender::new(false), armed: Mutex::default(), dropped: 0.into() }
    }
}

impl Faults {
    pub(super) fn set_frozen(&self, frozen: bool) {
        self.frozen.send_replace(frozen);
    }

    /// Returns at once unless the proxy is frozen.
    pub(super) async fn wait_until_flowing(&self) {
        let mut frozen = self.frozen.subscribe();
        frozen.wait_for(|frozen| !frozen).await.expect("the sender is in self");
    }

    pub(super) fn arm(&self, pattern: &[u8]) {
        *self.armed.lock().unwrap() = Some(pattern.to_owned());
    }

    pub(super) fn dropped_responses(&self) -> u64 {
        self.dropped.load(Ordering::Acquire)
    }

    /// Whether this connection is to be dropped for what the server has just sent. True once per
    /// arming, for one connection.
    pub(super) fn must_drop(&self, response: &mut Response, chunk: &[u8]) -> bool {
        let mut armed = self.armed.lock().unwrap();
        let Some(pattern) = armed.as_deref() else {
            response.forget();
            return false;
        };
        let found = response.completes(pattern, chunk);
        if found {
            *armed = None;
            self.dropped.fetch_add(1, Ordering::Release);
        }
        found
    }
}

/// What one server has sent last, since a pattern may come in pieces.
#[derive(Debug, Default)]
pub(super) struct Response {
    tail: Vec<u8>,
}

impl Response {
    fn forget(&mut self) {
        self.tail.clear();
    }

    /// Whether the pattern ends within this chunk, having begun here or in an earlier one.
    fn completes(&mut self, pattern: &[u8], chunk: &[u8]) -> bool {
        self.tail.extend_from_slice(chunk);
        let found = self.tail.windows(pattern.len()).any(|window| window == pattern);
        let keep = self.tail.len().min(pattern.len() - 1);
        self.tail.drain(..self.tail.len() - keep);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_found_in_one_piece_and_in_many() {
        let mut response = Response::default();
        assert!(response.completes(b"COMMIT\0", b"C\0\0\0\x0bCOMMIT\0Z"));

        let mut response = Response::default();
        let pieces = [&b"..COM"[..], b"M", b"IT", b"\0.."]
            .map(|piece| response.completes(b"COMMIT\0", piece));
        assert_eq!(pieces, [false, false, false, true]);
    }

    #[test]
    fn a_pattern_drops_one_connection_only() {
        let faults = Faults::default();
        faults.arm(b"x");
        assert!(faults.must_drop(&mut Response::default(), b"x"));
        assert!(!faults.must_drop(&mut Response::default(), b"x"));
        assert_eq!(faults.dropped_responses(), 1);
    }

    #[test]
    fn what_was_sent_before_arming_does_not_count() {
        let faults = Faults::default();
        let mut response = Response::default();
        assert!(!faults.must_drop(&mut response, b"COMM"));
        faults.arm(b"COMMIT");
        assert!(!faults.must_drop(&mut response, b"IT"));
    }
}
