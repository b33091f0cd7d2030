//! Nonces taken over from V1, and the ledger as it goes back.

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, params};
use stile_domain::v1::export::LedgerNonce;
use stile_domain::v1::import::ImportedNonce;
use stile_domain::{B256, HoldStatus, Lane, LaneEventKind, NodeId, Nonce};

use super::stream::LaneEntry;
use super::{origin, rows};
use crate::{ImportEnd, Imported, StoreError};

pub(super) fn import_lane(
    connection: &Connection,
    node: &NodeId,
    lane: Lane,
    nonces: &[ImportedNonce],
    end: Option<&ImportEnd>,
) -> Result<Imported, StoreError> {
    let elsewhere = connection
        .prepare_cached("SELECT elsewhere FROM lane WHERE chain_id = ?1 AND signer = ?2")?
        .query_row(params![rows::chain(lane), lane.signer.as_slice()], rows::elsewhere)
        .optional()?;
    match elsewhere {
        None => return Ok(Imported::NotFound),
        Some(None) => return Ok(Imported::Owned),
        Some(Some(_)) => {}
    }
    let now = rows::now(connection)?;
    let mut written = 0;
    for nonce in nonces {
        written += write(connection, lane, nonce, now)?;
    }
    if let Some(end) = end {
        connection
            .prepare_cached(
                "UPDATE lane
                 SET next_nonce = max(coalesce(next_nonce, 0), ?3), last_chain_nonce = ?4,
                     timeline = CASE WHEN next_nonce IS NULL THEN ?6 ELSE timeline END,
                     fencing_token = fencing_token + 1, updated_at = ?5
                 WHERE chain_id = ?1 AND signer = ?2",
            )?
            .execute(params![
                rows::chain(lane),
                lane.signer.as_slice(),
                end.cursor.cast_signed(),
                end.chain_nonce.cast_signed(),
                now,
                origin::HERE,
            ])?;
        let kind = LaneEventKind::Imported;
        LaneEntry { lane, kind, node, token: None, data: &end.data, now }.write(connection)?;
    }
    Ok(Imported::Written(written))
}

/// Writes one nonce. What is there already changes only forward.
fn write(
    connection: &Connection,
    lane: Lane,
    nonce: &ImportedNonce,
    now: i64,
) -> Result<u64, StoreError> {
    let written = connection
        .prepare_cached(
            "INSERT INTO nonce (chain_id, signer, nonce, owner_kind, owner_id, status, locked_until,
                                tx_hash, reason, fencing_token, created_at, updated_at)
             SELECT ?1, ?2, ?3, 'hold', ?4, ?5, ?8, ?6, ?7, fencing_token, ?8, ?8
             FROM lane WHERE chain_id = ?1 AND signer = ?2
             ON CONFLICT (chain_id, signer, nonce) DO UPDATE
             SET owner_id = CASE WHEN status = 'RELEASED' AND excluded.status <> 'RELEASED'
                                 THEN excluded.owner_id ELSE owner_id END,
                 status = excluded.status, tx_hash = excluded.tx_hash, reason = excluded.reason,
                 fencing_token = excluded.fencing_token, updated_at = excluded.updated_at
             WHERE owner_kind = 'hold' AND status <> excluded.status
               AND (status IN ('RELEASED', 'SUSPECT')
                    OR (status = 'HELD' AND excluded.status = 'CONSUMED'))",
        )?
        .execute(params![
            rows::chain(lane),
            lane.signer.as_slice(),
            nonce.nonce.cast_signed(),
            nonce.hold.0,
            nonce.status.name(),
            nonce.tx_hash.as_ref().map(|hash| hash.as_slice()),
            nonce.reason,
            now,
        ])?;
    Ok(written as u64)
}

pub(super) fn ledger(
    connection: &Connection,
    lane: Lane,
    from: Nonce,
    limit: u32,
) -> Result<Vec<LedgerNonce>, StoreError> {
    let found = connection
        .prepare_cached(
            "SELECT n.nonce, n.owner_id, n.status, coalesce(n.tx_hash, t.tx_hash) AS tx_hash
             FROM nonce n LEFT JOIN tx t ON n.owner_kind <> 'hold' AND t.tx_id = n.owner_id
             WHERE n.chain_id = ?1 AND n.signer = ?2 AND n.nonce >= ?3
             ORDER BY n.nonce LIMIT ?4",
        )?
        .query_map(
            params![rows::chain(lane), lane.signer.as_slice(), from.cast_signed(), limit],
            |row| {
                let status: String = row.get("status")?;
                Ok(LedgerNonce {
                    nonce: rows::nonce(row.get("nonce")?),
                    owner: row.get("owner_id")?,
                    status: status
                        .parse::<HoldStatus>()
                        .map_err(|_| rows::broken(row, "status", Type::Text))?,
                    tx_hash: row.get::<_, Option<[u8; 32]>>("tx_hash")?.map(B256::from),
                })
            },
        )?
        .collect::<Result<_, _>>()?;
    Ok(found)
}
