//! A node's own lanes after a restart, and other nodes' expired ones.

use stile_domain::{HeldExpiry, Holder, Lane};
use stile_store::{HeldLane, Refusal, Renewal, Store, Takeover};

use crate::common::{
    Bench, HOLD, LEASE, RUN_OUT, acquire, bind, claim_at, fresh, give_back, held, hold_at, lane,
    lanes, mark, node, owner, successor, used, view,
};

on_both_stores!(
    a_restarted_node_takes_its_own_lanes_expired_or_not,
    a_restarted_node_takes_its_own_lanes_only_once,
    the_earlier_incarnation_is_kept_out,
    expired_lanes_with_open_work_are_taken,
    every_open_status_is_open_work,
    expired_lanes_are_taken_up_to_the_limit,
    our_own_expired_lanes_are_not_taken_from_ourselves,
    two_nodes_share_the_expired_lanes,
);

fn lanes_of(taken: &[HeldLane]) -> Vec<Lane> {
    let mut lanes: Vec<_> = taken.iter().map(|held| held.claim.lane()).collect();
    lanes.sort();
    lanes
}

/// A lane with a hold in somebody's hands and a lease that has run out.
async fn abandon(store: &dyn Store, holder: &Holder, lane: Lane) {
    let claim = claim_at(store, holder, lane, 0).await;
    bind(store, fresh(claim, 0, 1)).await.unwrap();
    store.release(&[claim]).await.unwrap();
}

async fn a_restarted_node_takes_its_own_lanes_expired_or_not(bench: Bench) {
    let [live, run_out, foreign, retaken] = lanes();
    let (a, b) = (node("a"), node("b"));
    let before = claim_at(&*bench.store, &a, live, 9).await;
    held(&*bench.store, &a, run_out, RUN_OUT).await;
    held(&*bench.store, &b, foreign, RUN_OUT).await;
    let again = Holder { url: Some("http://moved:7420".into()), ..successor(&a) };
    held(&*bench.store, &again, retaken, LEASE).await;

    let taken = bench.second().take_own(&again, LEASE).await.unwrap();
    assert_eq!(lanes_of(&taken), [live, run_out]);
    assert!(taken.iter().all(|held| held.takeover == Takeover::Taken));
    let first = taken.iter().find(|held| held.claim.lane() == live).unwrap();
    assert!(first.claim.token() > before.token());
    assert_eq!(first.next_nonce, Some(9));
    let owner = view(&*bench.store, live).await.owner;
    assert_eq!((owner.incarnation, owner.url), (again.incarnation, again.url));
    assert_eq!(view(&*bench.store, foreign).await.owner.node, b.node);
    assert_eq!(view(&*bench.store, retaken).await.owner.token.get(), 1);
}

async fn a_restarted_node_takes_its_own_lanes_only_once(bench: Bench) {
    let a = node("a");
    held(&*bench.store, &a, lane(1), LEASE).await;
    let again = successor(&a);
    assert_eq!(bench.store.take_own(&again, LEASE).await.unwrap().len(), 1);
    assert!(bench.store.take_own(&again, LEASE).await.unwrap().is_empty());
    assert_eq!(view(&*bench.store, lane(1)).await.owner.token.get(), 2);
}

async fn the_earlier_incarnation_is_kept_out(bench: Bench) {
    let a = node("a");
    let zombie = claim_at(&*bench.store, &a, lane(1), 0).await;
    let second = bench.second();
    second.take_own(&successor(&a), LEASE).await.unwrap();
    let refused = bind(&*bench.store, fresh(zombie, 0, 1)).await;
    assert!(matches!(refused, Err(Refusal::Fenced(_))), "{refused:?}");
    assert!(matches!(bench.store.renew(&[zombie], LEASE).await.unwrap()[..], [Renewal::Fenced(_)]));
    owner(acquire(&*bench.store, &a, lane(1), LEASE).await);
}

