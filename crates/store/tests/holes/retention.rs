//! Removing what is over, against everything that may happen in the same moment.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use stile_domain::{NodeId, Outcome, Step};
use stile_store::{Acceptance, Claim, LaneChanges, Recorded, Store, Tx};

use crate::common::{
    Bench, LEASE, bind_new, bind_txs, change, claim_at, lane, named, new_tx, node, steps, view,
    wait_until_blocked,
};

on_both_stores!(
    a_repeated_request_finds_the_first_or_makes_a_new_one
        a_repeated_request_finds_the_first_or_makes_a_new_one_on_postgres
        a_repeated_request_finds_the_first_or_makes_a_new_one_on_sqlite,
    what_is_reopened_in_the_same_moment_stays_or_goes_as_a_whole
        what_is_reopened_in_the_same_moment_stays_or_goes_as_a_whole_on_postgres
        what_is_reopened_in_the_same_moment_stays_or_goes_as_a_whole_on_sqlite,
    two_nodes_that_sweep_share_the_work
        two_nodes_that_sweep_share_the_work_on_postgres
        two_nodes_that_sweep_share_the_work_on_sqlite,
);

const NO_TIME: Duration = Duration::ZERO;

const DONE: [Step; 3] = [Step::Sent, Step::Mined(Outcome::Success), Step::Final];

/// Confirmed transactions at the nonces from `first` on, all of them in block 10.
async fn confirmed(store: &dyn Store, claim: Claim, first: u64, count: usize) -> Vec<Tx> {
    let new = (0..count).map(|number| named(claim.lane(), &format!("{}", first + number as u64)));
    let mut txs = bind_txs(store, bind_new(claim, first, new)).await.unwrap();
    for step in DONE {
        let changes = txs.iter().map(|tx| change(tx, step)).collect();
        let part = LaneChanges { claim, changes };
        let recorded = store.record(&NodeId("a".into()), &[part], LEASE).await.unwrap();
        assert!(recorded[0].as_ref().unwrap().iter().all(|it| *it != Recorded::Lost));
        let ids: Vec<_> = txs.iter().map(|tx| tx.id).collect();
        txs = store.txs(&ids).await.unwrap().into_iter().map(Option::unwrap).collect();
    }
    txs
}

async fn sweep(store: &dyn Store, limit: u32) -> u64 {
    store.sweep_txs(lane(1).chain, 11, NO_TIME, limit).await.unwrap()
}

/// That nothing is there by half: a history as long as its transaction says, an attempt and a row
/// of the ledger for each that has a nonce, and none of these for what is gone.
async fn assert_whole(bench: &Bench) {
    let raw = bench.raw().await;
    for (what, sql) in [
        (
            "a history of another length",
            "SELECT count(*) FROM tx t
             WHERE t.events <> (SELECT count(*) FROM tx_event e WHERE e.tx_id = t.tx_id)",
        ),
        (
            "a nonce without an attempt or a row in the ledger",
            "SELECT count(*) FROM tx t WHERE t.nonce IS NOT NULL
             AND NOT (EXISTS (SELECT 1 FROM attempt a WHERE a.tx_id = t.tx_id)
                      AND EXISTS (SELECT 1 FROM nonce n WHERE n.owner_id = t.tx_id AND n.nonce = t.nonce))",
        ),
        ("entries of nothing", "SELECT count(*) FROM tx_event WHERE tx_id NOT IN (SELECT tx_id FROM tx)"),
        ("attempts of nothing", "SELECT count(*) FROM attempt WHERE tx_id NOT IN (SELECT tx_id FROM tx)"),
        (
            "nonces of nothing",
            "SELECT count(*) FROM nonce WHERE owner_kind = 'tx' AND owner_id NOT IN (SELECT tx_id FROM tx)",
        ),
    ] {
        assert_eq!(raw.value(sql).await, "0", "{what}");
    }
}

/// Never an error, never a half: either the original is answered, or it is gone and a new one is
/// made, whichever way the two meet.
async fn a_repeated_request_finds_the_first_or_makes_a_new_one(bench: Bench) {
    const ROUNDS: u64 = 40;
    let claim = claim_at(&*bench.store, &node("a"), lane(1), 0).await;
    let (sweeper, caller) = (bench.second(), bench.second());
    let (mut found, mut made) = (0, 0);
    for round in 0..ROUNDS {
        let first = confirmed(&*bench.store, claim, round, 1).await.remove(0);
        let again: Vec<_> =
            (0..4).map(|_| named(lane(1), first.request_id.as_deref().unwrap())).collect();
        let a_node = NodeId("b".into());
        let calls = again.iter().map(|new| caller.accept(&a_node, std::slice::from_ref(new)));
        let (removed, answers) = tokio::join!(sweep(&*sweeper, 10), join_all(calls));
        let mut second = None;
        for answer in answers {
            match answer.expect("neither the first nor a new one").remove(0) {
                Acceptance::New(tx) => {
                    assert_eq!(second.replace(tx.id), None, "made twice");
                    made += 1;
                }
                Acceptance::Existing(tx) if tx.id == first.id => found += 1,
                // Another of the four was faster.
                Acceptance::Existing(tx) => assert_ne!(tx.id, first.id),
                Acceptance::Elsewhere(elsewhere) => panic!("not Stile's: {elsewhere:?}"),
            }
        }
        assert_eq!(removed, 1);
        assert!(store_has(&*bench.store, &first).await.is_none());
        // What was made waits for a nonce; out of the way with it.
        let raw = bench.raw().await;
        raw.execute("UPDATE tx SET state = 'FAILED' WHERE state = 'CREATED'").await;
        sweep(&*sweeper, 10).await;
    }
    assert_whole(&bench).await;
    assert!(found + made > 0);
}

