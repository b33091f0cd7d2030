//! Where registries like this one break, each with what holds instead.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use stile_registry::{Heartbeat, Invalidation, Mode, Registration, Registry, Settings};
use testkit::{Redis, TcpProxy, eventually};

use crate::common::{Stage, id, level, pool, query, reaches, request, runs, settings, speech};

/// A late heartbeat of a removed node does not bring it back, neither for whoever hears it nor for
/// anybody else, and a heartbeat that was overtaken changes nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hole_18a_a_late_heartbeat_brings_nobody_back() {
    for mut stage in [Stage::in_process(), Stage::standalone().await, Stage::cluster().await] {
        let shared = stage.is_shared();
        let (one, other) = (stage.instance().await, stage.instance().await);
        let node = one.register(&speech("n", 1, &["p"])).await.unwrap();
        let numbered =
            |sequence| Heartbeat { sequence: Some(sequence), ..Heartbeat::of(node.incarnation) };
        one.heartbeat(&id("n"), &numbered(9)).await.unwrap();
        let late = one.heartbeat(&id("n"), &numbered(8)).await.unwrap_err();
        assert_eq!(late.code(), "node-stale");
        assert_eq!(one.peek("n").unwrap().sequence, 9);

        one.remove(&id("n"), None).await.unwrap();
        // An instance that has never heard of the node takes the heartbeat, as after a restart.
        let late_comer = if shared { stage.instance().await } else { other.clone() };
        for late in [Heartbeat::of(node.incarnation), numbered(100)] {
            let refused = late_comer.heartbeat(&id("n"), &late).await.unwrap_err();
            assert_eq!(refused.code(), "node-removed");
        }
        let same = Registration { incarnation: Some(node.incarnation), ..speech("n", 1, &["p"]) };
        assert_eq!(late_comer.register(&same).await.unwrap_err().code(), "node-removed");
        for registry in [&one, &other, &late_comer] {
            eventually("the node to be gone", async || {
                registry.get_node(&id("n")).await.unwrap().is_none().then_some(())
            })
            .await;
            eventually("the list to be empty", async || {
                registry.members(&pool("p")).await.unwrap().is_empty().then_some(())
            })
            .await;
        }
        let back = late_comer.register(&speech("n", 1, &["p"])).await.unwrap();
        assert!(back.incarnation > node.incarnation, "a new start is welcome");
    }
}

/// Nor does one that is taken by an instance that has not heard of the end, or of the next start: it
/// says nothing new, so no script looks at it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hole_18a_a_heartbeat_that_says_nothing_new_brings_nobody_back() {
    let redis = Redis::start().await;
    let settings = Settings {
        invalidation: Invalidation::Off,
        l1_ttl: Duration::from_secs(300),
        l2_ttl: Duration::from_secs(300),
        ..settings()
    };
    let writer = Registry::connect(&redis.url(), settings.clone()).await.unwrap();
    let unaware = Registry::connect(&redis.url(), settings.clone()).await.unwrap();
    for (next_start, code) in [(false, "node-removed"), (true, "node-stale")] {
        let node = writer.register(&speech("n", 1, &["p"])).await.unwrap();
        let beat = Heartbeat::of(node.incarnation);
        unaware
            .register(&Registration {
                incarnation: Some(node.incarnation),
                ..speech("n", 1, &["p"])
            })
            .await
            .unwrap();
        unaware.heartbeat(&id("n"), &beat).await.unwrap();
        if next_start {
            writer.register(&speech("n", 1, &["p"])).await.unwrap();
        } else {
            writer.remove(&id("n"), None).await.unwrap();
        }
        assert!(unaware.get_node(&id("n")).await.unwrap().is_some(), "it has not heard of it");
        assert_eq!(unaware.heartbeat(&id("n"), &beat).await.unwrap_err().code(), code);
        let live = format!("{}:live:{{node:n}}:{}", settings.key_prefix, node.incarnation);
        assert_eq!(redis.command(&format!("EXISTS {live}")).await, ":0\r\n");
    }
}

