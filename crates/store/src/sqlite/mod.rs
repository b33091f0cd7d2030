//! The store embedded in the process: SQLite, for one machine with nothing installed.
//!
//! One thread writes and commits whatever waits as one transaction (`writer`); reads run beside it
//! on connections of their own (`readers`). Commits are flushed to disk before they are answered.
//! A file lock keeps a second server away (`lock`). The rest mirrors the PostgreSQL store file by
//! file; where that one takes rows in bulk, this one loops, because here a statement costs no
//! round trip.

mod accept;
mod bind;
mod bind_txs;
mod events;
mod fence;
mod headers;
mod import;
mod key_store;
mod lease;
mod lock;
mod mark;
mod mend;
mod node_store;
mod one_name;
mod origin;
mod pause;
mod private;
mod read;
mod read_txs;
mod readers;
mod record;
mod restored;
mod retention;
mod rollout;
mod rollout_store;
mod rows;
mod schema;
mod stream;
mod sweep;
mod tx_rows;
mod tx_store;
mod wishes;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::Connection;
use stile_domain::{HeldExpiry, Hold, HoldId, Holder, Lane, NodeId, Nonce, Remembered};

use crate::{
    Acquisition, AllocationKey, Beginning, Binding, Claim, ExpiredLane, HeldLane, HoldFilter,
    HoldPage, LaneEvent, LaneSurvey, LaneView, Mark, MarkOutcome, NewLaneEvent, Realign, Realigned,
    Refusal, Renewal, Resumed, SchemaReport, Store, StoreError, StreamPosition,
};

/// SQLite behind the [`Store`] trait.
#[derive(Debug)]
pub struct SqliteStore {
    path: PathBuf,
    writer: writer::Writer,
    readers: readers::Readers,
    lock: Option<lock::ServerLock>,
    /// Nonces were given out since the database was last stamped.
    given_out: AtomicBool,
    /// One stamp at a time: each is compared with the one before.
    stamping: tokio::sync::Mutex<()>,
    /// The log is to be folded into the file, since somebody was reading when the server started.
    unfolded: AtomicBool,
}

impl SqliteStore {
    /// Opens or creates the database file. With `serve` it takes the server's lock and fails with
    /// [`StoreError::InUse`] if another process has it.
    pub fn open(path: &Path, serve: bool) -> Result<Self, StoreError> {
        let path = &one_name::of(path)?;
        let lock = if serve { Some(lock::ServerLock::take(path)?) } else { None };
        if serve {
            origin::check_log(path)?;
        }
        Ok(Self {
            path: path.to_owned(),
            writer: writer::Writer::start(connect(path)?)?,
            readers: readers::Readers::new(path.to_owned(), READ_LIMIT),
            lock,
            given_out: AtomicBool::default(),
            stamping: tokio::sync::Mutex::default(),
            unfolded: AtomicBool::default(),
        })
    }

    /// Ends reads that take longer than this.
    #[must_use]
    pub fn with_read_limit(mut self, limit: Duration) -> Self {
        self.readers = readers::Readers::new(self.path.clone(), limit);
        self
    }

    /// Stamps the database and the file beside it, if this process serves it. Answers with the lanes
    /// that come from an older copy.
    async fn stamp(&self, starts: bool) -> Result<Vec<Lane>, StoreError> {
        if self.lock.is_none() {
            return Ok(Vec::new());
        }
        let _alone = self.stamping.lock().await;
        let (beside, stamp) = (origin::beside(&self.path), origin::fresh_stamp());
        // Both are good until it is known which one the database has.
        let both = format!("{}\n{stamp}\n", beside.as_deref().unwrap_or_default().trim_end());
        self.put_beside(both).await?;
        let new = stamp.clone();
        let unaligned =
            self.write(move |c| origin::arrive(c, beside.as_deref(), &new, starts)).await?;
        self.put_beside(stamp).await?;
        Ok(unaligned)
    }

    /// Stamps anew if nonces were given out since the last time: a copy from before then is known for
    /// one when it is put back, whatever ended the server.
    async fn stamp_again(&self) {
        if self.given_out.swap(false, Ordering::SeqCst)
            && let Err(error) = self.stamp(false).await
        {
            self.given_out.store(true, Ordering::SeqCst);
            tracing::warn!(%error, "the database could not be stamped; tried again");
        }
        if self.unfolded.load(Ordering::SeqCst) {
            self.fold_start().await;
        }
    }

