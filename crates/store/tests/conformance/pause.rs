//! Pause and resume.

use serde_json::json;
use stile_domain::{HeldExpiry, LaneEventKind};
use stile_store::{NewLaneEvent, Refusal, Renewal, Resumed, StoreError, Takeover};

use crate::common::{
    A_NODE, Bench, LEASE, RUN_OUT, bind, claim_at, fresh, held, hold_at, lane, mark, node, pause,
    resume, used, view,
};

on_both_stores!(
    a_pause_is_kept_with_its_reason_until_the_resume,
    a_pause_is_kept_for_another_reason,
    a_pause_fences_off_plans_made_before_it,
    a_resume_fences_off_plans_made_before_it,
    a_paused_lane_is_still_swept_settled_and_marked,
    a_paused_lane_stays_paused_when_it_changes_hands,
    only_known_lanes_are_paused,
    a_pause_says_why,
    hole_32_only_the_holder_pauses_by_itself,
    a_holders_pause_is_told_with_what_was_found,
);

async fn a_pause_is_kept_with_its_reason_until_the_resume(bench: Bench) {
    let store = &*bench.store;
    claim_at(store, &node("a"), lane(1), 0).await;
    let second = bench.second();
    pause(&*second, lane(1), "outside use").await;
    let token = view(store, lane(1)).await.owner.token;
    assert_eq!(view(store, lane(1)).await.paused.as_deref(), Some("outside use"));
    pause(&*second, lane(1), "by hand").await;
    let still = view(store, lane(1)).await;
    assert_eq!(still.paused.as_deref(), Some("outside use"), "the first reason stays");
    assert_eq!(still.owner.token, token, "and so do plans made since");
    resume(&*second, lane(1)).await;
    assert_eq!(view(store, lane(1)).await.paused, None);
}

async fn a_pause_is_kept_for_another_reason(bench: Bench) {
    let store = &*bench.store;
    let data = json!({ "moreFrom": 7 });
    assert!(!store.keep_paused(&A_NODE, lane(1), "more", &data).await.unwrap(), "no such lane");
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    assert!(store.keep_paused(&A_NODE, lane(1), "more", &data).await.unwrap());
    let first = view(store, lane(1)).await;
    assert_eq!(first.paused.as_deref(), Some("more"));
    assert!(first.owner.token > claim.token(), "it is a pause like any other");
    assert!(store.keep_paused(&A_NODE, lane(1), "still more", &data).await.unwrap());
    let second = view(store, lane(1)).await;
    assert_eq!(second.paused.as_deref(), Some("still more"));
    assert_eq!(second.owner.token, first.owner.token, "its holder goes on");
    let told = store.lane_history(lane(1), None, 1).await.unwrap().remove(0);
    assert_eq!((told.kind, told.fencing_token), (LaneEventKind::Paused, None));
    assert_eq!(told.data, json!({ "moreFrom": 7, "reason": "still more" }));
    let refused = store.keep_paused(&A_NODE, lane(1), "", &data).await;
    assert!(matches!(refused, Err(StoreError::Constraint(_))), "{refused:?}");
}

async fn a_pause_fences_off_plans_made_before_it(bench: Bench) {
    let store = &*bench.store;
    let a = node("a");
    let before = claim_at(store, &a, lane(1), 0).await;
    pause(&*bench.second(), lane(1), "outside use").await;
    let refused = bind(store, fresh(before, 0, 1)).await;
    assert!(matches!(refused, Err(Refusal::Fenced(_))), "{refused:?}");

    let again = held(store, &a, lane(1), LEASE).await;
    assert!(again.claim.token() > before.token());
    assert_eq!(again.takeover, Takeover::Kept);
    assert_eq!(again.paused.as_deref(), Some("outside use"));
}

async fn a_resume_fences_off_plans_made_before_it(bench: Bench) {
    let store = &*bench.store;
    let a = node("a");
    claim_at(store, &a, lane(1), 0).await;
    let second = bench.second();
    pause(&*second, lane(1), "outside use").await;
    let paused = held(store, &a, lane(1), LEASE).await.claim;
    resume(&*second, lane(1)).await;
    let refused = bind(store, fresh(paused, 0, 1)).await;
    assert!(matches!(refused, Err(Refusal::Fenced(_))), "{refused:?}");
    assert!(matches!(store.renew(&[paused], LEASE).await.unwrap()[..], [Renewal::Fenced(_)]));

    let resumed = held(store, &a, lane(1), LEASE).await.claim;
    assert!(resumed.token() > paused.token());
    assert_eq!(bind(store, fresh(resumed, 0, 1)).await.unwrap()[0].nonce, 0);
}

