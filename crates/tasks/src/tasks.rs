//! Spawning, and waiting for the end.

use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use crate::Fall;

/// Tasks that are waited for at the end, and whose panic is the fall of all.
#[derive(Debug, Clone)]
pub struct Tasks {
    tracker: TaskTracker,
    fall: Fall,
}

impl Tasks {
    /// None yet.
    pub fn new(fall: Fall) -> Self {
        Self { tracker: TaskTracker::new(), fall }
    }

    /// Whether one of them has panicked, or of others that share the fall.
    pub fn fall(&self) -> &Fall {
        &self.fall
    }

    /// Starts work under a name. Its handle gives `None` if it has panicked.
    pub fn spawn<W>(&self, task: &'static str, work: W) -> JoinHandle<Option<W::Output>>
    where
        W: Future + Send + 'static,
        W::Output: Send + 'static,
    {
        self.tracker.spawn(self.fall.guard(task, work))
    }

    /// No more of them come: [`Self::wait`] may end.
    pub fn close(&self) {
        self.tracker.close();
    }

    /// Waits until it is closed and all have ended.
    pub async fn wait(&self) {
        self.tracker.wait().await;
    }

    /// How many have not ended.
    pub fn len(&self) -> usize {
        self.tracker.len()
    }

    /// Whether all have ended.
    pub fn is_empty(&self) -> bool {
        self.tracker.is_empty()
    }
}
