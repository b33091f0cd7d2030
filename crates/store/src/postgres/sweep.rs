//! What the holder does besides binding: the first cursor, holds that ran out, and what the chain
//! shows.

use std::collections::HashMap;
use std::time::Duration;

use stile_domain::{
    Failover, HeldExpiry, Hold, HoldStatus, Lane, LaneEventKind, NodeId, Nonce, USED_BY_OTHERS,
};
use tokio_postgres::Row;
use tokio_postgres::types::Json;

use super::fence::{FenceResult, Fenced, fence};
use super::rows::{self, LaneColumns};
use super::session::Sessions;
use crate::lane_entries::started_data;
use crate::{Beginning, Claim, Refusal, StoreError};

pub(super) async fn start_cursor(
    sessions: &Sessions,
    node: &NodeId,
    claim: &Claim,
    beginning: Beginning,
    lease: Duration,
) -> Result<Result<Nonce, Refusal>, StoreError> {
    sessions
        .within(StoreError::CommitUnknown, async {
            let FenceResult { fenced, mut refused } =
                fence(sessions, &[(*claim, None)], lease).await?;
            if let Some(refusal) = refused.remove(&claim.lane) {
                fenced.into_transaction().rollback().await?;
                return Ok(Err(refusal));
            }
            let cursor = fenced.start_cursor(node, claim.lane, beginning).await?;
            fenced.into_transaction().commit().await?;
            Ok(Ok(cursor))
        })
        .await
}

pub(super) async fn expire(
    sessions: &Sessions,
    claims: &[Claim],
    policy: HeldExpiry,
    lease: Duration,
) -> Result<Vec<Result<Vec<Hold>, Refusal>>, StoreError> {
    let status = match policy {
        HeldExpiry::Suspect => HoldStatus::Suspect,
        HeldExpiry::Reclaim => HoldStatus::Released,
    };
    sessions
        .within(StoreError::CommitUnknown, async {
            let unmoved: Vec<_> = claims.iter().map(|claim| (*claim, None)).collect();
            let FenceResult { fenced, refused } = fence(sessions, &unmoved, lease).await?;
            let changed = fenced.expire(status).await?;
            fenced.into_transaction().commit().await?;
            answers(claims.iter(), refused, &changed)
        })
        .await
}

pub(super) async fn settle(
    sessions: &Sessions,
    seen: &[(Claim, Nonce)],
    lease: Duration,
) -> Result<Vec<Result<Vec<Hold>, Refusal>>, StoreError> {
    sessions
        .within(StoreError::CommitUnknown, async {
            let unmoved: Vec<_> = seen.iter().map(|(claim, _)| (*claim, None)).collect();
            let FenceResult { fenced, refused } = fence(sessions, &unmoved, lease).await?;
            let changed = fenced.settle(seen).await?;
            fenced.into_transaction().commit().await?;
            answers(seen.iter().map(|(claim, _)| claim), refused, &changed)
        })
        .await
}

/// Sorts changed holds to their lanes, refusals to theirs.
fn answers<'c>(
    claims: impl Iterator<Item = &'c Claim>,
    mut refused: HashMap<Lane, Refusal>,
    changed: &[Row],
) -> Result<Vec<Result<Vec<Hold>, Refusal>>, StoreError> {
    let mut holds: HashMap<Lane, Vec<Hold>> = HashMap::new();
    for row in changed {
        let hold = rows::hold(row)?;
        holds.entry(hold.lane).or_default().push(hold);
    }
    Ok(claims
        .map(|claim| match refused.remove(&claim.lane) {
            Some(refusal) => Err(refusal),
            None => Ok(holds.remove(&claim.lane).unwrap_or_default()),
        })
        .collect())
}

impl Fenced {
    /// Sets a cursor that is not set yet; answers where it stands.
    async fn start_cursor(
        &self,
        node: &NodeId,
        lane: Lane,
        beginning: Beginning,
    ) -> Result<Nonce, StoreError> {
        let Beginning { at, used, known_before, failover } = beginning;
        let rows = self
            .transaction()
            .query(
                include_str!("sql/start_cursor.sql"),
                &[
                    &rows::chain(lane),
                    &lane.signer.as_slice(),
                    &at.cast_signed(),
                    &LaneEventKind::Started.name(),
                    &node.0,
                    &Json(started_data(at)),
                    &known_before,
                    &(failover == Failover::Synchronous),
                    &used.min(at).cast_signed(),
                ],
            )
            .await?;
        let row =
            rows.first().ok_or_else(|| StoreError::Internal("the lane row is gone".into()))?;
        Ok(rows::nonce(row.try_get("next_nonce")?))
    }

    async fn expire(&self, status: HoldStatus) -> Result<Vec<Row>, StoreError> {
        let columns = LaneColumns::of(self.lanes());
        self.transaction()
            .query(
                include_str!("sql/expire.sql"),
                &[&columns.chains, &columns.signers, &status.name()],
            )
            .await
    }

    async fn settle(&self, seen: &[(Claim, Nonce)]) -> Result<Vec<Row>, StoreError> {
        let passed: Vec<_> =
            seen.iter().filter(|(claim, _)| self.claim(claim.lane).is_some()).collect();
        let columns = LaneColumns::of(passed.iter().map(|(claim, _)| claim.lane));
        let latest: Vec<i64> = passed.iter().map(|(_, latest)| latest.cast_signed()).collect();
        self.transaction()
            .execute(
                include_str!("sql/record_chain_nonce.sql"),
                &[&columns.chains, &columns.signers, &latest],
            )
            .await?;
        self.transaction()
            .query(
                include_str!("sql/settle.sql"),
                &[&columns.chains, &columns.signers, &latest, &USED_BY_OTHERS],
            )
            .await
    }
}