/// Who has been silent for too long falls out of the lists as well, whoever looks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hole_18b_lists_do_not_keep_the_dead() {
    let redis = Redis::start().await;
    let mut settings = settings();
    settings.node_ttl = Duration::from_millis(500);
    let index = format!("{}:nodes:online", settings.key_prefix);
    let members = format!("{}:pool:{{pool:p}}:members", settings.key_prefix);
    let writer = Registry::connect(&redis.url(), settings.clone()).await.unwrap();
    writer.register(&speech("n", 1, &["p"])).await.unwrap();
    for key in [&index, &members] {
        assert_eq!(redis.command(&format!("ZCARD {key}")).await, ":1\r\n");
    }
    eventually("the node to run out", async || {
        writer.get_node(&id("n")).await.unwrap().is_none().then_some(())
    })
    .await;
    eventually("nobody to be listed", async || {
        let reader = Registry::connect(&redis.url(), settings.clone()).await.unwrap();
        let nobody = reader.nodes().await.unwrap().is_empty()
            && reader.members(&pool("p")).await.unwrap().is_empty();
        let mut listed = 0;
        for key in [&index, &members] {
            let count = redis.command(&format!("ZCARD {key}")).await;
            listed += u32::from(count != ":0\r\n");
        }
        (nobody && listed == 0).then_some(())
    })
    .await;
}

/// Slots of a scheduler that died come back; a slot released twice is one slot.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hole_18c_slots_come_back_and_are_released_once() {
    for mut stage in [Stage::in_process(), Stage::standalone().await, Stage::cluster().await] {
        stage.set(|settings| settings.job_ttl = Duration::from_secs(3));
        let registry = stage.instance().await;
        registry.register(&speech("n", 2, &["p"])).await.unwrap();
        let job = request("s", "", Some("p"));
        let first = registry.dispatch(&job).await.unwrap();
        registry.dispatch(&job).await.unwrap();
        assert_eq!(registry.dispatch(&job).await.unwrap_err().code(), "nodes-full");
        registry.complete(&first.job_id).await.unwrap();
        for _ in 0..3 {
            assert_eq!(registry.complete(&first.job_id).await.unwrap_err().code(), "job-over");
        }
        registry.dispatch(&job).await.unwrap();
        let full = registry.dispatch(&job).await.unwrap_err();
        assert_eq!(full.code(), "nodes-full", "the repeated word freed somebody else's slot");
        // Nobody completes any of them any more.
        eventually("both slots to come back", async || {
            let capacity = registry.capacity(&id("n")).await.unwrap()?;
            (capacity.used() == 0).then_some(())
        })
        .await;
        registry.dispatch(&job).await.unwrap();
        registry.dispatch(&job).await.unwrap();
    }
}

/// Every script keeps to one hash slot, wherever in the cluster that is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hole_18d_every_script_is_at_home_in_one_slot() {
    let mut stage = Stage::cluster().await;
    let registry = stage.instance().await;
    let ids: Vec<_> = (0..60).map(|number| id(&format!("node-{number}"))).collect();
    for node in &ids {
        let pool_name = format!("pool-{node}");
        let written = registry.register(&speech(node.as_str(), 2, &[&pool_name, "all"])).await;
        let written = written.unwrap();
        registry.heartbeat(node, &Heartbeat::of(written.incarnation)).await.unwrap();
        let reserved = registry.reserve(node).await.unwrap().unwrap();
        registry.confirm(&reserved.job).await.unwrap();
        assert!(registry.release(&reserved.job).await.unwrap());
    }
    let fresh = stage.instance().await;
    assert!(fresh.get_nodes(&ids).await.unwrap().iter().all(Option::is_some));
    assert_eq!(fresh.members(&pool("all")).await.unwrap().len(), 60);
    assert_eq!(fresh.nodes().await.unwrap().len(), 60);
    let job = fresh.dispatch(&request("s", "asr", None)).await.unwrap();
    fresh.complete(&job.job_id).await.unwrap();
    for node in &ids {
        fresh.remove(node, None).await.unwrap();
    }
}

