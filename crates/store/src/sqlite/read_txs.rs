//! Reads of transactions.

use rusqlite::{Connection, OptionalExtension, Params, params};
use stile_domain::{B256, Lane, Nonce, TxId, TxState};

use super::restored::{AWAITS_WORD, IS_MARKED};
use super::stream::THIS_HISTORY;
use super::{rows, tx_rows};
use crate::in_flight::{self, Candidate};
use crate::{
    Attempt, InFlightFrom, InFlightPage, LedgerOwner, NonceOwner, OpenCost, OpenTx, PageLimit,
    StoreError, Tx, TxEvent, TxFilter, TxPage,
};

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

pub(super) fn list(
    connection: &Connection,
    sql: &str,
    params: impl Params,
) -> Result<Vec<Tx>, StoreError> {
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
    let sql =
        format!("SELECT *, {THIS_HISTORY} AS here FROM tx_event WHERE tx_id = ?1 ORDER BY seq");
    let mut statement = connection.prepare_cached(&sql)?;
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
                              WHERE chain_id = ?1 AND signer = ?2 AND state = 'CREATED'
                                AND sub_state IS NOT 'ESTIMATING')";
    let key = params![rows::chain(lane), lane.signer.as_slice()];
    Ok(connection.prepare_cached(sql)?.query_row(key, |row| row.get(0))?)
}

/// On a lane that is not aligned, whoever binds realigns it first, and asks again.
pub(super) fn waiting(
    connection: &Connection,
    lane: Lane,
    limit: u32,
) -> Result<Vec<Tx>, StoreError> {
    list(
        connection,
        &format!(
            "SELECT t.* FROM tx t LEFT JOIN lane l USING (chain_id, signer)
             WHERE t.chain_id = ?1 AND t.signer = ?2 AND t.state = 'CREATED'
               AND t.sub_state IS NOT 'ESTIMATING' AND NOT {IS_MARKED}
             ORDER BY t.position LIMIT ?3"
        ),
        params![rows::chain(lane), lane.signer.as_slice(), limit],
    )
}

pub(super) fn unestimated(
    connection: &Connection,
    lane: Lane,
    limit: u32,
) -> Result<Vec<Tx>, StoreError> {
    list(
        connection,
        &format!(
            "SELECT t.* FROM tx t LEFT JOIN lane l USING (chain_id, signer)
             WHERE t.chain_id = ?1 AND t.signer = ?2 AND t.state = 'CREATED'
               AND t.sub_state = 'ESTIMATING' AND NOT {AWAITS_WORD}
             ORDER BY t.position LIMIT ?3"
        ),
        params![rows::chain(lane), lane.signer.as_slice(), limit],
    )
}

/// Call data is left out: it may be long, and its price is in the gas.
pub(super) fn open_costs(
    connection: &Connection,
    from: &InFlightFrom,
    limit: u32,
) -> Result<Vec<OpenCost>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT * FROM (
             SELECT chain_id, signer, tx_id, json_remove(payload, '$.data') AS payload, gas_limit,
                    NULL AS kind, NULL AS fees, NULL AS offered_gas
             FROM tx INDEXED BY tx_waiting
             WHERE chain_id = ?1 AND signer = ?2 AND state = 'CREATED'
             ORDER BY position LIMIT ?4)
         UNION ALL
         SELECT * FROM (
             SELECT t.chain_id, t.signer, t.tx_id, json_remove(t.payload, '$.data'), t.gas_limit,
                    a.kind, a.fees, a.gas_limit
             FROM tx t INDEXED BY tx_open
             JOIN attempt a ON a.tx_id = t.tx_id
                AND a.number = (SELECT max(newest.number) FROM attempt newest
                                WHERE newest.tx_id = t.tx_id)
             WHERE t.chain_id = ?1 AND t.signer = ?2 AND t.nonce >= ?3
               AND t.state IN ('ALLOCATED', 'SUBMITTED', 'TRACKING') AND t.state <> 'TRACKING'
               AND t.rival_block IS NULL
             ORDER BY t.nonce LIMIT ?4)",
    )?;
    let InFlightFrom { lane, nonce } = from;
    let lowest = i64::try_from(*nonce).unwrap_or(i64::MAX);
    let key = params![rows::chain(*lane), lane.signer.as_slice(), lowest, i64::from(limit)];
    let found = statement.query_map(key, tx_rows::open_cost)?;
    Ok(found.collect::<Result<_, _>>()?)
}

