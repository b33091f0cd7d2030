//! What goes into a store and what comes out.

use std::fmt;
use std::time::Duration;

use stile_domain::{
    B256, Elsewhere, Failover, Hold, HoldId, HoldStatus, Holder, Incarnation, Lane, LaneEventKind,
    NodeId, Nonce, Plan, Released, Timestamp,
};

use crate::{RestoreMark, StreamPosition};

/// The number on a lane that rises at every change of holder and never falls. Only a row of the
/// database yields one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(pub(crate) i64);

impl FencingToken {
    /// The number, for people.
    pub fn get(self) -> u64 {
        self.0.unsigned_abs()
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The right to write a lane, as it was granted. It may have been superseded since; every write
/// asks the lane's row. Only an acquisition yields one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Claim {
    pub(crate) lane: Lane,
    pub(crate) incarnation: Incarnation,
    pub(crate) token: FencingToken,
}

impl Claim {
    /// The lane.
    pub fn lane(&self) -> Lane {
        self.lane
    }

    /// The token the lane was granted under.
    pub fn token(&self) -> FencingToken {
        self.token
    }
}

/// A lane just acquired or taken.
#[derive(Debug, Clone)]
pub struct HeldLane {
    /// The right to write it.
    pub claim: Claim,
    /// When another node may take it, by the database's clock.
    pub expires_at: Timestamp,
    /// The cursor; `None` until the lane has been held against its chain in this history of the
    /// database.
    pub next_nonce: Option<Nonce>,
    /// Why it is paused, if it is.
    pub paused: Option<String>,
    /// Why it is not Stile's, if it is not.
    pub elsewhere: Option<Elsewhere>,
    /// How the lane came to us.
    pub takeover: Takeover,
}

/// How a lane came into a holder's hands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takeover {
    /// It was ours already.
    Kept,
    /// It is new, or was taken from another incarnation; the token is fresh.
    Taken,
}

/// A lane whose lease has run out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExpiredLane {
    /// The lane.
    pub lane: Lane,
    /// Since when, by the database's clock.
    pub overdue: Duration,
}

/// The answer to an acquisition, for one lane.
#[derive(Debug, Clone)]
pub enum Acquisition {
    /// It is ours.
    Held(HeldLane),
    /// Somebody else's lease still runs.
    Other(Owner),
}

/// Who holds a lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Its name.
    pub node: NodeId,
    /// Which start of it.
    pub incarnation: Incarnation,
    /// Where to reach it.
    pub url: Option<String>,
    /// Its token.
    pub token: FencingToken,
    /// How long its lease still runs, by the database's clock; zero if it has run out.
    pub remaining: Duration,
}

impl Owner {
    /// The node.
    pub fn holder(&self) -> Holder {
        let Self { node, incarnation, url, .. } = self.clone();
        Holder { node, incarnation, url }
    }
}

/// Why one lane's part of a batch was not written. The other lanes' parts are unharmed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The claim is superseded: stop working the lane and forget what is known of it.
    #[error("fenced off: the lane is under token {}", .0.token)]
    Fenced(Owner),
    /// The cursor is not where the plan says; plan again from the database.
    #[error("the cursor stands elsewhere than planned")]
    CursorMoved,
    /// A planned row is no longer as it was; plan again from the database.
    #[error("a planned row is no longer as it was")]
    RowLost,
    /// Older transactions of the lane wait for their nonces; a new one may not overtake them.
    #[error("older transactions of the lane wait")]
    OthersWait,
    /// The lane is paused.
    #[error("the lane is paused: {0}")]
    Paused(String),
    /// The lane is not Stile's.
    #[error("the lane is not Stile's: {}", .0.words())]
    Elsewhere(Elsewhere),
    /// The database was failed over or restored since the lane was held against its chain.
    #[error("the database has another history than the lane: it is held against its chain first")]
    Unaligned,
    /// The database was restored, and one of the transactions may have been sent before: it waits for
    /// a person's word, or for the chain's.
    #[error("the database was restored: what waits may have been sent before")]
    Restored,
    /// The lane's ledger contradicts its cursor: a row exists where the cursor says none can be.
    #[error("the nonce ledger contradicts the cursor: {0}")]
    Inconsistent(String),
}

