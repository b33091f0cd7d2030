//! The store on PostgreSQL, for many nodes.
//!
//! | file | what is in it |
//! |---|---|
//! | `connect` | the pool, TLS, what every new connection is asked |
//! | `session` | one transaction or read on a pooled connection, with its deadline |
//! | `statement` | statements, with a pooler in between and without |
//! | `schema` | migrations |
//! | `fence` | the fence, and the guard it yields |
//! | `lease` | acquire, take, renew, release |
//! | `lane_work` | one transaction for several lanes, of which one may fail |
//! | `bind` | planned holds |
//! | `gather` | calls that wait are committed together |
//! | `sweep` | the first cursor, holds that ran out, what the chain shows |
//! | `mend` | nonces that somebody else used, and those that nobody has |
//! | `origin` | lanes from another history of the database |
//! | `reached` | how far the database has been seen to come, and whether it has gone back |
//! | `restored` | lanes of a restored database |
//! | `mark` | callers' marks: what needs no lease |
//! | `pause` | pause and resume: what needs no lease either |
//! | `retention` | removing what is over |
//! | `read` | reads |
//! | `rows` | rows to values and back |
//! | `tx_store` | the part of the trait that is about transactions |
//! | `accept` | transactions taken in |
//! | `by_request` | transactions by their callers' names |
//! | `bind_txs` | transactions that get their nonces |
//! | `wishes` | what callers want of them afterwards |
//! | `record` | what happened to them |
//! | `stream` | the stream of all events, and the histories of lanes |
//! | `headers` | which blocks are canonical |
//! | `read_txs` | reads of transactions |
//! | `tx_rows` | their rows to values and back |
//! | `node_store` | the part of the trait that is about the nodes themselves |
//! | `listen`, `news` | what nodes tell each other |
//! | `key_store` | the part of the trait that is about API keys |
//! | `rollout_store` | the part of the trait that is about whose the lanes are |
//! | `rollout` | which lanes are Stile's |
//! | `import` | nonces taken over from V1 |
//! | `sql/` | the statements |

mod accept;
mod bind;
mod bind_txs;
mod by_request;
pub(crate) mod connect;
mod fence;
mod gather;
mod headers;
mod import;
mod key_store;
mod lane_work;
mod lease;
mod listen;
mod mark;
mod memory;
mod mend;
mod news;
mod node_store;
mod origin;
mod pause;
mod reached;
mod read;
mod read_txs;
mod record;
mod restored;
mod retention;
mod rollout;
mod rollout_store;
pub(crate) mod rows;
mod schema;
mod session;
mod statement;
mod stream;
mod sweep;
mod tx_rows;
mod tx_store;
mod wishes;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use stile_domain::{HeldExpiry, Hold, HoldId, Holder, Lane, NodeId, Nonce, Remembered};

use crate::{
    Acquisition, AllocationKey, Beginning, Binding, Claim, ExpiredLane, HeldLane, HoldFilter,
    HoldPage, LaneEvent, LaneSurvey, LaneView, Mark, MarkOutcome, NewLaneEvent, Realign, Realigned,
    Refusal, Renewal, Resumed, SchemaReport, Store, StoreError, StreamPosition,
};
pub use connect::PostgresOptions;
pub use statement::Pooler;

/// PostgreSQL behind the [`Store`] trait.
#[derive(Debug)]
pub struct PostgresStore {
    sessions: session::Sessions,
    /// Beside the pool, so that no load holds up what keeps the leases: one connection renews them
    /// and does nothing else, one takes lanes over and gives them back.
    renewals: session::Sessions,
    takeovers: session::Sessions,
    /// How notifications are listened for.
    direct: tokio_postgres::Config,
    bindings: gather::Gather<bind::Bind>,
    acceptances: gather::Gather<accept::Accept>,
    requests: gather::Gather<by_request::ByRequest>,
    tx_bindings: gather::Gather<bind_txs::BindTxs>,
    records: gather::Gather<record::Record>,
}

