//! Planned holds: cursors, reissue, what is refused and what is then left unwritten.

use stile_domain::{HoldStatus, Lane, Nonce};
use stile_store::{Refusal, Store};

use crate::common::{
    Bench, HOLD, LEASE, RUN_OUT, bind, binding, claim_at, fresh, give_back, held, lane, lanes,
    mark, node, pause, read_hold, reissue, released, used, view,
};

on_both_stores!(
    fresh_nonces_follow_the_cursor,
    a_bind_extends_the_lease,
    released_nonces_are_given_out_again_in_the_plans_order,
    released_and_fresh_nonces_mix,
    lanes_of_one_call_do_not_mix,
    a_wrong_cursor_is_refused_and_nothing_written,
    a_lane_without_a_cursor_is_refused,
    a_lost_row_takes_back_its_lane_and_no_other,
    a_row_that_was_never_released_is_lost,
    a_paused_lane_is_refused,
    a_fenced_lane_drops_only_its_own_part,
    a_row_above_the_cursor_is_told_and_spoils_no_other_lane,
    every_kind_of_refusal_in_one_call,
);

async fn cursor(store: &dyn Store, lane: Lane) -> Option<Nonce> {
    view(store, lane).await.next_nonce
}

async fn fresh_nonces_follow_the_cursor(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 10).await;
    let planned = fresh(claim, 10, 3);
    let ids: Vec<_> = planned.holds.iter().map(|hold| hold.id).collect();
    let holds = bind(store, planned).await.unwrap();
    let nonces: Vec<_> = holds.iter().map(|hold| hold.nonce).collect();
    assert_eq!(nonces, [10, 11, 12]);
    assert_eq!(holds.iter().map(|hold| hold.id).collect::<Vec<_>>(), ids);
    assert_eq!(cursor(store, lane(1)).await, Some(13));
    for hold in &holds {
        assert_eq!(hold.status, HoldStatus::Held);
        assert_eq!((hold.lane, hold.tx_hash, &hold.reason), (lane(1), None, &None));
        assert_eq!(&read_hold(store, hold).await, hold, "answered as it is stored");
    }
    let next = bind(store, fresh(claim, 13, 1)).await.unwrap();
    assert_eq!(next[0].nonce, 13);
}

async fn a_bind_extends_the_lease(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    store.renew(&[claim], RUN_OUT).await.unwrap();
    bind(store, fresh(claim, 0, 1)).await.unwrap();
    assert!(view(store, lane(1)).await.owner.remaining > LEASE / 2);
}

async fn released_nonces_are_given_out_again_in_the_plans_order(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let first = bind(store, fresh(claim, 0, 4)).await.unwrap();
    for place in [3, 1] {
        give_back(store, &first[place]).await;
    }
    let again =
        bind(store, reissue(claim, 4, &[first[1].clone(), first[3].clone()])).await.unwrap();
    let nonces: Vec<_> = again.iter().map(|hold| hold.nonce).collect();
    assert_eq!(nonces, [1, 3]);
    assert_eq!(cursor(store, lane(1)).await, Some(4), "the cursor stays");
    for hold in &again {
        assert_eq!(&read_hold(store, hold).await, hold);
        assert!(first.iter().all(|old| old.id != hold.id), "a new hold id");
    }
    let old = read_hold(store, &first[1]).await;
    assert_eq!(old.status, HoldStatus::Released);
    assert_eq!(old.reason.as_deref(), Some("not sent"));
}