    /// Folds what the start has written into the file: a copy of the file alone has its stamp then.
    async fn fold_start(&self) {
        let folded = match self.fold().await {
            Ok(true) => self.write(origin::folded).await.map(|()| true),
            other => other,
        };
        if let Err(error) = &folded {
            tracing::warn!(%error, "the log could not be folded into the database; tried again");
        }
        self.unfolded.store(!matches!(folded, Ok(true)), Ordering::SeqCst);
    }

    async fn fold(&self) -> Result<bool, StoreError> {
        let path = self.path.clone();
        let folded = tokio::task::spawn_blocking(move || origin::fold(&path)).await;
        folded.map_err(|error| StoreError::Internal(error.to_string()))?
    }

    async fn put_beside(&self, stamps: String) -> Result<(), StoreError> {
        let path = self.path.clone();
        let written = tokio::task::spawn_blocking(move || origin::put_beside(&path, &stamps)).await;
        written.map_err(|error| StoreError::Internal(error.to_string()))?
    }

    /// A write that gives out nonces. Noted before and after: a stamp may come in between, and the
    /// caller may go away.
    async fn give_out<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.given_out.store(true, Ordering::SeqCst);
        let written = self.write(work).await;
        self.given_out.store(true, Ordering::SeqCst);
        written
    }

    async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.writer.write(work).await
    }

    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.readers.read(work).await
    }
}

/// Opens a connection that writes durably: in WAL mode `synchronous = FULL` flushes every commit.
pub(crate) fn connect(path: &Path) -> Result<Connection, StoreError> {
    let connection = Connection::open(path)
        .map_err(|e| StoreError::Unavailable(format!("cannot open {}: {e}", path.display())))?;
    connection.busy_timeout(Duration::from_secs(5))?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "full")?;
    // By default the log is folded back after every 4 MB, in the middle of a commit: with many
    // small commits that costs more than they do.
    connection.pragma_update(None, "wal_autocheckpoint", 4096)?;
    connection.pragma_update(None, "cache_size", -32_768)?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

/// The longest a read may take, if nothing else is said.
const READ_LIMIT: Duration = Duration::from_secs(5);

/// No patience at all.
const NONE: Duration = Duration::ZERO;

#[async_trait]
impl Store for SqliteStore {
    async fn migrate(&self) -> Result<SchemaReport, StoreError> {
        schema::migrate(self.path.clone()).await
    }

    async fn check_schema(&self) -> Result<(), StoreError> {
        self.read(schema::check).await
    }

    async fn arrive(&self) -> Result<Vec<Lane>, StoreError> {
        if self.lock.is_none() {
            return Ok(Vec::new());
        }
        // The log of this start begins with nothing in it.
        self.fold().await?;
        let unaligned = self.stamp(true).await?;
        self.fold_start().await;
        Ok(unaligned)
    }

    async fn ping(&self) -> Result<(), StoreError> {
        self.read(|connection| Ok(connection.execute_batch("SELECT 1")?)).await
    }

    async fn acquire(
        &self,
        holder: &Holder,
        lanes: &[Lane],
        lease: Duration,
    ) -> Result<Vec<Acquisition>, StoreError> {
        let (holder, lanes) = (holder.clone(), lanes.to_vec());
        self.write(move |c| {
            lanes.iter().map(|lane| lease::acquire(c, &holder, *lane, NONE, lease)).collect()
        })
        .await
    }

    async fn acquire_patiently(
        &self,
        holder: &Holder,
        lanes: &[Lane],
        patience: Duration,
        lease: Duration,
    ) -> Result<Vec<Acquisition>, StoreError> {
        let (holder, lanes) = (holder.clone(), lanes.to_vec());
        self.write(move |c| {
            lanes.iter().map(|lane| lease::acquire(c, &holder, *lane, patience, lease)).collect()
        })
        .await
    }

    async fn expired_lanes(
        &self,
        limit: u32,
        reorg_window: u32,
    ) -> Result<Vec<ExpiredLane>, StoreError> {
        self.read(move |c| lease::expired_lanes(c, limit, reorg_window)).await
    }

    async fn take_lanes(
        &self,
        holder: &Holder,
        lanes: &[Lane],
        lease: Duration,
    ) -> Result<Vec<HeldLane>, StoreError> {
        let (holder, lanes) = (holder.clone(), lanes.to_vec());
        self.write(move |c| lease::take_lanes(c, &holder, &lanes, lease)).await
    }

