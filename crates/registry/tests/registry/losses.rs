//! A Redis that is wiped, or replaced by one that knows less.

use std::time::Duration;

use serde_json::json;
use stile_registry::{ConfigName, Heartbeat, Mode, Registry, Settings};
use testkit::{DEADLINE, Redis, RedisCluster, Signal, TcpProxy, eventually};

use crate::common::{id, query, reaches, request, runs, settings, speech};
use crate::outage::{pair, watch, works};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wiped_redis_gives_out_nothing_it_may_have_given_out_before() {
    let redis = Redis::start().await;
    let settings = Settings { node_ttl: Duration::from_secs(15), ..settings() };
    let settings = Settings { job_ttl: Duration::from_secs(6), ..settings };
    let (_writer, kept, reader) = pair(&redis.url(), &settings).await;
    let watching = watch(&reader, "n");
    for _ in 0..4 {
        reader.dispatch(&request("s", "asr", Some("p"))).await.unwrap();
    }
    let before = kept.current().unwrap().version();
    redis.command("FLUSHALL").await;
    let refused = reader.dispatch(&request("s", "asr", Some("p"))).await.unwrap_err();
    assert_eq!(refused.code(), "nodes-full", "{refused}");
    eventually("the node to register again", async || {
        (kept.current()?.version() > before).then_some(())
    })
    .await;
    let refused = reader.dispatch(&request("s", "asr", Some("p"))).await.unwrap_err();
    assert_eq!(refused.code(), "nodes-full", "four jobs run that Redis has forgotten: {refused}");
    // Until they have run out.
    works(&reader).await;
    let (_, latest) = watching.end().await;
    assert!(latest >= before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_lagged_behind_takes_nothing_back() {
    let master = Redis::start().await;
    let replica = master.replica().await;
    let address = |redis: &Redis| ([127, 0, 0, 1], redis.port()).into();
    let proxy = TcpProxy::start(address(&master)).await;
    let url = format!("redis://{}", proxy.addr());
    let settings = Settings { job_ttl: Duration::from_secs(6), ..settings() };
    let writer = Registry::connect(&url, settings.clone()).await.unwrap();
    let node = writer.register(&speech("n", 2, &["p"])).await.unwrap();
    eventually("the replica to have it", async || {
        let key = format!("EXISTS {}:node:{{node:n}}", settings.key_prefix);
        (replica.command(&key).await == ":1\r\n").then_some(())
    })
    .await;
    let reader = Registry::connect(&url, settings.clone()).await.unwrap();
    let watching = {
        reader.get_node(&id("n")).await.unwrap().unwrap();
        watch(&reader, "n")
    };

    replica.cut_off().await;
    let mut latest = node.version();
    for number in 0..3 {
        let news = Heartbeat {
            installed_services: Some(vec![number.to_string()]),
            ..Heartbeat::of(node.incarnation)
        };
        latest = writer.heartbeat(&id("n"), &news).await.unwrap().version();
    }
    for _ in 0..2 {
        reader.dispatch(&request("s", "asr", Some("p"))).await.unwrap();
    }
    eventually("the reader to see the last heartbeat", async || {
        (reader.get_node(&id("n")).await.unwrap()?.version() == latest).then_some(())
    })
    .await;

    replica.promote().await;
    proxy.point_to(address(&replica));
    proxy.cut().await;
    proxy.heal().await;
    // The reader has heard what this server knows, and goes on to show what it knows itself.
    eventually("the reader to have asked", async || {
        reader.get_node(&id("n")).await.unwrap();
        (runs(&replica, "pttl").await > 0).then_some(())
    })
    .await;
    // Two jobs run that this server has never heard of.
    let refused = eventually("an answer", async || {
        let error = reader.dispatch(&request("s", "asr", Some("p"))).await.unwrap_err();
        (error.code() != "registry-away").then_some(error)
    })
    .await;
    assert_eq!(refused.code(), "nodes-full", "{refused}");
    // A heartbeat that says nothing new finds out as well.
    let beat = Heartbeat::of(node.incarnation);
    let next =
        eventually("a heartbeat", async || writer.heartbeat(&id("n"), &beat).await.ok()).await;
    assert!(next.version() > latest, "{} after {latest}", next.version());
    works(&reader).await;
    let (_, seen) = watching.end().await;
    assert!(seen >= latest);
    drop(master);
}

/// Whoever asks, the one who has never heard of anything as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_missed_a_job_gives_its_slot_to_nobody() {
    let master = Redis::start().await;
    let replica = master.replica().await;
    let settings = Settings { job_ttl: Duration::from_secs(6), ..settings() };
    let scheduler = Registry::connect(&master.url(), settings.clone()).await.unwrap();
    scheduler.register(&speech("n", 1, &["p"])).await.unwrap();
    eventually("the replica to have it", async || {
        let key = format!("EXISTS {}:cap:{{node:n}}", settings.key_prefix);
        (replica.command(&key).await == ":1\r\n").then_some(())
    })
    .await;
    replica.cut_off().await;
    scheduler.dispatch(&request("s", "asr", Some("p"))).await.unwrap();
    drop(master);

    replica.promote().await;
    let stranger = Registry::connect(&replica.url(), settings).await.unwrap();
    let refused = stranger.dispatch(&request("s", "asr", Some("p"))).await.unwrap_err();
    assert_eq!(refused.code(), "nodes-full", "{refused}");
    let kept = stranger.keep(speech("n", 1, &["p"]));
    kept.registered().await.unwrap();
    works(&stranger).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_master_of_a_cluster_is_survived() {
    let cluster = RedisCluster::start_with_replicas().await;
    // A replica may have missed the last writes; then its nodes give out nothing for so long.
    let settings = Settings { job_ttl: Duration::from_secs(3), ..settings() };
    let registry = Registry::connect(&cluster.url(), settings.clone()).await.unwrap();
    let names: Vec<String> = (0..12).map(|number| format!("n{number}")).collect();
    let kept: Vec<_> = names.iter().map(|name| registry.keep(speech(name, 4, &["p"]))).collect();
    for kept in &kept {
        kept.registered().await.unwrap();
    }
    registry.select(&query("p", "asr")).await.unwrap();
    cluster.process(0).signal(Signal::Kill);
    cluster.process(0).wait_exit(DEADLINE).await;
    for name in &names {
        assert!(registry.get_node(&id(name)).await.unwrap().is_some(), "from memory");
    }
    for name in &names {
        eventually("a slot of each node", async || {
            let reserved = registry.reserve(&id(name)).await.ok()??;
            registry.release(&reserved.job).await.ok()
        })
        .await;
    }
    reaches(&registry, Mode::Normal).await;
}

/// Whoever has read a version can go on from it, also on a server that has never heard of it; and no
/// version goes back for anybody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_configuration_that_redis_has_lost_goes_on_from_what_is_known() {
    let redis = Redis::start().await;
    let settings = settings();
    let one = Registry::connect(&redis.url(), settings.clone()).await.unwrap();
    let other = Registry::connect(&redis.url(), settings.clone()).await.unwrap();
    let name = ConfigName::new("models").unwrap();
    let first = one.set_config(&name, 0, &json!(1)).await.unwrap();
    let mut watch = other.watch_config(&name).await.unwrap();
    assert_eq!(watch.current().unwrap().version, first.version);
    redis.command("FLUSHALL").await;
    eventually("everybody to have asked again", async || {
        for registry in [&one, &other] {
            let known = registry.config(&name).await.unwrap().unwrap();
            assert_eq!(known.version, first.version, "what was lost is not what was said");
        }
        (runs(&redis, "hmget").await >= 4).then_some(())
    })
    .await;
    let conflict = one.set_config(&name, 0, &json!(2)).await.unwrap_err();
    assert_eq!(conflict.code(), "config-conflict", "there is one, whatever Redis has forgotten");
    let second = one.set_config(&name, first.version, &json!(2)).await.unwrap();
    assert!(second.version > first.version);
    assert_eq!(*watch.changed().await.unwrap(), *second);
    let stale = other.set_config(&name, first.version, &json!(3)).await.unwrap_err();
    assert_eq!(stale.code(), "config-conflict");
}
