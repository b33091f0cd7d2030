//! Looking at the chain: how the endpoints are, and which one is followed.
//!
//! A look waits for the endpoints in use. Those that were set aside are asked as well, but nobody
//! waits for them: their answer is taken up whenever it comes, by that look or a later one.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use stile_domain::Header;

use crate::blocks::{With, latest_call, read_block};
use crate::endpoint::{Endpoint, Extent, Look};
use crate::pool::one;
use crate::{ChainError, ChainPool, View};

/// How many blocks behind the best an endpoint may be.
const TOLERATED_LAG: u64 = 2;

/// How many looks in a row an endpoint may be further behind: a block just made takes its time to
/// reach everybody.
const TOLERATED_LOOKS: u32 = 1;

type Found = Result<Look, String>;

/// For each endpoint, the look at it that has not come back yet.
pub(crate) struct Probes(Vec<Option<Probe>>);

impl Probes {
    pub(crate) fn none(endpoints: usize) -> Self {
        Self((0..endpoints).map(|_| None).collect())
    }
}

impl std::fmt::Debug for Probes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} under way", self.0.iter().flatten().count())
    }
}

impl ChainPool {
    /// Looks at the chain: asks every endpoint which chain it serves and how far it has come, and
    /// answers with the one that is followed and its newest block.
    ///
    /// The same endpoint is followed as long as it answers and is not more than two blocks behind
    /// the best of the others. Endpoints that fail, stay behind or serve another chain are set
    /// aside until they behave.
    pub async fn view(&self) -> Result<View, ChainError> {
        let mut probes = self.probes.lock().await;
        self.look(&mut probes).await
    }

    pub(crate) async fn look(&self, probes: &mut Probes) -> Result<View, ChainError> {
        let leader = self.leader.load(Ordering::Relaxed);
        let mut found = self.probe(probes, leader).await;
        self.looked_now();
        // Each round either finds an endpoint to follow or sets one aside that cannot show what it
        // claimed; the claim that made others look late goes with it.
        loop {
            self.judge(&found);
            let Some(place) = self.best_to_follow(leader) else { return Err(self.unreachable()) };
            let endpoint = &self.endpoints[place];
            let header = match &found[place] {
                Some(Ok(Look { header: Some(header), .. })) => Ok(*header),
                _ => newest_header(endpoint).await,
            };
            match header {
                Ok(header) => {
                    if place != leader {
                        let (chain, endpoint) = (self.chain().get(), endpoint.shown());
                        tracing::info!(chain, endpoint, "another endpoint is followed");
                        self.leader.store(place, Ordering::Relaxed);
                    }
                    return Ok(View::new(self, Arc::clone(endpoint), header));
                }
                Err(why) => {
                    endpoint.set_aside(why.clone());
                    found[place] = Some(Err(why));
                }
            }
        }
    }

    /// Decides which endpoints are in use, by what was found.
    fn judge(&self, found: &[Option<Found>]) {
        let heads = found.iter().flatten().flatten().map(|look| look.head);
        let best = heads.max().unwrap_or_default();
        for (endpoint, found) in self.endpoints.iter().zip(found) {
            match found {
                Some(Ok(look)) => {
                    let is_behind = look.head.saturating_add(TOLERATED_LAG) < best;
                    endpoint.seen_well(look.head, is_behind, TOLERATED_LOOKS);
                }
                Some(Err(why)) => endpoint.set_aside(why.clone()),
                None => {}
            }
        }
    }

    /// The endpoint followed so far, if it is in use; else the one that has come furthest, and
    /// among equals the first of the configuration.
    fn best_to_follow(&self, leader: usize) -> Option<usize> {
        let usable = |place: &usize| self.endpoints[*place].is_usable();
        Some(leader).filter(usable).or_else(|| {
            let others = (0..self.endpoints.len()).filter(usable);
            others.min_by_key(|place| std::cmp::Reverse(self.endpoints[*place].head()))
        })
    }

    /// Starts the looks that are not under way and waits for those at endpoints in use.
    async fn probe(&self, probes: &mut Probes, leader: usize) -> Vec<Option<Found>> {
        let nobody = !self.endpoints.iter().any(|endpoint| endpoint.is_usable());
        let mut found: Vec<Option<Found>> = self.endpoints.iter().map(|_| None).collect();
        let mut running = FuturesUnordered::new();
        let mut awaited = 0usize;
        for (place, endpoint) in self.endpoints.iter().enumerate() {
            // What an old look found is no longer true.
            let under_way = probes.0[place].take();
            let under_way = under_way.filter(|probe| probe.started.elapsed() < self.patience());
            let extent = match endpoint.is_usable() {
                true if place != leader => Extent::Height,
                // Whoever is followed, or not in use, has to show its newest block, not only to
                // name it.
                _ => Extent::Header,
            };
            let mut probe = under_way.unwrap_or_else(|| Probe::start(place, endpoint, extent));
            probe.is_awaited = nobody || endpoint.is_usable();
            awaited += usize::from(probe.is_awaited);
            running.push(probe);
        }
        while awaited > 0 {
            let Some((place, is_awaited, look)) = running.next().await else { break };
            awaited -= usize::from(is_awaited);
            found[place] = Some(look);
        }
        // Answers that are there already are taken along.
        while let Some(Some((place, _, look))) = running.next().now_or_never() {
            found[place] = Some(look);
        }
        for probe in running {
            let place = probe.place;
            probes.0[place] = Some(probe);
        }
        found
    }
}

/// A look at one endpoint, under way.
pub(crate) struct Probe {
    place: usize,
    started: Instant,
    is_awaited: bool,
    look: BoxFuture<'static, Found>,
}

impl Probe {
    fn start(place: usize, endpoint: &Arc<Endpoint>, extent: Extent) -> Self {
        let endpoint = Arc::clone(endpoint);
        let look = async move { endpoint.look(extent).await }.boxed();
        Self { place, started: Instant::now(), is_awaited: false, look }
    }
}

impl Future for Probe {
    type Output = (usize, bool, Found);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let found = ready!(self.look.poll_unpin(context));
        Poll::Ready((self.place, self.is_awaited, found))
    }
}

/// The newest block, which must be as high as the endpoint claimed.
async fn newest_header(endpoint: &Endpoint) -> Result<Header, String> {
    let call = latest_call(With::Hashes);
    let block = read_block(one(endpoint, &call).await).map_err(|e| e.to_string())?;
    let block = block.ok_or("has no block at all")?;
    match endpoint.head() {
        Some(claimed) if block.header.height.saturating_add(TOLERATED_LAG) < claimed => {
            Err(format!("claimed {claimed} blocks and has {}", block.header.height))
        }
        _ => Ok(block.header),
    }
}
