//! The database is replaced by an older one while the node runs on.
//!
//! Fails if the node goes on as if nothing had happened: then a payment that waits in the older one,
//! and was made since, is made again.

use std::net::SocketAddr;

use testkit::{Postgres, TcpProxy};

use crate::support::{Restore, id, transfer};

/// Another server answers under the same name.
async fn behind_a_proxy(server: &Postgres, name: &str) -> (TcpProxy, String) {
    let proxy = TcpProxy::start(local(server)).await;
    let url = format!("postgres://postgres@{}/{name}", proxy.addr());
    (proxy, url)
}

fn local(server: &Postgres) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], server.port()))
}

fn name(url: &str) -> &str {
    url.rsplit('/').next().unwrap()
}

#[tokio::test]
async fn hole_20_a_dump_loaded_over_the_tables_of_a_running_node_pays_nobody_twice() {
    let setup = Restore::new().await;
    let server = Postgres::shared().await;
    let url = server.database().await;
    // Whatever is said about failovers: this is none.
    let node = setup.on(&url).set("store.failover", "synchronous").start().await;
    let txs = setup.pay(&node).await;
    let backup = server.dump(&url).await;
    setup.confirmed(&node, &txs).await;
    server.restore_clean(&url, &backup).await;
    setup.goes_on(&node, &txs).await;
    // What is settled stays so: the next start finds the tables that it knows.
    let marked = setup.restored(&node).await["restoredAt"].clone();
    node.terminate().await;
    let node = setup.on(&url).start().await;
    setup.pays_more(&node, 7).await;
    assert_eq!(setup.restored(&node).await["restoredAt"], marked);
}

#[tokio::test]
async fn hole_20_files_put_back_under_a_running_node_pay_nobody_twice() {
    let setup = Restore::new().await;
    let mut server = Postgres::start(&[]).await;
    let url = server.database().await;
    let node = setup.on(&url).set("store.failover", "synchronous").start().await;
    let txs = setup.pay(&node).await;
    server.stop().await;
    let copy = server.copy_files().await;
    server.start_again().await;
    setup.confirmed(&node, &txs).await;
    server.stop().await;
    server.put_files_back(&copy).await;
    server.start_again().await;
    setup.goes_on(&node, &txs).await;
    assert!(node.process.stderr().contains("the database has lost commits"));
}

#[tokio::test]
async fn hole_20_a_copied_database_in_the_place_of_a_running_nodes_pays_nobody_twice() {
    let setup = Restore::new().await;
    let server = Postgres::shared().await;
    let name = name(&server.database().await).to_owned();
    let (proxy, url) = behind_a_proxy(server, &name).await;
    let node = setup.on(&url).set("store.failover", "synchronous").start().await;
    let txs = setup.pay(&node).await;
    proxy.cut().await;
    let copy = server.copy_database(&name).await;
    proxy.heal().await;
    setup.confirmed(&node, &txs).await;
    server.replace_database(&name, &copy).await;
    setup.goes_on(&node, &txs).await;
}

/// An operator tries a copy under a running node, and puts the database back.
#[tokio::test]
async fn hole_20_a_database_that_comes_back_under_a_running_node_pays_nobody_twice() {
    let setup = Restore::new().await;
    let server = Postgres::shared().await;
    let name = name(&server.database().await).to_owned();
    let (proxy, url) = behind_a_proxy(server, &name).await;
    let node = setup.on(&url).start().await;
    let txs = setup.pay(&node).await;
    setup.confirmed(&node, &txs).await;
    proxy.cut().await;
    let copy = server.copy_database(&name).await;
    let first = server.swap_database(&name, &copy).await;
    proxy.heal().await;
    // In the copy one more is paid, after a word.
    let body = transfer(&setup.signer, 6);
    let sixth = node.send_new(&body).await;
    setup.settle(&node, "never-sent").await;
    setup.confirmed(&node, std::slice::from_ref(&sixth)).await;
    proxy.cut().await;
    server.swap_database(&name, &first).await;
    proxy.heal().await;
    // There nobody knows of it, and its caller asks again.
    let again = node.send_new(&body).await;
    setup.confirmed(&node, std::slice::from_ref(&again)).await;
    assert_eq!(setup.paid().await, [1, 2, 3, 4, 5, 6], "each once, ever");
    assert_eq!(node.tx(id(&again)).await["nonce"], 5);
}

/// What a standby that has every commit and a server that was recovered from an archive have in common
/// is a new timeline. A node that lived through it knows what was answered.
#[tokio::test]
async fn hole_20_an_archive_is_not_taken_for_a_synchronous_standby() {
    let setup = Restore::new().await;
    let mut server = Postgres::start_archiving().await;
    let name = name(&server.database().await).to_owned();
    let (proxy, url) = behind_a_proxy(&server, &name).await;
    let mut recovered = server.base_backup().await;
    let node = setup.on(&url).set("store.failover", "synchronous").start().await;
    let txs = setup.pay(&node).await;
    server.name_this_moment("as far as the archive goes").await;
    setup.confirmed(&node, &txs).await;
    server.stop_immediate().await;
    recovered.recover(&server).await;
    proxy.point_to(local(&recovered));
    setup.pays_once(&node, &txs).await;
    let entry = setup.realigned(&node).await;
    assert_eq!(entry["data"]["lossless"], false, "{entry:#}");
}

/// The settings are gone, and nobody remembers: the server's own record of its timelines tells.
#[tokio::test]
async fn hole_20_a_recovery_whose_settings_were_removed_pays_nobody_twice() {
    let setup = Restore::new().await;
    let server = Postgres::start_archiving().await;
    let url = server.database().await;
    let mut recovered = server.base_backup().await;
    let node = setup.on(&url).start().await;
    let txs = setup.pay(&node).await;
    server.name_this_moment("three_wait").await;
    setup.confirmed(&node, &txs).await;
    node.terminate().await;
    recovered.recover_to(&server, "three_wait").await;
    recovered.forget_recovery().await;
    let options = setup.on(&recovered.url(name(&url))).set("store.failover", "synchronous");
    setup.goes_on(&options.start().await, &txs).await;
}
