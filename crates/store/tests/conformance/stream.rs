//! The stream of events: in one order for everybody, and nobody misses anything.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use stile_domain::{LaneEventKind, Step, TxId};
use stile_store::{
    HistoryChange, NewLaneEvent, OpenOptions, Store, StreamEvent, StreamPosition, TxEvent, open,
};
use testkit::eventually;

use crate::common::{
    A_NODE, Bench, accept, accept_one, bind_new, bind_txs, claim_at, created, lane, new_tx, node,
    of_txs, steps, waiting_binding,
};

on_both_stores!(
    the_stream_has_every_entry_in_order,
    the_stream_is_read_in_parts,
    a_reader_from_the_end_sees_what_comes,
    a_place_can_be_written_down,
    a_reader_misses_nothing_of_eight_writers,
    hole_30_a_reader_from_a_lost_history_is_told_and_misses_nothing,
    hole_30_a_reader_of_a_copy_that_was_put_back_misses_nothing,
    hole_30_a_place_that_was_never_reached_is_not_waited_for,
    a_place_from_before_histories_had_names_is_read,
);

/// Reads on from a place until so many entries are there. (On PostgreSQL an entry is to be seen
/// once every older transaction of the server has ended, whoever's it is.)
async fn read_on(store: &dyn Store, from: StreamPosition, count: usize) -> Vec<TxEvent> {
    of_txs(read_all(store, from, count).await)
}

/// The same with the entries of lanes, which are not counted.
async fn read_all(store: &dyn Store, mut from: StreamPosition, count: usize) -> Vec<StreamEvent> {
    let mut read = Vec::new();
    eventually("the stream's entries", async || {
        let events = store.events_after(from, 1000).await.unwrap();
        from = events.last().map_or(from, StreamEvent::position);
        read.extend(events);
        (of_txs(read.clone()).len() >= count).then_some(())
    })
    .await;
    assert_eq!(of_txs(read.clone()).len(), count);
    read
}

async fn the_stream_has_every_entry_in_order(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let waits = accept_one(store, new_tx(lane(1))).await;
    bind_txs(store, waiting_binding(claim, 0, [&waits])).await.unwrap();
    let new = bind_txs(store, bind_new(claim, 1, [new_tx(lane(1))])).await.unwrap().remove(0);
    steps(store, claim, &new, &[Step::Sent]).await;
    let events = read_on(store, StreamPosition::default(), 5).await;
    let told: Vec<_> = events.iter().map(|event| (event.tx, event.seq)).collect();
    assert_eq!(told, [(waits.id, 1), (waits.id, 2), (new.id, 1), (new.id, 2), (new.id, 3)]);
    assert!(events.is_sorted_by(|one, next| one.position < next.position));
    let history = store.history(new.id).await.unwrap();
    assert_eq!(events[2..], history, "the same entries, with their places");
}

async fn the_stream_is_read_in_parts(bench: Bench) {
    let store = &*bench.store;
    let txs: Vec<_> = (0..5).map(|_| new_tx(lane(1))).collect();
    let accepted: Vec<_> = accept(store, &txs).await.into_iter().map(created).collect();
    let all = read_on(store, StreamPosition::default(), 5).await;
    let order: Vec<_> = all.iter().map(|event| event.tx).collect();
    assert_eq!(order, accepted.iter().map(|tx| tx.id).collect::<Vec<_>>());
    let (mut parts, mut from) = (Vec::new(), StreamPosition::default());
    loop {
        let part = store.events_after(from, 2).await.unwrap();
        let Some(last) = part.last() else { break };
        assert!(part.len() <= 2);
        from = last.position();
        parts.extend(of_txs(part));
    }
    assert_eq!(parts, all);
}

async fn a_reader_from_the_end_sees_what_comes(bench: Bench) {
    let store = &*bench.store;
    let before = accept_one(store, new_tx(lane(1))).await;
    read_on(store, StreamPosition::default(), 1).await;
    let end = store.stream_end().await.unwrap();
    assert!(store.events_after(end, 10).await.unwrap().is_empty());
    let after = accept_one(store, new_tx(lane(1))).await;
    let events = read_on(store, end, 1).await;
    assert_eq!(events[0].tx, after.id);
    assert_ne!(before.id, after.id);
}

async fn a_place_can_be_written_down(bench: Bench) {
    let store = &*bench.store;
    accept(store, &[new_tx(lane(1)), new_tx(lane(1))]).await;
    let events = read_on(store, StreamPosition::default(), 2).await;
    let place: StreamPosition = events[0].position.to_string().parse().unwrap();
    assert_eq!(of_txs(store.events_after(place, 10).await.unwrap()), events[1..]);
    let nonsense = ["", "1", "1-", "-1-2", "a-b", "1-2-3", "99999999999999999999-1"];
    let names = ["1-2-", "1-2-0000000000000000", "1-2-ffffffffffffffff", "1-2-+000000000000001"];
    let more = ["1-2-0000000000000001-", "1-2-000000000000001g", "1-2-00000000000000001"];
    for nonsense in nonsense.into_iter().chain(names).chain(more) {
        assert!(nonsense.parse::<StreamPosition>().is_err(), "{nonsense}");
    }
}

