//! Attempts that take each other's place, transactions that lose their nonce, and those made in their
//! place.

use serde_json::json;
use stile_domain::{AttemptKind, EventKind, Fees, Outcome, Step, SubState, Successor, TxState};
use stile_store::{
    Acceptance, NewAttempt, NewTx, Recorded, Refusal, Sending, Set, StoreError, Tx, TxFilter,
    WishEnd,
};

use crate::common::{
    A_NODE, Bench, LEASE, WINDOW, accept, accept_one, attempt, bind_new, bind_txs, bound, change,
    claim_at, created, header, kinds, lane, lose, named, new_tx, node, read_tx, receipt, record,
    record_one, rival, steps, tx_id, view, waiting_binding,
};

on_both_stores!(
    a_new_attempt_is_numbered_and_the_transaction_goes_by_it,
    any_attempt_may_be_the_one_that_is_mined,
    a_new_attempt_beside_a_receipt_leaves_the_mined_hash,
    a_change_that_lost_writes_no_attempt_and_no_successor,
    a_rival_is_kept_set_and_cleared,
    a_transaction_with_a_rival_is_not_in_flight,
    what_lost_its_nonce_is_done_at_the_height_of_its_rival,
    what_lost_its_nonce_is_open_work_until_it_is_buried,
    what_lost_its_nonce_is_listed_with_all_that_failed,
    a_successor_is_accepted_in_the_same_commit,
    a_successor_whose_request_id_is_taken_is_an_error,
    a_lost_transaction_has_one_successor_at_most,
    hole_27_what_has_a_successor_is_not_opened_again,
    hole_27_no_statement_opens_what_has_a_successor,
    what_has_a_successor_that_was_withdrawn_is_opened_again,
    a_repeated_acceptance_in_the_place_of_another_is_the_first,
    attempts_lead_to_their_transactions,
    transactions_are_read_with_their_attempts_in_any_state,
);

const MINED: Step = Step::Mined(Outcome::Success);

fn another(kind: AttemptKind) -> NewAttempt {
    let fees = Fees::Market { max_fee_per_gas: 300, max_priority_fee_per_gas: 9 };
    NewAttempt { kind, fees, gas_limit: 30_000, ..attempt() }
}

async fn a_new_attempt_is_numbered_and_the_transaction_goes_by_it(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let mut tx = bound(store, claim, 0).await;
    let steps = [
        (Step::Bumped, AttemptKind::Bump),
        (Step::CancelRequested, AttemptKind::Cancel),
        (Step::GivenUp, AttemptKind::GiveUp),
    ];
    let mut hashes = vec![tx.tx_hash.unwrap()];
    for (step, kind) in steps {
        let (new, mut change) = (another(kind), change(&tx, step));
        change.attempt = Some(new.clone());
        tx = record_one(store, claim, change).await;
        assert_eq!(tx.tx_hash, Some(new.hash));
        hashes.push(new.hash);
        let written = store.attempts(tx.id).await.unwrap().pop().unwrap();
        assert_eq!((written.kind, written.hash, written.raw), (kind, new.hash, new.raw));
        assert_eq!((written.fees, written.gas_limit), (new.fees, new.gas_limit));
        assert_eq!((written.fencing_token, written.sends), (claim.token(), 0));
        assert_eq!((written.created_at, written.last_sent_at), (tx.updated_at, None));
    }
    let attempts = store.attempts(tx.id).await.unwrap();
    let numbers: Vec<_> = attempts.iter().map(|attempt| attempt.number).collect();
    assert_eq!(numbers, [1, 2, 3, 4]);
    assert_eq!(attempts[0].kind, AttemptKind::Send);
    let open = store.open_txs(&[lane(1)]).await.unwrap().remove(0);
    assert_eq!(open.attempts.iter().map(|it| it.hash).collect::<Vec<_>>(), hashes);
    let read: Vec<_> = open.attempts.iter().map(|it| it.kind).collect();
    assert_eq!(read, attempts.iter().map(|it| it.kind).collect::<Vec<_>>());
    // Only the newest is ever sent.
    let (newest, older) = open.attempts.split_last().unwrap();
    assert_eq!(newest.raw, attempts[3].raw);
    assert!(older.iter().all(|it| it.raw.is_empty()));
    let [all] = &store.with_attempts(&[tx.id]).await.unwrap()[..] else { panic!("it is there") };
    let read: Vec<_> = all.attempts.iter().map(|it| (it.kind, &it.raw)).collect();
    assert_eq!(read, attempts.iter().map(|it| (it.kind, &it.raw)).collect::<Vec<_>>());
    let told = [EventKind::Bumped, EventKind::CancelRequested, EventKind::GivenUp];
    assert_eq!(kinds(store, tx.id).await[2..], told);
}

