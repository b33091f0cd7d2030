//! Hole 15: idempotency keys of allocations.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::join_all;
use stile_chain::BlockTag;
use stile_domain::{B256, Hold, HoldStatus, Lane};
use stile_engine::{ChainQuery, Node, NonceError, Settings};
use stile_store::{AllocationKey, StoreError};
use testkit::eventually;

use crate::common::{
    Bench, Chain, LANE, Lost, Spy, accounted, in_clusters, in_every_setup, key, lane, ledger, on,
    status,
};

in_every_setup!(
    hole_15_a_key_answers_with_its_hold_as_it_stands,
    hole_15_two_tenants_do_not_share_keys,
    hole_15_a_commit_without_an_answer_is_found_by_its_key,
    hole_15_calls_with_one_key_that_wait_for_a_lanes_start_are_all_answered,
);

in_clusters!(
    hole_15_a_hundred_calls_with_one_key_on_two_nodes_get_one_hold,
    hole_15_a_node_that_does_not_hold_the_lane_answers_repeated_keys,
    hole_15_a_key_served_elsewhere_while_the_lane_changed_hands_is_not_served_twice,
);

/// Asks one node, and the other one if the first says that it does not hold the lane.
async fn at_holder(nodes: [&Node; 2], lane: Lane, key: AllocationKey) -> Hold {
    let mut turn = nodes.into_iter().cycle();
    loop {
        let node = turn.next().expect("a cycle");
        match node.nonces().allocate_once(lane, key.clone()).await {
            Ok(hold) => return hold,
            Err(NonceError::NotHolder { .. } | NonceError::Fenced { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

async fn hole_15_a_hundred_calls_with_one_key_on_two_nodes_get_one_hold(bench: Bench) {
    let (a, b) = (bench.start("a").await, bench.start("b").await);
    let calls = (0..100).map(|number| {
        let nodes = if number % 2 == 0 { [&a, &b] } else { [&b, &a] };
        at_holder(nodes, lane(LANE), key("shop", "order 7"))
    });
    let holds = join_all(calls).await;
    assert!(holds.iter().all(|hold| hold == &holds[0]), "{holds:?}");
    assert_eq!(ledger(&*bench.store, lane(LANE)).await, holds[..1]);
}

async fn hole_15_a_node_that_does_not_hold_the_lane_answers_repeated_keys(bench: Bench) {
    let (a, b) = (bench.start("a").await, bench.start("b").await);
    let hold = a.nonces().allocate_once(lane(LANE), key("shop", "order 7")).await.unwrap();
    let repeated = b.nonces().allocate_once(lane(LANE), key("shop", "order 7")).await.unwrap();
    assert_eq!(repeated, hold);
    let other = b.nonces().allocate_once(lane(LANE), key("shop", "order 8")).await;
    assert!(matches!(other, Err(NonceError::NotHolder { .. })), "{other:?}");
}

async fn hole_15_a_key_served_elsewhere_while_the_lane_changed_hands_is_not_served_twice(
    bench: Bench,
) {
    let a = bench.start("a").await;
    let (b, spy) = bench.start_spied(bench.settings("b")).await;
    let first = a.nonces().allocate(lane(LANE)).await.unwrap();
    // The second node finds the key unused, and is about to ask for the lane.
    spy.acquires.close();
    let mut call = Box::pin(b.nonces().allocate_once(lane(LANE), key("shop", "order 7")));
    assert!(futures::poll!(&mut call).is_pending());
    until_acquired(&spy, "acquire", 1).await;
    let hold = a.nonces().allocate_once(lane(LANE), key("shop", "order 7")).await.unwrap();
    a.shutdown().await;
    spy.acquires.open();
    assert_eq!(call.await.expect("the key's hold"), hold);
    let next = b.nonces().allocate(lane(LANE)).await.unwrap();
    accounted(&*bench.store, lane(LANE), 0, &[first, hold, next]).await;
}

async fn hole_15_a_key_answers_with_its_hold_as_it_stands(bench: Bench) {
    let node = bench.start("a").await;
    let component = node.nonces();
    let hold = component.allocate_once(lane(LANE), key("shop", "order 7")).await.unwrap();
    let used = component.mark_used(&hold, B256::repeat_byte(7)).await.unwrap();
    assert_eq!(used.status, HoldStatus::Consumed);
    let again = component.allocate_once(lane(LANE), key("shop", "order 7")).await.unwrap();
    assert_eq!(again, used);
    assert_eq!(again.tx_hash, Some(B256::repeat_byte(7)));

    let back = component.allocate_once(lane(LANE), key("shop", "order 8")).await.unwrap();
    component.mark_recyclable(&back, "not sent").await.unwrap();
    let again = component.allocate_once(lane(LANE), key("shop", "order 8")).await.unwrap();
    assert_eq!((again.id, again.status), (back.id, HoldStatus::Released));
}

async fn hole_15_two_tenants_do_not_share_keys(bench: Bench) {
    let node = bench.start("a").await;
    let keys = [key("shop", "order 7"), key("bank", "order 7")];
    let calls = keys.iter().cycle().take(20);
    let calls = calls.map(|key| node.nonces().allocate_once(lane(LANE), key.clone()));
    let holds: Vec<Hold> = join_all(calls).await.into_iter().map(Result::unwrap).collect();
    let (shop, bank) = (&holds[0], &holds[1]);
    assert_ne!(shop.id, bank.id);
    assert_ne!(shop.nonce, bank.nonce);
    for (place, hold) in holds.iter().enumerate() {
        assert_eq!(hold, [shop, bank][place % 2]);
    }
    let elsewhere = node.nonces().allocate_once(lane(2), keys[0].clone()).await.unwrap();
    assert_eq!(elsewhere.nonce, 0);
    assert_ne!(elsewhere.id, shop.id);
}

async fn hole_15_calls_with_one_key_that_wait_for_a_lanes_start_are_all_answered(bench: Bench) {
    let (chain, spy) = (Arc::new(Chain::default()), Spy::on(bench.database.open()));
    chain.hang(lane(LANE));
    let settings =
        Settings { chain_query: ChainQuery::Enabled(BlockTag::Latest), ..bench.settings("a") };
    let node = Node::start(settings, Arc::clone(&spy) as _, Arc::clone(&chain) as _).await.unwrap();
    let call = || {
        let mut call = Box::pin(node.nonces().allocate_once(lane(LANE), key("shop", "order 7")));
        assert!((&mut call).now_or_never().is_none());
        call
    };
    // The first on its own, the others together behind it: all of them wait for the chain.
    spy.acquires.close();
    let mut calls = vec![call()];
    until_acquired(&spy, "acquire", 1).await;
    calls.extend((0..4).map(|_| call()));
    spy.acquires.open();
    until_acquired(&spy, "acquired", 2).await;
    chain.answer(lane(LANE));
    let holds: Vec<Hold> = join_all(calls).await.into_iter().map(|call| call.unwrap()).collect();
    assert!(holds.iter().all(|hold| hold == &holds[0]), "{holds:?}");
    accounted(&*bench.store, lane(LANE), 0, &holds[..1]).await;
}

async fn until_acquired(spy: &Spy, call: &'static str, count: usize) {
    eventually("the lane to be asked for", async || (spy.calls(call) >= count).then_some(())).await;
}

async fn hole_15_a_commit_without_an_answer_is_found_by_its_key(bench: Bench) {
    let (node, spy) = bench.start_spied(bench.settings("a")).await;
    let first = node.nonces().allocate(lane(LANE)).await.unwrap();
    spy.lose_next(Lost::Answer);
    spy.before_next_read_back(|| Box::pin(async { Some(StoreError::Unavailable("away".into())) }));
    let lost = node.nonces().allocate_once(lane(LANE), key("shop", "order 7")).await;
    assert!(matches!(lost, Err(NonceError::StoreUnavailable(_))), "{lost:?}");
    assert!(lost.unwrap_err().retry_after().is_some());
    let found = node.nonces().allocate_once(lane(LANE), key("shop", "order 7")).await.unwrap();
    assert_eq!(found.nonce, 1);
    assert_eq!(node.shutdown().await, 0);
    assert_eq!(status(&*bench.store, &found).await, HoldStatus::Held);
    accounted(&*bench.store, lane(LANE), 0, &[first, found]).await;
}
