//! Hole 1: two calls of one holder take the same nonce.

use futures::future::join_all;

use crate::common::{Bench, LANE, accounted, in_every_setup, lane, nonces, on};

const CALLS: u64 = 1000;

in_every_setup!(hole_01_a_thousand_calls_at_once_get_a_thousand_consecutive_nonces);

async fn hole_01_a_thousand_calls_at_once_get_a_thousand_consecutive_nonces(bench: Bench) {
    let node = bench.start("a").await;
    // The lane is known before they come, so that nothing makes them wait for each other.
    let mut holds = vec![node.nonces().allocate(lane(LANE)).await.unwrap()];
    let calls = (0..CALLS).map(|_| {
        let component = node.nonces().clone();
        tokio::spawn(async move { component.allocate(lane(LANE)).await })
    });
    for answer in join_all(calls).await {
        holds.push(answer.unwrap().expect("a nonce"));
    }
    assert_eq!(nonces(&holds), (0..=CALLS).collect::<Vec<_>>());
    accounted(&*bench.store, lane(LANE), 0, &holds).await;
}
