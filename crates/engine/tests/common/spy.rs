//! A store that watches, stops and breaks what passes through to a real one.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use futures::future::BoxFuture;
use stile_domain::{HeldExpiry, Hold, HoldId, Holder, Lane, NodeId, Nonce, Remembered};
use stile_store::{
    Acquisition, AllocationKey, Beginning, Binding, Claim, ExpiredLane, HeldLane, HoldFilter,
    HoldPage, InFlightPage, LaneEvent, LaneSurvey, LaneView, Mark, MarkOutcome, NewLaneEvent,
    Realign, Realigned, Refusal, Renewal, Resumed, SchemaReport, Store, StoreError, StreamPosition,
};
use testkit::eventually;
use tokio::sync::watch;

/// Lets calls pass, or not.
#[derive(Debug)]
pub(crate) struct Gate(watch::Sender<bool>);

impl Gate {
    fn open_one() -> Self {
        Self(watch::Sender::new(true))
    }

    pub(crate) fn close(&self) {
        self.0.send_replace(false);
    }

    pub(crate) fn open(&self) {
        self.0.send_replace(true);
    }

    async fn pass(&self) {
        let mut open = self.0.subscribe();
        open.wait_for(|open| *open).await.expect("the sender is in self");
    }
}

/// What becomes of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lost {
    /// It happens, and its answer is lost.
    Answer,
    /// It does not happen, and nobody can tell.
    Commit,
}

/// What has been seen of binds.
#[derive(Debug, Default)]
struct Seen {
    inside: HashMap<Lane, usize>,
    calls_inside: usize,
    most_calls_inside: usize,
    overlaps: usize,
    /// The holds in each bind.
    sizes: Vec<usize>,
    unknown: usize,
    /// Calls of everything else, by name.
    calls: HashMap<&'static str, usize>,
    /// Pages of what is in flight, in the order in which they were read.
    pages: Vec<InFlightPage>,
    /// How many are being read, and were at most.
    readers: (usize, usize),
}

type Hook = Box<dyn FnOnce() -> BoxFuture<'static, Option<StoreError>> + Send>;

/// Passes everything on to a real store.
pub(crate) struct Spy {
    pub(super) inner: Arc<dyn Store>,
    seen: Mutex<Seen>,
    /// In front of binds.
    pub(crate) binds: Gate,
    /// In front of acquisitions.
    pub(crate) acquires: Gate,
    /// In front of whatever looks for expired lanes.
    pub(crate) takeovers: Gate,
    /// In front of pauses.
    pub(crate) pauses: Gate,
    /// Whether what a holder writes about its lanes finds no database.
    pub(crate) away: AtomicBool,
    /// Whether what was found on chain is refused, as if the lane's token had just been raised.
    pub(crate) fences_recoveries: AtomicBool,
    lose: Mutex<VecDeque<Lost>>,
    before_read_back: Mutex<Option<Hook>>,
}

impl fmt::Debug for Spy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spy").finish_non_exhaustive()
    }
}

