//! Acceptance: what needs no lease.

use rusqlite::{Connection, OptionalExtension, params};
use serde_json::json;
use stile_domain::{EventKind, NodeId, Nonce, Standing};

use super::events::Entry;
use super::tx_rows::json;
use super::{read_txs, rollout, rows};
use crate::tx_columns::{bound_standing, finality_text};
use crate::{Acceptance, NewAttempt, NewTx, StoreError, Tx};

/// Accepts transactions, each with an answer.
pub(super) fn accept(
    connection: &Connection,
    node: &NodeId,
    txs: &[NewTx],
) -> Result<Vec<Acceptance>, StoreError> {
    let now = rows::now(connection)?;
    txs.iter().map(|new| accept_one(connection, node, new, now)).collect()
}

/// Nothing is accepted for a lane that is not Stile's; what was accepted before is answered as before.
fn accept_one(
    connection: &Connection,
    node: &NodeId,
    new: &NewTx,
    now: i64,
) -> Result<Acceptance, StoreError> {
    if let Some(elsewhere) = rollout::elsewhere(connection, new.lane)? {
        let before = accepted_before(connection, new)?;
        return Ok(before.map_or(Acceptance::Elsewhere(elsewhere), Acceptance::Existing));
    }
    match insert(connection, node, new, now)? {
        Some(tx) => Ok(Acceptance::New(tx)),
        None => accepted_before(connection, new)?
            .map(Acceptance::Existing)
            .ok_or_else(|| StoreError::Internal("a request id is taken by nobody".into())),
    }
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
pub(super) fn insert(
    connection: &Connection,
    node: &NodeId,
    new: &NewTx,
    now: i64,
) -> Result<Option<Tx>, StoreError> {
    let tx = insert_row(connection, new, None, now)?;
    if tx.is_some() {
        tell(connection, node, new, now)?;
    }
    Ok(tx)
}

/// What a transaction gets that is bound in the commit that accepts it.
pub(super) struct Bound<'b> {
    pub(super) nonce: Nonce,
    pub(super) attempt: &'b NewAttempt,
    pub(super) resubmit_at: Option<i64>,
}

/// Writes the row of a transaction. `None` if its request id or its very name is taken; every other
/// conflict is an error.
pub(super) fn insert_row(
    connection: &Connection,
    new: &NewTx,
    bound: Option<&Bound<'_>>,
    now: i64,
) -> Result<Option<Tx>, StoreError> {
    let standing = if bound.is_some() { bound_standing()? } else { Standing::CREATED };
    let gas_limit = new.gas_limit.or(bound.map(|bound| bound.attempt.gas_limit));
    let position = connection
        .prepare_cached(
            "INSERT INTO tx (tx_id, tenant, chain_id, signer, request_id, request_hash, payload,
                             finality, gas_limit, replaces, nonce, tx_hash, next_resubmit_at, state,
                             sub_state, events, created_at, updated_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?17)
             ON CONFLICT (tx_id) DO NOTHING
             ON CONFLICT (tenant, chain_id, signer, request_id) WHERE request_id IS NOT NULL
                 DO NOTHING
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
                gas_limit.map(u64::cast_signed),
                new.replaces.map(|id| id.0),
                bound.map(|bound| bound.nonce.cast_signed()),
                bound.map(|bound| bound.attempt.hash.as_slice()),
                bound.and_then(|bound| bound.resubmit_at),
                standing.state.name(),
                standing.sub_state.map(|sub_state| sub_state.name()),
                // The second entry says what it got.
                if bound.is_some() { 2 } else { 1 },
                now,
            ],
            |row| row.get::<_, i64>(0),
        )
        .optional()?;
    let Some(position) = position.map(i64::unsigned_abs) else { return Ok(None) };
    let now = rows::timestamp(now)?;
    Ok(Some(match bound {
        None => new.accepted(position, now),
        Some(Bound { nonce, attempt, resubmit_at }) => {
            let again = resubmit_at.map(rows::timestamp).transpose()?;
            new.bound(position, now, *nonce, attempt, again)?
        }
    }))
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
