//! What nodes and readers do, everywhere alike.

use std::time::Duration;

use stile_registry::{Health, Heartbeat, Registration, Status};
use testkit::eventually;

use crate::common::{Stage, everywhere, id, pool, query, request, speech};

everywhere!(
    what_one_instance_writes_others_see,
    a_writer_sees_its_own_writes_at_once,
    a_node_changes_pools,
    several_nodes_are_read_in_the_order_asked_for,
    a_removed_node_is_gone_and_a_new_start_comes_back,
    starts_supersede_each_other,
    a_silent_node_dies,
    a_kept_node_lives_changes_and_leaves,
    a_kept_node_does_not_fight_whoever_wants_it_gone,
    a_node_without_news_is_known_for_as_long_as_it_lives,
);

async fn what_one_instance_writes_others_see(mut stage: Stage) {
    let (writer, reader) = (stage.instance().await, stage.instance().await);
    assert_eq!(reader.get_node(&id("n")).await.unwrap(), None);
    let first = writer.register(&speech("n", 1, &["p"])).await.unwrap();
    eventually("the node to be seen", async || reader.get_node(&id("n")).await.unwrap()).await;
    eventually("the node to be listed", async || {
        let members = reader.members(&pool("p")).await.unwrap();
        (members.len() == 1).then_some(())
    })
    .await;
    let beat = Heartbeat { health: Some(Health::NotReady), ..Heartbeat::of(first.incarnation) };
    let second = writer.heartbeat(&id("n"), &beat).await.unwrap();
    eventually("the change to be seen", async || {
        let node = reader.get_node(&id("n")).await.unwrap()?;
        (node.version() == second.version() && node.health == Health::NotReady).then_some(())
    })
    .await;
    writer.remove(&id("n"), None).await.unwrap();
    eventually("the end to be seen", async || {
        reader.get_node(&id("n")).await.unwrap().is_none().then_some(())
    })
    .await;
}

async fn a_writer_sees_its_own_writes_at_once(mut stage: Stage) {
    // Nothing but the write itself makes memory fresh in this time.
    stage.set(|settings| settings.l1_ttl = Duration::from_secs(30));
    let registry = stage.instance().await;
    assert!(registry.members(&pool("p")).await.unwrap().is_empty());
    assert!(registry.nodes().await.unwrap().is_empty());
    for number in 0..20 {
        let name = format!("n{number:02}");
        let node = registry.register(&speech(&name, 1, &["p"])).await.unwrap();
        assert_eq!(registry.get_node(&id(&name)).await.unwrap(), Some(node.clone()));
        assert_eq!(registry.members(&pool("p")).await.unwrap().len(), number + 1);
        let beat = Heartbeat { status: Some(Status::Offline), ..Heartbeat::of(node.incarnation) };
        registry.heartbeat(&id(&name), &beat).await.unwrap();
        assert_eq!(registry.peek(&name).unwrap().status, Status::Offline);
    }
    registry.remove(&id("n00"), None).await.unwrap();
    assert_eq!(registry.get_node(&id("n00")).await.unwrap(), None);
    assert_eq!(registry.nodes().await.unwrap().len(), 19);
}

async fn a_node_changes_pools(mut stage: Stage) {
    let (writer, reader) = (stage.instance().await, stage.instance().await);
    let node = writer.register(&speech("n", 1, &["before"])).await.unwrap();
    assert_eq!(reader.members(&pool("before")).await.unwrap().len(), 1);
    assert_eq!(reader.members(&pool("after")).await.unwrap().len(), 0);
    let beat = Heartbeat { pools: Some(vec![pool("after")]), ..Heartbeat::of(node.incarnation) };
    writer.heartbeat(&id("n"), &beat).await.unwrap();
    for registry in [&writer, &reader] {
        eventually("the node to have moved", async || {
            let before = registry.members(&pool("before")).await.unwrap();
            let after = registry.members(&pool("after")).await.unwrap();
            (before.is_empty() && after.len() == 1).then_some(())
        })
        .await;
    }
}

async fn several_nodes_are_read_in_the_order_asked_for(mut stage: Stage) {
    let (writer, reader) = (stage.instance().await, stage.instance().await);
    let ids: Vec<_> = (0..40).map(|number| id(&format!("n{number}"))).collect();
    for id in ids.iter().step_by(2) {
        writer.register(&speech(id.as_str(), 1, &[])).await.unwrap();
    }
    let nodes = reader.get_nodes(&ids).await.unwrap();
    for (number, (id, node)) in ids.iter().zip(&nodes).enumerate() {
        let expected = (number % 2 == 0).then_some(id);
        assert_eq!(node.as_ref().map(|node| &node.id), expected);
    }
    assert!(reader.get_nodes(&[]).await.unwrap().is_empty());
}

async fn a_removed_node_is_gone_and_a_new_start_comes_back(mut stage: Stage) {
    let registry = stage.instance().await;
    let first = registry.register(&speech("n", 2, &["p"])).await.unwrap();
    let job = registry.dispatch(&request("s", "", Some("p"))).await.unwrap();
    let older = registry.remove(&id("n"), Some(first.incarnation - 1)).await.unwrap_err();
    assert_eq!(older.code(), "node-stale");
    let version = registry.remove(&id("n"), Some(first.incarnation)).await.unwrap();
    assert!(version > first.version());
    assert_eq!(registry.remove(&id("n"), None).await.unwrap_err().code(), "node-unknown");
    assert!(registry.members(&pool("p")).await.unwrap().is_empty());
    assert_eq!(registry.reserve(&id("n")).await.unwrap(), None);
    let again = registry.register(&speech("n", 2, &["p"])).await.unwrap();
    assert!(again.version() > version);
    let capacity = registry.capacity(&id("n")).await.unwrap().unwrap();
    assert_eq!(capacity.used(), 1, "the job of before still has its slot");
    registry.complete(&job.job_id).await.unwrap();
    assert_eq!(registry.capacity(&id("n")).await.unwrap().unwrap().used(), 0);
}

