//! Acceptance and its idempotency.

use futures::future::join_all;
use stile_domain::{EventKind, Payload, Standing, TxState, request_hash};
use stile_store::{Acceptance, NewTx, StoreError};

use crate::common::{
    A_NODE, Bench, accept, accept_one, bind_new, bind_txs, claim_at, created, lane, named, new_tx,
    node, read_tx,
};

on_both_stores!(
    what_is_accepted_waits_and_can_be_read,
    positions_follow_the_list,
    the_same_request_id_is_answered_with_what_took_it,
    two_of_one_list_with_one_request_id,
    a_request_id_counts_once_per_tenant_and_lane,
    without_a_request_id_nothing_is_the_same,
    a_hundred_calls_with_one_request_id_make_one_transaction,
    lists_that_overlap_do_not_deadlock,
    an_acceptance_that_is_asked_for_again_is_found_by_its_name,
    a_request_id_that_is_too_long_is_refused_as_a_whole,
);

async fn what_is_accepted_waits_and_can_be_read(bench: Bench) {
    let store = &*bench.store;
    let new = NewTx { gas_limit: Some(90_000), ..named(lane(1), "one") };
    let tx = accept_one(store, new.clone()).await;
    assert_eq!((tx.id, tx.lane, &tx.tenant), (new.id, lane(1), &new.tenant));
    assert_eq!((&tx.payload, tx.request_hash), (&new.payload, new.request_hash));
    assert_eq!((tx.finality, tx.gas_limit), (new.finality, Some(90_000)));
    assert_eq!((tx.standing, tx.nonce, tx.events), (Standing::CREATED, None, 1));
    assert_eq!(read_tx(store, new.id).await, tx, "answered as it is stored");

    let history = store.history(new.id).await.unwrap();
    assert_eq!(history.len(), 1);
    let entry = &history[0];
    assert_eq!((entry.seq, entry.kind, entry.state), (1, EventKind::Accepted, TxState::Created));
    assert_eq!((&entry.node, entry.fencing_token), (&*A_NODE, None));
    assert_eq!((entry.tx, entry.lane, &entry.tenant), (tx.id, tx.lane, &tx.tenant));
    assert_eq!(entry.at, tx.created_at);
    assert!(store.attempts(new.id).await.unwrap().is_empty());
    assert!(accept(store, &[]).await.is_empty());
}

async fn positions_follow_the_list(bench: Bench) {
    let store = &*bench.store;
    let names = ["z", "a", "m", "b", "y"];
    let txs: Vec<_> = names.iter().map(|name| named(lane(1), name)).collect();
    let accepted: Vec<_> = accept(store, &txs).await.into_iter().map(created).collect();
    assert!(accepted.is_sorted_by_key(|tx| tx.position), "{accepted:?}");
    let waiting = store.waiting(lane(1), 10).await.unwrap();
    assert_eq!(waiting, accepted, "oldest first, in the order of the list");
}

async fn the_same_request_id_is_answered_with_what_took_it(bench: Bench) {
    let store = &*bench.store;
    let first = accept_one(store, named(lane(1), "one")).await;
    let again = accept(&*bench.second(), &[named(lane(1), "one")]).await;
    assert_eq!(again, [Acceptance::Existing(first.clone())]);

    let payload = Payload { data: b"something else".to_vec().into(), ..Payload::default() };
    let hash = request_hash(&payload, None);
    let other = NewTx { payload, request_hash: hash, ..named(lane(1), "one") };
    let answer = accept(store, &[other, new_tx(lane(1))]).await;
    assert_eq!(answer[0], Acceptance::Existing(first.clone()), "and the caller compares hashes");
    assert_ne!(first.request_hash, hash);
    assert!(matches!(answer[1], Acceptance::New(_)), "the other one is not harmed");

    // However far the first one has come since.
    let claim = claim_at(store, &node("a"), lane(2), 0).await;
    let bound = bind_txs(store, bind_new(claim, 0, [named(lane(2), "one")])).await.unwrap();
    let again = accept(store, &[named(lane(2), "one")]).await;
    assert_eq!(again, [Acceptance::Existing(bound[0].clone())]);
}

