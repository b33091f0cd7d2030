//! Hole 16a: a nonce is planned in memory while another path moves the cursor.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::join_all;
use stile_chain::BlockTag;
use stile_domain::Hold;
use stile_engine::{ChainQuery, NonceComponent, NonceError, Settings};
use testkit::{DEADLINE, eventually};
use tokio::time::timeout;

use crate::common::{Bench, Chain, LANE, accounted, in_every_setup, lane, nonces, on};

in_every_setup!(
    hole_16a_calls_during_a_lanes_slow_start_share_one_cursor,
    hole_16a_a_token_raised_during_a_lanes_start_does_no_harm,
    hole_16a_pauses_in_between_lose_no_nonce_and_give_none_twice,
);

/// A node on a chain whose answer about the lane is yet to come, and calls that wait for it.
async fn slow_start(bench: &Bench) -> (Arc<Chain>, stile_engine::Node) {
    let chain = Arc::new(Chain::default());
    chain.set(lane(LANE), 7);
    chain.hang(lane(LANE));
    let settings =
        Settings { chain_query: ChainQuery::Enabled(BlockTag::Latest), ..bench.settings("a") };
    let node = bench.start_with(settings, Arc::clone(&chain) as _).await;
    (chain, node)
}

fn spawn_calls(
    component: &NonceComponent,
    count: usize,
) -> Vec<tokio::task::JoinHandle<Result<Hold, NonceError>>> {
    let call = || {
        let component = component.clone();
        tokio::spawn(async move { component.allocate(lane(LANE)).await })
    };
    std::iter::repeat_with(call).take(count).collect()
}

async fn until_asked(chain: &Chain) {
    eventually("a question about the lane", async || (chain.asked(lane(LANE)) > 0).then_some(()))
        .await;
}

async fn hole_16a_calls_during_a_lanes_slow_start_share_one_cursor(bench: Bench) {
    let (chain, node) = slow_start(&bench).await;
    let mut calls = spawn_calls(node.nonces(), 20);
    until_asked(&chain).await;
    calls.extend(spawn_calls(node.nonces(), 20));
    chain.answer(lane(LANE));
    calls.extend(spawn_calls(node.nonces(), 20));
    let holds: Vec<Hold> =
        join_all(calls).await.into_iter().map(|call| call.unwrap().unwrap()).collect();
    assert_eq!(nonces(&holds), (7..67).collect::<Vec<_>>());
    accounted(&*bench.store, lane(LANE), 7, &holds).await;
}

async fn hole_16a_a_token_raised_during_a_lanes_start_does_no_harm(bench: Bench) {
    let (chain, node) = slow_start(&bench).await;
    let calls = spawn_calls(node.nonces(), 20);
    until_asked(&chain).await;
    for _ in 0..3 {
        assert!(node.nonces().pause(lane(LANE), "looking into it").await.unwrap());
        assert!(node.lanes().resume(lane(LANE), false).await.unwrap().resumed);
    }
    chain.answer(lane(LANE));
    let mut holds = Vec::new();
    for answer in join_all(calls).await {
        match answer.unwrap() {
            Ok(hold) => holds.push(hold),
            // It came when the lane was paused, and not before the question.
            Err(NonceError::LanePaused { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    assert!(!holds.is_empty(), "whoever waited for the question is served");
    assert_eq!(nonces(&holds), (7..).take(holds.len()).collect::<Vec<_>>());
    accounted(&*bench.store, lane(LANE), 7, &holds).await;
}

async fn hole_16a_pauses_in_between_lose_no_nonce_and_give_none_twice(bench: Bench) {
    const CALLERS: usize = 4;
    const EACH: usize = 25;
    let node = bench.start("a").await;
    let mut holds = vec![node.nonces().allocate(lane(LANE)).await.unwrap()];
    let done = Arc::new(AtomicBool::new(false));
    let callers = (0..CALLERS).map(|_| {
        let component = node.nonces().clone();
        tokio::spawn(async move {
            let mut got = Vec::new();
            while got.len() < EACH {
                match component.allocate(lane(LANE)).await {
                    Ok(hold) => got.push(hold),
                    // What a caller may be told while the lane changes under it.
                    Err(NonceError::LanePaused { .. } | NonceError::StoreUnavailable(_)) => {
                        tokio::task::yield_now().await;
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            got
        })
    });
    let callers: Vec<_> = callers.collect();
    let disturber = tokio::spawn({
        let (component, care) = (node.nonces().clone(), node.lanes().clone());
        let done = Arc::clone(&done);
        async move {
            let mut pauses = 0;
            while !done.load(Ordering::Relaxed) {
                component.pause(lane(LANE), "just a moment").await.unwrap();
                care.resume(lane(LANE), false).await.unwrap();
                pauses += 1;
            }
            pauses
        }
    });
    for caller in callers {
        holds.extend(timeout(DEADLINE, caller).await.expect("callers are served").unwrap());
    }
    done.store(true, Ordering::Relaxed);
    assert!(disturber.await.unwrap() > 0);
    assert_eq!(nonces(&holds), (0..holds.len() as u64).collect::<Vec<_>>());
    accounted(&*bench.store, lane(LANE), 0, &holds).await;
}
