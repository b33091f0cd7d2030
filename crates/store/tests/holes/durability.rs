//! A server that loses commits, and commits whose answer is lost.

use std::sync::Arc;

use serde_json::json;
use stile_domain::Step;
use stile_store::{Acceptance, Bindable, LaneChanges, Recorded, StoreError, open};

use crate::common::{
    A_NODE, Bench, HOLD, LEASE, accept_one, bind, bind_new, change, claim_at, fresh, lane, named,
    new_tx, node, view, wait_until_blocked,
};

#[tokio::test]
async fn hole_10_a_server_that_would_lose_commits_is_refused() {
    let bench = Bench::postgres().await;
    let raw = bench.raw().await;
    let database = raw.value("SELECT current_database()").await;
    raw.execute(&format!("ALTER DATABASE {database} SET synchronous_commit = off")).await;
    let store = bench.second();
    for answer in [
        store.ping().await,
        store.check_schema().await,
        store.migrate().await.map(drop),
        store.acquire(&node("a"), &[lane(1)], LEASE).await.map(drop),
    ] {
        assert!(matches!(answer, Err(StoreError::NotDurable)), "{answer:?}");
    }
    assert_eq!(raw.value("SELECT count(*) FROM lane").await, "0");
    raw.execute(&format!("ALTER DATABASE {database} SET synchronous_commit = on")).await;
    store.ping().await.unwrap();
}

#[tokio::test]
async fn hole_15_a_commit_whose_answer_is_lost_is_read_back() {
    let bench = Bench::postgres().await;
    let (proxy, options) = bench.proxied().await;
    let store = open(options).unwrap();
    let claim = claim_at(&*store, &node("a"), lane(1), 5).await;

    proxy.drop_next_response_containing(b"COMMIT\0");
    let binding = fresh(claim, 5, 2);
    let wanted: Vec<_> =
        binding.plan.nonces().zip(binding.holds.iter().map(|hold| hold.id)).collect();
    let unknown = store.bind(&[binding], LEASE, HOLD).await;
    assert!(matches!(unknown, Err(StoreError::CommitUnknown(_))), "{unknown:?}");
    assert_eq!(proxy.dropped_responses(), 1);

    let found = store.read_back(lane(1), &wanted).await.unwrap();
    let found: Vec<_> = found.iter().map(|hold| (hold.nonce, hold.id)).collect();
    assert_eq!(found, wanted, "it had been committed");
    assert_eq!(view(&*store, lane(1)).await.next_nonce, Some(7));
    assert_eq!(bind(&*store, fresh(claim, 7, 1)).await.unwrap()[0].nonce, 7);
}

#[tokio::test]
async fn hole_15_transactions_whose_commit_was_not_answered_are_read_back() {
    let bench = Bench::postgres().await;
    let (proxy, options) = bench.proxied().await;
    let store = &*open(options).unwrap();
    let claim = claim_at(store, &node("a"), lane(1), 5).await;

    proxy.drop_next_response_containing(b"COMMIT\0");
    let binding = bind_new(claim, 5, [new_tx(lane(1)), named(lane(1), "one")]);
    let wanted: Vec<_> = binding
        .txs
        .iter()
        .map(|tx| match &tx.what {
            Bindable::New(new) => new.id,
            Bindable::Waiting(id) => *id,
        })
        .collect();
    let unknown = store.bind_txs(&A_NODE, &[binding], LEASE).await;
    assert!(matches!(unknown, Err(StoreError::CommitUnknown(_))), "{unknown:?}");
    assert_eq!(proxy.dropped_responses(), 1);
    let found = store.read_back_txs(lane(1), &wanted).await.unwrap();
    let nonces: Vec<_> = found.iter().map(|tx| tx.as_ref().unwrap().nonce).collect();
    assert_eq!(nonces, [Some(5), Some(6)], "it had been committed");

    proxy.drop_next_response_containing(b"COMMIT\0");
    let bound = found[0].clone().unwrap();
    let sent = LaneChanges { claim, changes: vec![change(&bound, Step::Sent)] };
    let unknown = store.record(&A_NODE, std::slice::from_ref(&sent), LEASE).await;
    assert!(matches!(unknown, Err(StoreError::CommitUnknown(_))), "{unknown:?}");
    let found = store.read_back_txs(lane(1), &[bound.id]).await.unwrap().remove(0).unwrap();
    assert_eq!(found.events, 3, "it had been committed");
    let again = store.record(&A_NODE, &[sent], LEASE).await.unwrap();
    assert_eq!(again, [Ok(vec![Recorded::Lost])], "and is not written twice");
}

#[tokio::test]
async fn hole_15_an_acceptance_whose_commit_was_not_answered_is_asked_for_again() {
    let bench = Bench::postgres().await;
    let (proxy, options) = bench.proxied().await;
    let store = &*open(options).unwrap();
    store.ping().await.unwrap();
    for (new, number) in [new_tx(lane(1)), named(lane(1), "one")].into_iter().zip(1..) {
        proxy.drop_next_response_containing(b"COMMIT\0");
        let unknown = store.accept(&A_NODE, std::slice::from_ref(&new)).await;
        assert!(matches!(unknown, Err(StoreError::CommitUnknown(_))), "{unknown:?}");
        assert_eq!(proxy.dropped_responses(), number);
        let again = store.accept(&A_NODE, std::slice::from_ref(&new)).await.unwrap();
        let Acceptance::Existing(tx) = &again[0] else { panic!("written twice: {again:?}") };
        assert_eq!(tx.id, new.id);
    }
    assert_eq!(store.waiting(lane(1), 10).await.unwrap().len(), 2);
}

