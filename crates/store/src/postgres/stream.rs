//! The stream of all events, and the histories of lanes.

use stile_domain::{Lane, LaneEventKind, NodeId};
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::session::Sessions;
use super::{origin, rows, tx_rows};
use crate::histories::{self, Course, KnownHistory};
use crate::{
    FencingToken, HistoryId, LaneEvent, StoreError, StreamEvent, StreamHistory, StreamPosition,
};

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
    let mut position = position;
    // A history may be there that nobody has named, and a place may have to be named first.
    for _ in 0..ROUNDS {
        if let Some(events) = read(sessions, position, limit).await? {
            return Ok(events);
        }
        let (known, end) = histories(sessions).await?;
        match histories::course(position, &known, end) {
            Some(Course::On(named)) => position = named,
            Some(Course::Told(change)) => return Ok(vec![StreamEvent::HistoryChanged(change)]),
            None => name_history(sessions).await?,
        }
    }
    Err(StoreError::Unavailable("the history of the database keeps changing".into()))
}

/// How often it is tried again to find out which history is being written.
const ROUNDS: usize = 4;

/// What comes after a place; `None` if it is not one of the history that is being written.
async fn read(
    sessions: &Sessions,
    position: StreamPosition,
    limit: u32,
) -> Result<Option<Vec<StreamEvent>>, StoreError> {
    let history = position.history.map(|history| history.0);
    let found = sessions
        .read(
            include_str!("sql/events_after.sql"),
            &[
                (&position.transaction, Type::INT8),
                (&position.entry, Type::INT8),
                (&i64::from(limit.max(1)), Type::INT8),
                (&history, Type::INT8),
            ],
        )
        .await?;
    let Some(first) = found.first() else { return Ok(None) };
    let ours = history.is_some() && first.try_get::<_, Option<i64>>("here")? == history;
    if !ours || position.transaction > first.try_get("ending")? {
        return Ok(None);
    }
    // Where there is nothing, a row says so.
    if first.try_get::<_, Option<i64>>("entry")?.is_none() {
        return Ok(Some(Vec::new()));
    }
    let events = found.iter().map(|row| match row.try_get::<_, Option<Uuid>>("tx_id")? {
        Some(_) => tx_rows::event(row).map(StreamEvent::Tx),
        None => lane_event(row).map(StreamEvent::Lane),
    });
    events.collect::<Result<_, _>>().map(Some)
}

/// Gives the history that is being written a name, unless it has one.
pub(super) async fn name_history(sessions: &Sessions) -> Result<(), StoreError> {
    let name = HistoryId::fresh().0;
    sessions.write(include_str!("sql/name_history.sql"), &[&name]).await.map(drop)
}

/// All histories, oldest first, and the end of the one that is being written.
async fn histories(sessions: &Sessions) -> Result<(Vec<KnownHistory>, StreamPosition), StoreError> {
    let found = sessions.read(include_str!("sql/histories.sql"), &[]).await?;
    let place = |transaction| StreamPosition { transaction, entry: 0, history: None };
    let ending: Option<i64> = found.first().map(|row| row.try_get("ending")).transpose()?;
    let end = StreamPosition { entry: i64::MAX, ..place(ending.unwrap_or_default()) };
    let known = found.iter().map(|row| {
        Ok(KnownHistory {
            history: StreamHistory {
                id: HistoryId(row.try_get("history")?),
                timeline: row
                    .try_get::<_, Option<&str>>("timeline")?
                    .map(|history| origin::timeline(history).to_owned()),
            },
            began: place(row.try_get("began")?),
            reached: place(row.try_get("reached")?),
            is_here: row.try_get::<_, Option<bool>>("is_here")?.unwrap_or(false),
        })
    });
    Ok((known.collect::<Result<_, StoreError>>()?, end))
}

pub(super) async fn stream_end(sessions: &Sessions) -> Result<StreamPosition, StoreError> {
    for _ in 0..ROUNDS {
        let rows = sessions.read(include_str!("sql/stream_end.sql"), &[]).await?;
        let row =
            rows.first().ok_or_else(|| StoreError::Internal("no answer to a question".into()))?;
        let end = tx_rows::place(row)?;
        if end.history.is_some() {
            return Ok(end);
        }
        name_history(sessions).await?;
    }
    Err(StoreError::Unavailable("the history of the database keeps changing".into()))
}

pub(super) async fn lane_history(
    sessions: &Sessions,
    lane: Lane,
    before: Option<StreamPosition>,
    limit: u32,
) -> Result<Vec<LaneEvent>, StoreError> {
    let end = StreamPosition { transaction: i64::MAX, entry: i64::MAX, history: None };
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
