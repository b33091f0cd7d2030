//! What happens to transactions: compare-and-set on the length of the history, what each part of a
//! change does, what is refused.

use std::time::Duration;

use serde_json::json;
use stile_domain::{EventKind, Obstacle, Outcome, Receipt, Step, SubState, TxState};
use stile_store::{LaneChanges, Recorded, Refusal, Sending, Set, Tx, TxChange};

use crate::common::{
    A_NODE, Bench, LEASE, RUN_OUT, accept_one, bind_new, bind_txs, block, bound, change, claim_at,
    held, lane, lanes, new_tx, node, pause, read_tx, receipt, record, record_one, steps, view,
};

on_both_stores!(
    a_life_from_binding_to_confirmed,
    hole_37_an_outcome_that_nobody_knows_is_kept_as_that,
    a_sending_is_noted_on_transaction_and_attempt,
    a_change_without_an_entry_is_bookkeeping,
    each_part_of_a_change_is_kept_cleared_or_set,
    a_reorganisation_reopens_what_was_confirmed,
    a_change_that_lost_writes_nothing_and_harms_no_other,
    of_many_changes_of_one_transaction_one_wins,
    changes_of_another_lane_are_lost,
    a_fenced_lane_drops_only_its_own_changes,
    a_paused_lane_still_records,
    a_change_that_makes_no_sense_harms_no_other_lane,
    a_waiting_transaction_may_be_refused,
    numbers_in_a_history_have_no_gaps,
    recording_extends_the_lease,
);

const MINED: Step = Step::Mined(Outcome::Success);

async fn a_life_from_binding_to_confirmed(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let tx = bound(store, claim, 0).await;
    let sent = steps(store, claim, &tx, &[Step::Sent]).await;
    assert_eq!((sent.standing.state, sent.events), (TxState::Submitted, 3));
    let mined = steps(store, claim, &sent, &[MINED]).await;
    assert_eq!(mined.receipt, Some(receipt(&tx, 10)));
    assert_eq!(mined.standing.outcome, Some(Outcome::Success));
    assert_eq!(mined.confirmed_at, None);
    let done = steps(store, claim, &mined, &[Step::Final]).await;
    assert_eq!((done.standing.state, done.standing.sub_state), (TxState::Confirmed, None));
    assert_eq!(done.confirmed_at, Some(done.updated_at));
    assert!(done.standing.bound);

    let history = store.history(tx.id).await.unwrap();
    let told: Vec<_> = history.iter().map(|it| (it.seq, it.kind, it.state)).collect();
    assert_eq!(
        told[2..],
        [
            (3, EventKind::Sent, TxState::Submitted),
            (4, EventKind::Mined, TxState::Tracking),
            (5, EventKind::Confirmed, TxState::Confirmed),
        ]
    );
    for entry in &history[1..] {
        assert_eq!((entry.fencing_token, &entry.node), (Some(claim.token()), &*A_NODE));
        assert_eq!((entry.lane, &entry.tenant), (tx.lane, &tx.tenant));
    }
    assert_eq!(history[4].at, done.updated_at);
    let lane = view(store, lane(1)).await;
    assert_eq!((lane.in_flight, lane.queued), (0, 0));
}

async fn hole_37_an_outcome_that_nobody_knows_is_kept_as_that(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let tx = bound(store, claim, 0).await;
    let sent = steps(store, claim, &tx, &[Step::Sent]).await;
    let untold = Receipt { status: None, ..receipt(&tx, 10) };
    let mut mined = change(&sent, Step::Mined(Outcome::Unknown));
    mined.receipt = Set::To(untold.clone());
    let mined = record_one(store, claim, mined).await;
    assert_eq!(mined.standing.outcome, Some(Outcome::Unknown));
    assert_eq!(mined.receipt, Some(untold.clone()));
    // How it ended is learned after all, and unlearned.
    let mut told = change(&mined, MINED);
    told.receipt = Set::To(receipt(&tx, 10));
    let told = record_one(store, claim, told).await;
    assert_eq!(
        (told.standing.outcome, told.receipt),
        (Some(Outcome::Success), Some(receipt(&tx, 10)))
    );
    let mut again = change(&read_tx(store, tx.id).await, Step::Mined(Outcome::Unknown));
    again.receipt = Set::To(untold.clone());
    let again = record_one(store, claim, again).await;
    let done = record_one(store, claim, change(&again, Step::Final)).await;
    assert_eq!((done.standing.state, done.standing.sub_state), (TxState::Confirmed, None));
    assert_eq!(done.standing.outcome, Some(Outcome::Unknown));
    assert_eq!(done.receipt, Some(untold));
}

