//! A private PostgreSQL server.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

use testkit::{Postgres, TcpProxy, eventually};
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

/// A client whose connection lives in a task of its own.
async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("connect");
    tokio::spawn(connection);
    client
}

/// The first column of the first row.
async fn value(client: &Client, query: &str) -> String {
    let answer = client.simple_query(query).await.expect(query);
    let row = answer.into_iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    });
    row.expect("a row")
}

#[tokio::test]
async fn every_test_gets_an_empty_database_on_the_shared_server() {
    let server = Postgres::shared().await;
    let (one, other) = tokio::join!(server.database(), server.database());
    assert_ne!(one, other);
    connect(&one).await.batch_execute("CREATE TABLE only_here ()").await.unwrap();
    let tables = "SELECT count(*) FROM pg_tables WHERE tablename = 'only_here'";
    assert_eq!(value(&connect(&other).await, tables).await, "0");
}

#[tokio::test]
async fn the_shared_server_is_one() {
    let (one, other) = tokio::join!(Postgres::shared(), Postgres::shared());
    assert!(std::ptr::eq(one, other));
}

#[tokio::test]
async fn settings_are_the_usual_ones_and_those_asked_for() {
    let server = Postgres::start(&[("max_connections", "33"), ("work_mem", "5MB")]).await;
    let client = connect(&server.url("postgres")).await;
    for (setting, expected) in [
        ("fsync", "on"),
        ("synchronous_commit", "on"),
        ("timezone", "UTC"),
        ("deadlock_timeout", "200ms"),
        ("log_lock_waits", "on"),
        ("max_connections", "33"),
        ("work_mem", "5MB"),
    ] {
        assert_eq!(value(&client, &format!("SHOW {setting}")).await, expected, "{setting}");
    }
}

#[tokio::test]
async fn the_log_shows_a_deadlock() {
    let server = Postgres::shared().await;
    let url = server.database().await;
    let (one, other) = (connect(&url).await, connect(&url).await);
    for (client, key) in [(&one, 1), (&other, 2)] {
        client.batch_execute(&format!("BEGIN; SELECT pg_advisory_xact_lock({key})")).await.unwrap();
    }
    let ends = tokio::join!(
        one.batch_execute("SELECT pg_advisory_xact_lock(2)"),
        other.batch_execute("SELECT pg_advisory_xact_lock(1)"),
    );
    assert!(ends.0.is_err() != ends.1.is_err(), "one of the two is the victim");
    eventually("the deadlock in the log", async || {
        server.log().contains("deadlock detected").then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_server_of_ones_own_crashes_and_recovers_on_the_same_port() {
    let mut server = Postgres::start(&[]).await;
    let url = server.database().await;
    let client = connect(&url).await;
    client.batch_execute("CREATE TABLE kept AS SELECT 7 AS answer").await.unwrap();

    let port = server.port();
    server.stop_immediate().await;
    assert!(client.simple_query("SELECT 1").await.is_err());
    assert!(tokio_postgres::connect(&url, NoTls).await.is_err());

    server.start_again().await;
    assert_eq!(server.port(), port);
    assert_eq!(value(&connect(&url).await, "SELECT answer FROM kept").await, "7");
    assert!(server.log().contains("database system was not properly shut down"));
}

#[tokio::test]
async fn a_dropped_server_leaves_no_directory() {
    let server = Postgres::start(&[]).await;
    let directory = server.directory().to_owned();
    assert!(directory.join("data/PG_VERSION").exists());
    drop(server);
    assert!(!directory.exists());
}

#[tokio::test]
async fn a_lost_answer_to_a_commit_is_a_commit_nonetheless() {
    let server = Postgres::shared().await;
    let url = server.database().await;
    let direct = connect(&url).await;
    direct.batch_execute("CREATE TABLE kept (answer int)").await.unwrap();

    let proxy = TcpProxy::start(([127, 0, 0, 1], server.port()).into()).await;
    let through = url.replace(&server.port().to_string(), &proxy.addr().port().to_string());
    let client = connect(&through).await;
    client.batch_execute("BEGIN; INSERT INTO kept VALUES (7)").await.unwrap();
    proxy.drop_next_response_containing(b"COMMIT\0");
    client.batch_execute("COMMIT").await.expect_err("the answer is lost");

    assert_eq!(proxy.dropped_responses(), 1);
    assert_eq!(value(&direct, "SELECT answer FROM kept").await, "7");
}
