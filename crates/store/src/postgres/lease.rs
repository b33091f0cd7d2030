//! Acquire, take, renew, release, hand over.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use stile_domain::{Holder, Lane};
use tokio_postgres::types::{ToSql, Type};

use super::rows::{self, ClaimColumns, LaneColumns};
use super::session::Sessions;
use crate::{
    Acquisition, Claim, ExpiredLane, HeldLane, LANES_A_RENEWAL, Owner, Renewal, StoreError,
};

pub(super) async fn acquire(
    sessions: &Sessions,
    holder: &Holder,
    lanes: &[Lane],
    patience: Duration,
    lease: Duration,
) -> Result<Vec<Acquisition>, StoreError> {
    let columns = LaneColumns::of(lanes.iter().copied());
    let rows = sessions
        .write(
            include_str!("sql/acquire.sql"),
            &[
                &columns.chains,
                &columns.signers,
                &holder.node.0,
                &holder.incarnation.0,
                &holder.url,
                &rows::seconds(lease),
                &rows::seconds(patience),
            ],
        )
        .await?;
    let mut held: HashMap<Lane, HeldLane> =
        held_lanes(&rows, holder)?.into_iter().map(|lane| (lane.claim.lane, lane)).collect();
    let others: Vec<Lane> = lanes.iter().copied().filter(|lane| !held.contains_key(lane)).collect();
    let mut owners = owners(sessions, &others).await?;
    lanes
        .iter()
        .map(|lane| match (held.remove(lane), owners.remove(lane)) {
            (Some(held), _) => Ok(Acquisition::Held(held)),
            (None, Some(owner)) => Ok(Acquisition::Other(owner)),
            (None, None) => Err(StoreError::Internal(format!("the row of {lane} is gone"))),
        })
        .collect()
}

pub(super) async fn take_own(
    sessions: &Sessions,
    holder: &Holder,
    lease: Duration,
) -> Result<Vec<HeldLane>, StoreError> {
    let rows = sessions
        .write(
            include_str!("sql/take_own.sql"),
            &[&holder.node.0, &holder.incarnation.0, &holder.url, &rows::seconds(lease)],
        )
        .await?;
    held_lanes(&rows, holder)
}

pub(super) async fn take_expired(
    sessions: &Sessions,
    holder: &Holder,
    lease: Duration,
    limit: u32,
    reorg_window: u32,
) -> Result<Vec<HeldLane>, StoreError> {
    let rows = sessions
        .write(
            concat!(include_str!("sql/due_lanes.sql"), include_str!("sql/take_expired.sql")),
            &[
                &i64::from(reorg_window),
                &i64::from(limit),
                &holder.node.0,
                &holder.incarnation.0,
                &holder.url,
                &rows::seconds(lease),
            ],
        )
        .await?;
    held_lanes(&rows, holder)
}

pub(super) async fn expired_lanes(
    sessions: &Sessions,
    limit: u32,
    reorg_window: u32,
) -> Result<Vec<ExpiredLane>, StoreError> {
    let found = sessions
        .read_often(
            concat!(include_str!("sql/due_lanes.sql"), include_str!("sql/expired_lanes.sql")),
            &[&i64::from(reorg_window), &i64::from(limit)],
        )
        .await?;
    found
        .iter()
        .map(|row| {
            let overdue = Duration::try_from_secs_f64(row.try_get("overdue_secs")?);
            Ok(ExpiredLane { lane: rows::lane(row)?, overdue: overdue.unwrap_or_default() })
        })
        .collect()
}

pub(super) async fn take_lanes(
    sessions: &Sessions,
    holder: &Holder,
    lanes: &[Lane],
    lease: Duration,
) -> Result<Vec<HeldLane>, StoreError> {
    let columns = LaneColumns::of(lanes.iter().copied());
    let rows = sessions
        .write(
            include_str!("sql/take_lanes.sql"),
            &[
                &holder.node.0,
                &holder.incarnation.0,
                &holder.url,
                &rows::seconds(lease),
                &columns.chains,
                &columns.signers,
            ],
        )
        .await?;
    held_lanes(&rows, holder)
}

