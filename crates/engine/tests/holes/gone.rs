//! Hole 16: callers that go away at every moment. Whatever they leave behind goes back.

use futures::FutureExt;
use futures::future::join_all;
use stile_domain::HoldStatus;
use testkit::eventually;
use tokio::sync::mpsc::unbounded_channel;

use crate::common::{
    Bench, LANE, accounted, in_every_setup, key, lane, ledger, on, on_both_stores, status, view,
};

in_every_setup!(
    hole_16_callers_that_go_away_at_any_moment_lose_no_nonce,
    hole_16_an_answer_that_nobody_took_goes_back,
    hole_16_a_keyed_answer_that_nobody_took_waits_for_its_caller,
);

on_both_stores!(hole_16_callers_that_go_away_while_they_wait_in_the_queue_lose_no_nonce);

/// Small numbers without a pattern.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % sides
    }
}

async fn hole_16_callers_that_go_away_at_any_moment_lose_no_nonce(bench: Bench) {
    let node = bench.start("a").await;
    let (told, mut holds) = unbounded_channel();
    let mut dice = Dice(16);
    let callers: Vec<_> = (0..300)
        .map(|number| {
            let (component, told) = (node.nonces().clone(), told.clone());
            let patience = dice.roll(40);
            tokio::spawn(async move {
                let yields = async {
                    for _ in 0..patience {
                        tokio::task::yield_now().await;
                    }
                };
                let allocate = component.allocate(lane(LANE));
                if number % 3 == 0 {
                    told.send(allocate.await.expect("a nonce")).unwrap();
                } else {
                    tokio::select! {
                        hold = allocate => told.send(hold.expect("a nonce")).unwrap(),
                        () = yields => {}
                    }
                }
            })
        })
        .collect();
    drop(told);
    for (number, caller) in callers.iter().enumerate() {
        if number % 3 == 1 && dice.roll(2) == 0 {
            for _ in 0..dice.roll(20) {
                tokio::task::yield_now().await;
            }
            caller.abort();
        }
    }
    join_all(callers).await;
    assert_eq!(node.shutdown().await, 0);
    let mut got = Vec::new();
    while let Some(hold) = holds.recv().await {
        got.push(hold);
    }
    assert!(got.len() >= 100, "those who stay are all served");
    accounted(&*bench.store, lane(LANE), 0, &got).await;
}

async fn hole_16_an_answer_that_nobody_took_goes_back(bench: Bench) {
    let node = bench.start("a").await;
    let mut gone = Box::pin(node.nonces().allocate(lane(LANE)));
    assert!(futures::poll!(&mut gone).is_pending());
    // Served after it, so its answer has been given by now.
    until_committed(&bench).await;
    let second = node.nonces().allocate(lane(LANE)).await.unwrap();
    assert_eq!(second.nonce, 1);
    drop(gone);
    assert_eq!(node.shutdown().await, 0);
    accounted(&*bench.store, lane(LANE), 0, &[second]).await;
    assert_eq!(ledger(&*bench.store, lane(LANE)).await[0].status, HoldStatus::Released);
}

/// Waits until a hold of the lane is in the database.
async fn until_committed(bench: &Bench) {
    eventually("a hold", async || {
        let views = bench.store.lanes(&[lane(LANE)]).await.unwrap();
        views.into_iter().flatten().any(|view| view.held > 0).then_some(())
    })
    .await;
}

async fn hole_16_a_keyed_answer_that_nobody_took_waits_for_its_caller(bench: Bench) {
    let node = bench.start("a").await;
    let mut gone = Box::pin(node.nonces().allocate_once(lane(LANE), key("shop", "order 7")));
    assert!(futures::poll!(&mut gone).is_pending());
    until_committed(&bench).await;
    let second = node.nonces().allocate(lane(LANE)).await.unwrap();
    drop(gone);
    assert_eq!(node.shutdown().await, 0);
    let node = bench.start("a").await;
    let again = node.nonces().allocate_once(lane(LANE), key("shop", "order 7")).await.unwrap();
    assert_eq!((again.nonce, again.status), (0, HoldStatus::Held));
    assert_eq!(status(&*bench.store, &again).await, HoldStatus::Held);
    accounted(&*bench.store, lane(LANE), 0, &[again, second]).await;
}

async fn hole_16_callers_that_go_away_while_they_wait_in_the_queue_lose_no_nonce(bench: Bench) {
    let (node, spy) = bench.start_spied(bench.settings("a")).await;
    let first = node.nonces().allocate(lane(LANE)).await.unwrap();
    spy.binds.close();
    let mut calls: Vec<_> = (0..40).map(|_| Box::pin(node.nonces().allocate(lane(LANE)))).collect();
    for call in &mut calls {
        assert!(futures::poll!(call).is_pending());
    }
    spy.until_binding(1).await;
    // Half of them go while their commit is under way or they wait for the next one.
    let stay: Vec<_> =
        calls.into_iter().enumerate().filter(|(n, _)| n % 2 == 0).map(|(_, call)| call).collect();
    spy.binds.open();
    let mut holds = vec![first];
    for call in stay {
        holds.push(call.await.unwrap());
    }
    assert_eq!(node.shutdown().await, 0);
    accounted(&*bench.store, lane(LANE), 0, &holds).await;
    let cursor = view(&*bench.store, lane(LANE)).await.next_nonce;
    assert_eq!(cursor, Some(41), "a call under way is carried through");
    assert!(node.nonces().allocate(lane(LANE)).now_or_never().is_some());
}
