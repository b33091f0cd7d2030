//! Removing what is over: all of it at once, and nothing that is not.

use std::time::Duration;

use stile_domain::{Outcome, Step, Successor, TxState};
use stile_store::{
    Acceptance, AllocationKey, Claim, MarkOutcome, NewTx, Refusal, Set, Store, StreamPosition, Tx,
};
use testkit::eventually;

use crate::common::{
    Bench, LEASE, RUN_OUT, accept, accept_one, bind, bind_new, bind_txs, block, bound, change,
    claim_at, fresh, give_back, hold_at, key, keyed, lane, lose, mark, named, new_tx, node, of_txs,
    read_hold, read_tx, receipt, record_one, reissue, steps, used, view,
};

on_both_stores!(
    what_is_over_goes_with_all_that_belongs_to_it,
    what_is_not_done_is_never_removed,
    what_a_reorganisation_could_reopen_stays,
    what_is_young_stays,
    hole_20_nonces_of_a_restore_stay,
    what_failed_without_a_nonce_goes,
    what_failed_with_a_nonce_waits_for_the_chain_to_pass_it,
    what_lost_its_nonce_goes_once_its_rival_is_out_of_reach,
    the_oldest_go_first_and_no_more_than_asked,
    other_chains_are_not_touched,
    a_removed_nonce_is_not_given_out_again,
    a_request_id_is_remembered_as_long_as_its_transaction,
    a_reader_of_the_stream_goes_on_with_what_is_there,
    used_holds_go_with_their_keys,
    holds_that_are_not_over_stay,
    holds_given_back_go_once_somebody_else_has_the_nonce,
    lanes_with_old_holds_are_found,
    the_database_refuses_to_remove_what_is_not_over,
);

const NO_TIME: Duration = Duration::ZERO;
const AN_HOUR: Duration = Duration::from_secs(3600);

/// Above every block there is.
const EVERYTHING: u64 = u64::MAX;

/// A transaction that was mined at this height and confirmed.
async fn confirmed(store: &dyn Store, claim: Claim, nonce: u64, new: NewTx, height: u64) -> Tx {
    let tx = bind_txs(store, bind_new(claim, nonce, [new])).await.unwrap().remove(0);
    let sent = steps(store, claim, &tx, &[Step::Sent]).await;
    let mut mined = change(&sent, Step::Mined(Outcome::Success));
    mined.receipt = Set::To(receipt(&sent, height));
    let mined = record_one(store, claim, mined).await;
    steps(store, claim, &mined, &[Step::Final]).await
}

async fn sweep(store: &dyn Store, below: u64, kept: Duration) -> u64 {
    store.sweep_txs(lane(1).chain, below, kept, 100).await.unwrap()
}

async fn is_there(store: &dyn Store, tx: &Tx) -> bool {
    store.txs(&[tx.id]).await.unwrap()[0].is_some()
}

/// Rows of every table that belong to transactions.
async fn rows(bench: &Bench) -> [String; 4] {
    let raw = bench.raw().await;
    let mut counts = [const { String::new() }; 4];
    for (count, table) in counts.iter_mut().zip(["tx", "attempt", "tx_event", "nonce"]) {
        *count = raw.value(&format!("SELECT count(*) FROM {table}")).await;
    }
    counts
}

async fn what_is_over_goes_with_all_that_belongs_to_it(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let old = confirmed(store, claim, 0, named(lane(1), "old"), 10).await;
    let young = confirmed(store, claim, 1, named(lane(1), "young"), 20).await;
    assert_eq!(rows(&bench).await, ["2", "2", "10", "2"]);
    let before = view(store, lane(1)).await;
    assert_eq!(sweep(store, 15, NO_TIME).await, 1);
    assert_eq!(rows(&bench).await, ["1", "1", "5", "1"]);
    assert!(!is_there(store, &old).await);
    assert!(store.history(old.id).await.unwrap().is_empty());
    assert!(store.attempts(old.id).await.unwrap().is_empty());
    assert_eq!(read_tx(store, young.id).await, young);
    assert_eq!(store.history(young.id).await.unwrap().len(), 5);
    assert_eq!(store.attempts(young.id).await.unwrap().len(), 1);
    let after = view(store, lane(1)).await;
    assert_eq!((after.next_nonce, after.owner.token), (before.next_nonce, before.owner.token));
    assert_eq!(sweep(store, 15, NO_TIME).await, 0, "once is enough");
}

