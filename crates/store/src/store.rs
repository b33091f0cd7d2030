//! The trait.

use std::time::Duration;

use async_trait::async_trait;
use stile_domain::{HeldExpiry, Hold, HoldId, Holder, Lane, NodeId, Nonce, Remembered};

use crate::{
    Acquisition, AllocationKey, Beginning, Binding, Claim, ExpiredLane, HeldLane, HoldFilter,
    HoldPage, KeyStore, LaneEvent, LaneSurvey, LaneView, Mark, MarkOutcome, NewLaneEvent,
    NodeStore, Realign, Realigned, Refusal, Renewal, RestoreStore, Resumed, RolloutStore,
    SchemaReport, StoreError, StreamPosition, TxStore,
};

/// The durable truth about lanes, nonces and holds.
///
/// Every call is one database transaction, or one read. Calls that take a slice answer with one
/// entry for each item, in the slice's order; an item refused does not harm the others. Slices may
/// come in any order and name a lane only once.
#[async_trait]
pub trait Store: TxStore + KeyStore + NodeStore + RolloutStore + RestoreStore {
    /// Brings the schema up to date. Safe to call from several nodes at once.
    async fn migrate(&self) -> Result<SchemaReport, StoreError>;

    /// Fails unless the schema is exactly the one this binary knows.
    async fn check_schema(&self) -> Result<(), StoreError>;

    /// Takes note of where the database lives. If it was loaded from a dump, or an older copy of its
    /// file was put back, no lane gives out anything before it is held against its chain; answers
    /// with those lanes. To be called once, at start.
    async fn arrive(&self) -> Result<Vec<Lane>, StoreError>;

    /// Answers if the database does.
    async fn ping(&self) -> Result<(), StoreError>;

    // --- leases -------------------------------------------------------------------------------

    /// Takes each lane that is new, ours already, or whose lease has run out.
    async fn acquire(
        &self,
        holder: &Holder,
        lanes: &[Lane],
        lease: Duration,
    ) -> Result<Vec<Acquisition>, StoreError>;

    /// Like [`Self::acquire`], but leaves lanes of others alone that have not been out for at least
    /// this long: time for the node that they had best be on.
    async fn acquire_patiently(
        &self,
        holder: &Holder,
        lanes: &[Lane],
        patience: Duration,
        lease: Duration,
    ) -> Result<Vec<Acquisition>, StoreError>;

    /// Takes the lanes that an earlier incarnation of the same node left behind, expired or not.
    /// To be called once, at start: the earlier process is presumed dead, and if it is not, the
    /// raised token keeps it out.
    async fn take_own(&self, holder: &Holder, lease: Duration)
    -> Result<Vec<HeldLane>, StoreError>;

    /// Takes up to `limit` expired lanes that have open work, skipping rows that are locked. Open
    /// are holds that are not settled, transactions that are not done, and those that are done but
    /// whose block has fewer than `reorg_window` others on top of it.
    async fn take_expired(
        &self,
        holder: &Holder,
        lease: Duration,
        limit: u32,
        reorg_window: u32,
    ) -> Result<Vec<HeldLane>, StoreError>;

    /// Up to `limit` lanes that have run out, whoever's they were, and have open work as in
    /// [`Self::take_expired`], with the time since.
    async fn expired_lanes(
        &self,
        limit: u32,
        reorg_window: u32,
    ) -> Result<Vec<ExpiredLane>, StoreError>;

    /// Takes those of these lanes that have run out, whoever's they were, under a fresh token.
    /// Skips rows that are locked.
    async fn take_lanes(
        &self,
        holder: &Holder,
        lanes: &[Lane],
        lease: Duration,
    ) -> Result<Vec<HeldLane>, StoreError>;

    /// Gives a lane to another node: it stands on the lane, under a raised token, and may take it
    /// at once. So may others if it does not: the lease has run out. Whatever this holder has on
    /// its way is refused from here on. `false` if the lane was no longer ours, or if the store does
    /// not know this start of the node under this URL: whoever is handed a lane has told the store
    /// of itself.
    async fn hand_over(&self, claim: &Claim, to: &Holder) -> Result<bool, StoreError>;

