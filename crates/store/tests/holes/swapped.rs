//! An older database in the place of the one that nodes work on.

use serde_json::json;
use stile_domain::{Failover, NodeMode, Remembered};
use stile_store::{NodeRecord, OpenOptions, Refusal, Store, open};
use testkit::{Postgres, eventually};

use crate::common::{
    A_NODE, Bench, Database, LEASE, bind, claim_at, fresh, held, hold_at, lane, node, view,
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
}
