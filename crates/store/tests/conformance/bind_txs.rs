//! Transactions that get their nonces: new ones, waiting ones, what is refused and what is then
//! left unwritten.

use std::time::Duration;

use stile_domain::{EventKind, HoldStatus, Nonce, Standing, Step, TxState};
use stile_store::{Bindable, Recorded, Refusal, StoreError, TxBinding};

use crate::common::{
    A_NODE, Bench, LEASE, RUN_OUT, accept, accept_one, bind, bind_new, bind_txs, change, claim_at,
    created, fresh, give_back, held, lane, lanes, mark, named, new_tx, node, pause, read_hold,
    read_tx, record, released, tx_binding, used, view, waiting_binding,
};

on_both_stores!(
    a_new_transaction_is_accepted_and_bound_in_one_commit,
    waiting_transactions_are_bound_in_the_plans_order,
    new_waiting_released_and_fresh_mix,
    a_new_one_does_not_overtake_one_that_waits,
    others_that_wait_on_other_lanes_do_not_matter,
    lanes_of_one_call_do_not_mix,
    a_lost_transaction_takes_back_its_lane_and_no_other,
    a_taken_request_id_takes_back_its_lane_and_no_other,
    a_lost_released_nonce_takes_back_its_lane_and_no_other,
    a_released_nonce_that_another_transaction_has_is_lost,
    a_transaction_that_is_bound_is_not_bound_again,
    one_transaction_twice_in_a_binding_is_refused,
    every_kind_of_refusal_in_one_call,
    an_attempt_that_exists_already_spoils_no_other_lane,
    a_binding_extends_the_lease,
    a_plan_without_a_transaction_for_each_nonce_is_refused,
);

fn nonces(txs: &[stile_store::Tx]) -> Vec<Nonce> {
    txs.iter().map(|tx| tx.nonce.unwrap()).collect()
}

async fn a_new_transaction_is_accepted_and_bound_in_one_commit(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 10).await;
    let binding = bind_new(claim, 10, [named(lane(1), "one"), new_tx(lane(1))]);
    let txs = bind_txs(store, binding.clone()).await.unwrap();
    assert_eq!(nonces(&txs), [10, 11]);
    assert_eq!(view(store, lane(1)).await.next_nonce, Some(12));
    for (tx, planned) in txs.iter().zip(&binding.txs) {
        assert_eq!(&read_tx(store, tx.id).await, tx, "answered as it is stored");
        assert_eq!(tx.standing, Standing::CREATED.after(Step::Bound).unwrap());
        assert_eq!((tx.events, tx.tx_hash), (2, Some(planned.attempt.hash)));
        assert_eq!(tx.gas_limit, Some(planned.attempt.gas_limit), "known now");
        let after = tx.next_resubmit_at.unwrap().duration_since(tx.updated_at);
        assert_eq!(Duration::try_from(after).unwrap(), binding.resubmit_after.unwrap());

        let attempts = store.attempts(tx.id).await.unwrap();
        assert_eq!(attempts.len(), 1);
        assert_eq!((attempts[0].number, attempts[0].sends), (1, 0));
        assert_eq!(attempts[0].hash, planned.attempt.hash);
        assert_eq!(attempts[0].raw, planned.attempt.raw);
        assert_eq!(attempts[0].fees, planned.attempt.fees);
        assert_eq!(attempts[0].gas_limit, planned.attempt.gas_limit);
        assert_eq!(attempts[0].fencing_token, claim.token());
        assert_eq!((attempts[0].last_sent_at, &attempts[0].said), (None, &None));

        let history = store.history(tx.id).await.unwrap();
        let told: Vec<_> = history.iter().map(|it| (it.seq, it.kind, it.state)).collect();
        assert_eq!(
            told,
            [(1, EventKind::Accepted, TxState::Created), (2, EventKind::Bound, TxState::Allocated)]
        );
        assert_eq!(history[0].fencing_token, None);
        assert_eq!(history[1].fencing_token, Some(claim.token()));
        assert_eq!(history[1].data["nonce"], tx.nonce.unwrap());
        assert_eq!(history[1].data["txHash"], planned.attempt.hash.to_string());
        assert_eq!(history[1].data["maxFeePerGas"], "200");
    }
    let raw = bench.raw().await;
    let ledger = raw.rows("SELECT nonce, owner_kind, status FROM nonce ORDER BY nonce").await;
    assert_eq!(ledger, [["10", "tx", "CONSUMED"], ["11", "tx", "CONSUMED"]]);
}

