//! What a node remembers of its lanes.
//!
//! Two things are kept apart on purpose. The *lease* of a lane is read and renewed by the keeper
//! at any moment and sits behind a lock that is never held across an await. The lane's *work*, its
//! planner, belongs to whoever is committing for the lane and is locked for as long as that takes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use stile_domain::{Ahead, Lane, LaneMemory, Nonce, Planner, Released};
use stile_store::{Claim, FencingToken, Owner};
use tokio::sync::watch;

use crate::allocate::Allocate;
use crate::behind::Behind;

/// For how long callers who repeat themselves are expected to do it again.
const REPEATS_REMEMBERED: Duration = Duration::from_secs(10);

/// For how long whoever would be refused because another node holds a lane is refused without asking
/// anew.
pub(crate) const REFUSED_FOR: Duration = Duration::from_secs(1);

/// All lanes this node has worked.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    slots: Mutex<HashMap<Lane, Arc<Slot>>>,
}

/// One lane.
#[derive(Debug)]
pub(crate) struct Slot {
    lane: Lane,
    lease: Mutex<Option<Lease>>,
    /// Calls that wait for the chain; `Some` while it is being asked.
    pub(crate) parked: Mutex<Option<Vec<Allocate>>>,
    /// Locked by whoever commits for the lane.
    pub(crate) work: tokio::sync::Mutex<Work>,
    /// Transactions wait for their nonces, as far as is known; the store has the last word.
    waiting: AtomicBool,
    /// How many long commits are under way for what happened to the lane's transactions. They lock
    /// its row.
    recording: AtomicUsize,
    /// When a request was last made that had been made before.
    repeated: Mutex<Option<Instant>>,
    /// Somebody should look at what waits.
    pub(crate) woken: AtomicBool,
    /// Somebody does.
    pub(crate) binding: AtomicBool,
    /// How often nonces were given back here, and how many of those the lane has been looked at
    /// after.
    given_back: AtomicU64,
    looked_at: AtomicU64,
    /// The claim under which the lane was last handed over.
    let_go: Mutex<Option<Claim>>,
    /// Who else holds the lane, and when the database said so.
    elsewhere: Mutex<Option<(Owner, Instant)>>,
    /// The first nonce above all that are known to have been given out, and the highest token that
    /// was seen: what the database itself forgets when it loses commits.
    given_out: AtomicU64,
    seen_token: AtomicU64,
    /// The highest token that this node held the lane under.
    held_token: AtomicU64,
    /// The database was restored, as far as is known: what waits may have been sent before.
    restored: AtomicBool,
    /// The first nonce above those that pools had of the account when the lane was first found marked, if
    /// they had any beyond the cursor; 0 before anybody looked.
    pooled: AtomicU64,
    /// The height of the chain at which what a restored database had lost was last looked for again.
    read_at: AtomicU64,
    /// The cursor has been held against the chain since the lane first came to this process.
    compared: AtomicBool,
    /// Why it could not be, when that was last tried, and whether the lane goes on all the same.
    uncompared: Mutex<Option<Uncompared>>,
    /// Since when some endpoint claims to have more than the cursor says, and does not show it.
    doubted: Mutex<Option<Instant>>,
    /// The chain is ahead of the cursor, and nothing else says that commits are missing.
    behind: Mutex<Option<Behind>>,
    /// Signatures for the lane's next nonces are being waited for, and have been in vain before:
    /// nobody else takes nonces until they are there.
    pub(crate) reserved: watch::Sender<bool>,
}

/// A cursor of which the chain does not say whether it is ahead.
#[derive(Debug)]
struct Uncompared {
    /// When the count was asked for in vain; `None` of a lane that has not begun.
    asked: Option<Instant>,
    why: String,
    goes_on: bool,
}

