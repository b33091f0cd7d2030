//! Lanes that are given to another node, and lanes that are left to the node they had best be on.

use std::time::Duration;

use stile_domain::{Holder, NodeMode};
use stile_store::{NodeRecord, Refusal, Takeover};

use crate::common::{
    Bench, LEASE, RUN_OUT, WINDOW, acquire, bind, claim_at, fresh, held, lane, lanes, node, owner,
    successor, view,
};

on_both_stores!(
    a_lane_that_is_handed_over_is_the_other_nodes_at_once,
    whatever_the_last_holder_still_writes_is_refused,
    a_lane_that_is_no_longer_ours_is_not_handed_over,
    hole_40_a_lane_goes_only_to_a_node_that_the_database_knows,
    if_the_other_node_does_not_come_anybody_takes_it,
    patience_leaves_lanes_alone_that_have_just_run_out,
    patience_is_not_for_new_lanes_or_our_own,
    expired_lanes_are_told_with_the_time_since,
    only_what_has_run_out_is_taken,
);

/// Longer than any test.
const LONG: Duration = Duration::from_secs(3600);

/// A node that has told the database of itself.
async fn known(bench: &Bench, name: &str) -> Holder {
    let holder = node(name);
    let (mode, serves) = (NodeMode::WorkerQueue, "all".into());
    let record = NodeRecord { holder: holder.clone(), mode, serves, draining: false };
    bench.store.heartbeat(&record, true).await.unwrap().unwrap();
    holder
}

async fn a_lane_that_is_handed_over_is_the_other_nodes_at_once(bench: Bench) {
    let (a, b) = (node("a"), known(&bench, "b").await);
    let before = claim_at(&*bench.store, &a, lane(1), 7).await;
    assert!(bench.store.hand_over(&before, &b).await.unwrap());
    let seen = view(&*bench.store, lane(1)).await;
    assert_eq!((seen.owner.node, seen.owner.url), (b.node.clone(), b.url.clone()));
    assert!(seen.owner.remaining.is_zero());
    let after = held(&*bench.second(), &b, lane(1), LEASE).await;
    assert!(after.claim.token() > before.token());
    assert_eq!(after.next_nonce, Some(7));
    assert_eq!(after.takeover, Takeover::Kept, "it was handed over, not taken");
}

async fn whatever_the_last_holder_still_writes_is_refused(bench: Bench) {
    let (a, b) = (node("a"), known(&bench, "b").await);
    let claim = claim_at(&*bench.store, &a, lane(1), 0).await;
    assert!(bench.store.hand_over(&claim, &b).await.unwrap());
    // Before the other node has even come: nothing extends the lease again.
    let late = bind(&*bench.store, fresh(claim, 0, 1)).await;
    assert!(matches!(late, Err(Refusal::Fenced(_))), "{late:?}");
    assert_eq!(bench.store.release(&[claim]).await.unwrap(), [false]);
    assert!(view(&*bench.store, lane(1)).await.owner.remaining.is_zero());
}

async fn a_lane_that_is_no_longer_ours_is_not_handed_over(bench: Bench) {
    let (a, b, c) = (node("a"), node("b"), known(&bench, "c").await);
    let old = held(&*bench.store, &a, lane(1), RUN_OUT).await.claim;
    held(&*bench.store, &b, lane(1), LEASE).await;
    assert!(!bench.store.hand_over(&old, &c).await.unwrap());
    assert_eq!(view(&*bench.store, lane(1)).await.owner.node, b.node);
}

/// Whatever a holder was made to believe of other nodes.
async fn hole_40_a_lane_goes_only_to_a_node_that_the_database_knows(bench: Bench) {
    let (a, b) = (node("a"), known(&bench, "b").await);
    let claim = claim_at(&*bench.store, &a, lane(1), 0).await;
    let elsewhere = Some("http://elsewhere:7420".into());
    for made_up in [
        node("made-up"),
        successor(&b),
        Holder { url: elsewhere, ..b.clone() },
        Holder { url: None, ..b.clone() },
        Holder { node: a.node.clone(), ..b.clone() },
    ] {
        assert!(!bench.store.hand_over(&claim, &made_up).await.unwrap(), "{made_up:?}");
        assert_eq!(view(&*bench.store, lane(1)).await.owner.node, a.node, "{made_up:?}");
    }
    assert!(bench.store.hand_over(&claim, &b).await.unwrap(), "it was ours all the time");
}