async fn a_sending_is_noted_on_transaction_and_attempt(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let tx = bound(store, claim, 0).await;
    let sending = |taken, said: &str| {
        Some(Sending { hash: tx.tx_hash.unwrap(), taken, said: json!({ "node": said }) })
    };
    let mut failed = TxChange::new(tx.id, tx.events, tx.standing);
    failed.sent = sending(false, "busy");
    let refused = record_one(store, claim, failed).await;
    assert_eq!((refused.sends, refused.first_submit_at, refused.last_submit_at), (1, None, None));
    assert_eq!((refused.events, refused.updated_at), (tx.events, tx.updated_at));
    let attempt = store.attempts(tx.id).await.unwrap().remove(0);
    assert_eq!((attempt.sends, attempt.said), (1, Some(json!({ "node": "busy" }))));
    assert!(attempt.last_sent_at.is_some());

    let mut sent = change(&tx, Step::Sent);
    sent.sent = sending(true, "ok");
    let sent = record_one(store, claim, sent).await;
    assert_eq!((sent.sends, sent.first_submit_at), (2, Some(sent.updated_at)));
    assert_eq!(sent.last_submit_at, sent.first_submit_at);
    let mut again = change(&sent, Step::Sent);
    again.sent = sending(true, "known");
    let again = record_one(store, claim, again).await;
    assert_eq!((again.sends, again.first_submit_at), (3, sent.first_submit_at));
    assert_eq!(again.last_submit_at, Some(again.updated_at));
    let attempt = store.attempts(tx.id).await.unwrap().remove(0);
    assert_eq!((attempt.sends, attempt.said), (3, Some(json!({ "node": "known" }))));
    assert_eq!(attempt.last_sent_at, again.last_submit_at);
}

async fn a_change_without_an_entry_is_bookkeeping(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let tx = bound(store, claim, 0).await;
    let mut quiet = TxChange::new(tx.id, tx.events, tx.standing);
    quiet.receipt_checked = true;
    quiet.resubmit_after = Set::Clear;
    let recorded = record(store, claim, vec![quiet]).await.unwrap();
    assert_eq!(recorded, [Recorded::Written { events: tx.events }]);
    let after = read_tx(store, tx.id).await;
    assert!(after.last_receipt_check_at.is_some());
    let expected = Tx {
        last_receipt_check_at: after.last_receipt_check_at,
        next_resubmit_at: None,
        ..tx.clone()
    };
    assert_eq!(after, expected, "and nothing else");
    assert_eq!(store.history(tx.id).await.unwrap().len(), 2);
}

async fn each_part_of_a_change_is_kept_cleared_or_set(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let tx = bound(store, claim, 0).await;
    let mut set = change(&tx, Step::HeldUp(Obstacle::Underpriced));
    set.error = Set::To("too cheap".into());
    set.told = Set::To((12, block(1, 12)));
    set.resubmit_after = Set::To(Duration::from_secs(5));
    let set = record_one(store, claim, set).await;
    assert_eq!(set.standing.sub_state, Some(SubState::Underpriced));
    assert_eq!((set.error.as_deref(), set.told), (Some("too cheap"), Some((12, block(1, 12)))));
    let resubmit = set.next_resubmit_at.unwrap().duration_since(set.updated_at);
    assert_eq!(resubmit.as_secs(), 5);

    let kept = record_one(store, claim, change(&set, Step::WentStale)).await;
    assert_eq!((&kept.error, kept.told), (&set.error, set.told));
    assert_eq!(kept.next_resubmit_at, set.next_resubmit_at);

    let mut cleared = change(&kept, Step::Sent);
    cleared.error = Set::Clear;
    cleared.told = Set::Clear;
    cleared.resubmit_after = Set::Clear;
    let cleared = record_one(store, claim, cleared).await;
    assert_eq!((cleared.error, cleared.told, cleared.next_resubmit_at), (None, None, None));
}