async fn what_is_not_done_is_never_removed(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let txs = bind_txs(store, bind_new(claim, 0, (0..3).map(|_| new_tx(lane(1))))).await.unwrap();
    steps(store, claim, &txs[1], &[Step::Sent]).await;
    steps(store, claim, &txs[2], &[Step::Sent, Step::Mined(Outcome::Success)]).await;
    accept_one(store, new_tx(lane(1))).await;
    let before = bench.raw().await.dump().await;
    assert_eq!(sweep(store, EVERYTHING, NO_TIME).await, 0);
    assert_eq!(bench.raw().await.dump().await, before);
}

/// At the edge: its block, and the blocks that were told on top of it, must both be out of reach.
async fn what_a_reorganisation_could_reopen_stays(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let tx = confirmed(store, claim, 0, new_tx(lane(1)), 10).await;
    assert_eq!(sweep(store, 10, NO_TIME).await, 0, "its own block can be replaced");
    let mut told = change(&tx, Step::Forked { still_final: true });
    told.told = Set::To((12, block(1, 12)));
    record_one(store, claim, told).await;
    assert_eq!(sweep(store, 12, NO_TIME).await, 0, "what was told of it can be replaced");
    assert!(is_there(store, &tx).await);
    assert_eq!(sweep(store, 13, NO_TIME).await, 1);

    // Reopened, it is no longer done, however deep it was.
    let again = confirmed(store, claim, 1, new_tx(lane(1)), 10).await;
    steps(store, claim, &again, &[Step::Unmined]).await;
    assert_eq!(sweep(store, EVERYTHING, NO_TIME).await, 0);
    assert_eq!(read_tx(store, again.id).await.standing.state, TxState::Submitted);
}

/// Without their rows they would look like nonces that were lost with the database.
async fn hole_20_nonces_of_a_restore_stay(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let before = confirmed(store, claim, 0, new_tx(lane(1)), 10).await;
    let among = confirmed(store, claim, 1, new_tx(lane(1)), 10).await;
    let mark = "UPDATE lane SET restored_number = 1, restored_at = expires_at, \
                restored_from = 1, restored_to = 2";
    bench.raw().await.execute(mark).await;
    assert_eq!(sweep(store, EVERYTHING, NO_TIME).await, 1);
    assert!(!is_there(store, &before).await);
    assert!(is_there(store, &among).await);
}

async fn what_is_young_stays(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let (one, other) = (new_tx(lane(1)), new_tx(lane(1)));
    let old = confirmed(store, claim, 0, one, 10).await;
    let young = confirmed(store, claim, 1, other, 11).await;
    age(&bench, "tx", &format!("nonce = {}", old.nonce.unwrap())).await;
    assert_eq!(sweep(store, EVERYTHING, AN_HOUR).await, 1);
    assert!(!is_there(store, &old).await);
    assert!(is_there(store, &young).await);
}

/// Makes rows two hours older.
async fn age(bench: &Bench, table: &str, which: &str) {
    let earlier = match bench.database.is_postgres() {
        true => "updated_at - interval '2 hours'",
        false => "updated_at - 7200000000",
    };
    let raw = bench.raw().await;
    raw.execute(&format!("UPDATE {table} SET updated_at = {earlier} WHERE {which}")).await;
}

async fn what_failed_without_a_nonce_goes(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let refused = accept_one(store, named(lane(1), "refused")).await;
    let waits = accept_one(store, new_tx(lane(1))).await;
    record_one(store, claim, change(&refused, Step::Refused)).await;
    assert_eq!(sweep(store, 0, AN_HOUR).await, 0);
    assert_eq!(sweep(store, 0, NO_TIME).await, 1, "no block has anything to do with it");
    assert!(!is_there(store, &refused).await);
    assert!(store.history(refused.id).await.unwrap().is_empty());
    assert!(is_there(store, &waits).await);
}

