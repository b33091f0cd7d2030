//! What happens to lanes: their histories, their cursors when somebody else used nonces, and nonces
//! that nobody has.

use serde_json::json;
use stile_domain::{HeldExpiry, HoldStatus, LaneEventKind, NodeId, Step, TxState};
use stile_store::{
    LaneEvent, LedgerOwner, MarkOutcome, NewLaneEvent, Realign, Refusal, Resumed, Store,
    StreamEvent, StreamPosition,
};
use testkit::eventually;

use crate::common::{
    A_NODE, Bench, HOLD, LEASE, RUN_OUT, accept_one, bind, bind_new, bind_txs, bound, claim_at,
    fresh, give_back, held, hold_at, lane, lanes, mark, new_tx, node, of_txs, pause, read_hold,
    reissue, resume, steps, used, view,
};

on_both_stores!(
    a_lane_has_a_history_newest_first,
    a_history_is_read_in_parts,
    a_pause_is_told_once_with_its_reason,
    the_stream_has_transactions_and_lanes_in_one_order,
    the_stream_of_both_is_read_in_parts,
    the_stream_ends_after_the_last_entry_of_either,
    a_resumption_moves_the_cursor_from_where_it_stands,
    a_resumption_moves_back_only_over_nonces_that_nobody_has,
    following_the_chain_moves_the_cursor_forward,
    following_the_chain_is_refused_where_the_cursor_stands_elsewhere,
    owning_up_takes_only_what_nobody_has,
    hole_13_what_others_used_is_nobodys_once_their_block_is_gone,
    what_was_owned_up_to_is_filled_by_a_transaction,
    every_nonce_has_its_owner,
);

fn event(kind: LaneEventKind) -> NewLaneEvent {
    NewLaneEvent { kind, data: json!({ "nonce": 7 }) }
}

async fn history(store: &dyn Store, lane: stile_domain::Lane) -> Vec<LaneEvent> {
    store.lane_history(lane, None, 100).await.unwrap()
}

fn kinds(events: &[LaneEvent]) -> Vec<LaneEventKind> {
    events.iter().map(|event| event.kind).collect()
}

async fn a_lane_has_a_history_newest_first(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 12).await;
    let other = claim_at(store, &node("a"), lane(2), 3).await;
    store.tell_lane(&A_NODE, lane(1), &event(LaneEventKind::OutsideUse)).await.unwrap();
    pause(store, lane(1), "outside use").await;
    resume(store, lane(1)).await;
    let told = history(store, lane(1)).await;
    use LaneEventKind::{OutsideUse, Paused, Resumed, Started};
    assert_eq!(kinds(&told), [Resumed, Paused, OutsideUse, Started]);
    assert!(told.is_sorted_by(|one, next| one.position > next.position));
    assert!(told.iter().all(|event| event.lane == lane(1)));
    let started = &told[3];
    assert_eq!((started.fencing_token, &started.node), (Some(claim.token()), &*A_NODE));
    assert_eq!(started.data, json!({ "cursor": 12 }));
    assert_eq!((&told[2].data, told[2].fencing_token), (&json!({ "nonce": 7 }), None));
    assert_eq!((told[1].fencing_token, &told[1].node), (None, &NodeId("operator".into())));

    // A cursor that stands is not started again.
    assert_eq!(store.start_cursor(&A_NODE, &other, 9.into(), LEASE).await.unwrap(), Ok(3));
    assert_eq!(kinds(&history(store, lane(2)).await), [Started]);
}

async fn a_history_is_read_in_parts(bench: Bench) {
    let store = &*bench.store;
    for kind in [LaneEventKind::Unfunded, LaneEventKind::Funded, LaneEventKind::GapFilled] {
        store.tell_lane(&A_NODE, lane(1), &event(kind)).await.unwrap();
        store.tell_lane(&A_NODE, lane(2), &event(kind)).await.unwrap();
    }
    let all = history(store, lane(1)).await;
    let first = store.lane_history(lane(1), None, 2).await.unwrap();
    assert_eq!(first, all[..2]);
    let rest = store.lane_history(lane(1), Some(first[1].position), 2).await.unwrap();
    assert_eq!(rest, all[2..]);
    let none = store.lane_history(lane(1), Some(rest[0].position), 2).await.unwrap();
    assert!(none.is_empty());
}

