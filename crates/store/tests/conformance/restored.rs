//! Lanes of a restored database: nothing that may have been sent before gets a nonce by itself, and
//! what the chain shows becomes the attempt of what waits.

use std::path::PathBuf;
use std::sync::LazyLock;

use serde_json::json;
use stile_domain::{
    Ahead, B256, EventKind, Failover, HoldStatus, Holder, LaneEventKind, NodeMode, Nonce, Others,
    Payload, REMEMBERED, Remembered, Step, SubState, TxState, U256,
};
use stile_store::{
    Beginning, Claim, LaneChanges, LostTx, MarkOutcome, NewAttempt, NewLaneEvent, NewTx,
    NodeRecord, OpenOptions, Realign, Realigned, Recorded, Recovery, Refusal, RestoreMark,
    SETTLES_ITSELF, Set, Store, Tx, TxChange, Withdrawal, open,
};

use crate::common::{
    A_NODE, Bench, LEASE, accept_one, attempt, bind, bind_new, bind_txs, bound, claim_at, fresh,
    give_back, held, hold_at, lane, mark, new_tx, node, read_tx, steps, used, view,
    waiting_binding,
};

on_both_stores!(
    hole_20_what_waits_on_a_restored_lane_gets_no_nonce_by_itself,
    hole_20_what_is_accepted_after_the_restore_waits_too,
    hole_20_a_lane_that_the_chain_is_ahead_of_gives_out_nothing_before_it_is_realigned,
    hole_20_a_reason_from_another_history_is_none,
    hole_20_what_the_chain_shows_is_believed_before_what_is_said_about_failovers,
    hole_20_a_loss_that_one_lane_shows_is_a_loss_of_all,
    hole_20_what_the_holder_remembers_is_believed_before_what_is_said_about_failovers,
    hole_20_a_promoted_synchronous_standby_holds_nothing_up,
    hole_20_a_word_from_before_the_backup_says_nothing,
    hole_20_a_word_about_one_mark_is_none_about_the_next,
    hole_20_before_a_lane_is_realigned_nothing_on_it_is_withdrawn_or_refused,
    hole_20_a_lane_whose_row_was_lost_is_marked_when_it_begins,
    hole_20_a_word_outlives_an_estimate_that_fails,
    hole_20_what_the_chain_shows_is_claimed_once,
    hole_20_a_request_like_one_that_was_found_waits_after_the_lane_is_settled,
    hole_20_a_settled_lane_goes_on_and_minds_what_is_found_later,
    hole_20_a_word_about_a_lane_is_none_about_what_the_chain_has,
    hole_20_what_may_be_on_chain_is_not_withdrawn,
    what_was_stepped_over_is_read_once,
    hole_20_a_reorganisation_puts_another_one_at_a_lost_nonce,
    hole_20_what_is_found_belongs_to_what_has_it_as_an_attempt,
    hole_20_what_a_caller_sent_after_the_restore_was_not_lost,
    a_person_closes_what_was_sent,
    hole_20_a_nonce_in_a_callers_hands_may_have_been_given_to_another_since,
    a_lane_that_steps_over_more_has_more_to_read,
    empty_transactions_for_gaps_do_not_wait,
    a_second_restore_marks_the_lane_again,
    hole_20_a_lane_that_only_seems_new_in_a_restored_database_is_marked,
    hole_29_what_only_a_node_remembers_is_on_record_and_given_to_nobody,
);

/// The same process in all of a test.
static HOLDER: LazyLock<Holder> = LazyLock::new(|| node("a"));

const ASK: Remembered = Remembered {
    used: Some(5),
    given_out: 0,
    token: 0,
    failover: Failover::Ask,
    memory: None,
    ahead: None,
    pooled: false,
    others: Others::None,
};

async fn realign(bench: &Bench, claim: Claim, remembered: Remembered) -> (Realigned, Claim) {
    let store = &*bench.store;
    bench.lose_history().await;
    let answer = store.realign(&A_NODE, &claim, &remembered, &json!({}), LEASE).await;
    let realigned = answer.unwrap().unwrap().expect("realigned");
    (realigned, held(store, &HOLDER, claim.lane(), LEASE).await.claim)
}

/// A lane whose backup had the cursor at 2, on a chain that has five transactions of its signer.
async fn restored(bench: &Bench) -> Claim {
    let claim = claim_at(&*bench.store, &HOLDER, lane(1), 2).await;
    let (realigned, claim) = realign(bench, claim, ASK).await;
    assert!(realigned.restored);
    claim
}

fn pays(value: u64) -> NewTx {
    let new = new_tx(lane(1));
    let payload = Payload { value: U256::from(value), ..new.payload.clone() };
    NewTx { payload, ..new }
}

fn found(nonce: Nonce, payload: &Payload) -> (LostTx, NewAttempt) {
    let attempt = attempt();
    let payload = Payload {
        to: payload.to,
        value: payload.value,
        data: payload.data.clone(),
        ..Payload::default()
    };
    let lost = LostTx {
        nonce,
        hash: attempt.hash,
        block_number: 7,
        signed: Some((attempt.raw.clone(), payload)),
        claimed_by: None,
    };
    (lost, attempt)
}

/// The mark of the first lane, as a person sees it.
async fn seen(store: &dyn Store) -> RestoreMark {
    view(store, lane(1)).await.restored.expect("a mark")
}

async fn note(store: &dyn Store, claim: Claim, lost: &[LostTx]) {
    store.note_lost(&claim, lost, LEASE).await.unwrap().unwrap();
}

async fn recover(
    store: &dyn Store,
    claim: Claim,
    tx: &Tx,
    nonce: Nonce,
    attempt: &NewAttempt,
) -> Option<Tx> {
    let data = json!({ "blockNumber": 7 });
    let recovery = Recovery { tx: tx.id, nonce, attempt: attempt.clone(), data };
    store.recover(&A_NODE, &claim, &recovery, LEASE).await.unwrap().unwrap()
}

