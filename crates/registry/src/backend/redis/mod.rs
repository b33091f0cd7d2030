//! The truth in Redis or Valkey, one server or a cluster.

mod answers;
mod clock;
mod exchange;
mod heartbeat;
mod index;
mod keys;
mod link;
mod news;
mod read;
mod record;
mod scripts;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use redis::PushInfo;
use serde_json::Value;
use tokio::sync::mpsc;

use self::clock::ServerClock;
use self::exchange::Call;
use self::index::Heard;
use self::keys::Keys;
use self::link::{Link, Wire};
use super::{Backend, Found, Known, Removal, Reserve, Seen, Slot, Swap, Wrote};
use crate::clock::milliseconds;
use crate::error::BackendError;
use crate::registry::{ConnectError, Inner};
use crate::report::Usage;
use crate::settings::{Invalidation, Settings};
use crate::{
    Capacity, Config, ConfigName, Heartbeat, JobId, Node, NodeId, PoolId, Registration, Version,
};

#[derive(Debug)]
pub(crate) struct Redis {
    link: Arc<Link>,
    keys: Keys,
    settings: Settings,
    /// Where writers publish; empty if nobody is to.
    channel: String,
    listing: mpsc::UnboundedSender<Heard>,
    behind: Mutex<Option<Behind>>,
    clock: ServerClock,
}

/// What is worked through behind the answers.
#[derive(Debug)]
struct Behind {
    to_list: mpsc::UnboundedReceiver<Heard>,
    told: mpsc::UnboundedReceiver<PushInfo>,
}

/// The most names that are read of a list: whoever writes to Redis must not fill this process.
const MOST_LISTED: u32 = 50_000;

/// What is read of a capacity.
const SLOTS: [&str; 3] = ["running", "reserved", "tick"];

fn strange(what: &str) -> BackendError {
    BackendError::Failed(format!("Redis answered with something else than was asked for: {what}"))
}

fn number(text: &str) -> Result<u64, BackendError> {
    text.parse().map_err(|_| strange(text))
}

impl Redis {
    pub(crate) fn new(url: &str, settings: &Settings) -> Result<Self, ConnectError> {
        let keys = Keys::new(&settings.key_prefix);
        let (tell, told) = mpsc::unbounded_channel();
        let tracked = matches!(settings.invalidation, Invalidation::Tracking);
        let tracked = tracked.then(|| (keys.tracked(), tell));
        let link = Arc::new(Link::new(url, settings.redis_timeout, tracked)?);
        let (listing, to_list) = mpsc::unbounded_channel();
        let channel = match settings.invalidation {
            Invalidation::PubSub => keys.channel(),
            Invalidation::Tracking | Invalidation::Off => String::new(),
        };
        Ok(Self {
            link,
            keys,
            settings: settings.clone(),
            channel,
            listing,
            behind: Mutex::new(Some(Behind { to_list, told })),
            clock: ServerClock::default(),
        })
    }

    /// Lists who was heard of, and passes on what Redis tells of other instances' writes, until the
    /// registry ends.
    pub(crate) async fn run_behind(self: Arc<Self>, inner: Arc<Inner>) {
        let behind = self.behind.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(Behind { to_list, told }) = behind else { return };
        let listing = index::run(&self, &inner, to_list);
        let news = news::run(&self.link, &self.keys, &inner, told);
        let stop = inner.stop.clone();
        tokio::select! {
            () = stop.cancelled() => {}
            _ = futures::future::join(listing, news) => {}
        }
    }
}

#[async_trait]
impl Backend for Redis {
    async fn register(
        &self,
        registration: &Registration,
        floor: Version,
    ) -> Result<Wrote, BackendError> {
        let id = &registration.id;
        let mut call = self.on_node(&scripts::REGISTER, id);
        call.arg(registration.incarnation.map(|number| number.to_string()).unwrap_or_default())
            .arg(floor.incarnation)
            .arg(floor.sequence);
        self.lifetimes(&mut call);
        call.arg(record::usage(Usage::said(&registration.resources)))
            .arg(&self.channel)
            .arg(registration.resources.max_concurrency);
        let answer = self.write(call, record::registration(registration)).await?;
        let wrote = answers::wrote(id, answer, self.settings.node_ttl)?;
        if let Wrote::Done(record) = &wrote {
            self.clock.is(record.node.last_heartbeat_ms);
            let heard = [Heard::of(&record.node)];
            let limit = self.settings.redis_timeout;
            if let Err(error) = index::list(&self.link, &self.keys, limit, &heard).await {
                tracing::warn!(node = %id, %error, "registered, and listed with its next heartbeat");
            }
        }
        Ok(wrote)
    }

