//! Which history of the database this is, and lanes that come from another one.
//!
//! What was committed last is gone after a failover to a standby that had not heard of it, and after
//! a backup was restored. The fence lets no lane give out anything in a history of the database in
//! which it has not been held against its chain; this is how it gets there.
//!
//! A history is named by its timeline and by the tables it is written in: tables that were loaded from
//! a dump, and those of a copied database, are others.

use std::time::Duration;

use serde_json::Value;
use stile_domain::{
    Failover, HistoryChange, HoldId, Lane, LaneEventKind, Loss, NodeId, Nonce, REMEMBERED,
    Remembered,
};
use tokio_postgres::Row;
use tokio_postgres::types::Json;
use tracing::warn;
use uuid::Uuid;

use super::fence::{FenceResult, Fenced, fence};
use super::reached;
use super::rows;
use super::session::{Sessions, Statement};
use crate::lane_entries::{SETTLES_ITSELF, realigned_data};
use crate::{Claim, FencingToken, Realigned, Refusal, StoreError};

pub(super) async fn arrive(sessions: &Sessions) -> Result<Vec<Lane>, StoreError> {
    let server = server(sessions).await?;
    let unaligned = sessions.write(include_str!("sql/arrive.sql"), &[&server]).await?;
    unaligned.iter().map(rows::lane).collect()
}

/// What tells one server from another, standbys aside. Some who offer PostgreSQL as a service let
/// nobody ask, or do not have the function; then only the tables count.
async fn server(sessions: &Sessions) -> Result<String, StoreError> {
    let sql = "SELECT to_regprocedure('pg_control_system()') IS NOT NULL AS has";
    if !sessions.read(sql, &[]).await?.first().is_some_and(|row| row.get("has")) {
        return Ok(String::new());
    }
    let sql = "SELECT system_identifier::text FROM pg_control_system()";
    match sessions.read(sql, &[]).await {
        Ok(rows) => Ok(rows.first().map(|row| row.try_get(0)).transpose()?.unwrap_or_default()),
        Err(StoreError::Internal(_)) => Ok(String::new()),
        Err(error) => Err(error),
    }
}

/// See [`crate::Store::realign`]. If the tables were put in the place of others while nodes ran, that
/// is noted first, of all lanes.
pub(super) async fn realign(
    sessions: &Sessions,
    node: &NodeId,
    claim: &Claim,
    remembered: &Remembered,
    data: &Value,
    lease: Duration,
) -> Result<Result<Option<Realigned>, Refusal>, StoreError> {
    let asked = Asked { node, claim, remembered, data, lease };
    match asked.realign(sessions, true).await? {
        Answer::Done(answer) => return Ok(answer),
        Answer::OtherTables => {
            arrive(sessions).await?;
        }
        Answer::Loss { losses, before } => note_loss(sessions, losses, &before).await?,
    }
    match asked.realign(sessions, false).await? {
        Answer::Done(answer) => Ok(answer),
        Answer::OtherTables | Answer::Loss { .. } => Ok(Ok(None)),
    }
}

/// A standby was promoted that is said to have had every commit, and something contradicts that. No lane
/// of this history is taken for whole from then on.
async fn note_loss(
    sessions: &Sessions,
    losses: Option<i64>,
    before: &str,
) -> Result<(), StoreError> {
    let row = reached::write_loss(sessions, losses, Some(timeline(before))).await?;
    if row.try_get("noted")? {
        warn!(
            lanes = row.try_get::<_, i64>("lanes")?,
            "store.failover says that failovers lose nothing, and commits are missing: signers are compared with their \
             chains, and what waits is not sent by itself"
        );
    }
    Ok(())
}

/// What came of realigning a lane.
enum Answer {
    /// It was done, or is not to be done.
    Done(Result<Option<Realigned>, Refusal>),
    /// The tables are others than the lane was in, which is to be noted first.
    OtherTables,
    /// Commits are missing, which is to be noted first.
    Loss { losses: Option<i64>, before: String },
}

/// What a lane is to be realigned with.
struct Asked<'a> {
    node: &'a NodeId,
    claim: &'a Claim,
    remembered: &'a Remembered,
    data: &'a Value,
    lease: Duration,
}