/// A lease as far as this node knows.
#[derive(Debug)]
pub(crate) struct Lease {
    claim: Claim,
    /// Until when it is believed in without asking.
    trusted_until: Instant,
    /// It was not believed in for a while: somebody else may have held the lane meanwhile, in a history
    /// of the database that is lost.
    lapsed: bool,
    /// What was written under the claim, all of it; `None` if some of it may have been written before
    /// that was kept.
    memory: Memory,
}

/// What was written under a claim.
#[derive(Debug)]
enum Memory {
    /// This node had the claim before, and dropped it.
    Incomplete,
    /// Nothing can have been written yet: the lane has no cursor in this history of the database.
    NotBegun,
    Kept(LaneMemory),
}

impl Lease {
    /// Believes in it for longer. `true` if it was not believed in any more.
    fn extend(&mut self, until: Instant) -> bool {
        let late = self.trusted_until < Instant::now();
        self.lapsed |= late;
        self.trusted_until = self.trusted_until.max(until);
        late
    }
}

/// What is planned in memory, under the token it was read under.
#[derive(Debug, Default)]
pub(crate) struct Work {
    planner: Option<(FencingToken, Planner)>,
    /// When what is on offer was looked up.
    offered_as_of: Option<Instant>,
}

impl Work {
    /// The planner, if it was filled under this claim.
    pub(crate) fn planner(&mut self, claim: &Claim) -> Option<&mut Planner> {
        match &mut self.planner {
            Some((token, planner)) if *token == claim.token() => Some(planner),
            _ => None,
        }
    }

    pub(crate) fn plan_from(&mut self, claim: &Claim, planner: Planner) {
        self.planner = Some((claim.token(), planner));
        self.offered_as_of = None;
    }

    /// Puts released nonces on offer, unless what is on offer was looked up later.
    pub(crate) fn offer(
        &mut self,
        claim: &Claim,
        as_of: Instant,
        anybody: Vec<Released>,
        stile: Vec<Released>,
    ) {
        if self.offered_as_of.is_some_and(|newer| newer > as_of) {
            return;
        }
        if let Some(planner) = self.planner(claim) {
            planner.offer(anybody, stile);
            self.offered_as_of = Some(as_of);
        }
    }

    /// Gives out no released nonces until they are looked up again.
    pub(crate) fn withdraw(&mut self) {
        if let Some((_, planner)) = &mut self.planner {
            planner.offer([], []);
        }
    }

    /// Whether released nonces have been looked up since the planner was filled.
    pub(crate) fn is_looked_up(&self) -> bool {
        self.offered_as_of.is_some()
    }

    /// Forgets everything; the database is read again before the next plan.
    pub(crate) fn forget(&mut self) {
        self.planner = None;
    }
}

/// A long commit that locks the lane's row.
#[derive(Debug)]
pub(crate) struct Recording(Arc<Slot>);

