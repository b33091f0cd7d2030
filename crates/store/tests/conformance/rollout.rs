//! Which lanes are Stile's.

use stile_domain::{ChainId, Elsewhere, LaneEventKind, LaneOwner, Percent, Rollout};
use stile_store::{Acceptance, OwnerChange, Refusal, Renewal, Store};

use crate::common::{
    A_NODE, Bench, HOLD, LEASE, accept, accept_one, bind, bind_txs, claim_at, fresh, give_back,
    held, lane, lanes, named, new_tx, node, reissue, view, wait_until_blocked, waiting_binding,
};

on_both_stores!(
    where_nothing_was_said_every_lane_is_stiles,
    a_share_holds_for_lanes_that_are_there_and_for_those_that_come,
    the_list_wins_over_the_share,
    nothing_is_bound_on_a_lane_that_is_not_stiles,
    plans_made_before_a_lane_was_taken_away_die,
    a_lane_is_put_on_the_list_only_from_where_it_stands,
    a_lane_that_stile_has_begun_with_is_not_v1s_just_like_that,
    a_change_is_in_the_lanes_history,
    hole_33_nothing_is_accepted_for_a_lane_that_is_not_stiles,
);

fn chain() -> ChainId {
    lane(0).chain
}

async fn set_share(store: &dyn Store, percent: Option<u8>) -> usize {
    let percent = percent.map(|percent| Percent::new(percent).unwrap());
    store.set_share(&A_NODE, chain(), percent).await.unwrap().len()
}

async fn set_owner(
    store: &dyn Store,
    number: u32,
    from: &[Option<LaneOwner>],
    to: LaneOwner,
) -> OwnerChange {
    store.set_owner(&A_NODE, &[lane(number)], from, to).await.unwrap()[0]
}

async fn where_nothing_was_said_every_lane_is_stiles(bench: Bench) {
    let store = &*bench.store;
    assert_eq!(store.rollout().await.unwrap(), Rollout::default());
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    assert_eq!(view(store, lane(1)).await.elsewhere, None);
    assert!(bind(store, fresh(claim, 0, 1)).await.is_ok());
}

/// And for all of them the rows say what the rule in the domain does.
async fn a_share_holds_for_lanes_that_are_there_and_for_those_that_come(bench: Bench) {
    let (store, a) = (&*bench.store, node("a"));
    let all = lanes::<60>();
    store.acquire(&a, &all[..30], LEASE).await.unwrap();
    let changed = set_share(store, Some(40)).await;
    store.acquire(&a, &all[30..], LEASE).await.unwrap();
    let rollout = store.rollout().await.unwrap();
    assert_eq!(rollout.version, store.rollout_version().await.unwrap());
    let mut outside = 0;
    for (number, lane) in all.iter().enumerate() {
        let said = view(store, *lane).await.elsewhere;
        assert_eq!(said, rollout.elsewhere(*lane), "{lane}");
        outside += usize::from(number < 30 && said.is_some());
    }
    assert!(outside > 0 && outside < 30, "{outside}");
    assert_eq!(changed, outside);
    // Raised, it takes none away; removed, all are Stile's.
    assert!(set_share(store, Some(80)).await > 0);
    set_share(store, None).await;
    for lane in all {
        assert_eq!(view(store, lane).await.elsewhere, None);
    }
    assert_eq!(store.rollout().await.unwrap().shares.len(), 0);
}

async fn the_list_wins_over_the_share(bench: Bench) {
    let (store, a) = (&*bench.store, node("a"));
    set_share(store, Some(0)).await;
    assert_eq!(set_owner(store, 1, &[None], LaneOwner::Stile).await, OwnerChange::Done);
    assert_eq!(held(store, &a, lane(1), LEASE).await.elsewhere, None);
    assert_eq!(held(store, &a, lane(2), LEASE).await.elsewhere, Some(Elsewhere::Share));
    set_share(store, Some(100)).await;
    assert_eq!(set_owner(store, 3, &[None], LaneOwner::V1).await, OwnerChange::Done);
    assert_eq!(held(store, &a, lane(3), LEASE).await.elsewhere, Some(Elsewhere::V1));
    assert_eq!(held(store, &a, lane(2), LEASE).await.elsewhere, None);
}

async fn nothing_is_bound_on_a_lane_that_is_not_stiles(bench: Bench) {
    let (store, a) = (&*bench.store, node("a"));
    let claim = claim_at(store, &a, lane(1), 0).await;
    let hold = bind(store, fresh(claim, 0, 1)).await.unwrap().remove(0);
    let given_back = give_back(store, &hold).await;
    let waiting = accept_one(store, new_tx(lane(1))).await;
    let from = [None, Some(LaneOwner::Stile)];
    set_owner(&*bench.second(), 1, &from, LaneOwner::Stopped).await;
    let claim = held(store, &a, lane(1), LEASE).await.claim;
    let stopped = Refusal::Elsewhere(Elsewhere::Stopped);
    assert_eq!(bind(store, fresh(claim, 1, 1)).await, Err(stopped.clone()));
    assert_eq!(bind(store, reissue(claim, 1, &[given_back])).await, Err(stopped.clone()));
    let refused = bind_txs(store, waiting_binding(claim, 1, [&waiting])).await;
    assert_eq!(refused.unwrap_err(), stopped);
    // It is held, renewed and settled all the same, so that what is under way is seen through.
    assert_eq!(store.renew(&[claim], LEASE).await.unwrap(), [Renewal::Renewed]);
    assert!(store.settle(&[(claim, 1)], LEASE).await.unwrap()[0].is_ok());
    set_owner(&*bench.second(), 1, &[Some(LaneOwner::Stopped)], LaneOwner::Stile).await;
    let claim = held(store, &a, lane(1), LEASE).await.claim;
    assert!(bind(store, fresh(claim, 1, 1)).await.is_ok());
}

