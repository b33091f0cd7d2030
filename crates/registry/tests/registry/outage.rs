//! What is asked of every instance while its Redis is not what it was.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use stile_registry::{Registry, Settings, Version};
use testkit::eventually;
use tokio::task::JoinHandle;

use crate::common::{id, level, request, settings, speech};

/// Soon given up, so that tests need not wait for long; not so soon that a busy machine looks like a
/// Redis that is away.
pub(crate) fn impatient() -> Settings {
    Settings {
        redis_timeout: Duration::from_millis(500),
        version_check_timeout: Duration::from_millis(500),
        job_ttl: Duration::from_secs(3),
        ..settings()
    }
}

/// Reads a node all the time. It must never be missing, and its version must never go back.
pub(crate) struct Watching {
    registry: Registry,
    asked: u64,
    stop: Arc<AtomicBool>,
    reads: JoinHandle<(u64, Version)>,
}

pub(crate) fn watch(registry: &Registry, name: &str) -> Watching {
    let stop = Arc::new(AtomicBool::new(false));
    let watched = registry.clone();
    let (registry, name, stopped) = (registry.clone(), id(name), Arc::clone(&stop));
    let reads = tokio::spawn(async move {
        let (mut reads, mut latest) = (0, Version::default());
        while !stopped.load(Ordering::Relaxed) {
            let node = registry.get_node(&name).await.expect("an answer from memory");
            let version = node.expect("the node").version();
            assert!(version >= latest, "{version} after {latest}");
            latest = version;
            reads += 1;
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        (reads, latest)
    });
    Watching { asked: level(&watched, "redis"), registry: watched, stop, reads }
}

impl Watching {
    pub(crate) async fn end(self) -> (u64, Version) {
        self.stop.store(true, Ordering::Relaxed);
        self.reads.await.unwrap()
    }

    /// The same, if all of it was answered from memory: nobody waited for Redis.
    pub(crate) async fn end_without_waiting(self) -> (u64, Version) {
        let (registry, asked) = (self.registry.clone(), self.asked);
        let seen = self.end().await;
        assert_eq!(level(&registry, "redis"), asked, "{:?}", registry.reads_by_level());
        seen
    }
}

/// Nothing is given out, and nothing is said to be full that nobody could ask.
pub(crate) async fn is_refused(registry: &Registry) {
    let error = registry.dispatch(&request("s", "asr", Some("p"))).await.unwrap_err();
    assert_eq!(error.code(), "registry-away", "{error}");
    assert!(error.retry_after().is_some());
    assert_eq!(registry.reserve(&id("n")).await.unwrap_err().code(), "registry-away");
}

pub(crate) async fn works(registry: &Registry) {
    eventually("a job to be dispatched", async || {
        let job = registry.dispatch(&request("s", "asr", Some("p"))).await.ok()?;
        registry.complete(&job.job_id).await.ok()
    })
    .await;
}

/// A node that is kept alive by one instance and read by another.
pub(crate) async fn pair(
    url: &str,
    settings: &Settings,
) -> (Registry, stile_registry::Kept, Registry) {
    let writer = Registry::connect(url, settings.clone()).await.unwrap();
    let kept = writer.keep(speech("n", 4, &["p"]));
    kept.registered().await.unwrap();
    let reader = Registry::connect(url, settings.clone()).await.unwrap();
    reader.get_node(&id("n")).await.unwrap().unwrap();
    works(&reader).await;
    (writer, kept, reader)
}