async fn waiting_transactions_are_bound_in_the_plans_order(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let txs = [new_tx(lane(1)), named(lane(1), "two"), new_tx(lane(1))];
    let accepted: Vec<_> = accept(store, &txs).await.into_iter().map(created).collect();
    let bound = bind_txs(store, waiting_binding(claim, 0, &accepted)).await.unwrap();
    assert_eq!(nonces(&bound), [0, 1, 2]);
    for (before, after) in accepted.iter().zip(&bound) {
        assert_eq!(&read_tx(store, before.id).await, after, "answered as it is stored");
        assert_eq!((after.id, after.position, after.events), (before.id, before.position, 2));
        assert_eq!(after.payload, before.payload);
        let kinds: Vec<_> =
            store.history(after.id).await.unwrap().iter().map(|it| (it.seq, it.kind)).collect();
        assert_eq!(kinds, [(1, EventKind::Accepted), (2, EventKind::Bound)]);
    }
    assert!(store.waiting(lane(1), 10).await.unwrap().is_empty());
    assert_eq!(store.open_txs(&[lane(1)]).await.unwrap().len(), 3);
}

async fn new_waiting_released_and_fresh_mix(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 5).await;
    let holds = bind(store, fresh(claim, 5, 3)).await.unwrap();
    give_back(store, &holds[0]).await;
    give_back(store, &holds[2]).await;
    let waits = accept_one(store, new_tx(lane(1))).await;
    let binding = tx_binding(
        claim,
        vec![released(&holds[0]), released(&holds[2])],
        8,
        [
            Bindable::Waiting(waits.id),
            Bindable::New(Box::new(new_tx(lane(1)))),
            Bindable::New(Box::new(named(lane(1), "one"))),
        ],
    );
    let txs = bind_txs(store, binding).await.unwrap();
    assert_eq!(nonces(&txs), [5, 7, 8]);
    assert_eq!(view(store, lane(1)).await.next_nonce, Some(9));
    let raw = bench.raw().await;
    let ledger = raw.rows("SELECT nonce, owner_kind, status FROM nonce ORDER BY nonce").await;
    assert_eq!(
        ledger,
        [
            ["5", "tx", "CONSUMED"],
            ["6", "hold", "HELD"],
            ["7", "tx", "CONSUMED"],
            ["8", "tx", "CONSUMED"]
        ]
    );
    let old = read_hold(store, &holds[0]).await;
    assert_eq!((old.status, old.reason.as_deref()), (HoldStatus::Released, Some("not sent")));
    let survey = store.survey(&[lane(1)]).await.unwrap();
    assert!(survey.is_empty(), "nothing to give out again: {survey:?}");
    let late = mark(store, used(&holds[0], 1)).await;
    assert!(matches!(late, stile_store::MarkOutcome::Superseded(_)), "{late:?}");
}

async fn a_new_one_does_not_overtake_one_that_waits(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let txs = [new_tx(lane(1)), new_tx(lane(1))];
    let waiting: Vec<_> = accept(store, &txs).await.into_iter().map(created).collect();
    let before = bench.raw().await.dump().await;
    let refused = bind_txs(store, bind_new(claim, 0, [new_tx(lane(1))])).await;
    assert_eq!(refused, Err(Refusal::OthersWait));
    let new = || Bindable::New(Box::new(new_tx(lane(1))));
    let some = tx_binding(claim, Vec::new(), 0, [Bindable::Waiting(waiting[0].id), new()]);
    assert_eq!(bind_txs(store, some).await, Err(Refusal::OthersWait));
    let after = bench.raw().await.dump().await;
    let (before, after) = (but_lanes(&before), but_lanes(&after));
    assert_eq!(before, after, "nothing but the lease was written");

    let all = waiting.iter().map(|tx| Bindable::Waiting(tx.id)).chain([new()]);
    let bound = bind_txs(store, tx_binding(claim, Vec::new(), 0, all)).await.unwrap();
    assert_eq!(nonces(&bound), [0, 1, 2]);
}

/// A dump without the lanes, whose leases every refusal but a fence may extend.
fn but_lanes(dump: &str) -> String {
    dump.split_once("nonce\n").unwrap().1.to_owned()
}

async fn others_that_wait_on_other_lanes_do_not_matter(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    accept_one(store, new_tx(lane(2))).await;
    bind_txs(store, bind_new(claim, 0, [new_tx(lane(1))])).await.unwrap();
}

