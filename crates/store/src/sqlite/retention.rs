//! Removing what is over.
//!
//! Found beside the writer, removed by short jobs of it that look at each row again. Between two of
//! them the writer is everybody's.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Params, params};
use stile_domain::{ChainId, Lane, Nonce, TxId};
use uuid::Uuid;

use super::rows;
use crate::StoreError;

/// Transactions removed by one job of the writer: each has rows in several tables and entries in many
/// indexes, and whoever has something to write waits for all of the job.
pub(super) const PART: usize = 50;

/// Until when something must have been over, to be removed now.
fn cutoff(connection: &Connection, kept: Duration) -> Result<i64, StoreError> {
    Ok(rows::now(connection)?.saturating_sub(rows::micros(kept)))
}

fn lanes(connection: &Connection, chain: ChainId) -> Result<Vec<Vec<u8>>, StoreError> {
    let mut statement = connection.prepare_cached("SELECT signer FROM lane WHERE chain_id = ?1")?;
    let signers = statement.query_map(params![chain.get().cast_signed()], |row| row.get(0))?;
    Ok(signers.collect::<Result<_, _>>()?)
}

/// Finished transactions that may be removed: see the statement of the same name on PostgreSQL.
pub(super) fn txs_over(
    connection: &Connection,
    chain: ChainId,
    below: u64,
    kept: Duration,
    limit: u32,
) -> Result<Vec<TxId>, StoreError> {
    let below = i64::try_from(below).unwrap_or(i64::MAX);
    let before = cutoff(connection, kept)?;
    let mut found = Vec::new();
    for signer in lanes(connection, chain)? {
        for sql in [ENDED, FAILED] {
            let left = limit.saturating_sub(found.len() as u32);
            if left == 0 {
                return Ok(found);
            }
            let mut statement = connection.prepare_cached(sql)?;
            let mut oldest =
                statement.query(params![chain.get().cast_signed(), signer, below, left])?;
            // Oldest first: the first that is too young ends it.
            while let Some(row) = oldest.next()? {
                if row.get::<_, i64>("updated_at")? > before {
                    break;
                }
                found.push(TxId(row.get("tx_id")?));
            }
        }
    }
    Ok(found)
}

/// Those that a block ended, their own or that of the transaction that took their nonce.
const ENDED: &str = "SELECT tx_id, updated_at FROM tx
    WHERE chain_id = ?1 AND signer = ?2 AND done_block < ?3
    ORDER BY done_block LIMIT ?4";

const FAILED: &str = "SELECT tx_id, updated_at FROM tx
    WHERE chain_id = ?1 AND signer = ?2 AND state = 'FAILED' AND done_block IS NULL
      AND (nonce IS NULL
           OR nonce < (SELECT x.nonce FROM tx x
                       WHERE x.chain_id = ?1 AND x.signer = ?2 AND x.done_block < ?3
                       ORDER BY x.done_block DESC LIMIT 1))
    ORDER BY position LIMIT ?4";

/// Removes these with all that belongs to them, those of them that are over still.
pub(super) fn sweep_txs(
    connection: &Connection,
    ids: &[TxId],
    below: u64,
    kept: Duration,
) -> Result<u64, StoreError> {
    let below = i64::try_from(below).unwrap_or(i64::MAX);
    let before = cutoff(connection, kept)?;
    let mut removed = 0;
    for id in ids {
        let gone = connection
            .prepare_cached(
                "DELETE FROM tx
                 WHERE tx_id = ?1 AND updated_at <= ?3
                   AND state IN ('CONFIRMED', 'FAILED')
                   AND (done_block IS NULL OR (done_block < ?2 AND coalesce(told_height, 0) < ?2))
                   -- A nonce that nobody has would look like one that was lost with the database.
                   AND NOT EXISTS (SELECT 1 FROM lane l
                                   WHERE l.chain_id = tx.chain_id AND l.signer = tx.signer
                                     AND tx.nonce >= l.restored_from AND tx.nonce < l.restored_to)
                 RETURNING chain_id, signer, nonce",
            )?
            .query_row(params![id.0, below, before], |row| {
                Ok((
                    row.get::<_, i64>(0)?,
                    row.get::<_, Vec<u8>>(1)?,
                    row.get::<_, Option<i64>>(2)?,
                ))
            })
            .optional()?;
        let Some((chain, signer, nonce)) = gone else { continue };
        removed += 1;
        for sql in ["DELETE FROM attempt WHERE tx_id = ?1", "DELETE FROM tx_event WHERE tx_id = ?1"]
        {
            connection.prepare_cached(sql)?.execute(params![id.0])?;
        }
        connection
            .prepare_cached(
                "DELETE FROM nonce WHERE chain_id = ?1 AND signer = ?2 AND nonce = ?3
                   AND owner_kind = 'tx' AND owner_id = ?4",
            )?
            .execute(params![chain, signer, nonce, id.0])?;
    }
    Ok(removed)
}

