//! Worker-queue mode: order, batches, full queues.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::join_all;
use stile_domain::{Hold, Lane};
use stile_engine::{Node, NonceError, RejectPolicy, Settings};
use testkit::DEADLINE;
use tokio::time::timeout;

use crate::common::{
    Bench, LANE, Spy, accounted, in_every_setup, lane, lanes_of_one_worker, on, on_both_stores,
    queue,
};

in_every_setup!(steps_of_one_lane_never_overlap);

on_both_stores!(
    one_lane_is_served_in_order,
    lanes_of_different_workers_are_served_at_once,
    what_waits_is_committed_together,
    lanes_of_one_worker_share_a_commit,
    a_full_queue_refuses_at_once,
    a_caller_that_waits_is_refused_in_the_end,
    a_caller_that_waits_is_served_when_there_is_room,
);

type Call<'n> = Pin<Box<dyn Future<Output = Result<Hold, NonceError>> + Send + 'n>>;

/// A call on its way: in its queue, or refused already.
fn begin(node: &Node, lane: Lane) -> Call<'_> {
    let mut call: Call<'_> = Box::pin(node.nonces().allocate(lane));
    assert!((&mut call).now_or_never().is_none(), "the call is answered already");
    call
}

/// A node whose lane is known and whose next bind stands still, with a call in it.
async fn standing_still<'n>(node: &'n Node, spy: &Spy) -> (Hold, Call<'n>) {
    let first = node.nonces().allocate(lane(LANE)).await.unwrap();
    spy.binds.close();
    let call = begin(node, lane(LANE));
    spy.until_binding(1).await;
    (first, call)
}

async fn steps_of_one_lane_never_overlap(bench: Bench) {
    let (node, spy) = bench.start_spied(bench.settings("a")).await;
    let calls = (0..200).map(|number| {
        let component = node.nonces().clone();
        tokio::spawn(async move { component.allocate(lane(number % 4)).await })
    });
    for answer in join_all(calls).await {
        answer.unwrap().unwrap();
    }
    assert_eq!(spy.overlaps(), 0);
    for number in 0..4 {
        assert_eq!(crate::common::ledger(&*bench.store, lane(number)).await.len(), 50);
    }
}

async fn one_lane_is_served_in_order(bench: Bench) {
    let (node, spy) = bench.start_spied(bench.settings("a")).await;
    let (first, call) = standing_still(&node, &spy).await;
    let mut calls = vec![call];
    calls.extend((0..100).map(|_| begin(&node, lane(LANE))));
    spy.binds.open();
    let answers = join_all(calls).await;
    let holds: Vec<Hold> = answers.into_iter().map(Result::unwrap).collect();
    let nonces: Vec<u64> = holds.iter().map(|hold| hold.nonce).collect();
    assert_eq!(nonces, (first.nonce + 1..).take(101).collect::<Vec<_>>());
    assert_eq!(spy.overlaps(), 0);
}

async fn lanes_of_different_workers_are_served_at_once(bench: Bench) {
    let (node, spy) = bench.start_spied(bench.settings("a")).await;
    let one = lane(LANE);
    let other = (LANE..).map(lane).find(|lane| lane.worker(2) != one.worker(2)).unwrap();
    let neighbour = lanes_of_one_worker(2).nth(1).unwrap();
    for lane in [one, other, neighbour] {
        node.nonces().allocate(lane).await.unwrap();
    }
    spy.binds.close();
    let calls = vec![begin(&node, one), begin(&node, other)];
    spy.until_binding(2).await;
    // Behind its neighbour, with whom it shares a worker.
    let behind = begin(&node, neighbour);
    spy.binds.open();
    for call in calls {
        assert_eq!(call.await.unwrap().nonce, 1);
    }
    assert_eq!(behind.await.unwrap().nonce, 1);
    assert_eq!(spy.most_binds_at_once(), 2);
    assert_eq!(spy.overlaps(), 0);
}

async fn what_waits_is_committed_together(bench: Bench) {
    let (node, spy) = bench.start_spied(bench.settings("a")).await;
    let (first, call) = standing_still(&node, &spy).await;
    let waiting: Vec<_> = (0..500).map(|_| begin(&node, lane(LANE))).collect();
    spy.binds.open();
    let mut holds = vec![first, call.await.unwrap()];
    for call in waiting {
        holds.push(call.await.unwrap());
    }
    assert_eq!(spy.bind_sizes(), [1, 1, 500]);
    accounted(&*bench.store, lane(LANE), 0, &holds).await;
}