async fn lanes_of_one_call_do_not_mix(bench: Bench) {
    let store = &*bench.store;
    let a = node("a");
    let [one, two, three] = lanes();
    let claims = [
        claim_at(store, &a, one, 0).await,
        claim_at(store, &a, two, 100).await,
        claim_at(store, &a, three, 7).await,
    ];
    let waits = accept_one(store, new_tx(two)).await;
    let calls = [
        bind_new(claims[2], 7, [new_tx(three), named(three, "one")]),
        bind_new(claims[0], 0, [named(one, "one")]),
        waiting_binding(claims[1], 100, [&waits]),
    ];
    let answers = store.bind_txs(&A_NODE, &calls, LEASE).await.unwrap();
    let bound: Vec<Vec<_>> = answers
        .into_iter()
        .map(|answer| answer.unwrap().iter().map(|tx| (tx.lane, tx.nonce.unwrap())).collect())
        .collect();
    assert_eq!(bound[0], [(three, 7), (three, 8)]);
    assert_eq!(bound[1], [(one, 0)]);
    assert_eq!(bound[2], [(two, 100)]);
    assert!(store.bind_txs(&A_NODE, &[], LEASE).await.unwrap().is_empty());
}

/// Binds on a lane that loses and on one that does not; the losing one is as it was before.
async fn loses_alone(bench: &Bench, losing: TxBinding) {
    let store = &*bench.store;
    let lane = losing.claim.lane();
    let unharmed = claim_at(store, &node("a"), crate::common::lane(99), 0).await;
    let before = view(store, lane).await;
    let raw = bench.raw().await;
    let of_lane = ["nonce", "tx", "tx_event", "past_hold"]
        .map(|table| format!("SELECT * FROM {table} WHERE {} ORDER BY 1, 2, 3", raw.of(lane)));
    let mut rows = Vec::new();
    for query in &of_lane {
        rows.push(raw.rows(query).await);
    }
    let losers: Vec<_> = losing.txs.iter().map(|tx| tx.attempt.hash).collect();

    let calls = [losing, bind_new(unharmed, 0, [new_tx(unharmed.lane())])];
    let answers = store.bind_txs(&A_NODE, &calls, LEASE).await.unwrap();
    assert_eq!(answers[0], Err(Refusal::RowLost));
    assert_eq!(nonces(answers[1].as_ref().unwrap()), [0]);
    assert_eq!(view(store, lane).await.next_nonce, before.next_nonce, "its cursor went back");
    for (query, before) in of_lane.iter().zip(rows) {
        assert_eq!(raw.rows(query).await, before, "{query}");
    }
    for hash in losers {
        let count = format!("SELECT count(*) FROM attempt WHERE hash = {}", raw.bytes(&hash[..]));
        assert_eq!(raw.value(&count).await, "0");
    }
}

async fn a_lost_transaction_takes_back_its_lane_and_no_other(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let txs = [new_tx(lane(1)), new_tx(lane(1))];
    let waiting: Vec<_> = accept(store, &txs).await.into_iter().map(created).collect();
    // Between the plan and the commit one of them is refused.
    let refused = record(store, claim, vec![change(&waiting[1], Step::Refused)]).await.unwrap();
    assert_eq!(refused, [Recorded::Written { events: 2 }]);
    loses_alone(&bench, waiting_binding(claim, 0, &waiting)).await;
}

async fn a_taken_request_id_takes_back_its_lane_and_no_other(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    bind_txs(store, bind_new(claim, 0, [named(lane(1), "one")])).await.unwrap();
    loses_alone(&bench, bind_new(claim, 1, [new_tx(lane(1)), named(lane(1), "one")])).await;
}

async fn a_lost_released_nonce_takes_back_its_lane_and_no_other(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let holds = bind(store, fresh(claim, 0, 2)).await.unwrap();
    for hold in &holds {
        give_back(store, hold).await;
    }
    mark(store, used(&holds[1], 1)).await;
    let new = || Bindable::New(Box::new(new_tx(lane(1))));
    let plan = holds.iter().map(released).collect();
    loses_alone(&bench, tx_binding(claim, plan, 2, [new(), new(), new()])).await;
}

async fn a_released_nonce_that_another_transaction_has_is_lost(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let hold = bind(store, fresh(claim, 0, 1)).await.unwrap().remove(0);
    give_back(store, &hold).await;
    let new = || Bindable::New(Box::new(new_tx(lane(1))));
    let again = |what| tx_binding(claim, vec![released(&hold)], 1, [what]);
    bind_txs(store, again(new())).await.unwrap();
    loses_alone(&bench, again(new())).await;
    let waits = accept_one(store, new_tx(lane(1))).await;
    let refused = bind_txs(store, again(Bindable::Waiting(waits.id))).await;
    assert_eq!(refused, Err(Refusal::RowLost));
    assert_eq!(read_tx(store, waits.id).await, waits);
}