async fn what_failed_with_a_nonce_waits_for_the_chain_to_pass_it(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let binding = bind_new(claim, 0, [new_tx(lane(1))]);
    let tx = bind_txs(store, binding).await.unwrap().remove(0);
    let failed = steps(store, claim, &tx, &[Step::Superseded(Successor::Outsider)]).await;
    assert_eq!(failed.standing.state, TxState::Failed);
    assert_eq!(sweep(store, EVERYTHING, NO_TIME).await, 0, "nothing shows that the nonce is gone");
    confirmed(store, claim, 1, new_tx(lane(1)), 10).await;
    assert_eq!(sweep(store, 10, NO_TIME).await, 0, "what shows it can be replaced");
    assert_eq!(sweep(store, 11, NO_TIME).await, 2);
    assert_eq!(rows(&bench).await, ["0", "0", "0", "0"]);
}

/// Like one that was confirmed, at the height of the block that its rival is in.
async fn what_lost_its_nonce_goes_once_its_rival_is_out_of_reach(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let tx = bound(store, claim, 0).await;
    let lost = lose(store, claim, &tx, 10).await;
    assert_eq!(sweep(store, 10, NO_TIME).await, 0, "the rival's block can be replaced");
    assert_eq!(sweep(store, 11, AN_HOUR).await, 0, "it is young");
    // A later nonce that was mined below shows nothing about it: its rival may be taken back.
    confirmed(store, claim, 1, new_tx(lane(1)), 5).await;
    assert_eq!(sweep(store, 9, NO_TIME).await, 1);
    assert!(is_there(store, &lost).await);
    let mut told = change(&lost, Step::Unmined);
    told.rival = Set::Clear;
    let reopened = record_one(store, claim, told).await;
    assert_eq!(sweep(store, EVERYTHING, NO_TIME).await, 0, "reopened, it is not done");
    lose(store, claim, &reopened, 10).await;
    assert_eq!(sweep(store, 11, NO_TIME).await, 1);
    assert_eq!(rows(&bench).await, ["0", "0", "0", "0"]);
}

async fn the_oldest_go_first_and_no_more_than_asked(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let mut txs = Vec::new();
    for nonce in 0..5 {
        txs.push(confirmed(store, claim, nonce, new_tx(lane(1)), 10 + nonce).await);
    }
    let removed = store.sweep_txs(lane(1).chain, EVERYTHING, NO_TIME, 2).await.unwrap();
    assert_eq!(removed, 2);
    let mut left = Vec::new();
    for tx in &txs {
        left.push(is_there(store, tx).await);
    }
    if bench.database.is_postgres() {
        assert_eq!(left.iter().filter(|left| **left).count(), 3);
    } else {
        assert_eq!(left, [false, false, true, true, true]);
    }
    assert_eq!(sweep(store, EVERYTHING, NO_TIME).await, 3);
}

async fn other_chains_are_not_touched(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    confirmed(store, claim, 0, new_tx(lane(1)), 10).await;
    let other = stile_domain::ChainId::new(5).unwrap();
    assert_eq!(store.sweep_txs(other, EVERYTHING, NO_TIME, 100).await.unwrap(), 0);
    assert_eq!(rows(&bench).await, ["1", "1", "5", "1"]);
}

