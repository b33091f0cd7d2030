//! A node's own lanes after a restart, and other nodes' expired ones.

use stile_domain::{HeldExpiry, Holder, Lane, Outcome, Step, Successor};
use stile_store::{HeaderUpdate, HeldLane, Refusal, Renewal, Store, Takeover};

use crate::common::{
    Bench, HOLD, LEASE, RUN_OUT, WINDOW, accept_one, acquire, bind, bind_new, bind_txs, claim_at,
    fresh, give_back, header, held, hold_at, lane, lanes, mark, new_tx, node, owner, steps,
    successor, used, view,
};

on_both_stores!(
    a_restarted_node_takes_its_own_lanes_expired_or_not,
    a_restarted_node_takes_its_own_lanes_only_once,
    the_earlier_incarnation_is_kept_out,
    expired_lanes_with_open_work_are_taken,
    every_open_status_is_open_work,
    expired_lanes_are_taken_up_to_the_limit,
    our_own_expired_lanes_are_not_taken_from_ourselves,
    two_nodes_share_the_expired_lanes,
    every_open_transaction_is_open_work,
    what_can_still_be_reopened_is_open_work,
    where_no_header_is_known_nothing_is_buried,
);

fn lanes_of(taken: &[HeldLane]) -> Vec<Lane> {
    let mut lanes: Vec<_> = taken.iter().map(|held| held.claim.lane()).collect();
    lanes.sort();
    lanes
}

/// A lane with a hold in somebody's hands and a lease that has run out.
async fn abandon(store: &dyn Store, holder: &Holder, lane: Lane) {
    let claim = claim_at(store, holder, lane, 0).await;
    bind(store, fresh(claim, 0, 1)).await.unwrap();
    store.release(&[claim]).await.unwrap();
}

async fn a_restarted_node_takes_its_own_lanes_expired_or_not(bench: Bench) {
    let [live, run_out, foreign, retaken] = lanes();
    let (a, b) = (node("a"), node("b"));
    let before = claim_at(&*bench.store, &a, live, 9).await;
    held(&*bench.store, &a, run_out, RUN_OUT).await;
    held(&*bench.store, &b, foreign, RUN_OUT).await;
    let again = Holder { url: Some("http://moved:7420".into()), ..successor(&a) };
    held(&*bench.store, &again, retaken, LEASE).await;

    let taken = bench.second().take_own(&again, LEASE).await.unwrap();
    assert_eq!(lanes_of(&taken), [live, run_out]);
    assert!(taken.iter().all(|held| held.takeover == Takeover::Taken));
    let first = taken.iter().find(|held| held.claim.lane() == live).unwrap();
    assert!(first.claim.token() > before.token());
    assert_eq!(first.next_nonce, Some(9));
    let owner = view(&*bench.store, live).await.owner;
    assert_eq!((owner.incarnation, owner.url), (again.incarnation, again.url));
    assert_eq!(view(&*bench.store, foreign).await.owner.node, b.node);
    assert_eq!(view(&*bench.store, retaken).await.owner.token.get(), 1);
}

async fn a_restarted_node_takes_its_own_lanes_only_once(bench: Bench) {
    let a = node("a");
    held(&*bench.store, &a, lane(1), LEASE).await;
    let again = successor(&a);
    assert_eq!(bench.store.take_own(&again, LEASE).await.unwrap().len(), 1);
    assert!(bench.store.take_own(&again, LEASE).await.unwrap().is_empty());
    assert_eq!(view(&*bench.store, lane(1)).await.owner.token.get(), 2);
}

async fn the_earlier_incarnation_is_kept_out(bench: Bench) {
    let a = node("a");
    let zombie = claim_at(&*bench.store, &a, lane(1), 0).await;
    let second = bench.second();
    second.take_own(&successor(&a), LEASE).await.unwrap();
    let refused = bind(&*bench.store, fresh(zombie, 0, 1)).await;
    assert!(matches!(refused, Err(Refusal::Fenced(_))), "{refused:?}");
    assert!(matches!(bench.store.renew(&[zombie], LEASE).await.unwrap()[..], [Renewal::Fenced(_)]));
    owner(acquire(&*bench.store, &a, lane(1), LEASE).await);
}

