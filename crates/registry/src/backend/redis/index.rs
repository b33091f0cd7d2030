//! The lists of who lives: of each pool and of all, by last heartbeat.
//!
//! They are at home in other hash slots than the nodes, so no script can write both. They follow
//! behind: a list is a hint, and the node's own record decides. So does what else a heartbeat leaves
//! to be done: the other keys of the node have a longer life, which needs to be prolonged less often.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use redis::{Cmd, Pipeline, RedisResult};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::answers::{Slots, slots};
use super::keys::Keys;
use super::link::{Link, Wire};
use super::{Redis, SLOTS};
use crate::backend::Backend;
use crate::clock::milliseconds;
use crate::error::BackendError;
use crate::registry::Inner;
use crate::{Node, NodeId, PoolId, Settings};

/// For so long heartbeats are gathered before they are listed: far shorter than the life of a node.
const MOMENT: Duration = Duration::from_millis(20);

/// So many are listed in one go.
const AT_ONCE: usize = 512;

/// Who was heard of, when, and in which pools.
#[derive(Debug)]
pub(super) struct Heard {
    id: NodeId,
    pools: Vec<PoolId>,
    at_ms: u64,
}

impl Heard {
    pub(super) fn of(node: &Node) -> Self {
        Self { id: node.id.clone(), pools: node.pools.clone(), at_ms: node.last_heartbeat_ms }
    }
}

/// Sends commands for different hash slots: in one go to one server, side by side to a cluster.
async fn spread(wire: Wire, commands: Vec<Cmd>) -> RedisResult<()> {
    if let Wire::One(mut one) = wire {
        let mut pipeline = redis::pipe();
        for command in commands {
            pipeline.add_command(command).ignore();
        }
        return pipeline.query_async(&mut one).await;
    }
    let sent = commands.into_iter().map(|command| {
        let mut wire = wire.clone();
        async move { command.query_async::<()>(&mut wire).await }
    });
    join_all(sent).await.into_iter().collect()
}

/// Lists these nodes. A time that has been overtaken changes nothing.
pub(super) async fn list(
    link: &Arc<Link>,
    keys: &Keys,
    limit: Duration,
    heard: &[Heard],
) -> Result<(), BackendError> {
    let mut lists: HashMap<String, Vec<(u64, &str)>> = HashMap::new();
    for one in heard {
        let pools = one.pools.iter().map(Some).chain([None]);
        for pool in pools {
            lists.entry(keys.index(pool)).or_default().push((one.at_ms, one.id.as_str()));
        }
    }
    let commands = lists.into_iter().map(|(key, members)| {
        let mut command = redis::cmd("ZADD");
        command.arg(key).arg("GT");
        for (at_ms, id) in members {
            command.arg(at_ms).arg(id);
        }
        command
    });
    let commands = commands.collect();
    link.run(limit, |wire| spread(wire, commands)).await
}

/// Takes a node off its lists. If that fails it falls out by itself.
pub(super) async fn unlist(
    link: &Arc<Link>,
    keys: &Keys,
    limit: Duration,
    id: &NodeId,
    pools: &[PoolId],
) -> Result<(), BackendError> {
    let lists = pools.iter().map(Some).chain([None]);
    let commands = lists.map(|pool| {
        let mut command = redis::cmd("ZREM");
        command.arg(keys.index(pool)).arg(id.as_str());
        command
    });
    let commands = commands.collect();
    link.run(limit, |wire| spread(wire, commands)).await
}

/// When the keys of a node were last prolonged by this instance.
struct Prolonged {
    every: Duration,
    last: HashMap<NodeId, Instant>,
}

impl Prolonged {
    fn new(settings: &Settings) -> Self {
        let every = settings.tombstone_ttl.min(settings.capacity_ttl) / 4;
        Self { every, last: HashMap::new() }
    }

