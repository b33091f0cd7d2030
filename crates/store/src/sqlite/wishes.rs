//! What callers want of their transactions afterwards: what needs no lease.

use rusqlite::{Connection, OptionalExtension, params};
use serde_json::json;
use stile_domain::{EventKind, Lane, NodeId, TxId};

use super::events::Entry;
use super::restored::AWAITS_WORD;
use super::{read_txs, rows, tx_rows};
use crate::tx_columns::{unwithdrawn, withdrawn_standing};
use crate::{StoreError, Tx, Wish, Withdrawal};

pub(super) fn withdraw(
    connection: &Connection,
    node: &NodeId,
    id: TxId,
) -> Result<Withdrawal, StoreError> {
    let (standing, now) = (withdrawn_standing()?, rows::now(connection)?);
    let withdrawn = connection
        .prepare_cached(
            // What may be on the chain is not withdrawn.
            &format!(
                "UPDATE tx AS t SET state = ?2, sub_state = ?3, events = events + 1, updated_at = ?4
                 WHERE t.tx_id = ?1 AND t.state = 'CREATED'
                   AND NOT EXISTS (SELECT 1 FROM lane l
                                   WHERE l.chain_id = t.chain_id AND l.signer = t.signer AND {AWAITS_WORD})
                 RETURNING *"
            ),
        )?
        .query_row(
            params![
                id.0,
                standing.state.name(),
                standing.sub_state.map(|sub_state| sub_state.name()),
                now
            ],
            tx_rows::tx,
        )
        .optional()?;
    let Some(tx) = withdrawn else { return Ok(unwithdrawn(read_txs::tx(connection, id)?)) };
    let entry = Entry {
        tx: tx.id,
        tenant: &tx.tenant,
        lane: tx.lane,
        seq: tx.events,
        kind: EventKind::Cancelled,
        standing,
        node,
        token: None,
        data: &json!({}),
        now,
    };
    entry.write(connection)?;
    Ok(Withdrawal::Done(tx))
}

/// Leaves a wish: see the statement of the same name on PostgreSQL.
pub(super) fn wish(
    connection: &Connection,
    id: TxId,
    wish: &Wish,
) -> Result<Option<Tx>, StoreError> {
    connection
        .prepare_cached(
            "UPDATE tx SET wish = ?2
             WHERE tx_id = ?1 AND state IN ('ALLOCATED', 'SUBMITTED') AND rival_block IS NULL",
        )?
        .execute(params![id.0, tx_rows::json(wish)?])?;
    read_txs::tx(connection, id)
}

pub(super) fn wishes(
    connection: &Connection,
    lane: Lane,
) -> Result<Vec<(Lane, TxId, Wish)>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT tx_id, wish FROM tx
         WHERE chain_id = ?1 AND signer = ?2 AND wish IS NOT NULL ORDER BY nonce",
    )?;
    let found = statement
        .query_map(params![rows::chain(lane), lane.signer.as_slice()], tx_rows::wish)?
        .map(|found| found.map(|(tx, wish)| (lane, tx, wish)));
    Ok(found.collect::<Result<_, _>>()?)
}
