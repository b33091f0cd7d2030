//! How often nodes ask for lanes in vain, by mode.

use futures::future::join_all;
use serde_json::json;
use testkit::{Anvil, AnvilOptions};

use super::holds::Holds;
use crate::common::{Database, MODES, NodeOptions, SIGNER, StileProcess, signers};

const LANES: u8 = 12;
const NONCES: usize = 1500;

/// Nonces asked for at three nodes in turn; answers with the lanes that were asked for in vain, and
/// all that were asked for.
async fn asked(mode: &str) -> (f64, f64) {
    let database = Database::new().await;
    let lanes = signers(LANES);
    let options = |name| {
        NodeOptions::postgres(name, &database.url, &lanes)
            .mode(mode)
            .set("cluster.not_holder", "accept")
            .set_literal("cluster.move_lanes", "true")
    };
    let (a, b, c) = (options("a"), options("b"), options("c"));
    let (a, b, c) = tokio::join!(a.start(), b.start(), c.start());
    let nodes: Vec<&StileProcess> = vec![&a, &b, &c];
    let holds = Holds::of(&lanes, &nodes);
    holds.take(NONCES).await;
    holds.check();
    let (mut in_vain, mut all) = (0.0, 0.0);
    for node in nodes {
        in_vain += node.metric("stile_lease_acquire_total{result=\"other\"}").await;
        all += node.metric("stile_lease_acquire_total").await;
    }
    (in_vain, all)
}

/// In basic mode every call asks for itself; where calls queue they share the answer, and who was
/// told whose the lane is need not ask again for a moment.
#[tokio::test]
async fn nodes_that_queue_calls_ask_in_vain_far_less_often() {
    let mut found = Vec::new();
    for mode in MODES {
        let (in_vain, all) = asked(mode).await;
        println!("{mode}: {NONCES} nonces at 3 nodes, {in_vain} of {all} lanes asked for in vain");
        found.push(in_vain);
    }
    let [basic, queued] = found[..] else { panic!("{found:?}") };
    assert!(basic >= NONCES as f64 / 2.0, "two of three calls land on the wrong node: {basic}");
    assert!(queued * 2.0 < basic, "{queued} against {basic}");
}

/// Whoever accepts transactions for another node's lane knows whose it is. Fails if it asks for the
/// lane with each of them.
#[tokio::test]
async fn accepting_for_another_node_does_not_mean_to_ask_for_its_lane_each_time() {
    const ROUNDS: usize = 20;
    const AT_ONCE: usize = 10;
    let (database, anvil) = tokio::join!(Database::new(), Anvil::start(AnvilOptions::default()));
    let options = |name| {
        NodeOptions::postgres(name, &database.url, &[])
            .endpoint(anvil.url())
            .development_keys(1)
            .set("cluster.not_holder", "accept")
    };
    let (a, b) = (options("a"), options("b"));
    let (a, b) = tokio::join!(a.start(), b.start());
    let transfer = || json!({ "signer": SIGNER, "payload": { "to": SIGNER, "gasLimit": 21000 } });
    assert_eq!(a.post("/api/v1/tx", transfer()).await.status, 202);
    let holder = async || a.signer(SIGNER).await["ownerNode"] == "a";
    testkit::eventually("the lane to be held", async || holder().await.then_some(())).await;
    for _ in 0..ROUNDS {
        let calls = (0..AT_ONCE).map(|_| b.post("/api/v1/tx", transfer()));
        for answer in join_all(calls).await {
            assert_eq!(answer.status, 202, "{answer:?}");
        }
    }
    let in_vain = b.metric("stile_lease_acquire_total{result=\"other\"}").await;
    println!("{} transactions, {in_vain} times asked in vain", ROUNDS * AT_ONCE);
    assert!(in_vain < ROUNDS as f64 / 2.0, "{in_vain} times in {ROUNDS} rounds");
    assert!(holder().await, "the lane has stayed");
}
