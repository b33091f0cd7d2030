//! Pause and resume.

use stile_domain::HeldExpiry;
use stile_store::{Refusal, Renewal, StoreError, Takeover};

use crate::common::{
    Bench, LEASE, RUN_OUT, bind, claim_at, fresh, held, hold_at, lane, mark, node, used, view,
};

on_both_stores!(
    a_pause_is_kept_with_its_reason_until_the_resume,
    a_pause_fences_off_plans_made_before_it,
    a_resume_fences_off_plans_made_before_it,
    a_paused_lane_is_still_swept_settled_and_marked,
    a_paused_lane_stays_paused_when_it_changes_hands,
    only_known_lanes_are_paused,
    a_pause_says_why,
);

async fn a_pause_is_kept_with_its_reason_until_the_resume(bench: Bench) {
    let store = &*bench.store;
    claim_at(store, &node("a"), lane(1), 0).await;
    let second = bench.second();
    assert!(second.pause(lane(1), "outside use").await.unwrap());
    assert_eq!(view(store, lane(1)).await.paused.as_deref(), Some("outside use"));
    assert!(second.pause(lane(1), "by hand").await.unwrap());
    assert_eq!(view(store, lane(1)).await.paused.as_deref(), Some("by hand"));
    assert!(second.resume(lane(1)).await.unwrap());
    assert_eq!(view(store, lane(1)).await.paused, None);
}

async fn a_pause_fences_off_plans_made_before_it(bench: Bench) {
    let store = &*bench.store;
    let a = node("a");
    let before = claim_at(store, &a, lane(1), 0).await;
    bench.second().pause(lane(1), "outside use").await.unwrap();
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
    second.pause(lane(1), "outside use").await.unwrap();
    let paused = held(store, &a, lane(1), LEASE).await.claim;
    second.resume(lane(1)).await.unwrap();
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
    store.pause(lane(1), "outside use").await.unwrap();
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
    store.pause(lane(1), "outside use").await.unwrap();
    let claim = held(store, &a, lane(1), LEASE).await.claim;
    assert_eq!(store.release(&[claim]).await.unwrap(), [true]);
    let taken = held(&*bench.second(), &node("b"), lane(1), LEASE).await;
    assert_eq!(taken.paused.as_deref(), Some("outside use"));
}

async fn only_known_lanes_are_paused(bench: Bench) {
    assert!(!bench.store.pause(lane(1), "why not").await.unwrap());
    assert!(!bench.store.resume(lane(1)).await.unwrap());
    assert_eq!(bench.store.lanes(&[lane(1)]).await.unwrap(), [None]);
}

async fn a_pause_says_why(bench: Bench) {
    let claim = claim_at(&*bench.store, &node("a"), lane(1), 0).await;
    let refused = bench.store.pause(lane(1), "").await;
    assert!(matches!(refused, Err(StoreError::Constraint(_))), "{refused:?}");
    let lane = view(&*bench.store, lane(1)).await;
    assert_eq!((lane.paused, lane.owner.token), (None, claim.token()));
}