async fn a_transaction_that_is_bound_is_not_bound_again(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let bound = bind_txs(store, bind_new(claim, 0, [new_tx(lane(1))])).await.unwrap();
    loses_alone(&bench, waiting_binding(claim, 1, &bound)).await;
    // Nor one of another lane, whoever holds that.
    let other = accept_one(store, new_tx(lane(2))).await;
    let refused = bind_txs(store, waiting_binding(claim, 1, [&other])).await;
    assert_eq!(refused, Err(Refusal::RowLost));
    assert_eq!(read_tx(store, other.id).await, other);
}

async fn one_transaction_twice_in_a_binding_is_refused(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let tx = accept_one(store, new_tx(lane(1))).await;
    let refused = bind_txs(store, waiting_binding(claim, 0, [&tx, &tx])).await;
    assert!(matches!(refused, Err(Refusal::RowLost | Refusal::Inconsistent(_))), "{refused:?}");
    assert_eq!(read_tx(store, tx.id).await, tx);
}

async fn every_kind_of_refusal_in_one_call(bench: Bench) {
    let store = &*bench.store;
    let a = node("a");
    let [fenced, moved, lost, paused, broken, waits, sound] = lanes();
    let mut claims = Vec::new();
    for lane in [fenced, moved, lost, paused, broken, waits, sound] {
        claims.push(claim_at(store, &a, lane, 0).await);
    }
    store.release(&claims[..1]).await.unwrap();
    held(&*bench.second(), &node("b"), fenced, LEASE).await;
    let bound = bind_txs(store, bind_new(claims[2], 0, [new_tx(lost)])).await.unwrap();
    pause(store, paused, "by hand").await;
    claims[3] = held(store, &a, paused, LEASE).await.claim;
    bench.raw().await.plant(broken, 0, "filler", "HELD").await.unwrap();
    accept_one(store, new_tx(waits)).await;

    let calls = [
        bind_new(claims[6], 0, [new_tx(sound)]),
        bind_new(claims[5], 0, [new_tx(waits)]),
        bind_new(claims[4], 0, [new_tx(broken)]),
        bind_new(claims[3], 0, [new_tx(paused)]),
        waiting_binding(claims[2], 1, &bound),
        bind_new(claims[1], 3, [new_tx(moved)]),
        bind_new(claims[0], 0, [new_tx(fenced)]),
    ];
    let answers = store.bind_txs(&A_NODE, &calls, LEASE).await.unwrap();
    assert_eq!(nonces(answers[0].as_ref().unwrap()), [0], "{answers:?}");
    assert_eq!(answers[1], Err(Refusal::OthersWait));
    assert!(matches!(answers[2], Err(Refusal::Inconsistent(_))), "{answers:?}");
    assert_eq!(answers[3], Err(Refusal::Paused("by hand".into())));
    assert_eq!(answers[4], Err(Refusal::RowLost));
    assert_eq!(answers[5], Err(Refusal::CursorMoved));
    assert!(matches!(answers[6], Err(Refusal::Fenced(_))), "{answers:?}");
}

async fn an_attempt_that_exists_already_spoils_no_other_lane(bench: Bench) {
    let store = &*bench.store;
    let a = node("a");
    let [one, two] = lanes();
    let claims = [claim_at(store, &a, one, 0).await, claim_at(store, &a, two, 0).await];
    let first = bind_new(claims[0], 0, [new_tx(one)]);
    bind_txs(store, first.clone()).await.unwrap();
    let mut again = bind_new(claims[0], 1, [new_tx(one)]);
    again.txs[0].attempt = first.txs[0].attempt.clone();
    let calls = [again, bind_new(claims[1], 0, [new_tx(two)])];
    let answers = store.bind_txs(&A_NODE, &calls, LEASE).await.unwrap();
    assert!(matches!(answers[0], Err(Refusal::Inconsistent(_))), "{answers:?}");
    assert_eq!(nonces(answers[1].as_ref().unwrap()), [0]);
    assert_eq!(view(store, one).await.next_nonce, Some(1));
}

async fn a_binding_extends_the_lease(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    store.renew(&[claim], RUN_OUT).await.unwrap();
    bind_txs(store, bind_new(claim, 0, [new_tx(lane(1))])).await.unwrap();
    assert!(view(store, lane(1)).await.owner.remaining > LEASE / 2);
}

async fn a_plan_without_a_transaction_for_each_nonce_is_refused(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    for (count, given) in [(2, 1), (1, 2)] {
        let mut binding = bind_new(claim, 0, (0..given).map(|_| new_tx(lane(1))));
        binding.plan.fresh = count;
        let refused = store.bind_txs(&A_NODE, &[binding], LEASE).await;
        assert!(matches!(refused, Err(StoreError::Internal(_))), "{refused:?}");
    }
    assert_eq!(view(store, lane(1)).await.next_nonce, Some(0), "no hole");
}
