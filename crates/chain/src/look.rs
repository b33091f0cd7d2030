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
use stile_domain::{Decision, Header};

use crate::blocks::{With, at_call, latest_call, read_at, read_block};
use crate::endpoint::{Endpoint, Extent, Look};
use crate::judge::{TOLERATED_LAG, judge};
use crate::pool::one;
use crate::{ChainError, ChainPool, View};

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
    /// what a quorum has reached. Endpoints that fail, stay behind, claim a leap that nobody confirms
    /// or serve another chain are set aside until they behave. Another one is followed only if it
    /// has a block that is known, or a quorum agrees to what it has instead.
    ///
    /// There is one look at a time: whoever comes while one is under way gets what it finds.
    pub async fn view(&self) -> Result<View, ChainError> {
        let Some(pool) = self.shared() else { return Err(self.unreachable()) };
        self.flights
            .join(async move {
                let mut probes = pool.probes.lock().await;
                pool.look(&mut probes).await
            })
            .await
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
            let header = match header {
                Ok(header) if place != leader => self.linked(endpoint, header).await,
                header => header,
            };
            match header {
                Ok(header) => {
                    if place != leader {
                        let (chain, endpoint) = (self.chain().get(), endpoint.shown());
                        tracing::info!(chain, endpoint, "another endpoint is followed");
                        self.leader.store(place, Ordering::Relaxed);
                    }
                    return Ok(View::new(self, place, Arc::clone(endpoint), header));
                }
                Err(why) => {
                    endpoint.hold_back(why);
                    found[place] = None;
                }
            }
        }
    }

    /// Decides which endpoints are in use, by what was found.
    fn judge(&self, found: &[Option<Found>]) {
        let head = |found: &Option<Found>| Some(found.as_ref()?.as_ref().ok()?.head);
        let heads: Vec<Option<u64>> = found.iter().map(head).collect();
        let known = self.known_headers().tip().map(|tip| tip.height);
        let judged = judge(self.quorum, known, &heads);
        let mut seen = Vec::with_capacity(self.endpoints.len());
        for ((endpoint, found), judged) in self.endpoints.iter().zip(found).zip(judged) {
            match (found, judged) {
                (Some(Ok(look)), Some(judged)) => {
                    seen.push((endpoint, endpoint.seen_well(look.head, judged, TOLERATED_LOOKS)));
                }
                (Some(Err(why)), _) => endpoint.set_aside(why.clone()),
                _ => {}
            }
        }
        // Where all are doubted, those are used that are doubted least.
        let fit = seen.iter().filter(|(_, sight)| sight.trouble.is_none());
        let least = fit.map(|(_, sight)| sight.doubt).min().flatten();
        for (endpoint, sight) in seen {
            endpoint.settle(sight, least);
        }
    }

    /// The header of an endpoint that was not followed before, if its chain has a block that is
    /// known, or if a quorum agrees to what it has there instead.
    async fn linked(&self, endpoint: &Endpoint, header: Header) -> Result<Header, String> {
        let (height, hash) = {
            let known = self.known_headers();
            let Some(tip) = known.tip() else { return Ok(header) };
            let height = tip.height.min(header.height);
            match known.hash_at(height) {
                Some(hash) if header.height == height && header.hash == hash => return Ok(header),
                Some(hash) => (height, hash),
                // It is behind everything that is known: there is nothing to compare.
                None => return Ok(header),
            }
        };
        let said = one(endpoint, &at_call(height, With::Hashes)).await;
        let own = read_at(said, height).map_err(|error| error.to_string())?;
        let Some(own) = own.map(|block| block.header.hash) else {
            return Err(format!("does not show block {height}"));
        };
        if own == hash {
            return Ok(header);
        }
        let said = self.ballots(&[height], false).await.hashes(height);
        match self.quorum.decide(&own, &said) {
            Decision::Agreed => Ok(header),
            _ => Err(format!("has {own} as block {height}, where {hash} is known")),
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