#[tokio::test]
async fn hole_15_reading_transactions_back_waits_for_a_commit_that_is_still_under_way() {
    let bench = Bench::postgres().await;
    claim_at(&*bench.store, &node("a"), lane(1), 0).await;
    let tx = accept_one(&*bench.store, new_tx(lane(1))).await;

    // A commit on its way: the lane's row is locked, and what is written is not to be seen yet.
    let (committing, observer) = (bench.raw().await, bench.raw().await);
    let this = committing.of(lane(1));
    committing
        .execute(&format!("BEGIN; UPDATE lane SET updated_at = clock_timestamp() WHERE {this}"))
        .await;
    committing.execute("UPDATE tx SET state = 'ALLOCATED', nonce = 0, events = 2").await;
    let reading = tokio::spawn({
        let store = Arc::clone(&bench.store);
        async move { store.read_back_txs(lane(1), &[tx.id]).await }
    });
    wait_until_blocked(&observer, 1).await;
    committing.execute("COMMIT").await;
    let found = reading.await.unwrap().unwrap().remove(0).unwrap();
    assert_eq!(found.nonce, Some(0));
}

/// A write of one statement travels with its commit, so even the answer to its beginning, when
/// lost, leaves open what became of it.
#[tokio::test]
async fn hole_15_a_write_of_which_no_answer_came_back_may_have_been_committed() {
    let bench = Bench::postgres().await;
    let (proxy, options) = bench.proxied().await;
    let store = open(options).unwrap();
    let a = node("a");
    let claim = claim_at(&*store, &a, lane(1), 0).await;
    for (what, number) in ["acquire", "pause", "renew"].into_iter().zip(1..) {
        proxy.drop_next_response_containing(b"BEGIN\0");
        let answer = match what {
            "acquire" => store.acquire(&a, &[lane(2)], LEASE).await.map(drop),
            "renew" => store.renew(&[claim], LEASE).await.map(drop),
            _ => store.pause(&A_NODE, lane(1), "by hand", &json!({})).await.map(drop),
        };
        assert_eq!(proxy.dropped_responses(), number);
        assert!(matches!(answer, Err(StoreError::CommitUnknown(_))), "{what}: {answer:?}");
    }
}

#[tokio::test]
async fn hole_15_reading_back_waits_for_a_commit_that_is_still_under_way() {
    let bench = Bench::postgres().await;
    let claim = claim_at(&*bench.store, &node("a"), lane(1), 0).await;
    let hold = bind(&*bench.store, fresh(claim, 0, 1)).await.unwrap().remove(0);

    // A commit on its way: the lane's row is locked, the hold is not to be seen yet.
    let (committing, observer) = (bench.raw().await, bench.raw().await);
    let this = committing.of(lane(1));
    let gone = format!(
        "UPDATE nonce SET status = 'CONSUMED' WHERE {this}; DELETE FROM nonce WHERE {this}"
    );
    committing.execute(&gone).await;
    committing
        .execute(&format!("BEGIN; UPDATE lane SET updated_at = clock_timestamp() WHERE {this}"))
        .await;
    let insert = format!(
        "INSERT INTO nonce VALUES ({}, {}, 0, 'hold', '{}', 'HELD', clock_timestamp(), NULL, NULL, 1,
                                   clock_timestamp(), clock_timestamp())",
        lane(1).chain,
        committing.bytes(lane(1).signer.as_slice()),
        hold.id
    );
    committing.execute(&insert).await;
    let reading = tokio::spawn({
        let store = Arc::clone(&bench.store);
        async move { store.read_back(lane(1), &[(0, hold.id)]).await }
    });
    wait_until_blocked(&observer, 1).await;
    committing.execute("COMMIT").await;
    assert_eq!(reading.await.unwrap().unwrap().len(), 1);
}

/// Calls wait for their turn before anything is sent. One whose caller has gone away by then must
/// not be written later, when that caller has long been told that it was not.
#[tokio::test]
async fn hole_15_a_call_that_is_dropped_before_its_turn_is_never_written() {
    const AT_ONCE: u32 = 2;
    let bench = Bench::postgres().await;
    let store = &*bench.store;
    let (a, blocker, observer) = (node("a"), bench.raw().await, bench.raw().await);
    let waits = claim_at(store, &a, lane(0), 0).await;
    let mut busy = Vec::new();
    for number in 1..=AT_ONCE {
        busy.push(claim_at(store, &a, lane(number), 0).await);
    }
    blocker.execute("BEGIN; SELECT 1 FROM lane FOR UPDATE").await;
    let writing = busy.into_iter().map(|claim| {
        let store = Arc::clone(&bench.store);
        tokio::spawn(async move { bind(&*store, fresh(claim, 0, 1)).await })
    });
    let writing: Vec<_> = writing.collect();
    wait_until_blocked(&observer, AT_ONCE as usize).await;
    let mut dropped = Box::pin(bind(store, fresh(waits, 0, 1)));
    assert!(futures::poll!(&mut dropped).is_pending());
    drop(dropped);
    blocker.execute("COMMIT").await;
    for written in writing {
        written.await.unwrap().unwrap();
    }

    let next = bind(store, fresh(waits, 0, 1)).await.unwrap();
    let of_lane = format!("SELECT owner_id FROM nonce WHERE {}", observer.of(lane(0)));
    assert_eq!(observer.rows(&of_lane).await, [[next[0].id.to_string()]]);
}
