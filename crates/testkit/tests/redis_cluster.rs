//! A private Redis Cluster, a replica, and a slow way to a server.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use testkit::{DEADLINE, Redis, RedisCluster, Signal, SlowProxy, eventually};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[tokio::test]
async fn three_masters_share_the_slots() {
    let cluster = RedisCluster::start().await;
    let said = cluster.masters()[1].command("CLUSTER INFO").await;
    assert!(said.contains("cluster_slots_ok:16384"), "{said}");
    assert_eq!(cluster.url().split(',').count(), 3);
}

#[tokio::test]
async fn a_lost_master_is_replaced_by_its_replica() {
    let cluster = RedisCluster::start_with_replicas().await;
    cluster.process(0).signal(Signal::Kill);
    cluster.process(0).wait_exit(DEADLINE).await;
    eventually("the replica to be a master", async || {
        cluster.replicas()[0].command("ROLE").await.contains("master").then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_replica_follows_until_it_is_cut_off() {
    let master = Redis::start().await;
    let replica = master.replica().await;
    master.command("SET key one").await;
    eventually("the value to arrive", async || {
        replica.command("GET key").await.contains("one").then_some(())
    })
    .await;
    replica.cut_off().await;
    master.command("SET key two").await;
    replica.promote().await;
    assert!(replica.command("GET key").await.contains("one"));
    replica.command("SET key three").await;
}

#[tokio::test]
async fn a_slow_way_is_slow_when_told_so() {
    let redis = Redis::start().await;
    let proxy = SlowProxy::start(SocketAddr::from((Ipv4Addr::LOCALHOST, redis.port()))).await;
    let mut stream = TcpStream::connect(proxy.addr()).await.unwrap();
    proxy.set_delay(Duration::from_millis(200));
    let asked = Instant::now();
    stream.write_all(b"PING\r\n").await.unwrap();
    let mut answer = [0; 7];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"+PONG\r\n");
    assert!(asked.elapsed() >= Duration::from_millis(200));
}
