//! How instances learn of each other's writes.

use std::time::Duration;

use stile_registry::{Health, Heartbeat, Invalidation, ResourceReport};
use testkit::eventually;

use crate::common::{Stage, id, level, speech};

/// A heartbeat that says nothing new but what is in use.
fn busy(incarnation: u64, cpu_usage: f64) -> Heartbeat {
    let report = ResourceReport { max_concurrency: 1, cpu_usage, ..ResourceReport::default() };
    Heartbeat { resources: Some(report), ..Heartbeat::of(incarnation) }
}

/// With a first level that lasts for ever, only being told makes a reader look.
async fn a_reader_is_told(mut stage: Stage, how: Invalidation) {
    stage.set(|settings| {
        settings.l1_ttl = Duration::from_secs(300);
        settings.l2_ttl = Duration::from_secs(600);
        settings.invalidation = how;
    });
    let (writer, reader) = (stage.instance().await, stage.instance().await);
    let node = writer.register(&speech("n", 1, &["p"])).await.unwrap();
    let seen = reader.get_node(&id("n")).await.unwrap().unwrap();
    assert_eq!(seen.version(), node.version());
    let usage = std::cell::Cell::new(0.0);
    eventually("a write to be told", async || {
        usage.set(usage.get() + 0.01);
        let beat = busy(node.incarnation, usage.get());
        writer.heartbeat(&id("n"), &beat).await.unwrap();
        let told = async || {
            let seen = reader.get_node(&id("n")).await.unwrap().unwrap();
            (seen.resources.cpu_usage == usage.get()).then_some(())
        };
        // The reader may not be listening yet; then it is told of a later one.
        for _ in 0..20 {
            if told().await.is_some() {
                return Some(());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        None
    })
    .await;
    // Also of a node that it knows not to be there.
    assert_eq!(reader.get_node(&id("later")).await.unwrap(), None);
    writer.register(&speech("later", 1, &[])).await.unwrap();
    eventually("the node to be there", async || reader.get_node(&id("later")).await.unwrap()).await;
}

/// However quickly they follow each other, and whatever is being looked at meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_write_is_missed() {
    let mut stage = Stage::standalone().await;
    stage.set(|settings| {
        settings.l1_ttl = Duration::from_secs(300);
        settings.l2_ttl = Duration::from_secs(600);
    });
    let (writer, reader) = (stage.instance().await, stage.instance().await);
    let node = writer.register(&speech("n", 1, &["p"])).await.unwrap();
    reader.get_node(&id("n")).await.unwrap().unwrap();
    for round in 1..=100 {
        for write in 0..4 {
            let usage = f64::from(round) + f64::from(write) / 10.0;
            writer.heartbeat(&id("n"), &busy(node.incarnation, usage)).await.unwrap();
            reader.get_node(&id("n")).await.unwrap().unwrap();
        }
        eventually("the last of them to be seen", async || {
            let seen = reader.get_node(&id("n")).await.unwrap().unwrap();
            (seen.resources.cpu_usage == f64::from(round) + 0.3).then_some(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_tracking_on_one_server() {
    a_reader_is_told(Stage::standalone().await, Invalidation::Tracking).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_tracking_on_a_cluster() {
    a_reader_is_told(Stage::cluster().await, Invalidation::Tracking).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_publishing_on_one_server() {
    a_reader_is_told(Stage::standalone().await, Invalidation::PubSub).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_publishing_on_a_cluster() {
    a_reader_is_told(Stage::cluster().await, Invalidation::PubSub).await;
}

async fn a_reader_checks(mut stage: Stage) {
    stage.set(|settings| settings.invalidation = Invalidation::Off);
    let (writer, reader) = (stage.instance().await, stage.instance().await);
    let node = writer.register(&speech("n", 1, &["p"])).await.unwrap();
    reader.get_node(&id("n")).await.unwrap().unwrap();
    writer.heartbeat(&id("n"), &busy(node.incarnation, 0.5)).await.unwrap();
    eventually("what is in use to be looked at", async || {
        let seen = reader.get_node(&id("n")).await.unwrap().unwrap();
        (seen.resources.cpu_usage == 0.5).then_some(())
    })
    .await;
    let news = Heartbeat { health: Some(Health::NotReady), ..Heartbeat::of(node.incarnation) };
    let latest = writer.heartbeat(&id("n"), &news).await.unwrap();
    assert!(latest.version() > node.version());
    eventually("the version to be checked", async || {
        let seen = reader.get_node(&id("n")).await.unwrap().unwrap();
        (seen.version() == latest.version() && seen.resources.cpu_usage == 0.5).then_some(())
    })
    .await;
    assert!(level(&reader, "l2") > 0, "it was answered with while it was checked");
    assert_eq!(level(&reader, "redis"), 1, "nobody waited for Redis after the first read");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_checking_versions_alone_on_one_server() {
    a_reader_checks(Stage::standalone().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_checking_versions_alone_on_a_cluster() {
    a_reader_checks(Stage::cluster().await).await;
}