async fn a_reorganisation_reopens_what_was_confirmed(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let tx = bound(store, claim, 0).await;
    let mut mined = change(&steps(store, claim, &tx, &[Step::Sent]).await, MINED);
    // Another attempt than the newest may be the one that is mined.
    let mut other = receipt(&tx, 10);
    other.tx_hash = block(9, 9);
    mined.receipt = Set::To(other.clone());
    let mined = record_one(store, claim, mined).await;
    assert_eq!((mined.tx_hash, &mined.receipt), (Some(other.tx_hash), &Some(other)));
    let done = steps(store, claim, &mined, &[Step::Final]).await;
    let still = steps(store, claim, &done, &[Step::Forked { still_final: true }]).await;
    assert_eq!(still.confirmed_at, done.confirmed_at, "it was never not final");

    let reopened = steps(store, claim, &still, &[Step::Unmined]).await;
    assert_eq!(reopened.standing.state, TxState::Submitted);
    assert_eq!(reopened.standing.sub_state, Some(SubState::Reorged));
    assert_eq!((reopened.confirmed_at, reopened.receipt), (None, None));
    assert_eq!((reopened.standing.outcome, reopened.nonce), (None, Some(0)));
    assert_eq!(reopened.tx_hash, tx.tx_hash, "the newest attempt again");
    assert_eq!(store.open_txs(&[lane(1)]).await.unwrap().len(), 1);
    assert_eq!(store.done_above(lane(1).chain, &[lane(1)], 0).await.unwrap(), []);
}

async fn a_change_that_lost_writes_nothing_and_harms_no_other(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let (one, two) = (bound(store, claim, 0).await, bound(store, claim, 1).await);
    let moved = steps(store, claim, &one, &[Step::Sent]).await;
    let attempts = store.attempts(one.id).await.unwrap();
    let mut stale = change(&one, Step::Sent);
    let said = json!("x");
    stale.sent = Some(Sending { hash: one.tx_hash.unwrap(), taken: true, said });
    let mut unknown = change(&one, Step::Sent);
    unknown.tx = crate::common::tx_id();
    let changes = vec![stale, change(&two, Step::Sent), unknown];
    let recorded = record(store, claim, changes).await.unwrap();
    assert_eq!(recorded, [Recorded::Lost, Recorded::Written { events: 3 }, Recorded::Lost]);
    assert_eq!(read_tx(store, one.id).await, moved);
    assert_eq!(store.attempts(one.id).await.unwrap(), attempts);
    assert_eq!(store.history(one.id).await.unwrap().len(), 3);
    assert_eq!(record(store, claim, Vec::new()).await.unwrap(), []);
}

async fn of_many_changes_of_one_transaction_one_wins(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let tx = bound(store, claim, 0).await;
    let calls = (0..20).map(|_| record(store, claim, vec![change(&tx, Step::Sent)]));
    let answers = futures::future::join_all(calls).await;
    let won = answers.iter().flatten().flatten().filter(|it| **it != Recorded::Lost).count();
    assert_eq!(won, 1);
    assert_eq!(read_tx(store, tx.id).await.events, 3);
    assert_eq!(store.history(tx.id).await.unwrap().len(), 3);
}

async fn changes_of_another_lane_are_lost(bench: Bench) {
    let store = &*bench.store;
    let a = node("a");
    let [mine, other] = lanes();
    let claims = [claim_at(store, &a, mine, 0).await, claim_at(store, &a, other, 0).await];
    let tx = bound(store, claims[1], 0).await;
    let recorded = record(store, claims[0], vec![change(&tx, Step::Sent)]).await.unwrap();
    assert_eq!(recorded, [Recorded::Lost], "a claim is for its own lane");
    assert_eq!(read_tx(store, tx.id).await, tx);
}

