//! Commits whose fate is unknown, and a database that goes away.

use std::sync::Arc;

use futures::future::join_all;
use stile_domain::{Hold, HoldStatus};
use stile_engine::{Node, NonceError};
use stile_store::StoreError;
use testkit::eventually;

use crate::common::{
    Bench, Chain, LANE, Lost, Spy, accounted, in_clusters, in_every_setup, lane, ledger, nonces,
    on, once_reachable, view,
};

in_every_setup!(
    a_commit_whose_answer_was_lost_is_read_back,
    a_commit_that_did_not_happen_is_made_again,
    a_commit_that_cannot_be_read_back_is_taken_back_later,
);

in_clusters!(
    lost_answers_of_a_real_server_lose_no_nonce_and_give_none_twice,
    an_answer_lost_together_with_the_server_is_taken_back_later,
    a_database_that_is_away_is_told_at_once_and_found_again,
);

async fn a_commit_whose_answer_was_lost_is_read_back(bench: Bench) {
    let (node, spy) = bench.start_spied(bench.settings("a")).await;
    let first = node.nonces().allocate(lane(LANE)).await.unwrap();
    spy.lose_next(Lost::Answer);
    let second = node.nonces().allocate(lane(LANE)).await.expect("the nonce it was given");
    let third = node.nonces().allocate(lane(LANE)).await.unwrap();
    assert_eq!([first.nonce, second.nonce, third.nonce], [0, 1, 2]);
    assert_eq!(spy.unknown_binds(), 1);
    assert_eq!(node.shutdown().await, 0);
    let rows = ledger(&*bench.store, lane(LANE)).await;
    assert!(rows.iter().all(|row| row.status == HoldStatus::Held), "{rows:?}");
    accounted(&*bench.store, lane(LANE), 0, &[first, second, third]).await;
}

async fn a_commit_that_did_not_happen_is_made_again(bench: Bench) {
    let (node, spy) = bench.start_spied(bench.settings("a")).await;
    let mut holds = vec![node.nonces().allocate(lane(LANE)).await.unwrap()];
    for _ in 0..2 {
        spy.lose_next(Lost::Commit);
    }
    let calls = (0..20).map(|_| node.nonces().allocate(lane(LANE)));
    holds.extend(join_all(calls).await.into_iter().map(|answer| answer.expect("a nonce")));
    assert_eq!(spy.unknown_binds(), 2);
    assert_eq!(nonces(&holds), (0..21).collect::<Vec<_>>());
    accounted(&*bench.store, lane(LANE), 0, &holds).await;
}

async fn a_commit_that_cannot_be_read_back_is_taken_back_later(bench: Bench) {
    let (node, spy) = bench.start_spied(bench.settings("a")).await;
    let first = node.nonces().allocate(lane(LANE)).await.unwrap();
    spy.lose_next(Lost::Answer);
    spy.before_next_read_back(|| {
        Box::pin(async { Some(StoreError::Unavailable("told to be away".into())) })
    });
    let unknown = node.nonces().allocate(lane(LANE)).await.unwrap_err();
    assert!(matches!(unknown, NonceError::StoreUnavailable(_)), "{unknown}");
    assert!(unknown.retry_after().is_some());
    let third = node.nonces().allocate(lane(LANE)).await.unwrap();
    assert_eq!(third.nonce, 2);
    gap_is_closed(&bench, &node, 1, vec![first, third]).await;
}

/// Waits until a nonce that nobody was told of is given out again.
async fn gap_is_closed(bench: &Bench, node: &Node, lost: u64, mut told: Vec<Hold>) {
    let what = format!("nonce {lost} to be released");
    eventually(&what, async || {
        (view(&*bench.store, lane(LANE)).await.gaps == [lost]).then_some(())
    })
    .await;
    eventually("it to be given out again", async || {
        let hold = node.nonces().allocate(lane(LANE)).await.unwrap();
        let found = hold.nonce == lost;
        told.push(hold);
        found.then_some(())
    })
    .await;
    accounted(&*bench.store, lane(LANE), 0, &told).await;
}

async fn lost_answers_of_a_real_server_lose_no_nonce_and_give_none_twice(bench: Bench) {
    let (proxy, store) = bench.database.open_proxied().await;
    let spy = Spy::on(store);
    let chain = Arc::new(Chain::default());
    let node = Node::start(bench.settings("a"), Arc::clone(&spy) as _, chain).await.unwrap();
    let mut holds = vec![node.nonces().allocate(lane(LANE)).await.unwrap()];
    // Some commits lost may be those of background work; go on until five were ours.
    while spy.unknown_binds() < 5 {
        assert!(holds.len() < 1000, "commits are lost, but none of ours");
        proxy.drop_next_response_containing(b"COMMIT\0");
        let calls = (0..3).map(|_| node.nonces().allocate(lane(LANE)));
        for answer in join_all(calls).await {
            holds.push(answer.expect("a nonce, whatever became of the answer"));
        }
    }
    assert!(proxy.dropped_responses() >= 5);
    assert_eq!(node.shutdown().await, 0);
    let rows = ledger(&*bench.store, lane(LANE)).await;
    assert!(rows.iter().all(|row| row.status == HoldStatus::Held), "{rows:?}");
    assert_eq!(nonces(&holds), (0..holds.len() as u64).collect::<Vec<_>>());
    accounted(&*bench.store, lane(LANE), 0, &holds).await;
}

async fn an_answer_lost_together_with_the_server_is_taken_back_later(bench: Bench) {
    let (proxy, store) = bench.database.open_proxied().await;
    let (proxy, spy) = (Arc::new(proxy), Spy::on(store));
    let chain = Arc::new(Chain::default());
    let node = Node::start(bench.settings("a"), Arc::clone(&spy) as _, chain).await.unwrap();
    let first = node.nonces().allocate(lane(LANE)).await.unwrap();
    spy.lose_next(Lost::Answer);
    let cut = Arc::clone(&proxy);
    spy.before_next_read_back(move || {
        Box::pin(async move {
            cut.cut().await;
            None
        })
    });
    let unknown = node.nonces().allocate(lane(LANE)).await.unwrap_err();
    assert!(matches!(unknown, NonceError::StoreUnavailable(_)), "{unknown}");
    proxy.heal().await;
    let third = once_reachable(&node, lane(LANE)).await.unwrap();
    assert_eq!(third.nonce, 2);
    gap_is_closed(&bench, &node, 1, vec![first, third]).await;
}

async fn a_database_that_is_away_is_told_at_once_and_found_again(bench: Bench) {
    let (proxy, store) = bench.database.open_proxied().await;
    let chain = Arc::new(Chain::default());
    let node = Node::start(bench.settings("a"), store, chain).await.unwrap();
    let mut holds = vec![node.nonces().allocate(lane(LANE)).await.unwrap()];
    for _ in 0..3 {
        proxy.cut().await;
        let calls = (0..5).map(|_| node.nonces().allocate(lane(LANE)));
        for answer in join_all(calls).await {
            let error = answer.expect_err("no nonce from memory");
            assert!(matches!(error, NonceError::StoreUnavailable(_)), "{error}");
            assert!(error.retry_after().is_some());
        }
        assert!(node.ready().await.is_err());
        proxy.heal().await;
        holds.push(once_reachable(&node, lane(LANE)).await.expect("found again"));
        eventually("the node to be ready", async || node.ready().await.ok()).await;
    }
    assert_eq!(node.shutdown().await, 0);
    assert_eq!(nonces(&holds), (0..4).collect::<Vec<_>>());
    accounted(&*bench.store, lane(LANE), 0, &holds).await;
}
