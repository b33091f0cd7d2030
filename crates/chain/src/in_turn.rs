//! Asking endpoints in turn, without waiting for a slow one.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::time::Instant;

use crate::endpoint::Endpoint;

/// What an endpoint's answer is good for.
#[derive(Debug)]
pub(crate) enum Reply<T> {
    /// Nobody else need be asked.
    Decides(T),
    /// Somebody else is to be asked; what this one said.
    Next(String),
}

/// Asks one endpoint after the other until one of them decides; else says what each of them said.
///
/// The first `at_once` are asked together. Then each has its turn for a while before the next is
/// asked beside it, so one that is slow or hangs does not hold up the answer of another. All of them
/// have been asked after half of the time limit. At the deadline those that have not answered are given up; where there is none, each goes
/// by its own limit.
pub(crate) async fn in_turn<T, F>(
    endpoints: Vec<Arc<Endpoint>>,
    at_once: usize,
    limit: Duration,
    deadline: Option<Instant>,
    ask: impl Fn(Arc<Endpoint>) -> F,
) -> Result<T, Vec<String>>
where
    F: Future<Output = Reply<T>>,
{
    let turn = limit / u32::try_from(endpoints.len() * 2).unwrap_or(u32::MAX).max(1);
    let mut left = endpoints.into_iter();
    let mut asked = FuturesUnordered::new();
    asked.extend(left.by_ref().take(at_once.saturating_sub(1)).map(&ask));
    let mut said = Vec::new();
    loop {
        let is_last = match left.next() {
            Some(endpoint) => {
                asked.push(ask(endpoint));
                left.len() == 0
            }
            None => true,
        };
        let turn_ends = (!is_last).then(|| Instant::now() + turn);
        let reply = tokio::select! {
            reply = asked.next() => reply,
            // Its turn is over: the next one is asked beside it.
            () = at(turn_ends) => continue,
            () = at(deadline) => return Err(said),
        };
        match reply {
            Some(Reply::Decides(answer)) => return Ok(answer),
            Some(Reply::Next(why)) => said.push(why),
            None => return Err(said),
        }
    }
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