/// Lanes renewed or released by one statement on PostgreSQL. Short statements hold few locks for a
/// short time.
pub const LANES_A_RENEWAL: usize = 500;

/// What renewal found for one lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Renewal {
    /// Extended.
    Renewed,
    /// Its row is locked right now, by one of our own writes that extends the lease itself or by
    /// somebody about to take it. Not extended, not lost.
    Skipped,
    /// It belongs to somebody else.
    Fenced(Owner),
}

/// A hold about to be written. The id is made before the commit so that the commit's fate can be
/// read back by it.
#[derive(Debug, Clone)]
pub struct NewHold {
    /// The id.
    pub id: HoldId,
    /// The caller's idempotency key, if it gave one.
    pub key: Option<AllocationKey>,
}

/// An idempotency key, and whose it is: two tenants may use the same text.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AllocationKey {
    /// Whose key.
    pub tenant: String,
    /// The key.
    pub key: String,
}

/// One lane's part of a batch of allocations: the plan, and a hold for each planned nonce, in the
/// plan's order.
#[derive(Debug, Clone)]
pub struct Binding {
    /// The right to do it.
    pub claim: Claim,
    /// The nonces.
    pub plan: Plan,
    /// A hold for each.
    pub holds: Vec<NewHold>,
}

impl Binding {
    /// The planned nonces with the hold each one goes to.
    pub(crate) fn planned(&self) -> impl Iterator<Item = (Nonce, &NewHold)> {
        self.plan.nonces().zip(&self.holds)
    }

    /// The holds as they stand in the database once this has been committed.
    pub(crate) fn written(&self, locked_until: Timestamp) -> Vec<Hold> {
        let holds = self.planned().map(|(nonce, hold)| Hold {
            id: hold.id,
            lane: self.claim.lane,
            nonce,
            status: HoldStatus::Held,
            locked_until,
            tx_hash: None,
            reason: None,
        });
        holds.collect()
    }
}

/// How the lane's row moves when it is fenced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Advance {
    /// Where the cursor must stand.
    pub first: Nonce,
    /// How far it moves.
    pub count: u64,
}

/// What a caller says about its own hold. Needs no lease: it is a compare-and-set on hold id and
/// status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// The lane.
    pub lane: Lane,
    /// The nonce.
    pub nonce: Nonce,
    /// The hold.
    pub hold: HoldId,
    /// What is said.
    pub verdict: MarkVerdict,
}

/// The two things a caller can say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MarkVerdict {
    /// A transaction with this nonce was sent.
    Used(B256),
    /// Nothing was sent and nothing will be.
    Recyclable(String),
}

/// The answer to a mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MarkOutcome {
    /// Done, or done before: the hold as it stands.
    Done(Hold),
    /// The hold says otherwise: as it stands.
    Conflict(Hold),
    /// The nonce was given to another hold since; this one ended `RELEASED`.
    Superseded(Hold),
    /// No such hold.
    NotFound,
}

/// What is open on a lane, as the sweep needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneSurvey {
    /// The lane.
    pub lane: Lane,
    /// Nonces given back, lowest first.
    pub released: Vec<Released>,
    /// Nonces whose callers went silent.
    pub suspect: Vec<Nonce>,
    /// How many `HELD` holds have outlived their time.
    pub expired: u64,
    /// The highest nonce known to have been broadcast.
    pub highest_consumed: Option<Nonce>,
}