async fn a_pause_is_told_once_with_its_reason(bench: Bench) {
    let store = &*bench.store;
    claim_at(store, &node("a"), lane(1), 0).await;
    let data = json!({ "nonce": 9, "reason": "another" });
    assert!(store.pause(&A_NODE, lane(1), "outside use", &data).await.unwrap());
    let before = bench.raw().await.dump().await;
    assert!(store.pause(&A_NODE, lane(1), "by hand", &data).await.unwrap());
    assert_eq!(bench.raw().await.dump().await, before, "nothing is written");
    let told = history(store, lane(1)).await;
    assert_eq!(kinds(&told), [LaneEventKind::Paused, LaneEventKind::Started]);
    assert_eq!(told[0].data, json!({ "nonce": 9, "reason": "outside use" }));
}

/// Reads on from a place until so many entries are there.
async fn read_on(store: &dyn Store, mut from: StreamPosition, count: usize) -> Vec<StreamEvent> {
    let mut read = Vec::new();
    eventually("the stream's entries", async || {
        let events = store.events_after(from, 2).await.unwrap();
        assert!(events.len() <= 2);
        from = events.last().map_or(from, StreamEvent::position);
        read.extend(events);
        (read.len() >= count).then_some(())
    })
    .await;
    assert_eq!(read.len(), count);
    read
}

/// A word for each entry.
fn words(events: &[StreamEvent]) -> Vec<String> {
    let word = |event: &StreamEvent| match event {
        StreamEvent::Tx(event) => event.kind.name().to_owned(),
        StreamEvent::Lane(event) => format!("lane {}", event.kind.name()),
        StreamEvent::HistoryChanged(change) => format!("{change:?}"),
    };
    events.iter().map(word).collect()
}

async fn the_stream_has_transactions_and_lanes_in_one_order(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let tx = bound(store, claim, 0).await;
    store.tell_lane(&A_NODE, lane(1), &event(LaneEventKind::Unfunded)).await.unwrap();
    store.tell_lane(&A_NODE, lane(1), &event(LaneEventKind::Funded)).await.unwrap();
    steps(store, claim, &tx, &[Step::Sent]).await;
    pause(store, lane(1), "by hand").await;
    accept_one(store, new_tx(lane(2))).await;
    let read = read_on(store, StreamPosition::default(), 8).await;
    let expected = [
        "lane STARTED",
        "ACCEPTED",
        "BOUND",
        "lane UNFUNDED",
        "lane FUNDED",
        "SENT",
        "lane PAUSED",
        "ACCEPTED",
    ];
    assert_eq!(words(&read), expected);
    assert!(read.is_sorted_by(|one, next| one.position() < next.position()));
    assert_eq!(read[7].lane(), Some(lane(2)));
    let mut of_lane = history(store, lane(1)).await;
    of_lane.reverse();
    let streamed = read.iter().filter_map(|event| match event {
        StreamEvent::Lane(event) => Some(event.clone()),
        _ => None,
    });
    assert_eq!(streamed.collect::<Vec<_>>(), of_lane);
    assert_eq!(of_txs(read)[..3], store.history(tx.id).await.unwrap());
}

async fn the_stream_of_both_is_read_in_parts(bench: Bench) {
    let store = &*bench.store;
    for _ in 0..4 {
        accept_one(store, new_tx(lane(1))).await;
        store.tell_lane(&A_NODE, lane(1), &event(LaneEventKind::Unfunded)).await.unwrap();
    }
    let all = read_on(store, StreamPosition::default(), 8).await;
    for (place, event) in all.iter().enumerate() {
        let rest = store.events_after(event.position(), 100).await.unwrap();
        assert_eq!(rest, all[place + 1..]);
        let one = store.events_after(event.position(), 1).await.unwrap();
        assert_eq!(one, all[place + 1..].iter().take(1).cloned().collect::<Vec<_>>());
    }
}