async fn hole_20_what_waits_on_a_restored_lane_gets_no_nonce_by_itself(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &HOLDER, lane(1), 1).await;
    let on_its_way = bound(store, claim, 1).await;
    let [one, two] = [accept_one(store, pays(1)).await, accept_one(store, pays(2)).await];
    let (_, claim) = realign(&bench, claim, ASK).await;
    let mark = view(store, lane(1)).await.restored.expect("a mark");
    assert_eq!((mark.from, mark.to, mark.settled_at), (2, 5, None));
    assert_eq!(store.restored_lanes().await.unwrap(), [(lane(1), mark)]);

    let refused = bind_txs(store, waiting_binding(claim, 5, [&one])).await;
    assert_eq!(refused, Err(Refusal::Restored));
    assert_eq!(store.waiting(lane(1), 10).await.unwrap(), []);
    let waits = store.awaiting_word(lane(1), 10).await.unwrap();
    assert_eq!(waits.iter().map(|tx| tx.id).collect::<Vec<_>>(), [one.id, two.id]);
    assert_eq!(read_tx(store, on_its_way.id).await, on_its_way, "what has a nonce keeps it");
    // Bare nonces are given out past all that can have been used.
    assert_eq!(bind(store, fresh(claim, 5, 1)).await.unwrap()[0].nonce, 5);

    // A person's word, for one of them.
    let cleared = store
        .clear(&A_NODE, two.id, &seen(store).await, &json!({ "by": "ann" }))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (cleared.standing.state, cleared.standing.sub_state),
        (TxState::Created, Some(SubState::Cleared))
    );
    assert_eq!(store.waiting(lane(1), 10).await.unwrap()[0], cleared);
    let both = bind_txs(store, waiting_binding(claim, 6, [&one, &two])).await;
    assert_eq!(both, Err(Refusal::Restored), "all or nothing");
    let bound = bind_txs(store, waiting_binding(claim, 6, [&two])).await.unwrap();
    assert_eq!(bound[0].nonce, Some(6));
    let kinds: Vec<_> =
        store.history(two.id).await.unwrap().iter().map(|entry| entry.kind).collect();
    assert_eq!(kinds, [EventKind::Accepted, EventKind::Cleared, EventKind::Bound]);
    assert_eq!(
        store.clear(&A_NODE, two.id, &seen(store).await, &json!({})).await.unwrap(),
        None,
        "it has a nonce"
    );
}

async fn hole_20_a_lane_that_the_chain_is_ahead_of_gives_out_nothing_before_it_is_realigned(
    bench: Bench,
) {
    let store = &*bench.store;
    let claim = claim_at(store, &HOLDER, lane(1), 2).await;
    let waits = accept_one(store, pays(1)).await;
    store.set_unaligned(&claim, LEASE).await.unwrap().unwrap();
    assert!(!view(store, lane(1)).await.aligned);
    assert_eq!(bind(store, fresh(claim, 2, 1)).await, Err(Refusal::Unaligned));
    let remembered = Remembered { used: Some(5), failover: Failover::Synchronous, ..ASK };
    let realigned = store.realign(&A_NODE, &claim, &remembered, &json!({}), LEASE).await;
    let realigned = realigned.unwrap().unwrap().expect("it is realigned");
    assert_eq!((realigned.to, realigned.restored), (5, true), "whatever is said about failovers");
    assert_eq!(store.awaiting_word(lane(1), 10).await.unwrap()[0].id, waits.id);
    // Whoever is not the holder any more does not hold up the lane.
    let refused = store.set_unaligned(&claim, LEASE).await.unwrap();
    assert!(matches!(refused, Err(Refusal::Fenced(_))), "{refused:?}");
    assert!(view(store, lane(1)).await.aligned);
}

/// The chain's count alone said that the lane is behind. Until it is realigned commits may get lost, too.
async fn hole_20_a_reason_from_another_history_is_none(bench: Bench) {
    let store = &*bench.store;
    let mut claim = claim_at(store, &HOLDER, lane(1), 2).await;
    let mut told = Vec::new();
    for is_lost in [false, true] {
        let mut history = store.history_name().await.unwrap();
        store.set_unaligned(&claim, LEASE).await.unwrap().unwrap();
        match is_lost {
            false => {}
            true if bench.database.is_postgres() => {
                let raw = bench.raw().await;
                raw.execute(
                    "INSERT INTO origin AS o (place, losses) VALUES ('here', 1)
                     ON CONFLICT (one) DO UPDATE SET losses = o.losses + 1",
                )
                .await;
                assert_ne!(store.history_name().await.unwrap(), history);
            }
            // An older file is put back only while no process has it open.
            true => history = "of another file".to_owned(),
        }
        let ahead = Ahead { reason: "the chain has 5".to_owned(), settles_itself: true, history };
        let remembered = Remembered { ahead: Some(ahead), ..ASK };
        let realigned = store.realign(&A_NODE, &claim, &remembered, &json!({}), LEASE).await;
        assert!(realigned.unwrap().unwrap().expect("realigned").restored);
        let entry = store.lane_history(lane(1), None, 1).await.unwrap().remove(0);
        assert_eq!(entry.kind, LaneEventKind::Realigned);
        told.push((entry.data["reason"].clone(), entry.data[SETTLES_ITSELF].clone()));
        claim = held(store, &HOLDER, lane(1), LEASE).await.claim;
    }
    assert_eq!(told, [(json!("the chain has 5"), json!(true)), (json!(null), json!(null))]);
}

async fn hole_20_what_is_accepted_after_the_restore_waits_too(bench: Bench) {
    let store = &*bench.store;
    let claim = restored(&bench).await;
    let at_once = bind_txs(store, bind_new(claim, 5, [pays(1)])).await;
    assert_eq!(at_once, Err(Refusal::Restored));
    let later = accept_one(store, pays(1)).await;
    let refused = bind_txs(store, waiting_binding(claim, 5, [&later])).await;
    assert_eq!(refused, Err(Refusal::Restored));
    // A lane that was never restored is not held up by one that was.
    let other = claim_at(store, &HOLDER, lane(2), 0).await;
    let one = NewTx { lane: lane(2), ..pays(1) };
    let answers = store
        .bind_txs(&A_NODE, &[waiting_binding(claim, 5, [&later]), bind_new(other, 0, [one])], LEASE)
        .await
        .unwrap();
    assert_eq!(answers[0], Err(Refusal::Restored));
    assert_eq!(answers[1].as_ref().unwrap()[0].nonce, Some(0));
}

/// The chain has seen nonces used that the database never gave out, so commits are missing.
async fn hole_20_what_the_chain_shows_is_believed_before_what_is_said_about_failovers(
    bench: Bench,
) {
    let store = &*bench.store;
    let claim = claim_at(store, &HOLDER, lane(1), 2).await;
    let waits = accept_one(store, pays(1)).await;
    let said = Remembered { used: Some(7), failover: Failover::Synchronous, ..ASK };
    let (realigned, claim) = realign(&bench, claim, said).await;
    assert_eq!((realigned.to, realigned.restored), (7, true));
    let answer = bind_txs(store, waiting_binding(claim, 7, [&waits])).await;
    assert_eq!(answer, Err(Refusal::Restored));
}

async fn hole_20_a_loss_that_one_lane_shows_is_a_loss_of_all(bench: Bench) {
    let store = &*bench.store;
    store.arrive().await.unwrap();
    let mut claims = Vec::new();
    for number in [1, 2, 3] {
        claims.push(claim_at(store, &HOLDER, lane(number), 2).await);
    }
    bench.lose_history().await;
    let sync = |used| Remembered { used: Some(used), failover: Failover::Synchronous, ..ASK };
    let realign = async |number: usize, used| {
        let lane = claims[number - 1].lane();
        let claim = held(store, &HOLDER, lane, LEASE).await.claim;
        let answer = store.realign(&A_NODE, &claim, &sync(used), &json!({}), LEASE).await;
        answer.unwrap().unwrap().map(|realigned| realigned.restored)
    };
    // Nothing contradicts yet, on a server.
    let believed = bench.database.is_postgres();
    assert_eq!(realign(1, 2).await, Some(!believed));
    // It does here: the chain has more. The first one is looked at again.
    assert_eq!(realign(2, 7).await, Some(true));
    assert_eq!(realign(3, 2).await, Some(true), "in the same history");
    assert_eq!(realign(1, 2).await, believed.then_some(true));
}