async fn starts_supersede_each_other(mut stage: Stage) {
    let registry = stage.instance().await;
    let start =
        |incarnation| Registration { incarnation: Some(incarnation), ..speech("n", 1, &[]) };
    assert_eq!(registry.register(&start(5)).await.unwrap().version().incarnation, 5);
    let again = registry.register(&start(5)).await.unwrap();
    assert_eq!((again.incarnation, again.sequence), (5, 2));
    assert_eq!(registry.register(&start(4)).await.unwrap_err().code(), "node-stale");
    let unknown = registry.heartbeat(&id("n"), &Heartbeat::of(6)).await.unwrap_err();
    assert_eq!(unknown.code(), "node-unknown", "a start has to register before it beats");
    registry.register(&start(7)).await.unwrap();
    assert_eq!(
        registry.heartbeat(&id("n"), &Heartbeat::of(5)).await.unwrap_err().code(),
        "node-stale"
    );
    let next = registry.register(&speech("n", 1, &[])).await.unwrap();
    assert!(next.incarnation > 7, "a new start without a number is later than all");
}

async fn a_silent_node_dies(mut stage: Stage) {
    stage.set(|settings| settings.node_ttl = Duration::from_millis(600));
    let (writer, reader) = (stage.instance().await, stage.instance().await);
    let node = writer.register(&speech("n", 1, &["p"])).await.unwrap();
    reader.get_node(&id("n")).await.unwrap();
    for registry in [&writer, &reader] {
        eventually("the node to be dead", async || {
            let selection = registry.select(&query("p", "")).await.unwrap();
            let gone = registry.get_node(&id("n")).await.unwrap().is_none();
            (gone && selection.nodes.is_empty()).then_some(())
        })
        .await;
    }
    let beat = writer.heartbeat(&id("n"), &Heartbeat::of(node.incarnation)).await.unwrap_err();
    assert_eq!(beat.code(), "node-unknown");
    let again = Registration { incarnation: Some(node.incarnation), ..speech("n", 1, &["p"]) };
    assert!(writer.register(&again).await.unwrap().version() > node.version());
}

async fn a_kept_node_lives_changes_and_leaves(mut stage: Stage) {
    stage.set(|settings| settings.node_ttl = Duration::from_secs(2));
    let registry = stage.instance().await;
    let kept = registry.keep(speech("n", 1, &["p"]));
    let first = kept.registered().await.unwrap();
    eventually("some heartbeats", async || {
        (kept.current()?.last_heartbeat_ms > first.last_heartbeat_ms + 1_000).then_some(())
    })
    .await;
    assert_eq!(kept.current().unwrap().version(), first.version(), "they said nothing new");
    kept.update(|node| node.resources.max_concurrency = 7);
    eventually("the change", async || {
        (kept.current()?.resources.max_concurrency == 7).then_some(())
    })
    .await;
    assert_eq!(kept.current().unwrap().incarnation, first.incarnation);
    kept.leave().await.unwrap();
    assert_eq!(registry.get_node(&id("n")).await.unwrap(), None);
    if stage.is_shared() {
        let other = stage.instance().await;
        assert_eq!(other.get_node(&id("n")).await.unwrap(), None);
    }
}

async fn a_kept_node_does_not_fight_whoever_wants_it_gone(mut stage: Stage) {
    stage.set(|settings| settings.node_ttl = Duration::from_secs(2));
    let registry = stage.instance().await;
    let kept = registry.keep(speech("n", 1, &["p"]));
    let first = kept.registered().await.unwrap();
    registry.remove(&id("n"), None).await.unwrap();
    kept.update(|_| {});
    let next = registry.keep(speech("n", 2, &["p"]));
    let next_start = next.registered().await.unwrap();
    assert!(next_start.incarnation > first.incarnation);
    kept.update(|node| node.resources.max_concurrency = 9);
    eventually("heartbeats of the next start alone", async || {
        let node = next.current()?;
        assert_eq!((node.incarnation, node.resources.max_concurrency), (next_start.incarnation, 2));
        (node.last_heartbeat_ms > next_start.last_heartbeat_ms + 1_500).then_some(())
    })
    .await;
    kept.leave().await.unwrap();
    assert!(registry.get_node(&id("n")).await.unwrap().is_some(), "not the one that left");
}

/// What is kept for a time is kept anew while there are heartbeats, though they say nothing of it.
async fn a_node_without_news_is_known_for_as_long_as_it_lives(mut stage: Stage) {
    stage.set(|settings| {
        settings.node_ttl = Duration::from_millis(1_500);
        settings.tombstone_ttl = settings.node_ttl;
        settings.job_ttl = settings.node_ttl;
        settings.capacity_ttl = settings.node_ttl;
    });
    let registry = stage.instance().await;
    let kept = registry.keep(speech("n", 3, &["p"]));
    let first = kept.registered().await.unwrap();
    let job = registry.dispatch(&request("s", "asr", Some("p"))).await.unwrap();
    registry.complete(&job.job_id).await.unwrap();
    eventually("heartbeats for longer than anything is kept", async || {
        (kept.current()?.last_heartbeat_ms > first.last_heartbeat_ms + 5_000).then_some(())
    })
    .await;
    let node = stage.instance().await.get_node(&id("n")).await.unwrap().expect("it lives");
    assert_eq!((node.version(), &node.pools), (first.version(), &first.pools));
    // Nobody takes the slots for lost.
    registry.dispatch(&request("s", "asr", Some("p"))).await.unwrap();
}
