//! Nodes that come and go under load, and lanes that follow them.

use std::collections::BTreeMap;

use testkit::{Anvil, AnvilOptions, eventually};

use super::holds::Holds;
use crate::common::{Database, NodeOptions, StileProcess, signers};
use crate::support::Load;

/// Signers that send.
const SIGNERS: usize = 10;

/// Signers whose callers send by themselves.
const LANES: u8 = 12;

/// Which node has how many of these signers; `None` while one is not where it had best be.
async fn places(node: &StileProcess, signers: &[String]) -> Option<BTreeMap<String, usize>> {
    let mut places = BTreeMap::new();
    for signer in signers {
        let route = node.get(&format!("/api/v1/route?signer={signer}")).await.ok();
        let (holder, preferred) = (&route["holder"]["nodeId"], &route["preferred"]["nodeId"]);
        if holder.is_null() || holder != preferred {
            return None;
        }
        *places.entry(holder.as_str()?.to_owned()).or_default() += 1;
    }
    Some(places)
}

/// Waits until every signer is where it had best be, and says how many each of so many nodes has.
async fn settled(node: &StileProcess, signers: &[String], nodes: usize) -> BTreeMap<String, usize> {
    eventually("every lane to be where it had best be", async || {
        places(node, signers).await.filter(|places| places.len() == nodes)
    })
    .await
}

/// 2 → 3 → 2 nodes while transactions are handed over at each of them.
///
/// Fails if a lane that moves loses or doubles a transaction, or if callers are told of it.
#[tokio::test]
async fn transactions_are_taken_and_land_once_while_nodes_come_and_go() {
    let mining = AnvilOptions { block_time_seconds: Some(1), ..Default::default() };
    let (database, anvil) = tokio::join!(Database::new(), Anvil::start(mining));
    let options = |name| {
        NodeOptions::postgres(name, &database.url, &[])
            .endpoint(anvil.url())
            .development_keys(SIGNERS)
            .lease("4s", "1s")
            .set("cluster.not_holder", "accept")
            .set_literal("cluster.move_lanes", "true")
            .set_literal("confirmations.required", "1")
    };
    let (a, b) = (options("a"), options("b"));
    let (a, b) = tokio::join!(a.start(), b.start());
    let signers = anvil.accounts().await[..SIGNERS].to_vec();
    let load = Load::of(&anvil, &[&a, &b], SIGNERS).await;
    load.during(async {
        load.more(100).await;
        println!("two nodes: {:?}", settled(&a, &signers, 2).await);
        let c = options("c").start().await;
        load.uses(&[&a, &b, &c]);
        println!("three nodes: {:?}", settled(&a, &signers, 3).await);
        load.more(100).await;
        let ended = c.terminate().await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
        load.uses(&[&a, &b]);
        println!("two again: {:?}", settled(&a, &signers, 2).await);
        load.more(100).await;
    })
    .await;
    let refused = load.refused();
    println!("{} taken, refused: {refused:?}", load.taken());
    assert!(refused.keys().all(|status| matches!(status, 0 | 503)), "{refused:?}");
    for node in [&a, &b] {
        let moved = node.metric("stile_lane_hand_over_total").await;
        println!("{}: {moved} lanes handed over", node.id());
    }
    load.check(&anvil, &a).await;
}

/// The same for callers of bare nonces, whose calls go to the holder, wherever it is by then.
#[tokio::test]
async fn nonces_are_given_out_once_while_nodes_come_and_go() {
    let database = Database::new().await;
    let lanes = signers(LANES);
    let options = |name| {
        NodeOptions::postgres(name, &database.url, &lanes)
            .lease("4s", "1s")
            .set("cluster.not_holder", "accept")
            .set_literal("cluster.move_lanes", "true")
    };
    let (a, b) = (options("a"), options("b"));
    let (a, b) = tokio::join!(a.start(), b.start());
    let holds = Holds::of(&lanes, &[&a, &b]);
    holds
        .during(async {
            holds.more(200).await;
            settled(&a, &lanes, 2).await;
            let c = options("c").start().await;
            holds.uses(&[&a, &b, &c]);
            settled(&a, &lanes, 3).await;
            holds.more(200).await;
            let ended = c.terminate().await;
            assert_eq!(ended.code, Some(0), "{ended:?}");
            holds.uses(&[&a, &b]);
            settled(&a, &lanes, 2).await;
            holds.more(200).await;
        })
        .await;
    holds.check();
    let recorded = "SELECT count(*) FROM nonce";
    let written: usize = database.rows(recorded).await[0][0].parse().unwrap();
    assert_eq!(written, holds.taken(), "nothing was given out that nobody heard of");
}

/// A node that is killed leaves its lanes to the others, each to the one that it had best be on.
#[tokio::test]
async fn a_killed_nodes_lanes_go_where_they_had_best_be() {
    let database = Database::new().await;
    let lanes = signers(LANES);
    let options = |name| {
        NodeOptions::postgres(name, &database.url, &lanes)
            .lease("4s", "1s")
            .set("cluster.not_holder", "accept")
            .set_literal("cluster.move_lanes", "true")
    };
    let (a, b, c) = (options("a"), options("b"), options("c"));
    let (a, b, c) = tokio::join!(a.start(), b.start(), c.start());
    for lane in &lanes {
        a.allocate(lane).await.ok();
    }
    settled(&a, &lanes, 3).await;
    c.kill().await;
    let places = settled(&a, &lanes, 2).await;
    assert_eq!(places.values().sum::<usize>(), lanes.len());
    for node in [&a, &b] {
        assert!(node.metric("stile_nodes_live").await <= 3.0);
    }
    for lane in &lanes {
        assert_eq!(b.allocate(lane).await.nonce(), 1);
    }
}
