//! Reads.

use rusqlite::{Connection, OptionalExtension, params};
use stile_domain::{Hold, HoldId, Lane, Nonce, Released};

use super::rows::{self, HOLD_COLUMNS, LANE_COLUMNS};
use crate::{AllocationKey, HoldFilter, HoldPage, LaneSurvey, LaneView, StoreError};

/// A hold by id, with whether its nonce has been given out again since.
pub(super) fn hold(
    connection: &Connection,
    lane: Lane,
    nonce: Nonce,
    id: HoldId,
) -> Result<Option<(Hold, bool)>, StoreError> {
    let sql = format!(
        "SELECT {HOLD_COLUMNS}, 0 AS past FROM nonce
         WHERE chain_id = ?1 AND signer = ?2 AND nonce = ?3 AND owner_kind = 'hold' AND owner_id = ?4
         UNION ALL
         SELECT chain_id, signer, nonce, hold_id, 'RELEASED', locked_until, NULL, reason, 1
         FROM past_hold WHERE hold_id = ?4 AND chain_id = ?1 AND signer = ?2 AND nonce = ?3"
    );
    Ok(connection
        .prepare_cached(&sql)?
        .query_row(
            params![rows::chain(lane), lane.signer.as_slice(), nonce.cast_signed(), id.0],
            |row| Ok((rows::hold(row)?, row.get("past")?)),
        )
        .optional()?)
}

