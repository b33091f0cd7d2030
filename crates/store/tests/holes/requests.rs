//! Request ids, nonces and the order of acceptance.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::join_all;
use stile_domain::{Nonce, Payload, Released, TxId, request_hash};
use stile_store::{Acceptance, Bindable, Claim, NewTx, Refusal, Store, StoreError, Tx, TxBinding};

use crate::common::{
    Bench, accept, accept_one, bind, bind_new, bind_txs, claim_at, fresh, give_back, lane, named,
    new_tx, node, tx_binding, tx_id, view, wait_until_blocked, waiting_binding,
};

on_both_stores!(
    a_changed_payload_is_told_from_the_first
        hole_15_a_changed_payload_is_told_from_the_first
        hole_15_a_changed_payload_is_told_from_the_first_on_sqlite,
    a_race_for_a_request_id_leaves_no_hole
        hole_16a_a_race_for_a_request_id_leaves_no_hole
        hole_16a_a_race_for_a_request_id_leaves_no_hole_on_sqlite,
    an_allocation_during_a_slow_signature
        hole_16a_an_allocation_during_a_slow_signature
        hole_16a_an_allocation_during_a_slow_signature_on_sqlite,
    a_mixed_load_gives_every_nonce_one_owner
        hole_16b_a_mixed_load_gives_every_nonce_one_owner
        hole_16b_a_mixed_load_gives_every_nonce_one_owner_on_sqlite,
    a_new_one_does_not_overtake_what_waits
        hole_16e_a_new_one_does_not_overtake_what_waits
        hole_16e_a_new_one_does_not_overtake_what_waits_on_sqlite,
);

async fn a_changed_payload_is_told_from_the_first(bench: Bench) {
    let stores = [bench.second(), bench.second()];
    let calls = (0..100).map(|number| {
        let store = &stores[number % 2];
        async move { accept(&**store, &[named(lane(1), "one")]).await.remove(0) }
    });
    let answers = join_all(calls).await;
    let new: Vec<_> = answers.into_iter().filter(|it| matches!(it, Acceptance::New(_))).collect();
    let [Acceptance::New(first)] = &new[..] else { panic!("not one transaction: {new:?}") };

    let payload = Payload { data: b"something else".to_vec().into(), ..first.payload.clone() };
    let small = Payload { max_fee_per_gas: None, ..payload.clone() };
    let changed =
        NewTx { payload, request_hash: request_hash(&small, None), ..named(lane(1), "one") };
    let answer = accept(&*bench.store, std::slice::from_ref(&changed)).await.remove(0);
    let Acceptance::Existing(found) = answer else { panic!("written a second time") };
    assert_eq!(&found, first);
    assert_ne!(found.request_hash, changed.request_hash, "the caller can tell");
}

/// Every nonce that a lane has given out, with its owner, lowest first.
async fn ledger(bench: &Bench) -> Vec<(Nonce, String)> {
    let rows = bench.raw().await.rows("SELECT nonce, owner_kind FROM nonce ORDER BY nonce").await;
    rows.iter().map(|row| (row[0].parse().unwrap(), row[1].clone())).collect()
}

/// That each nonce from 0 to the cursor has an owner, and each transaction the nonce that the
/// ledger says it owns.
async fn assert_no_holes(bench: &Bench) {
    let cursor = view(&*bench.store, lane(1)).await.next_nonce.unwrap();
    let owned: Vec<_> = ledger(bench).await.into_iter().map(|(nonce, _)| nonce).collect();
    assert_eq!(owned, (0..cursor).collect::<Vec<_>>());
    let raw = bench.raw().await;
    let strangers = "SELECT count(*) FROM nonce n WHERE n.owner_kind = 'tx' AND NOT EXISTS
        (SELECT 1 FROM tx t WHERE t.tx_id = n.owner_id AND t.chain_id = n.chain_id
                              AND t.signer = n.signer AND t.nonce = n.nonce)";
    assert_eq!(raw.value(strangers).await, "0", "a nonce whose transaction has another");
    let homeless = "SELECT count(*) FROM tx t WHERE t.nonce IS NOT NULL AND NOT EXISTS
        (SELECT 1 FROM nonce n WHERE n.owner_kind = 'tx' AND n.owner_id = t.tx_id
                                 AND n.nonce = t.nonce)";
    assert_eq!(raw.value(homeless).await, "0", "a transaction whose nonce has another owner");
    let unsigned = "SELECT count(*) FROM tx t WHERE t.nonce IS NOT NULL AND NOT EXISTS
        (SELECT 1 FROM attempt a WHERE a.tx_id = t.tx_id AND a.hash = t.tx_hash)";
    assert_eq!(raw.value(unsigned).await, "0", "a nonce without signed bytes");
}

