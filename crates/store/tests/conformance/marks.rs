//! What callers say about their holds.

use stile_domain::{B256, Hold, HoldId, HoldStatus};
use stile_store::{Claim, Mark, MarkOutcome, Store};

use crate::common::{
    Bench, HOLD, WINDOW, bind, claim_at, give_back, hold_at, lane, lanes, mark, node, read_hold,
    recyclable, reissue, used,
};

on_both_stores!(
    a_used_mark_consumes_and_keeps_the_hash,
    a_recyclable_mark_releases_and_keeps_the_reason,
    a_repeated_mark_answers_as_the_first_time,
    another_hash_is_a_conflict,
    a_release_after_use_is_a_conflict,
    use_after_release_is_taken_while_nobody_else_has_the_nonce,
    a_superseded_hold_cannot_touch_its_nonce,
    a_hold_that_does_not_exist_is_not_found,
    marks_need_no_lease,
    the_first_of_contradicting_marks_counts,
    marks_of_many_lanes_are_answered_in_order,
    a_mark_answers_for_its_own_nonce_only,
    evidence_from_the_chain_takes_the_callers_hash_later,
);

async fn one_hold(bench: &Bench) -> (Claim, Hold) {
    let claim = claim_at(&*bench.store, &node("a"), lane(1), 0).await;
    let hold = hold_at(&*bench.store, claim, 0, HOLD).await;
    (claim, hold)
}

async fn status(store: &dyn Store, hold: &Hold) -> HoldStatus {
    read_hold(store, hold).await.status
}

async fn a_used_mark_consumes_and_keeps_the_hash(bench: Bench) {
    let (_, hold) = one_hold(&bench).await;
    let outcome = mark(&*bench.store, used(&hold, 7)).await;
    let expected =
        Hold { status: HoldStatus::Consumed, tx_hash: Some(B256::repeat_byte(7)), ..hold.clone() };
    assert_eq!(outcome, MarkOutcome::Done(expected.clone()));
    assert_eq!(read_hold(&*bench.store, &hold).await, expected);
}

async fn a_recyclable_mark_releases_and_keeps_the_reason(bench: Bench) {
    let (_, hold) = one_hold(&bench).await;
    let outcome = mark(&*bench.store, recyclable(&hold, "the wallet refused")).await;
    let expected = Hold {
        status: HoldStatus::Released,
        reason: Some("the wallet refused".into()),
        ..hold.clone()
    };
    assert_eq!(outcome, MarkOutcome::Done(expected.clone()));
    assert_eq!(read_hold(&*bench.store, &hold).await, expected);
}

async fn a_repeated_mark_answers_as_the_first_time(bench: Bench) {
    let (claim, first) = one_hold(&bench).await;
    let store = &*bench.store;
    let second = hold_at(store, claim, 1, HOLD).await;
    for said in [used(&first, 7), recyclable(&second, "not sent")] {
        let answer = mark(store, said.clone()).await;
        assert!(matches!(answer, MarkOutcome::Done(_)), "{answer:?}");
        assert_eq!(mark(&*bench.second(), said).await, answer);
    }
}

async fn another_hash_is_a_conflict(bench: Bench) {
    let (_, hold) = one_hold(&bench).await;
    mark(&*bench.store, used(&hold, 7)).await;
    let as_it_stands = read_hold(&*bench.store, &hold).await;
    let outcome = mark(&*bench.store, used(&hold, 8)).await;
    assert_eq!(outcome, MarkOutcome::Conflict(as_it_stands.clone()));
    assert_eq!(read_hold(&*bench.store, &hold).await, as_it_stands);
}

async fn a_release_after_use_is_a_conflict(bench: Bench) {
    let (_, hold) = one_hold(&bench).await;
    mark(&*bench.store, used(&hold, 7)).await;
    let as_it_stands = read_hold(&*bench.store, &hold).await;
    let outcome = mark(&*bench.store, recyclable(&hold, "oh, wait")).await;
    assert_eq!(outcome, MarkOutcome::Conflict(as_it_stands.clone()));
    assert_eq!(read_hold(&*bench.store, &hold).await, as_it_stands);
}

