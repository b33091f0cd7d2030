//! The stream of all events, and the histories of lanes.

use rusqlite::{Connection, params};
use serde_json::Value;
use stile_domain::{Lane, LaneEventKind, NodeId};
use uuid::Uuid;

use super::tx_rows::json;
use super::{rows, tx_rows};
use crate::{FencingToken, LaneEvent, StoreError, StreamEvent, StreamPosition};

/// An entry about to be written to a lane's history.
pub(super) struct LaneEntry<'e> {
    pub(super) lane: Lane,
    pub(super) kind: LaneEventKind,
    pub(super) node: &'e NodeId,
    pub(super) token: Option<FencingToken>,
    pub(super) data: &'e Value,
    pub(super) now: i64,
}

impl LaneEntry<'_> {
    pub(super) fn write(&self, connection: &Connection) -> Result<(), StoreError> {
        // The counter that `tx_event` takes its own numbers from, so that both are one order.
        let entry: i64 = connection
            .prepare_cached(
                "UPDATE sqlite_sequence SET seq = seq + 1 WHERE name = 'tx_event' RETURNING seq",
            )?
            .query_row([], |row| row.get(0))?;
        connection
            .prepare_cached("INSERT INTO lane_event VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?
            .execute(params![
                entry,
                rows::chain(self.lane),
                self.lane.signer.as_slice(),
                self.kind.name(),
                self.now,
                self.node.0,
                self.token.map(|token| token.0),
                json(self.data)?,
            ])?;
        Ok(())
    }
}

/// A place from a store with many writers is past everything here.
fn entry_of(position: StreamPosition) -> i64 {
    if position.transaction > 0 { i64::MAX } else { position.entry }
}

pub(super) fn events_after(
    connection: &Connection,
    position: StreamPosition,
    limit: u32,
) -> Result<Vec<StreamEvent>, StoreError> {
    // One statement for both: what is committed between two reads comes after what the first one has
    // seen, and a reader who goes on from what the second one saw would pass it by.
    let mut statement = connection.prepare_cached(
        "SELECT * FROM (SELECT entry, chain_id, signer, kind, at, node_id, fencing_token, data, tx_id, seq,
                               tenant, state, sub_state
                        FROM tx_event WHERE entry > ?1 ORDER BY entry LIMIT ?2)
         UNION ALL
         SELECT * FROM (SELECT entry, chain_id, signer, kind, at, node_id, fencing_token, data, NULL, NULL,
                               NULL, NULL, NULL
                        FROM lane_event WHERE entry > ?1 ORDER BY entry LIMIT ?2)
         ORDER BY entry LIMIT ?2",
    )?;
    let events = statement.query_map(params![entry_of(position), limit], |row| {
        match row.get::<_, Option<Uuid>>("tx_id")? {
            Some(_) => tx_rows::event(row).map(StreamEvent::Tx),
            None => tx_rows::lane_event(row).map(StreamEvent::Lane),
        }
    })?;
    Ok(events.collect::<Result<_, _>>()?)
}

pub(super) fn stream_end(connection: &Connection) -> Result<StreamPosition, StoreError> {
    let entry = connection
        .prepare_cached("SELECT seq FROM sqlite_sequence WHERE name = 'tx_event'")?
        .query_row([], |row| row.get(0))?;
    Ok(StreamPosition { transaction: 0, entry })
}

pub(super) fn lane_history(
    connection: &Connection,
    lane: Lane,
    before: Option<StreamPosition>,
    limit: u32,
) -> Result<Vec<LaneEvent>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT * FROM lane_event WHERE chain_id = ?1 AND signer = ?2 AND entry < ?3
         ORDER BY entry DESC LIMIT ?4",
    )?;
    let before = before.map_or(i64::MAX, entry_of);
    let key = params![rows::chain(lane), lane.signer.as_slice(), before, limit];
    let events = statement.query_map(key, tx_rows::lane_event)?;
    Ok(events.collect::<Result<_, _>>()?)
}
