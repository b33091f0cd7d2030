//! Long transactions, frozen holders, time zones.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use stile_domain::{Holder, Lane};
use stile_store::{Acquisition, HeldLane, OpenOptions, Renewal, Store, StoreError, open};
use testkit::{Postgres, eventually_within};

use crate::common::{
    A_NODE, Bench, HOLD, LEASE, RUN_OUT, Raw, WINDOW, acquire, bind, claim_at, fresh, held,
    hold_at, lane, node, owner, view, wait_until_blocked,
};

/// How soon a lane must change hands whose holder froze inside a transaction. A server that lets
/// the transaction sit would keep it for as long as the holder is frozen.
const IN_TIME: Duration = Duration::from_secs(10);

#[tokio::test]
async fn hole_07_a_lease_that_runs_out_during_a_transaction_has_run_out() {
    let bench = Bench::postgres().await;
    held(&*bench.store, &node("a"), lane(1), LEASE).await;
    let (blocker, observer) = (bench.raw().await, bench.raw().await);
    lock(&blocker, lane(1)).await;
    let second = bench.second();
    let taking = tokio::spawn(async move { acquire(&*second, &node("b"), lane(1), LEASE).await });
    wait_until_blocked(&observer, 1).await;
    // By now the acquiring transaction has begun, and so has its statement.
    blocker.execute("UPDATE lane SET expires_at = clock_timestamp(); COMMIT").await;
    let answer = taking.await.unwrap();
    assert!(matches!(answer, Acquisition::Held(_)), "by the clock on the wall: {answer:?}");
}

/// Locks a lane's row in a transaction that is left open.
async fn lock(raw: &Raw, lane: Lane) {
    let this = raw.of(lane);
    raw.execute(&format!("BEGIN; SELECT 1 FROM lane WHERE {this} FOR UPDATE")).await;
}

/// Tries to acquire until it succeeds.
async fn take_in_time(store: &dyn Store, holder: &Holder, lane: Lane) -> HeldLane {
    let taken = eventually_within(IN_TIME, "the frozen holder's lane", async || {
        match acquire(store, holder, lane, LEASE).await {
            Acquisition::Held(held) => Some(held),
            Acquisition::Other(_) => None,
        }
    });
    taken.await
}

#[tokio::test]
async fn hole_07_a_session_frozen_inside_a_transaction_does_not_keep_the_lane() {
    let bench = Bench::postgres().await;
    held(&*bench.store, &node("a"), lane(1), RUN_OUT).await;
    let frozen = bench.raw().await;
    frozen
        .execute(&format!(
            "BEGIN; SET LOCAL idle_in_transaction_session_timeout = 400;
             UPDATE lane SET updated_at = clock_timestamp() WHERE {}",
            frozen.of(lane(1))
        ))
        .await;
    let taken = take_in_time(&*bench.second(), &node("b"), lane(1)).await;
    assert_eq!(taken.claim.token().get(), 2);
    assert!(frozen.attempt("COMMIT").await.is_err(), "the server has ended it");
}