async fn store_has(store: &dyn Store, tx: &Tx) -> Option<Tx> {
    store.txs(&[tx.id]).await.unwrap().remove(0)
}

/// A reorganisation deeper than was promised meets the sweep: the change is written and the
/// transaction is there, or the change is lost and all of it is gone.
async fn what_is_reopened_in_the_same_moment_stays_or_goes_as_a_whole(bench: Bench) {
    const ROUNDS: u64 = 40;
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let sweeper = bench.second();
    for round in 0..ROUNDS {
        let tx = confirmed(store, claim, round, 1).await.remove(0);
        let part = LaneChanges { claim, changes: vec![change(&tx, Step::Unmined)] };
        let (a_node, parts) = (NodeId("a".into()), [part]);
        let (removed, recorded) =
            tokio::join!(sweep(&*sweeper, 10), store.record(&a_node, &parts, LEASE));
        let recorded = recorded.unwrap().remove(0).unwrap().remove(0);
        let there = store_has(store, &tx).await;
        match recorded {
            Recorded::Written { .. } => assert_eq!((removed, there.is_some()), (0, true)),
            Recorded::Lost => assert_eq!((removed, there.is_some()), (1, false)),
        }
        // Open again, it stays whatever is swept.
        assert_eq!(sweep(&*sweeper, 10).await, 0);
    }
    assert_whole(&bench).await;
}

async fn two_nodes_that_sweep_share_the_work(bench: Bench) {
    const COUNT: usize = 600;
    let claim = claim_at(&*bench.store, &node("a"), lane(1), 0).await;
    confirmed(&*bench.store, claim, 0, COUNT).await;
    let keep = bind_txs(&*bench.store, bind_new(claim, COUNT as u64, [new_tx(lane(1))])).await;
    let sweeps = (0..2).map(|_| {
        let store = bench.second();
        tokio::spawn(async move {
            let mut removed = 0;
            loop {
                match sweep(&*store, 50).await {
                    0 => return removed,
                    count => removed += count,
                }
            }
        })
    });
    let removed: u64 = join_all(sweeps).await.into_iter().map(Result::unwrap).sum();
    assert_eq!(removed, COUNT as u64, "each is removed once");
    assert!(store_has(&*bench.store, &keep.unwrap()[0]).await.is_some());
    assert_eq!(view(&*bench.store, lane(1)).await.next_nonce, Some(COUNT as u64 + 1));
    assert_whole(&bench).await;
}

/// What somebody works on is passed by, and nobody waits: neither the sweep nor the one who works.
#[tokio::test]
async fn a_sweep_waits_for_nobody_and_nobody_for_it() {
    let bench = Bench::postgres().await;
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let txs = confirmed(store, claim, 0, 10).await;
    let working = bench.raw().await;
    let lock = format!(
        "BEGIN; SELECT 1 FROM lane FOR UPDATE; SELECT 1 FROM tx WHERE tx_id = '{}' FOR UPDATE",
        txs[0].id
    );
    working.execute(&lock).await;
    assert_eq!(sweep(store, 100).await, 9, "the lane's row and one transaction are locked");
    working.execute("COMMIT").await;
    assert_eq!(sweep(store, 100).await, 1);

    // The other way round: a sweep in the middle of its work holds up no allocation and no record.
    let gone = confirmed(store, claim, 10, 5).await;
    let open = bind_txs(store, bind_new(claim, 15, [new_tx(lane(1))])).await.unwrap().remove(0);
    let blocker = bench.raw().await;
    let attempt = format!("BEGIN; SELECT 1 FROM attempt WHERE tx_id = '{}' FOR UPDATE", gone[0].id);
    blocker.execute(&attempt).await;
    let sweeping = tokio::spawn({
        let store = bench.second();
        async move { sweep(&*store, 100).await }
    });
    wait_until_blocked(&bench.raw().await, 1).await;
    bind_txs(store, bind_new(claim, 16, [new_tx(lane(1))])).await.unwrap();
    steps(store, claim, &open, &[Step::Sent]).await;
    assert!(!sweeping.is_finished());
    blocker.execute("COMMIT").await;
    assert_eq!(sweeping.await.unwrap(), 5);
    assert_whole(&bench).await;
}

/// A node that dies in the middle of a batch leaves all of it.
#[tokio::test]
async fn a_sweep_that_is_killed_in_the_middle_removes_nothing() {
    let bench = Bench::postgres().await;
    let claim = claim_at(&*bench.store, &node("a"), lane(1), 0).await;
    let txs = confirmed(&*bench.store, claim, 0, 20).await;
    let (blocker, observer) = (bench.raw().await, bench.raw().await);
    let before = observer.dump().await;
    let lock = format!("BEGIN; SELECT 1 FROM attempt WHERE tx_id = '{}' FOR UPDATE", txs[19].id);
    blocker.execute(&lock).await;
    let store: Arc<dyn Store> = bench.second();
    let sweeping =
        tokio::spawn(async move { store.sweep_txs(lane(1).chain, 11, NO_TIME, 100).await });
    wait_until_blocked(&observer, 1).await;
    observer
        .execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE datname = current_database() AND application_name = 'stile'
               AND wait_event_type = 'Lock'",
        )
        .await;
    sweeping.await.unwrap().expect_err("killed");
    blocker.execute("COMMIT").await;
    assert_eq!(observer.dump().await, before);
    assert_eq!(sweep(&*bench.store, 100).await, 20, "and the next one does it");
    assert_whole(&bench).await;
}