pub(super) async fn hand_over(
    sessions: &Sessions,
    claim: &Claim,
    to: &Holder,
) -> Result<bool, StoreError> {
    #[cfg(feature = "planted-bugs")]
    if crate::planted::Bug::ReleaseDeletes.is_planted() {
        let released = release(sessions, std::slice::from_ref(claim)).await?;
        return Ok(released == [true]);
    }
    let handed = sessions
        .write(
            include_str!("sql/hand_over.sql"),
            &[
                &rows::chain(claim.lane),
                &claim.lane.signer.as_slice(),
                &claim.incarnation.0,
                &claim.token.0,
                &to.node.0,
                &to.incarnation.0,
                &to.url,
            ],
        )
        .await?;
    Ok(!handed.is_empty())
}

pub(super) async fn renew(
    sessions: &Sessions,
    claims: &[Claim],
    lease: Duration,
) -> Result<Vec<Renewal>, StoreError> {
    let mut renewed = HashSet::with_capacity(claims.len());
    let mut sorted = claims.to_vec();
    sorted.sort_unstable_by_key(|claim| claim.lane);
    for chunk in sorted.chunks(LANES_A_RENEWAL) {
        renewed.extend(touch(sessions, include_str!("sql/renew.sql"), chunk, Some(lease)).await?);
    }
    let rest: Vec<Lane> =
        claims.iter().map(|claim| claim.lane).filter(|lane| !renewed.contains(lane)).collect();
    let mut owners = owners(sessions, &rest).await?;
    Ok(claims
        .iter()
        .map(|claim| match owners.remove(&claim.lane) {
            Some(owner) if owner.token != claim.token || owner.incarnation != claim.incarnation => {
                Renewal::Fenced(owner)
            }
            Some(_) => Renewal::Skipped,
            None => Renewal::Renewed,
        })
        .collect())
}

pub(super) async fn release(
    sessions: &Sessions,
    claims: &[Claim],
) -> Result<Vec<bool>, StoreError> {
    let mut released = HashSet::with_capacity(claims.len());
    for chunk in claims.chunks(LANES_A_RENEWAL) {
        #[cfg(feature = "planted-bugs")]
        if crate::planted::Bug::ReleaseDeletes.is_planted() {
            sessions.write(include_str!("sql/planted/drop_guard.sql"), &[]).await?;
            let sql = include_str!("sql/planted/release_by_deleting.sql");
            released.extend(touch(sessions, sql, chunk, None).await?);
            continue;
        }
        released.extend(touch(sessions, include_str!("sql/release.sql"), chunk, None).await?);
    }
    Ok(claims.iter().map(|claim| released.contains(&claim.lane)).collect())
}

/// Renews or releases one chunk; answers with the lanes that were still ours.
async fn touch(
    sessions: &Sessions,
    sql: &'static str,
    claims: &[Claim],
    lease: Option<Duration>,
) -> Result<Vec<Lane>, StoreError> {
    let columns = ClaimColumns::of(claims.iter());
    let lease_seconds = lease.map(rows::seconds);
    let mut params: Vec<&(dyn ToSql + Sync)> =
        vec![&columns.lanes.chains, &columns.lanes.signers, &columns.incarnations, &columns.tokens];
    if let Some(seconds) = &lease_seconds {
        params.push(seconds);
    }
    let rows = sessions.write(sql, &params).await?;
    rows.iter().map(rows::lane).collect()
}

fn held_lanes(rows: &[tokio_postgres::Row], holder: &Holder) -> Result<Vec<HeldLane>, StoreError> {
    rows.iter().map(|row| rows::held_lane(row, holder.incarnation)).collect()
}

/// Who holds these lanes.
async fn owners(sessions: &Sessions, lanes: &[Lane]) -> Result<HashMap<Lane, Owner>, StoreError> {
    if lanes.is_empty() {
        return Ok(HashMap::new());
    }
    let columns = LaneColumns::of(lanes.iter().copied());
    let rows = sessions
        .read(
            include_str!("sql/lane_rows.sql"),
            &[(&columns.chains, Type::INT8_ARRAY), (&columns.signers, Type::BYTEA_ARRAY)],
        )
        .await?;
    rows.iter().map(|row| Ok((rows::lane(row)?, rows::owner(row)?))).collect()
}
