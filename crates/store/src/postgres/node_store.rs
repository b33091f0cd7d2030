//! The part of the trait that is about the nodes themselves.

use std::time::Duration;

use async_trait::async_trait;
use stile_domain::{Holder, Incarnation, NodeId, NodeMode, Timestamp};
use tokio::sync::mpsc;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::{PostgresStore, news, reached, rows};
use crate::{Heard, LaneNews, LiveNode, NodeRecord, NodeStore, StoreError};

#[async_trait]
impl NodeStore for PostgresStore {
    async fn heartbeat(
        &self,
        node: &NodeRecord,
        start: bool,
    ) -> Result<Option<Timestamp>, StoreError> {
        let reached = self.sessions.reached();
        let before = reached.so_far();
        let written = self
            .sessions
            .write(
                include_str!("sql/heartbeat.sql"),
                &[
                    &node.holder.node.0,
                    &node.holder.incarnation.0,
                    &node.holder.url,
                    &node.mode.name(),
                    &node.serves,
                    &node.draining,
                    &start,
                ],
            )
            .await?;
        match (reached.compare(before, written.first()), written.is_empty()) {
            (Some(position), false) => reached.answered(position),
            (Some(_), true) => {}
            (None, _) => reached::note_loss(&self.sessions).await?,
        }
        Ok(written.first().map(|row| row.try_get("heard_at")).transpose()?)
    }

    async fn live_nodes(&self, within: Duration) -> Result<Vec<LiveNode>, StoreError> {
        let sql = include_str!("sql/live_nodes.sql");
        let within = rows::seconds(within);
        let found = self.sessions.read(sql, &[(&within, Type::FLOAT8)]).await?;
        found.iter().map(live_node).collect()
    }

    async fn leave(&self, node: &NodeId, incarnation: Incarnation) -> Result<(), StoreError> {
        let sql = include_str!("sql/leave.sql");
        self.sessions.write(sql, &[&node.0, &incarnation.0]).await?;
        Ok(())
    }

    async fn tell_nodes(&self, news: &[LaneNews]) -> Result<(), StoreError> {
        let texts = news::texts(news);
        self.sessions.write(include_str!("sql/tell_nodes.sql"), &[&texts]).await?;
        Ok(())
    }

    fn listen(&self) -> Option<mpsc::Receiver<Heard>> {
        Some(super::listen::start(self.direct.clone()))
    }
}

fn live_node(row: &Row) -> Result<LiveNode, StoreError> {
    let mode: &str = row.try_get("mode")?;
    Ok(LiveNode {
        record: NodeRecord {
            holder: Holder {
                node: NodeId(row.try_get("node_id")?),
                incarnation: Incarnation(row.try_get("incarnation")?),
                url: row.try_get("url")?,
            },
            mode: NodeMode::of_name(mode).ok_or_else(|| rows::broken("mode"))?,
            serves: row.try_get("serves")?,
            draining: row.try_get("draining")?,
        },
        started_at: row.try_get("started_at")?,
        seen_at: row.try_get("seen_at")?,
    })
}
