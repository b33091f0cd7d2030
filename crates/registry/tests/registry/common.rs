//! Where tests run, and what they say in few words.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use stile_registry::{
    JobRequest, Mode, Node, NodeId, PoolId, Query, Registration, Registry, Requirement, Settings,
};
use testkit::{Redis, RedisCluster, eventually};
use tokio::sync::OnceCell;

/// One server for all tests of a kind: each has keys of its own.
static REDIS: OnceCell<Redis> = OnceCell::const_new();
static CLUSTER: OnceCell<RedisCluster> = OnceCell::const_new();

/// Settings for tests: a machine that is busy with other tests does not look like a Redis that is
/// away, and nothing is waited for that need not be.
pub(crate) fn settings() -> Settings {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    Settings {
        redis_timeout: Duration::from_secs(5),
        version_check_timeout: Duration::from_secs(5),
        l1_ttl: Duration::from_millis(200),
        ttl_jitter: Duration::from_millis(50),
        key_prefix: format!("test-{}-{number}", std::process::id()),
        ..Settings::default()
    }
}

/// Where the truth is kept.
pub(crate) struct Stage {
    url: Option<String>,
    settings: Settings,
    local: Option<Registry>,
}

impl Stage {
    pub(crate) fn in_process() -> Self {
        Self { url: None, settings: settings(), local: None }
    }

    pub(crate) async fn standalone() -> Self {
        let redis = REDIS.get_or_init(Redis::start).await;
        Self { url: Some(redis.url()), settings: settings(), local: None }
    }

    pub(crate) async fn cluster() -> Self {
        let cluster = CLUSTER.get_or_init(RedisCluster::start).await;
        Self { url: Some(cluster.url()), settings: settings(), local: None }
    }

    pub(crate) fn set(&mut self, change: impl FnOnce(&mut Settings)) {
        change(&mut self.settings);
    }

    /// Another instance. In one process there is only the one.
    pub(crate) async fn instance(&mut self) -> Registry {
        match &self.url {
            Some(url) => Registry::connect(url, self.settings.clone()).await.unwrap(),
            None => {
                let settings = &self.settings;
                let new = || Registry::in_process(settings.clone()).unwrap();
                self.local.get_or_insert_with(new).clone()
            }
        }
    }

    /// Whether the truth is in Redis.
    pub(crate) fn is_shared(&self) -> bool {
        self.url.is_some()
    }
}

pub(crate) fn id(name: &str) -> NodeId {
    NodeId::new(name).unwrap()
}

pub(crate) fn pool(name: &str) -> PoolId {
    PoolId::new(name).unwrap()
}

/// A node with speech services in these pools.
pub(crate) fn speech(name: &str, max: u32, pools: &[&str]) -> Registration {
    let mut registration = Registration::new(id(name), max);
    registration.pools = pools.iter().map(|name| pool(name)).collect();
    let services = r#"{"asr":["zh","en"],"nmt":["zh","en"],"tts":["zh","en"]}"#;
    registration.services = serde_json::from_str(services).unwrap();
    registration
}

pub(crate) fn query(pool_name: &str, services: &str) -> Query {
    let services = Requirement::list(services).unwrap();
    Query { pool: Some(pool(pool_name)), services, limit: None }
}

pub(crate) fn request(session: &str, services: &str, in_pool: Option<&str>) -> JobRequest {
    let services = Requirement::list(services).unwrap();
    JobRequest { session: session.to_owned(), services, pool: in_pool.map(pool) }
}

pub(crate) fn names(nodes: &[Arc<Node>]) -> Vec<&str> {
    nodes.iter().map(|node| node.id.as_str()).collect()
}

/// How often Redis has run a command. Only reading a node runs `PTTL`.
pub(crate) async fn runs(redis: &Redis, command: &str) -> u64 {
    let said = redis.command("INFO commandstats").await;
    let line =
        said.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
}

/// Reads that Redis answered.
pub(crate) fn level(registry: &Registry, name: &str) -> u64 {
    registry.reads_by_level().iter().find(|(level, _)| *level == name).unwrap().1
}

/// Waits until the mode is this one.
pub(crate) async fn reaches(registry: &Registry, mode: Mode) {
    let what = format!("mode {mode}");
    eventually(&what, async || (registry.mode() == mode).then_some(())).await;
}

/// Tests that hold in one process, on one server and on a cluster.
macro_rules! everywhere {
    ($($flow:ident),* $(,)?) => {
        mod in_process {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $flow() { super::$flow($crate::common::Stage::in_process()).await })*
        }
        mod standalone {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $flow() { super::$flow($crate::common::Stage::standalone().await).await })*
        }
        mod cluster {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $flow() { super::$flow($crate::common::Stage::cluster().await).await })*
        }
    };
}

pub(crate) use everywhere;
