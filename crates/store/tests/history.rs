//! What a store is asked costs the same, whatever the history holds.
//!
//! Everything that a node asks at its start, at a takeover, for each transaction, for each block and
//! in its sweeps, and every page that people read, is asked on two databases, of which one has ten
//! times the history of the other. PostgreSQL counts what its statements read; for SQLite it is what
//! this process reads from files. A statement that goes through the history shows in either.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

#[path = "common/mod.rs"]
mod common;

use std::time::Duration;

use stile_domain::{HeldExpiry, HoldStatus, Lane, Outcome, Step, TxState};
use stile_store::{HeaderUpdate, HoldFilter, Store, StreamPosition, TxFilter, raw};
use tokio::sync::Mutex;

use common::{
    Bench, LEASE, WINDOW, accept, bind, bind_new, bind_txs, change, fresh, header, held, key,
    keyed, lane, mark, named, new_tx, node, pause, record_one, steps, used, waiting_binding,
};

const LITTLE: u64 = 2_000;
const MUCH: u64 = 20_000;
const AN_HOUR: Duration = Duration::from_secs(3600);

/// The head of the chain, far above every block of the history.
const HEAD: u64 = 5_000;

/// What this process reads from files is counted for all of it: one test at a time.
static ALONE: Mutex<()> = Mutex::const_new(());

/// A lane with history, on a chain whose newest headers are on record.
async fn with_history(bench: &Bench, count: u64) {
    let canonical = (HEAD - u64::from(WINDOW)..=HEAD).map(|height| header(1, height)).collect();
    let update =
        HeaderUpdate { chain: lane(1).chain, canonical, replaced: Vec::new(), keep_from: 0 };
    bench.store.save_headers(&update).await.unwrap();
    let next = raw::seed_finished(bench.database.url(), lane(1), count, |_| {}).await.unwrap();
    assert_eq!(next, count);
}

/// Everything that a node and its callers ask.
async fn ask_everything(store: &dyn Store, lane: Lane, count: u64) {
    // A start, and a takeover.
    store.check_schema().await.unwrap();
    let holder = node("a");
    store.take_own(&holder, LEASE).await.unwrap();
    store.take_expired(&holder, LEASE, 100, WINDOW).await.unwrap();
    let claim = held(store, &holder, lane, LEASE).await.claim;
    store.headers(lane.chain).await.unwrap();
    assert!(store.open_txs(&[lane]).await.unwrap().is_empty());
    let floor = HEAD - u64::from(WINDOW);
    assert!(store.done_above(lane.chain, &[lane], floor).await.unwrap().is_empty());
    store.lanes_with_waiting(&[lane]).await.unwrap();

    // Transactions: accepted, repeated, bound, sent, mined, done.
    let waits = accept(store, &[named(lane, "waits")]).await;
    let Some(stile_store::Acceptance::New(waits)) = waits.into_iter().next() else { panic!() };
    accept(store, &[named(lane, "waits")]).await;
    store.txs_by_request("", lane, &["seed-7".to_owned(), "none".to_owned()]).await.unwrap();
    store.waiting(lane, 10).await.unwrap();
    bind_txs(store, waiting_binding(claim, count, [&waits])).await.unwrap();
    let new = bind_txs(store, bind_new(claim, count + 1, [new_tx(lane)])).await.unwrap();
    let sent = steps(store, claim, &new[0], &[Step::Sent]).await;
    let mut mined = change(&sent, Step::Mined(Outcome::Success));
    mined.receipt = stile_store::Set::To(common::receipt(&sent, HEAD));
    let mined = record_one(store, claim, mined).await;
    let done = steps(store, claim, &mined, &[Step::Final]).await;
    store.read_back_txs(lane, &[done.id]).await.unwrap();
    store.open_txs(&[lane]).await.unwrap();

    // One that is wished away, and loses its nonce.
    let lost = bind_txs(store, bind_new(claim, count + 2, [new_tx(lane)])).await.unwrap();
    store.wish(lost[0].id, &stile_store::Wish::Cancel).await.unwrap();
    assert_eq!(store.wishes(&[lane]).await.unwrap().len(), 1);
    let mut bumped = change(&lost[0], Step::Bumped);
    bumped.attempt = Some(common::attempt());
    let bumped = record_one(store, claim, bumped).await;
    common::lose(store, claim, &bumped, HEAD).await;
    store.withdraw(&common::A_NODE, lost[0].id).await.unwrap();
    pause(store, lane, "by hand").await;
    let realign = Some(stile_store::Realign { from: count + 3, to: count + 5 });
    store.resume(&common::A_NODE, lane, realign, &serde_json::json!({})).await.unwrap();
    let claim = held(store, &holder, lane, LEASE).await.claim;
    store.own_up(&claim, &[count + 3], "a gap", LEASE).await.unwrap().unwrap();

    // A block.
    let update = HeaderUpdate {
        chain: lane.chain,
        canonical: vec![header(1, HEAD + 1)],
        replaced: vec![header(2, HEAD + 1)],
        keep_from: floor,
    };
    store.save_headers(&update).await.unwrap();
    assert_eq!(store.done_above(lane.chain, &[lane], floor).await.unwrap().len(), 2);

    // Holds.
    let keys = [key("shop", "one")];
    let holds = bind(store, keyed(fresh(claim, count + 5, 2), &keys)).await.unwrap();
    store.allocated_under(lane, &keys).await.unwrap();
    mark(store, used(&holds[0], 1)).await;
    store.survey(&[lane]).await.unwrap();
    store.expire(&[claim], HeldExpiry::Suspect, LEASE).await.unwrap();
    store.settle(&[(claim, count)], LEASE).await.unwrap();
    store.renew(&[claim], LEASE).await.unwrap();

    // Retention, of what is too young and of a batch.
    let (ten_years, none) = (AN_HOUR * 24 * 3650, Duration::ZERO);
    assert_eq!(store.sweep_txs(lane.chain, floor, ten_years, 10).await.unwrap(), 0);
    assert_eq!(store.sweep_txs(lane.chain, floor, AN_HOUR, 10).await.unwrap(), 10);
    store.lanes_with_old_holds(AN_HOUR).await.unwrap();
    store.sweep_holds(lane, count, none, 10).await.unwrap();
    store.sweep_past_holds(none, 10).await.unwrap();

    // Pages.
    store.lanes(&[lane]).await.unwrap();
    store.txs(&[done.id]).await.unwrap();
    store.history(done.id).await.unwrap();
    store.attempts(done.id).await.unwrap();
    store.with_attempts(&[done.id]).await.unwrap();
    store.txs_of_attempts(&[done.tx_hash.unwrap()]).await.unwrap();
    store.nonce_owners(lane, count, 10).await.unwrap();
    store.lane_history(lane, None, 10).await.unwrap();
    let end = store.stream_end().await.unwrap();
    store.events_after(end, 10).await.unwrap();
    store.events_after(StreamPosition::default(), 10).await.unwrap();
    for state in TxState::ALL.iter().copied().map(Some).chain([None]) {
        for lanes in [Some(vec![lane]), None] {
            for before in [None, Some(count / 2)] {
                let tenant = String::new();
                let filter = TxFilter { tenant, lanes: lanes.clone(), state, before, limit: 10 };
                store.tx_page(&filter).await.unwrap();
            }
        }
    }
    for status in HoldStatus::ALL.iter().copied().map(Some).chain([None]) {
        store.holds(HoldFilter { lane, status, after: None, limit: 10 }).await.unwrap();
    }
    store.release(&[claim]).await.unwrap();
}