async fn lanes_of_one_worker_share_a_commit(bench: Bench) {
    let (node, spy) = bench.start_spied(bench.settings("a")).await;
    let lanes: Vec<Lane> = lanes_of_one_worker(2).take(10).collect();
    for lane in &lanes {
        node.nonces().allocate(*lane).await.unwrap();
    }
    let (_, call) = standing_still(&node, &spy).await;
    let waiting: Vec<_> = lanes.iter().cycle().take(30).map(|lane| begin(&node, *lane)).collect();
    let before = spy.bind_sizes().len();
    spy.binds.open();
    call.await.unwrap();
    for answer in join_all(waiting).await {
        answer.unwrap();
    }
    assert_eq!(spy.bind_sizes()[before..], [1, 30]);
}

/// Room for four calls behind the one that is being served.
fn narrow(bench: &Bench, reject: RejectPolicy) -> Settings {
    Settings { mode: queue(1, 4, reject), ..bench.settings("a") }
}

async fn fill(bench: &Bench, reject: RejectPolicy) -> (Arc<Node>, Arc<Spy>) {
    let (node, spy) = bench.start_spied(narrow(bench, reject)).await;
    (Arc::new(node), spy)
}

fn assert_full(answer: Result<Hold, NonceError>) {
    let error = answer.expect_err("a full queue refuses");
    assert!(matches!(error, NonceError::QueueFull), "{error}");
    assert!(error.retry_after().is_some());
}

async fn a_full_queue_refuses_at_once(bench: Bench) {
    let (node, spy) = fill(&bench, RejectPolicy::FailFast).await;
    let (first, call) = standing_still(&node, &spy).await;
    let waiting: Vec<_> = (0..4).map(|_| begin(&node, lane(LANE))).collect();
    for _ in 0..3 {
        let refused = node.nonces().allocate(lane(LANE)).now_or_never();
        assert_full(refused.expect("an answer without any waiting"));
    }
    let mark = node.nonces().mark_recyclable(&first, "not sent").now_or_never();
    assert_full(mark.expect("marks queue with the rest"));
    spy.binds.open();
    let mut holds = vec![first, call.await.unwrap()];
    for call in waiting {
        holds.push(call.await.unwrap());
    }
    // A refused call leaves nothing behind.
    accounted(&*bench.store, lane(LANE), 0, &holds).await;
    assert_eq!(node.nonces().allocate(lane(LANE)).await.unwrap().nonce, 6);
}

async fn a_caller_that_waits_is_refused_in_the_end(bench: Bench) {
    let patience = Duration::from_millis(300);
    let (node, spy) = fill(&bench, RejectPolicy::CallerWaits(patience)).await;
    let (first, call) = standing_still(&node, &spy).await;
    let waiting: Vec<_> = (0..4).map(|_| begin(&node, lane(LANE))).collect();
    let since = Instant::now();
    let refused = timeout(DEADLINE, node.nonces().allocate(lane(LANE))).await;
    assert_full(refused.expect("an answer in the end"));
    assert!(since.elapsed() >= patience, "refused after {:?}", since.elapsed());
    spy.binds.open();
    let mut holds = vec![first, call.await.unwrap()];
    for call in waiting {
        holds.push(call.await.unwrap());
    }
    accounted(&*bench.store, lane(LANE), 0, &holds).await;
}

async fn a_caller_that_waits_is_served_when_there_is_room(bench: Bench) {
    let (node, spy) = fill(&bench, RejectPolicy::CallerWaits(DEADLINE)).await;
    let (first, call) = standing_still(&node, &spy).await;
    // More than there is room for: all of them wait.
    let waiting: Vec<_> = (0..10).map(|_| begin(&node, lane(LANE))).collect();
    spy.binds.open();
    let mut holds = vec![first, call.await.unwrap()];
    for answer in join_all(waiting).await {
        holds.push(answer.unwrap());
    }
    accounted(&*bench.store, lane(LANE), 0, &holds).await;
}