async fn a_removed_nonce_is_not_given_out_again(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    confirmed(store, claim, 0, new_tx(lane(1)), 10).await;
    let hold = hold_at(store, claim, 1, LEASE).await;
    mark(store, used(&hold, 1)).await;
    assert_eq!(sweep(store, EVERYTHING, NO_TIME).await, 1);
    assert_eq!(store.sweep_holds(lane(1), 2, NO_TIME, 100).await.unwrap(), 1);
    assert_eq!(bench.raw().await.value("SELECT count(*) FROM nonce").await, "0");
    assert_eq!(view(store, lane(1)).await.next_nonce, Some(2));
    assert!(view(store, lane(1)).await.gaps.is_empty());
    for nonce in [0, 1] {
        let again = bind(store, fresh(claim, nonce, 1)).await;
        assert_eq!(again, Err(Refusal::CursorMoved));
        let again = bind_txs(store, bind_new(claim, nonce, [new_tx(lane(1))])).await;
        assert_eq!(again, Err(Refusal::CursorMoved));
    }
    assert_eq!(bind(store, fresh(claim, 2, 1)).await.unwrap()[0].nonce, 2);
}

async fn a_request_id_is_remembered_as_long_as_its_transaction(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let first = confirmed(store, claim, 0, named(lane(1), "one"), 10).await;
    let repeated = accept(store, &[named(lane(1), "one")]).await.remove(0);
    assert!(matches!(repeated, Acceptance::Existing(tx) if tx.id == first.id));
    assert_eq!(sweep(store, EVERYTHING, NO_TIME).await, 1);
    let ids = ["one".to_owned()];
    assert_eq!(store.txs_by_request("shop", lane(1), &ids).await.unwrap(), [None]);
    let second = accept_one(store, named(lane(1), "one")).await;
    assert_ne!(second.id, first.id);
    assert!(second.position > first.position, "positions are not used again");
}

async fn a_reader_of_the_stream_goes_on_with_what_is_there(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let old = confirmed(store, claim, 0, new_tx(lane(1)), 10).await;
    let events = eventually("the stream's entries", async || {
        let events = store.events_after(StreamPosition::default(), 100).await.unwrap();
        let events = of_txs(events);
        (events.len() == 5).then_some(events)
    })
    .await;
    let young = confirmed(store, claim, 1, new_tx(lane(1)), 20).await;
    assert_eq!(sweep(store, 15, NO_TIME).await, 1);
    // From every place there was: the first, one in the middle, the last of what is gone.
    let places = [StreamPosition::default(), events[2].position, events[4].position];
    for place in places {
        let rest = eventually("the rest of the stream", async || {
            let rest = of_txs(store.events_after(place, 100).await.unwrap());
            (rest.len() == 5).then_some(rest)
        })
        .await;
        assert!(rest.iter().all(|event| event.tx == young.id && event.tx != old.id));
    }
    // With nothing left, the end is the end, and what comes is seen.
    assert_eq!(sweep(store, EVERYTHING, NO_TIME).await, 1);
    let end = store.stream_end().await.unwrap();
    assert!(store.events_after(end, 10).await.unwrap().is_empty());
    let next = accept_one(store, new_tx(lane(1))).await;
    for place in [end, events[4].position] {
        let told = eventually("the next entry", async || {
            let told = of_txs(store.events_after(place, 10).await.unwrap());
            (!told.is_empty()).then_some(told)
        })
        .await;
        assert_eq!(told.iter().map(|event| event.tx).collect::<Vec<_>>(), [next.id]);
    }
}

/// The hold that was allocated under a key.
async fn under(store: &dyn Store, key: &AllocationKey) -> Option<stile_domain::Hold> {
    store.allocated_under(lane(1), std::slice::from_ref(key)).await.unwrap().remove(0)
}

async fn used_holds_go_with_their_keys(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let keys = [key("shop", "one"), key("shop", "two")];
    let holds = bind(store, keyed(fresh(claim, 0, 2), &keys)).await.unwrap();
    for hold in &holds {
        mark(store, used(hold, 1)).await;
    }
    assert_eq!(store.sweep_holds(lane(1), 1, AN_HOUR, 100).await.unwrap(), 0, "too young");
    assert_eq!(store.sweep_holds(lane(1), 1, NO_TIME, 100).await.unwrap(), 1);
    assert_eq!(under(store, &keys[0]).await, None);
    assert_eq!(under(store, &keys[1]).await.unwrap().id, holds[1].id);
    assert_eq!(mark(store, used(&holds[0], 1)).await, MarkOutcome::NotFound);
    let raw = bench.raw().await;
    assert_eq!(raw.value("SELECT count(*) FROM allocation_key").await, "1");
    // The key is as good as new.
    let again = bind(store, keyed(fresh(claim, 2, 1), &keys[..1])).await.unwrap().remove(0);
    assert_eq!(under(store, &keys[0]).await.unwrap().id, again.id);
    assert_eq!(again.nonce, 2);
}