    /// Extends leases without waiting for any lock.
    async fn renew(&self, claims: &[Claim], lease: Duration) -> Result<Vec<Renewal>, StoreError>;

    /// Gives lanes back: their expiry goes to the past; row, token and cursor stay. `false` for a
    /// lane that was no longer ours.
    async fn release(&self, claims: &[Claim]) -> Result<Vec<bool>, StoreError>;

    // --- the holder's writes, each of them fenced ----------------------------------------------

    /// Moves a lane's cursor forward past nonces that somebody else has used, with an entry in the
    /// lane's history. [`Refusal::CursorMoved`] if it does not stand where the plan says.
    async fn follow_chain(
        &self,
        claim: &Claim,
        realign: Realign,
        event: &NewLaneEvent,
        lease: Duration,
    ) -> Result<Result<(), Refusal>, StoreError>;

    /// Takes note of nonces below the cursor that nobody has, as if they had been given back: so
    /// they can be filled. Nobody has those either that were given back and used by somebody else
    /// ([`Hold::is_nobodys`]): whoever asks says that the chain waits for them again. Those that
    /// somebody has are left alone. Answers with what is new.
    async fn own_up(
        &self,
        claim: &Claim,
        nonces: &[Nonce],
        reason: &str,
        lease: Duration,
    ) -> Result<Result<Vec<Hold>, Refusal>, StoreError>;

    /// Pauses a lane by the word of its holder, with what was found in the lane's history, and raises
    /// its token as [`Self::pause`] does. Refused if the lane is somebody else's by now: a node that
    /// slept knows nothing of what its successor did. A lane that is paused already keeps its first
    /// reason and its token.
    async fn pause_as_holder(
        &self,
        claim: &Claim,
        found: &NewLaneEvent,
        reason: &str,
        lease: Duration,
    ) -> Result<Result<(), Refusal>, StoreError>;

    /// Sets the cursor of a lane that has none yet, with the first entry of the lane's history.
    /// Answers where the cursor stands. Where the lane may only seem to be new it is marked: see
    /// [`RestoreStore`].
    async fn start_cursor(
        &self,
        node: &NodeId,
        claim: &Claim,
        beginning: Beginning,
        lease: Duration,
    ) -> Result<Result<Nonce, Refusal>, StoreError>;

    /// Brings a lane into this history of the database: its cursor goes past everything that can
    /// have been given out in the one that was lost, its token past every one that can have been
    /// seen, with an entry in the lane's history. Where commits may be missing the lane is marked: see
    /// [`RestoreStore`]. What only this node remembers to have given out is on record from then on, in
    /// the hands of a silent caller. `None`: it is part of this history already, or has no cursor yet.
    async fn realign(
        &self,
        node: &NodeId,
        claim: &Claim,
        remembered: &Remembered,
        data: &serde_json::Value,
        lease: Duration,
    ) -> Result<Result<Option<Realigned>, Refusal>, StoreError>;

    /// Writes planned holds and moves cursors.
    async fn bind(
        &self,
        bindings: &[Binding],
        lease: Duration,
        hold_timeout: Duration,
    ) -> Result<Vec<Result<Vec<Hold>, Refusal>>, StoreError>;

    /// Ends every `HELD` hold that has outlived its time, by policy. Answers with those holds.
    async fn expire(
        &self,
        claims: &[Claim],
        policy: HeldExpiry,
        lease: Duration,
    ) -> Result<Vec<Result<Vec<Hold>, Refusal>>, StoreError>;

    /// Records the chain's `latest` transaction count, and consumes every `SUSPECT` or `RELEASED`
    /// hold below it: the chain shows that it was used. Answers with those holds.
    async fn settle(
        &self,
        seen: &[(Claim, Nonce)],
        lease: Duration,
    ) -> Result<Vec<Result<Vec<Hold>, Refusal>>, StoreError>;