async fn expired_lanes_with_open_work_are_taken(bench: Bench) {
    let [abandoned, idle, done, live] = lanes();
    let a = node("a");
    abandon(&*bench.store, &a, abandoned).await;
    held(&*bench.store, &a, idle, RUN_OUT).await;
    let claim = claim_at(&*bench.store, &a, done, 0).await;
    mark(&*bench.store, used(&hold_at(&*bench.store, claim, 0, HOLD).await, 1)).await;
    bench.store.release(&[claim]).await.unwrap();
    let claim = claim_at(&*bench.store, &a, live, 0).await;
    hold_at(&*bench.store, claim, 0, HOLD).await;

    let b = node("b");
    let taken = bench.second().take_expired(&b, LEASE, 10, WINDOW).await.unwrap();
    assert_eq!(lanes_of(&taken), [abandoned]);
    assert_eq!(taken[0].claim.token().get(), 2);
    assert_eq!(taken[0].next_nonce, Some(1));
    assert_eq!(taken[0].takeover, Takeover::Taken);
    let owner = view(&*bench.store, abandoned).await.owner;
    assert_eq!((owner.node, owner.incarnation, owner.url), (b.node, b.incarnation, b.url));
    assert!(owner.remaining > LEASE / 2);
}

async fn every_open_status_is_open_work(bench: Bench) {
    let [held_lane, released_lane, suspect_lane] = lanes();
    let (store, a) = (&*bench.store, node("a"));
    for lane in [held_lane, released_lane, suspect_lane] {
        let claim = claim_at(store, &a, lane, 0).await;
        let hold = hold_at(store, claim, 0, RUN_OUT).await;
        if lane == released_lane {
            give_back(store, &hold).await;
        } else if lane == suspect_lane {
            let swept = store.expire(&[claim], HeldExpiry::Suspect, LEASE).await.unwrap();
            assert_eq!(swept[0].as_ref().unwrap().len(), 1);
        }
        store.release(&[claim]).await.unwrap();
    }
    let taken = bench.second().take_expired(&node("b"), LEASE, 10, WINDOW).await.unwrap();
    assert_eq!(lanes_of(&taken), [held_lane, released_lane, suspect_lane]);
}

async fn expired_lanes_are_taken_up_to_the_limit(bench: Bench) {
    let a = node("a");
    for number in 0..5 {
        abandon(&*bench.store, &a, lane(number)).await;
    }
    let b = node("b");
    let store = bench.second();
    assert_eq!(store.take_expired(&b, LEASE, 2, WINDOW).await.unwrap().len(), 2);
    assert_eq!(store.take_expired(&b, LEASE, 2, WINDOW).await.unwrap().len(), 2);
    assert_eq!(store.take_expired(&b, LEASE, 2, WINDOW).await.unwrap().len(), 1);
    assert!(store.take_expired(&b, LEASE, 2, WINDOW).await.unwrap().is_empty());
}

async fn our_own_expired_lanes_are_not_taken_from_ourselves(bench: Bench) {
    let a = node("a");
    abandon(&*bench.store, &a, lane(1)).await;
    assert!(bench.store.take_expired(&a, LEASE, 10, WINDOW).await.unwrap().is_empty());
    assert_eq!(view(&*bench.store, lane(1)).await.owner.token.get(), 1);
}

async fn two_nodes_share_the_expired_lanes(bench: Bench) {
    let a = node("a");
    for number in 0..20 {
        abandon(&*bench.store, &a, lane(number)).await;
    }
    let (one, other) = (bench.second(), bench.second());
    let (b, c) = (node("b"), node("c"));
    let mut taken = Vec::new();
    for _ in 0..4 {
        let (by_one, by_other) = tokio::join!(
            one.take_expired(&b, LEASE, 4, WINDOW),
            other.take_expired(&c, LEASE, 4, WINDOW)
        );
        taken.extend(by_one.unwrap());
        taken.extend(by_other.unwrap());
    }
    let expected: Vec<_> = (0..20).map(lane).collect();
    assert_eq!(lanes_of(&taken), expected, "each lane once");
    assert!(taken.iter().all(|held| held.claim.token().get() == 2));
}

/// A lane that was released with one transaction, which has come so far.
async fn leave_behind(store: &dyn Store, lane: Lane, steps_taken: &[Step]) {
    let claim = claim_at(store, &node("a"), lane, 0).await;
    let tx = bind_txs(store, bind_new(claim, 0, [new_tx(lane)])).await.unwrap().remove(0);
    steps(store, claim, &tx, steps_taken).await;
    store.release(&[claim]).await.unwrap();
}

