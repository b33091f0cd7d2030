//! Servers that follow one another, stand still, are dumped, and share their connections.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

use std::net::SocketAddr;
use std::time::Duration;

use testkit::{PgBouncer, Postgres, TcpProxy, eventually};
use tokio_postgres::{Client, NoTls};

/// A client whose connection lives in a task of its own.
async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("connect");
    tokio::spawn(connection);
    client
}

async fn count(client: &Client) -> i64 {
    client.query_one("SELECT count(*) FROM t", &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn a_standby_that_was_cut_off_lacks_the_last_commits() {
    let mut primary = Postgres::start(&[]).await;
    let url = primary.database().await;
    let name = url.rsplit('/').next().unwrap();
    let client = connect(&url).await;
    client.batch_execute("CREATE TABLE t (); INSERT INTO t DEFAULT VALUES").await.unwrap();
    let proxy = TcpProxy::start(SocketAddr::from(([127, 0, 0, 1], primary.port()))).await;
    let mut standby = primary.start_standby().await;
    standby.stop_immediate().await;
    client.batch_execute("INSERT INTO t DEFAULT VALUES").await.unwrap();
    primary.stop_immediate().await;
    standby.start_again().await;
    standby.promote().await;
    proxy.point_to(SocketAddr::from(([127, 0, 0, 1], standby.port())));
    let client = connect(&format!("postgres://postgres@{}/{name}", proxy.addr())).await;
    assert_eq!(count(&client).await, 1);
    client.batch_execute("INSERT INTO t DEFAULT VALUES").await.unwrap();
    let timeline = "SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8)";
    let timeline: String = client.query_one(timeline, &[]).await.unwrap().get(0);
    assert_eq!(timeline, "00000002");
}

#[tokio::test]
async fn a_synchronous_standby_has_every_commit() {
    let mut primary = Postgres::start(&[]).await;
    let url = primary.database().await;
    let name = url.rsplit('/').next().unwrap();
    let standby = primary.start_standby().await;
    primary.wait_for_standbys().await;
    let client = connect(&url).await;
    client.batch_execute("CREATE TABLE t (); INSERT INTO t DEFAULT VALUES").await.unwrap();
    primary.stop_immediate().await;
    standby.promote().await;
    let client = connect(&standby.url(name)).await;
    assert_eq!(count(&client).await, 1);
    client.batch_execute("INSERT INTO t DEFAULT VALUES").await.expect("waits for nobody");
}

#[tokio::test]
async fn a_frozen_server_answers_nobody_until_it_goes_on() {
    let server = Postgres::start(&[]).await;
    let client = connect(&server.url("postgres")).await;
    let frozen = server.freeze();
    let asked = tokio::time::timeout(Duration::from_millis(300), client.batch_execute("SELECT 1"));
    assert!(asked.await.is_err(), "answered while frozen");
    drop(frozen);
    eventually("an answer", async || client.batch_execute("SELECT 1").await.ok()).await;
}

#[tokio::test]
async fn a_backup_is_loaded_into_another_database() {
    let server = Postgres::shared().await;
    let url = server.database().await;
    let client = connect(&url).await;
    client.batch_execute("CREATE TABLE t (); INSERT INTO t DEFAULT VALUES").await.unwrap();
    let backup = server.dump(&url).await;
    client.batch_execute("INSERT INTO t DEFAULT VALUES").await.unwrap();
    let restored = connect(&server.restore(&backup).await).await;
    assert_eq!((count(&restored).await, count(&client).await), (1, 2));
}

#[tokio::test]
async fn a_backup_takes_the_place_of_the_database_it_was_made_of() {
    let server = Postgres::shared().await;
    let url = server.database().await;
    let client = connect(&url).await;
    client.batch_execute("CREATE TABLE t (); INSERT INTO t DEFAULT VALUES").await.unwrap();
    let backup = server.dump(&url).await;
    client.batch_execute("INSERT INTO t DEFAULT VALUES").await.unwrap();
    server.restore_over(url.rsplit('/').next().unwrap(), &backup).await;
    assert!(client.batch_execute("SELECT 1").await.is_err(), "its connections are gone");
    assert_eq!(count(&connect(&url).await).await, 1);
}

#[tokio::test]
async fn clients_of_a_pgbouncer_share_its_connections() {
    let server = Postgres::shared().await;
    let url = server.database().await;
    let pooler = PgBouncer::start(server).await;
    let mut clients = Vec::new();
    for _ in 0..20 {
        clients.push(connect(&pooler.url(&url)).await);
    }
    let ask = async |client: &Client| {
        let row = client.query_typed_one("SELECT pg_backend_pid()", &[]).await.unwrap();
        row.get::<_, i32>(0)
    };
    let mut servers = Vec::new();
    for client in &clients {
        servers.push(ask(client).await);
    }
    servers.sort_unstable();
    servers.dedup();
    assert!(servers.len() <= 4, "{servers:?}");
}
