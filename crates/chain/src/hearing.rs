//! Hearing what every endpoint has to say.
//!
//! Nobody waits for the slowest where the others have decided: once what is still missing can change
//! nothing, those who have not answered get a moment, and are left behind then. The endpoint that is
//! followed is waited for in any case, since what it says decides about following it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use tokio::time::{Instant, timeout_at};

use crate::ChainPool;

/// How long those are waited for whose word changes nothing any more. They are heard so that
/// whoever contradicts is named.
const GRACE: Duration = Duration::from_millis(500);

impl ChainPool {
    /// What each endpoint says, in the order of the configuration; `None` for those that were left
    /// behind. `asked` has a question for each of them, and `is_settled` says whether what is missing
    /// can change nothing.
    pub(crate) async fn hear<T>(
        &self,
        asked: impl Iterator<Item = impl Future<Output = T>>,
        is_settled: impl Fn(&[Option<T>]) -> bool,
    ) -> Vec<Option<T>> {
        let mut heard: Vec<Option<T>> = self.endpoints.iter().map(|_| None).collect();
        let mut running: FuturesUnordered<_> = asked
            .enumerate()
            .map(|(place, question)| question.map(move |word| (place, word)))
            .collect();
        while let Some((place, word)) = running.next().await {
            heard[place] = Some(word);
            if is_settled(&heard) {
                break;
            }
        }
        let until = Instant::now() + GRACE;
        let leader = self.leader.load(Ordering::Relaxed);
        while !running.is_empty() {
            let is_missing = |place: &usize| heard[*place].is_none();
            let mut missing = (0..heard.len()).filter(is_missing);
            let next = if is_missing(&leader) {
                running.next().await
            } else if missing.all(|place| self.endpoints[place].is_late()) {
                running.next().now_or_never().flatten()
            } else {
                timeout_at(until, running.next()).await.ok().flatten()
            };
            let Some((place, word)) = next else { break };
            heard[place] = Some(word);
        }
        for (endpoint, word) in self.endpoints.iter().zip(&heard) {
            endpoint.note_time(word.is_none());
        }
        heard
    }
}
