//! Lanes that move to the node that they had best be on.

use std::sync::Arc;
use std::time::Duration;

use stile_domain::{Lane, NodeId, preferred};
use stile_engine::{Mode, Node, NonceError, Settings};
use testkit::eventually;

use crate::common::{Bench, Chain, accounted, lane, lease, on, view};

on! { queue: postgres(crate::common::QUEUE) =>
    lanes_go_where_they_had_best_be
    the_node_that_handed_a_lane_over_names_its_new_holder
    a_node_that_is_seen_once_moves_nothing
    nodes_that_take_no_part_keep_their_lanes
    a_node_that_ends_hands_its_lanes_over
    a_lane_that_was_handed_to_nobody_is_taken_back
}

const LANES: u32 = 8;

/// Half a second between two looks.
fn moving(bench: &Bench, node: &str) -> Settings {
    Settings { moves_lanes: true, lease: lease(2000), ..bench.settings(node) }
}

async fn start(bench: &Bench, settings: Settings) -> Node {
    bench.start_with(settings, Arc::new(Chain::default())).await
}

/// The lanes of these tests that had best be on `b`, and the others.
fn lanes_of_b() -> (Vec<Lane>, Vec<Lane>) {
    let nodes = ["a", "b"].map(|name| NodeId(name.into()));
    let (b, a): (Vec<Lane>, Vec<Lane>) = (0..LANES)
        .map(lane)
        .partition(|lane| preferred(*lane, &nodes).is_some_and(|node| node.0 == "b"));
    assert!(!a.is_empty() && !b.is_empty(), "{a:?} {b:?}");
    (b, a)
}

async fn holder(bench: &Bench, lane: Lane) -> String {
    view(&*bench.store, lane).await.owner.node.0
}

/// Fails if the holder does not let go, or lets go of what is in its place.
async fn lanes_go_where_they_had_best_be(bench: Bench) {
    let (of_b, of_a) = lanes_of_b();
    let a = start(&bench, moving(&bench, "a")).await;
    let mut holds = Vec::new();
    for lane in of_a.iter().chain(&of_b) {
        holds.push((*lane, a.nonces().allocate(*lane).await.unwrap()));
    }
    let b = start(&bench, moving(&bench, "b")).await;
    for lane in &of_b {
        eventually("the lane to move", async || {
            let owner = view(&*bench.store, *lane).await.owner;
            // Taken, and not only handed over: there is an open hold.
            (owner.node.0 == "b" && !owner.remaining.is_zero()).then_some(())
        })
        .await;
        let next = b.nonces().allocate(*lane).await.unwrap();
        assert_eq!(next.nonce, 1, "the cursor went along");
        let (_, first) = holds.iter().find(|(of, _)| of == lane).unwrap();
        accounted(&*bench.store, *lane, 0, &[first.clone(), next]).await;
    }
    for lane in &of_a {
        assert_eq!(holder(&bench, *lane).await, "a");
        assert_eq!(view(&*bench.store, *lane).await.owner.token.get(), 1, "it never moved");
    }
}

async fn the_node_that_handed_a_lane_over_names_its_new_holder(bench: Bench) {
    let lane = lanes_of_b().0[0];
    let a = start(&bench, moving(&bench, "a")).await;
    a.nonces().allocate(lane).await.unwrap();
    let _b = start(&bench, moving(&bench, "b")).await;
    let owner = eventually("a to let go", async || match a.nonces().allocate(lane).await {
        Ok(_) => None,
        Err(NonceError::NotHolder { owner, .. }) => Some(owner),
        Err(error) => panic!("{error}"),
    })
    .await;
    assert_eq!((owner.node.0.as_str(), owner.url.as_deref()), ("b", Some("http://b:7420")));
    let route = a.router().route(lane).await.unwrap();
    assert_eq!(route.preferred.unwrap().node.0, "b");
}