async fn two_of_one_list_with_one_request_id(bench: Bench) {
    let store = &*bench.store;
    let txs = [named(lane(1), "b"), named(lane(1), "a"), named(lane(1), "b"), named(lane(2), "b")];
    let answers = accept(store, &txs).await;
    let first = created(answers[0].clone());
    assert_eq!(first.id, txs[0].id, "the first wins");
    assert_eq!(answers[2], Acceptance::Existing(first));
    assert_eq!(created(answers[1].clone()).id, txs[1].id);
    assert_eq!(created(answers[3].clone()).id, txs[3].id);
    assert!(store.txs(&[txs[2].id]).await.unwrap()[0].is_none());
}

async fn a_request_id_counts_once_per_tenant_and_lane(bench: Bench) {
    let store = &*bench.store;
    let mine = named(lane(1), "one");
    let theirs = NewTx { tenant: "bank".into(), ..named(lane(1), "one") };
    let elsewhere = named(lane(2), "one");
    let accepted: Vec<_> =
        accept(store, &[mine, theirs, elsewhere]).await.into_iter().map(created).collect();
    let ids = ["one".to_owned(), "two".to_owned()];
    let found = store.txs_by_request("bank", lane(1), &ids).await.unwrap();
    assert_eq!(found, [Some(accepted[1].clone()), None]);
    let found = store.txs_by_request("shop", lane(2), &ids).await.unwrap();
    assert_eq!(found, [Some(accepted[2].clone()), None]);
    assert_eq!(store.txs_by_request("bank", lane(2), &ids).await.unwrap(), [None, None]);
}

async fn without_a_request_id_nothing_is_the_same(bench: Bench) {
    let store = &*bench.store;
    let txs = [new_tx(lane(1)), new_tx(lane(1)), new_tx(lane(1))];
    for answer in accept(store, &txs).await {
        created(answer);
    }
    assert_eq!(store.waiting(lane(1), 10).await.unwrap().len(), 3);
}

async fn a_hundred_calls_with_one_request_id_make_one_transaction(bench: Bench) {
    let stores = [bench.second(), bench.second()];
    let calls = (0..100).map(|number| {
        let store = &stores[number % 2];
        async move { accept(&**store, &[named(lane(1), "one")]).await.remove(0) }
    });
    let answers = join_all(calls).await;
    let new: Vec<_> = answers.iter().filter(|it| matches!(it, Acceptance::New(_))).collect();
    assert_eq!(new.len(), 1);
    let tx = created(new[0].clone());
    for answer in &answers {
        assert!(matches!(answer, Acceptance::New(it) | Acceptance::Existing(it) if *it == tx));
    }
    assert_eq!(bench.store.waiting(lane(1), 10).await.unwrap(), [tx]);
}

async fn lists_that_overlap_do_not_deadlock(bench: Bench) {
    let stores = [bench.second(), bench.second()];
    for round in 0..4 {
        let mut names: Vec<String> = (0..200).map(|number| format!("{round}-{number}")).collect();
        let mut calls = Vec::new();
        for number in 0..8 {
            names.rotate_left(30);
            names.reverse();
            let txs: Vec<_> = names.iter().map(|name| named(lane(1), name)).collect();
            let store = &stores[number % 2];
            calls.push(async move { accept(&**store, &txs).await });
        }
        let answers = join_all(calls).await.concat();
        let new = answers.iter().filter(|answer| matches!(answer, Acceptance::New(_))).count();
        assert_eq!(new, 200);
    }
}

async fn an_acceptance_that_is_asked_for_again_is_found_by_its_name(bench: Bench) {
    let store = &*bench.store;
    for new in [new_tx(lane(1)), named(lane(1), "one")] {
        let tx = accept_one(store, new.clone()).await;
        assert_eq!(accept(store, &[new]).await, [Acceptance::Existing(tx)]);
    }
}

async fn a_request_id_that_is_too_long_is_refused_as_a_whole(bench: Bench) {
    let store = &*bench.store;
    let txs = [new_tx(lane(1)), named(lane(1), &"x".repeat(256))];
    let refused = store.accept(&A_NODE, &txs).await;
    assert!(matches!(refused, Err(StoreError::Constraint(_))), "{refused:?}");
    assert!(store.waiting(lane(1), 10).await.unwrap().is_empty(), "nothing was written");
    accept_one(store, named(lane(1), &"x".repeat(255))).await;
}