async fn a_paused_lane_is_still_swept_settled_and_marked(bench: Bench) {
    let store = &*bench.store;
    let a = node("a");
    let claim = claim_at(store, &a, lane(1), 0).await;
    hold_at(store, claim, 0, RUN_OUT).await;
    let in_hand = hold_at(store, claim, 1, LEASE).await;
    pause(store, lane(1), "outside use").await;
    let claim = held(store, &a, lane(1), LEASE).await.claim;
    let swept = store.expire(&[claim], HeldExpiry::Suspect, LEASE).await.unwrap();
    assert_eq!(swept[0].as_ref().unwrap().len(), 1);
    let settled = store.settle(&[(claim, 1)], LEASE).await.unwrap();
    assert_eq!(settled[0].as_ref().unwrap().len(), 1);
    mark(store, used(&in_hand, 1)).await;
    assert_eq!(store.renew(&[claim], LEASE).await.unwrap(), [Renewal::Renewed]);
    assert_eq!(view(store, lane(1)).await.held, 0);
}

async fn a_paused_lane_stays_paused_when_it_changes_hands(bench: Bench) {
    let store = &*bench.store;
    let a = node("a");
    claim_at(store, &a, lane(1), 0).await;
    pause(store, lane(1), "outside use").await;
    let claim = held(store, &a, lane(1), LEASE).await.claim;
    assert_eq!(store.release(&[claim]).await.unwrap(), [true]);
    let taken = held(&*bench.second(), &node("b"), lane(1), LEASE).await;
    assert_eq!(taken.paused.as_deref(), Some("outside use"));
}

async fn only_known_lanes_are_paused(bench: Bench) {
    let (store, data) = (&*bench.store, json!({}));
    assert!(!store.pause(&A_NODE, lane(1), "why not", &data).await.unwrap());
    let resumed = store.resume(&A_NODE, lane(1), None, &data).await.unwrap();
    assert_eq!(resumed, Resumed::NotFound);
    assert!(store.lane_history(lane(1), None, 10).await.unwrap().is_empty());
    assert_eq!(bench.store.lanes(&[lane(1)]).await.unwrap(), [None]);
}

async fn a_pause_says_why(bench: Bench) {
    let claim = claim_at(&*bench.store, &node("a"), lane(1), 0).await;
    let refused = bench.store.pause(&A_NODE, lane(1), "", &json!({})).await;
    assert!(matches!(refused, Err(StoreError::Constraint(_))), "{refused:?}");
    let lane = view(&*bench.store, lane(1)).await;
    assert_eq!((lane.paused, lane.owner.token), (None, claim.token()));
}

fn outside_use() -> NewLaneEvent {
    NewLaneEvent { kind: LaneEventKind::OutsideUse, data: json!({ "nonce": 7 }) }
}

/// A node that slept while another one took the lane, or while a person paused or resumed it.
async fn hole_32_only_the_holder_pauses_by_itself(bench: Bench) {
    let (store, a, b) = (&*bench.store, node("a"), node("b"));
    let slept = claim_at(store, &a, lane(1), 0).await;
    store.renew(&[slept], RUN_OUT).await.unwrap();
    held(store, &b, lane(1), LEASE).await;
    let before = bench.raw().await.dump().await;
    let refused = store.pause_as_holder(&slept, &outside_use(), "outside use", LEASE).await;
    let Err(Refusal::Fenced(owner)) = refused.unwrap() else { panic!("not fenced") };
    assert_eq!(owner.incarnation, b.incarnation);
    assert_eq!(bench.raw().await.dump().await, before, "nothing was written");

    pause(store, lane(1), "by hand").await;
    let knew_the_pause = held(store, &b, lane(1), LEASE).await.claim;
    resume(store, lane(1)).await;
    let refused =
        store.pause_as_holder(&knew_the_pause, &outside_use(), "outside use", LEASE).await;
    assert!(matches!(refused.unwrap(), Err(Refusal::Fenced(_))));
    assert_eq!(view(store, lane(1)).await.paused, None, "what a person resumed stays so");
}

async fn a_holders_pause_is_told_with_what_was_found(bench: Bench) {
    let (store, a) = (&*bench.store, node("a"));
    let claim = claim_at(store, &a, lane(1), 0).await;
    store.pause_as_holder(&claim, &outside_use(), "outside use", LEASE).await.unwrap().unwrap();
    let paused = view(store, lane(1)).await;
    assert_eq!(paused.paused.as_deref(), Some("outside use"));
    assert!(paused.owner.token > claim.token(), "plans in memory die");
    let mut told = store.lane_history(lane(1), None, 2).await.unwrap();
    told.reverse();
    let kinds: Vec<_> = told.iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [LaneEventKind::OutsideUse, LaneEventKind::Paused]);
    for event in &told {
        assert_eq!((&event.node, event.fencing_token), (&a.node, Some(claim.token())));
        assert_eq!(event.data["nonce"], 7);
    }
    assert_eq!(told[1].data["reason"], "outside use");

    // Paused already: what was found is told, and the first reason stays.
    let again = held(store, &a, lane(1), LEASE).await.claim;
    store.pause_as_holder(&again, &outside_use(), "another", LEASE).await.unwrap().unwrap();
    let still = view(store, lane(1)).await;
    assert_eq!(still.paused.as_deref(), Some("outside use"));
    assert_eq!(still.owner.token, again.token());
    let last = store.lane_history(lane(1), None, 1).await.unwrap().remove(0);
    assert_eq!(last.kind, LaneEventKind::OutsideUse);
}
