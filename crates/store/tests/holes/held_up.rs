//! What nothing else may hold up, and what may hold up nobody for ever.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use stile_store::{OpenOptions, Renewal, StoreError, open};
use testkit::eventually;

use crate::common::{Bench, Database, LEASE, claim_at, lane, node, wait_until_blocked};

/// Sessions of the store's, on this database, that run a statement.
const RUNNING: &str = "SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'stile' AND state = 'active'";

/// Every connection of the pool waits for a row that somebody has locked, and more calls wait for a
/// connection. Fails if renewals, or takeovers, share the pool.
#[tokio::test]
async fn hole_36_renewals_and_takeovers_need_no_connection_of_the_pool() {
    let bench = Bench::new(Database::postgres().await).await;
    let store = open(OpenOptions { pool_size: 2, ..bench.database.options() }).unwrap();
    let (a, b) = (node("a"), node("b"));
    let busy = claim_at(&*store, &a, lane(1), 0).await;
    let idle = claim_at(&*store, &a, lane(2), 0).await;
    let (locker, watcher) = (bench.raw().await, bench.raw().await);
    let of_busy = locker.of(lane(1));
    locker.execute(&format!("BEGIN; SELECT 1 FROM lane WHERE {of_busy} FOR UPDATE")).await;

    let calls: Vec<_> = (0..6)
        .map(|_| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { store.read_back_txs(lane(1), &[]).await })
        })
        .collect();
    wait_until_blocked(&watcher, 2).await;

    let renewed = store.renew(&[busy, idle], LEASE).await.unwrap();
    assert_eq!(renewed, [Renewal::Skipped, Renewal::Renewed], "without waiting for a lock");
    assert!(store.take_expired(&b, LEASE, 10, 0).await.unwrap().is_empty());
    assert!(store.expired_lanes(10, 0).await.unwrap().is_empty());
    assert!(!calls.iter().any(|call| call.is_finished()), "all that was while the pool was full");
    locker.execute("COMMIT").await;
    for answer in join_all(calls).await {
        answer.unwrap().unwrap();
    }
}

/// A read that waits for a table. Fails if only this process's clock ends it: the server would go on.
async fn hole_36_the_server_ends_a_read_that_takes_too_long(database: Database) {
    let bench = Bench::new(database).await;
    let limit = Duration::from_millis(300);
    let options = OpenOptions { statement_timeout: limit, ..bench.database.options() };
    let store = open(OpenOptions { lock_timeout: limit, ..options }).unwrap();
    store.ping().await.unwrap();
    let (locker, watcher) = (bench.raw().await, bench.raw().await);
    locker.execute("BEGIN; LOCK TABLE tx IN ACCESS EXCLUSIVE MODE").await;
    let error = store.waiting(lane(1), 1).await.unwrap_err();
    let StoreError::Unavailable(text) = &error else { panic!("{error:?}") };
    assert!(text.contains("ended by the server after 300ms, store.statement_timeout"), "{text}");
    assert_eq!(watcher.value(RUNNING).await, "0", "nobody waits for the table any more");
    locker.execute("COMMIT").await;
    eventually("the next read", async || store.waiting(lane(1), 1).await.ok()).await;
}

#[tokio::test]
async fn hole_36_the_server_ends_a_read_that_takes_too_long_on_postgres() {
    hole_36_the_server_ends_a_read_that_takes_too_long(Database::postgres().await).await;
}

#[tokio::test]
async fn hole_36_the_server_ends_a_read_that_takes_too_long_behind_a_pooler() {
    hole_36_the_server_ends_a_read_that_takes_too_long(Database::pooled().await).await;
}
