//! Pause and resume, and what else is known of a lane without a lease.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};
use serde_json::Value;
use stile_domain::{Lane, LaneEventKind, NodeId};

use super::fence::{Fenced, fence};
use super::rows;
use super::stream::LaneEntry;
use crate::lane_entries::paused_data;
use crate::{Claim, NewLaneEvent, Realign, Refusal, Resumed, StoreError};

pub(super) fn pause(
    connection: &Connection,
    node: &NodeId,
    lane: Lane,
    reason: &str,
    data: &Value,
) -> Result<bool, StoreError> {
    let now = rows::now(connection)?;
    if !set_paused(connection, lane, reason, now)? {
        return Ok(cursor(connection, lane)?.is_some());
    }
    let data = paused_data(reason, data);
    let kind = LaneEventKind::Paused;
    LaneEntry { lane, kind, node, token: None, data: &data, now }.write(connection)?;
    Ok(true)
}

/// See `sql/keep_paused.sql` of the other store.
pub(super) fn keep_paused(
    connection: &Connection,
    node: &NodeId,
    lane: Lane,
    reason: &str,
    data: &Value,
) -> Result<bool, StoreError> {
    let now = rows::now(connection)?;
    let changed = connection
        .prepare_cached(
            "UPDATE lane SET paused = ?3, fencing_token = fencing_token + (paused IS NULL), updated_at = ?4
             WHERE chain_id = ?1 AND signer = ?2",
        )?
        .execute(params![rows::chain(lane), lane.signer.as_slice(), reason, now])?;
    if changed == 0 {
        return Ok(false);
    }
    let data = paused_data(reason, data);
    let kind = LaneEventKind::Paused;
    LaneEntry { lane, kind, node, token: None, data: &data, now }.write(connection)?;
    Ok(true)
}

/// `false` if there is no such lane, or it is paused already.
fn set_paused(
    connection: &Connection,
    lane: Lane,
    reason: &str,
    now: i64,
) -> Result<bool, StoreError> {
    let changed = connection
        .prepare_cached(
            "UPDATE lane SET paused = ?3, fencing_token = fencing_token + 1, updated_at = ?4
             WHERE chain_id = ?1 AND signer = ?2 AND paused IS NULL",
        )?
        .execute(params![rows::chain(lane), lane.signer.as_slice(), reason, now])?;
    Ok(changed == 1)
}

pub(super) fn pause_as_holder(
    connection: &Connection,
    claim: &Claim,
    found: &NewLaneEvent,
    reason: &str,
    lease: Duration,
) -> Result<Result<(), Refusal>, StoreError> {
    match fence(connection, claim, None, lease)? {
        Ok(fenced) => fenced.pause(found, reason).map(Ok),
        Err(refusal) => Ok(Err(refusal)),
    }
}

impl Fenced<'_> {
    /// Pauses the lane, with what was found.
    fn pause(&self, found: &NewLaneEvent, reason: &str) -> Result<(), StoreError> {
        self.tell(found)?;
        if set_paused(self.connection(), self.claim().lane, reason, self.now())? {
            let data = paused_data(reason, &found.data);
            self.tell(&NewLaneEvent { kind: LaneEventKind::Paused, data })?;
        }
        Ok(())
    }
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
                 next_nonce = coalesce(?3, next_nonce), updated_at = ?4,
                 restored_to = CASE WHEN restore_settled_at IS NULL THEN max(restored_to, coalesce(?3, restored_to))
                                    ELSE restored_to END
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
