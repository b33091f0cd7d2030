//! An older database in the place of the one that nodes work on.

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::json;
use stile_domain::{Failover, NodeMode, Remembered};
use stile_store::{Claim, NodeRecord, OpenOptions, Realigned, Refusal, Store, StreamEvent, open};
use testkit::{Postgres, eventually};
use tokio::task::JoinHandle;

use crate::common::{
    A_NODE, Bench, Database, LEASE, Raw, bind, claim_at, fresh, held, hold_at, is_blocked, lane,
    node, successor, view, wait_until_blocked,
};

async fn beat(store: &dyn Store, name: &str) {
    let record = NodeRecord {
        holder: node(name),
        mode: NodeMode::Basic,
        serves: "all".into(),
        draining: false,
    };
    store.heartbeat(&record, true).await.unwrap();
}

/// Rows that were emptied and loaded again are in the tables that nodes know.
#[tokio::test]
async fn hole_20_truncate_is_refused() {
    let bench = Bench::postgres().await;
    let raw = bench.raw().await;
    claim_at(&*bench.store, &node("a"), lane(1), 3).await;
    let tables = ["lane", "nonce", "tx", "attempt", "tx_event", "lane_event", "lost_tx", "origin"];
    for table in tables {
        let refused = raw.attempt(&format!("TRUNCATE {table} CASCADE")).await.unwrap_err();
        assert!(refused.contains("could pay twice"), "{table}: {refused}");
    }
    assert_eq!(raw.value("SELECT count(*) FROM lane").await, "1");
}

/// Every node finds that commits are gone. One of them is enough: what has been dealt with since is
/// not stopped again.
#[tokio::test]
async fn hole_20_a_shorter_log_stops_every_lane_once() {
    let mut server = Postgres::start(&[]).await;
    let bench = Bench::new(Database::on(&server).await).await;
    let serving = || {
        let options = bench.database.options();
        open(OpenOptions { serve: true, ..options }).unwrap()
    };
    let (one, other, idle) = (serving(), serving(), serving());
    for store in [&one, &other, &idle] {
        store.arrive().await.unwrap();
    }
    let (a, b) = (node("a"), node("b"));
    let claim = claim_at(&*one, &a, lane(1), 3).await;
    let stays = claim_at(&*other, &b, lane(2), 0).await;
    server.stop().await;
    let copy = server.copy_files().await;
    server.start_again().await;
    hold_at(&*one, claim, 3, LEASE).await;
    hold_at(&*other, stays, 0, LEASE).await;
    beat(&*idle, "idle").await;
    let read_to = one.stream_end().await.unwrap();
    server.stop().await;
    server.put_files_back(&copy).await;
    server.start_again().await;

    // Under the claim, at the cursor that the older database has.
    let refused = eventually("a connection that is not broken", async || {
        one.bind(&[fresh(claim, 3, 1)], LEASE, LEASE).await.ok()
    })
    .await
    .remove(0);
    assert_eq!(refused, Err(Refusal::Unaligned));
    assert!(!view(&*one, lane(2)).await.aligned, "nor does any other give out anything");
    let said = Remembered { failover: Failover::Synchronous, ..Remembered::default() };
    let realigned = one.realign(&A_NODE, &claim, &said, &json!({}), LEASE).await.unwrap();
    assert!(realigned.unwrap().expect("it was stopped").restored, "whatever is said of failovers");
    let claim = held(&*one, &a, lane(1), LEASE).await.claim;
    let bound = bind(&*one, fresh(claim, 3, 1)).await.unwrap();
    assert_eq!(bound[0].nonce, 3);

    for store in [&other, &idle] {
        eventually("a connection", async || store.ping().await.ok()).await;
        beat(&**store, "late").await;
        assert!(view(&**store, lane(1)).await.aligned, "it was dealt with");
    }
    assert_eq!(bind(&*other, fresh(stays, 0, 1)).await, Err(Refusal::Unaligned));

    // A reader who has seen what is gone is told, also once the numbers have caught up.
    let sql =
        "DO $$ BEGIN FOR i IN 1..1000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$";
    bench.raw().await.execute(sql).await;
    let read = one.events_after(read_to, 10).await.unwrap();
    assert!(matches!(read[..], [StreamEvent::HistoryChanged(_)]), "{read:?}");
}