pub(super) fn allocated_under(
    connection: &Connection,
    lane: Lane,
    AllocationKey { tenant, key }: &AllocationKey,
) -> Result<Option<Hold>, StoreError> {
    let found: Option<(i64, uuid::Uuid)> = connection
        .prepare_cached(
            "SELECT nonce, hold_id FROM allocation_key
             WHERE tenant = ?1 AND chain_id = ?2 AND signer = ?3 AND idempotency_key = ?4",
        )?
        .query_row(params![tenant, rows::chain(lane), lane.signer.as_slice(), key], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?;
    let Some((nonce, id)) = found else { return Ok(None) };
    Ok(hold(connection, lane, rows::nonce(nonce), HoldId(id))?.map(|(hold, _)| hold))
}

pub(super) fn survey(
    connection: &Connection,
    lane: Lane,
) -> Result<Option<LaneSurvey>, StoreError> {
    let now = rows::now(connection)?;
    let mut survey = LaneSurvey {
        lane,
        released: Vec::new(),
        suspect: Vec::new(),
        expired: 0,
        highest_consumed: None,
    };
    let mut statement = connection.prepare_cached(
        "SELECT nonce, owner_id, status FROM nonce INDEXED BY nonce_open
         WHERE chain_id = ?1 AND signer = ?2 AND status <> 'CONSUMED' AND owner_kind = 'hold'
           AND (status <> 'HELD' OR locked_until <= ?3)
         ORDER BY nonce",
    )?;
    let mut open = statement.query(params![rows::chain(lane), lane.signer.as_slice(), now])?;
    while let Some(row) = open.next()? {
        let nonce = rows::nonce(row.get("nonce")?);
        match row.get_ref("status")?.as_str().unwrap_or_default() {
            "RELEASED" => {
                survey.released.push(Released { nonce, hold: HoldId(row.get("owner_id")?) });
            }
            "SUSPECT" => survey.suspect.push(nonce),
            _ => survey.expired += 1,
        }
    }
    if survey.released.is_empty() && survey.suspect.is_empty() && survey.expired == 0 {
        return Ok(None);
    }
    survey.highest_consumed = connection
        .prepare_cached(
            "SELECT nonce FROM nonce WHERE chain_id = ?1 AND signer = ?2 AND status = 'CONSUMED'
             ORDER BY nonce DESC LIMIT 1",
        )?
        .query_row(params![rows::chain(lane), lane.signer.as_slice()], |row| row.get(0))
        .optional()?
        .map(rows::nonce);
    Ok(Some(survey))
}

pub(super) fn lane(connection: &Connection, lane: Lane) -> Result<Option<LaneView>, StoreError> {
    let now = rows::now(connection)?;
    let key = params![rows::chain(lane), lane.signer.as_slice()];
    let sql = format!("SELECT {LANE_COLUMNS} FROM lane WHERE chain_id = ?1 AND signer = ?2");
    let view = connection
        .prepare_cached(&sql)?
        .query_row(key, |row| {
            Ok(LaneView {
                lane,
                owner: rows::owner(row, now)?,
                expires_at: rows::time(row, "expires_at")?,
                next_nonce: row.get::<_, Option<i64>>("next_nonce")?.map(rows::nonce),
                last_chain_nonce: row.get::<_, Option<i64>>("last_chain_nonce")?.map(rows::nonce),
                paused: row.get("paused")?,
                elsewhere: rows::elsewhere(row)?,
                aligned: rows::is_aligned(row)?,
                restored: rows::restored(row)?,
                held: 0,
                suspect: 0,
                gaps: Vec::new(),
                in_flight: 0,
                queued: 0,
            })
        })
        .optional()?;
    let Some(mut view) = view else { return Ok(None) };
    let count = |status: &str| -> Result<u64, StoreError> {
        let count: i64 = connection
            .prepare_cached(
                "SELECT count(*) FROM nonce INDEXED BY nonce_open
                 WHERE chain_id = ?1 AND signer = ?2 AND status <> 'CONSUMED' AND status = ?3",
            )?
            .query_row(params![rows::chain(lane), lane.signer.as_slice(), status], |row| {
                row.get(0)
            })?;
        Ok(count.unsigned_abs())
    };
    view.held = count("HELD")?;
    view.suspect = count("SUSPECT")?;
    view.gaps = connection
        .prepare_cached(
            "SELECT nonce FROM nonce INDEXED BY nonce_open
             WHERE chain_id = ?1 AND signer = ?2 AND status <> 'CONSUMED' AND status = 'RELEASED'
             ORDER BY nonce LIMIT 100",
        )?
        .query_map(key, |row| row.get(0))?
        .map(|gap| gap.map(rows::nonce))
        .collect::<Result<_, _>>()?;
    let count = |sql: &str| -> Result<u64, StoreError> {
        let count: i64 = connection.prepare_cached(sql)?.query_row(key, |row| row.get(0))?;
        Ok(count.unsigned_abs())
    };
    view.in_flight = count(
        "SELECT count(*) FROM tx WHERE chain_id = ?1 AND signer = ?2
           AND state IN ('ALLOCATED', 'SUBMITTED', 'TRACKING') AND state <> 'TRACKING'
           AND rival_block IS NULL",
    )?;
    view.queued =
        count("SELECT count(*) FROM tx WHERE chain_id = ?1 AND signer = ?2 AND state = 'CREATED'")?;
    Ok(Some(view))
}

pub(super) fn holds(connection: &Connection, filter: HoldFilter) -> Result<HoldPage, StoreError> {
    // Those that are open and those that are over, each by an index of its own, so that the nonces
    // of transactions in between are not read.
    let part = |index: &str, which: &str| {
        format!(
            "SELECT * FROM (SELECT {HOLD_COLUMNS} FROM nonce INDEXED BY {index}
                 WHERE chain_id = ?1 AND signer = ?2 AND nonce > ?3 AND owner_kind = 'hold'
                   AND status {which} 'CONSUMED' AND (?4 IS NULL OR status = ?4)
                 ORDER BY nonce LIMIT ?5)"
        )
    };
    let (open, over) = (part("nonce_open", "<>"), part("nonce_hold_over", "="));
    let sql = format!("{open} UNION ALL {over} ORDER BY nonce LIMIT ?5");
    let holds = connection
        .prepare_cached(&sql)?
        .query_map(
            params![
                rows::chain(filter.lane),
                filter.lane.signer.as_slice(),
                filter.after.map_or(-1, |nonce| nonce.cast_signed()),
                filter.status.map(|status| status.name()),
                i64::from(filter.limit) + 1,
            ],
            rows::hold,
        )?
        .collect::<Result<_, _>>()?;
    Ok(HoldPage::cut(holds, filter.limit))
}