async fn use_after_release_is_taken_while_nobody_else_has_the_nonce(bench: Bench) {
    let (_, hold) = one_hold(&bench).await;
    give_back(&*bench.store, &hold).await;
    let outcome = mark(&*bench.store, used(&hold, 7)).await;
    assert!(matches!(outcome, MarkOutcome::Done(_)), "{outcome:?}");
    assert_eq!(status(&*bench.store, &hold).await, HoldStatus::Consumed);
}

async fn a_superseded_hold_cannot_touch_its_nonce(bench: Bench) {
    let (claim, old) = one_hold(&bench).await;
    let store = &*bench.store;
    let released = give_back(store, &old).await;
    let new = bind(store, reissue(claim, 1, std::slice::from_ref(&old))).await.unwrap().remove(0);

    let late = mark(store, used(&old, 7)).await;
    assert_eq!(late, MarkOutcome::Superseded(released.clone()));
    let again = mark(store, recyclable(&old, "said before")).await;
    assert_eq!(again, MarkOutcome::Done(released), "it did give the nonce back");
    assert_eq!(read_hold(store, &new).await, new, "the new hold is untouched");

    mark(store, used(&new, 9)).await;
    let late = mark(store, used(&old, 7)).await;
    assert!(matches!(late, MarkOutcome::Superseded(_)), "{late:?}");
    assert_eq!(read_hold(store, &new).await.tx_hash, Some(B256::repeat_byte(9)));
}

async fn a_hold_that_does_not_exist_is_not_found(bench: Bench) {
    let (_, hold) = one_hold(&bench).await;
    let before = bench.raw().await.dump().await;
    let stranger = Hold { id: HoldId::fresh(), ..hold.clone() };
    let elsewhere = Hold { lane: lane(2), ..hold.clone() };
    let beyond = Hold { nonce: 1, ..hold };
    for unknown in [stranger, elsewhere, beyond] {
        assert_eq!(mark(&*bench.store, used(&unknown, 7)).await, MarkOutcome::NotFound);
        assert_eq!(mark(&*bench.store, recyclable(&unknown, "no")).await, MarkOutcome::NotFound);
    }
    assert_eq!(bench.raw().await.dump().await, before);
    assert!(bench.store.mark(&[]).await.unwrap().is_empty());
}

async fn marks_need_no_lease(bench: Bench) {
    let (claim, hold) = one_hold(&bench).await;
    bench.store.release(&[claim]).await.unwrap();
    let other = bench.second();
    claim_lost_to(&*other, &hold).await;
    let outcome = mark(&*bench.store, used(&hold, 7)).await;
    assert!(matches!(outcome, MarkOutcome::Done(_)), "{outcome:?}");
}

async fn claim_lost_to(store: &dyn Store, hold: &Hold) {
    let taken = store.take_expired(&node("b"), HOLD, 10, WINDOW).await.unwrap();
    assert_eq!(taken.len(), 1, "{} is taken over", hold.lane);
}

