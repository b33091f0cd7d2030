//! Stile's own nodes, while Redis is there, frozen, wiped, killed and started again.

use std::collections::BTreeMap;
use std::time::Instant;

use serde_json::Value;
use testkit::{Anvil, AnvilOptions, Redis, Signal, eventually, eventually_within};

use crate::common::{Database, NodeOptions, StileProcess, run, signers};
use crate::holds::Holds;
use crate::support::Load;
use crate::{ids, kill};

pub(crate) const SIGNERS: usize = 4;
pub(crate) const LANES: u8 = 6;

/// Where the nodes are learned from.
pub(crate) const REGISTRY: f64 = 0.0;
const STORE: f64 = 2.0;

pub(crate) struct Setup {
    pub(crate) database: Database,
    pub(crate) anvil: Anvil,
    pub(crate) redis: Redis,
}

impl Setup {
    pub(crate) async fn new() -> Self {
        let mining = AnvilOptions { block_time_seconds: Some(1), ..Default::default() };
        let (database, anvil, redis) =
            tokio::join!(Database::new(), Anvil::start(mining), Redis::start());
        Self { database, anvil, redis }
    }

    pub(crate) fn node(&self, name: &str) -> NodeOptions {
        NodeOptions::postgres(name, &self.database.url, &signers(LANES))
            .endpoint(self.anvil.url())
            .development_keys(SIGNERS)
            .lease("8s", "1s")
            .set("cluster.not_holder", "accept")
            .set_literal("cluster.move_lanes", "true")
            .set_literal("confirmations.required", "1")
            .set("redis.url", self.redis.url())
            .set("registry.l1_ttl", "1s")
            .set("registry.ttl_jitter", "100ms")
            .set("registry.node_ttl", "6s")
            .set("registry.redis_timeout", "2s")
    }

    async fn two(&self) -> (StileProcess, StileProcess) {
        let (a, b) = (self.node("a"), self.node("b"));
        tokio::join!(a.start(), b.start())
    }

    async fn three(&self) -> [StileProcess; 3] {
        let (a, b, c) = (self.node("a"), self.node("b"), self.node("c"));
        tokio::join!(a.start(), b.start(), c.start()).into()
    }
}

pub(crate) async fn until_source(nodes: &[&StileProcess], source: f64) {
    eventually_within(2 * testkit::DEADLINE, "nodes to be learned from there", async || {
        for node in nodes {
            if node.metric("stile_membership_source").await != source {
                return None;
            }
        }
        Some(())
    })
    .await;
}

/// Who holds each signer, once each is where it had best be on one of so many nodes.
pub(crate) async fn settled(
    node: &StileProcess,
    signers: &[String],
    nodes: usize,
) -> BTreeMap<String, String> {
    eventually_within(2 * testkit::DEADLINE, "every lane to be where it had best be", async || {
        let mut holders = BTreeMap::new();
        for signer in signers {
            let route = node.get(&format!("/api/v1/route?signer={signer}")).await.ok();
            let (holder, preferred) = (&route["holder"]["nodeId"], &route["preferred"]["nodeId"]);
            if holder.is_null() || holder != preferred {
                return None;
            }
            holders.insert(signer.clone(), holder.as_str()?.to_owned());
        }
        let mut different: Vec<&String> = holders.values().collect();
        different.sort();
        different.dedup();
        (different.len() == nodes).then_some(holders)
    })
    .await
}

/// How often each signer has changed hands.
async fn tokens(node: &StileProcess, signers: &[String]) -> Vec<u64> {
    let mut tokens = Vec::new();
    for signer in signers {
        tokens.push(node.signer(signer).await["fencingToken"].as_u64().unwrap());
    }
    tokens
}

/// Redis is killed under two nodes that work, stays away for long enough that it is given up on, and
/// comes back without its memory.
///
/// Fails if a transaction or a nonce is lost or doubled, or if a lane changes its holder for it.
#[tokio::test]
async fn redis_is_killed_and_nobody_notices() {
    let setup = Setup::new().await;
    let (a, b) = setup.two().await;
    until_source(&[&a, &b], REGISTRY).await;
    let lanes = signers(LANES);
    let (load, holds) =
        (Load::of(&setup.anvil, &[&a, &b], SIGNERS).await, Holds::of(&lanes, &[&a, &b]));
    let disturbed = async {
        tokio::join!(load.more(40), holds.more(60));
        let before = settled(&a, &lanes, 2).await;
        let held = tokens(&a, &lanes).await;
        kill(&setup.redis).await;
        tokio::join!(load.more(40), holds.more(60));
        until_source(&[&a, &b], STORE).await;
        tokio::join!(load.more(40), holds.more(60));
        assert_eq!(settled(&b, &lanes, 2).await, before);
        for node in [&a, &b] {
            assert_eq!(node.metric("stile_nodes_live").await, 2.0);
            node.get("/health/ready").await.ok();
        }
        let redis = Redis::start_on(setup.redis.port(), &[]).await.expect("the port is still ours");
        until_source(&[&a, &b], REGISTRY).await;
        tokio::join!(load.more(40), holds.more(60));
        assert_eq!(settled(&a, &lanes, 2).await, before);
        assert_eq!(tokens(&a, &lanes).await, held, "no lane moved for it, not even there and back");
        redis
    };
    let _redis = load.during(holds.during(disturbed)).await;
    let refused = load.refused();
    println!("{} transactions, {} nonces, refused: {refused:?}", load.taken(), holds.taken());
    assert!(refused.is_empty(), "{refused:?}");
    assert!(holds.refused().is_empty(), "{:?}", holds.refused());
    holds.check();
    load.check(&setup.anvil, &a).await;
}

