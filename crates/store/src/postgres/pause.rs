//! Pause and resume, and what else is known of a lane without a lease.

use std::time::Duration;

use serde_json::Value;
use stile_domain::{Lane, LaneEventKind, NodeId};
use tokio_postgres::types::Json;

use super::fence::{FenceResult, Fenced, fence};
use super::rows;
use super::session::Sessions;
use crate::lane_entries::paused_data;
use crate::{Claim, NewLaneEvent, Realign, Refusal, Resumed, StoreError};

pub(super) async fn pause(
    sessions: &Sessions,
    node: &NodeId,
    lane: Lane,
    reason: &str,
    data: &Value,
) -> Result<bool, StoreError> {
    write(sessions, include_str!("sql/pause.sql"), node, lane, reason, data).await
}

pub(super) async fn keep_paused(
    sessions: &Sessions,
    node: &NodeId,
    lane: Lane,
    reason: &str,
    data: &Value,
) -> Result<bool, StoreError> {
    write(sessions, include_str!("sql/keep_paused.sql"), node, lane, reason, data).await
}

async fn write(
    sessions: &Sessions,
    sql: &'static str,
    node: &NodeId,
    lane: Lane,
    reason: &str,
    data: &Value,
) -> Result<bool, StoreError> {
    let found = sessions
        .write(
            sql,
            &[
                &rows::chain(lane),
                &lane.signer.as_slice(),
                &reason,
                &LaneEventKind::Paused.name(),
                &node.0,
                &Json(paused_data(reason, data)),
            ],
        )
        .await?;
    Ok(!found.is_empty())
}

pub(super) async fn pause_as_holder(
    sessions: &Sessions,
    claim: &Claim,
    found: &NewLaneEvent,
    reason: &str,
    lease: Duration,
) -> Result<Result<(), Refusal>, StoreError> {
    sessions
        .within(StoreError::CommitUnknown, async {
            let FenceResult { fenced, mut refused } =
                fence(sessions, &[(*claim, None)], lease).await?;
            if let Some(refusal) = refused.remove(&claim.lane) {
                fenced.into_transaction().rollback().await?;
                return Ok(Err(refusal));
            }
            fenced.pause_and_commit(claim, found, reason).await?;
            Ok(Ok(()))
        })
        .await
}

impl Fenced {
    /// Pauses a lane that passed, with what was found, and commits everything.
    async fn pause_and_commit(
        self,
        claim: &Claim,
        found: &NewLaneEvent,
        reason: &str,
    ) -> Result<(), StoreError> {
        let lane = claim.lane;
        let (chain, signer) = (rows::chain(lane), lane.signer.as_slice());
        let transaction = self.into_transaction();
        transaction
            .execute(
                include_str!("sql/tell_held_lane.sql"),
                &[&chain, &signer, &found.kind.name(), &Json(&found.data)],
            )
            .await?;
        transaction
            .execute_and_commit(
                include_str!("sql/pause_held.sql"),
                &[
                    &chain,
                    &signer,
                    &reason,
                    &LaneEventKind::Paused.name(),
                    &claim.token.0,
                    &Json(paused_data(reason, &found.data)),
                ],
            )
            .await
    }
}

pub(super) async fn resume(
    sessions: &Sessions,
    node: &NodeId,
    lane: Lane,
    realign: Option<Realign>,
    data: &Value,
) -> Result<Resumed, StoreError> {
    let (chain, signer) = (rows::chain(lane), lane.signer.as_slice());
    sessions
        .within(StoreError::CommitUnknown, async {
            let (transaction, locked) =
                sessions.begin(include_str!("sql/lock_lane.sql"), &[&chain, &signer]).await?;
            let Some(row) = locked.first() else {
                transaction.rollback().await?;
                return Ok(Resumed::NotFound);
            };
            if let Some(Realign { from, to }) = realign {
                let cursor: Option<i64> = row.try_get("next_nonce")?;
                // Asked by a statement of its own: the one that waited for the lock does not see
                // what was written meanwhile.
                let highest = transaction
                    .query(include_str!("sql/highest_nonce.sql"), &[&chain, &signer])
                    .await?;
                let taken: Option<i64> =
                    highest.first().map(|row| row.try_get("nonce")).transpose()?;
                let free = taken.is_none_or(|nonce| rows::nonce(nonce) < to);
                if cursor.map(rows::nonce) != Some(from) || !free {
                    transaction.rollback().await?;
                    return Ok(Resumed::Moved);
                }
            }
            let to = realign.map(|realign| realign.to.cast_signed());
            let (kind, data) = (LaneEventKind::Resumed.name(), Json(data));
            transaction
                .execute_and_commit(
                    include_str!("sql/resume.sql"),
                    &[&chain, &signer, &to, &kind, &node.0, &data],
                )
                .await?;
            Ok(Resumed::Done)
        })
        .await
}

pub(super) async fn tell(
    sessions: &Sessions,
    node: &NodeId,
    lane: Lane,
    event: &NewLaneEvent,
) -> Result<(), StoreError> {
    sessions
        .write(
            include_str!("sql/tell_lane.sql"),
            &[
                &rows::chain(lane),
                &lane.signer.as_slice(),
                &event.kind.name(),
                &node.0,
                &Json(&event.data),
            ],
        )
        .await
        .map(drop)
}
