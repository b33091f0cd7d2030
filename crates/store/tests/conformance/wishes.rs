//! What callers want of their transactions afterwards.

use stile_domain::{EventKind, Fees, Outcome, Step, SubState, Successor, TxState};
use stile_store::{Refusal, Set, TxChange, Wish, WishEnd, Withdrawal};

use crate::common::{
    A_NODE, Bench, accept_one, bind_txs, bound, change, claim_at, kinds, lane, lanes, lose, new_tx,
    node, read_tx, record_one, rival, steps, tx_id, view, waiting_binding,
};

on_both_stores!(
    what_has_no_nonce_is_withdrawn_by_any_node,
    what_was_withdrawn_gets_no_nonce,
    what_has_a_nonce_is_not_withdrawn,
    what_was_refused_is_not_withdrawn,
    of_a_withdrawal_and_a_binding_one_wins,
    a_wish_is_left_in_place_of_an_earlier_one,
    a_wish_is_no_change_of_the_transaction,
    a_wish_is_left_only_on_what_is_on_its_way,
    a_wish_is_over_when_it_was_seen_to,
    wishes_are_found_by_lane,
);

const HIGHER: Fees = Fees::Legacy { gas_price: u128::MAX };

async fn what_has_no_nonce_is_withdrawn_by_any_node(bench: Bench) {
    let store = &*bench.store;
    let tx = accept_one(store, new_tx(lane(1))).await;
    let other = stile_domain::NodeId("other".into());
    let done = bench.second().withdraw(&other, tx.id).await.unwrap();
    let Withdrawal::Done(withdrawn) = done else { panic!("{done:?}") };
    assert_eq!(withdrawn, read_tx(store, tx.id).await);
    assert_eq!(withdrawn.standing.state, TxState::Failed);
    assert_eq!(withdrawn.standing.sub_state, Some(SubState::Cancelled));
    assert_eq!((withdrawn.nonce, withdrawn.events), (None, 2));
    let entry = store.history(tx.id).await.unwrap().pop().unwrap();
    assert_eq!((entry.seq, entry.kind, entry.state), (2, EventKind::Cancelled, TxState::Failed));
    assert_eq!((entry.sub_state, entry.fencing_token), (Some(SubState::Cancelled), None));
    assert_eq!((entry.node, entry.at), (other, withdrawn.updated_at));

    let again = store.withdraw(&A_NODE, tx.id).await.unwrap();
    assert_eq!(again, Withdrawal::Done(withdrawn), "once is enough");
    assert_eq!(store.history(tx.id).await.unwrap().len(), 2);
    assert_eq!(store.withdraw(&A_NODE, tx_id()).await.unwrap(), Withdrawal::NotFound);
}

async fn what_was_withdrawn_gets_no_nonce(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let tx = accept_one(store, new_tx(lane(1))).await;
    store.withdraw(&A_NODE, tx.id).await.unwrap();
    assert!(store.waiting(lane(1), 9).await.unwrap().is_empty());
    let refused = bind_txs(store, waiting_binding(claim, 0, [&tx])).await;
    assert_eq!(refused, Err(Refusal::RowLost));
    assert_eq!(view(store, lane(1)).await.queued, 0);
    bound(store, claim, 0).await;
}

async fn what_has_a_nonce_is_not_withdrawn(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let mut tx = bound(store, claim, 0).await;
    let all = [None, Some(Step::Sent), Some(Step::Mined(Outcome::Success)), Some(Step::Final)];
    for step in all {
        if let Some(step) = step {
            tx = steps(store, claim, &tx, &[step]).await;
        }
        let late = store.withdraw(&A_NODE, tx.id).await.unwrap();
        assert_eq!(late, Withdrawal::TooLate(tx.clone()));
    }
    // One whose caller's cancellation won on the chain had a nonce too.
    let tx = bound(store, claim, 1).await;
    let mut cancelled = change(&tx, Step::Superseded(Successor::Cancel));
    cancelled.rival = Set::To(rival(Successor::Cancel, 10));
    let cancelled = record_one(store, claim, cancelled).await;
    assert_eq!(cancelled.standing.sub_state, Some(SubState::Cancelled));
    let late = store.withdraw(&A_NODE, tx.id).await.unwrap();
    assert_eq!(late, Withdrawal::TooLate(cancelled));
}

async fn what_was_refused_is_not_withdrawn(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let tx = accept_one(store, new_tx(lane(1))).await;
    let refused = steps(store, claim, &tx, &[Step::Refused]).await;
    let late = store.withdraw(&A_NODE, tx.id).await.unwrap();
    assert_eq!(late, Withdrawal::TooLate(refused));
    assert_eq!(kinds(store, tx.id).await, [EventKind::Accepted, EventKind::Rejected]);
}