async fn the_stream_ends_after_the_last_entry_of_either(bench: Bench) {
    let store = &*bench.store;
    store.tell_lane(&A_NODE, lane(1), &event(LaneEventKind::Unfunded)).await.unwrap();
    read_on(store, StreamPosition::default(), 1).await;
    let end = store.stream_end().await.unwrap();
    assert!(store.events_after(end, 10).await.unwrap().is_empty());
    accept_one(store, new_tx(lane(1))).await;
    store.tell_lane(&A_NODE, lane(1), &event(LaneEventKind::Funded)).await.unwrap();
    assert_eq!(words(&read_on(store, end, 2).await), ["ACCEPTED", "lane FUNDED"]);
}

async fn a_resumption_moves_the_cursor_from_where_it_stands(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 5).await;
    pause(store, lane(1), "outside use").await;
    let (token, data) = (view(store, lane(1)).await.owner.token, json!({ "by": "alice" }));
    for from in [4, 6] {
        let realign = Some(Realign { from, to: 9 });
        let before = bench.raw().await.dump().await;
        let moved = store.resume(&A_NODE, lane(1), realign, &data).await.unwrap();
        assert_eq!(moved, Resumed::Moved);
        assert_eq!(bench.raw().await.dump().await, before);
    }
    let realign = Some(Realign { from: 5, to: 9 });
    let done = store.resume(&A_NODE, lane(1), realign, &data).await.unwrap();
    assert_eq!(done, Resumed::Done);
    let after = view(store, lane(1)).await;
    assert_eq!((after.next_nonce, after.paused), (Some(9), None));
    assert!(after.owner.token > token);
    let told = history(store, lane(1)).await.remove(0);
    assert_eq!((told.kind, told.data), (LaneEventKind::Resumed, data));
    let refused = bind(store, fresh(claim, 9, 1)).await;
    assert!(matches!(refused, Err(Refusal::Fenced(_))), "{refused:?}");

    // A lane that has no cursor yet stands nowhere.
    held(store, &node("a"), lane(2), LEASE).await;
    let realign = Some(Realign { from: 0, to: 1 });
    let moved = store.resume(&A_NODE, lane(2), realign, &json!({})).await.unwrap();
    assert_eq!(moved, Resumed::Moved);
}

async fn a_resumption_moves_back_only_over_nonces_that_nobody_has(bench: Bench) {
    let store = &*bench.store;
    let a = node("a");
    let claim = claim_at(store, &a, lane(1), 0).await;
    bind(store, fresh(claim, 0, 3)).await.unwrap();
    let event = event(LaneEventKind::FollowedChain);
    let realign = Realign { from: 3, to: 10 };
    store.follow_chain(&claim, realign, &event, LEASE).await.unwrap().unwrap();
    for to in [0, 2] {
        let realign = Some(Realign { from: 10, to });
        let moved = store.resume(&A_NODE, lane(1), realign, &json!({})).await.unwrap();
        assert_eq!(moved, Resumed::Moved);
        assert_eq!(view(store, lane(1)).await.owner.token, claim.token());
    }
    let realign = Some(Realign { from: 10, to: 3 });
    let done = store.resume(&A_NODE, lane(1), realign, &json!({})).await.unwrap();
    assert_eq!(done, Resumed::Done);
    assert_eq!(view(store, lane(1)).await.next_nonce, Some(3));
    let claim = held(store, &a, lane(1), LEASE).await.claim;
    assert_eq!(hold_at(store, claim, 3, HOLD).await.nonce, 3);
}

async fn following_the_chain_moves_the_cursor_forward(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 2).await;
    let event = event(LaneEventKind::FollowedChain);
    let realign = Realign { from: 2, to: 6 };
    store.follow_chain(&claim, realign, &event, LEASE).await.unwrap().unwrap();
    assert_eq!(view(store, lane(1)).await.next_nonce, Some(6));
    let told = history(store, lane(1)).await.remove(0);
    assert_eq!((told.kind, &told.data), (event.kind, &event.data));
    assert_eq!((told.fencing_token, told.node), (Some(claim.token()), A_NODE.clone()));
    assert_eq!(bind(store, fresh(claim, 6, 1)).await.unwrap()[0].nonce, 6, "the claim stands");
}