async fn any_attempt_may_be_the_one_that_is_mined(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let first = bound(store, claim, 0).await;
    let (newer, mut bumped) = (another(AttemptKind::Bump), change(&first, Step::Bumped));
    bumped.attempt = Some(newer.clone());
    let bumped = record_one(store, claim, bumped).await;
    let mut mined = change(&bumped, MINED);
    mined.receipt = Set::To(receipt(&first, 10));
    let mined = record_one(store, claim, mined).await;
    assert_eq!(mined.tx_hash, first.tx_hash, "the one that is in the block");
    let reopened = steps(store, claim, &mined, &[Step::Unmined]).await;
    assert_eq!(reopened.tx_hash, Some(newer.hash), "the newest again");
    // The older one is sent again, which is noted on it and on no other.
    let mut sent = change(&reopened, Step::Sent);
    let hash = first.tx_hash.unwrap();
    sent.sent = Some(Sending { hash, taken: true, said: json!("ok") });
    record_one(store, claim, sent).await;
    let sends: Vec<_> = store.attempts(first.id).await.unwrap().iter().map(|it| it.sends).collect();
    assert_eq!(sends, [1, 0]);
}

async fn a_new_attempt_beside_a_receipt_leaves_the_mined_hash(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let tx = bound(store, claim, 0).await;
    let mut mined = change(&tx, MINED);
    mined.attempt = Some(another(AttemptKind::Bump));
    let mined = record_one(store, claim, mined).await;
    assert_eq!(mined.tx_hash, tx.tx_hash);
    assert_eq!(store.attempts(tx.id).await.unwrap().len(), 2);
    // In the change that takes the receipt back, the new one is the newest.
    let (newest, mut unmined) = (another(AttemptKind::Bump), change(&mined, Step::Unmined));
    unmined.attempt = Some(newest.clone());
    let unmined = record_one(store, claim, unmined).await;
    assert_eq!(unmined.tx_hash, Some(newest.hash));
}

async fn a_change_that_lost_writes_no_attempt_and_no_successor(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let (one, two) = (bound(store, claim, 0).await, bound(store, claim, 1).await);
    steps(store, claim, &one, &[Step::Sent]).await;
    let before = bench.raw().await.dump().await;
    let mut stale = change(&one, Step::Superseded(Successor::Outsider));
    stale.attempt = Some(another(AttemptKind::Bump));
    stale.rival = Set::To(rival(Successor::Outsider, 10));
    stale.wish = WishEnd::Over;
    stale.successor = Some(Box::new(new_tx(lane(1))));
    let recorded = record(store, claim, vec![stale.clone()]).await.unwrap();
    assert_eq!(recorded, [Recorded::Lost]);
    let after = bench.raw().await.dump().await;
    let without_lane = |dump: &str| dump.split_once("nonce").unwrap().1.to_owned();
    assert_eq!(without_lane(&after), without_lane(&before), "only the lease is extended");
    let recorded = record(store, claim, vec![stale, change(&two, Step::Sent)]).await.unwrap();
    assert_eq!(recorded, [Recorded::Lost, Recorded::Written { events: 3 }]);
}

async fn a_rival_is_kept_set_and_cleared(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let tx = bound(store, claim, 0).await;
    let given = rival(Successor::Outsider, 12);
    let mut overtaken = change(&tx, Step::Overtaken(Successor::Outsider));
    overtaken.rival = Set::To(given);
    let overtaken = record_one(store, claim, overtaken).await;
    assert_eq!(overtaken.rival, Some(given));
    assert_eq!(overtaken.standing.sub_state, Some(SubState::ReplacedExternally));
    assert_eq!(overtaken.tx_hash, tx.tx_hash, "it is no attempt of ours");
    let kept = steps(store, claim, &overtaken, &[Step::WentStale]).await;
    assert_eq!(kept.rival, Some(given));
    let mut cleared = change(&kept, Step::Unmined);
    cleared.rival = Set::Clear;
    assert_eq!(record_one(store, claim, cleared).await.rival, None);
}

