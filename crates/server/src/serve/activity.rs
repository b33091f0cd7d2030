//! What a connection is doing, as its socket, its calls and its timer tell each other.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::doing::{Doing, Overdue, Patience, Wrote};

/// Shared by a connection's socket, its calls and its timer.
#[derive(Debug)]
pub(super) struct Activity {
    begun: Instant,
    doing: Mutex<Doing>,
}

impl Activity {
    /// A connection begins. `has_frames`: it is one of HTTP/2.
    pub(super) fn new(has_frames: bool) -> Arc<Self> {
        Arc::new(Self { begun: Instant::now(), doing: Mutex::new(Doing::new(has_frames)) })
    }

    fn with<T>(&self, then: impl FnOnce(&mut Doing, u64) -> T) -> T {
        let now = self.begun.elapsed().as_millis() as u64;
        then(&mut self.doing.lock().unwrap_or_else(PoisonError::into_inner), now)
    }

    /// Something was read.
    pub(super) fn heard(&self) {
        self.with(Doing::heard);
    }

    /// Something was written, or could not be.
    pub(super) fn wrote(&self, what: Wrote) {
        self.with(|doing, now| doing.wrote(what, now));
    }

    /// A call has come. It lasts until its answer is over.
    pub(super) fn call(self: &Arc<Self>) -> Busy {
        Busy { call: self.with(|doing, _| doing.begin()), activity: Arc::clone(self) }
    }

    /// Whether the connection is to be ended, or how long from now it is to be looked at again.
    pub(super) fn judge(&self, patience: &Patience) -> Result<Duration, Overdue> {
        self.with(|doing, now| doing.judge(now, patience))
    }
}

/// A call that is not over.
#[derive(Debug)]
pub(super) struct Busy {
    activity: Arc<Activity>,
    call: u64,
}

impl Busy {
    /// A part of its answer was handed over to be sent.
    pub(super) fn handed_over(&self) {
        self.activity.with(|doing, now| doing.handed_over(self.call, now));
    }

    /// More of its answer is asked for.
    pub(super) fn asked(&self) {
        self.activity.with(|doing, _| doing.asked(self.call));
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.activity.with(|doing, now| doing.end(self.call, now));
    }
}