async fn hole_20_what_the_holder_remembers_is_believed_before_what_is_said_about_failovers(
    bench: Bench,
) {
    let store = &*bench.store;
    for (number, given_out, token) in [(1, 3, 0), (2, 2, 1_000)] {
        let claim = claim_at(store, &HOLDER, lane(number), 2).await;
        let failover = Failover::Synchronous;
        let said = Remembered { used: Some(2), given_out, token, failover, ..ASK };
        let (realigned, _) = realign(&bench, claim, said).await;
        assert!(realigned.restored, "{given_out} {token}");
    }
}

async fn hole_20_a_promoted_synchronous_standby_holds_nothing_up(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &HOLDER, lane(1), 2).await;
    let waits = accept_one(store, pays(1)).await;
    let remembered = Remembered { used: Some(2), failover: Failover::Synchronous, ..ASK };
    let (realigned, claim) = realign(&bench, claim, remembered.clone()).await;
    // Whatever is said about failovers: an older file that was put back is none.
    let promoted = bench.database.is_postgres();
    assert_eq!(realigned.restored, !promoted);
    assert_eq!(view(store, lane(1)).await.restored.is_some(), !promoted);
    let answer = bind_txs(store, waiting_binding(claim, 2, [&waits])).await;
    if promoted {
        assert_eq!(answer.unwrap()[0].nonce, Some(2));
        // Tables that were loaded from a dump are another matter.
        let raw = bench.raw().await;
        raw.execute("UPDATE lane SET timeline = NULL").await;
        let again = store.realign(&A_NODE, &claim, &remembered, &json!({}), LEASE).await;
        assert!(again.unwrap().unwrap().expect("realigned").restored);
    } else {
        assert_eq!(answer, Err(Refusal::Restored));
    }
}

async fn hole_20_a_word_from_before_the_backup_says_nothing(bench: Bench) {
    let store = &*bench.store;
    let claim = restored(&bench).await;
    let waits = accept_one(store, pays(1)).await;
    store.clear(&A_NODE, waits.id, &seen(store).await, &json!({})).await.unwrap().unwrap();
    let (_, claim) = realign(&bench, claim, ASK).await;
    let refused = bind_txs(store, waiting_binding(claim, 5, [&waits])).await;
    assert_eq!(refused, Err(Refusal::Restored));
    // Nor does it if the clock of the server that took it was ahead of this one's.
    let raw = bench.raw().await;
    raw.execute(if bench.database.is_postgres() {
        "UPDATE tx_event SET at = at + interval '1 day'"
    } else {
        "UPDATE tx_event SET at = at + 86400000000"
    })
    .await;
    let refused = bind_txs(store, waiting_binding(claim, 5, [&waits])).await;
    assert_eq!(refused, Err(Refusal::Restored));
    store.clear(&A_NODE, waits.id, &seen(store).await, &json!({})).await.unwrap().unwrap();
    bind_txs(store, waiting_binding(claim, 5, [&waits])).await.unwrap();
}

/// A person's word is about the mark that was seen, and about what was stepped over then.
async fn hole_20_a_word_about_one_mark_is_none_about_the_next(bench: Bench) {
    let store = &*bench.store;
    let claim = restored(&bench).await;
    let waits = accept_one(store, pays(1)).await;
    let first = seen(store).await;
    assert_eq!(first.number, 1);
    let none = async |mark: &RestoreMark, what: &str| {
        let data = json!({});
        let cleared = store.clear(&A_NODE, waits.id, mark, &data).await.unwrap();
        assert_eq!(cleared, None, "{what}");
        let closed = store.close_as_sent(&A_NODE, waits.id, mark, "sent", &data).await.unwrap();
        assert_eq!(closed, None, "{what}");
        let settled = store.settle_restore(&A_NODE, lane(1), mark, &data).await.unwrap();
        assert_eq!(settled, None, "{what}");
        assert_eq!(read_tx(store, waits.id).await, waits, "{what}");
    };
    let event = NewLaneEvent { kind: LaneEventKind::FollowedChain, data: json!({}) };
    store.step_over(&claim, Realign { from: 5, to: 7 }, &event, LEASE).await.unwrap().unwrap();
    none(&first, "more was stepped over").await;
    let second = seen(store).await;
    bench.lose_history().await;
    none(&second, "the lane is to be held against its chain").await;
    let (_, claim) = realign(&bench, claim, Remembered { used: Some(7), ..ASK }).await;
    let again = seen(store).await;
    assert_eq!((again.number, again.to), (2, second.to));
    none(&second, "another mark").await;
    none(
        &RestoreMark { at: second.at, ..again },
        "one of the same number in a history that is lost",
    )
    .await;
    let cleared = store.clear(&A_NODE, waits.id, &again, &json!({})).await.unwrap().unwrap();
    let told = store.history(waits.id).await.unwrap().pop().unwrap();
    assert_eq!(told.data["mark"], 2);
    bind_txs(store, waiting_binding(claim, 7, [&cleared])).await.unwrap();
    assert_eq!(store.settle_restore(&A_NODE, lane(1), &again, &json!({})).await.unwrap(), Some(0));
}

/// Between a restore and the realignment nobody knows yet what was sent.
async fn hole_20_before_a_lane_is_realigned_nothing_on_it_is_withdrawn_or_refused(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &HOLDER, lane(1), 2).await;
    let new = accept_one(store, NewTx { lane: lane(2), ..pays(1) }).await;
    let [one, two] = [accept_one(store, pays(1)).await, accept_one(store, pays(2)).await];
    let aside = steps(store, claim, &two, &[Step::NotEstimated]).await;
    let filler = accept_one(store, NewTx { tenant: "stile:filler".into(), ..pays(0) }).await;
    let refuse = async |claim: Claim, tx: &Tx| {
        let standing = tx.standing.after(Step::Refused).unwrap();
        let mut change = TxChange::new(tx.id, tx.events, standing);
        change.error = Set::To("it would be reverted".into());
        let part = LaneChanges { claim, changes: vec![change] };
        let mut answers = store.record(&A_NODE, &[part], LEASE).await.unwrap();
        answers.remove(0).unwrap().remove(0)
    };
    bench.lose_history().await;
    assert_eq!(store.withdraw(&A_NODE, one.id).await.unwrap(), Withdrawal::AwaitsWord(one.clone()));
    for tx in [&one, &aside] {
        assert_eq!(refuse(claim, tx).await, Recorded::Lost, "{tx:?}");
        assert_eq!(read_tx(store, tx.id).await, *tx);
    }
    assert_eq!(store.unestimated(&[lane(1)], 10).await.unwrap(), []);
    // Whoever binds finds what waits, and has the lane realigned first.
    assert_eq!(store.waiting(lane(1), 1).await.unwrap(), std::slice::from_ref(&one));
    assert!(matches!(refuse(claim, &filler).await, Recorded::Written { .. }), "it pays nobody");
    // A lane that has no cursor has sent nothing.
    let withdrawn = store.withdraw(&A_NODE, new.id).await.unwrap();
    assert!(matches!(withdrawn, Withdrawal::Done(_)), "{withdrawn:?}");

    let (_, claim) = realign(&bench, claim, ASK).await;
    for tx in [&one, &aside] {
        assert_eq!(refuse(claim, tx).await, Recorded::Lost, "it is marked: {tx:?}");
    }
    let cleared =
        store.clear(&A_NODE, one.id, &seen(store).await, &json!({})).await.unwrap().unwrap();
    assert!(matches!(refuse(claim, &cleared).await, Recorded::Written { .. }), "by a word");
}