async fn holds_that_are_not_over_stay(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let held = hold_at(store, claim, 0, LEASE).await;
    let suspect = hold_at(store, claim, 1, RUN_OUT).await;
    store.expire(&[claim], stile_domain::HeldExpiry::Suspect, LEASE).await.unwrap()[0]
        .as_ref()
        .unwrap();
    let released = give_back(store, &hold_at(store, claim, 2, LEASE).await).await;
    let unmined = hold_at(store, claim, 3, LEASE).await;
    mark(store, used(&unmined, 7)).await;
    assert_eq!(store.sweep_holds(lane(1), 3, NO_TIME, 100).await.unwrap(), 0);
    assert_eq!(store.sweep_past_holds(NO_TIME, 100).await.unwrap(), 0);
    for hold in [&held, &suspect, &released, &unmined] {
        read_hold(store, hold).await;
    }
    // The nonce of a transaction is none of a hold's.
    bind_txs(store, bind_new(claim, 4, [new_tx(lane(1))])).await.unwrap();
    assert_eq!(store.sweep_holds(lane(1), 100, NO_TIME, 100).await.unwrap(), 1, "the used one");
    assert_eq!(bench.raw().await.value("SELECT count(*) FROM nonce").await, "4");
}

async fn holds_given_back_go_once_somebody_else_has_the_nonce(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let keys = [key("shop", "first"), key("shop", "second")];
    let first = bind(store, keyed(fresh(claim, 0, 1), &keys[..1])).await.unwrap().remove(0);
    let first = give_back(store, &first).await;
    let again = keyed(reissue(claim, 1, std::slice::from_ref(&first)), &keys[1..]);
    let second = bind(store, again).await.unwrap().remove(0);
    assert_eq!(store.sweep_past_holds(AN_HOUR, 100).await.unwrap(), 0, "too young");
    assert_eq!(store.sweep_past_holds(NO_TIME, 100).await.unwrap(), 1);
    assert_eq!(under(store, &keys[0]).await, None);
    assert_eq!(under(store, &keys[1]).await.unwrap().id, second.id);
    assert_eq!(mark(store, used(&first, 1)).await, MarkOutcome::NotFound);
    assert_eq!(read_hold(store, &second).await, second);
    let raw = bench.raw().await;
    assert_eq!(raw.value("SELECT count(*) FROM past_hold").await, "0");
}

async fn lanes_with_old_holds_are_found(bench: Bench) {
    let store = &*bench.store;
    for number in 1..=3 {
        let claim = claim_at(store, &node("a"), lane(number), 0).await;
        let hold = hold_at(store, claim, 0, LEASE).await;
        if number > 1 {
            mark(store, used(&hold, 1)).await;
        }
    }
    let raw = bench.raw().await;
    age(&bench, "nonce", &raw.of(lane(3))).await;
    assert_eq!(store.lanes_with_old_holds(AN_HOUR).await.unwrap(), [lane(3)]);
    assert_eq!(store.lanes_with_old_holds(NO_TIME).await.unwrap(), [lane(2), lane(3)]);
}

async fn the_database_refuses_to_remove_what_is_not_over(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    bind_txs(store, bind_new(claim, 0, [new_tx(lane(1))])).await.unwrap();
    hold_at(store, claim, 1, LEASE).await;
    let raw = bench.raw().await;
    for statement in ["DELETE FROM tx", "DELETE FROM nonce"] {
        let refused = raw.attempt(statement).await.expect_err("removed");
        assert!(refused.contains("what is not over is never removed"), "{refused}");
    }
}