async fn following_the_chain_is_refused_where_the_cursor_stands_elsewhere(bench: Bench) {
    let store = &*bench.store;
    let a = node("a");
    let claim = claim_at(store, &a, lane(1), 5).await;
    let event = event(LaneEventKind::FollowedChain);
    let before = bench.raw().await.dump().await;
    for (from, to) in [(4, 9), (6, 9), (5, 4), (5, 5)] {
        let realign = Realign { from, to };
        let refused = store.follow_chain(&claim, realign, &event, LEASE).await.unwrap();
        assert_eq!(refused, Err(Refusal::CursorMoved), "{realign:?}");
    }
    assert_eq!(bench.raw().await.dump().await, before);
    pause(store, lane(1), "by hand").await;
    let claim = held(store, &a, lane(1), LEASE).await.claim;
    let realign = Realign { from: 5, to: 6 };
    let refused = store.follow_chain(&claim, realign, &event, LEASE).await.unwrap();
    assert_eq!(refused, Err(Refusal::Paused("by hand".into())));
}

async fn owning_up_takes_only_what_nobody_has(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    bound(store, claim, 0).await;
    let given_back = give_back(store, &hold_at(store, claim, 1, HOLD).await).await;
    let event = event(LaneEventKind::FollowedChain);
    let realign = Realign { from: 2, to: 6 };
    store.follow_chain(&claim, realign, &event, LEASE).await.unwrap().unwrap();
    let asked = [7, 6, 5, 3, 3, 1, 0];
    let owned = store.own_up(&claim, &asked, "a gap", LEASE).await.unwrap().unwrap();
    let nonces: Vec<_> = owned.iter().map(|hold| hold.nonce).collect();
    assert_eq!(nonces, [3, 5], "below the cursor, and nobody's");
    for hold in &owned {
        assert_eq!((hold.status, hold.reason.as_deref()), (HoldStatus::Released, Some("a gap")));
        assert_eq!((hold.lane, hold.tx_hash), (lane(1), None));
    }
    assert_ne!(owned[0].id, owned[1].id);
    let survey = store.survey(&[lane(1)]).await.unwrap().remove(0);
    let released: Vec<_> = survey.released.iter().map(|it| (it.nonce, it.hold)).collect();
    let expected = [(1, given_back.id), (3, owned[0].id), (5, owned[1].id)];
    assert_eq!(released, expected);
    let again = store.own_up(&claim, &asked, "a gap", LEASE).await.unwrap().unwrap();
    assert!(again.is_empty());
    assert!(store.own_up(&claim, &[], "a gap", LEASE).await.unwrap().unwrap().is_empty());
}

/// Given back by its caller, used by somebody else, and that block is gone. What a caller says that it
/// sent stays its own, and so does what a caller was silent about.
async fn hole_13_what_others_used_is_nobodys_once_their_block_is_gone(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let given_back = give_back(store, &hold_at(store, claim, 0, HOLD).await).await;
    let late = give_back(store, &hold_at(store, claim, 1, HOLD).await).await;
    hold_at(store, claim, 2, RUN_OUT).await;
    store.expire(&[claim], HeldExpiry::Suspect, LEASE).await.unwrap().remove(0).unwrap();
    let settled = store.settle(&[(claim, 3)], LEASE).await.unwrap().remove(0).unwrap();
    assert_eq!(settled.len(), 3);
    for hold in &settled {
        assert_eq!(hold.is_nobodys(), hold.nonce < 2, "{hold:?}");
    }
    // Its caller finds out that it did send.
    let marked = mark(store, used(&late, 7)).await;
    assert!(matches!(marked, MarkOutcome::Done(_)), "{marked:?}");
    let owned = store.own_up(&claim, &[0, 1, 2], "a gap", LEASE).await.unwrap().unwrap();
    let [again] = &owned[..] else { panic!("{owned:?}") };
    assert_eq!((again.nonce, again.status), (0, HoldStatus::Released));
    assert_ne!(again.id, given_back.id);
    let past = read_hold(store, &given_back).await;
    assert_eq!(past.status, HoldStatus::Released, "a late mark finds its answer");
    let survey = store.survey(&[lane(1)]).await.unwrap().remove(0);
    let released: Vec<_> = survey.released.iter().map(|it| (it.nonce, it.hold)).collect();
    assert_eq!((released, survey.suspect), (vec![(0, again.id)], vec![]));
}