async fn released_and_fresh_nonces_mix(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 5).await;
    let first = bind(store, fresh(claim, 5, 2)).await.unwrap();
    give_back(store, &first[0]).await;
    let mixed = binding(claim, vec![released(&first[0])], 7, 2);
    let holds = bind(store, mixed).await.unwrap();
    let nonces: Vec<_> = holds.iter().map(|hold| hold.nonce).collect();
    assert_eq!(nonces, [5, 7, 8]);
    assert_eq!(cursor(store, lane(1)).await, Some(9));
    assert_eq!(read_hold(store, &first[1]).await.status, HoldStatus::Held);
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
    let calls = [fresh(claims[2], 7, 1), fresh(claims[0], 0, 2), fresh(claims[1], 100, 3)];
    let answers = store.bind(&calls, LEASE, HOLD).await.unwrap();
    let nonces: Vec<Vec<_>> = answers
        .into_iter()
        .map(|answer| answer.unwrap().iter().map(|hold| (hold.lane, hold.nonce)).collect())
        .collect();
    assert_eq!(nonces[0], [(three, 7)]);
    assert_eq!(nonces[1], [(one, 0), (one, 1)]);
    assert_eq!(nonces[2], [(two, 100), (two, 101), (two, 102)]);
    assert_eq!(cursor(store, two).await, Some(103));
    assert!(store.bind(&[], LEASE, HOLD).await.unwrap().is_empty());
}

async fn a_wrong_cursor_is_refused_and_nothing_written(bench: Bench) {
    let store = &*bench.store;
    let raw = bench.raw().await;
    let claim = claim_at(store, &node("a"), lane(1), 5).await;
    let hold = bind(store, fresh(claim, 5, 1)).await.unwrap().remove(0);
    give_back(store, &hold).await;
    let before = raw.dump().await;
    for first in [4, 5, 7] {
        let refused = bind(store, binding(claim, vec![released(&hold)], first, 1)).await;
        assert_eq!(refused, Err(Refusal::CursorMoved), "planned from {first}");
    }
    assert_eq!(raw.dump().await, before);
}

async fn a_lane_without_a_cursor_is_refused(bench: Bench) {
    let claim = held(&*bench.store, &node("a"), lane(1), LEASE).await.claim;
    assert_eq!(bind(&*bench.store, fresh(claim, 0, 1)).await, Err(Refusal::CursorMoved));
}

async fn a_lost_row_takes_back_its_lane_and_no_other(bench: Bench) {
    let store = &*bench.store;
    let a = node("a");
    let [losing, other] = lanes();
    let claim = claim_at(store, &a, losing, 0).await;
    let unharmed = claim_at(store, &a, other, 0).await;
    let holds = bind(store, fresh(claim, 0, 2)).await.unwrap();
    for hold in &holds {
        give_back(store, hold).await;
    }
    // Between the plan and the commit one caller finds out that its transaction went out after all.
    let plan = holds.iter().map(released).collect();
    mark(store, used(&holds[1], 1)).await;

    let calls = [binding(claim, plan, 2, 3), fresh(unharmed, 0, 2)];
    let answers = store.bind(&calls, LEASE, HOLD).await.unwrap();
    assert_eq!(answers[0], Err(Refusal::RowLost));
    assert_eq!(answers[1].as_ref().unwrap().len(), 2);
    assert_eq!(cursor(store, losing).await, Some(2), "its cursor went back");
    assert_eq!(cursor(store, other).await, Some(2));
    assert_eq!(read_hold(store, &holds[0]).await.status, HoldStatus::Released);
    let planned = calls[0].plan.nonces().zip(calls[0].holds.iter().map(|hold| hold.id));
    let planned: Vec<_> = planned.collect();
    assert!(store.read_back(losing, &planned).await.unwrap().is_empty());
    let past = bench.raw().await.value("SELECT count(*) FROM past_hold").await;
    assert_eq!(past, "0", "nothing changed hands");
}

async fn a_row_that_was_never_released_is_lost(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let holds = bind(store, fresh(claim, 0, 2)).await.unwrap();
    assert_eq!(bind(store, reissue(claim, 2, &holds[..1])).await, Err(Refusal::RowLost));
    give_back(store, &holds[0]).await;
    let mut stranger = holds[0].clone();
    stranger.id = holds[1].id;
    assert_eq!(bind(store, reissue(claim, 2, &[stranger])).await, Err(Refusal::RowLost));
    assert_eq!(read_hold(store, &holds[0]).await.status, HoldStatus::Released);
}