async fn every_open_transaction_is_open_work(bench: Bench) {
    let [waiting, allocated, submitted, tracking, done, failed] = lanes();
    let store = &*bench.store;
    let mined = Step::Mined(Outcome::Success);
    for (lane, steps) in [
        (allocated, &[][..]),
        (submitted, &[Step::Sent]),
        (tracking, &[Step::Sent, mined]),
        (done, &[Step::Sent, mined, Step::Final]),
        (failed, &[Step::Superseded(Successor::Outsider)]),
    ] {
        leave_behind(store, lane, steps).await;
    }
    let claim = claim_at(store, &node("a"), waiting, 0).await;
    accept_one(store, new_tx(waiting)).await;
    store.release(&[claim]).await.unwrap();
    head_at(store, 10 + u64::from(WINDOW)).await;
    let taken = bench.second().take_expired(&node("b"), LEASE, 10, WINDOW).await.unwrap();
    assert_eq!(lanes_of(&taken), [waiting, allocated, submitted, tracking]);
}

/// Writes that the chain has come so far.
async fn head_at(store: &dyn Store, height: u64) {
    let canonical = vec![header(1, height)];
    let update = HeaderUpdate { chain: lane(1).chain, canonical, replaced: vec![], keep_from: 0 };
    store.save_headers(&update).await.unwrap();
}

async fn what_can_still_be_reopened_is_open_work(bench: Bench) {
    let store = &*bench.store;
    // Mined at height 10.
    leave_behind(store, lane(1), &[Step::Mined(Outcome::Success), Step::Final]).await;
    let second = bench.second();
    head_at(store, 10 + u64::from(WINDOW)).await;
    // A header that is canonical no longer says nothing about how far the chain has come.
    let replaced = vec![header(2, 500)];
    let update = HeaderUpdate { chain: lane(1).chain, canonical: vec![], replaced, keep_from: 0 };
    store.save_headers(&update).await.unwrap();
    let b = node("b");
    assert!(second.take_expired(&b, LEASE, 10, WINDOW).await.unwrap().is_empty(), "buried");
    let taken = second.take_expired(&b, LEASE, 10, WINDOW + 1).await.unwrap();
    assert_eq!(lanes_of(&taken), [lane(1)]);
}

async fn where_no_header_is_known_nothing_is_buried(bench: Bench) {
    leave_behind(&*bench.store, lane(1), &[Step::Mined(Outcome::Success), Step::Final]).await;
    let taken = bench.second().take_expired(&node("b"), LEASE, 10, WINDOW).await.unwrap();
    assert_eq!(lanes_of(&taken), [lane(1)]);
}

/// However long the history, what is looked at to find open work is what is open, and the top of
/// what is done.
#[tokio::test]
async fn a_long_history_is_not_read_to_find_expired_lanes() {
    let bench = Bench::postgres().await;
    leave_behind(&*bench.store, lane(1), &[Step::Mined(Outcome::Success), Step::Final]).await;
    let raw = bench.raw().await;
    raw.execute(
        "INSERT INTO tx (tx_id, tenant, chain_id, signer, request_hash, payload, finality, nonce, state,
                         outcome, receipt, block_number, block_hash, events, created_at, updated_at)
         SELECT gen_random_uuid(), tenant, chain_id, signer, request_hash, payload, finality, number, state,
                outcome, receipt, block_number, block_hash, events, created_at, updated_at
         FROM tx, generate_series(1, 20000) AS number",
    )
    .await;
    head_at(&*bench.store, 10 + u64::from(WINDOW)).await;
    let due = include_str!("../../src/postgres/sql/due_lanes.sql").replace("$1", "128");
    let take = include_str!("../../src/postgres/sql/take_expired.sql")
        .replace("$2", "10")
        .replace("$3", "'b'")
        .replace("$4", "gen_random_uuid()")
        .replace("$5", "NULL")
        .replace("$6", "60");
    let look = include_str!("../../src/postgres/sql/expired_lanes.sql").replace("$2", "10");
    raw.execute("SET enable_seqscan = off").await;
    for analyzed in [false, true] {
        if analyzed {
            raw.execute("ANALYZE").await;
        }
        // The look first: the other one takes the lane.
        for sql in [&look, &take] {
            let plan =
                raw.rows(&format!("EXPLAIN (ANALYZE, TIMING off) {due}{sql}")).await.concat();
            let plan = plan.join("\n");
            for index in ["tx_waiting", "tx_open", "tx_done"] {
                assert!(plan.contains(index), "{plan}");
            }
            let others = ["Seq Scan on tx", "tx_pkey", "tx_of_lane", "tx_of_tenant", "tx_request"];
            assert!(others.iter().all(|other| !plan.contains(other)), "{plan}");
        }
    }
}