    async fn hand_over(&self, claim: &Claim, to: &Holder) -> Result<bool, StoreError> {
        let (claim, to) = (*claim, to.clone());
        self.write(move |c| lease::hand_over(c, &claim, &to)).await
    }

    async fn take_own(
        &self,
        holder: &Holder,
        lease: Duration,
    ) -> Result<Vec<HeldLane>, StoreError> {
        let holder = holder.clone();
        self.write(move |c| lease::take_own(c, &holder, lease)).await
    }

    async fn take_expired(
        &self,
        holder: &Holder,
        lease: Duration,
        limit: u32,
        reorg_window: u32,
    ) -> Result<Vec<HeldLane>, StoreError> {
        let holder = holder.clone();
        self.write(move |c| lease::take_expired(c, &holder, lease, limit, reorg_window)).await
    }

    async fn renew(&self, claims: &[Claim], lease: Duration) -> Result<Vec<Renewal>, StoreError> {
        let claims = claims.to_vec();
        self.writer
            .write_first(move |c| {
                claims.iter().map(|claim| lease::renew(c, claim, lease)).collect()
            })
            .await
    }

    async fn release(&self, claims: &[Claim]) -> Result<Vec<bool>, StoreError> {
        let claims = claims.to_vec();
        self.write(move |c| claims.iter().map(|claim| lease::release(c, claim)).collect()).await
    }

    async fn follow_chain(
        &self,
        claim: &Claim,
        realign: Realign,
        event: &NewLaneEvent,
        lease: Duration,
    ) -> Result<Result<(), Refusal>, StoreError> {
        let (claim, event) = (*claim, event.clone());
        self.write(move |c| mend::follow_chain(c, &claim, realign, &event, lease)).await
    }

    async fn own_up(
        &self,
        claim: &Claim,
        nonces: &[Nonce],
        reason: &str,
        lease: Duration,
    ) -> Result<Result<Vec<Hold>, Refusal>, StoreError> {
        let (claim, nonces, reason) = (*claim, nonces.to_vec(), reason.to_owned());
        self.write(move |c| mend::own_up(c, &claim, &nonces, &reason, lease)).await
    }

    async fn pause_as_holder(
        &self,
        claim: &Claim,
        found: &NewLaneEvent,
        reason: &str,
        lease: Duration,
    ) -> Result<Result<(), Refusal>, StoreError> {
        let (claim, found, reason) = (*claim, found.clone(), reason.to_owned());
        self.write(move |c| pause::pause_as_holder(c, &claim, &found, &reason, lease)).await
    }

    async fn start_cursor(
        &self,
        node: &NodeId,
        claim: &Claim,
        beginning: Beginning,
        lease: Duration,
    ) -> Result<Result<Nonce, Refusal>, StoreError> {
        let (node, claim) = (node.clone(), *claim);
        self.write(move |c| sweep::start_cursor(c, &node, &claim, beginning, lease)).await
    }

    async fn realign(
        &self,
        node: &NodeId,
        claim: &Claim,
        remembered: &Remembered,
        data: &serde_json::Value,
        lease: Duration,
    ) -> Result<Result<Option<Realigned>, Refusal>, StoreError> {
        let (node, claim, remembered, data) =
            (node.clone(), *claim, remembered.clone(), data.clone());
        self.write(move |c| origin::realign(c, &node, &claim, &remembered, &data, lease)).await
    }

    async fn bind(
        &self,
        bindings: &[Binding],
        lease: Duration,
        hold_timeout: Duration,
    ) -> Result<Vec<Result<Vec<Hold>, Refusal>>, StoreError> {
        let bindings = bindings.to_vec();
        self.give_out(move |c| {
            bindings.iter().map(|binding| bind::bind(c, binding, lease, hold_timeout)).collect()
        })
        .await
    }

    async fn expire(
        &self,
        claims: &[Claim],
        policy: HeldExpiry,
        lease: Duration,
    ) -> Result<Vec<Result<Vec<Hold>, Refusal>>, StoreError> {
        let claims = claims.to_vec();
        self.write(move |c| {
            claims.iter().map(|claim| sweep::expire(c, claim, policy, lease)).collect()
        })
        .await
    }

    async fn settle(
        &self,
        seen: &[(Claim, Nonce)],
        lease: Duration,
    ) -> Result<Vec<Result<Vec<Hold>, Refusal>>, StoreError> {
        let seen = seen.to_vec();
        self.write(move |c| {
            seen.iter().map(|(claim, latest)| sweep::settle(c, claim, *latest, lease)).collect()
        })
        .await
    }