/// A lane that only seems to be new is marked, and it is not known how far down its account's
/// transactions were the lost history's.
async fn hole_20_a_lane_whose_row_was_lost_is_marked_when_it_begins(bench: Bench) {
    let store = &*bench.store;
    let begin = async |number: u32, beginning: Beginning| {
        let claim = held(store, &HOLDER, lane(number), LEASE).await.claim;
        store.start_cursor(&A_NODE, &claim, beginning, LEASE).await.unwrap().unwrap();
        (claim, view(store, lane(number)).await.restored)
    };
    let synchronous = |at| Beginning { failover: Failover::Synchronous, ..Beginning::from(at) };
    assert_eq!(begin(1, 3.into()).await.1, None, "a database that has lost nothing");
    let (_, mark) = begin(2, Beginning { used: 4, known_before: true, ..synchronous(6) }).await;
    let mark = mark.expect("its holder knows it from before");
    assert_eq!((mark.from, mark.to, mark.begun, mark.is_open()), (4, 6, true, true));
    store.settle_restore(&A_NODE, lane(2), &mark, &json!({})).await.unwrap().unwrap();
    assert_eq!(begin(3, 3.into()).await.1, None, "it is settled");
    bench.lose_history().await;
    assert_eq!(begin(4, 0.into()).await.1, None, "an account that was never used");
    // On SQLite an older file was put back, whatever is said about failovers.
    let promoted = bench.database.is_postgres();
    assert_eq!(begin(5, synchronous(3)).await.1.is_none(), promoted);
    let (claim, mark) = begin(6, 3.into()).await;
    assert!(mark.is_some_and(|mark| mark.begun && mark.number == 1), "{mark:?}");
    let waits = accept_one(store, NewTx { lane: lane(6), ..pays(1) }).await;
    let refused = bind_txs(store, waiting_binding(claim, 3, [&waits])).await;
    assert_eq!(refused, Err(Refusal::Restored));
}

async fn hole_20_a_word_outlives_an_estimate_that_fails(bench: Bench) {
    let store = &*bench.store;
    let claim = restored(&bench).await;
    let waits = accept_one(store, pays(1)).await;
    let cleared =
        store.clear(&A_NODE, waits.id, &seen(store).await, &json!({})).await.unwrap().unwrap();
    let aside = steps(store, claim, &cleared, &[Step::NotEstimated]).await;
    assert_eq!(store.awaiting_word(lane(1), 10).await.unwrap(), []);
    assert_eq!(store.unestimated(&[lane(1)], 10).await.unwrap(), std::slice::from_ref(&aside));
    let back = steps(store, claim, &aside, &[Step::Estimated]).await;
    assert_eq!(store.awaiting_word(lane(1), 10).await.unwrap(), []);
    assert_eq!(store.waiting(lane(1), 10).await.unwrap(), std::slice::from_ref(&back));
    bind_txs(store, waiting_binding(claim, 5, [&back])).await.unwrap();
}

async fn hole_20_what_the_chain_shows_is_claimed_once(bench: Bench) {
    let store = &*bench.store;
    let claim = restored(&bench).await;
    let (one, two) = (accept_one(store, pays(1)).await, accept_one(store, pays(1)).await);
    let (lost, signed) = found(3, &one.payload);
    assert_eq!(recover(store, claim, &one, 3, &signed).await, None, "nothing was found yet");
    note(store, claim, std::slice::from_ref(&lost)).await;
    let forged = NewAttempt { raw: vec![1, 2, 3].into(), ..signed.clone() };
    assert_eq!(recover(store, claim, &one, 3, &forged).await, None, "other bytes");
    let bound = recover(store, claim, &one, 3, &signed).await.expect("recovered");
    assert_eq!((bound.nonce, bound.standing.state), (Some(3), TxState::Allocated));
    assert_eq!(bound.tx_hash, Some(signed.hash));
    assert_eq!(read_tx(store, one.id).await, bound, "answered as it is stored");
    let attempts = store.attempts(one.id).await.unwrap();
    assert_eq!((attempts.len(), &attempts[0].raw), (1, &signed.raw));
    let told = store.history(one.id).await.unwrap().pop().unwrap();
    assert_eq!((told.kind, &told.data["blockNumber"]), (EventKind::Recovered, &json!(7)));
    let on_record = store.lost_txs(lane(1)).await.unwrap();
    assert_eq!(on_record, [LostTx { claimed_by: Some(one.id), ..lost.clone() }]);
    assert_eq!(store.open_txs(&[lane(1)]).await.unwrap().len(), 1, "it is taken up like any");

    assert_eq!(recover(store, claim, &two, 3, &signed).await, None, "claimed already");
    assert_eq!(read_tx(store, two.id).await, two);
    let raw = bench.raw().await;
    let stolen = if bench.database.is_postgres() {
        format!("UPDATE lost_tx SET claimed_by = '{}'", two.id)
    } else {
        format!("UPDATE lost_tx SET claimed_by = x'{}'", two.id.0.simple())
    };
    assert!(raw.attempt(&stolen).await.is_err(), "by no means");
    // Whoever writes under a claim that is superseded writes nothing.
    let stale = claim_at(store, &HOLDER, lane(2), 0).await;
    bench.lose_history().await;
    store.realign(&A_NODE, &stale, &ASK, &json!({}), LEASE).await.unwrap().unwrap();
    let late = store.note_lost(&stale, &[found(1, &two.payload).0], LEASE).await.unwrap();
    assert!(matches!(late, Err(Refusal::Fenced(_))), "{late:?}");
}

