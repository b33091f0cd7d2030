//! What a holder does about nonces that are not as they should be: those that somebody else used,
//! and those that nobody has.

use std::time::Duration;

use stile_domain::{Hold, HoldId, Lane, Nonce, Timestamp, USED_BY_OTHERS};
use tokio_postgres::types::Json;
use uuid::Uuid;

use super::fence::{FenceResult, Fenced, fence};
use super::rows;
use super::session::Sessions;
use crate::{Claim, NewLaneEvent, Realign, Refusal, StoreError};

pub(super) async fn follow_chain(
    sessions: &Sessions,
    claim: &Claim,
    realign: Realign,
    event: &NewLaneEvent,
    lease: Duration,
) -> Result<Result<(), Refusal>, StoreError> {
    let Some(advance) = realign.forward() else { return Ok(Err(Refusal::CursorMoved)) };
    sessions
        .within(StoreError::CommitUnknown, async {
            let FenceResult { fenced, mut refused } =
                fence(sessions, &[(*claim, Some(advance))], lease).await?;
            if let Some(refusal) = refused.remove(&claim.lane) {
                fenced.into_transaction().rollback().await?;
                return Ok(Err(refusal));
            }
            fenced.tell_and_commit(claim.lane, event).await?;
            Ok(Ok(()))
        })
        .await
}

pub(super) async fn own_up(
    sessions: &Sessions,
    claim: &Claim,
    nonces: &[Nonce],
    reason: &str,
    lease: Duration,
) -> Result<Result<Vec<Hold>, Refusal>, StoreError> {
    sessions
        .within(StoreError::CommitUnknown, async {
            let FenceResult { fenced, mut refused } =
                fence(sessions, &[(*claim, None)], lease).await?;
            let (Some(now), None) = (fenced.time(), refused.get(&claim.lane)) else {
                fenced.into_transaction().rollback().await?;
                let gone = || StoreError::Internal(format!("the row of {} is gone", claim.lane));
                return refused.remove(&claim.lane).ok_or_else(gone).map(Err);
            };
            fenced.own_up_and_commit(claim.lane, nonces, reason, now).await.map(Ok)
        })
        .await
}

impl Fenced {
    /// Adds to the history of a lane that passed, and commits everything.
    async fn tell_and_commit(self, lane: Lane, event: &NewLaneEvent) -> Result<(), StoreError> {
        self.into_transaction()
            .execute_and_commit(
                include_str!("sql/tell_held_lane.sql"),
                &[
                    &rows::chain(lane),
                    &lane.signer.as_slice(),
                    &event.kind.name(),
                    &Json(&event.data),
                ],
            )
            .await
    }

    /// Writes nonces that nobody has as given back, and commits everything.
    async fn own_up_and_commit(
        self,
        lane: Lane,
        nonces: &[Nonce],
        reason: &str,
        now: Timestamp,
    ) -> Result<Vec<Hold>, StoreError> {
        let holds: Vec<Uuid> = nonces.iter().map(|_| HoldId::fresh().0).collect();
        let nonces: Vec<i64> =
            nonces.iter().map(|nonce| i64::try_from(*nonce).unwrap_or(i64::MAX)).collect();
        let (chain, signer) = (rows::chain(lane), lane.signer.as_slice());
        self.transaction()
            .execute(
                include_str!("sql/forget_used_by_others.sql"),
                &[&chain, &signer, &nonces, &USED_BY_OTHERS],
            )
            .await?;
        let written = self
            .into_transaction()
            .query_and_commit(
                include_str!("sql/own_up.sql"),
                &[&chain, &signer, &nonces, &holds, &reason, &now],
            )
            .await?;
        let mut holds: Vec<Hold> = written.iter().map(rows::hold).collect::<Result<_, _>>()?;
        holds.sort_unstable_by_key(|hold| hold.nonce);
        Ok(holds)
    }
}
