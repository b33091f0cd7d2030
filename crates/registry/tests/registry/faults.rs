//! A Redis that is killed, paused, slow, or not there yet.

use std::time::Duration;

use stile_registry::{Mode, Registry, Settings};
use testkit::{Redis, Signal, SlowProxy, TcpProxy, eventually};

use crate::common::{id, query, reaches, request, runs, settings, speech};
use crate::outage::{impatient, is_refused, pair, watch, works};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_redis_is_survived_and_comes_back_empty() {
    let redis = Redis::start().await;
    let port = redis.port();
    let (_writer, kept, reader) = pair(&redis.url(), &impatient()).await;
    let before = kept.current().unwrap().version();
    let watching = watch(&reader, "n");
    redis.process().signal(Signal::Kill);
    reaches(&reader, Mode::L2Only).await;
    reaches(&reader, Mode::LocalOnly).await;
    is_refused(&reader).await;
    assert_eq!(reader.select(&query("p", "asr")).await.unwrap().nodes.len(), 1);
    drop(redis);
    // Where it was, and with nothing of what it knew.
    let redis = eventually("the port to be free", async || Redis::start_on(port, &[]).await).await;
    reaches(&reader, Mode::Normal).await;
    eventually("the node to register again", async || {
        (kept.current()?.version() > before).then_some(())
    })
    .await;
    works(&reader).await;
    let (reads, latest) = watching.end_without_waiting().await;
    assert!(reads > 50 && latest >= before, "{reads} {latest} {before}");
    drop(redis);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_redis_is_survived() {
    let redis = Redis::start().await;
    let (writer, _kept, reader) = pair(&redis.url(), &impatient()).await;
    let watching = watch(&reader, "n");
    redis.process().signal(Signal::Stop);
    let error = reader.dispatch(&request("s", "asr", Some("p"))).await.unwrap_err();
    assert_eq!(error.code(), "registry-away", "asked for, not answered: {error}");
    reaches(&reader, Mode::LocalOnly).await;
    is_refused(&reader).await;
    redis.process().signal(Signal::Cont);
    reaches(&reader, Mode::Normal).await;
    reaches(&writer, Mode::Normal).await;
    works(&reader).await;
    // What was asked for and not answered has been done by now, and undone.
    eventually("no slot to be lost", async || {
        let capacity = reader.capacity(&id("n")).await.ok()??;
        (capacity.used() == 0).then_some(())
    })
    .await;
    watching.end_without_waiting().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_redis_is_not_waited_for() {
    let redis = Redis::start().await;
    let proxy = SlowProxy::start(([127, 0, 0, 1], redis.port()).into()).await;
    let mut settings = impatient();
    settings.redis_timeout = Duration::from_millis(100);
    settings.version_check_timeout = Duration::from_millis(50);
    let writer = Registry::connect(&redis.url(), impatient_with(&settings)).await.unwrap();
    let kept = writer.keep(speech("n", 4, &["p"]));
    kept.registered().await.unwrap();
    let reader = Registry::connect(&format!("redis://{}", proxy.addr()), settings).await.unwrap();
    eventually("the node to be known", async || reader.get_node(&id("n")).await.ok()?).await;
    eventually("the pool to be known", async || reader.select(&query("p", "")).await.ok()).await;
    let watching = watch(&reader, "n");
    proxy.set_delay(Duration::from_millis(200));
    reaches(&reader, Mode::LocalOnly).await;
    is_refused(&reader).await;
    proxy.set_delay(Duration::ZERO);
    reaches(&reader, Mode::Normal).await;
    works(&reader).await;
    watching.end_without_waiting().await;
}

/// The same keys with more patience, for an instance on the straight way.
fn impatient_with(settings: &Settings) -> Settings {
    Settings {
        redis_timeout: Duration::from_secs(5),
        version_check_timeout: Duration::from_secs(5),
        ..settings.clone()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_is_away_at_the_start_is_waited_for() {
    let port = testkit::free_port();
    let url = format!("redis://127.0.0.1:{port}");
    let registry = Registry::connect(&url, impatient()).await.unwrap();
    assert_eq!(registry.mode(), Mode::LocalOnly);
    assert_eq!(registry.get_node(&id("n")).await.unwrap_err().code(), "registry-away");
    assert_eq!(registry.nodes().await.unwrap_err().code(), "registry-away");
    assert_eq!(registry.register(&speech("n", 1, &[])).await.unwrap_err().code(), "registry-away");
    let kept = registry.keep(speech("n", 1, &["p"]));
    let _redis = eventually("the port to be free", async || Redis::start_on(port, &[]).await).await;
    reaches(&registry, Mode::Normal).await;
    kept.update(|_| {});
    kept.registered().await.unwrap();
    works(&registry).await;
}

/// The record of a node runs out while nobody can say that it lives: it is given time to say so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_could_not_be_heard_of_is_not_taken_for_dead_at_once() {
    let redis = Redis::start().await;
    let proxy = TcpProxy::start(([127, 0, 0, 1], redis.port()).into()).await;
    let node_ttl = Duration::from_secs(8);
    let settings = Settings { node_ttl, redis_timeout: Duration::from_millis(500), ..settings() };
    let url = format!("redis://{}", proxy.addr());
    let registry = Registry::connect(&url, settings.clone()).await.unwrap();
    let mut keys = String::new();
    for name in ["speaks", "is-dead"] {
        let node = registry.register(&speech(name, 1, &["p"])).await.unwrap();
        let start = node.incarnation;
        keys += &format!(" {}:live:{{node:{name}}}:{start}", settings.key_prefix);
    }
    let watching = watch(&registry, "speaks");
    proxy.cut().await;
    reaches(&registry, Mode::LocalOnly).await;
    eventually("the records to run out", async || {
        (redis.command(&format!("EXISTS{keys}")).await == ":0\r\n").then_some(())
    })
    .await;
    let asked = runs(&redis, "pttl").await;
    proxy.heal().await;
    reaches(&registry, Mode::Normal).await;
    eventually("the records to be asked for", async || {
        (runs(&redis, "pttl").await > asked).then_some(())
    })
    .await;
    let again = registry.register(&speech("speaks", 1, &["p"])).await.unwrap();
    eventually("the dead to be gone", async || {
        registry.get_node(&id("is-dead")).await.unwrap().is_none().then_some(())
    })
    .await;
    let (_, latest) = watching.end().await;
    assert_eq!(latest, again.version());
}
