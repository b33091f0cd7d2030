//! Reads of transactions.

use rusqlite::{Connection, OptionalExtension, Params, params};
use stile_domain::{B256, Lane, Nonce, TxId, TxState};

use super::{rows, tx_rows};
use crate::{Attempt, LedgerOwner, NonceOwner, OpenTx, StoreError, Tx, TxEvent, TxFilter, TxPage};

pub(super) fn tx(connection: &Connection, id: TxId) -> Result<Option<Tx>, StoreError> {
    Ok(connection
        .prepare_cached("SELECT * FROM tx WHERE tx_id = ?1")?
        .query_row(params![id.0], tx_rows::tx)
        .optional()?)
}

pub(super) fn tx_by_request(
    connection: &Connection,
    tenant: &str,
    lane: Lane,
    request_id: &str,
) -> Result<Option<Tx>, StoreError> {
    Ok(connection
        .prepare_cached(
            "SELECT * FROM tx
             WHERE tenant = ?1 AND chain_id = ?2 AND signer = ?3 AND request_id = ?4",
        )?
        .query_row(
            params![tenant, rows::chain(lane), lane.signer.as_slice(), request_id],
            tx_rows::tx,
        )
        .optional()?)
}

fn list(connection: &Connection, sql: &str, params: impl Params) -> Result<Vec<Tx>, StoreError> {
    let mut statement = connection.prepare_cached(sql)?;
    let txs = statement.query_map(params, tx_rows::tx)?;
    Ok(txs.collect::<Result<_, _>>()?)
}

/// Where transactions in a state are read. What is not confirmed is little beside the history, and
/// has indexes of its own, which are named here: on any other way all of the history might be read.
fn source(state: Option<TxState>) -> &'static str {
    match state {
        None | Some(TxState::Confirmed) => "tx WHERE 1",
        Some(TxState::Created) => "tx INDEXED BY tx_waiting WHERE state = 'CREATED'",
        Some(TxState::Allocated | TxState::Submitted | TxState::Tracking) => {
            "tx INDEXED BY tx_open WHERE state IN ('ALLOCATED', 'SUBMITTED', 'TRACKING')"
        }
        Some(TxState::Failed) => "tx INDEXED BY tx_failed WHERE state = 'FAILED'",
    }
}

pub(super) fn tx_page(connection: &Connection, filter: &TxFilter) -> Result<TxPage, StoreError> {
    let before = filter.before.map_or(i64::MAX, |before| i64::try_from(before).unwrap_or(i64::MAX));
    let state = filter.state.map(|state| state.name());
    let limit = i64::from(filter.limit) + 1;
    let source = source(filter.state);
    let Some(lanes) = &filter.lanes else {
        let sql = format!(
            "SELECT * FROM {source} AND tenant = ?1 AND position < ?2 AND (?3 IS NULL OR state = ?3)
             ORDER BY position DESC LIMIT ?4"
        );
        let txs = list(connection, &sql, params![filter.tenant, before, state, limit])?;
        return Ok(TxPage::cut(txs, filter.limit));
    };
    // The newest of each lane, and of those the newest.
    let sql = format!(
        "SELECT * FROM {source} AND chain_id = ?5 AND signer = ?6 AND tenant = ?1 AND position < ?2
           AND (?3 IS NULL OR state = ?3)
         ORDER BY position DESC LIMIT ?4"
    );
    let mut txs = Vec::new();
    for lane in lanes {
        txs.extend(list(
            connection,
            &sql,
            params![
                filter.tenant,
                before,
                state,
                limit,
                rows::chain(*lane),
                lane.signer.as_slice()
            ],
        )?);
    }
    txs.sort_unstable_by_key(|tx| std::cmp::Reverse(tx.position));
    Ok(TxPage::cut(txs, filter.limit))
}

pub(super) fn history(connection: &Connection, id: TxId) -> Result<Vec<TxEvent>, StoreError> {
    let mut statement =
        connection.prepare_cached("SELECT * FROM tx_event WHERE tx_id = ?1 ORDER BY seq")?;
    let events = statement.query_map(params![id.0], tx_rows::event)?;
    Ok(events.collect::<Result<_, _>>()?)
}

pub(super) fn attempts(connection: &Connection, id: TxId) -> Result<Vec<Attempt>, StoreError> {
    let mut statement =
        connection.prepare_cached("SELECT * FROM attempt WHERE tx_id = ?1 ORDER BY number")?;
    let attempts = statement.query_map(params![id.0], tx_rows::attempt)?;
    Ok(attempts.collect::<Result<_, _>>()?)
}

