//! Two nodes on one database.

use std::sync::Arc;
use std::time::Duration;

use stile_domain::HoldStatus;
use stile_engine::{Node, NonceError, Settings};
use stile_store::Owner;
use testkit::eventually_within;

use crate::common::{
    Bench, Chain, LANE, accounted, in_clusters, lane, lease, on, once_reachable, until_status, view,
};

in_clusters!(
    a_node_that_does_not_hold_the_lane_names_the_one_that_does,
    after_a_shutdown_the_next_node_goes_on_at_once,
    a_dead_nodes_lane_with_open_holds_is_taken_over_without_a_call,
    a_dropped_nodes_lane_is_taken_over_without_a_call,
    a_holder_that_was_superseded_gives_out_nothing,
    the_new_holder_settles_what_the_old_one_left_open,
);

async fn a_node_that_does_not_hold_the_lane_names_the_one_that_does(bench: Bench) {
    let (a, b) = (bench.start("a").await, bench.start("b").await);
    let hold = a.nonces().allocate(lane(LANE)).await.unwrap();
    let refused = b.nonces().allocate(lane(LANE)).await.unwrap_err();
    assert!(refused.retry_after().is_some());
    let NonceError::NotHolder { lane: named, owner } = refused else { panic!("{refused}") };
    assert_eq!(named, lane(LANE));
    assert_eq!(owner.node.0, "a");
    assert_eq!(owner.url.as_deref(), Some("http://a:7420"));
    accounted(&*bench.store, lane(LANE), 0, &[hold]).await;
    // Marks need no lease.
    let hold = a.nonces().allocate(lane(LANE)).await.unwrap();
    let back = b.nonces().mark_recyclable(&hold, "not sent").await.unwrap();
    assert_eq!(back.status, HoldStatus::Released);
}

async fn after_a_shutdown_the_next_node_goes_on_at_once(bench: Bench) {
    let (a, b) = (bench.start("a").await, bench.start("b").await);
    let mut holds = Vec::new();
    for _ in 0..3 {
        holds.push(a.nonces().allocate(lane(LANE)).await.unwrap());
    }
    let before = view(&*bench.store, lane(LANE)).await.owner;
    assert_eq!(a.shutdown().await, 0);
    let hold = b.nonces().allocate(lane(LANE)).await.expect("no waiting for the lease to run out");
    assert_eq!(hold.nonce, 3);
    let after = view(&*bench.store, lane(LANE)).await.owner;
    assert_eq!(after.node.0, "b");
    assert!(after.token > before.token, "{} after {}", after.token, before.token);
    holds.push(hold);
    accounted(&*bench.store, lane(LANE), 0, &holds).await;
}

/// Two seconds, so that nothing but death makes it run out on a busy machine.
const LEASE_MS: u64 = 2000;

fn short_lease(bench: &Bench, node: &str) -> Settings {
    Settings { lease: lease(LEASE_MS), ..bench.settings(node) }
}

async fn a_dead_nodes_lane_with_open_holds_is_taken_over_without_a_call(bench: Bench) {
    let (proxy, store) = bench.database.open_proxied().await;
    let a = Node::start(short_lease(&bench, "a"), store, Arc::new(Chain::default())).await.unwrap();
    let b = bench.start_with(short_lease(&bench, "b"), Arc::new(Chain::default())).await;
    let first = a.nonces().allocate(lane(LANE)).await.unwrap();
    let before = view(&*bench.store, lane(LANE)).await.owner;
    assert_eq!(before.node.0, "a");

    proxy.cut().await;
    taken_over(&bench, &before).await;

    let cut_off = a.nonces().allocate(lane(LANE)).await;
    assert!(matches!(cut_off, Err(NonceError::StoreUnavailable(_))), "{cut_off:?}");
    proxy.heal().await;
    for _ in 0..5 {
        let superseded = once_reachable(&a, lane(LANE)).await;
        assert!(
            matches!(superseded, Err(NonceError::NotHolder { .. } | NonceError::Fenced { .. })),
            "{superseded:?}"
        );
    }
    let second = b.nonces().allocate(lane(LANE)).await.unwrap();
    assert_eq!(second.nonce, 1);
    accounted(&*bench.store, lane(LANE), 0, &[first, second]).await;
}

/// Waits until the second node has the lane, for as long as it may take.
async fn taken_over(bench: &Bench, before: &Owner) {
    let limit = Duration::from_millis(LEASE_MS) + Duration::from_secs(2);
    let after = eventually_within(limit, "the other node to take the lane", async || {
        let owner = view(&*bench.store, lane(LANE)).await.owner;
        (owner.node.0 == "b").then_some(owner)
    })
    .await;
    assert!(after.token > before.token, "{} after {}", after.token, before.token);
}

async fn a_dropped_nodes_lane_is_taken_over_without_a_call(bench: Bench) {
    let a = bench.start_with(short_lease(&bench, "a"), Arc::new(Chain::default())).await;
    let b = bench.start_with(short_lease(&bench, "b"), Arc::new(Chain::default())).await;
    let first = a.nonces().allocate(lane(LANE)).await.unwrap();
    let left_over = a.nonces().clone();
    let before = view(&*bench.store, lane(LANE)).await.owner;
    drop(a);
    taken_over(&bench, &before).await;
    let refused = left_over.allocate(lane(LANE)).await;
    assert!(matches!(refused, Err(NonceError::ShuttingDown)), "{refused:?}");
    let second = b.nonces().allocate(lane(LANE)).await.unwrap();
    accounted(&*bench.store, lane(LANE), 0, &[first, second]).await;
}

async fn a_holder_that_was_superseded_gives_out_nothing(bench: Bench) {
    let (a, b) = (bench.start("a").await, bench.start("b").await);
    let first = a.nonces().allocate(lane(LANE)).await.unwrap();
    // As if the first node had been frozen for longer than its lease: it believes in it still.
    bench.database.execute("UPDATE lane SET expires_at = clock_timestamp()").await;
    let second = b.nonces().allocate(lane(LANE)).await.unwrap();
    assert_eq!(second.nonce, 1);

    let fenced = a.nonces().allocate(lane(LANE)).await.unwrap_err();
    assert!(fenced.retry_after().is_some());
    let NonceError::Fenced { owner, .. } = fenced else { panic!("{fenced}") };
    assert_eq!(owner.node.0, "b");
    let refused = a.nonces().allocate(lane(LANE)).await;
    assert!(matches!(refused, Err(NonceError::NotHolder { .. })), "{refused:?}");
    let third = b.nonces().allocate(lane(LANE)).await.unwrap();
    assert_eq!(third.nonce, 2);
    accounted(&*bench.store, lane(LANE), 0, &[first, second, third]).await;
}

async fn the_new_holder_settles_what_the_old_one_left_open(bench: Bench) {
    let a = bench.start_with(bench.impatient("a"), Arc::new(Chain::default())).await;
    let hold = a.nonces().allocate(lane(LANE)).await.unwrap();
    assert_eq!(a.shutdown().await, 0);
    let chain = Arc::new(Chain::default());
    let _b = bench.start_with(bench.impatient("b"), Arc::clone(&chain) as _).await;
    until_status(&*bench.store, &hold, HoldStatus::Suspect).await;
    assert_eq!(view(&*bench.store, lane(LANE)).await.owner.node.0, "b");
    chain.set(lane(LANE), 1);
    until_status(&*bench.store, &hold, HoldStatus::Consumed).await;
}