pub(super) fn lanes_with_old_holds(
    connection: &Connection,
    kept: Duration,
) -> Result<Vec<Lane>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT l.chain_id, l.signer FROM lane l
         WHERE (SELECT n.updated_at FROM nonce n INDEXED BY nonce_hold_over
                WHERE n.chain_id = l.chain_id AND n.signer = l.signer AND n.owner_kind = 'hold'
                  AND n.status = 'CONSUMED'
                ORDER BY n.nonce LIMIT 1) <= ?1",
    )?;
    let found = statement.query_map(params![cutoff(connection, kept)?], rows::lane)?;
    Ok(found.collect::<Result<_, _>>()?)
}

pub(super) fn sweep_holds(
    connection: &Connection,
    lane: Lane,
    below: Nonce,
    kept: Duration,
    limit: u32,
) -> Result<u64, StoreError> {
    let over = list(
        connection,
        "SELECT chain_id, signer, nonce, owner_id FROM
             (SELECT * FROM nonce INDEXED BY nonce_hold_over
              WHERE chain_id = ?1 AND signer = ?2 AND nonce < ?3 AND owner_kind = 'hold'
                AND status = 'CONSUMED'
                -- A nonce that nobody has would look like one that was lost with the database.
                AND NOT EXISTS (SELECT 1 FROM lane l
                                WHERE l.chain_id = ?1 AND l.signer = ?2
                                  AND nonce >= l.restored_from AND nonce < l.restored_to)
              ORDER BY nonce LIMIT ?5)
         WHERE updated_at <= ?4",
        params![
            rows::chain(lane),
            lane.signer.as_slice(),
            i64::try_from(below).unwrap_or(i64::MAX),
            cutoff(connection, kept)?,
            limit
        ],
    )?;
    for hold in &over {
        hold.forget_key(connection)?;
        connection
            .prepare_cached("DELETE FROM nonce WHERE chain_id = ?1 AND signer = ?2 AND nonce = ?3")?
            .execute(params![hold.chain, hold.signer, hold.nonce])?;
    }
    Ok(over.len() as u64)
}

pub(super) fn sweep_past_holds(
    connection: &Connection,
    kept: Duration,
    limit: u32,
) -> Result<u64, StoreError> {
    let over = list(
        connection,
        "SELECT chain_id, signer, nonce, hold_id FROM past_hold
         WHERE released_at <= ?1 ORDER BY released_at LIMIT ?2",
        params![cutoff(connection, kept)?, limit],
    )?;
    for hold in &over {
        hold.forget_key(connection)?;
        connection
            .prepare_cached("DELETE FROM past_hold WHERE hold_id = ?1")?
            .execute(params![hold.id])?;
    }
    Ok(over.len() as u64)
}

/// A hold that is over.
struct Over {
    chain: i64,
    signer: Vec<u8>,
    nonce: i64,
    id: Uuid,
}

fn list(connection: &Connection, sql: &str, params: impl Params) -> Result<Vec<Over>, StoreError> {
    let mut statement = connection.prepare_cached(sql)?;
    let over = statement.query_map(params, |row| {
        Ok(Over { chain: row.get(0)?, signer: row.get(1)?, nonce: row.get(2)?, id: row.get(3)? })
    })?;
    Ok(over.collect::<Result<_, _>>()?)
}

impl Over {
    /// Removes the idempotency key it was allocated under, if there was one.
    fn forget_key(&self, connection: &Connection) -> Result<(), StoreError> {
        connection
            .prepare_cached(
                "DELETE FROM allocation_key
                 WHERE chain_id = ?1 AND signer = ?2 AND nonce = ?3 AND hold_id = ?4",
            )?
            .execute(params![self.chain, self.signer, self.nonce, self.id])?;
        Ok(())
    }
}
