//! Transactions that wait for an estimate of their gas: on record, and in nobody's way.

use stile_domain::{EventKind, Step, SubState, TxState};
use stile_store::{Refusal, Withdrawal};

use crate::common::{
    A_NODE, Bench, accept_one, bind_new, bind_txs, claim_at, lane, new_tx, node, read_tx, steps,
    waiting_binding,
};

on_both_stores!(
    hole_21_what_cannot_be_estimated_holds_up_nobody,
    hole_21_what_is_estimated_after_all_takes_its_place,
    what_waits_for_an_estimate_can_be_withdrawn_and_refused,
);

async fn hole_21_what_cannot_be_estimated_holds_up_nobody(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let first = accept_one(store, new_tx(lane(1))).await;
    let overtaking = bind_new(claim, 0, [new_tx(lane(1))]);
    assert_eq!(bind_txs(store, overtaking.clone()).await, Err(Refusal::OthersWait));
    let aside = steps(store, claim, &first, &[Step::NotEstimated]).await;
    let standing = (aside.standing.state, aside.standing.sub_state);
    assert_eq!(standing, (TxState::Created, Some(SubState::Estimating)));
    assert_eq!(read_tx(store, first.id).await, aside);
    let second = accept_one(store, new_tx(lane(1))).await;
    assert_eq!(
        store.waiting(lane(1), 1).await.unwrap(),
        std::slice::from_ref(&second),
        "it takes no place"
    );
    assert_eq!(store.lanes_with_waiting(&[lane(1)]).await.unwrap(), [lane(1)]);
    assert_eq!(bind_txs(store, overtaking.clone()).await, Err(Refusal::OthersWait), "the second");
    bind_txs(store, waiting_binding(claim, 0, [&second])).await.unwrap();
    assert!(store.lanes_with_waiting(&[lane(1)]).await.unwrap().is_empty());
    let overtaking = bind_new(claim, 1, [new_tx(lane(1))]);
    assert_eq!(bind_txs(store, overtaking).await.unwrap()[0].nonce, Some(1));
    let other = accept_one(store, new_tx(lane(2))).await;
    let lanes = [lane(2), lane(1)];
    assert_eq!(store.unestimated(&lanes, 10).await.unwrap(), std::slice::from_ref(&aside));
    let claim = claim_at(store, &node("a"), lane(2), 0).await;
    let other = steps(store, claim, &other, &[Step::NotEstimated]).await;
    assert_eq!(store.unestimated(&lanes, 10).await.unwrap(), [aside.clone(), other], "in order");
    assert_eq!(store.unestimated(&lanes, 1).await.unwrap(), [aside]);
}

async fn hole_21_what_is_estimated_after_all_takes_its_place(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let first = accept_one(store, new_tx(lane(1))).await;
    steps(store, claim, &first, &[Step::NotEstimated]).await;
    let second = accept_one(store, new_tx(lane(1))).await;
    let aside = read_tx(store, first.id).await;
    let back = steps(store, claim, &aside, &[Step::Estimated]).await;
    assert_eq!(back.standing.sub_state, Some(SubState::Pending));
    assert_eq!(
        store.waiting(lane(1), 10).await.unwrap(),
        [back.clone(), second],
        "the older first"
    );
    assert!(store.unestimated(&[lane(1)], 10).await.unwrap().is_empty());
    bind_txs(store, waiting_binding(claim, 0, [&back])).await.unwrap();
    let kinds: Vec<EventKind> =
        store.history(first.id).await.unwrap().iter().map(|event| event.kind).collect();
    use EventKind::{Accepted, Bound, Estimated, NotEstimated};
    assert_eq!(kinds, [Accepted, NotEstimated, Estimated, Bound]);
}

async fn what_waits_for_an_estimate_can_be_withdrawn_and_refused(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let (one, other) =
        (accept_one(store, new_tx(lane(1))).await, accept_one(store, new_tx(lane(1))).await);
    steps(store, claim, &one, &[Step::NotEstimated]).await;
    let withdrawn = store.withdraw(&A_NODE, one.id).await.unwrap();
    assert!(matches!(withdrawn, Withdrawal::Done(_)), "{withdrawn:?}");
    let refused = steps(store, claim, &other, &[Step::NotEstimated, Step::Refused]).await;
    assert_eq!((refused.standing.state, refused.nonce), (TxState::Failed, None));
    assert!(store.unestimated(&[lane(1)], 10).await.unwrap().is_empty());
}