async fn hole_20_a_request_like_one_that_was_found_waits_after_the_lane_is_settled(bench: Bench) {
    let store = &*bench.store;
    let claim = restored(&bench).await;
    let (one, other) = (accept_one(store, pays(1)).await, accept_one(store, pays(2)).await);
    note(
        store,
        claim,
        &[found(3, &pays(9).payload).0, LostTx { signed: None, ..found(4, &pays(8).payload).0 }],
    )
    .await;
    let cleared = store
        .settle_restore(&A_NODE, lane(1), &seen(store).await, &json!({ "by": "ann" }))
        .await
        .unwrap();
    assert_eq!(cleared, Some(2));
    assert_eq!(
        store.settle_restore(&A_NODE, lane(1), &seen(store).await, &json!({})).await.unwrap(),
        None,
        "once"
    );
    let mark = view(store, lane(1)).await.restored.expect("what was found is still minded");
    assert!(!mark.is_open());
    let told = store.lane_history(lane(1), None, 1).await.unwrap().remove(0);
    assert_eq!((told.kind, &told.data["cleared"]), (LaneEventKind::RestoreSettled, &json!(2)));
    let bound = bind_txs(store, waiting_binding(claim, 5, [&one, &other])).await.unwrap();
    assert_eq!(bound.len(), 2);

    let [same, new] = [accept_one(store, pays(9)).await, accept_one(store, pays(10)).await];
    let waits = store.awaiting_word(lane(1), 10).await.unwrap();
    assert_eq!(waits.iter().map(|tx| tx.id).collect::<Vec<_>>(), [same.id]);
    let refused = bind_txs(store, waiting_binding(claim, 7, [&same])).await;
    assert_eq!(refused, Err(Refusal::Restored));
    assert_eq!(store.waiting(lane(1), 1).await.unwrap()[0].id, new.id, "it holds nobody up");
    bind_txs(store, waiting_binding(claim, 7, [&new])).await.unwrap();
    let at_once = bind_txs(store, bind_new(claim, 8, [pays(9)])).await;
    assert_eq!(at_once, Err(Refusal::Restored));
}

/// Settling ends the waiting. That the lane was restored stays on record: what is found later is minded.
async fn hole_20_a_settled_lane_goes_on_and_minds_what_is_found_later(bench: Bench) {
    let store = &*bench.store;
    let claim = restored(&bench).await;
    assert_eq!(
        store.settle_restore(&A_NODE, lane(1), &seen(store).await, &json!({})).await.unwrap(),
        Some(0)
    );
    let mark = view(store, lane(1)).await.restored.expect("on record");
    assert_eq!((mark.from, mark.to, mark.is_open()), (2, 5, false));
    let bound = bind_txs(store, bind_new(claim, 5, [pays(9)])).await.unwrap();
    assert_eq!(bound[0].nonce, Some(5), "at once, as on any lane");
    assert_eq!(store.unread_nonces(lane(1), 5, 10).await.unwrap(), [2, 3, 4]);
    note(store, claim, &[found(3, &pays(9).payload).0]).await;
    let at_once = bind_txs(store, bind_new(claim, 6, [pays(9)])).await;
    assert_eq!(at_once, Err(Refusal::Restored));
    let bound = bind_txs(store, bind_new(claim, 6, [pays(10)])).await.unwrap();
    assert_eq!(bound[0].nonce, Some(6));
}

async fn hole_20_a_word_about_a_lane_is_none_about_what_the_chain_has(bench: Bench) {
    let store = &*bench.store;
    let claim = restored(&bench).await;
    let [like, unlike] = [accept_one(store, pays(9)).await, accept_one(store, pays(1)).await];
    note(store, claim, &[found(3, &like.payload).0]).await;
    let data = json!({ "by": "ann" });
    assert_eq!(
        store.settle_restore(&A_NODE, lane(1), &seen(store).await, &data).await.unwrap(),
        Some(1)
    );
    assert_eq!(read_tx(store, like.id).await, like, "it waits on");
    assert_eq!(store.awaiting_word(lane(1), 10).await.unwrap(), std::slice::from_ref(&like));
    let refused = bind_txs(store, waiting_binding(claim, 5, [&like])).await;
    assert_eq!(refused, Err(Refusal::Restored));
    bind_txs(store, waiting_binding(claim, 5, [&unlike])).await.unwrap();
    // A word about this one is.
    store.clear(&A_NODE, like.id, &seen(store).await, &data).await.unwrap().unwrap();
    bind_txs(store, waiting_binding(claim, 6, [&like])).await.unwrap();
}

async fn hole_20_what_may_be_on_chain_is_not_withdrawn(bench: Bench) {
    let store = &*bench.store;
    let elsewhere = accept_one(store, NewTx { lane: lane(2), ..pays(1) }).await;
    let claim = restored(&bench).await;
    let [one, two] = [accept_one(store, pays(1)).await, accept_one(store, pays(2)).await];
    let answer = store.withdraw(&A_NODE, one.id).await.unwrap();
    assert_eq!(answer, Withdrawal::AwaitsWord(one.clone()));
    assert_eq!(read_tx(store, one.id).await, one);
    // What a person has cleared is withdrawn like any other.
    store.clear(&A_NODE, one.id, &seen(store).await, &json!({})).await.unwrap().unwrap();
    let withdrawn = store.withdraw(&A_NODE, one.id).await.unwrap();
    assert!(matches!(withdrawn, Withdrawal::Done(_)), "{withdrawn:?}");
    assert_eq!(store.withdraw(&A_NODE, one.id).await.unwrap(), withdrawn, "the same again");
    // On a lane that is settled, only what is like something that was found.
    let like = accept_one(store, pays(9)).await;
    note(store, claim, &[found(3, &like.payload).0]).await;
    store.settle_restore(&A_NODE, lane(1), &seen(store).await, &json!({})).await.unwrap();
    let answer = store.withdraw(&A_NODE, like.id).await.unwrap();
    assert_eq!(answer, Withdrawal::AwaitsWord(like));
    for free in [two, elsewhere] {
        let answer = store.withdraw(&A_NODE, free.id).await.unwrap();
        assert!(matches!(answer, Withdrawal::Done(_)), "{answer:?}");
    }
}

async fn what_was_stepped_over_is_read_once(bench: Bench) {
    let store = &*bench.store;
    let claim = restored(&bench).await;
    assert_eq!(store.unread_nonces(lane(1), 5, 10).await.unwrap(), [2, 3, 4]);
    assert_eq!(store.unread_nonces(lane(1), 4, 10).await.unwrap(), [2, 3]);
    assert_eq!(store.unread_nonces(lane(1), u64::MAX, 1).await.unwrap(), [2]);
    let lost = found(3, &pays(1).payload).0;
    note(store, claim, std::slice::from_ref(&lost)).await;
    assert_eq!(store.lost_txs(lane(1)).await.unwrap(), [lost]);
    assert_eq!(store.unread_nonces(lane(1), 5, 10).await.unwrap(), [2, 4]);
    assert_eq!(store.unread_nonces(lane(2), 5, 10).await.unwrap(), [] as [Nonce; 0]);
}