async fn the_first_of_contradicting_marks_counts(bench: Bench) {
    let (claim, first) = one_hold(&bench).await;
    let store = &*bench.store;
    let second = hold_at(store, claim, 1, HOLD).await;
    let third = hold_at(store, claim, 2, HOLD).await;
    let marks: Vec<Mark> = vec![
        used(&first, 1),
        recyclable(&second, "not sent"),
        used(&first, 2),
        used(&third, 3),
        used(&second, 4),
        recyclable(&first, "not sent"),
        recyclable(&second, "not sent"),
        used(&first, 1),
        used(&third, 3),
    ];
    let outcomes = store.mark(&marks).await.unwrap();
    let said: Vec<_> = outcomes
        .iter()
        .map(|outcome| match outcome {
            MarkOutcome::Done(hold) => ("done", hold.status, hold.tx_hash.map(|hash| hash[0])),
            MarkOutcome::Conflict(hold) => ("conflict", hold.status, hold.tx_hash.map(|h| h[0])),
            other => panic!("{other:?}"),
        })
        .collect();
    use HoldStatus::{Consumed, Released};
    let expected = [
        ("done", Consumed, Some(1)),
        ("done", Released, None),
        ("conflict", Consumed, Some(1)),
        ("done", Consumed, Some(3)),
        ("done", Consumed, Some(4)),
        ("conflict", Consumed, Some(1)),
        ("conflict", Consumed, Some(4)),
        ("done", Consumed, Some(1)),
        ("done", Consumed, Some(3)),
    ];
    assert_eq!(said, expected);
}

async fn marks_of_many_lanes_are_answered_in_order(bench: Bench) {
    let store = &*bench.store;
    let a = node("a");
    let mut holds = Vec::new();
    for lane in lanes::<4>() {
        let claim = claim_at(store, &a, lane, 0).await;
        holds.push(hold_at(store, claim, 0, HOLD).await);
    }
    mark(store, used(&holds[2], 9)).await;
    let ghost = Hold { id: HoldId::fresh(), ..holds[1].clone() };
    let marks = [used(&holds[3], 1), used(&ghost, 2), used(&holds[2], 3), used(&holds[0], 4)];
    let outcomes = store.mark(&marks).await.unwrap();
    assert!(matches!(&outcomes[0], MarkOutcome::Done(hold) if hold.lane == lane(3)));
    assert_eq!(outcomes[1], MarkOutcome::NotFound);
    assert!(matches!(&outcomes[2], MarkOutcome::Conflict(hold) if hold.lane == lane(2)));
    assert!(matches!(&outcomes[3], MarkOutcome::Done(hold) if hold.lane == lane(0)));
    assert_eq!(status(store, &holds[1]).await, HoldStatus::Held);
}

async fn a_mark_answers_for_its_own_nonce_only(bench: Bench) {
    let (claim, hold) = one_hold(&bench).await;
    let store = &*bench.store;
    hold_at(store, claim, 1, HOLD).await;
    let wrong_nonce = Hold { nonce: 1, ..hold.clone() };
    let outcomes = store.mark(&[used(&wrong_nonce, 7), used(&hold, 7)]).await.unwrap();
    assert_eq!(outcomes[0], MarkOutcome::NotFound);
    assert!(matches!(outcomes[1], MarkOutcome::Done(_)), "{outcomes:?}");
    let outcomes = store.mark(&[used(&hold, 8), used(&wrong_nonce, 8)]).await.unwrap();
    assert!(matches!(outcomes[0], MarkOutcome::Conflict(_)), "{outcomes:?}");
    assert_eq!(outcomes[1], MarkOutcome::NotFound);
}

async fn evidence_from_the_chain_takes_the_callers_hash_later(bench: Bench) {
    let (claim, hold) = one_hold(&bench).await;
    let store = &*bench.store;
    give_back(store, &hold).await;
    let settled = store.settle(&[(claim, 1)], HOLD).await.unwrap();
    assert_eq!(settled[0].as_ref().unwrap().len(), 1);
    assert_eq!(status(store, &hold).await, HoldStatus::Consumed);

    let outcome = mark(store, used(&hold, 7)).await;
    assert!(matches!(outcome, MarkOutcome::Done(_)), "{outcome:?}");
    assert_eq!(read_hold(store, &hold).await.tx_hash, Some(B256::repeat_byte(7)));
    let other = mark(store, used(&hold, 8)).await;
    assert!(matches!(other, MarkOutcome::Conflict(_)), "{other:?}");
    let back = mark(store, recyclable(&hold, "no")).await;
    assert!(matches!(back, MarkOutcome::Conflict(_)), "{back:?}");
}
