//! The first panic, and what follows from it.

use std::any::Any;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};

use futures::FutureExt;
use tokio_util::sync::CancellationToken;

use crate::told;

/// The longest words of a panic that are kept.
const LONGEST_WORDS: usize = 300;

/// A task that has panicked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fallen {
    /// Its name.
    pub task: &'static str,
    /// What it said.
    pub words: String,
}

impl fmt::Display for Fallen {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the task {:?} has panicked: {}", self.task, self.words)
    }
}

impl std::error::Error for Fallen {}

/// Whether one of the tasks that belong together has panicked. Clones know the same.
#[derive(Debug, Clone)]
pub struct Fall {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    first: OnceLock<Fallen>,
    happened: CancellationToken,
    stops: CancellationToken,
}

impl Fall {
    /// Nothing has happened yet. `stops` is cancelled at the first panic.
    pub fn new(stops: CancellationToken) -> Self {
        let happened = CancellationToken::new();
        Self { inner: Arc::new(Inner { first: OnceLock::new(), happened, stops }) }
    }

    /// The first task that has panicked.
    pub fn fallen(&self) -> Option<&Fallen> {
        self.inner.first.get()
    }

    /// Waits until one has.
    pub async fn happens(&self) -> Fallen {
        loop {
            self.inner.happened.cancelled().await;
            if let Some(fallen) = self.fallen() {
                return fallen.clone();
            }
        }
    }

    /// The work, under a name. `None` if it has panicked.
    pub fn guard<W: Future>(
        &self,
        task: &'static str,
        work: W,
    ) -> impl Future<Output = Option<W::Output>> + use<W> {
        let fall = self.clone();
        async move {
            match AssertUnwindSafe(told::unless(task, work)).catch_unwind().await {
                Ok(output) => Some(output),
                Err(panic) => {
                    fall.note(task, &words(panic.as_ref()));
                    None
                }
            }
        }
    }

    fn note(&self, task: &'static str, words: &str) {
        tracing::error!(task, words, "a task has panicked: the node leaves");
        let words = words.chars().take(LONGEST_WORDS).collect();
        // Only the first one counts; the others may follow from it.
        let _ = self.inner.first.set(Fallen { task, words });
        self.inner.stops.cancel();
        self.inner.happened.cancel();
    }
}

fn words(panic: &(dyn Any + Send)) -> String {
    let literal = panic.downcast_ref::<&str>().map(|words| (*words).to_owned());
    let written = || panic.downcast_ref::<String>().cloned();
    literal.or_else(written).unwrap_or_else(|| "no words".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn hole_34_the_first_panic_stops_all_and_is_kept() {
        let stops = CancellationToken::new();
        let fall = Fall::new(stops.clone());
        assert_eq!(fall.guard("adds", async { 1 + 1 }).await, Some(2));
        assert!(fall.fallen().is_none() && !stops.is_cancelled());
        let words = "x".repeat(1000);
        let panics = fall.guard("follow", async move { std::panic::panic_any(words) });
        assert_eq!(panics.await, None::<()>);
        assert!(stops.is_cancelled());
        let second = fall.guard("submit", async { std::panic::panic_any("it is gone") });
        assert_eq!(second.await, None::<()>);
        let fallen = fall.clone().happens().await;
        assert_eq!((fallen.task, fallen.words.len()), ("follow", LONGEST_WORDS));
    }

    #[test]
    fn whatever_a_panic_says_has_words() {
        assert_eq!(words(&"literal"), "literal");
        assert_eq!(words(&"written".to_owned()), "written");
        assert_eq!(words(&7), "no words");
    }
}