async fn hole_20_a_reorganisation_puts_another_one_at_a_lost_nonce(bench: Bench) {
    let store = &*bench.store;
    let claim = restored(&bench).await;
    let tx = accept_one(store, pays(1)).await;
    let (empty, cancelled) = found(3, &pays(0).payload);
    note(store, claim, std::slice::from_ref(&empty)).await;
    let (lost, signed) = found(3, &tx.payload);
    let lost = LostTx { block_number: 8, ..lost };
    note(store, claim, std::slice::from_ref(&lost)).await;
    assert_eq!(
        store.lost_txs(lane(1)).await.unwrap(),
        std::slice::from_ref(&lost),
        "the last word counts"
    );
    assert_eq!(recover(store, claim, &tx, 3, &cancelled).await, None, "it is gone");
    assert_eq!(recover(store, claim, &tx, 3, &signed).await.unwrap().nonce, Some(3));
    // What belongs to a transaction is followed like every attempt, and stays.
    note(store, claim, std::slice::from_ref(&empty)).await;
    let claimed = LostTx { claimed_by: Some(tx.id), ..lost };
    assert_eq!(store.lost_txs(lane(1)).await.unwrap(), [claimed]);
}

/// An attempt that the database had lost of a transaction that it knew is that transaction's.
async fn hole_20_what_is_found_belongs_to_what_has_it_as_an_attempt(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &HOLDER, lane(1), 1).await;
    let first = bound(store, claim, 1).await;
    let (_, claim) = realign(&bench, claim, ASK).await;
    let (others, _) = found(1, &first.payload);
    note(store, claim, std::slice::from_ref(&others)).await;
    let on_record = store.lost_txs(lane(1)).await.unwrap();
    assert_eq!(on_record[0].claimed_by, None, "it took the nonce, and is another one");
    let lost = LostTx { hash: first.tx_hash.unwrap(), ..others };
    note(store, claim, std::slice::from_ref(&lost)).await;
    let claimed = LostTx { claimed_by: Some(first.id), ..lost };
    assert_eq!(store.lost_txs(lane(1)).await.unwrap(), [claimed]);
    // Another one that does the same is no longer like anything that was found.
    store.settle_restore(&A_NODE, lane(1), &seen(store).await, &json!({})).await.unwrap();
    let again = accept_one(store, NewTx { payload: first.payload.clone(), ..pays(0) }).await;
    assert_eq!(store.awaiting_word(lane(1), 10).await.unwrap(), []);
    bind_txs(store, waiting_binding(claim, 5, [&again])).await.unwrap();
}

async fn hole_20_what_a_caller_sent_after_the_restore_was_not_lost(bench: Bench) {
    let store = &*bench.store;
    let claim = restored(&bench).await;
    let hold = hold_at(store, claim, 5, LEASE).await;
    let (own, _) = found(5, &pays(1).payload);
    let own = LostTx { hash: B256::repeat_byte(77), ..own };
    note(store, claim, std::slice::from_ref(&own)).await;
    assert_eq!(store.lost_txs(lane(1)).await.unwrap().len(), 1, "until its caller says so");
    let said = mark(store, used(&hold, 77)).await;
    assert!(matches!(said, MarkOutcome::Done(_)), "{said:?}");
    assert_eq!(store.lost_txs(lane(1)).await.unwrap(), []);
    store.settle_restore(&A_NODE, lane(1), &seen(store).await, &json!({})).await.unwrap();
    let same = accept_one(store, pays(1)).await;
    bind_txs(store, waiting_binding(claim, 6, [&same])).await.unwrap();
}

async fn a_person_closes_what_was_sent(bench: Bench) {
    let store = &*bench.store;
    restored(&bench).await;
    let tx = accept_one(store, pays(1)).await;
    let words = "ann says that it was sent";
    let data = json!({ "by": "ann" });
    let closed = store
        .close_as_sent(&A_NODE, tx.id, &seen(store).await, words, &data)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (closed.standing.state, closed.standing.sub_state, closed.error.as_deref()),
        (TxState::Failed, Some(SubState::Restored), Some(words))
    );
    let told = store.history(tx.id).await.unwrap().pop().unwrap();
    assert_eq!((told.kind, &told.data["by"]), (EventKind::Closed, &json!("ann")));
    assert_eq!(
        store.close_as_sent(&A_NODE, tx.id, &seen(store).await, words, &json!({})).await.unwrap(),
        None
    );
    assert_eq!(store.awaiting_word(lane(1), 10).await.unwrap(), []);
}

async fn hole_20_a_nonce_in_a_callers_hands_may_have_been_given_to_another_since(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &HOLDER, lane(1), 0).await;
    let (back, kept) =
        (hold_at(store, claim, 0, LEASE).await, hold_at(store, claim, 1, LEASE).await);
    give_back(store, &back).await;
    let (_, claim) = realign(&bench, claim, ASK).await;
    assert_eq!(store.unread_nonces(lane(1), 5, 10).await.unwrap(), [0, 1, 2, 3, 4]);
    // One that is given out after the restore may be used by what was sent before it.
    hold_at(store, claim, 5, LEASE).await;
    assert_eq!(store.unread_nonces(lane(1), 5, 10).await.unwrap(), [0, 1, 2, 3, 4]);
    assert_eq!(store.unread_nonces(lane(1), 6, 10).await.unwrap(), [0, 1, 2, 3, 4, 5]);
    // Not settled before it is read.
    assert_eq!(store.settle(&[(claim, 5)], LEASE).await.unwrap().remove(0).unwrap(), []);
    let tx = accept_one(store, pays(1)).await;
    let (lost, signed) = found(0, &tx.payload);
    let (others, theirs) = found(1, &tx.payload);
    note(store, claim, &[lost, others]).await;
    assert_eq!(recover(store, claim, &tx, 1, &theirs).await, None, "a caller has it: {kept:?}");
    assert_eq!(recover(store, claim, &tx, 0, &signed).await.unwrap().nonce, Some(0));
}

async fn a_lane_that_steps_over_more_has_more_to_read(bench: Bench) {
    let store = &*bench.store;
    let claim = restored(&bench).await;
    let event = NewLaneEvent { kind: LaneEventKind::FollowedChain, data: json!({}) };
    let moved = store.step_over(&claim, Realign { from: 4, to: 7 }, &event, LEASE).await.unwrap();
    assert_eq!(moved, Err(Refusal::CursorMoved));
    store.step_over(&claim, Realign { from: 5, to: 7 }, &event, LEASE).await.unwrap().unwrap();
    let shown = view(store, lane(1)).await;
    assert_eq!((shown.next_nonce, shown.restored.map(|mark| mark.to)), (Some(7), Some(7)));
    assert_eq!(store.unread_nonces(lane(1), 7, 10).await.unwrap(), [2, 3, 4, 5, 6]);
    let resumed =
        store.resume(&A_NODE, lane(1), Some(Realign { from: 7, to: 9 }), &json!({})).await;
    assert_eq!(resumed.unwrap(), stile_store::Resumed::Done);
    assert_eq!(view(store, lane(1)).await.restored.map(|mark| mark.to), Some(9));
}