/// Whoever starts after a failover believes what is said about it. A node that lived through it knows.
#[tokio::test]
async fn hole_20_what_was_taken_for_lossless_is_stopped_if_a_node_knows_better() {
    let mut primary = Postgres::start(&[]).await;
    let bench = Bench::new(Database::on(&primary).await).await;
    let (proxy, options) = bench.proxied().await;
    let lives = open(options).unwrap();
    lives.arrive().await.unwrap();
    let (a, b) = (node("a"), node("b"));
    let claim = claim_at(&*lives, &a, lane(1), 3).await;
    claim_at(&*lives, &b, lane(2), 0).await;
    let mut standby = primary.start_standby().await;
    standby.stop_immediate().await;
    // More than the standby writes before that node reaches it.
    let raw = bench.raw().await;
    raw.execute("SELECT pg_create_restore_point('something'); SELECT pg_switch_wal()").await;
    hold_at(&*lives, claim, 3, LEASE).await;
    let reached = raw.value("SELECT pg_current_wal_insert_lsn()").await;
    primary.stop_immediate().await;
    standby.start_again().await;
    standby.promote().await;

    let name = bench.database.url().rsplit('/').next().unwrap();
    let late =
        open(OpenOptions { url: standby.url(name).into(), ..bench.database.options() }).unwrap();
    let said = Remembered { failover: Failover::Synchronous, ..Remembered::default() };
    let claim = late.take_own(&successor(&b), LEASE).await.unwrap().remove(0).claim;
    let realigned = late.realign(&A_NODE, &claim, &said, &json!({}), LEASE).await.unwrap();
    assert!(!realigned.unwrap().expect("another timeline").restored, "it was believed");
    assert!(view(&*late, lane(2)).await.aligned);

    let place = format!("SELECT pg_current_wal_insert_lsn() - '{reached}'::pg_lsn");
    let place: i64 = Raw::connect(&standby.url(name)).await.value(&place).await.parse().unwrap();
    assert!(place < 0, "it wrote {place} bytes more than was lost");
    proxy.point_to(SocketAddr::from(([127, 0, 0, 1], standby.port())));
    eventually("a connection", async || lives.ping().await.ok()).await;
    beat(&*lives, "a").await;
    assert!(!view(&*late, lane(2)).await.aligned, "it is not believed any more");
    for holder in [&a, &b] {
        let claim = late.take_own(&successor(holder), LEASE).await.unwrap().remove(0).claim;
        let realigned = late.realign(&A_NODE, &claim, &said, &json!({}), LEASE).await.unwrap();
        assert!(realigned.unwrap().expect("it was stopped").restored, "commits are gone");
    }
}

/// Lanes as they are after a failover that is said to have lost nothing, each with its claim.
async fn failed_over(bench: &Bench, lanes: u32) -> Vec<Claim> {
    let store = &*bench.store;
    store.arrive().await.unwrap();
    let mut claims = Vec::new();
    for number in 1..=lanes {
        claims.push(claim_at(store, &node("a"), lane(number), 3).await);
    }
    let earlier = "overlay(stile_timeline() placing '00000000' from 1)";
    bench.raw().await.execute(&format!("UPDATE lane SET timeline = {earlier}")).await;
    claims
}

/// Realigns a lane of whose nonces this node has seen so many given out.
fn realign(store: &Arc<dyn Store>, claim: Claim, given_out: u64) -> JoinHandle<Option<Realigned>> {
    let store = Arc::clone(store);
    let failover = Failover::Synchronous;
    let seen = Remembered { failover, given_out, ..Remembered::default() };
    tokio::spawn(async move {
        store.realign(&A_NODE, &claim, &seen, &json!({}), LEASE).await.unwrap().unwrap()
    })
}

/// One lane is taken for whole, and before that is written, another one shows that commits are gone.
///
/// Fails if the first is left as it is: what waits on it may have been sent before.
#[tokio::test]
async fn hole_20_a_loss_that_is_found_while_a_lane_is_taken_for_lossless_stops_that_lane() {
    let bench = Bench::postgres().await;
    let claims = failed_over(&bench, 2).await;
    let (blocker, observer) = (bench.raw().await, bench.raw().await);
    // The last that either of them writes.
    blocker.execute("BEGIN; LOCK TABLE lane_event IN SHARE MODE").await;
    let believes = realign(&bench.store, claims[0], 3);
    wait_until_blocked(&observer, 1).await;
    let knows = realign(&bench.second(), claims[1], 4);
    wait_until_blocked(&observer, 2).await;
    blocker.execute("COMMIT").await;
    assert!(knows.await.unwrap().expect("it was realigned").restored, "commits are gone");
    assert!(!believes.await.unwrap().expect("it was realigned").restored, "nobody knew");
    assert!(!view(&*bench.store, lane(1)).await.aligned, "it is not believed any more");
    assert!(view(&*bench.store, lane(2)).await.aligned, "it has been held against its chain");
}

/// The other way round: a loss is being noted, and waits for a lane that was taken for whole before.
#[tokio::test]
async fn hole_20_no_lane_is_taken_for_lossless_while_a_loss_is_noted() {
    let bench = Bench::postgres().await;
    let claims = failed_over(&bench, 3).await;
    let whole = realign(&bench.store, claims[2], 3).await.unwrap().expect("it was realigned");
    assert!(!whole.restored, "nothing says that commits are gone");
    let (blocker, observer) = (bench.raw().await, bench.raw().await);
    let third = blocker.of(lane(3));
    blocker.execute(&format!("BEGIN; SELECT FROM lane WHERE {third} FOR UPDATE")).await;
    let knows = realign(&bench.second(), claims[1], 4);
    wait_until_blocked(&observer, 1).await;
    let believes = realign(&bench.store, claims[0], 3);
    eventually("its end, or that it waits", async || {
        (believes.is_finished() || is_blocked(&observer, 2).await).then_some(())
    })
    .await;
    blocker.execute("COMMIT").await;
    knows.await.unwrap();
    assert!(believes.await.unwrap().expect("it was realigned").restored, "commits are gone");
    assert!(!view(&*bench.store, lane(3)).await.aligned, "it is not believed any more");
}
