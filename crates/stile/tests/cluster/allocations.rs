//! Many callers, any node, both modes: every nonce once, none left out.

use std::sync::atomic::Ordering;

use crate::common::{Database, NodeOptions, RetryingClient, StileProcess, signer, signers};

async fn start(database: &Database, mode: &str, names: &[&str], lanes: u8) -> Vec<StileProcess> {
    let signers = signers(lanes);
    let nodes = names.iter().map(|name| {
        let options = NodeOptions::postgres(name, &database.url, &signers).mode(mode);
        async move { options.start().await }
    });
    futures::future::join_all(nodes).await
}

/// Hole 1, over three processes.
async fn thousand_allocations(mode: &str) {
    let database = Database::new().await;
    let nodes = start(&database, mode, &["a", "b", "c"], 1).await;
    let client = RetryingClient::new(&nodes);
    let lane = signer(0);
    let mut nonces = client.allocate_all(&[lane.as_str(); 1000]).await;
    nonces.sort_unstable();
    assert_eq!(nonces, (0..1000).collect::<Vec<_>>());
    assert!(client.sent_on.load(Ordering::Relaxed) > 0, "calls did not land on every node");
    let recorded = "SELECT count(*), count(DISTINCT owner_id), min(nonce), max(nonce) FROM nonce";
    assert_eq!(database.rows(recorded).await, [["1000", "1000", "0", "999"]]);
}

#[tokio::test]
async fn thousand_allocations_on_three_processes_are_unique_and_consecutive_in_basic_mode() {
    thousand_allocations("basic").await;
}

#[tokio::test]
async fn thousand_allocations_on_three_processes_are_unique_and_consecutive_in_worker_queue_mode() {
    thousand_allocations("worker-queue").await;
}

async fn spread_over_two_nodes(mode: &str) {
    const LANES: u8 = 6;
    let database = Database::new().await;
    let nodes = start(&database, mode, &["a", "b"], LANES).await;
    // Each node holds half of the lanes.
    for lane in 0..LANES {
        assert_eq!(nodes[usize::from(lane % 2)].allocate(&signer(lane)).await.nonce(), 0);
    }
    let client = RetryingClient::new(&nodes);
    let lanes = signers(LANES);
    let calls: Vec<&str> = (0..300).map(|call| lanes[call % lanes.len()].as_str()).collect();
    let nonces = client.allocate_all(&calls).await;
    for lane in &lanes {
        let of_lane = calls.iter().zip(&nonces).filter(|(call, _)| **call == lane.as_str());
        let mut of_lane: Vec<u64> = of_lane.map(|(_, nonce)| *nonce).collect();
        of_lane.sort_unstable();
        assert_eq!(of_lane, (1..=50).collect::<Vec<_>>(), "{lane}");
    }
    assert!(client.sent_on.load(Ordering::Relaxed) > 0, "no call went to the wrong node");
    for node in &nodes {
        let fresh = node.metric("stile_allocate_total{result=\"fresh\"}").await;
        assert_eq!(fresh, 153.0, "{} serves the lanes it took, all of them", node.id());
        assert!(node.metric("stile_lease_acquire_total{result=\"other\"}").await > 0.0);
        assert_eq!(node.metric("stile_fence_reject_total").await, 0.0);
    }
}

#[tokio::test]
async fn allocations_spread_over_two_nodes_by_a_retrying_client_in_basic_mode() {
    spread_over_two_nodes("basic").await;
}

#[tokio::test]
async fn allocations_spread_over_two_nodes_by_a_retrying_client_in_worker_queue_mode() {
    spread_over_two_nodes("worker-queue").await;
}