    async fn heartbeat(
        &self,
        id: &NodeId,
        heartbeat: &Heartbeat,
        floor: Version,
        known: Option<&Node>,
    ) -> Result<Wrote, BackendError> {
        if floor.incarnation > heartbeat.incarnation {
            return Ok(Wrote::Stale(floor));
        }
        let known = known.filter(|known| known.incarnation == heartbeat.incarnation);
        let wrote = match self.prolong(heartbeat, known).await? {
            Some(node) => Wrote::Prolonged(node, self.settings.node_ttl),
            None => self.tell(id, heartbeat, floor).await?,
        };
        let node = match &wrote {
            Wrote::Done(record) => Some(&record.node),
            Wrote::Prolonged(node, _) => Some(node),
            Wrote::Unknown | Wrote::Removed(_) | Wrote::Stale(_) => None,
        };
        if let Some(node) = node {
            // Behind the answer: nobody waits for the lists.
            let _ = self.listing.send(Heard::of(node));
        }
        Ok(wrote)
    }

    async fn remove(&self, id: &NodeId, incarnation: Option<u64>) -> Result<Removal, BackendError> {
        let mut call = self.on_node(&scripts::REMOVE, id);
        call.arg(incarnation.map(|number| number.to_string()).unwrap_or_default())
            .arg(milliseconds(self.settings.tombstone_ttl))
            .arg(&self.channel);
        let (result, incarnation, sequence, pools): (String, u64, u64, String) =
            self.call(&call).await?;
        let version = Version { incarnation, sequence };
        match result.as_str() {
            "ok" => {
                let pools: Vec<PoolId> = serde_json::from_str(&pools).unwrap_or_default();
                let limit = self.settings.redis_timeout;
                let unlisted = index::unlist(&self.link, &self.keys, limit, id, &pools).await;
                if let Err(error) = unlisted {
                    tracing::debug!(node = %id, %error, "removed, and falls out of its lists later");
                }
                Ok(Removal::Done(version))
            }
            "unknown" => Ok(Removal::Unknown),
            "stale" => Ok(Removal::Stale(version)),
            other => Err(strange(other)),
        }
    }

    async fn nodes(&self, ids: &[NodeId]) -> Result<Vec<Found>, BackendError> {
        let mut found = self.read(ids).await?;
        // Where a version is there and its life is not, the node is dead, or has begun anew in between.
        let dead = |(_, found): &(&NodeId, &Found)| matches!(found, Found::Expired(_));
        let dead: Vec<NodeId> =
            ids.iter().zip(&found).filter(dead).map(|(id, _)| id.clone()).collect();
        if !dead.is_empty() {
            let again = self.read(&dead).await?;
            let places = found.iter_mut().filter(|found| matches!(found, Found::Expired(_)));
            places.zip(again).for_each(|(place, again)| *place = again);
        }
        Ok(found)
    }

    async fn versions(
        &self,
        starts: &[(NodeId, u64)],
        limit: Duration,
    ) -> Result<Vec<Seen>, BackendError> {
        self.seen(starts, limit).await
    }

    async fn members(&self, pool: Option<&PoolId>) -> Result<Vec<NodeId>, BackendError> {
        let mut call = Call::of(&scripts::MEMBERS, &[self.keys.index(pool)]);
        call.arg(milliseconds(self.settings.node_ttl)).arg(MOST_LISTED);
        let names: Vec<String> = self.call(&call).await?;
        Ok(names.iter().filter_map(|name| NodeId::new(name).ok()).collect())
    }

    async fn capacity(&self, id: &NodeId) -> Result<Option<Capacity>, BackendError> {
        let read: Vec<u32> = self.call(&self.on_node(&scripts::CAPACITY, id)).await?;
        let [max, running, reserved, _tick] = read[..] else {
            return Ok(None);
        };
        Ok(Some(Capacity { max, running, reserved }))
    }

