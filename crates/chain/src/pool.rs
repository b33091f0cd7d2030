//! The endpoints of one chain.
//!
//! The pool learns how its endpoints are when it looks at the chain ([`ChainPool::view`]), which a
//! follower does at every block and other callers do on demand when the last look is old.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use stile_domain::ChainId;
use tokio::sync::Mutex;

use crate::endpoint::Endpoint;
use crate::hints::Hints;
use crate::look::Probes;
use crate::rpc::{Call, CallError};
use crate::{ChainError, EndpointError, EndpointPlaces, EndpointStatus, PoolOptions};

/// How long the findings of a look are good for callers who do not look themselves.
const LOOK_LIFETIME: Duration = Duration::from_secs(5);

/// The endpoints of one chain.
#[derive(Debug)]
pub struct ChainPool {
    chain: ChainId,
    options: PoolOptions,
    pub(crate) endpoints: Vec<Arc<Endpoint>>,
    /// The endpoint that is followed.
    pub(crate) leader: AtomicUsize,
    /// Looks at endpoints that are under way. Also makes looks take turns.
    pub(crate) probes: Mutex<Probes>,
    looked: std::sync::Mutex<Option<Instant>>,
    hints: Hints,
}

impl ChainPool {
    pub(crate) fn new(
        chain: ChainId,
        urls: &[String],
        options: PoolOptions,
    ) -> Result<Self, EndpointError> {
        let hints = Hints::new();
        let endpoint = |url: &String| {
            let endpoint = Endpoint::new(chain, url, options.answer_timeout, hints.announcer())?;
            Ok(Arc::new(endpoint))
        };
        let endpoints: Vec<_> = urls.iter().map(endpoint).collect::<Result<_, _>>()?;
        let probes = Probes::none(endpoints.len());
        Ok(Self {
            chain,
            options,
            endpoints,
            leader: AtomicUsize::new(0),
            probes: Mutex::new(probes),
            looked: std::sync::Mutex::new(None),
            hints,
        })
    }

    /// The chain.
    pub fn chain(&self) -> ChainId {
        self.chain
    }

    /// Returns when an endpoint has announced a new head since this last returned, or when
    /// [`PoolOptions::poll_interval`] has passed, whichever is first.
    pub async fn next_head(&self) {
        self.hints.next(self.options.poll_interval).await;
    }

    /// For operators: how each endpoint is.
    pub fn endpoints(&self) -> Vec<EndpointStatus> {
        self.endpoints.iter().map(|endpoint| endpoint.status()).collect()
    }

    /// How many calls may be under way at each endpoint; without a limit unless one is set.
    pub fn places(&self) -> Vec<EndpointPlaces> {
        self.endpoints.iter().map(|endpoint| endpoint.places()).collect()
    }

    pub(crate) fn options(&self) -> PoolOptions {
        self.options
    }

    pub(crate) fn batch_limit(&self) -> usize {
        self.options.batch_limit.max(1)
    }

    /// How long an endpoint is waited for.
    pub(crate) fn patience(&self) -> Duration {
        self.options.answer_timeout
    }

    /// The endpoints in use, the followed one first. Looks again if the last look is old or found
    /// none.
    pub(crate) async fn usable(&self) -> Result<Vec<Arc<Endpoint>>, ChainError> {
        if !self.is_fresh() {
            let mut probes = self.probes.lock().await;
            // Somebody else may have looked in the meantime.
            if !self.is_fresh() {
                self.look(&mut probes).await?;
            }
        }
        let usable = self.usable_now();
        if usable.is_empty() { Err(self.unreachable()) } else { Ok(usable) }
    }

    /// Somebody looks, and what is found is new.
    pub(crate) fn looked_now(&self) {
        *self.looked.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    fn is_fresh(&self) -> bool {
        let looked = *self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        looked.is_some_and(|looked| looked.elapsed() < LOOK_LIFETIME)
            && self.endpoints.iter().any(|endpoint| endpoint.is_usable())
    }

    fn usable_now(&self) -> Vec<Arc<Endpoint>> {
        let leader = self.leader.load(Ordering::Relaxed);
        let (before, from) = self.endpoints.split_at(leader.min(self.endpoints.len()));
        let in_turn = from.first().into_iter().chain(before).chain(from.iter().skip(1));
        in_turn.filter(|endpoint| endpoint.is_usable()).cloned().collect()
    }

    /// What each endpoint's trouble is.
    pub(crate) fn unreachable(&self) -> ChainError {
        let said = self.endpoints.iter().map(|endpoint| {
            let why = endpoint.status().why.unwrap_or_else(|| "is not followed".to_owned());
            endpoint.complaint(why)
        });
        ChainError::Unreachable { chain: self.chain, said: said.collect() }
    }

    /// Asks the followed endpoint, and the others in turn if it fails.
    pub(crate) async fn first_answer<T, F>(
        &self,
        ask: impl Fn(Arc<Endpoint>) -> F,
    ) -> Result<T, ChainError>
    where
        F: Future<Output = Result<T, CallError>>,
    {
        let mut said = Vec::new();
        for endpoint in self.usable().await? {
            match ask(Arc::clone(&endpoint)).await {
                Ok(answer) => return Ok(answer),
                Err(error) => {
                    endpoint.note(&error);
                    said.push(endpoint.complaint(error));
                }
            }
        }
        Err(ChainError::Unreachable { chain: self.chain, said })
    }
}

/// One question to one endpoint.
pub(crate) async fn one(endpoint: &Endpoint, call: &Call) -> crate::rpc::Answer {
    let mut answers = endpoint.rpc.batch(std::slice::from_ref(call)).await;
    answers.pop().unwrap_or(Err(CallError::Garbled("nothing")))
}
