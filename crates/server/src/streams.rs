//! Answers that have no end, event streams and WebSockets: how many a key may have open, and the end
//! of those whose key is no longer good.
//!
//! A key is looked at once a second, however many streams it has.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stile_domain::KeyId;
use tokio_util::sync::CancellationToken;

use crate::access::Access;
use crate::code::Code;
use crate::guard::Guard;
use crate::measure;
use crate::problem::Problem;

/// How often keys are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A stream seldom ends sooner.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// The open streams. Without keys all of them are nobody's, and count together.
#[derive(Debug)]
pub(crate) struct Streams {
    most: usize,
    open: Mutex<HashMap<Option<KeyId>, Open>>,
}

#[derive(Debug)]
struct Open {
    count: usize,
    access: Access,
    over: CancellationToken,
}

/// One open stream. Dropped, it is closed.
#[derive(Debug)]
pub(crate) struct Stream {
    streams: Arc<Streams>,
    key: Option<KeyId>,
    /// Cancelled once the key is no longer good.
    pub(crate) over: CancellationToken,
}

impl Streams {
    pub(crate) fn new(most_per_key: usize) -> Arc<Self> {
        Arc::new(Self { most: most_per_key, open: Mutex::default() })
    }

    /// Opens one more, unless its key has too many.
    pub(crate) fn open(self: &Arc<Self>, access: &Access) -> Result<Stream, Problem> {
        let key = access.key();
        let mut open = self.lock();
        let held = open.entry(key).or_insert_with(|| Open {
            count: 0,
            access: access.clone(),
            over: CancellationToken::new(),
        });
        if held.count >= self.most {
            let detail = format!("{} are open, which is as many as there may be", self.most);
            return Err(Problem::new(Code::TooManyStreams, detail).retry_after(Some(RETRY_AFTER)));
        }
        held.count += 1;
        measure::streams_open(1.0);
        Ok(Stream { streams: Arc::clone(self), key, over: held.over.clone() })
    }

    /// Ends the streams of keys that are no longer good, for ever.
    pub(crate) async fn end_those_of_old_keys(&self, guard: &Guard) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            for held in self.lock().values() {
                if !guard.still_admits(&held.access) {
                    held.over.cancel();
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Option<KeyId>, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        measure::streams_open(-1.0);
        if let Entry::Occupied(mut held) = self.streams.lock().entry(self.key) {
            held.get_mut().count -= 1;
            if held.get().count == 0 {
                held.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_so_many_and_no_more() {
        let streams = Streams::new(2);
        let one = streams.open(&Access::Open).unwrap();
        let _two = streams.open(&Access::Open).unwrap();
        assert!(streams.open(&Access::Open).is_err());
        drop(one);
        drop(streams.open(&Access::Open).unwrap());
        assert_eq!(streams.lock().len(), 1);
    }

    #[test]
    fn nothing_is_kept_of_streams_that_are_closed() {
        let streams = Streams::new(1);
        drop(streams.open(&Access::Open).unwrap());
        assert!(streams.lock().is_empty());
    }
}