/// The holder binds two requests while another node accepts the first of them. Whoever wins, no
/// nonce is left without a transaction, and no transaction has bytes signed for another nonce.
async fn a_race_for_a_request_id_leaves_no_hole(bench: Bench) {
    let store = &*bench.store;
    let other = bench.second();
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    for round in 0..30 {
        let cursor = view(store, lane(1)).await.next_nonce.unwrap();
        let (front, behind) = (format!("front-{round}"), format!("behind-{round}"));
        let two = bind_new(claim, cursor, [named(lane(1), &front), named(lane(1), &behind)]);
        let rival = [named(lane(1), &front)];
        let (bound, accepted) = tokio::join!(bind_txs(store, two), accept(&*other, &rival));
        match (bound, &accepted[0]) {
            (Ok(txs), Acceptance::Existing(found)) => assert_eq!(found.id, txs[0].id),
            (Err(Refusal::RowLost | Refusal::OthersWait), Acceptance::New(won)) => {
                assert_eq!(view(store, lane(1)).await.next_nonce, Some(cursor));
                let again =
                    [Bindable::Waiting(won.id), Bindable::New(Box::new(named(lane(1), &behind)))];
                bind_txs(store, tx_binding(claim, Vec::new(), cursor, again)).await.unwrap();
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(ledger(&bench).await.len(), 60);
    assert_no_holes(&bench).await;
}

/// The same race at its narrowest: the rival's row is written and not committed yet.
#[tokio::test]
async fn hole_16a_a_binding_that_waits_for_a_rival_takes_everything_back() {
    let bench = Bench::postgres().await;
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    // A row to copy, on another lane.
    let template = accept_one(store, named(lane(2), "one")).await;
    let (rival, observer) = (bench.raw().await, bench.raw().await);
    let won = tx_id();
    let copy = format!(
        "BEGIN; INSERT INTO tx (tx_id, tenant, chain_id, signer, request_id, request_hash, payload,
                                finality, state, sub_state, events, created_at, updated_at)
         SELECT '{won}', tenant, chain_id, {}, request_id, request_hash, payload,
                finality, state, sub_state, events, created_at, updated_at
         FROM tx WHERE tx_id = '{}'",
        rival.bytes(lane(1).signer.as_slice()),
        template.id
    );
    rival.execute(&copy).await;
    let two = bind_new(claim, 0, [named(lane(1), "one"), named(lane(1), "two")]);
    let binding = tokio::spawn({
        let store = Arc::clone(&bench.store);
        async move { bind_txs(&*store, two).await }
    });
    wait_until_blocked(&observer, 1).await;
    rival.execute("COMMIT").await;
    assert_eq!(binding.await.unwrap(), Err(Refusal::RowLost));
    assert_eq!(view(store, lane(1)).await.next_nonce, Some(0), "the cursor went back");
    assert!(ledger(&bench).await.is_empty());
    assert_eq!(observer.value("SELECT count(*) FROM attempt").await, "0");

    let again = [Bindable::Waiting(won), Bindable::New(Box::new(named(lane(1), "two")))];
    bind_txs(store, tx_binding(claim, Vec::new(), 0, again)).await.unwrap();
    assert_no_holes(&bench).await;
}

/// Nonces are planned and signed for; before the signatures are there a caller allocates one.
async fn an_allocation_during_a_slow_signature(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let waits = accept_one(store, new_tx(lane(1))).await;
    let signed_for_zero = waiting_binding(claim, 0, [&waits]);
    bind(store, fresh(claim, 0, 1)).await.unwrap();
    assert_eq!(bind_txs(store, signed_for_zero).await, Err(Refusal::CursorMoved));
    let bound = bind_txs(store, waiting_binding(claim, 1, [&waits])).await.unwrap();
    assert_eq!(bound[0].nonce, Some(1));
    assert_eq!(store.attempts(waits.id).await.unwrap().len(), 1, "only the bytes for nonce 1");
    assert_no_holes(&bench).await;
}

/// Binds with a plan of its own until the cursor is where the plan says.
async fn plan_until_bound(
    store: &dyn Store,
    plan: impl Fn(Nonce) -> TxBinding,
) -> Result<Vec<Tx>, Refusal> {
    loop {
        let cursor = view(store, lane(1)).await.next_nonce.unwrap();
        match bind_txs(store, plan(cursor)).await {
            Err(Refusal::CursorMoved) => {}
            answer => return answer,
        }
    }
}

/// Allocates until the cursor is where the plan says, and gives every second nonce back.
async fn allocate(store: &dyn Store, claim: Claim) -> Option<Released> {
    loop {
        let cursor = view(store, lane(1)).await.next_nonce.unwrap();
        match bind(store, fresh(claim, cursor, 2)).await {
            Ok(holds) => {
                let given_back = give_back(store, &holds[1]).await;
                return Some(Released { nonce: given_back.nonce, hold: given_back.id });
            }
            Err(Refusal::CursorMoved) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
}

/// Holds, transactions, and both at nonces that were given back, on one lane at one time. Two
/// transactions go after each nonce that was given back.
async fn a_mixed_load_gives_every_nonce_one_owner(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let load = (0..12).map(|_| async move {
        let given_back = allocate(store, claim).await.unwrap();
        let reissue = |cursor| {
            let new = Bindable::New(Box::new(new_tx(lane(1))));
            tx_binding(claim, vec![given_back], cursor, [new])
        };
        let new = |cursor| bind_new(claim, cursor, [new_tx(lane(1)), new_tx(lane(1))]);
        let (one, other, both) = tokio::join!(
            plan_until_bound(store, reissue),
            plan_until_bound(store, reissue),
            plan_until_bound(store, new),
        );
        let won = match (one, other) {
            (Ok(won), Err(Refusal::RowLost)) | (Err(Refusal::RowLost), Ok(won)) => won,
            both => panic!("not one of two has the nonce that was given back: {both:?}"),
        };
        assert_eq!(won[0].nonce, Some(given_back.nonce));
        won.into_iter().chain(both.unwrap()).map(|tx| (tx.nonce.unwrap(), tx.id)).collect()
    });
    let bound: Vec<Vec<(Nonce, TxId)>> = join_all(load).await;
    let by_nonce: BTreeMap<Nonce, TxId> = bound.concat().into_iter().collect();
    assert_eq!(by_nonce.len(), 12 * 3, "no nonce twice");
    let kinds = ledger(&bench).await;
    assert_eq!(kinds.len(), 12 * 4);
    for (nonce, kind) in kinds {
        assert_eq!(kind == "tx", by_nonce.contains_key(&nonce), "nonce {nonce}");
    }
    assert_no_holes(&bench).await;
}

async fn a_new_one_does_not_overtake_what_waits(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    // The window is full, so these two wait.
    let flying = bind_txs(store, bind_new(claim, 0, [new_tx(lane(1))])).await.unwrap();
    let waiting = [
        accept_one(&*bench.second(), new_tx(lane(1))).await,
        accept_one(store, new_tx(lane(1))).await,
    ];
    let overtakes = || bind_new(claim, 1, [new_tx(lane(1))]);
    assert_eq!(bind_txs(store, overtakes()).await, Err(Refusal::OthersWait));
    bind_txs(store, waiting_binding(claim, 1, &waiting[..1])).await.unwrap();
    let still = bind_new(claim, 2, [new_tx(lane(1))]);
    assert_eq!(bind_txs(store, still).await, Err(Refusal::OthersWait));
    let rest = [Bindable::Waiting(waiting[1].id), Bindable::New(Box::new(new_tx(lane(1))))];
    let bound = bind_txs(store, tx_binding(claim, Vec::new(), 2, rest)).await.unwrap();
    let order: Vec<_> = bound.iter().map(|tx| (tx.nonce, tx.position)).collect();
    assert!(order.is_sorted() && flying[0].position < waiting[0].position, "{order:?}");
    assert_no_holes(&bench).await;
}

/// One is accepted while the binding of a new one waits for the lane.
#[tokio::test]
async fn hole_16e_the_order_is_looked_at_under_the_lanes_lock() {
    let bench = Bench::postgres().await;
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let (blocker, observer) = (bench.raw().await, bench.raw().await);
    blocker.execute("BEGIN; SELECT 1 FROM lane FOR UPDATE").await;
    let binding = tokio::spawn({
        let store = Arc::clone(&bench.store);
        async move { bind_txs(&*store, bind_new(claim, 0, [new_tx(lane(1))])).await }
    });
    wait_until_blocked(&observer, 1).await;
    let waits = accept_one(&*bench.second(), new_tx(lane(1))).await;
    blocker.execute("COMMIT").await;
    assert_eq!(binding.await.unwrap(), Err(Refusal::OthersWait));
    bind_txs(store, waiting_binding(claim, 0, [&waits])).await.unwrap();
}

/// A backup is being loaded into the tables of nodes that run: rows first, indexes later.
///
/// Fails if a request is taken while nothing keeps its id from being taken twice.
#[tokio::test]
async fn hole_15_nothing_is_accepted_while_the_index_of_request_ids_is_missing() {
    let bench = Bench::postgres().await;
    accept_one(&*bench.store, named(lane(1), "before")).await;
    let raw = bench.raw().await;
    raw.execute("DROP INDEX tx_request").await;
    let refused = bench.store.accept(&node("a").node, &[named(lane(1), "one")]).await;
    assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
    let whole = bench.store.arrive().await.unwrap_err().to_string();
    assert!(whole.contains("tx_request"), "{whole}");
    raw.execute(
        "CREATE UNIQUE INDEX tx_request ON tx (tenant, chain_id, signer, request_id)
         WHERE request_id IS NOT NULL",
    )
    .await;
    accept_one(&*bench.store, named(lane(1), "one")).await;
    bench.store.arrive().await.unwrap();
}

/// An index whose creation failed has its name and keeps nothing out.
///
/// Fails if a request is taken twice because an index of that name is there.
#[tokio::test]
async fn hole_15_nothing_is_accepted_while_the_index_of_request_ids_is_not_valid() {
    let bench = Bench::postgres().await;
    accept_one(&*bench.store, named(lane(1), "one")).await;
    let raw = bench.raw().await;
    raw.execute("DROP INDEX tx_request").await;
    // As after CREATE UNIQUE INDEX CONCURRENTLY that has failed.
    raw.execute(
        "CREATE UNIQUE INDEX tx_request ON tx (tenant, chain_id, signer, request_id)
         WHERE request_id IS NOT NULL",
    )
    .await;
    raw.execute(
        "UPDATE pg_index SET indisvalid = false, indisready = false
         WHERE indexrelid = 'tx_request'::regclass",
    )
    .await;
    for id in ["one", "two"] {
        let refused = bench.store.accept(&node("a").node, &[named(lane(1), id)]).await;
        assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
    }
    let whole = bench.store.arrive().await.unwrap_err().to_string();
    assert!(whole.contains("tx_request"), "{whole}");
}

/// The nonce ledger's key is looked at too: its rows are plain inserts, which nothing else keeps apart.
#[tokio::test]
async fn hole_16b_no_node_starts_where_the_ledger_has_no_key() {
    let bench = Bench::postgres().await;
    let raw = bench.raw().await;
    raw.execute("ALTER TABLE nonce DROP CONSTRAINT nonce_pkey").await;
    let whole = bench.store.arrive().await.unwrap_err().to_string();
    assert!(whole.contains("nonce_pkey"), "{whole}");
}
