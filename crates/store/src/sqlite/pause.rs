//! Pause and resume, and what else is known of a lane without a lease.

use rusqlite::{Connection, OptionalExtension, params};
use serde_json::Value;
use stile_domain::{Lane, LaneEventKind, NodeId};

use super::rows;
use super::stream::LaneEntry;
use crate::lane_entries::paused_data;
use crate::{NewLaneEvent, Realign, Resumed, StoreError};

pub(super) fn pause(
    connection: &Connection,
    node: &NodeId,
    lane: Lane,
    reason: &str,
    data: &Value,
) -> Result<bool, StoreError> {
    let now = rows::now(connection)?;
    let changed = connection
        .prepare_cached(
            "UPDATE lane SET paused = ?3, fencing_token = fencing_token + 1, updated_at = ?4
             WHERE chain_id = ?1 AND signer = ?2 AND paused IS NULL",
        )?
        .execute(params![rows::chain(lane), lane.signer.as_slice(), reason, now])?;
    if changed == 0 {
        return Ok(cursor(connection, lane)?.is_some());
    }
    let data = paused_data(reason, data);
    let kind = LaneEventKind::Paused;
    LaneEntry { lane, kind, node, token: None, data: &data, now }.write(connection)?;
    Ok(true)
}

pub(super) fn resume(
    connection: &Connection,
    node: &NodeId,
    lane: Lane,
    realign: Option<Realign>,
    data: &Value,
) -> Result<Resumed, StoreError> {
    let key = params![rows::chain(lane), lane.signer.as_slice()];
    let Some(cursor) = cursor(connection, lane)? else { return Ok(Resumed::NotFound) };
    if let Some(Realign { from, to }) = realign {
        let taken: Option<i64> = connection
            .prepare_cached("SELECT max(nonce) FROM nonce WHERE chain_id = ?1 AND signer = ?2")?
            .query_row(key, |row| row.get(0))?;
        let free = taken.is_none_or(|nonce| rows::nonce(nonce) < to);
        if cursor.map(rows::nonce) != Some(from) || !free {
            return Ok(Resumed::Moved);
        }
    }
    let now = rows::now(connection)?;
    connection
        .prepare_cached(
            "UPDATE lane
             SET paused = NULL, fencing_token = fencing_token + 1,
                 next_nonce = coalesce(?3, next_nonce), updated_at = ?4
             WHERE chain_id = ?1 AND signer = ?2",
        )?
        .execute(params![
            rows::chain(lane),
            lane.signer.as_slice(),
            realign.map(|realign| realign.to.cast_signed()),
            now
        ])?;
    let kind = LaneEventKind::Resumed;
    LaneEntry { lane, kind, node, token: None, data, now }.write(connection)?;
    Ok(Resumed::Done)
}

pub(super) fn tell(
    connection: &Connection,
    node: &NodeId,
    lane: Lane,
    event: &NewLaneEvent,
) -> Result<(), StoreError> {
    let NewLaneEvent { kind, data } = event;
    let now = rows::now(connection)?;
    LaneEntry { lane, kind: *kind, node, token: None, data, now }.write(connection)
}

/// Where a lane's cursor stands, if it has one yet; `None` if there is no such lane.
fn cursor(connection: &Connection, lane: Lane) -> Result<Option<Option<i64>>, StoreError> {
    Ok(connection
        .prepare_cached("SELECT next_nonce FROM lane WHERE chain_id = ?1 AND signer = ?2")?
        .query_row(params![rows::chain(lane), lane.signer.as_slice()], |row| row.get(0))
        .optional()?)
}