impl Spy {
    pub(crate) fn on(inner: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            seen: Mutex::default(),
            binds: Gate::open_one(),
            acquires: Gate::open_one(),
            takeovers: Gate::open_one(),
            pauses: Gate::open_one(),
            away: AtomicBool::new(false),
            fences_recoveries: AtomicBool::new(false),
            lose: Mutex::default(),
            before_read_back: Mutex::default(),
        })
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap()
    }

    pub(super) fn answers(&self) -> Result<(), StoreError> {
        match self.away.load(Ordering::SeqCst) {
            true => Err(StoreError::Unavailable("the spy says so".to_owned())),
            false => Ok(()),
        }
    }

    pub(super) fn count(&self, call: &'static str) {
        *self.seen().calls.entry(call).or_default() += 1;
    }

    /// How often a call of this name has come.
    pub(crate) fn calls(&self, call: &'static str) -> usize {
        self.seen().calls.get(call).copied().unwrap_or(0)
    }

    /// The pages of what is in flight that were read, the first first.
    pub(crate) fn pages(&self) -> Vec<InFlightPage> {
        self.seen().pages.clone()
    }

    /// How many of them were being read at one time at most.
    pub(crate) fn most_readers(&self) -> usize {
        self.seen().readers.1
    }

    pub(super) fn page_begins(&self) {
        let mut seen = self.seen();
        seen.readers.0 += 1;
        seen.readers.1 = seen.readers.1.max(seen.readers.0);
    }

    pub(super) fn page_read(&self, page: &InFlightPage) {
        let mut seen = self.seen();
        seen.readers.0 -= 1;
        seen.pages.push(page.clone());
    }

    /// The number of holds in each bind that has ended.
    pub(crate) fn bind_sizes(&self) -> Vec<usize> {
        self.seen().sizes.clone()
    }

    /// How often two binds or acquisitions of one lane were under way at once.
    pub(crate) fn overlaps(&self) -> usize {
        self.seen().overlaps
    }

    /// How many binds were under way at once at most.
    pub(crate) fn most_binds_at_once(&self) -> usize {
        self.seen().most_calls_inside
    }

    /// How many binds ended with an unknown fate.
    pub(crate) fn unknown_binds(&self) -> usize {
        self.seen().unknown
    }

    /// Waits until so many binds stand at the gate or are under way.
    pub(crate) async fn until_binding(&self, binds: usize) {
        let what = format!("{binds} binds at once");
        eventually(&what, async || (self.seen().calls_inside == binds).then_some(())).await;
    }

    /// The fate of the next bind.
    pub(crate) fn lose_next(&self, lost: Lost) {
        self.lose.lock().unwrap().push_back(lost);
    }

    /// Before the next reading back, this happens; it may fail the call.
    pub(crate) fn before_next_read_back(
        &self,
        hook: impl FnOnce() -> BoxFuture<'static, Option<StoreError>> + Send + 'static,
    ) {
        *self.before_read_back.lock().unwrap() = Some(Box::new(hook));
    }

    fn enter(&self, lanes: &[Lane], is_bind: bool) {
        let mut seen = self.seen();
        for lane in lanes {
            let inside = seen.inside.entry(*lane).or_default();
            *inside += 1;
            let overlap = *inside > 1;
            seen.overlaps += usize::from(overlap);
        }
        if is_bind {
            seen.calls_inside += 1;
            seen.most_calls_inside = seen.most_calls_inside.max(seen.calls_inside);
        }
    }

    fn leave(&self, lanes: &[Lane]) {
        let mut seen = self.seen();
        for lane in lanes {
            *seen.inside.entry(*lane).or_default() -= 1;
        }
    }
}

#[async_trait]
impl Store for Spy {
    async fn acquire(
        &self,
        holder: &Holder,
        lanes: &[Lane],
        lease: Duration,
    ) -> Result<Vec<Acquisition>, StoreError> {
        self.count("acquire");
        self.enter(lanes, false);
        self.acquires.pass().await;
        let answer = self.inner.acquire(holder, lanes, lease).await;
        self.count("acquired");
        self.leave(lanes);
        answer
    }

    async fn acquire_patiently(
        &self,
        holder: &Holder,
        lanes: &[Lane],
        patience: Duration,
        lease: Duration,
    ) -> Result<Vec<Acquisition>, StoreError> {
        self.count("acquire");
        self.enter(lanes, false);
        self.acquires.pass().await;
        let answer = self.inner.acquire_patiently(holder, lanes, patience, lease).await;
        self.count("acquired");
        self.leave(lanes);
        answer
    }

    async fn expired_lanes(
        &self,
        limit: u32,
        reorg_window: u32,
    ) -> Result<Vec<ExpiredLane>, StoreError> {
        self.inner.expired_lanes(limit, reorg_window).await
    }

    async fn take_lanes(
        &self,
        holder: &Holder,
        lanes: &[Lane],
        lease: Duration,
    ) -> Result<Vec<HeldLane>, StoreError> {
        self.inner.take_lanes(holder, lanes, lease).await
    }

