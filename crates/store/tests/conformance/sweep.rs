//! The first cursor, holds that ran out, what the chain shows.

use stile_domain::{HeldExpiry, Hold, HoldStatus, Nonce};
use stile_store::{Claim, Refusal, Store};

use crate::common::{
    A_NODE, Bench, HOLD, LEASE, RUN_OUT, claim_at, give_back, held, hold_at, lane, lanes, mark,
    node, read_hold, used, view,
};

on_both_stores!(
    the_cursor_starts_once_only,
    starting_the_cursor_needs_the_lane,
    a_hold_that_ran_out_becomes_suspect,
    a_hold_that_ran_out_is_released_where_callers_promise_not_to_send_late,
    a_sweep_finds_nothing_twice,
    a_sweep_of_many_lanes_refuses_only_the_lost_one,
    the_chain_consumes_suspect_and_released_below_its_count,
    the_chains_count_is_kept_for_people,
    settling_many_lanes_refuses_only_the_lost_one,
);

fn nonces(holds: &Result<Vec<Hold>, Refusal>) -> Vec<Nonce> {
    let mut nonces: Vec<_> = holds.as_ref().unwrap().iter().map(|hold| hold.nonce).collect();
    nonces.sort();
    nonces
}

async fn statuses(store: &dyn Store, holds: &[Hold]) -> Vec<HoldStatus> {
    let mut statuses = Vec::new();
    for hold in holds {
        statuses.push(read_hold(store, hold).await.status);
    }
    statuses
}

async fn the_cursor_starts_once_only(bench: Bench) {
    let store = &*bench.store;
    let claim = held(store, &node("a"), lane(1), LEASE).await.claim;
    assert_eq!(store.start_cursor(&A_NODE, &claim, 12.into(), LEASE).await.unwrap(), Ok(12));
    assert_eq!(store.start_cursor(&A_NODE, &claim, 3.into(), LEASE).await.unwrap(), Ok(12));
    assert_eq!(store.start_cursor(&A_NODE, &claim, 40.into(), LEASE).await.unwrap(), Ok(12));
    let lane = view(store, lane(1)).await;
    assert_eq!((lane.next_nonce, lane.last_chain_nonce), (Some(12), None));
}

async fn starting_the_cursor_needs_the_lane(bench: Bench) {
    let store = &*bench.store;
    let lost = held(store, &node("a"), lane(1), RUN_OUT).await.claim;
    let taken = held(&*bench.second(), &node("b"), lane(1), LEASE).await;
    let refused = store.start_cursor(&A_NODE, &lost, 12.into(), LEASE).await.unwrap();
    assert!(matches!(refused, Err(Refusal::Fenced(_))), "{refused:?}");
    let lane = view(store, lane(1)).await;
    assert_eq!((lane.next_nonce, lane.expires_at), (None, taken.expires_at));
}

/// Holds 0 to 4: run out; run out; in time; run out but used; run out but given back.
async fn five_holds(store: &dyn Store, claim: Claim) -> Vec<Hold> {
    let mut holds = Vec::new();
    for (nonce, timeout) in [RUN_OUT, RUN_OUT, HOLD, RUN_OUT, RUN_OUT].into_iter().enumerate() {
        holds.push(hold_at(store, claim, nonce as Nonce, timeout).await);
    }
    mark(store, used(&holds[3], 1)).await;
    give_back(store, &holds[4]).await;
    holds
}

async fn a_hold_that_ran_out_becomes_suspect(bench: Bench) {
    use HoldStatus::{Consumed, Held, Released, Suspect};
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let holds = five_holds(store, claim).await;
    let swept = store.expire(&[claim], HeldExpiry::Suspect, LEASE).await.unwrap();
    assert_eq!(nonces(&swept[0]), [0, 1]);
    for hold in swept[0].as_ref().unwrap() {
        assert_eq!(hold.status, Suspect);
        assert!(hold.reason.is_some(), "it says why");
        assert_eq!(&read_hold(store, hold).await, hold);
    }
    assert_eq!(statuses(store, &holds).await, [Suspect, Suspect, Held, Consumed, Released]);
}

async fn a_hold_that_ran_out_is_released_where_callers_promise_not_to_send_late(bench: Bench) {
    use HoldStatus::{Consumed, Held, Released};
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let holds = five_holds(store, claim).await;
    let swept = store.expire(&[claim], HeldExpiry::Reclaim, LEASE).await.unwrap();
    assert_eq!(nonces(&swept[0]), [0, 1]);
    assert_eq!(statuses(store, &holds).await, [Released, Released, Held, Consumed, Released]);
}