async fn a_transaction_with_a_rival_is_not_in_flight(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let (lost, _) = (bound(store, claim, 0).await, bound(store, claim, 1).await);
    assert_eq!(view(store, lane(1)).await.in_flight, 2);
    let mut overtaken = change(&lost, Step::Overtaken(Successor::Cancel));
    overtaken.rival = Set::To(rival(Successor::Cancel, 12));
    record_one(store, claim, overtaken).await;
    assert_eq!(view(store, lane(1)).await.in_flight, 1, "its nonce is used");
    assert_eq!(store.open_txs(&[lane(1)]).await.unwrap().len(), 2, "it is not done");
}

async fn what_lost_its_nonce_is_done_at_the_height_of_its_rival(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let tx = bound(store, claim, 0).await;
    let failed = lose(store, claim, &tx, 20).await;
    assert_eq!(failed.standing.state, TxState::Failed);
    assert!(store.open_txs(&[lane(1)]).await.unwrap().is_empty());
    let above = async |height| store.done_above(lane(1).chain, &[lane(1)], height).await.unwrap();
    let found = above(19).await;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].tx, failed);
    assert_eq!(found[0].attempts[0].kind, AttemptKind::Send);
    assert!(above(20).await.is_empty());

    let mut reopened = change(&failed, Step::Unmined);
    reopened.rival = Set::Clear;
    record_one(store, claim, reopened).await;
    assert!(above(0).await.is_empty());
    assert_eq!(store.open_txs(&[lane(1)]).await.unwrap().len(), 1);
}

async fn what_lost_its_nonce_is_open_work_until_it_is_buried(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let tx = bound(store, claim, 0).await;
    lose(store, claim, &tx, 20).await;
    let update = async |height| {
        let (chain, canonical) = (lane(1).chain, vec![header(1, height)]);
        let update = stile_store::HeaderUpdate { chain, canonical, replaced: vec![], keep_from: 0 };
        store.save_headers(&update).await.unwrap();
    };
    store.release(&[claim]).await.unwrap();
    update(20 + u64::from(WINDOW) - 1).await;
    let taken = store.take_expired(&node("b"), LEASE, 10, WINDOW).await.unwrap();
    assert_eq!(taken.len(), 1, "it can be reopened");
    store.release(&[taken[0].claim]).await.unwrap();
    update(20 + u64::from(WINDOW)).await;
    assert!(store.take_expired(&node("c"), LEASE, 10, WINDOW).await.unwrap().is_empty());
}

async fn what_lost_its_nonce_is_listed_with_all_that_failed(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let (one, two) = (bound(store, claim, 0).await, bound(store, claim, 1).await);
    let refused = accept_one(store, new_tx(lane(1))).await;
    let refused = steps(store, claim, &refused, &[Step::Refused]).await;
    let lost = lose(store, claim, &one, 20).await;
    // One that has a rival and is not given up on is not among them.
    let mut overtaken = change(&two, Step::Overtaken(Successor::Outsider));
    overtaken.rival = Set::To(rival(Successor::Outsider, 20));
    record_one(store, claim, overtaken).await;
    for lanes in [None, Some(vec![lane(1)])] {
        let state = Some(TxState::Failed);
        let filter = TxFilter { tenant: "shop".into(), lanes, state, before: None, limit: 10 };
        let page = store.tx_page(&filter).await.unwrap();
        assert_eq!(page.txs, [refused.clone(), lost.clone()]);
    }
}

/// The change by which a transaction is lost and another one made in its place.
fn lost_to(tx: &Tx, successor: NewTx) -> stile_store::TxChange {
    let mut lost = change(tx, Step::Superseded(Successor::Outsider));
    lost.rival = Set::To(rival(Successor::Outsider, 20));
    lost.successor = Some(Box::new(successor));
    lost
}

