//! Calls that come at one time and may be committed together: each has its own answer, and what
//! one is refused harms no other.

use std::sync::Arc;

use futures::future::join_all;
use stile_domain::{Hold, Nonce, Step};
use stile_store::{
    Acceptance, Acquisition, Binding, Claim, NewTx, Recorded, Refusal, Renewal, Store, StoreError,
};

use crate::common::{
    A_NODE, Bench, HOLD, LEASE, RUN_OUT, bind, bind_new, bind_txs, change, claim_at, fresh,
    give_back, held, lane, named, new_tx, node, record, reissue, view, wait_until_blocked,
};

on_both_stores!(
    many_calls_at_once_each_have_their_own_answer,
    what_one_call_is_refused_harms_no_other,
    calls_on_other_terms_keep_their_own,
    claims_of_two_incarnations_in_one_call_stand_for_themselves,
    calls_for_one_lane_come_one_after_the_other,
    many_calls_about_transactions_at_once_each_have_their_own_answer,
);

/// Lanes with their cursors at 0.
async fn claims(store: &dyn Store, count: u32) -> Vec<Claim> {
    let a = node("a");
    let lanes: Vec<_> = (0..count).map(lane).collect();
    let mut claims = Vec::new();
    for answer in store.acquire(&a, &lanes, LEASE).await.unwrap() {
        let Acquisition::Held(held) = answer else { panic!("{answer:?}") };
        store.start_cursor(&a.node, &held.claim, 0.into(), LEASE).await.unwrap().unwrap();
        claims.push(held.claim);
    }
    claims
}

fn nonces(holds: &[Hold]) -> Vec<Nonce> {
    holds.iter().map(|hold| hold.nonce).collect()
}

async fn many_calls_at_once_each_have_their_own_answer(bench: Bench) {
    let store = &*bench.store;
    let claims = claims(store, 60).await;
    // Every fifth call is for two lanes, and all of them for one to three nonces of each.
    let calls: Vec<Vec<Binding>> = claims
        .chunks(5)
        .flat_map(|five| {
            let (pair, single) = five.split_at(2);
            std::iter::once(pair).chain(single.chunks(1))
        })
        .map(|claims| claims.iter().zip(1..).map(|(claim, n)| fresh(*claim, 0, n)).collect())
        .collect();
    let answers = join_all(calls.iter().map(|call| store.bind(call, LEASE, HOLD))).await;
    for (call, answer) in calls.iter().zip(answers) {
        for (binding, holds) in call.iter().zip(answer.unwrap()) {
            let holds = holds.unwrap();
            assert!(holds.iter().all(|hold| hold.lane == binding.claim.lane()));
            let ids: Vec<_> = binding.holds.iter().map(|hold| hold.id).collect();
            assert_eq!(holds.iter().map(|hold| hold.id).collect::<Vec<_>>(), ids);
            assert_eq!(nonces(&holds), binding.plan.nonces().collect::<Vec<_>>());
        }
    }
}

async fn what_one_call_is_refused_harms_no_other(bench: Bench) {
    let store = &*bench.store;
    let claims = claims(store, 30).await;
    let lost = bind(store, fresh(claims[3], 0, 1)).await.unwrap();
    bench.raw().await.plant(claims[7].lane(), 0, "tx", "HELD").await.unwrap();
    store.release(&claims[11..12]).await.unwrap();
    held(&*bench.second(), &node("b"), claims[11].lane(), LEASE).await;
    let calls: Vec<Binding> = claims
        .iter()
        .zip(0..)
        .map(|(claim, number)| match number {
            3 => reissue(*claim, 1, &lost),
            5 => fresh(*claim, 4, 1),
            _ => fresh(*claim, 0, 1),
        })
        .collect();
    let answers = join_all(calls.into_iter().map(|call| bind(store, call))).await;
    for (number, answer) in answers.iter().enumerate() {
        match (number, answer) {
            (3, Err(Refusal::RowLost))
            | (5, Err(Refusal::CursorMoved))
            | (7, Err(Refusal::Inconsistent(_)))
            | (11, Err(Refusal::Fenced(_))) => {}
            (3 | 5 | 7 | 11, other) => panic!("{number}: {other:?}"),
            (_, answer) => assert_eq!(nonces(answer.as_ref().unwrap()), [0], "{number}"),
        }
    }
}

