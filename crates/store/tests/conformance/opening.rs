//! URLs, and one server at a time.

use std::time::Duration;

use stile_store::{OpenOptions, StoreError, open};

use crate::common::{Bench, Database, LEASE, held, lane, node};

fn at(database: &Database, url: &str) -> OpenOptions {
    OpenOptions { url: url.into(), ..database.options() }
}

#[test]
fn an_address_that_names_no_store_is_refused() {
    let any = Database::sqlite();
    for url in ["", "sqlite://", "mysql://localhost/stile", "stile.db", "postgres://host:port/x"] {
        let refused = open(at(&any, url));
        assert!(matches!(refused, Err(StoreError::Url(_))), "{url:?}: {refused:?}");
    }
}

#[test]
fn a_file_that_cannot_be_opened_is_not_available() {
    let any = Database::sqlite();
    let missing = format!("{}/there/is/no/such/directory", any.url());
    let refused = open(at(&any, &missing));
    assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
}

#[tokio::test]
async fn a_server_that_does_not_listen_is_not_available() {
    let any = Database::sqlite();
    let url = format!("postgres://postgres@127.0.0.1:{}/stile", testkit::free_port());
    let store = open(at(&any, &url)).expect("opening does not connect");
    let refused = store.ping().await;
    assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
}

#[tokio::test]
async fn an_embedded_database_has_one_server_at_a_time() {
    let bench = Bench::sqlite().await;
    let serving = OpenOptions { serve: true, ..bench.database.options() };
    let server = open(serving.clone()).unwrap();
    match open(serving.clone()) {
        Err(StoreError::InUse { path, by }) => {
            assert!(path.ends_with("stile.db"), "{path}");
            assert_eq!(by, format!("process {}", std::process::id()));
        }
        other => panic!("{other:?}"),
    }
    // Other commands work beside it.
    held(&*bench.store, &node("a"), lane(1), LEASE).await;
    server.ping().await.unwrap();
    server.close().await;
    drop(server);
    open(serving).expect("the lock ends with the server");
}

/// To wait for readers, folding the log back would hold the write lock and keep everybody out.
#[tokio::test]
async fn an_embedded_database_closes_without_waiting_for_readers() {
    let bench = Bench::sqlite().await;
    held(&*bench.store, &node("a"), lane(1), LEASE).await;
    let reader = bench.raw().await;
    reader.execute("BEGIN").await;
    assert_eq!(reader.value("SELECT count(*) FROM lane").await, "1");
    let closed = tokio::time::timeout(Duration::from_secs(4), bench.store.close()).await;
    assert!(closed.is_ok(), "closing waits for somebody who reads");
    held(&*bench.second(), &node("b"), lane(2), LEASE).await;
    assert_eq!(reader.value("SELECT count(*) FROM lane").await, "1", "it still reads");
}