/// Eight writers commit in whatever order the server lets them; a reader that follows all the time
/// has every entry once, and each history in its order.
async fn a_reader_misses_nothing_of_eight_writers(bench: Bench) {
    const WRITERS: usize = 8;
    const ROUNDS: u64 = 25;
    let done = Arc::new(AtomicUsize::new(0));
    let mut writers = Vec::new();
    for number in 0..WRITERS {
        let (store, done) = (bench.second(), Arc::clone(&done));
        writers.push(tokio::spawn(async move {
            let lane = lane(number as u32);
            let claim = claim_at(&*store, &node(&format!("n{number}")), lane, 0).await;
            let mut written: Vec<TxId> = Vec::new();
            let event = NewLaneEvent { kind: LaneEventKind::GapFilled, data: json!({}) };
            for round in 0..ROUNDS {
                let new = bind_txs(&*store, bind_new(claim, round, [new_tx(lane)])).await;
                let new = new.unwrap().remove(0);
                store.tell_lane(&A_NODE, lane, &event).await.unwrap();
                steps(&*store, claim, &new, &[Step::Sent]).await;
                written.push(new.id);
            }
            done.fetch_add(1, Ordering::SeqCst);
            written
        }));
    }
    let reader = bench.second();
    let (mut from, mut read) = (StreamPosition::default(), Vec::new());
    eventually("every entry", async || {
        let all_done = done.load(Ordering::SeqCst) == WRITERS;
        let events = reader.events_after(from, 7).await.unwrap();
        from = events.last().map_or(from, StreamEvent::position);
        let enough = all_done && events.is_empty();
        read.extend(events);
        // The first entry of each lane, and four of each round.
        let complete = read.len() == WRITERS * (1 + ROUNDS as usize * 4);
        (enough && complete).then_some(())
    })
    .await;
    assert!(read.is_sorted_by(|one, next| one.position() < next.position()));
    let mut histories: HashMap<TxId, Vec<u32>> = HashMap::new();
    for event in of_txs(read) {
        histories.entry(event.tx).or_default().push(event.seq);
    }
    for writer in writers {
        for tx in writer.await.unwrap() {
            assert_eq!(histories.remove(&tx), Some(vec![1, 2, 3]));
        }
    }
    assert!(histories.is_empty());
}

/// Commits finish out of order: an entry written early and committed late is not passed by.
#[tokio::test]
async fn an_entry_that_is_committed_late_is_not_passed_by() {
    let bench = Bench::postgres().await;
    let store = &*bench.store;
    let first = accept_one(store, new_tx(lane(1))).await;
    read_on(store, StreamPosition::default(), 1).await;
    let late = bench.raw().await;
    let insert = format!(
        "BEGIN; INSERT INTO tx_event (tx_id, seq, tenant, chain_id, signer, kind, state, at, node_id, data)
         SELECT tx_id, 2, tenant, chain_id, signer, 'STALE', state, at, node_id, data
         FROM tx_event WHERE tx_id = '{}'",
        first.id
    );
    late.execute(&insert).await;
    let early = accept_one(store, new_tx(lane(1))).await;
    let end = store.stream_end().await.unwrap();
    assert!(store.events_after(end, 10).await.unwrap().is_empty(), "it would pass the late one");
    late.execute("COMMIT").await;
    let told: Vec<_> = read_on(store, end, 2).await.iter().map(|it| (it.tx, it.seq)).collect();
    assert_eq!(told, [(first.id, 2), (early.id, 1)]);
}

/// The parts of a place: transaction, entry, history.
fn parts(position: StreamPosition) -> (i64, i64, String) {
    let text = position.to_string();
    let mut parts = text.splitn(3, '-');
    let mut number = || parts.next().unwrap().parse().unwrap();
    (number(), number(), parts.next().expect("the name of a history").to_owned())
}

/// A place so far ahead that only a history which is lost can have come to it.
fn ahead(position: StreamPosition) -> StreamPosition {
    let (transaction, entry, history) = parts(position);
    let ahead = if transaction > 0 { transaction + 1_000_000 } else { 0 };
    format!("{ahead}-{}-{history}", entry + 1_000_000).parse().unwrap()
}

async fn told(store: &dyn Store, position: StreamPosition) -> HistoryChange {
    let events = store.events_after(position, 10).await.unwrap();
    let [StreamEvent::HistoryChanged(change)] = &events[..] else { panic!("{events:?}") };
    change.clone()
}

/// A standby takes over that has everything up to a place: another timeline. On SQLite, a copy is put back
/// that has everything up to now.
async fn begin_another_history(bench: &Bench, reached: StreamPosition) {
    if bench.database.is_postgres() {
        let (reached, _, _) = parts(reached);
        let sql = format!("UPDATE stream_history SET timeline = '000000FF', reached = {reached}");
        bench.raw().await.execute(&sql).await;
    } else {
        put_back(bench).await;
    }
}