/// Fails if one look is enough to let go.
async fn a_node_that_is_seen_once_moves_nothing(bench: Bench) {
    let lane = lanes_of_b().0[0];
    let a = start(&bench, moving(&bench, "a")).await;
    a.nonces().allocate(lane).await.unwrap();
    // Heard of for less than the time between two looks, again and again.
    for _ in 0..5 {
        let sql = "INSERT INTO node (node_id, incarnation, url, mode, serves, started_at, seen_at)
                   SELECT 'b', gen_random_uuid(), 'http://b:7420', 'worker-queue', '', t.at, t.at
                   FROM (SELECT clock_timestamp() - interval '1050 ms' AS at) t
                   ON CONFLICT (node_id) DO UPDATE SET seen_at = excluded.seen_at";
        bench.database.execute(sql).await;
        tokio::time::sleep(Duration::from_millis(1000)).await;
    }
    let owner = view(&*bench.store, lane).await.owner;
    assert_eq!((owner.node.0.as_str(), owner.token.get()), ("a", 1));
}

async fn nodes_that_take_no_part_keep_their_lanes(bench: Bench) {
    let lane = lanes_of_b().0[0];
    let other = Settings { serves: "something else".into(), ..moving(&bench, "a") };
    for settings in [
        Settings { mode: Mode::Basic, ..moving(&bench, "a") },
        Settings { url: None, ..moving(&bench, "a") },
        Settings { moves_lanes: false, ..moving(&bench, "a") },
        other,
    ] {
        let a = start(&bench, settings).await;
        a.nonces().allocate(lane).await.unwrap();
        let token = view(&*bench.store, lane).await.owner.token;
        let b = start(&bench, moving(&bench, "b")).await;
        tokio::time::sleep(Duration::from_millis(1600)).await;
        let owner = view(&*bench.store, lane).await.owner;
        assert_eq!((owner.node.0.as_str(), owner.token), ("a", token));
        assert_eq!(b.shutdown().await, 0);
        assert_eq!(a.shutdown().await, 0);
    }
}

/// Fails if leases are only given back, for anybody to take.
async fn a_node_that_ends_hands_its_lanes_over(bench: Bench) {
    let (_, of_a) = lanes_of_b();
    let a = start(&bench, moving(&bench, "a")).await;
    let b = start(&bench, moving(&bench, "b")).await;
    for lane in &of_a {
        a.nonces().allocate(*lane).await.unwrap();
    }
    assert_eq!(a.shutdown().await, 0);
    for lane in &of_a {
        assert_eq!(holder(&bench, *lane).await, "b", "before anybody has asked b");
        assert_eq!(b.nonces().allocate(*lane).await.unwrap().nonce, 1);
    }
    let live = bench.store.live_nodes(Duration::from_secs(60)).await.unwrap();
    assert_eq!(live.iter().map(|live| live.node().0.as_str()).collect::<Vec<_>>(), ["b"]);
}

/// A node that is heard of and does nothing: what it was given is worked all the same.
async fn a_lane_that_was_handed_to_nobody_is_taken_back(bench: Bench) {
    let lane = lanes_of_b().0[0];
    let a = start(&bench, moving(&bench, "a")).await;
    a.nonces().allocate(lane).await.unwrap();
    let sql = "INSERT INTO node (node_id, incarnation, url, mode, serves, started_at, seen_at)
               SELECT 'b', gen_random_uuid(), 'http://b:7420', 'worker-queue', '', t.at, t.at
               FROM (SELECT clock_timestamp() + interval '10 s' AS at) t";
    bench.database.execute(sql).await;
    eventually("the lane to be handed over", async || {
        let sql = "UPDATE node SET seen_at = clock_timestamp() + interval '10 s'
                   WHERE node_id = 'b'";
        bench.database.execute(sql).await;
        (holder(&bench, lane).await == "b").then_some(())
    })
    .await;
    eventually("the lane to be taken back", async || {
        let owner = view(&*bench.store, lane).await.owner;
        (owner.node.0 == "a" && !owner.remaining.is_zero()).then_some(())
    })
    .await;
}