async fn a_paused_lane_is_refused(bench: Bench) {
    let store = &*bench.store;
    let a = node("a");
    claim_at(store, &a, lane(1), 0).await;
    pause(store, lane(1), "outside use").await;
    let claim = held(store, &a, lane(1), LEASE).await.claim;
    let refused = bind(store, fresh(claim, 0, 1)).await;
    assert_eq!(refused, Err(Refusal::Paused("outside use".into())));
    assert_eq!(cursor(store, lane(1)).await, Some(0));
}

async fn a_fenced_lane_drops_only_its_own_part(bench: Bench) {
    let store = &*bench.store;
    let (a, b) = (node("a"), node("b"));
    let [lost, kept] = lanes();
    let claims = [claim_at(store, &a, lost, 0).await, claim_at(store, &a, kept, 0).await];
    store.release(&claims[..1]).await.unwrap();
    let taken = held(&*bench.second(), &b, lost, LEASE).await;

    let calls = [fresh(claims[0], 0, 2), fresh(claims[1], 0, 2)];
    let answers = store.bind(&calls, LEASE, HOLD).await.unwrap();
    let Err(Refusal::Fenced(owner)) = &answers[0] else { panic!("{answers:?}") };
    assert_eq!((&owner.node, owner.token), (&b.node, taken.claim.token()));
    assert_eq!(answers[1].as_ref().unwrap().len(), 2);
    assert_eq!(cursor(store, lost).await, Some(0));
    assert_eq!(view(store, lost).await.expires_at, taken.expires_at);
}

async fn a_row_above_the_cursor_is_told_and_spoils_no_other_lane(bench: Bench) {
    let store = &*bench.store;
    let a = node("a");
    let [broken, sound] = lanes();
    let claims = [claim_at(store, &a, broken, 0).await, claim_at(store, &a, sound, 0).await];
    bench.raw().await.plant(broken, 1, "tx", "HELD").await.unwrap();

    let calls = [fresh(claims[0], 0, 2), fresh(claims[1], 0, 2)];
    let answers = store.bind(&calls, LEASE, HOLD).await.unwrap();
    assert!(matches!(answers[0], Err(Refusal::Inconsistent(_))), "{answers:?}");
    assert_eq!(answers[1].as_ref().unwrap().len(), 2);
    assert_eq!(cursor(store, broken).await, Some(0));
    assert_eq!(cursor(store, sound).await, Some(2));
    let rows = format!("SELECT nonce FROM nonce WHERE {}", bench.raw().await.of(broken));
    assert_eq!(bench.raw().await.rows(&rows).await, [["1"]], "only the row that was planted");
}

async fn every_kind_of_refusal_in_one_call(bench: Bench) {
    let store = &*bench.store;
    let a = node("a");
    let [fenced, moved, lost, paused, broken, sound] = lanes();
    let mut claims = Vec::new();
    for lane in [fenced, moved, lost, paused, broken, sound] {
        claims.push(claim_at(store, &a, lane, 0).await);
    }
    let hold = bind(store, fresh(claims[2], 0, 1)).await.unwrap();
    store.release(&claims[..1]).await.unwrap();
    held(&*bench.second(), &node("b"), fenced, LEASE).await;
    pause(store, paused, "by hand").await;
    claims[3] = held(store, &a, paused, LEASE).await.claim;
    bench.raw().await.plant(broken, 0, "filler", "HELD").await.unwrap();

    let calls = [
        fresh(claims[5], 0, 1),
        fresh(claims[4], 0, 1),
        fresh(claims[3], 0, 1),
        reissue(claims[2], 1, &hold),
        fresh(claims[1], 3, 1),
        fresh(claims[0], 0, 1),
    ];
    let answers = store.bind(&calls, LEASE, HOLD).await.unwrap();
    assert_eq!(answers[0].as_ref().unwrap().len(), 1, "{answers:?}");
    assert!(matches!(answers[1], Err(Refusal::Inconsistent(_))), "{answers:?}");
    assert_eq!(answers[2], Err(Refusal::Paused("by hand".into())));
    assert_eq!(answers[3], Err(Refusal::RowLost));
    assert_eq!(answers[4], Err(Refusal::CursorMoved));
    assert!(matches!(answers[5], Err(Refusal::Fenced(_))), "{answers:?}");
}