async fn empty_transactions_for_gaps_do_not_wait(bench: Bench) {
    let store = &*bench.store;
    let claim = restored(&bench).await;
    let filler = NewTx { tenant: "stile:filler".into(), ..pays(0) };
    let filler = accept_one(store, filler).await;
    assert_eq!(store.waiting(lane(1), 10).await.unwrap()[0], filler);
    bind_txs(store, waiting_binding(claim, 5, [&filler])).await.unwrap();
}

async fn a_second_restore_marks_the_lane_again(bench: Bench) {
    let store = &*bench.store;
    let claim = restored(&bench).await;
    note(store, claim, &[found(3, &pays(9).payload).0]).await;
    store.settle_restore(&A_NODE, lane(1), &seen(store).await, &json!({})).await.unwrap();
    let (_, claim) = realign(&bench, claim, Remembered { used: Some(8), ..ASK }).await;
    let mark = view(store, lane(1)).await.restored.unwrap();
    assert_eq!((mark.from, mark.to, mark.is_open()), (5, 8, true));
    let waits = accept_one(store, pays(1)).await;
    let refused = bind_txs(store, waiting_binding(claim, 8, [&waits])).await;
    assert_eq!(refused, Err(Refusal::Restored));
}

async fn hole_29_what_only_a_node_remembers_is_on_record_and_given_to_nobody(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &HOLDER, lane(1), 2).await;
    let (_, claim) = realign(&bench, claim, Remembered { given_out: 8, ..ASK }).await;
    assert_eq!(view(store, lane(1)).await.next_nonce, Some(8));
    let survey = store.survey(&[lane(1)]).await.unwrap().remove(0);
    assert_eq!((survey.suspect, survey.released), (vec![5, 6, 7], vec![]));
    let owned = store.own_up(&claim, &[5, 6, 7], "nobody has it", LEASE).await.unwrap().unwrap();
    assert_eq!(owned, [], "somebody has them");
    let filter = stile_store::HoldFilter { lane: lane(1), status: None, after: None, limit: 10 };
    let holds = store.holds(filter).await.unwrap().holds;
    for hold in &holds {
        assert_eq!((hold.status, hold.reason.as_deref()), (HoldStatus::Suspect, Some(REMEMBERED)));
    }
    // The chain shows one of them: it is that transaction's, and a person's word settles the rest.
    let tx = accept_one(store, pays(1)).await;
    assert_eq!(store.unread_nonces(lane(1), 6, 10).await.unwrap(), [2, 3, 4, 5]);
    let (lost, signed) = found(5, &tx.payload);
    note(store, claim, &[lost]).await;
    assert_eq!(recover(store, claim, &tx, 5, &signed).await.unwrap().nonce, Some(5));
    store.settle_restore(&A_NODE, lane(1), &seen(store).await, &json!({})).await.unwrap();
    let settled = store.settle(&[(claim, 7)], LEASE).await.unwrap().remove(0).unwrap();
    assert_eq!(settled.iter().map(|hold| hold.nonce).collect::<Vec<_>>(), [6]);
}

/// In the history that is lost the lane may have paid: what is handed over again is not paid again.
async fn hole_20_a_lane_that_only_seems_new_in_a_restored_database_is_marked(bench: Bench) {
    let store = &*bench.store;
    let begin = async |number: u32, count: Nonce| {
        let claim = held(store, &HOLDER, lane(number), LEASE).await.claim;
        let begun = store.start_cursor(&A_NODE, &claim, count.into(), LEASE).await.unwrap();
        assert_eq!(begun, Ok(count));
        (claim, view(store, lane(number)).await.restored)
    };
    let (_, mark) = begin(2, 7).await;
    assert_eq!(mark, None, "nothing was restored");
    let claim = claim_at(store, &HOLDER, lane(1), 2).await;
    // As a copy leaves it that was put back.
    bench.raw().await.execute("UPDATE lane SET timeline = NULL").await;
    let (_, mark) = begin(3, 7).await;
    assert!(mark.is_some_and(|mark| mark.is_open()), "others are not held against the chain yet");
    realign_all(&bench, claim).await;
    let (claim, mark) = begin(4, 7).await;
    let mark = mark.expect("marked");
    assert_eq!((mark.from, mark.to, mark.is_open()), (7, 7, true));
    let new = bind_new(claim, 7, [NewTx { lane: lane(4), ..pays(1) }]);
    assert_eq!(bind_txs(store, new).await, Err(Refusal::Restored));
    let waits = accept_one(store, NewTx { lane: lane(4), ..pays(1) }).await;
    assert_eq!(store.awaiting_word(lane(4), 10).await.unwrap()[0].id, waits.id);
    // The account has sent nothing, in any history.
    assert_eq!(begin(5, 0).await.1, None);
    store.settle_restore(&A_NODE, lane(4), &mark, &json!({})).await.unwrap();
    bind_txs(store, waiting_binding(claim, 7, [&waits])).await.unwrap();
}

/// Realigns the lanes that were there before.
async fn realign_all(bench: &Bench, claim: Claim) {
    let store = &*bench.store;
    for number in [1, 2] {
        let claim =
            if number == 1 { claim } else { held(store, &HOLDER, lane(number), LEASE).await.claim };
        let answer = store.realign(&A_NODE, &claim, &ASK, &json!({}), LEASE).await;
        assert!(answer.unwrap().unwrap().expect("realigned").restored);
    }
}

/// A file of its own, as a server has it.
struct Served {
    directory: tempfile::TempDir,
}

impl Served {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn try_open(&self) -> Result<std::sync::Arc<dyn Store>, stile_store::StoreError> {
        let url = format!("sqlite://{}", self.path("stile.db").display());
        open(OpenOptions { url: url.into(), serve: true, ..stile_options() })
    }

    async fn start(&self) -> (std::sync::Arc<dyn Store>, Vec<stile_domain::Lane>) {
        let store = self.try_open().unwrap();
        store.migrate().await.unwrap();
        let unaligned = store.arrive().await.unwrap();
        (store, unaligned)
    }

    fn copy(&self, from: &str, to: &str) {
        std::fs::copy(self.path(from), self.path(to)).unwrap();
    }

    fn remove(&self, names: &[&str]) {
        for name in names {
            let _ = std::fs::remove_file(self.path(name));
        }
    }
}

fn stile_options() -> OpenOptions {
    crate::common::Database::sqlite().options()
}

/// Whether a lane that is not in the database begins marked, on a chain that has 5 of its account.
async fn begins_marked(store: &dyn Store, number: u32) -> bool {
    let claim = held(store, &HOLDER, lane(number), LEASE).await.claim;
    store.start_cursor(&A_NODE, &claim, 5.into(), LEASE).await.unwrap().unwrap();
    view(store, lane(number)).await.restored.is_some_and(|mark| mark.is_open())
}