async fn of_a_withdrawal_and_a_binding_one_wins(bench: Bench) {
    let store = &*bench.store;
    let other = bench.second();
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    for _ in 0..30 {
        let cursor = view(store, lane(1)).await.next_nonce.unwrap();
        let tx = accept_one(store, new_tx(lane(1))).await;
        let binding = waiting_binding(claim, cursor, [&tx]);
        let (bound, withdrawn) =
            tokio::join!(bind_txs(store, binding), other.withdraw(&A_NODE, tx.id));
        match (bound, withdrawn.unwrap()) {
            (Ok(txs), Withdrawal::TooLate(found)) => assert_eq!(found, txs[0]),
            (Err(Refusal::RowLost), Withdrawal::Done(found)) => {
                assert_eq!(found.nonce, None);
                assert_eq!(view(store, lane(1)).await.next_nonce, Some(cursor));
            }
            both => panic!("{both:?}"),
        }
        assert_eq!(store.history(tx.id).await.unwrap().len(), 2);
    }
}

async fn a_wish_is_left_in_place_of_an_earlier_one(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let tx = bound(store, claim, 0).await;
    for wish in [Wish::SpeedUp(None), Wish::SpeedUp(Some(HIGHER)), Wish::Cancel] {
        let left = bench.second().wish(tx.id, &wish).await.unwrap().unwrap();
        assert_eq!(left.wish, Some(wish));
        assert_eq!(read_tx(store, tx.id).await, left);
        assert_eq!(store.wishes(&[lane(1)]).await.unwrap(), [(lane(1), tx.id, wish)]);
    }
    assert_eq!(store.wish(tx_id(), &Wish::Cancel).await.unwrap(), None);
}

async fn a_wish_is_no_change_of_the_transaction(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let tx = bound(store, claim, 0).await;
    let left = store.wish(tx.id, &Wish::Cancel).await.unwrap().unwrap();
    assert_eq!(left, stile_store::Tx { wish: Some(Wish::Cancel), ..tx.clone() });
    assert_eq!(store.history(tx.id).await.unwrap().len(), 2);
    // What was decided before it is recorded all the same, and the wish stays.
    let sent = steps(store, claim, &tx, &[Step::Sent]).await;
    assert_eq!(sent.wish, Some(Wish::Cancel));
}

async fn a_wish_is_left_only_on_what_is_on_its_way(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let waits = accept_one(store, new_tx(lane(1))).await;
    let unchanged = async |tx: &stile_store::Tx| {
        let answer = store.wish(tx.id, &Wish::Cancel).await.unwrap();
        assert_eq!(answer.as_ref(), Some(tx));
    };
    unchanged(&waits).await;
    bind_txs(store, waiting_binding(claim, 0, [&waits])).await.unwrap();
    let tx = bound(store, claim, 1).await;
    let mined = steps(store, claim, &tx, &[Step::Mined(Outcome::Success)]).await;
    unchanged(&mined).await;
    unchanged(&steps(store, claim, &mined, &[Step::Final]).await).await;
    let other = bound(store, claim, 2).await;
    let mut overtaken = change(&other, Step::Overtaken(Successor::Outsider));
    overtaken.rival = Set::To(rival(Successor::Outsider, 10));
    let overtaken = record_one(store, claim, overtaken).await;
    unchanged(&overtaken).await;
    unchanged(&lose(store, claim, &bound(store, claim, 3).await, 10).await).await;
    assert!(store.wishes(&[lane(1)]).await.unwrap().is_empty());
}

async fn a_wish_is_over_when_it_was_seen_to(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let tx = bound(store, claim, 0).await;
    store.wish(tx.id, &Wish::Cancel).await.unwrap();
    let seen = |wish| TxChange { wish, ..TxChange::new(tx.id, tx.events, tx.standing) };
    // Another one was left meanwhile: that one is to be seen to as well.
    let faster = record_one(store, claim, seen(WishEnd::Granted(Wish::SpeedUp(None)))).await;
    assert_eq!(faster.wish, Some(Wish::Cancel));
    assert_eq!(record_one(store, claim, seen(WishEnd::Granted(Wish::Cancel))).await, tx);
    assert!(store.wishes(&[lane(1)]).await.unwrap().is_empty());
    let fees = Fees::Legacy { gas_price: 7 };
    store.wish(tx.id, &Wish::SpeedUp(Some(fees))).await.unwrap();
    assert!(record_one(store, claim, seen(WishEnd::Keep)).await.wish.is_some());
    assert_eq!(record_one(store, claim, seen(WishEnd::Over)).await, tx);
}

async fn wishes_are_found_by_lane(bench: Bench) {
    let store = &*bench.store;
    let a = node("a");
    let [one, two, three] = lanes();
    let mut wished = Vec::new();
    for lane in [one, two, three] {
        let claim = claim_at(store, &a, lane, 0).await;
        for nonce in 0..3 {
            let tx = bound(store, claim, nonce).await;
            if nonce > 0 {
                store.wish(tx.id, &Wish::Cancel).await.unwrap();
                wished.push((lane, tx.id, Wish::Cancel));
            }
        }
    }
    assert_eq!(store.wishes(&[two, one]).await.unwrap(), wished[..4]);
    assert_eq!(store.wishes(&[three]).await.unwrap(), wished[4..]);
    assert!(store.wishes(&[lane(9)]).await.unwrap().is_empty());
}