    /// Whether it is time, and if so, that it is being done.
    fn is_due(&mut self, id: &NodeId) -> bool {
        let due = self.last.get(id).is_none_or(|last| last.elapsed() >= self.every);
        if due {
            self.last.insert(id.clone(), Instant::now());
        }
        due
    }

    fn sweep(&mut self) {
        self.last.retain(|_, last| last.elapsed() < self.every);
    }
}

/// Works through whoever was heard of, all that have come within a moment together, and each of them
/// once.
pub(super) async fn run(
    redis: &Redis,
    inner: &Arc<Inner>,
    mut heard: mpsc::UnboundedReceiver<Heard>,
) {
    let limit = redis.settings.redis_timeout;
    let mut prolonged = Prolonged::new(&redis.settings);
    let mut batch = Vec::new();
    while heard.recv_many(&mut batch, AT_ONCE).await > 0 {
        tokio::time::sleep(MOMENT).await;
        while let Ok(one) = heard.try_recv() {
            batch.push(one);
        }
        let latest: HashMap<NodeId, Heard> =
            batch.drain(..).map(|one| (one.id.clone(), one)).collect();
        let latest: Vec<Heard> = latest.into_values().collect();
        for some in latest.chunks(AT_ONCE) {
            if let Err(error) = list(&redis.link, &redis.keys, limit, some).await {
                tracing::debug!(%error, "nodes are listed with their next heartbeat");
            }
        }
        let ids: Vec<NodeId> = latest.iter().map(|one| one.id.clone()).collect();
        for some in ids.chunks(AT_ONCE) {
            if let Err(error) = redis.look_at_slots(inner, some).await {
                tracing::debug!(%error, "slots are looked at with a later heartbeat");
            }
        }
        let due: Vec<&NodeId> =
            latest.iter().map(|one| &one.id).filter(|id| prolonged.is_due(id)).collect();
        for some in due.chunks(AT_ONCE) {
            if let Err(error) = redis.prolong_keys(some).await {
                tracing::debug!(%error, "keys are prolonged with a later heartbeat");
                prolonged.last.retain(|id, _| !some.contains(&id));
            }
        }
        prolonged.sweep();
    }
}

impl Redis {
    /// Reads how many jobs run. Where there are any, some may have run out: then they are counted.
    async fn look_at_slots(&self, inner: &Arc<Inner>, ids: &[NodeId]) -> Result<(), BackendError> {
        let limit = self.settings.redis_timeout;
        let ask = |pipeline: &mut Pipeline, id: &NodeId| {
            pipeline.cmd("HMGET").arg(self.keys.capacity(id)).arg(&SLOTS);
        };
        let read: Vec<(Slots,)> = self.of_each(ids, limit, ask).await?;
        let looks = ids.iter().zip(read).map(async |(id, (said,))| {
            let (mut capacity, tick) = slots(said);
            if capacity.used() > 0 {
                capacity = self.capacity(id).await?.unwrap_or(capacity);
            }
            inner.cache.with(id.as_str(), |slot| {
                inner.cache.absorb_capacity(slot, capacity, tick);
            });
            Ok(())
        });
        join_all(looks).await.into_iter().collect()
    }

    async fn prolong_keys(&self, ids: &[&NodeId]) -> Result<(), BackendError> {
        let settings = &self.settings;
        let kept = milliseconds(settings.node_ttl.saturating_add(settings.tombstone_ttl));
        let commands = ids.iter().flat_map(|id| {
            let keys = [
                (self.keys.version(id), kept),
                (self.keys.node(id), kept),
                (self.keys.capacity(id), milliseconds(settings.capacity_ttl)),
            ];
            keys.map(|(key, ttl)| {
                let mut command = redis::cmd("PEXPIRE");
                command.arg(key).arg(ttl);
                command
            })
        });
        let commands = commands.collect();
        self.link.run(settings.redis_timeout, |wire| spread(wire, commands)).await
    }
}