/// Redis is frozen under three nodes that work until it is given up on, thaws, and then loses its
/// memory while it goes on answering.
///
/// Fails if a transaction or a nonce is lost or doubled, if a lane changes its holder for it, or if a
/// node is taken for gone because Redis has forgotten it.
#[tokio::test]
async fn redis_is_frozen_and_wiped_and_nobody_notices() {
    let setup = Setup::new().await;
    let nodes = setup.three().await;
    let all: Vec<&StileProcess> = nodes.iter().collect();
    until_source(&all, REGISTRY).await;
    let lanes = signers(LANES);
    let (load, holds) = (Load::of(&setup.anvil, &all, SIGNERS).await, Holds::of(&lanes, &all));
    let disturbed = async {
        tokio::join!(load.more(40), holds.more(60));
        let before = settled(all[0], &lanes, 3).await;
        let held = tokens(all[0], &lanes).await;
        setup.redis.process().signal(Signal::Stop);
        tokio::join!(load.more(40), holds.more(60));
        until_source(&all, STORE).await;
        tokio::join!(load.more(40), holds.more(60));
        assert_eq!(settled(all[1], &lanes, 3).await, before);
        setup.redis.process().signal(Signal::Cont);
        until_source(&all, REGISTRY).await;
        tokio::join!(load.more(40), holds.more(60));

        setup.redis.command("FLUSHALL").await;
        let keys = ["a", "b", "c"].map(|name| format!("stile:node:{{node:{name}}}")).join(" ");
        eventually_within(2 * testkit::DEADLINE, "all nodes to be in Redis again", async || {
            for node in &all {
                let live = node.metric("stile_nodes_live").await;
                assert_eq!(live, 3.0, "{} has been told that somebody is gone", node.id());
            }
            let known = setup.redis.command(&format!("EXISTS {keys}")).await;
            (known.trim() == ":3").then_some(())
        })
        .await;
        until_source(&all, REGISTRY).await;
        tokio::join!(load.more(40), holds.more(60));
        assert_eq!(settled(all[2], &lanes, 3).await, before);
        assert_eq!(tokens(all[0], &lanes).await, held, "no lane moved for it");
    };
    load.during(holds.during(disturbed)).await;
    let refused = load.refused();
    println!("{} transactions, {} nonces, refused: {refused:?}", load.taken(), holds.taken());
    assert!(refused.is_empty(), "{refused:?}");
    assert!(holds.refused().is_empty(), "{:?}", holds.refused());
    holds.check();
    load.check(&setup.anvil, all[0]).await;
}

/// What a node has that dies while Redis is away goes to the others: the database knows of it.
#[tokio::test]
async fn a_node_that_is_killed_while_redis_is_away_is_missed() {
    let setup = Setup::new().await;
    let [a, b, c] = setup.three().await;
    until_source(&[&a, &b, &c], REGISTRY).await;
    let lanes = signers(LANES);
    for lane in &lanes {
        a.allocate(lane).await.ok();
    }
    settled(&a, &lanes, 3).await;
    kill(&setup.redis).await;
    b.kill().await;
    let killed = Instant::now();
    let holders = settled(&a, &lanes, 2).await;
    println!("without Redis, all lanes in place {:?} after the kill", killed.elapsed());
    assert!(holders.values().all(|holder| holder != "b"), "{holders:?}");
    for lane in &lanes {
        assert_eq!(c.allocate(lane).await.nonce(), 1);
    }
    until_source(&[&a, &c], STORE).await;
    assert_eq!(a.metric("stile_nodes_live").await, 2.0);
}

/// Nodes that come and go are learned of through Redis, and lanes follow them.
#[tokio::test]
async fn lanes_follow_nodes_that_come_and_go() {
    let setup = Setup::new().await;
    let (a, b) = setup.two().await;
    until_source(&[&a, &b], REGISTRY).await;
    let lanes = signers(LANES);
    for lane in &lanes {
        a.allocate(lane).await.ok();
    }
    settled(&a, &lanes, 2).await;
    let c = setup.node("c").start().await;
    settled(&a, &lanes, 3).await;
    // Each node learns of it by itself.
    eventually("the other node to list all", async || {
        let listed = run(&["node", "list", "--json", "--url", b.url()]).await;
        let listed: Value = serde_json::from_str(listed.ok()).unwrap();
        (ids(&listed) == ["a", "b", "c"]).then_some(())
    })
    .await;
    let ended = c.terminate().await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    settled(&a, &lanes, 2).await;
    // One that is killed is missed.
    b.kill().await;
    let killed = Instant::now();
    settled(&a, &lanes, 1).await;
    println!("with Redis, all lanes in place {:?} after the kill", killed.elapsed());
    for lane in &lanes {
        assert_eq!(a.allocate(lane).await.nonce(), 1);
    }
}

/// A node that has no Redis works with those that have one.
#[tokio::test]
async fn a_node_without_redis_is_not_left_out() {
    let setup = Setup::new().await;
    let (a, alone) = (setup.node("a"), setup.node("alone").remove("redis.url"));
    let (a, alone) = tokio::join!(a.start(), alone.start());
    let lanes = signers(LANES);
    for lane in &lanes {
        a.allocate(lane).await.ok();
    }
    settled(&a, &lanes, 2).await;
    settled(&alone, &lanes, 2).await;
    until_source(&[&a], STORE).await;
    for node in [&a, &alone] {
        for path in ["/api/v1/nodes", "/api/v1/pools/stile/members"] {
            assert_eq!(ids(&node.get(path).await.ok()), ["a", "alone"], "{path} at {}", node.id());
        }
    }
}
