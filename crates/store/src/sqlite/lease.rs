//! Acquire, take, renew, release, hand over.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};
use stile_domain::{Elsewhere, Holder, Lane};

use super::fence::fence;
use super::rollout;
use super::rows::{self, LANE_COLUMNS};
use crate::{Acquisition, Claim, ExpiredLane, HeldLane, Refusal, Renewal, StoreError, Takeover};

/// Whether a lane has open work; `?7` is how deep a block must be buried.
const HAS_OPEN_WORK: &str = "(EXISTS (SELECT 1 FROM nonce n INDEXED BY nonce_open
                 WHERE n.chain_id = l.chain_id AND n.signer = l.signer AND n.status <> 'CONSUMED')
         OR EXISTS (SELECT 1 FROM tx t WHERE t.chain_id = l.chain_id
                    AND t.signer = l.signer AND t.state = 'CREATED')
         OR EXISTS (SELECT 1 FROM tx t WHERE t.chain_id = l.chain_id AND t.signer = l.signer
                    AND t.state IN ('ALLOCATED', 'SUBMITTED', 'TRACKING'))
         -- Ended by a block that is not buried. Where there is no header, nothing is buried.
         OR EXISTS (SELECT 1 FROM tx t WHERE t.chain_id = l.chain_id
                    AND t.signer = l.signer AND t.done_block > coalesce(
                        (SELECT max(h.height) FROM header h
                         WHERE h.chain_id = l.chain_id AND h.replaced_at IS NULL) - ?7, -1)))";

pub(super) fn acquire(
    connection: &Connection,
    holder: &Holder,
    lane: Lane,
    patience: Duration,
    lease: Duration,
) -> Result<Acquisition, StoreError> {
    let now = rows::now(connection)?;
    // Asked before the write: the clock is too coarse to tell from the times what happened.
    let takeover =
        if is_ours(connection, holder, lane)? { Takeover::Kept } else { Takeover::Taken };
    let sql = format!(
        "INSERT INTO lane (chain_id, signer, owner_node, owner_incarnation, owner_url,
                           fencing_token, acquired_at, expires_at, updated_at, elsewhere)
         VALUES (?1, ?2, ?3, ?4, ?5, 1, ?6, ?7, ?6, ?9)
         ON CONFLICT (chain_id, signer) DO UPDATE
         SET owner_node = excluded.owner_node,
             owner_incarnation = excluded.owner_incarnation,
             owner_url = excluded.owner_url,
             fencing_token = fencing_token + (owner_incarnation <> excluded.owner_incarnation),
             acquired_at = CASE WHEN owner_incarnation = excluded.owner_incarnation
                                THEN acquired_at ELSE excluded.acquired_at END,
             expires_at = excluded.expires_at,
             updated_at = excluded.updated_at
         WHERE owner_incarnation = excluded.owner_incarnation OR expires_at <= ?8
         RETURNING {LANE_COLUMNS}"
    );
    let held = connection
        .prepare_cached(&sql)?
        .query_row(
            params![
                rows::chain(lane),
                lane.signer.as_slice(),
                holder.node.0,
                holder.incarnation.0,
                holder.url,
                now,
                now + rows::micros(lease),
                now - rows::micros(patience),
                // Only for a row that is made now; one that is there keeps what it says.
                rollout::elsewhere(connection, lane)?.map(Elsewhere::name),
            ],
            |row| rows::held_lane(row, takeover),
        )
        .optional()?;
    if let Some(held) = held {
        return Ok(Acquisition::Held(held));
    }
    let sql = format!("SELECT {LANE_COLUMNS} FROM lane WHERE chain_id = ?1 AND signer = ?2");
    let owner = connection
        .prepare_cached(&sql)?
        .query_row(params![rows::chain(lane), lane.signer.as_slice()], |row| {
            rows::owner(row, now)
        })?;
    Ok(Acquisition::Other(owner))
}

fn is_ours(connection: &Connection, holder: &Holder, lane: Lane) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM lane
                              WHERE chain_id = ?1 AND signer = ?2 AND owner_incarnation = ?3)";
    let key = params![rows::chain(lane), lane.signer.as_slice(), holder.incarnation.0];
    Ok(connection.prepare_cached(sql)?.query_row(key, |row| row.get(0))?)
}

pub(super) fn take_own(
    connection: &Connection,
    holder: &Holder,
    lease: Duration,
) -> Result<Vec<HeldLane>, StoreError> {
    let now = rows::now(connection)?;
    let sql = format!(
        "UPDATE lane
         SET owner_incarnation = ?2, owner_url = ?3, fencing_token = fencing_token + 1,
             acquired_at = ?4, expires_at = ?5, updated_at = ?4
         WHERE owner_node = ?1 AND owner_incarnation <> ?2
         RETURNING {LANE_COLUMNS}"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let taken = statement.query_map(
        params![holder.node.0, holder.incarnation.0, holder.url, now, now + rows::micros(lease)],
        |row| rows::held_lane(row, Takeover::Taken),
    )?;
    Ok(taken.collect::<Result<_, _>>()?)
}

