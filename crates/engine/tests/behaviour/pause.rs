//! Pause and resume.

use std::sync::Arc;

use stile_domain::HoldStatus;
use stile_engine::{CareError, NonceError, Settings};

use crate::common::{
    Bench, Chain, LANE, accounted, in_clusters, in_every_setup, lane, lease, on, until_status, view,
};

in_every_setup!(
    a_paused_lane_gives_out_nothing_and_says_why,
    nobody_pauses_a_lane_that_was_never_taken,
    holds_of_a_paused_lane_still_run_out,
    holds_of_a_resumed_lane_still_run_out,
);

in_clusters!(any_node_may_pause_a_lane);

async fn a_paused_lane_gives_out_nothing_and_says_why(bench: Bench) {
    let node = bench.start("a").await;
    let component = node.nonces();
    let mut holds = vec![component.allocate(lane(LANE)).await.unwrap()];
    assert!(component.pause(lane(LANE), "key is being rotated").await.unwrap());
    for _ in 0..3 {
        let refused = component.allocate(lane(LANE)).await.unwrap_err();
        let NonceError::LanePaused { lane: named, reason } = refused else { panic!("{refused}") };
        assert_eq!((named, reason.as_str()), (lane(LANE), "key is being rotated"));
    }
    // Its neighbours go on, and so do marks.
    assert_eq!(component.allocate(lane(2)).await.unwrap().nonce, 0);
    let given_back = component.mark_recyclable(&holds[0], "not sent").await.unwrap();
    assert_eq!(given_back.status, HoldStatus::Released);
    holds.clear();

    assert!(node.lanes().resume(lane(LANE), false).await.unwrap().resumed);
    for _ in 0..3 {
        holds.push(component.allocate(lane(LANE)).await.unwrap());
    }
    accounted(&*bench.store, lane(LANE), 0, &holds).await;
    assert!(holds.iter().any(|hold| hold.nonce == 1), "the cursor goes on where it stood");
    assert_eq!(view(&*bench.store, lane(LANE)).await.paused, None);
}

async fn nobody_pauses_a_lane_that_was_never_taken(bench: Bench) {
    let node = bench.start("a").await;
    assert!(!node.nonces().pause(lane(LANE), "why not").await.unwrap());
    assert!(matches!(node.lanes().resume(lane(LANE), false).await, Err(CareError::NotStarted)));
}

/// A hold that runs out after a second, on a lane whose lease is renewed four times in it.
async fn silent_hold(bench: &Bench) -> (stile_engine::Node, stile_domain::Hold) {
    let settings = Settings { lease: lease(1000), ..bench.impatient("a") };
    let node = bench.start_with(settings, Arc::new(Chain::default())).await;
    let hold = node.nonces().allocate(lane(LANE)).await.unwrap();
    assert!(node.nonces().pause(lane(LANE), "just a moment").await.unwrap());
    (node, hold)
}

async fn holds_of_a_paused_lane_still_run_out(bench: Bench) {
    let (_node, hold) = silent_hold(&bench).await;
    until_status(&*bench.store, &hold, HoldStatus::Suspect).await;
}

async fn holds_of_a_resumed_lane_still_run_out(bench: Bench) {
    let (node, hold) = silent_hold(&bench).await;
    assert!(node.lanes().resume(lane(LANE), false).await.unwrap().resumed);
    until_status(&*bench.store, &hold, HoldStatus::Suspect).await;
    let next = node.nonces().allocate(lane(LANE)).await.unwrap();
    assert_eq!(next.nonce, 1);
}

async fn any_node_may_pause_a_lane(bench: Bench) {
    let (a, b) = (bench.start("a").await, bench.start("b").await);
    a.nonces().allocate(lane(LANE)).await.unwrap();
    assert!(b.nonces().pause(lane(LANE), "from elsewhere").await.unwrap());
    let refused = a.nonces().allocate(lane(LANE)).await;
    assert!(matches!(refused, Err(NonceError::LanePaused { .. })), "{refused:?}");
    assert!(b.lanes().resume(lane(LANE), false).await.unwrap().resumed);
    assert_eq!(a.nonces().allocate(lane(LANE)).await.unwrap().nonce, 1);
    assert_eq!(view(&*bench.store, lane(LANE)).await.owner.node.0, "a");
}