/// Rows that PostgreSQL has read of the tables that grow with history: by going through a table, and
/// by way of an index.
async fn rows_read(bench: &Bench) -> (u64, u64) {
    let sql = "SELECT coalesce(sum(t.seq_tup_read), 0),
                      (SELECT coalesce(sum(i.idx_tup_read), 0) FROM pg_stat_user_indexes i
                       WHERE i.relname IN ('tx', 'attempt', 'tx_event', 'nonce'))
               FROM pg_stat_user_tables t
               WHERE t.relname IN ('tx', 'attempt', 'tx_event', 'nonce')";
    let rows = bench.raw().await.rows(sql).await;
    (rows[0][0].parse().unwrap(), rows[0][1].parse().unwrap())
}

#[tokio::test]
async fn postgres_reads_the_same_whatever_the_history_holds() {
    let _alone = ALONE.lock().await;
    let mut read = Vec::new();
    for count in [LITTLE, MUCH] {
        let bench = Bench::postgres().await;
        with_history(&bench, count).await;
        bench.store.close().await;
        let store = bench.second();
        store.ping().await.unwrap();
        let before = rows_read(&bench).await;
        ask_everything(&*store, lane(1), count).await;
        store.close().await;
        // What a session has read is counted at its end at the latest.
        let sessions = "SELECT count(*) FROM pg_stat_activity
                        WHERE datname = current_database() AND application_name = 'stile'";
        let raw = bench.raw().await;
        testkit::eventually("the sessions to end", async || {
            (raw.value(sessions).await == "0").then_some(())
        })
        .await;
        let after = rows_read(&bench).await;
        read.push((after.0 - before.0, after.1 - before.1));
    }
    assert_eq!((read[0].0, read[1].0), (0, 0), "rows read by going through a table");
    assert!(read[1].1 < read[0].1 + LITTLE / 2, "rows read by way of indexes: {read:?}");
}

/// Bytes that this process has read from files.
fn bytes_read() -> u64 {
    let counters = std::fs::read_to_string("/proc/self/io").unwrap();
    let read = counters.lines().find_map(|line| line.strip_prefix("rchar: "));
    read.unwrap().parse().unwrap()
}

#[tokio::test]
async fn sqlite_reads_the_same_whatever_the_history_holds() {
    let _alone = ALONE.lock().await;
    let mut read = Vec::new();
    for count in [LITTLE, MUCH] {
        let bench = Bench::sqlite().await;
        with_history(&bench, count).await;
        bench.store.close().await;
        let store = bench.second();
        let before = bytes_read();
        ask_everything(&*store, lane(1), count).await;
        read.push(bytes_read() - before);
        store.close().await;
    }
    // Deeper trees are a few pages more. Going through any table of the bigger one, or through an
    // index of it, is a megabyte and more.
    assert!(read[1] < read[0] + 700_000, "bytes read: {read:?}");
}
