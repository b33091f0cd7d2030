//! What is finished, what is refused, what is left behind.

use futures::FutureExt;
use futures::future::join_all;
use stile_domain::B256;
use stile_engine::{Mode, NonceError, RejectPolicy, Settings};
use testkit::eventually;
use tokio::runtime::Handle;

use crate::common::{
    Bench, LANE, accounted, in_every_setup, lane, on, on_both_stores, queue, view,
};

in_every_setup!(
    shutdown_finishes_what_has_begun_and_refuses_what_comes,
    shutdown_gives_the_leases_back,
);

on_both_stores!(workers_start_in_worker_queue_mode_only_and_end_with_the_node);

async fn shutdown_finishes_what_has_begun_and_refuses_what_comes(bench: Bench) {
    let (node, spy) = bench.start_spied(bench.settings("a")).await;
    let first = node.nonces().allocate(lane(LANE)).await.unwrap();
    spy.binds.close();
    let mut calls: Vec<_> =
        (0..50).map(|number| Box::pin(node.nonces().allocate(lane(LANE + number % 2)))).collect();
    for call in &mut calls {
        assert!(futures::poll!(call).is_pending());
    }
    spy.until_binding(spy_binds(&bench)).await;
    let mut shutdown = Box::pin(node.shutdown());
    assert!(futures::poll!(&mut shutdown).is_pending());
    for _ in 0..3 {
        let late = node.nonces().allocate(lane(LANE)).now_or_never().expect("answered at once");
        assert!(matches!(late, Err(NonceError::ShuttingDown)), "{late:?}");
    }
    let late = node.nonces().mark_used(&first, B256::ZERO).await;
    assert!(matches!(late, Err(NonceError::ShuttingDown)), "{late:?}");
    spy.binds.open();
    let (cut_short, answers) = tokio::join!(shutdown, join_all(calls));
    assert_eq!(cut_short, 0);
    let (mut one, mut two) = (vec![first], Vec::new());
    for (number, answer) in answers.into_iter().enumerate() {
        let hold = answer.expect("what was queued is served");
        if number % 2 == 0 { one.push(hold) } else { two.push(hold) }
    }
    accounted(&*bench.store, lane(LANE), 0, &one).await;
    accounted(&*bench.store, lane(LANE + 1), 0, &two).await;
    let late = node.nonces().allocate(lane(LANE)).await;
    assert!(matches!(late, Err(NonceError::ShuttingDown)), "{late:?}");
}

/// Lanes 1 and 2 bind side by side: each is on a worker of its own.
fn spy_binds(bench: &Bench) -> usize {
    match bench.mode {
        Mode::Basic => 2,
        Mode::WorkerQueue(settings) => {
            let (one, two) = (lane(LANE), lane(LANE + 1));
            1 + usize::from(one.worker(settings.workers) != two.worker(settings.workers))
        }
    }
}

async fn shutdown_gives_the_leases_back(bench: Bench) {
    let node = bench.start("a").await;
    for number in 0..5 {
        node.nonces().allocate(lane(number)).await.unwrap();
    }
    assert!(!view(&*bench.store, lane(0)).await.owner.remaining.is_zero());
    assert_eq!(node.shutdown().await, 0);
    for number in 0..5 {
        let view = view(&*bench.store, lane(number)).await;
        assert!(view.owner.remaining.is_zero(), "{:?}", view.owner);
        assert_eq!(view.next_nonce, Some(1));
    }
}

async fn workers_start_in_worker_queue_mode_only_and_end_with_the_node(bench: Bench) {
    const WORKERS: usize = 16;
    let alive = || Handle::current().metrics().num_alive_tasks();
    let mut started = Vec::new();
    for mode in [Mode::Basic, queue(WORKERS, 64, RejectPolicy::FailFast)] {
        let store = bench.database.open();
        // Connections are tasks too: one is there before and after.
        store.ping().await.unwrap();
        let before = alive();
        let settings = Settings { mode, ..bench.settings("a") };
        let (node, _) = bench.start_spied(settings).await;
        started.push(alive() - before);
        for number in 0..8 {
            node.nonces().allocate(lane(number)).await.unwrap();
        }
        assert_eq!(node.shutdown().await, 0);
        drop(node);
        eventually("every task to end", async || (alive() <= before).then_some(())).await;
    }
    // The keeper and the sweeper, the workers, and up to eight connections.
    let [basic, queued] = started[..] else { panic!("two modes") };
    assert!(basic < WORKERS, "{basic} tasks in basic mode");
    assert!(queued >= WORKERS + 2, "{queued} tasks with {WORKERS} workers");
}