    async fn mark(&self, marks: &[Mark]) -> Result<Vec<MarkOutcome>, StoreError> {
        let marks = marks.to_vec();
        self.write(move |c| marks.iter().map(|mark| mark::mark(c, mark)).collect()).await
    }

    async fn pause(
        &self,
        node: &NodeId,
        lane: Lane,
        reason: &str,
        data: &serde_json::Value,
    ) -> Result<bool, StoreError> {
        let (node, reason, data) = (node.clone(), reason.to_owned(), data.clone());
        self.write(move |c| pause::pause(c, &node, lane, &reason, &data)).await
    }

    async fn keep_paused(
        &self,
        node: &NodeId,
        lane: Lane,
        reason: &str,
        data: &serde_json::Value,
    ) -> Result<bool, StoreError> {
        let (node, reason, data) = (node.clone(), reason.to_owned(), data.clone());
        self.write(move |c| pause::keep_paused(c, &node, lane, &reason, &data)).await
    }

    async fn resume(
        &self,
        node: &NodeId,
        lane: Lane,
        realign: Option<Realign>,
        data: &serde_json::Value,
    ) -> Result<Resumed, StoreError> {
        let (node, data) = (node.clone(), data.clone());
        self.write(move |c| pause::resume(c, &node, lane, realign, &data)).await
    }

    async fn tell_lane(
        &self,
        node: &NodeId,
        lane: Lane,
        event: &NewLaneEvent,
    ) -> Result<(), StoreError> {
        let (node, event) = (node.clone(), event.clone());
        self.write(move |c| pause::tell(c, &node, lane, &event)).await
    }

    async fn sweep_holds(
        &self,
        lane: Lane,
        below: Nonce,
        kept: Duration,
        limit: u32,
    ) -> Result<u64, StoreError> {
        self.write(move |c| retention::sweep_holds(c, lane, below, kept, limit)).await
    }

    async fn sweep_past_holds(&self, kept: Duration, limit: u32) -> Result<u64, StoreError> {
        self.write(move |c| retention::sweep_past_holds(c, kept, limit)).await
    }

    async fn lanes_with_old_holds(&self, kept: Duration) -> Result<Vec<Lane>, StoreError> {
        self.read(move |c| retention::lanes_with_old_holds(c, kept)).await
    }

    async fn read_back(
        &self,
        lane: Lane,
        holds: &[(Nonce, HoldId)],
    ) -> Result<Vec<Hold>, StoreError> {
        let holds = holds.to_vec();
        // On the writer's thread: behind every commit that was under way.
        self.write(move |c| {
            let found: Result<Vec<_>, _> =
                holds.iter().map(|(nonce, hold)| read::hold(c, lane, *nonce, *hold)).collect();
            Ok(found?.into_iter().flatten().map(|(hold, _)| hold).collect())
        })
        .await
    }

    async fn allocated_under(
        &self,
        lane: Lane,
        keys: &[AllocationKey],
    ) -> Result<Vec<Option<Hold>>, StoreError> {
        let keys = keys.to_vec();
        self.read(move |c| keys.iter().map(|key| read::allocated_under(c, lane, key)).collect())
            .await
    }

    async fn survey(&self, lanes: &[Lane]) -> Result<Vec<LaneSurvey>, StoreError> {
        let lanes = lanes.to_vec();
        self.read(move |c| {
            let surveys: Result<Vec<_>, _> =
                lanes.iter().map(|lane| read::survey(c, *lane)).collect();
            Ok(surveys?.into_iter().flatten().collect())
        })
        .await
    }

    async fn lanes(&self, lanes: &[Lane]) -> Result<Vec<Option<LaneView>>, StoreError> {
        let lanes = lanes.to_vec();
        self.read(move |c| lanes.iter().map(|lane| read::lane(c, *lane)).collect()).await
    }

    async fn lane_history(
        &self,
        lane: Lane,
        before: Option<StreamPosition>,
        limit: u32,
    ) -> Result<Vec<LaneEvent>, StoreError> {
        self.read(move |c| stream::lane_history(c, lane, before, limit)).await
    }

    async fn holds(&self, filter: HoldFilter) -> Result<HoldPage, StoreError> {
        self.read(move |c| read::holds(c, filter)).await
    }

    async fn close(&self) {
        // The next start compares; if it cannot be written, lanes are only looked at once more then.
        let _ = self.stamp(false).await;
        self.writer.close().await;
    }
}