async fn a_successor_is_accepted_in_the_same_commit(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let tx = bound(store, claim, 0).await;
    let waits = accept_one(store, new_tx(lane(1))).await;
    let new = NewTx { gas_limit: Some(77_000), ..new_tx(lane(1)) };
    let lost = record_one(store, claim, lost_to(&tx, new.clone())).await;
    assert_eq!((lost.replaced_by, lost.replaces), (Some(new.id), None));
    let made = read_tx(store, new.id).await;
    assert_eq!((made.replaces, made.replaced_by), (Some(tx.id), None));
    assert_eq!((made.standing.state, made.nonce, made.events), (TxState::Created, None, 1));
    assert_eq!((made.payload.clone(), made.gas_limit), (new.payload, Some(77_000)));
    assert_eq!((made.finality, made.request_hash), (new.finality, new.request_hash));
    assert!(made.position > waits.position, "it queues like any other");
    let history = store.history(made.id).await.unwrap();
    assert_eq!(history.len(), 1);
    assert_eq!((history[0].kind, history[0].fencing_token), (EventKind::Accepted, None));
    assert_eq!((&history[0].node, history[0].state), (&*A_NODE, TxState::Created));
    let before = store.history(tx.id).await.unwrap().pop().unwrap();
    assert!(before.position < history[0].position);
    let waiting: Vec<_> =
        store.waiting(lane(1), 9).await.unwrap().into_iter().map(|tx| tx.id).collect();
    assert_eq!(waiting, [waits.id, made.id]);
}

async fn a_successor_whose_request_id_is_taken_is_an_error(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let tx = bound(store, claim, 0).await;
    let taken = accept_one(store, named(lane(1), "one")).await;
    for new in [named(lane(1), "one"), NewTx { id: taken.id, ..new_tx(lane(1)) }] {
        let refused = record(store, claim, vec![lost_to(&tx, new)]).await;
        assert!(matches!(refused, Err(Refusal::Inconsistent(_))), "{refused:?}");
        assert_eq!(read_tx(store, tx.id).await, tx, "nothing of it is written");
    }
}

async fn a_lost_transaction_has_one_successor_at_most(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let tx = bound(store, claim, 0).await;
    let lost = record_one(store, claim, lost_to(&tx, new_tx(lane(1)))).await;
    let mut again = stile_store::TxChange::new(lost.id, lost.events, lost.standing);
    again.successor = Some(Box::new(new_tx(lane(1))));
    let again = record(store, claim, vec![again]).await;
    assert!(matches!(again, Err(Refusal::Inconsistent(_))), "{again:?}");
    assert_eq!(read_tx(store, tx.id).await, lost, "what was made in its place stays");
    let second = NewTx { replaces: Some(tx.id), ..new_tx(lane(1)) };
    let refused = store.accept(&A_NODE, std::slice::from_ref(&second)).await;
    assert!(matches!(refused, Err(StoreError::Constraint(_))), "{refused:?}");
    let first = store.waiting(lane(1), 9).await.unwrap();
    let both = stile_store::Bindable::Waiting(first[0].id);
    let both = [both, stile_store::Bindable::New(Box::new(second))];
    let refused = bind_txs(store, crate::common::tx_binding(claim, vec![], 1, both)).await;
    assert!(matches!(refused, Err(Refusal::Inconsistent(_))), "{refused:?}");
    assert_eq!(store.waiting(lane(1), 9).await.unwrap(), first);
}

async fn a_repeated_acceptance_in_the_place_of_another_is_the_first(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let new = NewTx { replaces: Some(tx_id()), ..new_tx(lane(1)) };
    let accepted = created(accept(store, std::slice::from_ref(&new)).await.remove(0));
    assert_eq!(accepted.replaces, new.replaces);
    assert_eq!(read_tx(store, new.id).await, accepted);
    let again = accept(store, std::slice::from_ref(&new)).await.remove(0);
    assert_eq!(again, Acceptance::Existing(accepted.clone()));
    store.withdraw(&A_NODE, accepted.id).await.unwrap();
    let other = NewTx { replaces: Some(tx_id()), ..new_tx(lane(1)) };
    let bound = bind_txs(store, bind_new(claim, 0, [other.clone()])).await.unwrap().remove(0);
    assert_eq!(bound.replaces, other.replaces);
    assert_eq!(read_tx(store, other.id).await, bound);
}

async fn attempts_lead_to_their_transactions(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let (one, two) = (bound(store, claim, 0).await, bound(store, claim, 1).await);
    let (newer, mut bumped) = (another(AttemptKind::Bump), change(&one, Step::Bumped));
    bumped.attempt = Some(newer.clone());
    record_one(store, claim, bumped).await;
    let hashes = [newer.hash, attempt().hash, two.tx_hash.unwrap(), one.tx_hash.unwrap()];
    let found = store.txs_of_attempts(&hashes).await.unwrap();
    assert_eq!(found, [Some(one.id), None, Some(two.id), Some(one.id)]);
    assert!(store.txs_of_attempts(&[]).await.unwrap().is_empty());
}