impl Asked<'_> {
    /// With `note_first`, what concerns other lanes too is to be noted before anything is written.
    async fn realign(&self, sessions: &Sessions, note_first: bool) -> Result<Answer, StoreError> {
        let Self { node, claim, remembered, data, lease } = *self;
        sessions
            .within(StoreError::CommitUnknown, async {
                let FenceResult { fenced, mut refused } =
                    fence(sessions, &[(*claim, None)], lease).await?;
                if let Some(refusal) = refused.remove(&claim.lane) {
                    fenced.into_transaction().rollback().await?;
                    return Ok(Answer::Done(Err(refusal)));
                }
                let mut standing = fenced.alignment(claim.lane).await?;
                if standing.is_lossless(remembered.failover) {
                    standing = fenced.kept_alignment(claim.lane).await?;
                }
                let history = (standing.before.as_deref(), standing.here.as_str());
                let Some(cursor) = standing.cursor.filter(|_| history.0 != Some(history.1)) else {
                    fenced.into_transaction().rollback().await?;
                    return Ok(Answer::Done(Ok(None)));
                };
                if note_first && standing.is_elsewhere() {
                    fenced.into_transaction().rollback().await?;
                    return Ok(Answer::OtherTables);
                }
                let (cursor, highest) = (rows::nonce(cursor), standing.highest.map(rows::nonce));
                let change = standing.change();
                let may_lose = change.may_lose(remembered.failover);
                let loss = remembered.shows_a_loss(cursor, highest, claim.token.get());
                if let (true, false, Loss::OfTheDatabase, Some(before)) =
                    (note_first, may_lose, loss, history.0)
                {
                    let (losses, before) = (standing.losses, before.to_owned());
                    fenced.into_transaction().rollback().await?;
                    return Ok(Answer::Loss { losses, before });
                }
                let lossless = !may_lose && loss == Loss::Unseen;
                let covered = match lossless {
                    true => Ok(Vec::new()),
                    false => {
                        fenced.covered(claim.lane, change, remembered, (cursor, highest)).await?
                    }
                };
                let lost = covered.as_deref().unwrap_or_default();
                let above = lost.iter().map(|it| it.nonce + 1).max().unwrap_or(0);
                let realigned = Realigned {
                    from: Some(cursor),
                    to: remembered.cursor(cursor, highest).max(above),
                    token: FencingToken(remembered.token_above(claim.token.get()).cast_signed()),
                    restored: covered.is_err(),
                    bound_again: lost.len(),
                };
                let mut kept: Vec<Nonce> = remembered.only_remembered(cursor, highest).collect();
                kept.retain(|nonce| !lost.iter().any(|it| it.nonce == *nonce));
                let history = (history.0.map(timeline), timeline(history.1));
                let mut data =
                    realigned_data(data, &realigned, remembered, history, &standing.name());
                // Not known, but believed: see `note_lost_lanes.sql`.
                data["lossless"] = lossless.into();
                if !may_lose && loss == Loss::OfThisLane {
                    data["reason"] = OTHERS_MAY_HAVE.into();
                    data[SETTLES_ITSELF] = true.into();
                }
                // What a person is to be asked about is not settled by what comes on top of it.
                if standing.is_marked && data[SETTLES_ITSELF] == true {
                    data[SETTLES_ITSELF] = false.into();
                }
                if let Err(why) = &covered {
                    data["notCovered"] = why.to_string().into();
                }
                if !fenced.bind_again(node, claim, lost).await? {
                    fenced.into_transaction().rollback().await?;
                    let why =
                        "a transaction that was to be bound again has just changed".to_owned();
                    return Err(StoreError::Unavailable(why));
                }
                fenced.realign_and_commit(node, claim.lane, &realigned, &kept, &data).await?;
                Ok(Answer::Done(Ok(Some(realigned))))
            })
            .await
    }
}

/// The timeline of a history, without the tables that it is written in.
pub(super) fn timeline(history: &str) -> &str {
    history.split_once('/').map_or(history, |(timeline, _)| timeline)
}

/// The tables that a history is written in.
fn place(history: &str) -> Option<&str> {
    history.split_once('/').map(|(_, place)| place)
}

/// How a lane stands to the history of the database.
struct Standing {
    cursor: Option<i64>,
    highest: Option<i64>,
    before: Option<String>,
    here: String,
    to_a_point: bool,
    lossy: bool,
    losses: Option<i64>,
    /// What was restored before is not settled yet.
    is_marked: bool,
}

/// Why a lane is marked that others use by declaration.
const OTHERS_MAY_HAVE: &str = "the chain has more transactions of the account than the database that took over \
                               knows of: others who use the key may have sent them, or commits are missing";

