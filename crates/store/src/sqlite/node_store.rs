//! The part of the trait that is about the nodes themselves.

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::types::Type;
use rusqlite::{Connection, Row, params};
use stile_domain::{Holder, Incarnation, NodeId, NodeMode, Timestamp};
use tokio::sync::mpsc;

use super::{SqliteStore, rows};
use crate::{Heard, LaneNews, LiveNode, NodeRecord, NodeStore, StoreError};

/// Nodes that ended without a word are forgotten after this time.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(24 * 3600);

#[async_trait]
impl NodeStore for SqliteStore {
    async fn heartbeat(
        &self,
        node: &NodeRecord,
        start: bool,
    ) -> Result<Option<Timestamp>, StoreError> {
        let node = node.clone();
        let heard = self.write(move |c| heartbeat(c, &node, start)).await?;
        self.stamp_again().await;
        Ok(heard)
    }

    async fn live_nodes(&self, within: Duration) -> Result<Vec<LiveNode>, StoreError> {
        self.read(move |c| {
            let since = rows::now(c)?.saturating_sub(rows::micros(within));
            let mut statement = c.prepare_cached(
                "SELECT node_id, incarnation, url, mode, serves, started_at, seen_at, draining
                 FROM node WHERE seen_at > ?1 ORDER BY node_id",
            )?;
            let found = statement.query_map([since], live_node)?;
            Ok(found.collect::<Result<_, _>>()?)
        })
        .await
    }

    async fn leave(&self, node: &NodeId, incarnation: Incarnation) -> Result<(), StoreError> {
        let node = node.clone();
        self.write(move |c| {
            let forgotten = rows::now(c)?.saturating_sub(rows::micros(FORGOTTEN_AFTER));
            c.prepare_cached(
                "DELETE FROM node WHERE (node_id = ?1 AND incarnation = ?2) OR seen_at < ?3",
            )?
            .execute(params![node.0, incarnation.0, forgotten])?;
            Ok(())
        })
        .await
    }

    /// Nobody else is there to hear it.
    async fn tell_nodes(&self, _: &[LaneNews]) -> Result<(), StoreError> {
        Ok(())
    }

    fn listen(&self) -> Option<mpsc::Receiver<Heard>> {
        None
    }
}

fn heartbeat(
    connection: &Connection,
    node: &NodeRecord,
    start: bool,
) -> Result<Option<Timestamp>, StoreError> {
    let now = rows::now(connection)?;
    // The clock is coarse: of two that start in one moment the second one is the later all the
    // same.
    let written = connection
        .prepare_cached(
            "INSERT INTO node (node_id, incarnation, url, mode, serves, started_at, seen_at, draining)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6, ?7)
             ON CONFLICT (node_id) DO UPDATE
             SET incarnation = excluded.incarnation, url = excluded.url, mode = excluded.mode,
                 serves = excluded.serves, draining = excluded.draining,
                 started_at = CASE WHEN incarnation = excluded.incarnation THEN started_at
                                   ELSE max(started_at + 1, excluded.started_at) END,
                 seen_at = max(started_at + 1, excluded.seen_at)
             WHERE incarnation = excluded.incarnation OR ?8",
        )?
        .execute(params![
            node.holder.node.0,
            node.holder.incarnation.0,
            node.holder.url,
            node.mode.name(),
            node.serves,
            now,
            node.draining,
            start,
        ])?;
    (written == 1).then(|| rows::timestamp(now)).transpose()
}

fn live_node(row: &Row<'_>) -> rusqlite::Result<LiveNode> {
    let mode: String = row.get("mode")?;
    Ok(LiveNode {
        record: NodeRecord {
            holder: Holder {
                node: NodeId(row.get("node_id")?),
                incarnation: Incarnation(row.get("incarnation")?),
                url: row.get("url")?,
            },
            mode: NodeMode::of_name(&mode).ok_or_else(|| rows::broken(row, "mode", Type::Text))?,
            serves: row.get("serves")?,
            draining: row.get("draining")?,
        },
        started_at: rows::time(row, "started_at")?,
        seen_at: rows::time(row, "seen_at")?,
    })
}