/// A node that there is not costs one question, not one for each reader; and a heartbeat concerns its
/// own node alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hole_18e_misses_are_remembered_here_and_versions_are_per_node() {
    let redis = Redis::start().await;
    let mut settings = settings();
    settings.l1_ttl = Duration::from_secs(300);
    settings.l2_ttl = Duration::from_secs(600);
    settings.negative_ttl = (Duration::from_secs(60), Duration::from_secs(120));
    let writer = Registry::connect(&redis.url(), settings.clone()).await.unwrap();
    let reader = Registry::connect(&redis.url(), settings).await.unwrap();

    for _ in 0..100 {
        assert_eq!(reader.get_node(&id("nobody")).await.unwrap(), None);
    }
    assert_eq!((level(&reader, "redis"), level(&reader, "negative")), (1, 99));
    assert_eq!(runs(&redis, "pttl").await, 1, "one question");

    writer.register(&speech("quiet", 1, &[])).await.unwrap();
    let busy = writer.register(&speech("busy", 1, &[])).await.unwrap();
    eventually("the reader to know both", async || {
        let known = reader.get_nodes(&[id("quiet"), id("busy")]).await.unwrap();
        known.iter().all(Option::is_some).then_some(())
    })
    .await;
    let (asked, fresh) = (runs(&redis, "pttl").await, level(&reader, "l1"));
    for _ in 0..100 {
        writer.heartbeat(&id("busy"), &Heartbeat::of(busy.incarnation)).await.unwrap();
        assert!(reader.get_node(&id("quiet")).await.unwrap().is_some());
    }
    assert_eq!(level(&reader, "l1"), fresh + 100, "its own node has not changed");
    // What the two registrations set off may still be looked at behind the answers, a few times;
    // versions that were not per node would be one look for each heartbeat.
    let asked_since = runs(&redis, "pttl").await - asked;
    assert!(
        asked_since < 20,
        "the busy one was asked for {asked_since} times in 100 heartbeats though nobody reads it"
    );
}

/// Local-only is left by itself; and who comes back does not ask for everything at once, nor for the
/// same thing twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hole_18f_local_only_is_left_and_nobody_stampedes() {
    let redis = Redis::start().await;
    let proxy = TcpProxy::start(([127, 0, 0, 1], redis.port()).into()).await;
    let url = format!("redis://{}", proxy.addr());
    let mut settings = settings();
    settings.l2_ttl = Duration::from_millis(300);
    settings.redis_timeout = Duration::from_secs(1);
    settings.version_check_timeout = Duration::from_secs(1);
    settings.invalidation = Invalidation::Off;
    settings.node_ttl = Duration::from_secs(120);
    let writer = Registry::connect(&redis.url(), settings.clone()).await.unwrap();
    let ids: Vec<_> = (0..50).map(|number| id(&format!("n{number}"))).collect();
    for node in &ids {
        writer.register(&speech(node.as_str(), 1, &["p"])).await.unwrap();
    }
    let reader = Arc::new(Registry::connect(&url, settings).await.unwrap());
    assert!(reader.get_nodes(&ids).await.unwrap().iter().all(Option::is_some));
    reader.select(&query("p", "")).await.unwrap();

    proxy.cut().await;
    reaches(&reader, Mode::LocalOnly).await;
    for node in &ids {
        assert!(reader.get_node(node).await.unwrap().is_some(), "from memory, however old");
    }
    assert_eq!(reader.select(&query("p", "")).await.unwrap().nodes.len(), 50);

    redis.command("CONFIG RESETSTAT").await;
    proxy.heal().await;
    reaches(&reader, Mode::Normal).await;
    // Everything is old now, and everybody wants everything; nobody waits for it.
    let waited = level(&reader, "redis");
    let crowd = (0..40).flat_map(|_| ids.iter()).map(|node| {
        let (reader, node) = (Arc::clone(&reader), node.clone());
        tokio::spawn(async move { reader.get_node(&node).await })
    });
    for answer in join_all(crowd.collect::<Vec<_>>()).await {
        assert!(answer.unwrap().unwrap().is_some());
    }
    assert_eq!(level(&reader, "redis"), waited, "{:?}", reader.reads_by_level());
    eventually("everything to be looked at", async || {
        (runs(&redis, "get").await >= 50).then_some(())
    })
    .await;
    let asked = runs(&redis, "pttl").await + runs(&redis, "get").await;
    assert!(asked < 50 * 10, "{asked} questions about 50 nodes for 2,000 readers");

    // And of something that nobody here knows, everybody asks once.
    writer.register(&speech("new", 1, &[])).await.unwrap();
    let before = runs(&redis, "pttl").await;
    let crowd = (0..500).map(|_| {
        let reader = Arc::clone(&reader);
        tokio::spawn(async move { reader.get_node(&id("new")).await })
    });
    for answer in join_all(crowd.collect::<Vec<_>>()).await {
        assert!(answer.unwrap().unwrap().is_some());
    }
    let asked = runs(&redis, "pttl").await - before;
    assert!(asked <= 55, "500 readers of one new node asked {asked} times");
}
