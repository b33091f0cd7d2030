//! PostgreSQL fails over to a standby.
//!
//! Fails if a lane gives out nonces in another history of the database before it was held against
//! its chain, or under a token that somebody may have seen.

use std::net::SocketAddr;

use serde_json::{Value, json};
use testkit::{Anvil, AnvilOptions, Postgres, TcpProxy, eventually};

use crate::common::{NodeOptions, StileProcess};
use crate::support::{Load, SIGNERS, id, transfer};

/// Transactions sent at one time.
const SOME: u64 = 5;

fn local(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

/// A chain and a PostgreSQL, each behind a proxy.
struct Setup {
    anvil: Anvil,
    chain: TcpProxy,
    primary: Postgres,
    database: TcpProxy,
    url: String,
    signer: String,
    caller: String,
}

impl Setup {
    async fn new() -> Self {
        let options = AnvilOptions { block_time_seconds: Some(1), ..Default::default() };
        let (anvil, primary) = tokio::join!(Anvil::start(options), Postgres::start(&[]));
        let port = anvil.url().rsplit(':').next().unwrap().parse().unwrap();
        let chain = TcpProxy::start(local(port)).await;
        let database = TcpProxy::start(local(primary.port())).await;
        let name = primary.database().await.rsplit('/').next().unwrap().to_owned();
        let url = format!("postgres://postgres@{}/{name}", database.addr());
        let mut accounts = anvil.accounts().await;
        let (caller, signer) = (accounts.remove(5), accounts.remove(0));
        Self { anvil, chain, primary, database, url, signer, caller }
    }

    fn options(&self, name: &str, keys: usize) -> NodeOptions {
        NodeOptions::postgres(name, &self.url, std::slice::from_ref(&self.caller))
            .endpoint(&format!("http://{}", self.chain.addr()))
            .development_keys(keys)
            .lease("2s", "500ms")
            .set("cluster.not_holder", "accept")
            .set_literal("confirmations.required", "1")
    }

    async fn send(&self, node: &StileProcess, first: u64) -> Vec<Value> {
        let bodies: Vec<Value> =
            (first..first + SOME).map(|wei| transfer(&self.signer, wei)).collect();
        node.send_all(&bodies).await
    }

    async fn hold(&self, node: &StileProcess) -> u64 {
        node.allocate(&self.caller).await.ok()["nonce"].as_u64().unwrap()
    }

    /// The server that nodes reach is gone, and a standby that was stopped takes its place.
    async fn fail_over(&mut self, standby: &mut Postgres) {
        self.primary.stop_immediate().await;
        // Not before: it would catch up.
        standby.start_again().await;
        standby.promote().await;
        self.database.point_to(local(standby.port()));
    }

    async fn realigned(&self, node: &StileProcess, signer: &str) -> Option<Value> {
        let history = node.get(&format!("/api/v1/signers/{signer}/history")).await.ok();
        let entries = history["items"].as_array().expect("a list").clone();
        entries.into_iter().find(|entry| entry["kind"] == "REALIGNED")
    }
}

/// The last commits are lost: five transactions that are mined, and two nonces in a caller's hands.
async fn lose_the_last_commits(remembers: bool) {
    let mut setup = Setup::new().await;
    let mut node = setup.options("a", 1).start().await;
    let kept = setup.send(&node, 1).await;
    for tx in &kept {
        node.reaches(id(tx), "CONFIRMED").await;
    }
    assert_eq!((setup.hold(&node).await, setup.hold(&node).await), (0, 1));
    let mut standby = setup.primary.start_standby().await;
    standby.stop_immediate().await;
    let lost = setup.send(&node, 101).await;
    for tx in &lost {
        node.reaches(id(tx), "CONFIRMED").await;
    }
    assert_eq!((setup.hold(&node).await, setup.hold(&node).await), (2, 3));
    let token = node.signer(&setup.signer).await["fencingToken"].as_u64().unwrap();

    // While the chain cannot be asked, nothing is given out, and transactions are taken.
    setup.chain.cut().await;
    setup.fail_over(&mut standby).await;
    if !remembers {
        node.kill().await;
        node = setup.options("b", 1).start().await;
    }
    let refused = eventually("the lane to be refused", async || {
        let answer = node.allocate(&setup.caller).await;
        (answer.json()["code"] != "store-unavailable" && answer.status != 409).then_some(answer)
    })
    .await;
    assert_eq!((refused.status, refused.json()["code"].clone()), (503, json!("lane-unaligned")));
    assert!(refused.header("retry-after").is_some(), "{refused:?}");
    let waiting = node.send_new(&transfer(&setup.signer, 201)).await;
    assert_eq!(waiting["nonce"], Value::Null, "{waiting:#}");

    let doctor = node.get(&format!("/api/v1/signers/{}/doctor", setup.signer)).await.ok();
    let findings = doctor["findings"].as_array().expect("a list");
    assert!(findings.iter().any(|finding| finding["code"] == "unaligned"), "{doctor:#}");

    setup.chain.heal().await;
    // Whether it was sent in the lost history is not known: a person says that it was not.
    node.becomes(id(&waiting), "waits for a word", |tx| tx["subState"] == "RESTORED").await;
    let restored = format!("/api/v1/signers/{}/restored", setup.signer);
    eventually("what was lost to be read", async || {
        let answer = node.post(&restored, json!({ "verdict": "never-sent" })).await;
        (answer.status == 200).then_some(())
    })
    .await;
    let done = node.reaches(id(&waiting), "CONFIRMED").await;
    assert_eq!(done["nonce"], 2 * SOME, "past what the chain has mined: {done:#}");
    for tx in setup.send(&node, 202).await {
        node.reaches(id(&tx), "CONFIRMED").await;
    }
    let lane = node.signer(&setup.signer).await;
    assert_eq!(lane["paused"], Value::Null, "{lane:#}");
    assert!(lane["fencingToken"].as_u64().unwrap() > token + 1000, "past any seen: {lane:#}");
    let entry = setup.realigned(&node, &setup.signer).await.expect("an entry in its history");
    assert_eq!(
        (&entry["data"]["from"], &entry["data"]["cursor"]),
        (&json!(SOME), &json!(2 * SOME))
    );
    assert_eq!(entry["data"]["timeline"], "00000002", "{entry:#}");
    assert_eq!(entry["data"]["lostTransactions"], 0, "what is done is in no book: {entry:#}");
    assert!(node.metric("stile_lanes_realigned_total").await >= 1.0);

    let mined = setup.anvil.transactions_of(&setup.signer).await;
    let values: Vec<u64> = mined.iter().map(|mined| mined.value.to()).collect();
    let expected = (1..=SOME).chain(101..101 + SOME).chain(201..202 + SOME);
    assert_eq!(values, expected.collect::<Vec<_>>(), "each once, none in another's place");
    if remembers {
        assert_eq!(setup.hold(&node).await, 4, "what is in callers' hands is not given out again");
    }
    for tx in &lost {
        assert_eq!(node.get(&format!("/api/v1/tx/{}", id(tx))).await.status, 404);
    }
}

#[tokio::test]
async fn hole_10_a_standby_cut_off_before_the_last_commits_gives_out_no_nonce_again() {
    lose_the_last_commits(true).await;
}

/// Nobody is left who remembers: only the chain knows.
#[tokio::test]
async fn hole_10_a_node_that_starts_after_the_failover_asks_the_chain() {
    lose_the_last_commits(false).await;
}

/// A synchronous standby has every commit that was answered.
///
/// Fails if the lanes do not go on by themselves.
#[tokio::test]
async fn hole_10_with_a_synchronous_standby_nothing_is_lost() {
    let mut setup = Setup::new().await;
    let standby = setup.primary.start_standby().await;
    setup.primary.wait_for_standbys().await;
    // One by the name of whatever server is the primary, one by all their names.
    let name = setup.url.rsplit('/').next().unwrap();
    let servers = format!("127.0.0.1:{},127.0.0.1:{}", setup.primary.port(), standby.port());
    let all = format!("postgres://postgres@{servers}/{name}?target_session_attrs=read-write");
    // Said by whoever runs it: otherwise a person would be asked about what waits.
    let synchronous = |name| setup.options(name, SIGNERS).set("store.failover", "synchronous");
    let nodes =
        (synchronous("a").start().await, synchronous("b").set("store.url", all).start().await);
    let load = Load::new(&setup.anvil, &[&nodes.0, &nodes.1]).await;
    let taken = async |count: usize| {
        eventually("calls to be taken", async || (load.taken() > count).then_some(())).await;
    };
    let primary = &mut setup.primary;
    let database = &setup.database;
    let failover = async {
        taken(20).await;
        primary.stop_immediate().await;
        standby.promote().await;
        database.point_to(local(standby.port()));
        let before = load.taken();
        taken(before + 20).await;
    };
    load.during(failover).await;
    load.check(&setup.anvil, &nodes.0).await;
    let metric = "stile_lanes_realigned_total";
    let realigned = nodes.0.metric(metric).await + nodes.1.metric(metric).await;
    assert_eq!(realigned, SIGNERS as f64, "each lane once, by whoever held it");
}
