//! Rows to values and back.

use std::time::Duration;

use rusqlite::types::Type;
use rusqlite::{Connection, Row};
use stile_domain::{
    Address, B256, ChainId, Elsewhere, Hold, HoldId, HoldStatus, Incarnation, Lane, NodeId, Nonce,
    Timestamp,
};
use uuid::Uuid;

use crate::{Claim, FencingToken, HeldLane, Owner, RestoreMark, StoreError, Takeover};

/// The database's clock, in microseconds.
pub(super) fn now(connection: &Connection) -> Result<i64, StoreError> {
    let sql = "SELECT CAST(unixepoch('subsec') * 1000000 AS INTEGER)";
    Ok(connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
}

pub(super) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX / 4)
}

pub(super) fn chain(lane: Lane) -> i64 {
    lane.chain.get().cast_signed()
}

pub(super) fn nonce(value: i64) -> Nonce {
    value.unsigned_abs()
}

/// A column that a constraint keeps in order is out of order.
pub(super) fn broken(row: &Row<'_>, column: &str, kind: Type) -> rusqlite::Error {
    let index = row.as_ref().column_index(column).unwrap_or_default();
    rusqlite::Error::InvalidColumnType(index, column.to_owned(), kind)
}

pub(super) fn time(row: &Row<'_>, column: &str) -> rusqlite::Result<Timestamp> {
    Timestamp::from_microsecond(row.get(column)?).map_err(|_| broken(row, column, Type::Integer))
}

pub(super) fn lane(row: &Row<'_>) -> rusqlite::Result<Lane> {
    let chain: i64 = row.get("chain_id")?;
    let signer: [u8; 20] = row.get("signer")?;
    let chain =
        ChainId::new(chain.unsigned_abs()).map_err(|_| broken(row, "chain_id", Type::Integer))?;
    Ok(Lane::new(chain, Address::from(signer)))
}

pub(super) const HOLD_COLUMNS: &str =
    "chain_id, signer, nonce, owner_id, status, locked_until, tx_hash, reason";

pub(super) fn hold(row: &Row<'_>) -> rusqlite::Result<Hold> {
    let status: String = row.get("status")?;
    Ok(Hold {
        id: HoldId(row.get::<_, Uuid>("owner_id")?),
        lane: lane(row)?,
        nonce: nonce(row.get("nonce")?),
        status: status.parse::<HoldStatus>().map_err(|_| broken(row, "status", Type::Text))?,
        locked_until: time(row, "locked_until")?,
        tx_hash: row.get::<_, Option<[u8; 32]>>("tx_hash")?.map(B256::from),
        reason: row.get("reason")?,
    })
}

pub(super) const LANE_COLUMNS: &str = "chain_id, signer, owner_node, owner_incarnation, owner_url, \
     fencing_token, expires_at, next_nonce, last_chain_nonce, paused, timeline, elsewhere, \
     restored_at, restored_from, restored_to, restore_settled_at, restored_number, restored_begun";

/// Whether a lane has no cursor, or has been held against its chain since the file was put in place.
pub(super) fn is_aligned(row: &Row<'_>) -> rusqlite::Result<bool> {
    let started = row.get::<_, Option<i64>>("next_nonce")?.is_some();
    Ok(!started || row.get::<_, Option<String>>("timeline")?.is_some())
}

/// Whether commits that concern a lane may be missing.
pub(super) fn restored(row: &Row<'_>) -> rusqlite::Result<Option<RestoreMark>> {
    if row.get::<_, Option<i64>>("restored_at")?.is_none() {
        return Ok(None);
    }
    let settled = row.get::<_, Option<i64>>("restore_settled_at")?.is_some();
    Ok(Some(RestoreMark {
        number: row.get::<_, i64>("restored_number")?.unsigned_abs(),
        at: time(row, "restored_at")?,
        from: nonce(row.get("restored_from")?),
        to: nonce(row.get("restored_to")?),
        begun: row.get("restored_begun")?,
        settled_at: if settled { Some(time(row, "restore_settled_at")?) } else { None },
    }))
}

pub(super) fn held_lane(row: &Row<'_>, takeover: Takeover) -> rusqlite::Result<HeldLane> {
    let cursor = row.get::<_, Option<i64>>("next_nonce")?.map(nonce);
    let aligned = is_aligned(row)?;
    Ok(HeldLane {
        claim: Claim {
            lane: lane(row)?,
            incarnation: Incarnation(row.get("owner_incarnation")?),
            token: FencingToken(row.get("fencing_token")?),
        },
        expires_at: time(row, "expires_at")?,
        next_nonce: cursor.filter(|_| aligned),
        paused: row.get("paused")?,
        elsewhere: elsewhere(row)?,
        takeover,
    })
}

/// Why a lane is not Stile's.
pub(super) fn elsewhere(row: &Row<'_>) -> rusqlite::Result<Option<Elsewhere>> {
    let text: Option<String> = row.get("elsewhere")?;
    text.map(|text| text.parse()).transpose().map_err(|_| broken(row, "elsewhere", Type::Text))
}

pub(super) fn owner(row: &Row<'_>, now: i64) -> rusqlite::Result<Owner> {
    let expires_at: i64 = row.get("expires_at")?;
    Ok(Owner {
        node: NodeId(row.get("owner_node")?),
        incarnation: Incarnation(row.get("owner_incarnation")?),
        url: row.get("owner_url")?,
        token: FencingToken(row.get("fencing_token")?),
        remaining: Duration::from_micros(u64::try_from(expires_at - now).unwrap_or(0)),
    })
}

/// A point in time, from microseconds.
pub(super) fn timestamp(micros: i64) -> Result<Timestamp, StoreError> {
    Timestamp::from_microsecond(micros)
        .map_err(|e| StoreError::Internal(format!("a time is out of range: {e}")))
}