pub(super) fn in_flight_page(
    connection: &Connection,
    from: &[InFlightFrom],
    limit: PageLimit,
) -> Result<InFlightPage, StoreError> {
    let per_lane = in_flight::candidates_per_lane(from.len(), limit);
    let mut statement = connection.prepare_cached(
        "SELECT tx_id, nonce, (SELECT coalesce(max(length(a.raw)), 0) FROM attempt a
                               WHERE a.tx_id = tx.tx_id) AS raw_bytes
         FROM tx INDEXED BY tx_open
         WHERE chain_id = ?1 AND signer = ?2 AND nonce >= ?3
           AND state IN ('ALLOCATED', 'SUBMITTED', 'TRACKING')
         ORDER BY nonce LIMIT ?4",
    )?;
    let mut candidates = Vec::new();
    for InFlightFrom { lane, nonce } in from {
        let lowest = i64::try_from(*nonce).unwrap_or(i64::MAX);
        let most = i64::try_from(per_lane).unwrap_or(i64::MAX);
        let key = params![rows::chain(*lane), lane.signer.as_slice(), lowest, most];
        let found = statement.query_map(key, |row| {
            Ok(Candidate {
                lane: *lane,
                nonce: rows::nonce(row.get("nonce")?),
                id: TxId(row.get("tx_id")?),
                raw_bytes: row.get::<_, i64>("raw_bytes")?.unsigned_abs(),
            })
        })?;
        for candidate in found {
            candidates.push(candidate?);
        }
    }
    let cut = in_flight::cut(from, per_lane, candidates, limit);
    let mut txs = Vec::with_capacity(cut.ids.len());
    for id in &cut.ids {
        let in_flight = |tx: &Tx| {
            matches!(tx.standing.state, TxState::Allocated | TxState::Submitted | TxState::Tracking)
        };
        if let Some(tx) = tx(connection, *id)?.filter(in_flight) {
            txs.push(open_tx(connection, tx, Raw::OfNewest)?);
        }
    }
    Ok(cut.page(txs))
}

pub(super) fn done_between(
    connection: &Connection,
    lane: Lane,
    above: u64,
    up_to: u64,
) -> Result<Vec<OpenTx>, StoreError> {
    let txs = list(
        connection,
        "SELECT * FROM tx
         WHERE chain_id = ?1 AND signer = ?2 AND done_block > ?3 AND done_block <= ?4
         ORDER BY nonce",
        params![
            rows::chain(lane),
            lane.signer.as_slice(),
            above.cast_signed(),
            up_to.cast_signed()
        ],
    )?;
    txs.into_iter().map(|tx| open_tx(connection, tx, Raw::OfAll)).collect()
}

/// Which attempts are read with their bytes.
#[derive(Debug, Clone, Copy)]
enum Raw {
    OfAll,
    OfNewest,
}

impl Raw {
    fn sql(self) -> &'static str {
        match self {
            Self::OfAll => "SELECT kind, hash, raw FROM attempt WHERE tx_id = ?1 ORDER BY number",
            Self::OfNewest => {
                "SELECT kind, hash,
                        CASE WHEN number = (SELECT max(number) FROM attempt WHERE tx_id = ?1)
                             THEN raw ELSE x'' END AS raw
                 FROM attempt WHERE tx_id = ?1 ORDER BY number"
            }
        }
    }
}

/// A transaction with its attempts. Forked: blocks above its own were replaced after its last entry
/// was written.
fn open_tx(connection: &Connection, tx: Tx, raw: Raw) -> Result<OpenTx, StoreError> {
    let mut statement = connection.prepare_cached(raw.sql())?;
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
    tx(connection, id)?.map(|tx| open_tx(connection, tx, Raw::OfAll)).transpose()
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