/// The name of a history of the database: where it is written, and how often commits were found to be gone.
fn name(here: &str, losses: Option<i64>) -> String {
    format!("{here}#{}", losses.unwrap_or(0))
}

/// See [`crate::RestoreStore::history_name`].
pub(super) async fn history_name(sessions: &Sessions) -> Result<String, StoreError> {
    let sql = "SELECT stile_timeline() AS here, (SELECT o.losses FROM origin o) AS losses";
    let found = sessions.read(sql, &[]).await?;
    let row = found.first().ok_or_else(|| StoreError::Internal("no answer".into()))?;
    Ok(name(row.try_get("here")?, row.try_get("losses")?))
}

impl Standing {
    fn read(row: &Row) -> Result<Self, StoreError> {
        Ok(Self {
            cursor: row.try_get("next_nonce")?,
            highest: row.try_get("highest")?,
            before: row.try_get("timeline")?,
            here: row.try_get("here")?,
            to_a_point: row.try_get("to_a_point")?,
            lossy: row.try_get("lossy")?,
            losses: row.try_get("losses")?,
            is_marked: row.try_get("is_marked")?,
        })
    }

    fn name(&self) -> String {
        name(&self.here, self.losses)
    }

    /// Whether the lane is to be made part of this history, and that is said to lack nothing.
    fn is_lossless(&self, failover: Failover) -> bool {
        self.before.as_ref() != Some(&self.here) && !self.change().may_lose(failover)
    }

    /// How the database came to another history than the lane's.
    fn change(&self) -> HistoryChange {
        match &self.before {
            None => HistoryChange::Copy,
            Some(_) if self.is_elsewhere() => HistoryChange::Copy,
            Some(_) if self.to_a_point => HistoryChange::PointInTime,
            Some(_) if self.lossy => HistoryChange::Lossy,
            Some(_) => HistoryChange::Promotion,
        }
    }

    /// Whether the lane was last in other tables, or in those of another database.
    fn is_elsewhere(&self) -> bool {
        self.before.as_deref().is_some_and(|before| place(before) != place(&self.here))
    }
}

const ALIGNMENT: &str = include_str!("sql/alignment.sql");

fn standing(lane: Lane, found: &[Row]) -> Result<Standing, StoreError> {
    let gone = || StoreError::Internal(format!("the row of {lane} is gone"));
    Standing::read(found.first().ok_or_else(gone)?)
}

impl Fenced {
    async fn alignment(&self, lane: Lane) -> Result<Standing, StoreError> {
        let (chain, signer) = (rows::chain(lane), lane.signer.as_slice());
        let found = self.transaction().query(ALIGNMENT, &[&chain, &signer]).await?;
        standing(lane, &found)
    }

    /// The same, and until the end of this transaction nobody finds that commits of this history are
    /// gone: whoever does finds the lane as it leaves it. Not for a lane that is part of this history
    /// already, whose row they may wait for.
    async fn kept_alignment(&self, lane: Lane) -> Result<Standing, StoreError> {
        let (chain, signer) = (rows::chain(lane), lane.signer.as_slice());
        let statements: [Statement<'_>; 2] =
            [(include_str!("sql/keep_history.sql"), &[]), (ALIGNMENT, &[&chain, &signer])];
        let found = self.transaction().query_all(&statements).await?;
        standing(lane, found.last().map_or(&[], |rows| rows.as_slice()))
    }

    /// Makes a lane that passed part of this history, and commits everything.
    async fn realign_and_commit(
        self,
        node: &NodeId,
        lane: Lane,
        realigned: &Realigned,
        remembered: &[Nonce],
        data: &Value,
    ) -> Result<(), StoreError> {
        let holds: Vec<Uuid> = remembered.iter().map(|_| HoldId::fresh().0).collect();
        let nonces: Vec<i64> = remembered.iter().map(|nonce| nonce.cast_signed()).collect();
        self.into_transaction()
            .execute_and_commit(
                include_str!("sql/realign.sql"),
                &[
                    &rows::chain(lane),
                    &lane.signer.as_slice(),
                    &realigned.to.cast_signed(),
                    &realigned.token.0,
                    &LaneEventKind::Realigned.name(),
                    &node.0,
                    &Json(data),
                    &realigned.restored,
                    &nonces,
                    &holds,
                    &REMEMBERED,
                ],
            )
            .await
    }
}
