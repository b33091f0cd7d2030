//! Acceptance: what needs no lease.

use rusqlite::{Connection, OptionalExtension, params};
use serde_json::json;
use stile_domain::{EventKind, NodeId, Standing};

use super::events::Entry;
use super::tx_rows::json;
use super::{read_txs, rows};
use crate::tx_columns::finality_text;
use crate::{Acceptance, NewTx, StoreError, Tx};

/// Accepts transactions, each with an answer.
pub(super) fn accept(
    connection: &Connection,
    node: &NodeId,
    txs: &[NewTx],
) -> Result<Vec<Acceptance>, StoreError> {
    let now = rows::now(connection)?;
    let accepted = txs.iter().map(|new| match insert(connection, node, new, now)? {
        Some(tx) => Ok(Acceptance::New(tx)),
        None => accepted_before(connection, new)?
            .map(Acceptance::Existing)
            .ok_or_else(|| StoreError::Internal("a request id is taken by nobody".into())),
    });
    accepted.collect()
}

/// The transaction of that request id, or of that very name (an acceptance whose answer was lost is
/// simply asked for again).
fn accepted_before(connection: &Connection, new: &NewTx) -> Result<Option<Tx>, StoreError> {
    let by_request = match &new.request_id {
        Some(request) => read_txs::tx_by_request(connection, &new.tenant, new.lane, request)?,
        None => None,
    };
    match by_request {
        Some(tx) => Ok(Some(tx)),
        None => read_txs::tx(connection, new.id),
    }
}

/// Writes a transaction as `CREATED`, with the first entry of its history. `None` if its request id
/// or its very name is taken.
fn insert(
    connection: &Connection,
    node: &NodeId,
    new: &NewTx,
    now: i64,
) -> Result<Option<Tx>, StoreError> {
    let created = Standing::CREATED;
    let position = connection
        .prepare_cached(
            "INSERT INTO tx (tx_id, tenant, chain_id, signer, request_id, request_hash, payload,
                             finality, gas_limit, state, sub_state, events, created_at, updated_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, 1, ?12, ?12)
             ON CONFLICT DO NOTHING
             RETURNING position",
        )?
        .query_row(
            params![
                new.id.0,
                new.tenant,
                rows::chain(new.lane),
                new.lane.signer.as_slice(),
                new.request_id,
                new.request_hash.as_slice(),
                json(&new.payload)?,
                finality_text(new.finality),
                new.gas_limit.map(u64::cast_signed),
                created.state.name(),
                created.sub_state.map(|sub_state| sub_state.name()),
                now,
            ],
            |row| row.get::<_, i64>(0),
        )
        .optional()?;
    let Some(position) = position else { return Ok(None) };
    tell(connection, node, new, now)?;
    Ok(Some(new.accepted(position.unsigned_abs(), rows::timestamp(now)?)))
}

/// The first entry of a transaction's history.
pub(super) fn tell(
    connection: &Connection,
    node: &NodeId,
    new: &NewTx,
    now: i64,
) -> Result<(), StoreError> {
    let entry = Entry {
        tx: new.id,
        tenant: &new.tenant,
        lane: new.lane,
        seq: 1,
        kind: EventKind::Accepted,
        standing: Standing::CREATED,
        node,
        token: None,
        data: &json!({}),
        now,
    };
    entry.write(connection)
}
