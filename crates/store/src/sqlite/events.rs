//! Entries in histories.

use rusqlite::{Connection, params};
use serde_json::Value;
use stile_domain::{EventKind, Lane, NodeId, Standing, TxId};

use super::rows;
use super::tx_rows::json;
use crate::{FencingToken, StoreError};

/// An entry about to be written.
pub(super) struct Entry<'e> {
    pub(super) tx: TxId,
    pub(super) tenant: &'e str,
    pub(super) lane: Lane,
    pub(super) seq: u32,
    pub(super) kind: EventKind,
    pub(super) standing: Standing,
    pub(super) node: &'e NodeId,
    pub(super) token: Option<FencingToken>,
    pub(super) data: &'e Value,
    pub(super) now: i64,
}

impl Entry<'_> {
    pub(super) fn write(&self, connection: &Connection) -> Result<(), StoreError> {
        connection
            .prepare_cached(
                "INSERT INTO tx_event (tx_id, seq, tenant, chain_id, signer, kind, state, sub_state,
                                       at, node_id, fencing_token, data)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
            )?
            .execute(params![
                self.tx.0,
                self.seq,
                self.tenant,
                rows::chain(self.lane),
                self.lane.signer.as_slice(),
                self.kind.name(),
                self.standing.state.name(),
                self.standing.sub_state.map(|sub_state| sub_state.name()),
                self.now,
                self.node.0,
                self.token.map(|token| token.0),
                json(self.data)?,
            ])?;
        Ok(())
    }
}
