//! Nodes and their versions, read several at a time.

use std::time::Duration;

use redis::Pipeline;

use super::answers::{self, Read, Slots};
use super::record::{self, Alive};
use super::{Redis, SLOTS};
use crate::NodeId;
use crate::backend::{Found, Seen};
use crate::error::BackendError;

/// A version, a sign of life with when it runs out, and slots.
type Checked = (Option<String>, Option<String>, i64, i64, Slots);

impl Redis {
    fn ask_life(&self, pipeline: &mut Pipeline, id: &NodeId, incarnation: u64) {
        let live = self.keys.live(id, incarnation);
        for command in ["GET", "PTTL", "PEXPIRETIME"] {
            pipeline.cmd(command).arg(&live);
        }
    }

    /// Reads nodes, and then the life of the start that each of them is in.
    pub(super) async fn read(&self, ids: &[NodeId]) -> Result<Vec<Found>, BackendError> {
        let limit = self.settings.redis_timeout;
        let ask = |pipeline: &mut Pipeline, id: &NodeId| {
            // The version first: if the node is written in between, it looks older than it is, and
            // is read again.
            pipeline.cmd("GET").arg(self.keys.version(id));
            pipeline.cmd("HGETALL").arg(self.keys.node(id));
            pipeline.cmd("HMGET").arg(self.keys.capacity(id)).arg(&SLOTS);
        };
        let read: Vec<Read> = self.of_each(ids, limit, ask).await?;
        let starts = ids.iter().zip(&read).map(|(id, (version, ..))| {
            let version = version.as_deref().map(record::version).transpose()?;
            Ok((id, version.unwrap_or_default().0.incarnation))
        });
        let starts: Vec<(&NodeId, u64)> = starts.collect::<Result<_, BackendError>>()?;
        let ask = |pipeline: &mut Pipeline, (id, incarnation): &(&NodeId, u64)| {
            self.ask_life(pipeline, id, *incarnation);
        };
        let lives: Vec<Alive> = self.of_each(&starts, limit, ask).await?;
        for (_, remaining, dies_at) in lives.iter().filter(|(sign, ..)| sign.is_some()) {
            self.clock.is(u64::try_from(dies_at - remaining).unwrap_or_default());
        }
        let all = ids.iter().zip(&read).zip(&lives);
        all.map(|((id, read), alive)| answers::found(id, read, alive)).collect()
    }

    pub(super) async fn seen(
        &self,
        starts: &[(NodeId, u64)],
        limit: Duration,
    ) -> Result<Vec<Seen>, BackendError> {
        let ask = |pipeline: &mut Pipeline, (id, incarnation): &(NodeId, u64)| {
            pipeline.cmd("GET").arg(self.keys.version(id));
            self.ask_life(pipeline, id, *incarnation);
            pipeline.cmd("HMGET").arg(self.keys.capacity(id)).arg(&SLOTS);
        };
        let read: Vec<Checked> = self.of_each(starts, limit, ask).await?;
        let seen = read.into_iter().map(|(version, life, remaining, dies_at, taken)| {
            answers::seen(version.as_deref(), &(life, remaining, dies_at), taken)
        });
        seen.collect()
    }
}
