//! Hole 1: two calls of one holder take the same nonce.

use futures::future::join_all;

use crate::common::{Bench, LANE, accounted, in_every_setup, lane, nonces, on};

const CALLS: u64 = 1000;

in_every_setup!(hole_01_a_thousand_calls_at_once_get_a_thousand_consecutive_nonces);

async fn hole_01_a_thousand_calls_at_once_get_a_thousand_consecutive_nonces(bench: Bench) {
    let node = bench.start("a").await;
    let calls = (0..CALLS).map(|_| {
        let component = node.nonces().clone();
        tokio::spawn(async move { component.allocate(lane(LANE)).await })
    });
    let answers = join_all(calls).await;
    let holds: Vec<_> =
        answers.into_iter().map(|answer| answer.unwrap().expect("a nonce")).collect();
    assert_eq!(nonces(&holds), (0..CALLS).collect::<Vec<_>>());
    accounted(&*bench.store, lane(LANE), 0, &holds).await;
}