    async fn hand_over(&self, claim: &Claim, to: &Holder) -> Result<bool, StoreError> {
        self.inner.hand_over(claim, to).await
    }

    async fn bind(
        &self,
        bindings: &[Binding],
        lease: Duration,
        hold_timeout: Duration,
    ) -> Result<Vec<Result<Vec<Hold>, Refusal>>, StoreError> {
        let lanes: Vec<Lane> = bindings.iter().map(|binding| binding.claim.lane()).collect();
        self.enter(&lanes, true);
        self.binds.pass().await;
        let lost = self.lose.lock().unwrap().pop_front();
        let answer = match lost {
            Some(Lost::Commit) => Err(StoreError::CommitUnknown("told to lose it".into())),
            Some(Lost::Answer) => {
                let answer = self.inner.bind(bindings, lease, hold_timeout).await;
                assert!(answer.is_ok(), "the commit happens: {answer:?}");
                Err(StoreError::CommitUnknown("told to lose the answer".into()))
            }
            None => self.inner.bind(bindings, lease, hold_timeout).await,
        };
        self.leave(&lanes);
        let mut seen = self.seen();
        seen.calls_inside -= 1;
        seen.sizes.push(bindings.iter().map(|binding| binding.holds.len()).sum());
        seen.unknown += usize::from(matches!(answer, Err(StoreError::CommitUnknown(_))));
        answer
    }

    async fn sweep_holds(
        &self,
        lane: Lane,
        below: Nonce,
        kept: Duration,
        limit: u32,
    ) -> Result<u64, StoreError> {
        self.inner.sweep_holds(lane, below, kept, limit).await
    }

    async fn sweep_past_holds(&self, kept: Duration, limit: u32) -> Result<u64, StoreError> {
        self.inner.sweep_past_holds(kept, limit).await
    }

    async fn lanes_with_old_holds(&self, kept: Duration) -> Result<Vec<Lane>, StoreError> {
        self.inner.lanes_with_old_holds(kept).await
    }

    async fn read_back(
        &self,
        lane: Lane,
        holds: &[(Nonce, HoldId)],
    ) -> Result<Vec<Hold>, StoreError> {
        self.count("read_back");
        let hook = self.before_read_back.lock().unwrap().take();
        if let Some(hook) = hook
            && let Some(error) = hook().await
        {
            return Err(error);
        }
        self.inner.read_back(lane, holds).await
    }

    async fn migrate(&self) -> Result<SchemaReport, StoreError> {
        self.inner.migrate().await
    }

    async fn check_schema(&self) -> Result<(), StoreError> {
        self.inner.check_schema().await
    }

    async fn ping(&self) -> Result<(), StoreError> {
        self.inner.ping().await
    }

    async fn take_own(
        &self,
        holder: &Holder,
        lease: Duration,
    ) -> Result<Vec<HeldLane>, StoreError> {
        self.inner.take_own(holder, lease).await
    }

    async fn take_expired(
        &self,
        holder: &Holder,
        lease: Duration,
        limit: u32,
        reorg_window: u32,
    ) -> Result<Vec<HeldLane>, StoreError> {
        self.takeovers.pass().await;
        let answer = self.inner.take_expired(holder, lease, limit, reorg_window).await;
        self.count("take_expired");
        answer
    }

    async fn renew(&self, claims: &[Claim], lease: Duration) -> Result<Vec<Renewal>, StoreError> {
        self.answers()?;
        let answer = self.inner.renew(claims, lease).await;
        self.count("renew");
        answer
    }

    async fn release(&self, claims: &[Claim]) -> Result<Vec<bool>, StoreError> {
        self.inner.release(claims).await
    }

    async fn follow_chain(
        &self,
        claim: &Claim,
        realign: Realign,
        event: &NewLaneEvent,
        lease: Duration,
    ) -> Result<Result<(), Refusal>, StoreError> {
        self.inner.follow_chain(claim, realign, event, lease).await
    }

    async fn own_up(
        &self,
        claim: &Claim,
        nonces: &[Nonce],
        reason: &str,
        lease: Duration,
    ) -> Result<Result<Vec<Hold>, Refusal>, StoreError> {
        self.inner.own_up(claim, nonces, reason, lease).await
    }

