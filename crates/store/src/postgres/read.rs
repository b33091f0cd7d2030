//! Reads.

use std::collections::HashMap;

use stile_domain::{Hold, HoldId, Lane, Nonce, Released};
use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

use super::rows::{self, LaneColumns};
use super::session::Sessions;
use crate::{AllocationKey, HoldFilter, HoldPage, LaneSurvey, LaneView, StoreError};

pub(super) async fn ping(sessions: &Sessions) -> Result<(), StoreError> {
    sessions.read("SELECT 1", &[]).await.map(drop)
}

/// The columns of a list of holds, as `unnest` takes them.
struct HoldColumns {
    lanes: LaneColumns,
    nonces: Vec<i64>,
    holds: Vec<Uuid>,
}

impl HoldColumns {
    fn of(wanted: &[(Lane, Nonce, HoldId)]) -> Self {
        Self {
            lanes: LaneColumns::of(wanted.iter().map(|(lane, ..)| *lane)),
            nonces: wanted.iter().map(|(_, nonce, _)| nonce.cast_signed()).collect(),
            holds: wanted.iter().map(|(.., hold)| hold.0).collect(),
        }
    }
}

/// Holds by id, with whether their nonce has been given out again since.
pub(super) async fn holds_by_id(
    sessions: &Sessions,
    wanted: &[(Lane, Nonce, HoldId)],
) -> Result<HashMap<HoldId, (Hold, bool)>, StoreError> {
    if wanted.is_empty() {
        return Ok(HashMap::new());
    }
    let columns = HoldColumns::of(wanted);
    let rows = sessions
        .read(
            include_str!("sql/hold_rows.sql"),
            &[
                (&columns.lanes.chains, Type::INT8_ARRAY),
                (&columns.lanes.signers, Type::BYTEA_ARRAY),
                (&columns.nonces, Type::INT8_ARRAY),
                (&columns.holds, Type::UUID_ARRAY),
            ],
        )
        .await?;
    rows.iter()
        .map(|row| {
            let hold = rows::hold(row)?;
            Ok((hold.id, (hold, row.try_get("past")?)))
        })
        .collect()
}

pub(super) async fn read_back(
    sessions: &Sessions,
    lane: Lane,
    holds: &[(Nonce, HoldId)],
) -> Result<Vec<Hold>, StoreError> {
    let wanted: Vec<_> = holds.iter().map(|(nonce, hold)| (lane, *nonce, *hold)).collect();
    let columns = HoldColumns::of(&wanted);
    sessions
        .within(StoreError::Unavailable, async {
            // Whoever is still committing has the lane's row locked; this waits for the end of it.
            let (transaction, _) = sessions
                .begin(
                    "SELECT 1 FROM lane WHERE chain_id = $1 AND signer = $2 FOR UPDATE",
                    &[&rows::chain(lane), &lane.signer.as_slice()],
                )
                .await?;
            let found = transaction
                .query(
                    include_str!("sql/hold_rows.sql"),
                    &[
                        &columns.lanes.chains,
                        &columns.lanes.signers,
                        &columns.nonces,
                        &columns.holds,
                    ],
                )
                .await?;
            transaction.rollback().await?;
            found.iter().map(rows::hold).collect()
        })
        .await
}

pub(super) async fn allocated_under(
    sessions: &Sessions,
    lane: Lane,
    keys: &[AllocationKey],
) -> Result<Vec<Option<Hold>>, StoreError> {
    let tenants: Vec<&str> = keys.iter().map(|key| key.tenant.as_str()).collect();
    let texts: Vec<&str> = keys.iter().map(|key| key.key.as_str()).collect();
    let rows = sessions
        .read(
            include_str!("sql/allocated_under.sql"),
            &[
                (&rows::chain(lane), Type::INT8),
                (&lane.signer.as_slice(), Type::BYTEA),
                (&tenants, Type::TEXT_ARRAY),
                (&texts, Type::TEXT_ARRAY),
            ],
        )
        .await?;
    let mut by_key: HashMap<AllocationKey, HoldId> = HashMap::new();
    let mut wanted = Vec::new();
    for row in &rows {
        let hold = HoldId(row.try_get("hold_id")?);
        wanted.push((lane, rows::nonce(row.try_get("nonce")?), hold));
        let key =
            AllocationKey { tenant: row.try_get("tenant")?, key: row.try_get("idempotency_key")? };
        by_key.insert(key, hold);
    }
    let found = holds_by_id(sessions, &wanted).await?;
    Ok(keys
        .iter()
        .map(|key| by_key.get(key).and_then(|id| found.get(id)).map(|(hold, _)| hold.clone()))
        .collect())
}