async fn a_fenced_lane_drops_only_its_own_changes(bench: Bench) {
    let store = &*bench.store;
    let a = node("a");
    let [lost, kept] = lanes();
    let claims = [claim_at(store, &a, lost, 0).await, claim_at(store, &a, kept, 0).await];
    let txs = [bound(store, claims[0], 0).await, bound(store, claims[1], 0).await];
    store.release(&claims[..1]).await.unwrap();
    held(&*bench.second(), &node("b"), lost, LEASE).await;
    let parts = [0, 1].map(|place| LaneChanges {
        claim: claims[place],
        changes: vec![change(&txs[place], Step::Sent)],
    });
    let answers = store.record(&A_NODE, &parts, LEASE).await.unwrap();
    assert!(matches!(answers[0], Err(Refusal::Fenced(_))), "{answers:?}");
    assert_eq!(answers[1], Ok(vec![Recorded::Written { events: 3 }]));
    assert_eq!(read_tx(store, txs[0].id).await, txs[0]);
}

async fn a_paused_lane_still_records(bench: Bench) {
    let store = &*bench.store;
    let a = node("a");
    let claim = claim_at(store, &a, lane(1), 0).await;
    let tx = bound(store, claim, 0).await;
    pause(store, lane(1), "by hand").await;
    let claim = held(store, &a, lane(1), LEASE).await.claim;
    let sent = steps(store, claim, &tx, &[Step::Sent]).await;
    assert_eq!(sent.standing.state, TxState::Submitted);
    let refused = bind_txs(store, bind_new(claim, 1, [new_tx(lane(1))])).await;
    assert_eq!(refused, Err(Refusal::Paused("by hand".into())));
    accept_one(store, new_tx(lane(1))).await;
}

async fn a_change_that_makes_no_sense_harms_no_other_lane(bench: Bench) {
    let store = &*bench.store;
    let a = node("a");
    let [broken, sound] = lanes();
    let claims = [claim_at(store, &a, broken, 0).await, claim_at(store, &a, sound, 0).await];
    let txs = [bound(store, claims[0], 0).await, bound(store, claims[1], 0).await];
    let mut nonsense = change(&txs[0], MINED);
    nonsense.receipt = Set::Keep;
    let parts = [
        LaneChanges { claim: claims[0], changes: vec![nonsense] },
        LaneChanges { claim: claims[1], changes: vec![change(&txs[1], Step::Sent)] },
    ];
    let answers = store.record(&A_NODE, &parts, LEASE).await.unwrap();
    assert!(matches!(answers[0], Err(Refusal::Inconsistent(_))), "{answers:?}");
    assert_eq!(answers[1], Ok(vec![Recorded::Written { events: 3 }]));
    assert_eq!(read_tx(store, txs[0].id).await, txs[0]);
    assert_eq!(store.history(txs[0].id).await.unwrap().len(), 2);
}

async fn a_waiting_transaction_may_be_refused(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let tx = accept_one(store, new_tx(lane(1))).await;
    let mut refused = change(&tx, Step::Refused);
    refused.error = Set::To("it would revert".into());
    let refused = record_one(store, claim, refused).await;
    assert_eq!((refused.standing.state, refused.nonce), (TxState::Failed, None));
    assert_eq!(refused.standing.sub_state, Some(SubState::Rejected));
    assert!(store.waiting(lane(1), 10).await.unwrap().is_empty());
    bound(store, claim, 0).await;
}

async fn numbers_in_a_history_have_no_gaps(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let mut tx = bound(store, claim, 0).await;
    let walk = [Step::Sent, MINED, Step::Unmined, Step::Sent, MINED, Step::Final, Step::Unmined];
    for step in walk {
        // Every change also has a rival that lost, and one that writes no entry.
        let quiet = TxChange::new(tx.id, tx.events, tx.standing);
        record(store, claim, vec![quiet]).await.unwrap();
        let rival = change(&tx, step);
        tx = record_one(store, claim, change(&tx, step)).await;
        assert_eq!(record(store, claim, vec![rival]).await.unwrap(), [Recorded::Lost]);
    }
    let seqs: Vec<_> = store.history(tx.id).await.unwrap().iter().map(|it| it.seq).collect();
    assert_eq!(seqs, (1..=tx.events).collect::<Vec<_>>());
}

async fn recording_extends_the_lease(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let tx = bound(store, claim, 0).await;
    store.renew(&[claim], RUN_OUT).await.unwrap();
    steps(store, claim, &tx, &[Step::Sent]).await;
    assert!(view(store, lane(1)).await.owner.remaining > LEASE / 2);
}