    // --- what needs no lease -------------------------------------------------------------------

    /// Marks holds by their callers' word.
    async fn mark(&self, marks: &[Mark]) -> Result<Vec<MarkOutcome>, StoreError>;

    /// Pauses a lane by a person's word and raises its token, so that plans in memory die; with an
    /// entry in the lane's history. A lane that is paused already keeps its first reason and its token, and nothing is
    /// written. `false`: no such lane.
    async fn pause(
        &self,
        node: &NodeId,
        lane: Lane,
        reason: &str,
        data: &serde_json::Value,
    ) -> Result<bool, StoreError>;

    /// Pauses a lane like [`Self::pause`], and gives one that is paused already this reason: its token
    /// stays then, so that its holder goes on. `false`: no such lane.
    async fn keep_paused(
        &self,
        node: &NodeId,
        lane: Lane,
        reason: &str,
        data: &serde_json::Value,
    ) -> Result<bool, StoreError>;

    /// Ends a pause and raises the token, with the cursor where it should be and an entry in the
    /// lane's history.
    async fn resume(
        &self,
        node: &NodeId,
        lane: Lane,
        realign: Option<Realign>,
        data: &serde_json::Value,
    ) -> Result<Resumed, StoreError>;

    /// Adds to a lane's history what needs no lease to be known.
    async fn tell_lane(
        &self,
        node: &NodeId,
        lane: Lane,
        event: &NewLaneEvent,
    ) -> Result<(), StoreError>;

    /// Removes holds of a lane that are over, at most `limit`, with their idempotency keys; answers
    /// with how many. Any node may. Over are those that have been `CONSUMED` for at least `kept` and
    /// whose nonce the chain shows used: below its transaction count, `below`. No other is touched.
    async fn sweep_holds(
        &self,
        lane: Lane,
        below: Nonce,
        kept: Duration,
        limit: u32,
    ) -> Result<u64, StoreError>;

    /// Removes what is remembered of holds that were given back at least `kept` ago and whose nonce
    /// has gone to somebody else since, at most `limit`, with their idempotency keys; answers with
    /// how many.
    async fn sweep_past_holds(&self, kept: Duration, limit: u32) -> Result<u64, StoreError>;

    // --- reads -----------------------------------------------------------------------------------

    /// Lanes whose lowest `CONSUMED` hold has been so for at least `kept`.
    async fn lanes_with_old_holds(&self, kept: Duration) -> Result<Vec<Lane>, StoreError>;

    /// Which of these holds exist, read after waiting for whoever has the lane's row locked: the
    /// way to learn the fate of a commit whose answer was lost.
    async fn read_back(
        &self,
        lane: Lane,
        holds: &[(Nonce, HoldId)],
    ) -> Result<Vec<Hold>, StoreError>;

    /// The holds that were allocated under these keys before.
    async fn allocated_under(
        &self,
        lane: Lane,
        keys: &[AllocationKey],
    ) -> Result<Vec<Option<Hold>>, StoreError>;

    /// What is open on these lanes. Lanes with nothing open may be left out.
    async fn survey(&self, lanes: &[Lane]) -> Result<Vec<LaneSurvey>, StoreError>;

    /// Lanes for people; `None` for a lane nobody ever took.
    async fn lanes(&self, lanes: &[Lane]) -> Result<Vec<Option<LaneView>>, StoreError>;

    /// A lane's history, newest first, at most `limit` entries from before a place in the stream.
    async fn lane_history(
        &self,
        lane: Lane,
        before: Option<StreamPosition>,
        limit: u32,
    ) -> Result<Vec<LaneEvent>, StoreError>;

    /// A page of holds.
    async fn holds(&self, filter: HoldFilter) -> Result<HoldPage, StoreError>;

    /// Writes back what is buffered and closes connections. The last call.
    async fn close(&self);
}