async fn calls_on_other_terms_keep_their_own(bench: Bench) {
    let store = &*bench.store;
    let claims = claims(store, 12).await;
    let calls: Vec<_> = claims.iter().map(|claim| [fresh(*claim, 0, 1)]).collect();
    let answers = join_all(calls.iter().zip(0..).map(|(call, number)| {
        let hold_timeout = if number % 2 == 0 { HOLD } else { RUN_OUT };
        store.bind(call, LEASE, hold_timeout)
    }));
    for answer in answers.await {
        answer.unwrap()[0].as_ref().unwrap();
    }
    let lanes: Vec<_> = claims.iter().map(Claim::lane).collect();
    let run_out: Vec<_> = store.survey(&lanes).await.unwrap();
    assert_eq!(run_out.len(), 6, "half of the holds ran out: {run_out:?}");
}

async fn claims_of_two_incarnations_in_one_call_stand_for_themselves(bench: Bench) {
    let store = &*bench.store;
    let one = claim_at(store, &node("a"), lane(1), 0).await;
    let other = claim_at(store, &node("b"), lane(2), 0).await;
    let calls = [fresh(other, 0, 1), fresh(one, 0, 1)];
    for answer in store.bind(&calls, LEASE, HOLD).await.unwrap() {
        assert_eq!(nonces(&answer.unwrap()), [0]);
    }
    let renewed = store.renew(&[one, other], LEASE).await.unwrap();
    assert_eq!(renewed, [Renewal::Renewed, Renewal::Renewed]);
    assert_eq!(store.release(&[other, one]).await.unwrap(), [true, true]);
}

async fn calls_for_one_lane_come_one_after_the_other(bench: Bench) {
    let store = &*bench.store;
    let claim = claims(store, 1).await[0];
    // All of them planned from the same cursor: one wins, and the others are told.
    let calls = (0..20).map(|_| bind(store, fresh(claim, 0, 2)));
    let answers = join_all(calls).await;
    let won: Vec<_> = answers.iter().filter_map(|answer| answer.as_ref().ok()).collect();
    assert_eq!(won.len(), 1);
    assert_eq!(nonces(won[0]), [0, 1]);
    let refused = answers.iter().filter(|answer| **answer == Err(Refusal::CursorMoved)).count();
    assert_eq!(refused, 19);
    assert_eq!(view(store, lane(0)).await.next_nonce, Some(2));
    give_back(store, &won[0][0]).await;
}

async fn many_calls_about_transactions_at_once_each_have_their_own_answer(bench: Bench) {
    let store = &*bench.store;
    let claims = claims(store, 30).await;
    let calls = claims.iter().zip(0..).map(|(claim, number)| async move {
        let first = if number == 7 { 3 } else { 0 };
        let binding = bind_new(*claim, first, [new_tx(claim.lane()), new_tx(claim.lane())]);
        let txs = match bind_txs(store, binding.clone()).await {
            Err(Refusal::CursorMoved) if number == 7 => return,
            answer => answer.unwrap(),
        };
        for (tx, planned) in txs.iter().zip(&binding.txs) {
            assert_eq!((tx.lane, tx.tx_hash), (claim.lane(), Some(planned.attempt.hash)));
        }
        let mut changes: Vec<_> = txs.iter().map(|tx| change(tx, Step::Sent)).collect();
        changes[1].events = 9;
        let recorded = record(store, *claim, changes).await.unwrap();
        assert_eq!(recorded, [Recorded::Written { events: 3 }, Recorded::Lost], "{number}");
    });
    join_all(calls).await;
    let lanes: Vec<_> = claims.iter().map(Claim::lane).collect();
    assert_eq!(store.open_txs(&lanes).await.unwrap().len(), 58);
}

/// Two acceptances have both turns and wait for a lock, so the next two are gathered into one
/// transaction. One of them cannot be written, and the other one is not to suffer.
#[tokio::test]
async fn what_cannot_be_written_harms_nobody_that_it_was_gathered_with() {
    let bench = Bench::postgres().await;
    let (locker, observer) = (bench.raw().await, bench.raw().await);
    locker.execute("BEGIN; LOCK TABLE tx IN ACCESS EXCLUSIVE MODE").await;
    let accept = |new: NewTx| {
        let store = Arc::clone(&bench.store);
        tokio::spawn(async move { store.accept(&A_NODE, &[new]).await })
    };
    let first = [accept(new_tx(lane(1))), accept(new_tx(lane(1)))];
    wait_until_blocked(&observer, 2).await;
    let bad = accept(named(lane(1), &"x".repeat(300)));
    let good = accept(named(lane(1), "good"));
    // Both are on their way into the queue; nothing shows when they are there but that they run.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    locker.execute("COMMIT").await;
    let good = good.await.unwrap().unwrap().remove(0);
    assert!(matches!(good, Acceptance::New(_)), "{good:?}");
    let bad = bad.await.unwrap();
    assert!(matches!(bad, Err(StoreError::Constraint(_))), "{bad:?}");
    for first in first {
        assert_eq!(first.await.unwrap().unwrap().len(), 1);
    }
}
