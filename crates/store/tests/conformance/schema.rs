//! Migrations.

use futures::future::join_all;
use stile_store::StoreError;

use crate::common::{Bench, LEASE, held, lane, node};

on_both_stores!(
    migrating_twice_is_migrating_once,
    nodes_that_start_together_migrate_once,
    an_empty_database_is_too_old,
    a_newer_schema_is_left_alone,
    a_migration_that_cannot_be_recorded_is_not_applied,
);

async fn migrating_twice_is_migrating_once(bench: Bench) {
    let empty = bench.database.another().await;
    let store = empty.open();
    let first = store.migrate().await.unwrap();
    let newest = first.applied.last().unwrap();
    assert!(newest.starts_with(&format!("V{}__", first.version)), "{first:?}");
    store.check_schema().await.unwrap();
    held(&*store, &node("a"), lane(1), LEASE).await;

    let second = empty.open().migrate().await.unwrap();
    assert!(second.applied.is_empty(), "{second:?}");
    assert_eq!(second.version, first.version);
    assert!(store.lanes(&[lane(1)]).await.unwrap()[0].is_some(), "what was there stays");
}

async fn nodes_that_start_together_migrate_once(bench: Bench) {
    let empty = bench.database.another().await;
    let nodes: Vec<_> = (0..6).map(|_| empty.open()).collect();
    let reports = join_all(nodes.iter().map(|store| store.migrate())).await;
    let reports: Vec<_> = reports.into_iter().map(Result::unwrap).collect();
    let applied: usize = reports.iter().map(|report| report.applied.len()).sum();
    let recorded = "SELECT count(*) FROM refinery_schema_history";
    assert_eq!(empty.raw().await.value(recorded).await, applied.to_string(), "{reports:?}");
    for store in nodes {
        store.check_schema().await.unwrap();
    }
}

async fn an_empty_database_is_too_old(bench: Bench) {
    let known = bench.store.migrate().await.unwrap().version;
    let empty = bench.database.another().await;
    match empty.open().check_schema().await {
        Err(StoreError::SchemaTooOld { found: 0, known: needed }) => assert_eq!(needed, known),
        other => panic!("{other:?}"),
    }
    let raw = empty.raw().await;
    assert!(raw.attempt("SELECT 1 FROM lane").await.is_err(), "asking changes nothing");
}

async fn a_newer_schema_is_left_alone(bench: Bench) {
    let known = bench.store.migrate().await.unwrap().version;
    let newer = known + 1;
    let raw = bench.raw().await;
    raw.execute(&format!(
        "INSERT INTO refinery_schema_history (version, name, applied_on, checksum)
         VALUES ({newer}, 'from_the_future', '2100-01-01T00:00:00Z', '1')"
    ))
    .await;
    for answer in [bench.store.check_schema().await, bench.store.migrate().await.map(drop)] {
        let Err(StoreError::SchemaTooNew { found, known: ours }) = answer else {
            panic!("{answer:?}")
        };
        assert_eq!((found, ours), (newer, known));
    }
}

async fn a_migration_that_cannot_be_recorded_is_not_applied(bench: Bench) {
    let empty = bench.database.another().await;
    let raw = empty.raw().await;
    raw.execute(
        "CREATE TABLE refinery_schema_history (version integer PRIMARY KEY CHECK (version < 0),
             name varchar(255), applied_on varchar(255), checksum varchar(255))",
    )
    .await;
    assert!(empty.open().migrate().await.is_err());
    assert!(raw.attempt("SELECT 1 FROM lane").await.is_err(), "half a migration was left behind");

    raw.execute("DROP TABLE refinery_schema_history").await;
    empty.open().migrate().await.unwrap();
}