async fn if_the_other_node_does_not_come_anybody_takes_it(bench: Bench) {
    let (a, b, c) = (node("a"), known(&bench, "b").await, node("c"));
    let claim = claim_at(&*bench.store, &a, lane(1), 0).await;
    bind(&*bench.store, fresh(claim, 0, 1)).await.unwrap();
    assert!(bench.store.hand_over(&claim, &b).await.unwrap());
    let expired = bench.store.expired_lanes(10, WINDOW).await.unwrap();
    assert_eq!(expired.iter().map(|it| it.lane).collect::<Vec<_>>(), [lane(1)]);
    let taken = bench.store.take_lanes(&c, &[lane(1)], LEASE).await.unwrap();
    assert_eq!(taken.len(), 1);
    let late = bench.second().acquire(&b, &[lane(1)], LEASE).await.unwrap().remove(0);
    assert_eq!(owner(late).node, c.node);
}

async fn patience_leaves_lanes_alone_that_have_just_run_out(bench: Bench) {
    let (a, b) = (node("a"), node("b"));
    held(&*bench.store, &a, lane(1), RUN_OUT).await;
    let patient = bench.store.acquire_patiently(&b, &[lane(1)], LONG, LEASE).await.unwrap();
    let left_to = owner(patient.into_iter().next().unwrap());
    assert_eq!(left_to.node, a.node);
    assert!(left_to.remaining.is_zero());
    let now = bench.store.acquire_patiently(&b, &[lane(1)], Duration::ZERO, LEASE).await.unwrap();
    assert!(matches!(now[0], stile_store::Acquisition::Held(_)));
}

async fn patience_is_not_for_new_lanes_or_our_own(bench: Bench) {
    let a = node("a");
    let [new, own] = lanes();
    held(&*bench.store, &a, own, RUN_OUT).await;
    let answers = bench.store.acquire_patiently(&a, &[new, own], LONG, LEASE).await.unwrap();
    assert!(
        answers.iter().all(|it| matches!(it, stile_store::Acquisition::Held(_))),
        "{answers:?}"
    );
}

async fn expired_lanes_are_told_with_the_time_since(bench: Bench) {
    let a = node("a");
    let [open, idle, running] = lanes();
    for lane in [open, running] {
        let claim = claim_at(&*bench.store, &a, lane, 0).await;
        bind(&*bench.store, fresh(claim, 0, 1)).await.unwrap();
    }
    held(&*bench.store, &a, idle, RUN_OUT).await;
    let claim = held(&*bench.store, &a, open, LEASE).await.claim;
    bench.store.release(&[claim]).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let expired = bench.store.expired_lanes(10, WINDOW).await.unwrap();
    assert_eq!(expired.len(), 1, "{expired:?}");
    assert_eq!(expired[0].lane, open);
    assert!(expired[0].overdue >= Duration::from_millis(50), "{expired:?}");
    assert!(expired[0].overdue < Duration::from_secs(60), "{expired:?}");
}

async fn only_what_has_run_out_is_taken(bench: Bench) {
    let (a, b) = (node("a"), node("b"));
    let [out, running] = lanes();
    let old = held(&*bench.store, &a, out, RUN_OUT).await.claim;
    held(&*bench.store, &a, running, LEASE).await;
    let taken = bench.store.take_lanes(&b, &[out, running], LEASE).await.unwrap();
    assert_eq!(taken.len(), 1);
    assert_eq!(taken[0].claim.lane(), out);
    assert!(taken[0].claim.token() > old.token());
    assert_eq!(owner(acquire(&*bench.store, &b, running, LEASE).await).node, a.node);
}