    async fn reserve(
        &self,
        job: &JobId,
        slot: Slot,
        known: Known,
    ) -> Result<Reserve, BackendError> {
        let settings = &self.settings;
        let mut call = self.on_node(&scripts::RESERVE, job.node());
        call.arg(job.to_string())
            .arg(match slot {
                Slot::Reserved => "reserved",
                Slot::Running => "running",
            })
            .arg(milliseconds(settings.job_ttl))
            .arg(milliseconds(settings.capacity_ttl))
            .arg(milliseconds(settings.tombstone_ttl))
            .arg(known.version.incarnation)
            .arg(known.version.sequence)
            .arg(known.tick);
        let answer: Vec<String> = self.call(&call).await?;
        let words: Vec<&str> = answer.iter().map(String::as_str).collect();
        let count = |text: &str| -> Result<u32, BackendError> {
            u32::try_from(number(text)?).map_err(|_| strange(text))
        };
        let capacity = |max, running, reserved| -> Result<Capacity, BackendError> {
            Ok(Capacity { max: count(max)?, running: count(running)?, reserved: count(reserved)? })
        };
        match words[..] {
            ["taken", max, running, reserved, tick, expires_at] => Ok(Reserve::Taken {
                capacity: capacity(max, running, reserved)?,
                tick: number(tick)?,
                expires_at_ms: number(expires_at)?,
            }),
            ["full", max, running, reserved, tick] => Ok(Reserve::Full {
                capacity: capacity(max, running, reserved)?,
                tick: number(tick)?,
            }),
            ["gone"] => Ok(Reserve::Gone),
            ["recovering"] => Ok(Reserve::Recovering),
            _ => Err(strange(&answer.join(" "))),
        }
    }

    async fn confirm(&self, job: &JobId) -> Result<Option<u64>, BackendError> {
        let mut call = self.on_node(&scripts::CONFIRM, job.node());
        call.arg(job.to_string())
            .arg(milliseconds(self.settings.job_ttl))
            .arg(milliseconds(self.settings.capacity_ttl));
        let answer: Vec<String> = self.call(&call).await?;
        answer.get(1).map(|until| number(until)).transpose()
    }

    async fn release(&self, job: &JobId) -> Result<bool, BackendError> {
        let mut call = self.on_node(&scripts::RELEASE, job.node());
        call.arg(job.to_string()).arg(milliseconds(self.settings.capacity_ttl));
        self.call(&call).await
    }

    async fn session_pool(
        &self,
        session: &str,
        pool: Option<&PoolId>,
        anew: bool,
    ) -> Result<Option<PoolId>, BackendError> {
        let mut call = Call::of(&scripts::SESSION, &[self.keys.session(session)]);
        call.arg(pool.map(PoolId::as_str).unwrap_or_default())
            .arg(milliseconds(self.settings.session_ttl))
            .arg(if anew { "anew" } else { "" });
        let has: Option<String> = self.call(&call).await?;
        Ok(has.and_then(|has| PoolId::new(has).ok()))
    }

    async fn config(&self, name: &ConfigName) -> Result<Option<Config>, BackendError> {
        let mut command = redis::cmd("HMGET");
        command.arg(self.keys.config(name)).arg(&["value", "version", "at"]);
        let exchange = |mut wire: Wire| async move { command.query_async(&mut wire).await };
        let read: [Option<String>; 3] =
            self.link.run(self.settings.redis_timeout, exchange).await?;
        let [Some(value), Some(version), Some(at)] = read else {
            return Ok(None);
        };
        let value = serde_json::from_str(&value).map_err(|error| strange(&error.to_string()))?;
        let (version, updated_at_ms) = (number(&version)?, number(&at)?);
        Ok(Some(Config { name: name.clone(), value, version, updated_at_ms }))
    }

    async fn swap_config(
        &self,
        name: &ConfigName,
        expected: u64,
        value: &Value,
        floor: u64,
    ) -> Result<Swap, BackendError> {
        let mut call = Call::of(&scripts::CONFIG, &[self.keys.config(name)]);
        call.arg(expected).arg(value.to_string()).arg(floor).arg(&self.channel);
        let (result, version, updated_at_ms): (String, u64, u64) = self.call(&call).await?;
        if result == "conflict" {
            return Ok(Swap::Conflict(version));
        }
        Ok(Swap::Done(Config { name: name.clone(), value: value.clone(), version, updated_at_ms }))
    }

    async fn ping(&self) -> Result<(), BackendError> {
        let mut command = redis::cmd("EXISTS");
        command.arg(self.keys.probe(crate::clock::random()));
        let exchange = |mut wire: Wire| async move { command.query_async::<u32>(&mut wire).await };
        self.link.run(self.settings.redis_timeout, exchange).await.map(drop)
    }
}