impl Drop for Recording {
    fn drop(&mut self) {
        self.0.recording.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Slot {
    pub(crate) fn lane(&self) -> Lane {
        self.lane
    }

    /// Whether older transactions wait, which no new one may overtake.
    pub(crate) fn has_waiting(&self) -> bool {
        self.waiting.load(Ordering::SeqCst)
    }

    pub(crate) fn set_waiting(&self, waiting: bool) {
        self.waiting.store(waiting, Ordering::SeqCst);
    }

    /// Much that happened to the lane's transactions is being written, until the answer is dropped.
    pub(crate) fn recording(self: &Arc<Self>) -> Recording {
        self.recording.fetch_add(1, Ordering::SeqCst);
        Recording(Arc::clone(self))
    }

    /// Whether a commit for the lane would have to wait for a long one that is under way.
    pub(crate) fn is_recording(&self) -> bool {
        self.recording.load(Ordering::SeqCst) > 0
    }

    /// A request was made that had been made before.
    pub(crate) fn repeated(&self) {
        *locked(&self.repeated) = Some(Instant::now());
    }

    /// Whether callers repeat themselves these days.
    pub(crate) fn has_repeats(&self) -> bool {
        locked(&self.repeated).is_some_and(|last| last.elapsed() < REPEATS_REMEMBERED)
    }

    /// A nonce was given back: it is not on offer before the chain has been asked about it.
    pub(crate) fn gave_back(&self) {
        self.given_back.fetch_add(1, Ordering::SeqCst);
    }

    /// How many were given back, for [`Self::looked`].
    pub(crate) fn given_back(&self) -> u64 {
        self.given_back.load(Ordering::SeqCst)
    }

    /// The lane was looked at after so many had been given back.
    pub(crate) fn looked(&self, given_back: u64) {
        self.looked_at.fetch_max(given_back, Ordering::SeqCst);
    }

    /// Whether something was given back that nobody has looked at yet.
    pub(crate) fn has_unlooked(&self) -> bool {
        self.given_back() > self.looked_at.load(Ordering::SeqCst)
    }

    /// Somebody else holds the lane, as the database has just said.
    pub(crate) fn is_elsewhere(&self, owner: &Owner) {
        *locked(&self.elsewhere) = Some((owner.clone(), Instant::now()));
    }

    /// Who else holds the lane, if the database said so within this time and the lease has not run
    /// out since.
    pub(crate) fn elsewhere(&self, within: Duration) -> Option<Owner> {
        let known = locked(&self.elsewhere);
        let fresh =
            |(owner, told): &&(Owner, Instant)| told.elapsed() < owner.remaining.min(within);
        known.as_ref().filter(fresh).map(|(owner, _)| owner.clone())
    }

    /// Whoever was thought to hold the lane does not.
    pub(crate) fn ask_again(&self) {
        *locked(&self.elsewhere) = None;
    }

    /// All nonces below this one are known to have been given out.
    pub(crate) fn note_given_out(&self, below: Nonce) {
        self.given_out.fetch_max(below, Ordering::SeqCst);
    }

    pub(crate) fn given_out(&self) -> Nonce {
        self.given_out.load(Ordering::SeqCst)
    }

    /// The lane was seen under this token.
    pub(crate) fn note_token(&self, token: FencingToken) {
        self.seen_token.fetch_max(token.get(), Ordering::SeqCst);
    }

    pub(crate) fn seen_token(&self) -> u64 {
        self.seen_token.load(Ordering::SeqCst)
    }

    /// Whether what waits may have been sent before the database was restored.
    pub(crate) fn is_restored(&self) -> bool {
        self.restored.load(Ordering::SeqCst)
    }

    /// Takes note of it; `true` if that is new.
    pub(crate) fn set_restored(&self, restored: bool) -> bool {
        self.restored.swap(restored, Ordering::SeqCst) != restored
    }

    /// Whether the chain has another height than when this was last asked.
    pub(crate) fn is_new_head(&self, height: u64) -> bool {
        self.read_at.swap(height, Ordering::SeqCst) != height
    }

    /// Whether what pools had when this was first asked is mined or gone. `pooled` is what they have now,
    /// `count` how many are mined.
    pub(crate) fn is_past_pooled(&self, pooled: Option<Nonce>, count: Nonce) -> bool {
        let first = match self.pooled.load(Ordering::SeqCst) {
            0 => pooled.unwrap_or(0),
            first => first,
        };
        let past = pooled.is_none() || count >= first;
        self.pooled.store(if past { 0 } else { first }, Ordering::SeqCst);
        past
    }

    /// Takes note that the lane is to be realigned, or that it was. Forgotten with the claim: then it is
    /// realigned like any other lane that may have lost commits.
    pub(crate) fn set_behind(&self, behind: Option<Behind>) {
        *locked(&self.behind) = behind;
    }

    /// Why the lane is to be realigned, if the chain's count alone says so, and was seen to under this claim.
    pub(crate) fn ahead(&self, claim: &Claim) -> Option<Ahead> {
        locked(&self.behind).as_ref()?.under(claim.token().get()).cloned()
    }

    /// Whether the cursor has been held against the chain before anything was planned from it.
    pub(crate) fn is_compared(&self) -> bool {
        self.compared.load(Ordering::SeqCst)
    }

    pub(crate) fn set_compared(&self, compared: bool) {
        *locked(&self.uncompared) = None;
        *locked(&self.doubted) = None;
        self.compared.store(compared, Ordering::SeqCst);
    }

    /// For how long it has been in doubt whether some endpoint has more than the cursor says.
    pub(crate) fn doubted_for(&self) -> Duration {
        locked(&self.doubted).get_or_insert_with(Instant::now).elapsed()
    }

    /// The chain does not say whether it is ahead of the cursor. `true` if that is news.
    pub(crate) fn note_uncompared(&self, why: String, goes_on: bool) -> bool {
        let asked = Some(Instant::now());
        locked(&self.uncompared).replace(Uncompared { asked, why, goes_on }).is_none()
    }

    /// The chain does not say where the lane is to begin. `true` if that is news.
    pub(crate) fn note_not_begun(&self, why: String) -> bool {
        let told = Uncompared { asked: None, why, goes_on: false };
        locked(&self.uncompared).replace(told).is_none()
    }

    /// Why the cursor is not compared with the chain, or why there is none yet, if that was tried in vain.
    pub(crate) fn uncompared(&self) -> Option<String> {
        locked(&self.uncompared).as_ref().map(|it| it.why.clone())
    }

    /// Why the cursor is not compared with the chain, if that was tried in vain within this time.
    pub(crate) fn uncompared_within(&self, time: Duration) -> Option<String> {
        let known = locked(&self.uncompared);
        let lately = |it: &&Uncompared| it.asked.is_some_and(|asked| asked.elapsed() < time);
        known.as_ref().filter(lately).map(|it| it.why.clone())
    }

    /// Whether nonces are given out from a cursor that could not be compared with the chain.
    pub(crate) fn goes_on_uncompared(&self) -> bool {
        locked(&self.uncompared).as_ref().is_some_and(|it| it.goes_on)
    }

    fn lease(&self) -> MutexGuard<'_, Option<Lease>> {
        locked(&self.lease)
    }

    /// The claim, if it may be used without asking the database first.
    pub(crate) fn trusted_claim(&self) -> Option<Claim> {
        let lease = self.lease();
        lease.as_ref().filter(|lease| Instant::now() < lease.trusted_until).map(|lease| lease.claim)
    }

    /// The claim, trusted or not.
    pub(crate) fn claim(&self) -> Option<Claim> {
        self.lease().as_ref().map(|lease| lease.claim)
    }

    /// The lane is ours under this claim; the request that said so was sent before `until` minus
    /// the trust of a lease. With a `cursor`, it is in this history of the database.
    pub(crate) fn trust(&self, claim: Claim, until: Instant, cursor: Option<Nonce>) {
        self.note_token(claim.token());
        let mut lease = self.lease();
        let before = self.held_token.fetch_max(claim.token().get(), Ordering::SeqCst);
        match lease.as_mut().filter(|known| known.claim == claim) {
            Some(known) => {
                known.extend(until);
            }
            None => {
                // One that was dropped and is taken up again may have been written under before.
                let new = claim.token().get() > before;
                let memory = if new { Memory::NotBegun } else { Memory::Incomplete };
                *lease = Some(Lease { claim, trusted_until: until, lapsed: false, memory });
                // Somebody else may have had the lane, and what it is behind by may be a loss.
                locked(&self.behind).take_if(|behind| behind.under(claim.token().get()).is_none());
            }
        }
        if let (Some(lease), Some(_)) = (lease.as_mut(), cursor)
            && matches!(lease.memory, Memory::NotBegun)
        {
            lease.memory = Memory::Kept(LaneMemory::default());
        }
        drop(lease);
        self.ask_again();
    }

    /// Writes to what is remembered of a claim, if it is the lane's still.
    pub(crate) fn memorise<T>(
        &self,
        claim: Claim,
        write: impl FnOnce(&mut LaneMemory) -> T,
    ) -> Option<T> {
        match self.lease().as_mut().filter(|known| known.claim == claim) {
            Some(Lease { memory: Memory::Kept(memory), .. }) => Some(write(memory)),
            _ => None,
        }
    }

    /// All that was written for the lane under its claim, if nobody else can have held it since, in any
    /// history of the database.
    pub(crate) fn memory(&self, claim: Claim) -> Option<LaneMemory> {
        let lease = self.lease();
        let held = lease.as_ref().filter(|known| known.claim == claim && !known.lapsed)?;
        match &held.memory {
            Memory::Kept(memory) if Instant::now() < held.trusted_until => Some(memory.clone()),
            _ => None,
        }
    }

    /// Extends the trust in a claim, unless the lane has been lost or taken anew in between. `true`
    /// if it came late: there was no trust left to extend.
    pub(crate) fn renewed(&self, claim: Claim, until: Instant) -> bool {
        let mut lease = self.lease();
        let Some(known) = lease.as_mut().filter(|known| known.claim == claim) else { return false };
        known.extend(until)
    }

    /// The lane was handed over: whatever is still on its way under this claim is refused, and that
    /// is as it should be.
    pub(crate) fn let_go(&self, claim: Claim) {
        *locked(&self.let_go) = Some(claim);
        self.drop_claim(claim);
    }

    /// Whether the lane was handed over by this node under this claim.
    pub(crate) fn has_let_go(&self, claim: Claim) -> bool {
        *locked(&self.let_go) == Some(claim)
    }

    /// The claim is superseded. Leaves a newer one alone. `true` if there was something to drop.
    pub(crate) fn drop_claim(&self, claim: Claim) -> bool {
        let mut lease = self.lease();
        let superseded = lease.as_ref().is_some_and(|known| known.claim == claim);
        if superseded {
            *lease = None;
            self.set_behind(None);
        }
        superseded
    }
}

impl Lanes {
    /// The lane's slot, made if need be.
    pub(crate) fn slot(&self, lane: Lane) -> Arc<Slot> {
        let mut slots = self.slots();
        let slot = slots.entry(lane).or_insert_with(|| {
            Arc::new(Slot {
                lane,
                lease: Mutex::default(),
                parked: Mutex::default(),
                work: tokio::sync::Mutex::default(),
                // Until the store has been asked.
                waiting: AtomicBool::new(true),
                recording: AtomicUsize::default(),
                repeated: Mutex::default(),
                woken: AtomicBool::default(),
                binding: AtomicBool::default(),
                given_back: AtomicU64::default(),
                looked_at: AtomicU64::default(),
                let_go: Mutex::default(),
                elsewhere: Mutex::default(),
                given_out: AtomicU64::default(),
                seen_token: AtomicU64::default(),
                held_token: AtomicU64::default(),
                restored: AtomicBool::default(),
                pooled: AtomicU64::default(),
                read_at: AtomicU64::default(),
                compared: AtomicBool::default(),
                uncompared: Mutex::default(),
                doubted: Mutex::default(),
                behind: Mutex::default(),
                reserved: watch::Sender::new(false),
            })
        });
        Arc::clone(slot)
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<Lane, Arc<Slot>>> {
        locked(&self.slots)
    }

    /// Whether this node holds a lane, as far as it knows.
    pub(crate) fn holds(&self, lane: Lane) -> bool {
        self.slots().get(&lane).is_some_and(|slot| slot.claim().is_some())
    }

    /// The slots of all lanes held, sorted by lane, with their claims.
    pub(crate) fn held(&self) -> Vec<(Arc<Slot>, Claim)> {
        let mut held: Vec<_> = self
            .slots()
            .values()
            .filter_map(|slot| slot.claim().map(|claim| (Arc::clone(slot), claim)))
            .collect();
        held.sort_unstable_by_key(|(slot, _)| slot.lane);
        held
    }
}

/// Nothing here is left half-changed by a panic.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