async fn plans_made_before_a_lane_was_taken_away_die(bench: Bench) {
    let store = &*bench.store;
    let before = claim_at(store, &node("a"), lane(1), 0).await;
    set_owner(&*bench.second(), 1, &[None], LaneOwner::Stopped).await;
    let refused = store.bind(&[fresh(before, 0, 1)], LEASE, HOLD).await.unwrap().remove(0);
    assert!(matches!(refused, Err(Refusal::Fenced(_))), "{refused:?}");
}

async fn a_lane_is_put_on_the_list_only_from_where_it_stands(bench: Bench) {
    let store = &*bench.store;
    let v1 = Some(LaneOwner::V1);
    assert_eq!(set_owner(store, 1, &[v1], LaneOwner::Stile).await, OwnerChange::Was(None));
    assert_eq!(set_owner(store, 1, &[None], LaneOwner::V1).await, OwnerChange::Done);
    assert_eq!(set_owner(store, 1, &[None], LaneOwner::Stile).await, OwnerChange::Was(v1));
    let version = store.rollout_version().await.unwrap();
    assert_eq!(set_owner(store, 1, &[None, v1], LaneOwner::Stile).await, OwnerChange::Done);
    assert!(store.rollout_version().await.unwrap() > version);
    let owners = store.rollout().await.unwrap().owners;
    assert_eq!(owners.into_iter().collect::<Vec<_>>(), [(lane(1), LaneOwner::Stile)]);
}

async fn a_lane_that_stile_has_begun_with_is_not_v1s_just_like_that(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    assert_eq!(set_owner(store, 1, &[None], LaneOwner::V1).await, OwnerChange::Started);
    assert!(bind(store, fresh(claim, 0, 1)).await.is_ok(), "nothing was changed");
    // One that was only looked at is.
    held(store, &node("a"), lane(2), LEASE).await;
    assert_eq!(set_owner(store, 2, &[None], LaneOwner::V1).await, OwnerChange::Done);
    // And by way of a stop it can be.
    set_owner(store, 1, &[None], LaneOwner::Stopped).await;
    let from = [Some(LaneOwner::Stopped)];
    assert_eq!(set_owner(store, 1, &from, LaneOwner::V1).await, OwnerChange::Done);
}

async fn a_change_is_in_the_lanes_history(bench: Bench) {
    let store = &*bench.store;
    claim_at(store, &node("a"), lane(1), 0).await;
    set_owner(store, 1, &[None], LaneOwner::Stopped).await;
    set_owner(store, 1, &[Some(LaneOwner::Stopped)], LaneOwner::Stile).await;
    let history = store.lane_history(lane(1), None, 10).await.unwrap();
    let told: Vec<_> = history.iter().map(|entry| (entry.kind, &entry.data["elsewhere"])).collect();
    let (stopped, none) = (serde_json::json!("stopped"), serde_json::json!(null));
    assert_eq!(
        told[..2],
        [(LaneEventKind::RolledOut, &none), (LaneEventKind::RolledOut, &stopped)]
    );
}

/// A rule that is being changed holds for a lane that comes into being meanwhile.
#[tokio::test]
async fn a_lane_is_not_born_under_a_rule_that_is_being_replaced() {
    let bench = Bench::postgres().await;
    let (other, observer) = (bench.raw().await, bench.raw().await);
    other.execute("BEGIN; UPDATE rollout_version SET version = version + 1").await;
    other.execute("INSERT INTO rollout_share VALUES (31337, 0)").await;
    let store = bench.second();
    let born = tokio::spawn(async move { held(&*store, &node("a"), lane(1), LEASE).await });
    wait_until_blocked(&observer, 1).await;
    other.execute("COMMIT").await;
    assert_eq!(born.await.unwrap().elsewhere, Some(Elsewhere::Share));
}

/// By the commit itself, whatever the node that asks has heard.
async fn hole_33_nothing_is_accepted_for_a_lane_that_is_not_stiles(bench: Bench) {
    let store = &*bench.store;
    let before = accept_one(store, named(lane(1), "before")).await;
    // Lane 2 has no row: nobody ever held it.
    for number in [1, 2] {
        set_owner(store, number, &[None], LaneOwner::Stopped).await;
    }
    let asked = [named(lane(1), "before"), new_tx(lane(1)), named(lane(2), "new"), new_tx(lane(3))];
    let dump = bench.raw().await.dump().await;
    let answers = accept(store, &asked[..3]).await;
    let stopped = Acceptance::Elsewhere(Elsewhere::Stopped);
    assert_eq!(answers, [Acceptance::Existing(before), stopped.clone(), stopped.clone()]);
    assert_eq!(bench.raw().await.dump().await, dump, "nothing was written");
    let answers = accept(store, &asked).await;
    assert!(matches!(answers[3], Acceptance::New(_)), "it harms no other lane: {answers:?}");
    set_owner(store, 2, &[Some(LaneOwner::Stopped)], LaneOwner::Stile).await;
    assert!(matches!(accept(store, &asked[2..3]).await[..], [Acceptance::New(_)]));
    set_share(store, Some(0)).await;
    let shared = accept(store, &[new_tx(lane(4))]).await;
    assert_eq!(shared, [Acceptance::Elsewhere(Elsewhere::Share)]);
}