async fn a_sweep_finds_nothing_twice(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    hold_at(store, claim, 0, RUN_OUT).await;
    let first = store.expire(&[claim], HeldExpiry::Suspect, LEASE).await.unwrap();
    assert_eq!(nonces(&first[0]), [0]);
    let second = store.expire(&[claim], HeldExpiry::Reclaim, LEASE).await.unwrap();
    assert_eq!(second, [Ok(vec![])], "what is suspect is not released by time");
    assert!(store.expire(&[], HeldExpiry::Suspect, LEASE).await.unwrap().is_empty());
}

async fn a_sweep_of_many_lanes_refuses_only_the_lost_one(bench: Bench) {
    let store = &*bench.store;
    let a = node("a");
    let [lost, one, two] = lanes();
    let mut claims = Vec::new();
    for lane in [lost, one, two] {
        let claim = claim_at(store, &a, lane, 5).await;
        hold_at(store, claim, 5, RUN_OUT).await;
        claims.push(claim);
    }
    store.release(&claims[..1]).await.unwrap();
    held(&*bench.second(), &node("b"), lost, LEASE).await;
    claims.reverse();
    let swept = store.expire(&claims, HeldExpiry::Suspect, LEASE).await.unwrap();
    assert_eq!(swept[0].as_ref().unwrap()[0].lane, two);
    assert_eq!(swept[1].as_ref().unwrap()[0].lane, one);
    assert!(matches!(swept[2], Err(Refusal::Fenced(_))), "{swept:?}");
    assert_eq!(view(store, lost).await.held, 1);
}

async fn the_chain_consumes_suspect_and_released_below_its_count(bench: Bench) {
    use HoldStatus::{Consumed, Held, Released};
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let mut holds = Vec::new();
    for nonce in 0..3 {
        holds.push(hold_at(store, claim, nonce, RUN_OUT).await);
    }
    store.expire(&[claim], HeldExpiry::Suspect, LEASE).await.unwrap()[0].as_ref().unwrap();
    for nonce in 3..7 {
        holds.push(hold_at(store, claim, nonce, HOLD).await);
    }
    for place in [1, 4, 5, 6] {
        give_back(store, &holds[place]).await;
    }
    // Suspect, Released, Suspect, Held, Released below 5; Released, Released at and above it.
    let settled = store.settle(&[(claim, 5)], LEASE).await.unwrap();
    assert_eq!(nonces(&settled[0]), [0, 1, 2, 4]);
    for hold in settled[0].as_ref().unwrap() {
        assert_eq!((hold.status, hold.tx_hash), (Consumed, None));
    }
    let expected = [Consumed, Consumed, Consumed, Held, Consumed, Released, Released];
    assert_eq!(statuses(store, &holds).await, expected);
    let again = store.settle(&[(claim, 5)], LEASE).await.unwrap();
    assert_eq!(again, [Ok(vec![])]);
}

async fn the_chains_count_is_kept_for_people(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 4).await;
    for latest in [9, 6] {
        store.settle(&[(claim, latest)], LEASE).await.unwrap()[0].as_ref().unwrap();
        let lane = view(store, lane(1)).await;
        assert_eq!((lane.last_chain_nonce, lane.next_nonce), (Some(latest), Some(4)));
    }
}

async fn settling_many_lanes_refuses_only_the_lost_one(bench: Bench) {
    let store = &*bench.store;
    let a = node("a");
    let [lost, kept] = lanes();
    let mut seen = Vec::new();
    for (lane, latest) in [(lost, 1), (kept, 1)] {
        let claim = claim_at(store, &a, lane, 0).await;
        give_back(store, &hold_at(store, claim, 0, HOLD).await).await;
        seen.push((claim, latest));
    }
    store.release(&[seen[0].0]).await.unwrap();
    held(&*bench.second(), &node("b"), lost, LEASE).await;
    let settled = store.settle(&seen, LEASE).await.unwrap();
    assert!(matches!(settled[0], Err(Refusal::Fenced(_))), "{settled:?}");
    assert_eq!(nonces(&settled[1]), [0]);
    assert_eq!(view(store, lost).await.gaps, [0]);
    assert_eq!(view(store, lost).await.last_chain_nonce, None);
}