impl PostgresStore {
    /// Builds the pool. Connects only when first used.
    pub fn new(options: PostgresOptions) -> Result<Self, StoreError> {
        let direct = connect::config(options.direct_url.as_ref().unwrap_or(&options.url).reveal())?;
        let reached = Arc::default();
        Ok(Self {
            direct,
            renewals: session::Sessions::for_renewals(&options, &reached)?,
            takeovers: session::Sessions::for_takeovers(&options, &reached)?,
            sessions: session::Sessions::new(options, &reached)?,
            bindings: gather::Gather::new(),
            acceptances: gather::Gather::new(),
            requests: gather::Gather::new(),
            tx_bindings: gather::Gather::new(),
            records: gather::Gather::new(),
        })
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn migrate(&self) -> Result<SchemaReport, StoreError> {
        schema::migrate(&self.sessions).await
    }

    async fn check_schema(&self) -> Result<(), StoreError> {
        schema::check(&self.sessions).await
    }

    async fn arrive(&self) -> Result<Vec<Lane>, StoreError> {
        schema::check_whole(&self.sessions).await?;
        let unaligned = origin::arrive(&self.sessions).await?;
        reached::learn(&self.sessions).await?;
        stream::name_history(&self.sessions).await?;
        Ok(unaligned)
    }

    async fn ping(&self) -> Result<(), StoreError> {
        read::ping(&self.sessions).await
    }

    async fn acquire(
        &self,
        holder: &Holder,
        lanes: &[Lane],
        lease: Duration,
    ) -> Result<Vec<Acquisition>, StoreError> {
        lease::acquire(&self.sessions, holder, lanes, Duration::ZERO, lease).await
    }

    async fn acquire_patiently(
        &self,
        holder: &Holder,
        lanes: &[Lane],
        patience: Duration,
        lease: Duration,
    ) -> Result<Vec<Acquisition>, StoreError> {
        lease::acquire(&self.sessions, holder, lanes, patience, lease).await
    }

    async fn expired_lanes(
        &self,
        limit: u32,
        reorg_window: u32,
    ) -> Result<Vec<ExpiredLane>, StoreError> {
        lease::expired_lanes(&self.takeovers, limit, reorg_window).await
    }

    async fn take_lanes(
        &self,
        holder: &Holder,
        lanes: &[Lane],
        lease: Duration,
    ) -> Result<Vec<HeldLane>, StoreError> {
        lease::take_lanes(&self.takeovers, holder, lanes, lease).await
    }

    async fn hand_over(&self, claim: &Claim, to: &Holder) -> Result<bool, StoreError> {
        lease::hand_over(&self.sessions, claim, to).await
    }

    async fn take_own(
        &self,
        holder: &Holder,
        lease: Duration,
    ) -> Result<Vec<HeldLane>, StoreError> {
        lease::take_own(&self.sessions, holder, lease).await
    }

    async fn take_expired(
        &self,
        holder: &Holder,
        lease: Duration,
        limit: u32,
        reorg_window: u32,
    ) -> Result<Vec<HeldLane>, StoreError> {
        lease::take_expired(&self.takeovers, holder, lease, limit, reorg_window).await
    }

    async fn renew(&self, claims: &[Claim], lease: Duration) -> Result<Vec<Renewal>, StoreError> {
        lease::renew(&self.renewals, claims, lease).await
    }

    async fn release(&self, claims: &[Claim]) -> Result<Vec<bool>, StoreError> {
        lease::release(&self.takeovers, claims).await
    }

    async fn follow_chain(
        &self,
        claim: &Claim,
        realign: Realign,
        event: &NewLaneEvent,
        lease: Duration,
    ) -> Result<Result<(), Refusal>, StoreError> {
        mend::follow_chain(&self.sessions, claim, realign, event, lease).await
    }

    async fn own_up(
        &self,
        claim: &Claim,
        nonces: &[Nonce],
        reason: &str,
        lease: Duration,
    ) -> Result<Result<Vec<Hold>, Refusal>, StoreError> {
        mend::own_up(&self.sessions, claim, nonces, reason, lease).await
    }

    async fn pause_as_holder(
        &self,
        claim: &Claim,
        found: &NewLaneEvent,
        reason: &str,
        lease: Duration,
    ) -> Result<Result<(), Refusal>, StoreError> {
        pause::pause_as_holder(&self.sessions, claim, found, reason, lease).await
    }

    async fn start_cursor(
        &self,
        node: &NodeId,
        claim: &Claim,
        beginning: Beginning,
        lease: Duration,
    ) -> Result<Result<Nonce, Refusal>, StoreError> {
        sweep::start_cursor(&self.sessions, node, claim, beginning, lease).await
    }

    async fn realign(
        &self,
        node: &NodeId,
        claim: &Claim,
        remembered: &Remembered,
        data: &serde_json::Value,
        lease: Duration,
    ) -> Result<Result<Option<Realigned>, Refusal>, StoreError> {
        origin::realign(&self.sessions, node, claim, remembered, data, lease).await
    }

    async fn bind(
        &self,
        bindings: &[Binding],
        lease: Duration,
        hold_timeout: Duration,
    ) -> Result<Vec<Result<Vec<Hold>, Refusal>>, StoreError> {
        let work = bind::Bind { lease, hold_timeout };
        self.bindings.run(&self.sessions, work, bindings).await
    }

    async fn expire(
        &self,
        claims: &[Claim],
        policy: HeldExpiry,
        lease: Duration,
    ) -> Result<Vec<Result<Vec<Hold>, Refusal>>, StoreError> {
        sweep::expire(&self.sessions, claims, policy, lease).await
    }

    async fn settle(
        &self,
        seen: &[(Claim, Nonce)],
        lease: Duration,
    ) -> Result<Vec<Result<Vec<Hold>, Refusal>>, StoreError> {
        sweep::settle(&self.sessions, seen, lease).await
    }

    async fn mark(&self, marks: &[Mark]) -> Result<Vec<MarkOutcome>, StoreError> {
        mark::mark(&self.sessions, marks).await
    }

    async fn pause(
        &self,
        node: &NodeId,
        lane: Lane,
        reason: &str,
        data: &serde_json::Value,
    ) -> Result<bool, StoreError> {
        pause::pause(&self.sessions, node, lane, reason, data).await
    }

    async fn keep_paused(
        &self,
        node: &NodeId,
        lane: Lane,
        reason: &str,
        data: &serde_json::Value,
    ) -> Result<bool, StoreError> {
        pause::keep_paused(&self.sessions, node, lane, reason, data).await
    }

    async fn resume(
        &self,
        node: &NodeId,
        lane: Lane,
        realign: Option<Realign>,
        data: &serde_json::Value,
    ) -> Result<Resumed, StoreError> {
        pause::resume(&self.sessions, node, lane, realign, data).await
    }

    async fn tell_lane(
        &self,
        node: &NodeId,
        lane: Lane,
        event: &NewLaneEvent,
    ) -> Result<(), StoreError> {
        pause::tell(&self.sessions, node, lane, event).await
    }

    async fn sweep_holds(
        &self,
        lane: Lane,
        below: Nonce,
        kept: Duration,
        limit: u32,
    ) -> Result<u64, StoreError> {
        retention::sweep_holds(&self.sessions, lane, below, kept, limit).await
    }

    async fn sweep_past_holds(&self, kept: Duration, limit: u32) -> Result<u64, StoreError> {
        retention::sweep_past_holds(&self.sessions, kept, limit).await
    }

    async fn lanes_with_old_holds(&self, kept: Duration) -> Result<Vec<Lane>, StoreError> {
        retention::lanes_with_old_holds(&self.sessions, kept).await
    }

    async fn read_back(
        &self,
        lane: Lane,
        holds: &[(Nonce, HoldId)],
    ) -> Result<Vec<Hold>, StoreError> {
        read::read_back(&self.sessions, lane, holds).await
    }

    async fn allocated_under(
        &self,
        lane: Lane,
        keys: &[AllocationKey],
    ) -> Result<Vec<Option<Hold>>, StoreError> {
        read::allocated_under(&self.sessions, lane, keys).await
    }

    async fn survey(&self, lanes: &[Lane]) -> Result<Vec<LaneSurvey>, StoreError> {
        read::survey(&self.sessions, lanes).await
    }

    async fn lanes(&self, lanes: &[Lane]) -> Result<Vec<Option<LaneView>>, StoreError> {
        read::lanes(&self.sessions, lanes).await
    }

    async fn lane_history(
        &self,
        lane: Lane,
        before: Option<StreamPosition>,
        limit: u32,
    ) -> Result<Vec<LaneEvent>, StoreError> {
        stream::lane_history(&self.sessions, lane, before, limit).await
    }

    async fn holds(&self, filter: HoldFilter) -> Result<HoldPage, StoreError> {
        read::holds(&self.sessions, filter).await
    }

    async fn close(&self) {
        self.sessions.close();
        self.renewals.close();
        self.takeovers.close();
    }
}