#[tokio::test]
async fn hole_07_a_holder_frozen_inside_a_write_loses_its_lane_in_time() {
    let bench = Bench::postgres().await;
    let (proxy, options) = bench.proxied().await;
    let lease = Duration::from_secs(1);
    let frozen = open(OpenOptions { lease, ..options }).unwrap();
    let claim = claim_at(&*bench.store, &node("a"), lane(1), 0).await;
    bench.store.renew(&[claim], RUN_OUT).await.unwrap();

    // The write gets as far as the lane's row, and there its process freezes.
    let (blocker, observer) = (bench.raw().await, bench.raw().await);
    lock(&blocker, lane(1)).await;
    let writing = tokio::spawn({
        let frozen = Arc::clone(&frozen);
        async move { frozen.bind(&[fresh(claim, 0, 1)], LEASE, HOLD).await }
    });
    wait_until_blocked(&observer, 1).await;
    proxy.freeze();
    blocker.execute("COMMIT").await;

    let second = bench.second();
    let taken = take_in_time(&*second, &node("b"), lane(1)).await;
    assert_eq!(taken.next_nonce, Some(0));
    let database = observer.value("SELECT current_database()").await;
    let line =
        format!(" {database} stile FATAL:  terminating connection due to idle-in-transaction");
    assert!(Postgres::shared().await.log().contains(&line), "ended by the store's own setting");

    proxy.heal().await;
    let late = writing.await.unwrap();
    let retry = matches!(late, Err(StoreError::Unavailable(_) | StoreError::CommitUnknown(_)));
    assert!(retry, "whoever wakes up may try again: {late:?}");
    let next = bind(&*second, fresh(taken.claim, 0, 1)).await.unwrap();
    assert_eq!(observer.rows("SELECT owner_id FROM nonce").await, [[next[0].id.to_string()]]);
}

/// Stores whose sessions run in time zones far apart, and in some picked at random.
async fn stores_around_the_world(bench: &Bench, raw: &Raw) -> Vec<(String, Arc<dyn Store>)> {
    let zones = raw.rows(
        "(SELECT name FROM pg_timezone_names ORDER BY utc_offset, name LIMIT 1)
         UNION (SELECT name FROM pg_timezone_names ORDER BY utc_offset DESC, name LIMIT 1)
         UNION (SELECT name FROM pg_timezone_names ORDER BY random() LIMIT 4)",
    );
    let stores = zones.await.into_iter().map(async |row| {
        let zone = row.concat();
        let url = format!("{}?options=-c%20timezone%3D{}", bench.database.url(), escaped(&zone));
        let session = Raw::connect(&url).await.value("SHOW timezone").await;
        assert_eq!(session, zone, "the sessions are where they should be");
        (
            zone,
            open(OpenOptions { url: url.into(), pool_size: 1, ..bench.database.options() })
                .unwrap(),
        )
    });
    join_all(stores).await
}

fn escaped(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

#[tokio::test]
async fn hole_08_time_zones_change_nothing() {
    let bench = Bench::postgres().await;
    let raw = bench.raw().await;
    let stores = stores_around_the_world(&bench, &raw).await;
    assert!(stores.len() >= 4, "{stores:?}");
    let lease = Duration::from_secs(60);
    let mut number = 0;
    for (here, holder_store) in &stores {
        for (there, thief_store) in stores.iter().filter(|(there, _)| there != here) {
            number += 1;
            let (a, b, lane) = (node("a"), node("b"), lane(number));
            let claim = held(&**holder_store, &a, lane, lease).await.claim;
            holder_store.start_cursor(&A_NODE, &claim, 0.into(), lease).await.unwrap().unwrap();
            hold_at(&**holder_store, claim, 0, HOLD).await;
            assert_eq!(holder_store.renew(&[claim], lease).await.unwrap(), [Renewal::Renewed]);
            let context = format!("held in {here}, wanted in {there}");

            let owner = owner(acquire(&**thief_store, &b, lane, lease).await);
            assert!(owner.remaining <= lease, "{context}: {:?}", owner.remaining);
            assert!(owner.remaining > lease / 2, "{context}: {:?}", owner.remaining);
            let stolen = thief_store.take_expired(&b, lease, 10, WINDOW).await.unwrap();
            assert!(stolen.is_empty(), "{context}: {stolen:?}");
            let (mine, theirs) =
                (view(&**holder_store, lane).await, view(&**thief_store, lane).await);
            assert_eq!(mine.expires_at, theirs.expires_at, "{context}");

            holder_store.renew(&[claim], RUN_OUT).await.unwrap();
            let taken = thief_store.take_expired(&b, LEASE, 10, WINDOW).await.unwrap();
            assert_eq!(taken.len(), 1, "{context}: a lease that ran out is taken");
        }
    }
}
