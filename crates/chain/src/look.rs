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

use crate::batches::ask_each;
use crate::blocks::{With, at_call, latest_call, read_at, read_block};
use crate::endpoint::{Endpoint, Extent, Look};
use crate::judge::{TOLERATED_LAG, judge};
use crate::pool::one;
use crate::rpc::CallError;
use crate::{ChainError, ChainPool, View};

/// How many looks in a row an endpoint may be further behind: a block just made takes its time to
/// reach everybody.
const TOLERATED_LOOKS: u32 = 1;

type Found = Result<Look, String>;

/// How an endpoint's chain links to what is known.
#[derive(Debug)]
enum Link {
    /// By the newest known block that it can have, or a quorum agrees to what it has instead.
    Known,
    /// By an older one, or it shows none of them: its newest may replace what is known, and nobody
    /// confirms that.
    Below(String),
    /// It has another block wherever one is known.
    None(String),
}

/// The heights at which an endpoint is compared with what is known: the newest that it can have, and
/// then ever further down to the lowest known.
fn rungs(newest: u64, lowest: u64) -> Vec<u64> {
    let depths = std::iter::once(0).chain((0..u64::BITS).map(|times| 1 << times));
    let below = depths.map_while(|depth: u64| newest.checked_sub(depth));
    let mut heights: Vec<u64> = below.take_while(|height| *height > lowest).collect();
    heights.push(lowest);
    heights
}

