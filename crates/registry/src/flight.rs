//! One question for everybody who asks the same.

use std::future::Future;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::{Shared, join_all};
use tokio::sync::oneshot;

use crate::error::BackendError;
use crate::metrics;
use crate::registry::Inner;
use crate::{NodeId, PoolId};

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    Node(NodeId),
    Members(Option<PoolId>),
}

/// Where those wait who have asked while the question was on its way.
pub(crate) type Landing = Shared<oneshot::Receiver<Result<(), BackendError>>>;

impl Inner {
    /// Has `ask` answer for those of the keys that nobody has asked for yet, and waits for all of
    /// them. The question is a task of its own: whoever asked first may give up without harm to
    /// the others.
    pub(crate) async fn fly<F>(
        self: &Arc<Self>,
        keys: Vec<Key>,
        ask: impl FnOnce(Arc<Self>, Vec<Key>) -> F,
    ) -> Result<(), BackendError>
    where
        F: Future<Output = Result<(), BackendError>> + Send + 'static,
    {
        let mut landings = Vec::new();
        let mut mine = Vec::new();
        let (landed, landing) = oneshot::channel();
        let landing = landing.shared();
        {
            let mut flights = self.flights();
            for key in keys {
                match flights.get(&key) {
                    Some(other) => landings.push(other.clone()),
                    None => {
                        flights.insert(key.clone(), landing.clone());
                        mine.push(key);
                    }
                }
            }
        }
        metrics::coalesced(landings.len());
        if !mine.is_empty() {
            landings.push(landing);
            let inner = Arc::clone(self);
            let question = ask(Arc::clone(self), mine.clone());
            self.tasks.spawn("registry-flight", async move {
                let answer = question.await;
                let mut flights = inner.flights();
                mine.iter().for_each(|key| drop(flights.remove(key)));
                drop(flights);
                // Nobody may be waiting any more.
                let _ = landed.send(answer);
            });
        }
        let ended = || BackendError::Failed("the registry is ending".to_owned());
        join_all(landings)
            .await
            .into_iter()
            .try_for_each(|answer| answer.unwrap_or_else(|_| Err(ended())))
    }
}