/// A lane, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneView {
    /// The lane.
    pub lane: Lane,
    /// Who holds it, or held it last.
    pub owner: Owner,
    /// When its lease ends or ended.
    pub expires_at: Timestamp,
    /// The cursor.
    pub next_nonce: Option<Nonce>,
    /// The chain's `latest` transaction count when last compared.
    pub last_chain_nonce: Option<Nonce>,
    /// Why it is paused.
    pub paused: Option<String>,
    /// Why it is not Stile's.
    pub elsewhere: Option<Elsewhere>,
    /// Whether it has been held against its chain in this history of the database, if it has a cursor.
    pub aligned: bool,
    /// Whether commits that concern it may be missing, because the database was restored.
    pub restored: Option<RestoreMark>,
    /// How many holds stand `HELD`.
    pub held: u64,
    /// How many stand `SUSPECT`.
    pub suspect: u64,
    /// Nonces below the cursor that nobody has, lowest first, at most 100 of them.
    pub gaps: Vec<Nonce>,
    /// Managed transactions that have a nonce and are not in a canonical block.
    pub in_flight: u64,
    /// Managed transactions that wait for a nonce.
    pub queued: u64,
}

/// Which holds to list.
#[derive(Debug, Clone, Copy)]
pub struct HoldFilter {
    /// Of this lane.
    pub lane: Lane,
    /// Only these.
    pub status: Option<HoldStatus>,
    /// Only nonces above this one.
    pub after: Option<Nonce>,
    /// At most this many.
    pub limit: u32,
}

/// A page of holds, lowest nonce first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HoldPage {
    /// The holds.
    pub holds: Vec<Hold>,
    /// Where the next page starts, if there is one.
    pub next: Option<Nonce>,
}

impl HoldPage {
    /// A page from a list that was read with one more row than the page holds.
    pub(crate) fn cut(mut holds: Vec<Hold>, limit: u32) -> Self {
        let more = holds.len() > limit as usize;
        holds.truncate(limit as usize);
        let next = holds.last().filter(|_| more).map(|hold| hold.nonce);
        Self { holds, next }
    }
}

/// What bringing the schema up to date did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SchemaReport {
    /// Names of the migrations just applied.
    pub applied: Vec<String>,
    /// The version the schema is at.
    pub version: i32,
}

/// One entry of a lane's history.
#[derive(Debug, Clone, PartialEq)]
pub struct LaneEvent {
    /// Its place in the stream.
    pub position: StreamPosition,
    /// Whose history.
    pub lane: Lane,
    /// What happened.
    pub kind: LaneEventKind,
    /// When, by the database's clock.
    pub at: Timestamp,
    /// Who wrote it.
    pub node: NodeId,
    /// Under which token; `None` for what needs no lease.
    pub fencing_token: Option<FencingToken>,
    /// More about it, as a JSON object.
    pub data: serde_json::Value,
}

/// An entry about to be written to a lane's history.
#[derive(Debug, Clone, PartialEq)]
pub struct NewLaneEvent {
    /// What happened.
    pub kind: LaneEventKind,
    /// More about it, as a JSON object.
    pub data: serde_json::Value,
}

/// How a lane that is resumed, or follows its chain, gets back in step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Realign {
    /// Where the cursor must stand.
    pub from: Nonce,
    /// Where it goes; never back over a nonce that somebody has.
    pub to: Nonce,
}

/// The answer to a resumption.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resumed {
    /// Done.
    Done,
    /// The lane is not where the plan says: look again.
    Moved,
    /// Nobody ever took the lane.
    NotFound,
}

/// A lane that was brought into another history of the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Realigned {
    /// Where the cursor stood, if it did.
    pub from: Option<Nonce>,
    /// Where it stands now.
    pub to: Nonce,
    /// Whether commits may be missing: then the lane is marked, and nothing that waits is sent by
    /// itself.
    pub restored: bool,
    /// How many transactions were bound again to nonces that only this node remembered.
    pub bound_again: usize,
    /// The token that the lane is under now: the claim it was done with is superseded.
    pub token: FencingToken,
}

/// Where a lane begins that has no cursor yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Beginning {
    /// The first nonce that it gives out.
    pub at: Nonce,
    /// The first nonce that the chain has not seen used, as far as it was asked; not above [`Self::at`].
    pub used: Nonce,
    /// Its holder knows it from before: the database has lost its row.
    pub known_before: bool,
    /// What the operator says about failovers.
    pub failover: Failover,
}

impl From<Nonce> for Beginning {
    fn from(at: Nonce) -> Self {
        Self { at, used: at, known_before: false, failover: Failover::Ask }
    }
}
