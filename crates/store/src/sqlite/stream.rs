//! The stream of all events, and the histories of lanes.

use rusqlite::{Connection, params};
use serde_json::Value;
use stile_domain::{Lane, LaneEventKind, NodeId};
use uuid::Uuid;

use super::tx_rows::json;
use super::{rows, tx_rows};
use crate::histories::{self, Course, KnownHistory};
use crate::{
    FencingToken, HistoryId, LaneEvent, StoreError, StreamEvent, StreamHistory, StreamPosition,
};

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

/// The name of the history that is being written, in a statement.
pub(super) const THIS_HISTORY: &str =
    "(SELECT history FROM stream_history ORDER BY number DESC LIMIT 1)";

/// An older copy of the file is being served: what it has is the past of another history from here on.
pub(super) fn begin_history(connection: &Connection) -> Result<(), StoreError> {
    let end = counter(connection)?;
    connection
        .prepare_cached("UPDATE stream_history SET reached = ?1 WHERE reached IS NULL")?
        .execute([end])?;
    connection
        .prepare_cached("INSERT INTO stream_history (history, began) VALUES (?1, ?2)")?
        .execute([HistoryId::fresh().0, end])?;
    Ok(())
}

/// The number of the last entry.
fn counter(connection: &Connection) -> Result<i64, StoreError> {
    Ok(connection
        .prepare_cached("SELECT seq FROM sqlite_sequence WHERE name = 'tx_event'")?
        .query_row([], |row| row.get(0))?)
}

/// All histories, oldest first.
fn known(connection: &Connection) -> Result<Vec<KnownHistory>, StoreError> {
    let place = |entry| StreamPosition { transaction: 0, entry, history: None };
    let mut statement = connection
        .prepare_cached("SELECT history, began, reached FROM stream_history ORDER BY number")?;
    let known = statement.query_map([], |row| {
        let reached: Option<i64> = row.get("reached")?;
        Ok(KnownHistory {
            history: StreamHistory { id: HistoryId(row.get("history")?), timeline: None },
            began: place(row.get("began")?),
            reached: place(reached.unwrap_or(i64::MAX)),
            is_here: reached.is_none(),
        })
    })?;
    Ok(known.collect::<Result<_, _>>()?)
}

pub(super) fn events_after(
    connection: &Connection,
    position: StreamPosition,
    limit: u32,
) -> Result<Vec<StreamEvent>, StoreError> {
    let end = StreamPosition { transaction: 0, entry: counter(connection)?, history: None };
    let unnamed = || StoreError::Internal("the history of the database has no name".into());
    let course = histories::course(position, &known(connection)?, end).ok_or_else(unnamed)?;
    let position = match course {
        Course::On(position) => position,
        Course::Told(change) => return Ok(vec![StreamEvent::HistoryChanged(change)]),
    };
    // One statement for both: what is committed between two reads comes after what the first one has
    // seen, and a reader who goes on from what the second one saw would pass it by.
    let sql = format!(
        "SELECT *, {THIS_HISTORY} AS here FROM (
             SELECT * FROM (SELECT entry, chain_id, signer, kind, at, node_id, fencing_token, data,
                                   tx_id, seq, tenant, state, sub_state
                            FROM tx_event WHERE entry > ?1 ORDER BY entry LIMIT ?2)
             UNION ALL
             SELECT * FROM (SELECT entry, chain_id, signer, kind, at, node_id, fencing_token, data,
                                   NULL, NULL, NULL, NULL, NULL
                            FROM lane_event WHERE entry > ?1 ORDER BY entry LIMIT ?2))
         ORDER BY entry LIMIT ?2"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let events = statement.query_map(params![position.entry, limit], |row| {
        match row.get::<_, Option<Uuid>>("tx_id")? {
            Some(_) => tx_rows::event(row).map(StreamEvent::Tx),
            None => tx_rows::lane_event(row).map(StreamEvent::Lane),
        }
    })?;
    Ok(events.collect::<Result<_, _>>()?)
}

pub(super) fn stream_end(connection: &Connection) -> Result<StreamPosition, StoreError> {
    let history = known(connection)?.pop().map(|known| known.history.id);
    Ok(StreamPosition { transaction: 0, entry: counter(connection)?, history })
}

pub(super) fn lane_history(
    connection: &Connection,
    lane: Lane,
    before: Option<StreamPosition>,
    limit: u32,
) -> Result<Vec<LaneEvent>, StoreError> {
    let sql = format!(
        "SELECT *, {THIS_HISTORY} AS here FROM lane_event WHERE chain_id = ?1 AND signer = ?2 AND entry < ?3
         ORDER BY entry DESC LIMIT ?4"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let before = before.map_or(i64::MAX, |position| position.entry);
    let key = params![rows::chain(lane), lane.signer.as_slice(), before, limit];
    let events = statement.query_map(key, tx_rows::lane_event)?;
    Ok(events.collect::<Result<_, _>>()?)
}
