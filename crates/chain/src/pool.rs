//! The endpoints of one chain.
//!
//! The pool learns how its endpoints are when it looks at the chain ([`ChainPool::view`]), which a
//! follower does at every block and other callers do on demand when the last look is old.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use stile_domain::{ChainId, HeaderWindow, Quorum};
use tokio::sync::Mutex;

use crate::endpoint::Endpoint;
use crate::flight::Flights;
use crate::hints::Hints;
use crate::in_turn::{Reply, in_turn};
use crate::look::Probes;
use crate::pace::Pace;
use crate::rpc::{Call, CallError};
use crate::target::Target;
use crate::{ChainError, EndpointError, EndpointPlaces, EndpointStatus, PoolOptions};

/// How long the findings of a look are good for callers who do not look themselves: for this, or
/// for as long as the next look may take, whichever is longer.
const LOOK_LIFETIME: Duration = Duration::from_secs(5);

/// How long nobody looks again on demand after a look that found no endpoint in use.
const FAILURE_LIFETIME: Duration = Duration::from_secs(1);

/// The endpoints of one chain.
#[derive(Debug)]
pub struct ChainPool {
    chain: ChainId,
    options: PoolOptions,
    pub(crate) endpoints: Vec<Arc<Endpoint>>,
    /// How many of them have to agree.
    pub(crate) quorum: Quorum,
    /// The canonical headers, as whoever follows the chain knows them.
    known: std::sync::Mutex<HeaderWindow>,
    /// The endpoint that is followed.
    pub(crate) leader: AtomicUsize,
    /// It is followed only because no other one links to the newest that is known.
    pub(crate) is_stopgap: AtomicBool,
    /// Looks at endpoints that are under way.
    pub(crate) probes: Mutex<Probes>,
    /// The look at the chain that is under way, for all who wait for one.
    pub(crate) flights: Flights,
    looked: std::sync::Mutex<Option<Instant>>,
    hints: Hints,
    /// How fast the chain makes blocks.
    pace: std::sync::Mutex<Pace>,
    /// Somebody is asking which tags the endpoints have.
    pub(crate) asking_tags: Mutex<()>,
    /// This pool, for a look that outlives whoever began it.
    me: Weak<Self>,
}

impl ChainPool {
    pub(crate) fn new(
        chain: ChainId,
        urls: &[String],
        quorum: Option<usize>,
        options: PoolOptions,
    ) -> Result<Arc<Self>, EndpointError> {
        let quorum = Quorum::of(urls.len(), quorum).map_err(EndpointError::quorum)?;
        let hints = Hints::new();
        let endpoint = |(target, url): (Target, &String)| {
            let timeout = options.answer_timeout;
            Endpoint::new(chain, target, url, timeout, hints.announcer()).map(Arc::new)
        };
        let targets = Target::parse_all(urls)?.into_iter().zip(urls);
        let endpoints: Vec<_> = targets.map(endpoint).collect::<Result<_, _>>()?;
        let probes = Probes::none(endpoints.len());
        Ok(Arc::new_cyclic(|me| Self {
            chain,
            options,
            endpoints,
            quorum,
            known: std::sync::Mutex::default(),
            leader: AtomicUsize::new(0),
            is_stopgap: AtomicBool::new(false),
            probes: Mutex::new(probes),
            flights: Flights::default(),
            looked: std::sync::Mutex::new(None),
            hints,
            pace: std::sync::Mutex::default(),
            asking_tags: Mutex::default(),
            me: Weak::clone(me),
        }))
    }

    /// The chain.
    pub fn chain(&self) -> ChainId {
        self.chain
    }

    /// What is known of the chain by now: an endpoint that was not followed before is held against
    /// it.
    pub fn set_known(&self, headers: HeaderWindow) {
        *self.known_headers() = headers;
    }

    pub(crate) fn known_headers(&self) -> MutexGuard<'_, HeaderWindow> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns when an endpoint has announced a new head since this last returned, or when it is time
    /// to look: after [`PoolOptions::poll_interval`], or a part of the time from block to block on a
    /// chain that is slow and regular.
    pub async fn next_head(&self) {
        self.hints.next(self.next_look()).await;
    }

    fn next_look(&self) -> Duration {
        self.pace().next_look(self.options.poll_interval, Instant::now())
    }

    /// The time from one block to the next, as it was measured lately.
    pub fn block_time(&self) -> Option<Duration> {
        self.pace().block_time()
    }

    /// The chain was seen at this height.
    pub(crate) fn note_height(&self, height: u64) {
        self.pace().note(height, Instant::now());
    }

    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For operators: how each endpoint is.
    pub fn endpoints(&self) -> Vec<EndpointStatus> {
        self.endpoints.iter().map(|endpoint| endpoint.status()).collect()
    }

    /// Why none of the endpoints is in use, if that is so and it has been found out why.
    pub fn why_away(&self) -> Option<String> {
        if self.endpoints.iter().any(|endpoint| endpoint.is_usable()) {
            return None;
        }
        let statuses = self.endpoints();
        // Before the first look nobody knows.
        statuses.iter().any(|endpoint| endpoint.why.is_some()).then(|| {
            let whys = statuses.iter().map(|endpoint| {
                let why = endpoint.why.as_deref().unwrap_or("is not followed");
                format!("{} {why}", endpoint.shown)
            });
            whys.collect::<Vec<_>>().join("; ")
        })
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
    /// none; a look that found none a moment ago is believed.
    pub(crate) async fn usable(&self) -> Result<Vec<Arc<Endpoint>>, ChainError> {
        if !self.is_fresh() {
            if let Some(error) = self.flights.failed_within(FAILURE_LIFETIME) {
                return Err(error);
            }
            self.view().await?;
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
        let next_look = self.next_look() + self.options.answer_timeout * 2;
        looked.is_some_and(|looked| looked.elapsed() < LOOK_LIFETIME.max(next_look))
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

    /// This pool, for what must not borrow it. `None` only while it is being dropped.
    pub(crate) fn shared(&self) -> Option<Arc<Self>> {
        self.me.upgrade()
    }

    /// Asks the followed endpoint, and the others in turn if it fails or is slow.
    pub(crate) async fn first_answer<T, F>(
        &self,
        ask: impl Fn(Arc<Endpoint>) -> F,
    ) -> Result<T, ChainError>
    where
        F: Future<Output = Result<T, CallError>>,
    {
        let endpoints = self.usable().await?;
        let ask = |endpoint: Arc<Endpoint>| {
            let answer = ask(Arc::clone(&endpoint));
            async move {
                match answer.await {
                    Ok(answer) => Reply::Decides(answer),
                    Err(error) => {
                        endpoint.note(&error);
                        Reply::Next(endpoint.complaint(error))
                    }
                }
            }
        };
        in_turn(endpoints, 1, self.patience(), None, ask)
            .await
            .map_err(|said| ChainError::Unreachable { chain: self.chain, said })
    }
}

/// One question to one endpoint.
pub(crate) async fn one(endpoint: &Endpoint, call: &Call) -> crate::rpc::Answer {
    let mut answers = endpoint.rpc.batch(std::slice::from_ref(call)).await;
    answers.pop().unwrap_or(Err(CallError::Garbled("nothing")))
}