async fn transactions_are_read_with_their_attempts_in_any_state(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let (one, two) = (bound(store, claim, 0).await, bound(store, claim, 1).await);
    let done = steps(store, claim, &one, &[MINED, Step::Final]).await;
    let lost = lose(store, claim, &two, 20).await;
    let waits = accept_one(store, new_tx(lane(1))).await;
    let ids = [waits.id, lost.id, tx_id(), done.id];
    let found = store.with_attempts(&ids).await.unwrap();
    let txs: Vec<_> = found.iter().map(|open| open.tx.clone()).collect();
    assert_eq!(txs, [waits, lost, done]);
    let attempts: Vec<_> = found.iter().map(|open| open.attempts.len()).collect();
    assert_eq!(attempts, [0, 1, 1]);
    assert!(found.iter().all(|open| !open.forked));
    let update = stile_store::HeaderUpdate {
        chain: lane(1).chain,
        canonical: vec![],
        replaced: vec![header(2, 11)],
        keep_from: 0,
    };
    store.save_headers(&update).await.unwrap();
    let forked = store.with_attempts(&ids).await.unwrap();
    assert_eq!(forked.iter().map(|open| open.forked).collect::<Vec<_>>(), [false, false, true]);
}

/// A reorganisation has taken the outsider's transaction back, or the chain was reset.
fn reopened(lost: &Tx) -> stile_store::TxChange {
    let mut change = change(lost, Step::Unmined);
    change.rival = Set::Clear;
    change
}

async fn hole_27_what_has_a_successor_is_not_opened_again(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let (tx, other) = (bound(store, claim, 0).await, bound(store, claim, 1).await);
    let lost = record_one(store, claim, lost_to(&tx, new_tx(lane(1)))).await;
    let made = read_tx(store, lost.replaced_by.unwrap()).await;
    let mut mined = change(&lost, MINED);
    mined.receipt = Set::To(receipt(&tx, 30));
    for (state, nonce) in [("CREATED", 2), ("ALLOCATED", 2)] {
        for reopening in [reopened(&lost), mined.clone()] {
            let changes = vec![reopening, change(&other, Step::WentStale)];
            let recorded = record(store, claim, changes).await.unwrap();
            assert_eq!(recorded[0], Recorded::Lost, "while the other one is {state}");
        }
        assert_eq!(read_tx(store, tx.id).await, lost, "while the other one is {state}");
        if state == "CREATED" {
            bind_txs(store, waiting_binding(claim, nonce, [&made])).await.unwrap();
        }
    }
    // It is told still what became of it, as long as it stays closed.
    let mut told = stile_store::TxChange::new(lost.id, lost.events, lost.standing);
    told.error = Set::To("another word".into());
    assert_eq!(record_one(store, claim, told).await.error.as_deref(), Some("another word"));
}

async fn hole_27_no_statement_opens_what_has_a_successor(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let tx = bound(store, claim, 0).await;
    record_one(store, claim, lost_to(&tx, new_tx(lane(1)))).await;
    let raw = bench.raw().await;
    for state in ["SUBMITTED", "ALLOCATED"] {
        let of = raw.uuid(tx.id.0);
        let sql =
            format!("UPDATE tx SET state = '{state}', events = events + 1 WHERE tx_id = {of}");
        let refused = raw.attempt(&sql).await.unwrap_err();
        assert!(refused.contains("it has a successor and is never sent again"), "{refused}");
    }
}

async fn what_has_a_successor_that_was_withdrawn_is_opened_again(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let tx = bound(store, claim, 0).await;
    let lost = record_one(store, claim, lost_to(&tx, new_tx(lane(1)))).await;
    let made = lost.replaced_by.unwrap();
    let withdrawn = store.withdraw(&A_NODE, made).await.unwrap();
    assert!(matches!(withdrawn, stile_store::Withdrawal::Done(_)), "{withdrawn:?}");
    let open = record_one(store, claim, reopened(&lost)).await;
    assert_eq!((open.standing.state, open.replaced_by), (TxState::Submitted, Some(made)));
    let made = read_tx(store, made).await;
    let bound = bind_txs(store, waiting_binding(claim, 1, [&made])).await;
    assert_eq!(bound, Err(Refusal::RowLost), "the other one is never sent");
}
