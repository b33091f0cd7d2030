//! Acceptance: what needs no lease.

use rusqlite::{Connection, params};
use serde_json::json;
use stile_domain::{EventKind, NodeId, Standing};

use super::events::Entry;
use super::tx_rows::json;
use super::{read_txs, rows};
use crate::tx_columns::finality_text;
use crate::{Acceptance, NewTx, StoreError, Tx};

pub(super) fn accept(
    connection: &Connection,
    node: &NodeId,
    new: &NewTx,
) -> Result<Acceptance, StoreError> {
    if let Some(tx) = accepted_before(connection, new)? {
        return Ok(Acceptance::Existing(tx));
    }
    let now = rows::now(connection)?;
    insert(connection, node, new, now).map(Acceptance::New)
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

/// Writes a transaction as `CREATED`, with the first entry of its history.
pub(super) fn insert(
    connection: &Connection,
    node: &NodeId,
    new: &NewTx,
    now: i64,
) -> Result<Tx, StoreError> {
    let created = Standing::CREATED;
    let position = connection
        .prepare_cached(
            "INSERT INTO tx (tx_id, tenant, chain_id, signer, request_id, request_hash, payload,
                             finality, gas_limit, state, sub_state, events, created_at, updated_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, 1, ?12, ?12)
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
            |row| row.get::<_, i64>("position"),
        )?;
    let entry = Entry {
        tx: new.id,
        tenant: &new.tenant,
        lane: new.lane,
        seq: 1,
        kind: EventKind::Accepted,
        standing: created,
        node,
        token: None,
        data: &json!({}),
        now,
    };
    entry.write(connection)?;
    Ok(new.accepted(position.unsigned_abs(), rows::timestamp(now)?))
}
