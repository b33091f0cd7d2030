//! The stream of all events, and the histories of lanes.

use stile_domain::{Lane, LaneEventKind, NodeId};
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::session::Sessions;
use super::{rows, tx_rows};
use crate::{FencingToken, LaneEvent, StoreError, StreamEvent, StreamPosition};

fn lane_event(row: &Row) -> Result<LaneEvent, StoreError> {
    Ok(LaneEvent {
        position: tx_rows::place(row)?,
        lane: rows::lane(row)?,
        kind: tx_rows::name::<LaneEventKind>(row, "kind")?,
        at: row.try_get("at")?,
        node: NodeId(row.try_get("node_id")?),
        fencing_token: row.try_get::<_, Option<i64>>("fencing_token")?.map(FencingToken),
        data: row.try_get("data")?,
    })
}

pub(super) async fn events_after(
    sessions: &Sessions,
    position: StreamPosition,
    limit: u32,
) -> Result<Vec<StreamEvent>, StoreError> {
    let found = sessions
        .read(
            include_str!("sql/events_after.sql"),
            &[
                (&position.transaction, Type::INT8),
                (&position.entry, Type::INT8),
                (&i64::from(limit), Type::INT8),
            ],
        )
        .await?;
    found
        .iter()
        .map(|row| match row.try_get::<_, Option<Uuid>>("tx_id")? {
            Some(_) => tx_rows::event(row).map(StreamEvent::Tx),
            None => lane_event(row).map(StreamEvent::Lane),
        })
        .collect()
}

pub(super) async fn stream_end(sessions: &Sessions) -> Result<StreamPosition, StoreError> {
    let rows = sessions.read(include_str!("sql/stream_end.sql"), &[]).await?;
    let row = rows.first().ok_or_else(|| StoreError::Internal("no answer to a question".into()))?;
    Ok(StreamPosition { transaction: row.try_get("transaction")?, entry: 0 })
}

pub(super) async fn lane_history(
    sessions: &Sessions,
    lane: Lane,
    before: Option<StreamPosition>,
    limit: u32,
) -> Result<Vec<LaneEvent>, StoreError> {
    let end = StreamPosition { transaction: i64::MAX, entry: i64::MAX };
    let before = before.unwrap_or(end);
    let found = sessions
        .read(
            include_str!("sql/lane_history.sql"),
            &[
                (&rows::chain(lane), Type::INT8),
                (&lane.signer.as_slice(), Type::BYTEA),
                (&before.transaction, Type::INT8),
                (&before.entry, Type::INT8),
                (&i64::from(limit), Type::INT8),
            ],
        )
        .await?;
    found.iter().map(lane_event).collect()
}