    async fn pause_as_holder(
        &self,
        claim: &Claim,
        found: &NewLaneEvent,
        reason: &str,
        lease: Duration,
    ) -> Result<Result<(), Refusal>, StoreError> {
        self.count("pause");
        self.pauses.pass().await;
        let answer = self.inner.pause_as_holder(claim, found, reason, lease).await;
        self.count("pause answered");
        answer
    }

    async fn tell_lane(
        &self,
        node: &NodeId,
        lane: Lane,
        event: &NewLaneEvent,
    ) -> Result<(), StoreError> {
        self.inner.tell_lane(node, lane, event).await
    }

    async fn lane_history(
        &self,
        lane: Lane,
        before: Option<StreamPosition>,
        limit: u32,
    ) -> Result<Vec<LaneEvent>, StoreError> {
        self.inner.lane_history(lane, before, limit).await
    }

    async fn start_cursor(
        &self,
        node: &NodeId,
        claim: &Claim,
        beginning: Beginning,
        lease: Duration,
    ) -> Result<Result<Nonce, Refusal>, StoreError> {
        self.inner.start_cursor(node, claim, beginning, lease).await
    }

    async fn realign(
        &self,
        node: &NodeId,
        claim: &Claim,
        remembered: &Remembered,
        data: &serde_json::Value,
        lease: Duration,
    ) -> Result<Result<Option<Realigned>, Refusal>, StoreError> {
        self.inner.realign(node, claim, remembered, data, lease).await
    }

    async fn arrive(&self) -> Result<Vec<Lane>, StoreError> {
        self.inner.arrive().await
    }

    async fn expire(
        &self,
        claims: &[Claim],
        policy: HeldExpiry,
        lease: Duration,
    ) -> Result<Vec<Result<Vec<Hold>, Refusal>>, StoreError> {
        self.inner.expire(claims, policy, lease).await
    }

    async fn settle(
        &self,
        seen: &[(Claim, Nonce)],
        lease: Duration,
    ) -> Result<Vec<Result<Vec<Hold>, Refusal>>, StoreError> {
        self.inner.settle(seen, lease).await
    }

    async fn mark(&self, marks: &[Mark]) -> Result<Vec<MarkOutcome>, StoreError> {
        self.inner.mark(marks).await
    }

    async fn pause(
        &self,
        node: &NodeId,
        lane: Lane,
        reason: &str,
        data: &serde_json::Value,
    ) -> Result<bool, StoreError> {
        self.count("pause");
        self.pauses.pass().await;
        let answer = self.inner.pause(node, lane, reason, data).await;
        self.count("pause answered");
        answer
    }

    async fn keep_paused(
        &self,
        node: &NodeId,
        lane: Lane,
        reason: &str,
        data: &serde_json::Value,
    ) -> Result<bool, StoreError> {
        self.inner.keep_paused(node, lane, reason, data).await
    }

    async fn resume(
        &self,
        node: &NodeId,
        lane: Lane,
        realign: Option<Realign>,
        data: &serde_json::Value,
    ) -> Result<Resumed, StoreError> {
        self.inner.resume(node, lane, realign, data).await
    }

    async fn allocated_under(
        &self,
        lane: Lane,
        keys: &[AllocationKey],
    ) -> Result<Vec<Option<Hold>>, StoreError> {
        let answer = self.inner.allocated_under(lane, keys).await;
        self.count("allocated_under");
        answer
    }

    async fn survey(&self, lanes: &[Lane]) -> Result<Vec<LaneSurvey>, StoreError> {
        let answer = self.inner.survey(lanes).await;
        self.count("survey");
        answer
    }

    async fn lanes(&self, lanes: &[Lane]) -> Result<Vec<Option<LaneView>>, StoreError> {
        self.inner.lanes(lanes).await
    }

    async fn holds(&self, filter: HoldFilter) -> Result<HoldPage, StoreError> {
        self.inner.holds(filter).await
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}