pub(super) async fn survey(
    sessions: &Sessions,
    lanes: &[Lane],
) -> Result<Vec<LaneSurvey>, StoreError> {
    let rows = by_lane(sessions, include_str!("sql/survey.sql"), lanes).await?;
    rows.iter()
        .map(|row| {
            let released: Vec<i64> = row.try_get("released")?;
            let holds: Vec<Uuid> = row.try_get("released_holds")?;
            let suspect: Vec<i64> = row.try_get("suspect")?;
            Ok(LaneSurvey {
                lane: rows::lane(row)?,
                released: released
                    .into_iter()
                    .zip(holds)
                    .map(|(nonce, hold)| Released { nonce: rows::nonce(nonce), hold: HoldId(hold) })
                    .collect(),
                suspect: suspect.into_iter().map(rows::nonce).collect(),
                expired: row.try_get::<_, i64>("expired")?.unsigned_abs(),
                highest_consumed: row
                    .try_get::<_, Option<i64>>("highest_consumed")?
                    .map(rows::nonce),
            })
        })
        .collect()
}

pub(super) async fn lanes(
    sessions: &Sessions,
    lanes: &[Lane],
) -> Result<Vec<Option<LaneView>>, StoreError> {
    let lane_rows = by_lane(sessions, include_str!("sql/lane_rows.sql"), lanes).await?;
    let counts = by_lane(sessions, include_str!("sql/lane_counts.sql"), lanes).await?;
    let mut views: HashMap<Lane, LaneView> = HashMap::with_capacity(lanes.len());
    for row in &lane_rows {
        let lane = rows::lane(row)?;
        views.insert(
            lane,
            LaneView {
                lane,
                owner: rows::owner(row)?,
                expires_at: row.try_get("expires_at")?,
                next_nonce: row.try_get::<_, Option<i64>>("next_nonce")?.map(rows::nonce),
                last_chain_nonce: row
                    .try_get::<_, Option<i64>>("last_chain_nonce")?
                    .map(rows::nonce),
                paused: row.try_get("paused")?,
                elsewhere: rows::elsewhere(row)?,
                aligned: row.try_get("aligned")?,
                restored: rows::restored(row)?,
                held: 0,
                suspect: 0,
                gaps: Vec::new(),
                in_flight: 0,
                queued: 0,
            },
        );
    }
    for row in &counts {
        if let Some(view) = views.get_mut(&rows::lane(row)?) {
            view.held = row.try_get::<_, i64>("held")?.unsigned_abs();
            view.suspect = row.try_get::<_, i64>("suspect")?.unsigned_abs();
            view.in_flight = row.try_get::<_, i64>("in_flight")?.unsigned_abs();
            view.queued = row.try_get::<_, i64>("queued")?.unsigned_abs();
            view.gaps = row.try_get::<_, Vec<i64>>("gaps")?.into_iter().map(rows::nonce).collect();
        }
    }
    Ok(lanes.iter().map(|lane| views.remove(lane)).collect())
}

pub(super) async fn holds(sessions: &Sessions, filter: HoldFilter) -> Result<HoldPage, StoreError> {
    let after = filter.after.map_or(-1, |nonce| nonce.cast_signed());
    let status = filter.status.map(|status| status.name());
    let rows = sessions
        .read(
            include_str!("sql/holds_page.sql"),
            &[
                (&rows::chain(filter.lane), Type::INT8),
                (&filter.lane.signer.as_slice(), Type::BYTEA),
                (&after, Type::INT8),
                (&status, Type::TEXT),
                (&(i64::from(filter.limit) + 1), Type::INT8),
            ],
        )
        .await?;
    let holds = rows.iter().map(rows::hold).collect::<Result<_, _>>()?;
    Ok(HoldPage::cut(holds, filter.limit))
}

async fn by_lane(
    sessions: &Sessions,
    sql: &str,
    lanes: &[Lane],
) -> Result<Vec<tokio_postgres::Row>, StoreError> {
    let columns = LaneColumns::of(lanes.iter().copied());
    let params: [(&(dyn ToSql + Sync), Type); 2] =
        [(&columns.chains, Type::INT8_ARRAY), (&columns.signers, Type::BYTEA_ARRAY)];
    sessions.read(sql, &params).await
}