/// The tables are served from another place than before.
async fn put_back(bench: &Bench) {
    let served = open(OpenOptions { serve: true, ..bench.database.options() }).unwrap();
    served.arrive().await.unwrap();
    served.close().await;
    drop(served);
    bench.raw().await.execute("UPDATE origin SET place = 'elsewhere'").await;
    let served = open(OpenOptions { serve: true, ..bench.database.options() }).unwrap();
    served.arrive().await.unwrap();
    served.close().await;
}

async fn hole_30_a_reader_from_a_lost_history_is_told_and_misses_nothing(bench: Bench) {
    let store = &*bench.store;
    for _ in 0..3 {
        accept_one(store, new_tx(lane(1))).await;
    }
    let before = read_on(store, StreamPosition::default(), 3).await;
    let last = before[2].position;
    begin_another_history(&bench, last).await;
    let after = accept_one(store, new_tx(lane(1))).await;

    // One that read on in the history that is lost, and one that came by before the two parted.
    for (place, seen) in [(ahead(last), 3), (last, 3), (before[0].position, 1)] {
        let change = told(store, place).await;
        assert_eq!(change.from.as_ref().map(|from| from.id.to_string()), Some(parts(place).2));
        assert_ne!(change.to.id, change.from.unwrap().id);
        assert_eq!(parts(change.position).2, change.to.id.to_string());
        let read = read_on_to(store, change.position, after.id).await;
        let unseen: Vec<_> = before[seen..].iter().map(|event| event.tx).collect();
        assert!(unseen.iter().all(|tx| read.contains(tx)), "{place}: {read:?}");
    }
    // And only then.
    let end = store.stream_end().await.unwrap();
    assert_eq!(store.events_after(end, 10).await.unwrap(), []);
    let all = store.events_after(StreamPosition::default(), 100).await.unwrap();
    assert_eq!(of_txs(all).len(), 4, "whoever begins at the beginning comes from no history");
}

/// Reads on from a place up to an entry of this transaction, and answers with all that came.
async fn read_on_to(store: &dyn Store, mut from: StreamPosition, to: TxId) -> Vec<TxId> {
    let mut read = Vec::new();
    eventually("the entry", async || {
        let events = store.events_after(from, 1000).await.unwrap();
        from = events.last().map_or(from, StreamEvent::position);
        read.extend(of_txs(events).into_iter().map(|event| event.tx));
        read.contains(&to).then_some(())
    })
    .await;
    read
}

/// Loaded from a dump, where transactions are counted by another server, or an older file.
async fn hole_30_a_reader_of_a_copy_that_was_put_back_misses_nothing(bench: Bench) {
    let store = &*bench.store;
    accept_one(store, new_tx(lane(1))).await;
    let before = read_on(store, StreamPosition::default(), 1).await[0].position;
    put_back(&bench).await;
    let after = accept_one(store, new_tx(lane(1))).await;
    let change = told(store, ahead(before)).await;
    read_on_to(store, change.position, after.id).await;
    let again = told(store, before).await;
    assert_eq!(again.to, change.to, "the history has one name");
    // A history of which nothing is on record: all of this one is new.
    let (transaction, entry, _) = parts(before);
    let strange = format!("{transaction}-{entry}-00000000000000ff").parse().unwrap();
    let change = told(store, strange).await;
    assert_eq!(change.from.unwrap().timeline, None);
    assert_eq!(read_on_to(store, change.position, after.id).await.len(), 2, "from the beginning");
}

/// The database went back and nobody noticed: the place says so.
async fn hole_30_a_place_that_was_never_reached_is_not_waited_for(bench: Bench) {
    let store = &*bench.store;
    let tx = accept_one(store, new_tx(lane(1))).await;
    let place = read_on(store, StreamPosition::default(), 1).await[0].position;
    let change = told(store, ahead(place)).await;
    assert_eq!(read_on_to(store, change.position, tx.id).await, [tx.id]);
}

async fn a_place_from_before_histories_had_names_is_read(bench: Bench) {
    let store = &*bench.store;
    let end = store.stream_end().await.unwrap();
    let tx = accept_one(store, new_tx(lane(1))).await;
    let (transaction, entry, _) = parts(end);
    let old: StreamPosition = format!("{transaction}-{entry}").parse().unwrap();
    assert_eq!(read_on(store, old, 1).await[0].tx, tx.id, "as ever, while nothing has changed");
    // Further than the history had come when it was named: it is of another one.
    let (transaction, entry, _) = parts(ahead(end));
    let old = format!("{transaction}-{entry}").parse().unwrap();
    let change = told(store, old).await;
    assert_eq!(change.from, None);
    read_on_to(store, change.position, tx.id).await;
    begin_another_history(&bench, end).await;
    let (transaction, entry, _) = parts(end);
    let old = format!("{transaction}-{entry}").parse().unwrap();
    let moved = match transaction + entry {
        // The beginning of everything.
        0 => StreamPosition::default(),
        _ => told(store, old).await.position,
    };
    read_on_to(store, moved, tx.id).await;
}