async fn expired_lanes_with_open_work_are_taken(bench: Bench) {
    let [abandoned, idle, done, live] = lanes();
    let a = node("a");
    abandon(&*bench.store, &a, abandoned).await;
    held(&*bench.store, &a, idle, RUN_OUT).await;
    let claim = claim_at(&*bench.store, &a, done, 0).await;
    mark(&*bench.store, used(&hold_at(&*bench.store, claim, 0, HOLD).await, 1)).await;
    bench.store.release(&[claim]).await.unwrap();
    let claim = claim_at(&*bench.store, &a, live, 0).await;
    hold_at(&*bench.store, claim, 0, HOLD).await;

    let b = node("b");
    let taken = bench.second().take_expired(&b, LEASE, 10).await.unwrap();
    assert_eq!(lanes_of(&taken), [abandoned]);
    assert_eq!(taken[0].claim.token().get(), 2);
    assert_eq!(taken[0].next_nonce, Some(1));
    assert_eq!(taken[0].takeover, Takeover::Taken);
    let owner = view(&*bench.store, abandoned).await.owner;
    assert_eq!((owner.node, owner.incarnation, owner.url), (b.node, b.incarnation, b.url));
    assert!(owner.remaining > LEASE / 2);
}

async fn every_open_status_is_open_work(bench: Bench) {
    let [held_lane, released_lane, suspect_lane] = lanes();
    let (store, a) = (&*bench.store, node("a"));
    for lane in [held_lane, released_lane, suspect_lane] {
        let claim = claim_at(store, &a, lane, 0).await;
        let hold = hold_at(store, claim, 0, RUN_OUT).await;
        if lane == released_lane {
            give_back(store, &hold).await;
        } else if lane == suspect_lane {
            let swept = store.expire(&[claim], HeldExpiry::Suspect, LEASE).await.unwrap();
            assert_eq!(swept[0].as_ref().unwrap().len(), 1);
        }
        store.release(&[claim]).await.unwrap();
    }
    let taken = bench.second().take_expired(&node("b"), LEASE, 10).await.unwrap();
    assert_eq!(lanes_of(&taken), [held_lane, released_lane, suspect_lane]);
}

async fn expired_lanes_are_taken_up_to_the_limit(bench: Bench) {
    let a = node("a");
    for number in 0..5 {
        abandon(&*bench.store, &a, lane(number)).await;
    }
    let b = node("b");
    let store = bench.second();
    assert_eq!(store.take_expired(&b, LEASE, 2).await.unwrap().len(), 2);
    assert_eq!(store.take_expired(&b, LEASE, 2).await.unwrap().len(), 2);
    assert_eq!(store.take_expired(&b, LEASE, 2).await.unwrap().len(), 1);
    assert!(store.take_expired(&b, LEASE, 2).await.unwrap().is_empty());
}

async fn our_own_expired_lanes_are_not_taken_from_ourselves(bench: Bench) {
    let a = node("a");
    abandon(&*bench.store, &a, lane(1)).await;
    assert!(bench.store.take_expired(&a, LEASE, 10).await.unwrap().is_empty());
    assert_eq!(view(&*bench.store, lane(1)).await.owner.token.get(), 1);
}

async fn two_nodes_share_the_expired_lanes(bench: Bench) {
    let a = node("a");
    for number in 0..20 {
        abandon(&*bench.store, &a, lane(number)).await;
    }
    let (one, other) = (bench.second(), bench.second());
    let (b, c) = (node("b"), node("c"));
    let mut taken = Vec::new();
    for _ in 0..4 {
        let (by_one, by_other) =
            tokio::join!(one.take_expired(&b, LEASE, 4), other.take_expired(&c, LEASE, 4));
        taken.extend(by_one.unwrap());
        taken.extend(by_other.unwrap());
    }
    let expected: Vec<_> = (0..20).map(lane).collect();
    assert_eq!(lanes_of(&taken), expected, "each lane once");
    assert!(taken.iter().all(|held| held.claim.token().get() == 2));
}