async fn what_was_owned_up_to_is_filled_by_a_transaction(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 4).await;
    let gap = store.own_up(&claim, &[2], "a gap", LEASE).await.unwrap().unwrap();
    let released = vec![crate::common::released(&gap[0])];
    let new = stile_store::Bindable::New(Box::new(new_tx(lane(1))));
    let filler = crate::common::tx_binding(claim, released, 4, [new]);
    let filler = bind_txs(store, filler).await.unwrap().remove(0);
    assert_eq!(filler.nonce, Some(2));
    let again = bind(store, reissue(claim, 4, &gap)).await;
    assert_eq!(again, Err(Refusal::RowLost));
}

async fn every_nonce_has_its_owner(bench: Bench) {
    let store = &*bench.store;
    let a = node("a");
    let [mine, other] = lanes();
    let claim = claim_at(store, &a, mine, 0).await;
    bind(store, fresh(claim_at(store, &a, other, 0).await, 0, 3)).await.unwrap();
    let hold = hold_at(store, claim, 0, HOLD).await;
    let binding = bind_new(claim, 1, [new_tx(mine), new_tx(mine)]);
    let txs = bind_txs(store, binding).await.unwrap();
    let event = event(LaneEventKind::FollowedChain);
    let realign = Realign { from: 3, to: 5 };
    store.follow_chain(&claim, realign, &event, LEASE).await.unwrap().unwrap();
    let sent = steps(store, claim, &txs[1], &[Step::Sent]).await;
    let last = hold_at(store, claim, 5, HOLD).await;
    let owners = async |from, limit| {
        let found = store.nonce_owners(mine, from, limit).await.unwrap();
        found.into_iter().map(|it| (it.nonce, it.owner)).collect::<Vec<_>>()
    };
    let all = [
        (0, LedgerOwner::Hold(hold)),
        (1, LedgerOwner::Tx(txs[0].id, TxState::Allocated)),
        (2, LedgerOwner::Tx(sent.id, TxState::Submitted)),
        (5, LedgerOwner::Hold(last)),
    ];
    assert_eq!(owners(0, 10).await, all, "nobody has 3 and 4");
    assert_eq!(owners(1, 2).await, all[1..3]);
    assert_eq!(owners(3, 10).await, all[3..]);
    assert!(owners(6, 10).await.is_empty());
}

/// Commits finish out of order: an entry written early and committed late is not passed by.
#[tokio::test]
async fn an_entry_of_a_lane_that_is_committed_late_is_not_passed_by() {
    let bench = Bench::postgres().await;
    let store = &*bench.store;
    store.tell_lane(&A_NODE, lane(1), &event(LaneEventKind::Unfunded)).await.unwrap();
    read_on(store, StreamPosition::default(), 1).await;
    let late = bench.raw().await;
    let insert = "BEGIN; INSERT INTO lane_event (chain_id, signer, kind, at, node_id, data)
                  SELECT chain_id, signer, 'FUNDED', at, node_id, data FROM lane_event";
    late.execute(insert).await;
    store.tell_lane(&A_NODE, lane(1), &event(LaneEventKind::OutsideUse)).await.unwrap();
    let end = store.stream_end().await.unwrap();
    assert!(store.events_after(end, 10).await.unwrap().is_empty(), "it would pass the late one");
    late.execute("COMMIT").await;
    assert_eq!(words(&read_on(store, end, 2).await), ["lane FUNDED", "lane OUTSIDE_USE"]);
}
