//! The nodes that share a database, as they tell of themselves.

use std::time::Duration;

use stile_domain::{Holder, NodeMode};
use stile_store::{Heard, LaneNews, LiveNode, NodeRecord};

use crate::common::{Bench, Raw, lane, node, successor};

on_both_stores!(
    nodes_that_beat_live_and_those_that_are_silent_do_not,
    a_beat_tells_what_is_new_and_keeps_the_start,
    an_earlier_start_never_overwrites_a_later_one,
    a_node_that_leaves_is_gone_and_takes_nobody_along,
    whoever_was_silent_for_days_is_forgotten,
    a_start_is_never_dated_before_the_one_it_follows,
);

const LATELY: Duration = Duration::from_secs(600);

fn record(holder: &Holder) -> NodeRecord {
    NodeRecord {
        holder: holder.clone(),
        mode: NodeMode::WorkerQueue,
        serves: "all".into(),
        draining: false,
    }
}

async fn live(bench: &Bench) -> Vec<LiveNode> {
    bench.second().live_nodes(LATELY).await.unwrap()
}

/// Moves what was seen of a node into the past.
async fn silent_for(bench: &Bench, name: &str, seconds: u64) {
    let raw = bench.raw().await;
    let past = match raw {
        Raw::Postgres(_) => format!("interval '{seconds} s'"),
        Raw::Sqlite(_) => format!("{seconds} * 1000000"),
    };
    let sql = format!(
        "UPDATE node SET started_at = started_at - {past}, seen_at = seen_at - {past}
         WHERE node_id = '{name}'"
    );
    raw.execute(&sql).await;
}

async fn nodes_that_beat_live_and_those_that_are_silent_do_not(bench: Bench) {
    let (a, b) = (node("a"), node("b"));
    for holder in [&b, &a] {
        assert!(bench.store.heartbeat(&record(holder), true).await.unwrap().is_some());
    }
    let names: Vec<_> = live(&bench).await.iter().map(|live| live.record.clone()).collect();
    assert_eq!(names, [record(&a), record(&b)]);
    silent_for(&bench, "a", 601).await;
    let names: Vec<_> = live(&bench).await.iter().map(|live| live.node().0.clone()).collect();
    assert_eq!(names, ["b"]);
    assert!(bench.store.heartbeat(&record(&a), false).await.unwrap().is_some());
    assert_eq!(live(&bench).await.len(), 2, "and is back with its next beat");
}

async fn a_beat_tells_what_is_new_and_keeps_the_start(bench: Bench) {
    let a = node("a");
    bench.store.heartbeat(&record(&a), true).await.unwrap();
    silent_for(&bench, "a", 60).await;
    let before = live(&bench).await.remove(0);
    let draining = NodeRecord { draining: true, mode: NodeMode::Basic, ..record(&a) };
    assert!(bench.store.heartbeat(&draining, false).await.unwrap().is_some());
    let heard = bench.store.heartbeat(&draining, false).await.unwrap();
    let after = live(&bench).await.remove(0);
    assert!(heard >= Some(after.seen_at), "by the database's clock: {heard:?}, {after:?}");
    assert_eq!(after.record, draining);
    assert_eq!(after.started_at, before.started_at);
    assert!(after.seen_at > before.seen_at);
}

async fn an_earlier_start_never_overwrites_a_later_one(bench: Bench) {
    let first = node("a");
    let second = Holder { url: Some("http://moved:7420".into()), ..successor(&first) };
    bench.store.heartbeat(&record(&first), true).await.unwrap();
    let earlier = live(&bench).await.remove(0);
    assert!(bench.store.heartbeat(&record(&second), true).await.unwrap().is_some());
    assert_eq!(
        bench.store.heartbeat(&record(&first), false).await.unwrap(),
        None,
        "what is left of it"
    );
    bench.store.leave(&first.node, first.incarnation).await.unwrap();
    let later = live(&bench).await.remove(0);
    assert_eq!(later.record, record(&second));
    assert!(later.started_at > earlier.started_at);
}

async fn a_node_that_leaves_is_gone_and_takes_nobody_along(bench: Bench) {
    let (a, b) = (node("a"), node("b"));
    for holder in [&a, &b] {
        bench.store.heartbeat(&record(holder), true).await.unwrap();
    }
    bench.store.leave(&a.node, a.incarnation).await.unwrap();
    let left: Vec<_> = live(&bench).await.into_iter().map(|live| live.record).collect();
    assert_eq!(left, [record(&b)]);
    bench.store.leave(&a.node, a.incarnation).await.unwrap();
}

async fn whoever_was_silent_for_days_is_forgotten(bench: Bench) {
    let (a, b) = (node("a"), node("b"));
    for holder in [&a, &b] {
        bench.store.heartbeat(&record(holder), true).await.unwrap();
    }
    silent_for(&bench, "a", 90_000).await;
    bench.store.leave(&b.node, b.incarnation).await.unwrap();
    let raw = bench.raw().await;
    assert_eq!(raw.value("SELECT count(*) FROM node").await, "0");
}

/// The database itself refuses it, whoever asks.
async fn a_start_is_never_dated_before_the_one_it_follows(bench: Bench) {
    bench.store.heartbeat(&record(&node("a")), true).await.unwrap();
    let raw = bench.raw().await;
    let other = match raw {
        Raw::Postgres(_) => "gen_random_uuid()",
        Raw::Sqlite(_) => "randomblob(16)",
    };
    let refused = raw.attempt(&format!("UPDATE node SET incarnation = {other}")).await;
    let error = refused.expect_err("the same start under another name");
    assert!(error.contains("started later"), "{error}");
}

/// What one node tells, all hear; there is nobody to tell where one process has the file to itself.
#[tokio::test]
async fn what_is_told_is_heard() {
    let bench = Bench::postgres().await;
    let other = bench.second();
    let mut ears = bench.store.listen().expect("PostgreSQL tells");
    let mut hear = async || tokio::time::timeout(testkit::DEADLINE, ears.recv()).await.unwrap();
    assert_eq!(hear().await, Some(Heard::Listening));
    let news: Vec<LaneNews> = (0..500).map(|n| LaneNews::Work(lane(n))).collect();
    other.tell_nodes(&news).await.unwrap();
    let mut heard = Vec::new();
    while heard.len() < news.len() {
        match hear().await {
            Some(Heard::News(more)) => heard.extend(more),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(heard, news);
    assert!(Bench::sqlite().await.store.listen().is_none());
}