/// `cp stile.db` while the server runs: without its log the file has nothing that was written since the
/// start, and it is known for a copy all the same.
#[tokio::test]
async fn hole_20_a_lone_hot_copy_of_the_file_is_known_for_a_copy() {
    for with_origin in [true, false] {
        let served = Served::new();
        let (store, _) = served.start().await;
        let claim = claim_at(&*store, &HOLDER, lane(1), 2).await;
        bind(&*store, fresh(claim, 2, 1)).await.unwrap();
        served.copy("stile.db", "backup.db");
        store.close().await;
        drop(store);
        served.remove(&["stile.db-wal", "stile.db-shm"]);
        if !with_origin {
            served.remove(&["stile.db.origin"]);
        }
        served.copy("backup.db", "stile.db");
        let (store, _) = served.start().await;
        assert!(begins_marked(&*store, 1).await, "the lane is not new (origin: {with_origin})");
        store.close().await;
        drop(store);
        // Nor is one that begins later.
        let (store, _) = served.start().await;
        assert!(begins_marked(&*store, 2).await);
        store.close().await;
    }
}

/// The file is gone, and what is beside it says that there was one.
#[tokio::test]
async fn hole_20_an_empty_file_in_the_place_of_a_database_is_known_for_one() {
    let served = Served::new();
    let (store, _) = served.start().await;
    assert!(!begins_marked(&*store, 1).await, "a new database");
    store.close().await;
    drop(store);
    served.remove(&["stile.db", "stile.db-wal", "stile.db-shm"]);
    let (store, _) = served.start().await;
    assert!(begins_marked(&*store, 1).await, "the lane is not new");
    store.close().await;
    drop(store);
    // A person says that nothing was lost.
    served.remove(&["stile.db", "stile.db-wal", "stile.db-shm", "stile.db.origin"]);
    let (store, _) = served.start().await;
    assert!(!begins_marked(&*store, 1).await);
    store.close().await;
}

/// SQLite replays a log onto whatever file is beside it.
#[tokio::test]
async fn hole_20_a_copy_beside_the_log_of_another_file_is_refused() {
    // Copies from an earlier start of the server, and from the same one.
    for same_start in [false, true] {
        let served = Served::new();
        let (mut store, _) = served.start().await;
        for number in 1..40 {
            claim_at(&*store, &HOLDER, lane(number), 2).await;
        }
        let copy = || {
            let connection = rusqlite::Connection::open(served.path("stile.db")).unwrap();
            let to = served.path("backup.db");
            connection.execute("VACUUM INTO ?1", [to.to_str().unwrap()]).unwrap();
        };
        copy();
        if !same_start {
            store.close().await;
            drop(store);
            store = served.start().await.0;
        }
        let claim = held(&*store, &HOLDER, lane(1), LEASE).await.claim;
        bind(&*store, fresh(claim, 2, 20)).await.unwrap();
        // As a crash leaves it.
        served.copy("stile.db-wal", "crashed-wal");
        served.copy("stile.db", "crashed.db");
        store.close().await;
        drop(store);

        served.copy("backup.db", "stile.db");
        served.copy("crashed-wal", "stile.db-wal");
        served.remove(&["stile.db-shm"]);
        let before = std::fs::read(served.path("stile.db")).unwrap();
        let refused = served.try_open().map(drop).expect_err("refused").to_string();
        assert!(refused.contains("is not the log of"), "{refused}");
        assert_eq!(std::fs::read(served.path("stile.db")).unwrap(), before, "nothing is changed");

        // What it says to do.
        served.remove(&["stile.db-wal", "stile.db-shm"]);
        let (store, unaligned) = served.start().await;
        assert_eq!(unaligned.len(), 39, "it is an older copy");
        store.close().await;
        drop(store);

        // The log of the file itself is replayed, of course.
        served.copy("crashed.db", "stile.db");
        served.copy("crashed-wal", "stile.db-wal");
        served.remove(&["stile.db-shm"]);
        let (store, _) = served.start().await;
        assert_eq!(view(&*store, lane(1)).await.next_nonce, Some(22));
        store.close().await;
    }
}

/// A process that dies between the stamp in the database and the one beside it has lost nothing.
#[tokio::test]
async fn a_start_that_is_cut_short_is_not_taken_for_a_restore() {
    let bench = Bench::sqlite().await;
    let options = || OpenOptions { serve: true, ..bench.database.options() };
    let store = open(options()).unwrap();
    store.arrive().await.unwrap();
    claim_at(&*store, &HOLDER, lane(1), 2).await;
    let path = PathBuf::from(options().url.reveal().trim_start_matches("sqlite://"));
    let mut beside = path.into_os_string();
    beside.push(".origin");
    let before = std::fs::read_to_string(&beside).unwrap();
    store.close().await;
    drop(store);
    let after = std::fs::read_to_string(&beside).unwrap();
    // Both are beside it while the database gets the new one.
    std::fs::write(&beside, format!("{}\n{}\n", before.trim(), after.trim())).unwrap();
    let store = open(options()).unwrap();
    assert_eq!(store.arrive().await.unwrap(), []);
    store.close().await;
    drop(store);
    std::fs::write(&beside, before).unwrap();
    let store = open(options()).unwrap();
    assert_eq!(store.arrive().await.unwrap(), [lane(1)], "an older one, or a newer");
}

/// Copies that were taken while the server ran, each put in its place with the stamp that was beside
/// the database when the server crashed.
#[tokio::test]
async fn hole_20_a_copy_from_before_a_heartbeat_is_known_for_one() {
    let bench = Bench::sqlite().await;
    let options = || OpenOptions { serve: true, ..bench.database.options() };
    let path = PathBuf::from(options().url.reveal().trim_start_matches("sqlite://"));
    let copy = |name: &str| {
        let to = path.with_extension(name);
        let connection = rusqlite::Connection::open(&path).unwrap();
        connection.execute("VACUUM INTO ?1", [to.to_str().unwrap()]).unwrap();
        to
    };
    let store = open(options()).unwrap();
    store.arrive().await.unwrap();
    let claim = claim_at(&*store, &HOLDER, lane(1), 2).await;
    let record = NodeRecord {
        holder: HOLDER.clone(),
        mode: NodeMode::Basic,
        serves: String::new(),
        draining: false,
    };
    store.heartbeat(&record, false).await.unwrap();
    let older = copy("older");
    bind(&*store, fresh(claim, 2, 1)).await.unwrap();
    store.heartbeat(&record, false).await.unwrap();
    let newer = copy("newer");
    // Nothing is given out any more, so the stamp stays.
    store.heartbeat(&record, false).await.unwrap();
    let stamp = std::fs::read_to_string(format!("{}.origin", path.display())).unwrap();
    for (copy, unaligned) in [(newer, vec![]), (older, vec![lane(1)])] {
        std::fs::write(format!("{}.origin", copy.display()), &stamp).unwrap();
        let url = format!("sqlite://{}", copy.display());
        let copied = open(OpenOptions { url: url.into(), ..options() }).unwrap();
        assert_eq!(copied.arrive().await.unwrap(), unaligned, "{}", copy.display());
        copied.close().await;
    }
    store.close().await;
}