fn is_among(doubted: &[(usize, Header, String)], place: usize) -> bool {
    doubted.iter().any(|(doubted, ..)| *doubted == place)
}

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
    /// or serve another chain are set aside until they behave. Another one is followed if it has the
    /// newest known block, or a quorum agrees to what it has instead. Where there is no such one,
    /// whoever links to what is known further down is asked meanwhile: that its blocks replace known
    /// ones is for the follower to believe.
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
        // One that leads for want of a better one has to show each time that it may.
        let trusted = Some(leader).filter(|_| !self.is_stopgap.load(Ordering::Relaxed));
        let mut found = self.probe(probes, leader).await;
        self.looked_now();
        let mut doubted: Vec<(usize, Header, String)> = Vec::new();
        // Each round either finds an endpoint to follow or passes one over that cannot show what it
        // claimed; the claim that made others look late goes with it.
        let (place, header, is_stopgap) = loop {
            self.judge(&found);
            let best = self.best_to_follow(trusted, |place| is_among(&doubted, place));
            let Some(place) = best else {
                // The one that leads already, or the first that links to what is known.
                let kept = doubted.iter().position(|(place, ..)| *place == leader).unwrap_or(0);
                if doubted.is_empty() {
                    return Err(self.unreachable());
                }
                let (place, header, _) = doubted.swap_remove(kept);
                break (place, header, true);
            };
            let endpoint = &self.endpoints[place];
            let header = match &found[place] {
                Some(Ok(Look { header: Some(header), .. })) => Ok(*header),
                _ => newest_header(endpoint).await,
            };
            found[place] = None;
            let header = match header {
                Ok(header) => header,
                Err(why) => {
                    endpoint.hold_back(why);
                    continue;
                }
            };
            let link = match trusted == Some(place) {
                true => Link::Known,
                false => self.link(endpoint, &header).await,
            };
            match link {
                Link::Known => break (place, header, false),
                Link::Below(why) => doubted.push((place, header, why)),
                Link::None(why) => endpoint.hold_back(why),
            }
        };
        for (place, _, why) in doubted {
            self.endpoints[place].hold_back(why);
        }
        let endpoint = &self.endpoints[place];
        let was_stopgap = self.is_stopgap.swap(is_stopgap, Ordering::Relaxed);
        let is_other = self.leader.swap(place, Ordering::Relaxed) != place;
        let (chain, shown) = (self.chain().get(), endpoint.shown());
        if is_stopgap && (is_other || !was_stopgap) {
            tracing::warn!(
                chain,
                endpoint = shown,
                "no endpoint has the newest known block: this one is asked meanwhile"
            );
        } else if is_other {
            tracing::info!(chain, endpoint = shown, "another endpoint is followed");
        }
        self.note_height(header.height);
        Ok(View::new(self, place, Arc::clone(endpoint), header))
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

    /// How the chain of an endpoint that was not followed before links to what is known: by the
    /// newest block of it that it can have, or by a quorum that agrees to what it has there instead.
    async fn link(&self, endpoint: &Endpoint, header: &Header) -> Link {
        let (heights, known) = {
            let known = self.known_headers();
            let Some(tip) = known.tip() else { return Link::Known };
            let height = tip.height.min(header.height);
            match known.hash_at(height) {
                Some(hash) if header.height == height && header.hash == hash => return Link::Known,
                Some(_) => {}
                // It is behind everything that is known: there is nothing to compare.
                None => return Link::Known,
            }
            (rungs(height, known.bottom().unwrap_or(height)), known.clone())
        };
        let Some(height) = heights.first().copied() else { return Link::Known };
        let read = |answer, height| match read_at(answer, height) {
            Ok(block) => Ok(block.map(|block| block.header.hash)),
            // Some say so in words that they do not have a block.
            Err(CallError::Said { .. }) => Ok(None),
            Err(error) => Err(error),
        };
        let call = |height| at_call(height, With::Hashes);
        let own = match ask_each(endpoint, self.batch_limit(), &heights, call, read).await {
            Ok(own) => own,
            Err(error) => return Link::None(error.to_string()),
        };
        let is_known =
            |(height, own): (&u64, &Option<_>)| own.is_some() && known.hash_at(*height) == *own;
        if is_known((&height, &own[0])) {
            return Link::Known;
        }
        let why = match (&own[0], known.hash_at(height)) {
            (Some(own), Some(hash)) => {
                let said = self.ballots(&[height], false).await.hashes(height);
                if self.quorum.decide(own, &said) == Decision::Agreed {
                    return Link::Known;
                }
                format!("has {own} as block {height}, where {hash} is known")
            }
            _ => format!("does not show block {height}"),
        };
        // It may have forgotten its old blocks, or replaced the newest, like any honest one.
        match own.iter().all(Option::is_none) || heights.iter().zip(&own).any(is_known) {
            true => Link::Below(why),
            false => Link::None(why),
        }
    }

    /// The endpoint followed so far, if it is in use; else the one that has come furthest, as far as
    /// a quorum has come, and among equals the first of the configuration. Boldness is no merit.
    fn best_to_follow(
        &self,
        trusted: Option<usize>,
        passed_over: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let usable = |place: &usize| self.endpoints[*place].is_usable() && !passed_over(*place);
        trusted.filter(usable).or_else(|| {
            let others: Vec<usize> = (0..self.endpoints.len()).filter(usable).collect();
            let head = |place: &usize| self.endpoints[*place].head();
            let heads: Vec<u64> = others.iter().filter_map(head).collect();
            let reached = self.quorum.reached(&heads);
            others.into_iter().min_by_key(|place| std::cmp::Reverse(head(place).min(reached)))
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

#[cfg(test)]
mod tests {
    use super::rungs;

    #[test]
    fn an_endpoint_is_compared_at_few_heights_from_the_newest_to_the_lowest() {
        for (newest, lowest, expected) in [
            (9, 9, vec![9]),
            (9, 8, vec![9, 8]),
            (20, 10, vec![20, 19, 18, 16, 12, 10]),
            (5, 0, vec![5, 4, 3, 1, 0]),
            (0, 0, vec![0]),
        ] {
            assert_eq!(rungs(newest, lowest), expected, "{newest} {lowest}");
        }
        assert!(rungs(1_000_200, 1_000_000).len() < 12);
    }
}