pub(super) fn take_expired(
    connection: &Connection,
    holder: &Holder,
    lease: Duration,
    limit: u32,
    reorg_window: u32,
) -> Result<Vec<HeldLane>, StoreError> {
    let now = rows::now(connection)?;
    let sql = format!(
        "UPDATE lane
         SET owner_node = ?1, owner_incarnation = ?2, owner_url = ?3,
             fencing_token = fencing_token + 1, acquired_at = ?4, expires_at = ?5, updated_at = ?4
         WHERE (chain_id, signer) IN (
             SELECT l.chain_id, l.signer FROM lane l
             WHERE l.expires_at <= ?4 AND l.owner_incarnation <> ?2
               AND {HAS_OPEN_WORK}
             ORDER BY l.chain_id, l.signer LIMIT ?6)
         RETURNING {LANE_COLUMNS}"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let taken = statement.query_map(
        params![
            holder.node.0,
            holder.incarnation.0,
            holder.url,
            now,
            now + rows::micros(lease),
            limit,
            reorg_window,
        ],
        |row| rows::held_lane(row, Takeover::Taken),
    )?;
    Ok(taken.collect::<Result<_, _>>()?)
}

pub(super) fn expired_lanes(
    connection: &Connection,
    limit: u32,
    reorg_window: u32,
) -> Result<Vec<ExpiredLane>, StoreError> {
    let now = rows::now(connection)?;
    let open = HAS_OPEN_WORK.replace("?7", "?3");
    let sql = format!(
        "SELECT l.chain_id, l.signer, ?1 - l.expires_at AS overdue FROM lane l
         WHERE l.expires_at <= ?1 AND {open}
         ORDER BY l.chain_id, l.signer LIMIT ?2"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let found = statement.query_map(params![now, limit, reorg_window], |row| {
        let overdue = row.get::<_, i64>("overdue")?.unsigned_abs();
        Ok(ExpiredLane { lane: rows::lane(row)?, overdue: Duration::from_micros(overdue) })
    })?;
    Ok(found.collect::<Result<_, _>>()?)
}

pub(super) fn take_lanes(
    connection: &Connection,
    holder: &Holder,
    lanes: &[Lane],
    lease: Duration,
) -> Result<Vec<HeldLane>, StoreError> {
    let now = rows::now(connection)?;
    let sql = format!(
        "UPDATE lane
         SET owner_node = ?1, owner_incarnation = ?2, owner_url = ?3,
             fencing_token = fencing_token + 1, acquired_at = ?4, expires_at = ?5, updated_at = ?4
         WHERE chain_id = ?6 AND signer = ?7 AND expires_at <= ?4
         RETURNING {LANE_COLUMNS}"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut taken = Vec::new();
    for lane in lanes {
        let row = statement.query_row(
            params![
                holder.node.0,
                holder.incarnation.0,
                holder.url,
                now,
                now + rows::micros(lease),
                rows::chain(*lane),
                lane.signer.as_slice(),
            ],
            |row| rows::held_lane(row, Takeover::Taken),
        );
        taken.extend(row.optional()?);
    }
    Ok(taken)
}

pub(super) fn hand_over(
    connection: &Connection,
    claim: &Claim,
    to: &Holder,
) -> Result<bool, StoreError> {
    let now = rows::now(connection)?;
    let changed = connection
        .prepare_cached(
            "UPDATE lane
             SET owner_node = ?5, owner_incarnation = ?6, owner_url = ?7,
                 fencing_token = fencing_token + 1, acquired_at = ?8, expires_at = ?8,
                 updated_at = ?8
             WHERE chain_id = ?1 AND signer = ?2 AND owner_incarnation = ?3 AND fencing_token = ?4
               AND EXISTS (SELECT 1 FROM node n
                           WHERE n.node_id = ?5 AND n.incarnation = ?6 AND n.url IS ?7)",
        )?
        .execute(params![
            rows::chain(claim.lane),
            claim.lane.signer.as_slice(),
            claim.incarnation.0,
            claim.token.0,
            to.node.0,
            to.incarnation.0,
            to.url,
            now,
        ])?;
    Ok(changed == 1)
}

/// Renewal is the fence itself: it extends the lease of whoever passes.
pub(super) fn renew(
    connection: &Connection,
    claim: &Claim,
    lease: Duration,
) -> Result<Renewal, StoreError> {
    Ok(match fence(connection, claim, None, lease)? {
        Err(Refusal::Fenced(owner)) => Renewal::Fenced(owner),
        _ => Renewal::Renewed,
    })
}

pub(super) fn release(connection: &Connection, claim: &Claim) -> Result<bool, StoreError> {
    let now = rows::now(connection)?;
    let changed = connection
        .prepare_cached(
            "UPDATE lane SET expires_at = ?5, updated_at = ?5
             WHERE chain_id = ?1 AND signer = ?2 AND owner_incarnation = ?3 AND fencing_token = ?4",
        )?
        .execute(params![
            rows::chain(claim.lane),
            claim.lane.signer.as_slice(),
            claim.incarnation.0,
            claim.token.0,
            now,
        ])?;
    Ok(changed == 1)
}
