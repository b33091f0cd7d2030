//! Which history of the database this is, and lanes that come from another one.
//!
//! What was committed last is gone after a failover to a standby that had not heard of it, and after
//! a backup was restored. The fence lets no lane give out anything in a history of the database in
//! which it has not been held against its chain; this is how it gets there.

use std::time::Duration;

use serde_json::Value;
use stile_domain::{Lane, LaneEventKind, NodeId, Remembered};
use tokio_postgres::Row;
use tokio_postgres::types::Json;

use super::fence::{FenceResult, Fenced, fence};
use super::rows;
use super::session::Sessions;
use crate::lane_entries::realigned_data;
use crate::{Claim, FencingToken, Realigned, Refusal, StoreError};

pub(super) async fn arrive(sessions: &Sessions) -> Result<Vec<Lane>, StoreError> {
    let server = server(sessions).await?;
    let unaligned = sessions.write(include_str!("sql/arrive.sql"), &[&server]).await?;
    unaligned.iter().map(rows::lane).collect()
}

/// What tells one server from another, standbys aside. Some who offer PostgreSQL as a service let
/// nobody ask; then only the tables count.
async fn server(sessions: &Sessions) -> Result<String, StoreError> {
    let sql = "SELECT system_identifier::text FROM pg_control_system()";
    match sessions.read(sql, &[]).await {
        Ok(rows) => Ok(rows.first().map(|row| row.try_get(0)).transpose()?.unwrap_or_default()),
        Err(StoreError::Internal(_)) => Ok(String::new()),
        Err(error) => Err(error),
    }
}

pub(super) async fn realign(
    sessions: &Sessions,
    node: &NodeId,
    claim: &Claim,
    remembered: &Remembered,
    data: &Value,
    lease: Duration,
) -> Result<Result<Option<Realigned>, Refusal>, StoreError> {
    sessions
        .within(StoreError::CommitUnknown, async {
            let FenceResult { fenced, mut refused } =
                fence(sessions, &[(*claim, None)], lease).await?;
            if let Some(refusal) = refused.remove(&claim.lane) {
                fenced.into_transaction().rollback().await?;
                return Ok(Err(refusal));
            }
            let standing = fenced.alignment(claim.lane).await?;
            let history = (standing.before.as_deref(), standing.here.as_str());
            let Some(cursor) = standing.cursor.filter(|_| history.0 != Some(history.1)) else {
                fenced.into_transaction().rollback().await?;
                return Ok(Ok(None));
            };
            let realigned = Realigned {
                from: Some(rows::nonce(cursor)),
                to: remembered.cursor(rows::nonce(cursor), standing.highest.map(rows::nonce)),
                token: FencingToken(remembered.token_above(claim.token.get()).cast_signed()),
            };
            let data = realigned_data(data, &realigned, remembered, history);
            fenced.realign_and_commit(node, claim.lane, &realigned, &data).await?;
            Ok(Ok(Some(realigned)))
        })
        .await
}

/// How a lane stands to the history of the database.
struct Standing {
    cursor: Option<i64>,
    highest: Option<i64>,
    before: Option<String>,
    here: String,
}

impl Standing {
    fn read(row: &Row) -> Result<Self, StoreError> {
        Ok(Self {
            cursor: row.try_get("next_nonce")?,
            highest: row.try_get("highest")?,
            before: row.try_get("timeline")?,
            here: row.try_get("here")?,
        })
    }
}

impl Fenced {
    async fn alignment(&self, lane: Lane) -> Result<Standing, StoreError> {
        let found = self
            .transaction()
            .query(
                include_str!("sql/alignment.sql"),
                &[&rows::chain(lane), &lane.signer.as_slice()],
            )
            .await?;
        let gone = || StoreError::Internal(format!("the row of {lane} is gone"));
        Standing::read(found.first().ok_or_else(gone)?)
    }

    /// Makes a lane that passed part of this history, and commits everything.
    async fn realign_and_commit(
        self,
        node: &NodeId,
        lane: Lane,
        realigned: &Realigned,
        data: &Value,
    ) -> Result<(), StoreError> {
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
                ],
            )
            .await
    }
}