pub(super) fn has_waiting(connection: &Connection, lane: Lane) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM tx
                              WHERE chain_id = ?1 AND signer = ?2 AND state = 'CREATED')";
    let key = params![rows::chain(lane), lane.signer.as_slice()];
    Ok(connection.prepare_cached(sql)?.query_row(key, |row| row.get(0))?)
}

pub(super) fn waiting(
    connection: &Connection,
    lane: Lane,
    limit: u32,
) -> Result<Vec<Tx>, StoreError> {
    list(
        connection,
        "SELECT * FROM tx WHERE chain_id = ?1 AND signer = ?2 AND state = 'CREATED'
         ORDER BY position LIMIT ?3",
        params![rows::chain(lane), lane.signer.as_slice(), limit],
    )
}

pub(super) fn open_txs(connection: &Connection, lane: Lane) -> Result<Vec<OpenTx>, StoreError> {
    let txs = list(
        connection,
        "SELECT * FROM tx
         WHERE chain_id = ?1 AND signer = ?2 AND state IN ('ALLOCATED', 'SUBMITTED', 'TRACKING')
         ORDER BY nonce",
        params![rows::chain(lane), lane.signer.as_slice()],
    )?;
    txs.into_iter().map(|tx| open_tx(connection, tx)).collect()
}

pub(super) fn done_above(
    connection: &Connection,
    lane: Lane,
    height: u64,
) -> Result<Vec<OpenTx>, StoreError> {
    let txs = list(
        connection,
        "SELECT * FROM tx
         WHERE chain_id = ?1 AND signer = ?2 AND done_block > ?3
         ORDER BY nonce",
        params![rows::chain(lane), lane.signer.as_slice(), height.cast_signed()],
    )?;
    txs.into_iter().map(|tx| open_tx(connection, tx)).collect()
}

/// A transaction with its attempts. Forked: blocks above its own were replaced after its last entry
/// was written.
fn open_tx(connection: &Connection, tx: Tx) -> Result<OpenTx, StoreError> {
    let mut statement = connection
        .prepare_cached("SELECT kind, hash, raw FROM attempt WHERE tx_id = ?1 ORDER BY number")?;
    let attempts = statement.query_map(params![tx.id.0], tx_rows::open_attempt)?;
    let attempts = attempts.collect::<Result<_, _>>()?;
    let forked = connection
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM header
                            WHERE chain_id = ?1 AND height > ?2 AND replaced_at > ?3)",
        )?
        .query_row(
            params![
                rows::chain(tx.lane),
                tx.receipt.as_ref().map(|receipt| receipt.block_number.cast_signed()),
                tx.updated_at.as_microsecond(),
            ],
            |row| row.get(0),
        )?;
    Ok(OpenTx { tx, attempts, forked })
}

pub(super) fn with_attempts(
    connection: &Connection,
    id: TxId,
) -> Result<Option<OpenTx>, StoreError> {
    tx(connection, id)?.map(|tx| open_tx(connection, tx)).transpose()
}

pub(super) fn tx_of_attempt(
    connection: &Connection,
    hash: &B256,
) -> Result<Option<TxId>, StoreError> {
    Ok(connection
        .prepare_cached("SELECT tx_id FROM attempt WHERE hash = ?1")?
        .query_row(params![hash.as_slice()], |row| row.get(0).map(TxId))
        .optional()?)
}

pub(super) fn nonce_owners(
    connection: &Connection,
    lane: Lane,
    from: Nonce,
    limit: u32,
) -> Result<Vec<NonceOwner>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT n.chain_id, n.signer, n.nonce, n.owner_id, n.status, n.locked_until, n.tx_hash, n.reason,
                t.state
         FROM nonce n LEFT JOIN tx t ON n.owner_kind = 'tx' AND t.tx_id = n.owner_id
         WHERE n.chain_id = ?1 AND n.signer = ?2 AND n.nonce >= ?3
           AND (n.owner_kind = 'hold' OR t.tx_id IS NOT NULL)
         ORDER BY n.nonce LIMIT ?4",
    )?;
    let from = i64::try_from(from).unwrap_or(i64::MAX);
    let key = params![rows::chain(lane), lane.signer.as_slice(), from, limit];
    let owners = statement.query_map(key, |row| {
        let owner = match tx_rows::optional_name::<TxState>(row, "state")? {
            Some(state) => LedgerOwner::Tx(TxId(row.get("owner_id")?), state),
            None => LedgerOwner::Hold(rows::hold(row)?),
        };
        Ok(NonceOwner { nonce: rows::nonce(row.get("nonce")?), owner })
    })?;
    Ok(owners.collect::<Result<_, _>>()?)
}
