//! Writes of a holder that is none any more.

use serde_json::json;
use stile_domain::{
    HeldExpiry, Hold, HoldStatus, Holder, LaneEventKind, NodeMode, Remembered, Step, Successor,
};
use stile_store::{
    Bindable, Claim, MarkOutcome, NewLaneEvent, NodeRecord, Realign, Refusal, Renewal, Set, Store,
    Tx,
};

use crate::common::{
    A_NODE, Bench, HOLD, LEASE, RUN_OUT, WINDOW, accept_one, acquire, attempt, bind, bind_new,
    bind_txs, binding, change, claim_at, fresh, give_back, held, hold_at, lane, mark, new_tx, node,
    owner, read_hold, record, recyclable, reissue, released, rival, successor, tx_binding, used,
    view,
};

/// A holder's three lanes: one with a hold that ran out, a released nonce, a bound transaction and
/// one that waits; one not aligned with its chain yet; one with nonces that nobody has. Each fenced operation would find something
/// to change.
struct Stale {
    worked: Claim,
    new: Claim,
    jumped: Claim,
    released: Hold,
    bound: Tx,
    waiting: Tx,
}

async fn lanes_of(store: &dyn Store, holder: &Holder) -> Stale {
    let worked = claim_at(store, holder, lane(1), 0).await;
    hold_at(store, worked, 0, RUN_OUT).await;
    let hold = hold_at(store, worked, 1, HOLD).await;
    let released = give_back(store, &hold).await;
    let bound = bind_txs(store, bind_new(worked, 2, [new_tx(lane(1))])).await.unwrap().remove(0);
    let waiting = accept_one(store, new_tx(lane(1))).await;
    let new = held(store, holder, lane(2), LEASE).await.claim;
    let jumped = claim_at(store, holder, lane(3), 5).await;
    Stale { worked, new, jumped, released, bound, waiting }
}

fn is_fenced<T: std::fmt::Debug>(answer: Result<T, Refusal>) -> bool {
    matches!(answer, Err(Refusal::Fenced(_)))
}

/// Tries every fenced operation there is, and asserts that each one is refused.
async fn try_everything(store: &dyn Store, stale: &Stale) {
    let Stale { worked, new, jumped, released: given_back, bound, waiting } = stale;
    let (worked, new, jumped) = (*worked, *new, *jumped);
    let one = std::slice::from_ref(given_back);
    assert!(is_fenced(bind(store, fresh(worked, 3, 1)).await), "bind fresh");
    assert!(is_fenced(bind(store, reissue(worked, 3, one)).await), "bind reissued");
    let mixed = binding(worked, vec![released(given_back)], 3, 3);
    assert!(is_fenced(bind(store, mixed).await), "bind both");
    let ours = [Bindable::Waiting(waiting.id), Bindable::New(Box::new(new_tx(lane(1))))];
    let fresh_nonces = tx_binding(worked, Vec::new(), 3, ours.clone());
    assert!(is_fenced(bind_txs(store, fresh_nonces).await), "bind transactions");
    let both = tx_binding(worked, vec![released(given_back)], 3, ours);
    assert!(is_fenced(bind_txs(store, both).await), "bind transactions at released nonces");
    let changes = vec![change(bound, Step::Sent), change(waiting, Step::Refused)];
    assert!(is_fenced(record(store, worked, changes).await), "record");
    let mut bumped = change(bound, Step::Bumped);
    bumped.attempt = Some(attempt());
    assert!(is_fenced(record(store, worked, vec![bumped]).await), "record an attempt");
    let mut lost = change(bound, Step::Superseded(Successor::Outsider));
    lost.rival = Set::To(rival(Successor::Outsider, 9));
    lost.successor = Some(Box::new(new_tx(lane(1))));
    assert!(is_fenced(record(store, worked, vec![lost]).await), "record a successor");
    let event = NewLaneEvent { kind: LaneEventKind::FollowedChain, data: json!({}) };
    let realign = Realign { from: 3, to: 5 };
    let followed = store.follow_chain(&worked, realign, &event, LEASE).await.unwrap();
    assert!(is_fenced(followed), "follow the chain");
    let owned_up = store.own_up(&jumped, &[1, 2], "a gap", LEASE).await.unwrap();
    assert!(is_fenced(owned_up), "own up");
    let started = store.start_cursor(&A_NODE, &new, 7.into(), LEASE).await.unwrap();
    assert!(is_fenced(started), "start the cursor");
    let remembered = Remembered { used: Some(9), given_out: 9, token: 9, ..Remembered::default() };
    let realigned = store.realign(&A_NODE, &worked, &remembered, &json!({}), LEASE).await.unwrap();
    assert!(is_fenced(realigned), "realign");
    for policy in [HeldExpiry::Suspect, HeldExpiry::Reclaim] {
        for answer in store.expire(&[worked, new], policy, LEASE).await.unwrap() {
            assert!(is_fenced(answer), "expire");
        }
    }
    for answer in store.settle(&[(worked, 9), (new, 9)], LEASE).await.unwrap() {
        assert!(is_fenced(answer), "settle");
    }
    for answer in store.renew(&[worked, new], LEASE).await.unwrap() {
        assert!(matches!(answer, Renewal::Fenced(_)), "renew");
    }
    assert_eq!(store.release(&[worked, new]).await.unwrap(), [false, false], "release");
    let elsewhere = node("elsewhere");
    let (mode, serves) = (NodeMode::WorkerQueue, "all".into());
    let record = NodeRecord { holder: elsewhere.clone(), mode, serves, draining: false };
    store.heartbeat(&record, true).await.unwrap().unwrap();
    for claim in [&worked, &new] {
        assert!(!store.hand_over(claim, &elsewhere).await.unwrap(), "hand over");
    }
}

async fn a_stale_holder_changes_nothing(bench: Bench) {
    let store = &*bench.store;
    let a = node("a");
    let stale = lanes_of(store, &a).await;
    store.renew(&[stale.worked, stale.new, stale.jumped], RUN_OUT).await.unwrap();
    let (second, b) = (bench.second(), node("b"));
    let mut taken = Vec::new();
    for lane in [lane(1), lane(2), lane(3)] {
        taken.push(held(&*second, &b, lane, LEASE).await.claim);
    }
    let before = bench.raw().await.dump().await;
    try_everything(store, &stale).await;
    assert_eq!(bench.raw().await.dump().await, before);

    // Lost and won back: what was claimed before is stale even in the same process.
    second.release(&taken).await.unwrap();
    for lane in [lane(1), lane(2), lane(3)] {
        held(store, &a, lane, LEASE).await;
    }
    let before = bench.raw().await.dump().await;
    try_everything(store, &stale).await;
    assert_eq!(bench.raw().await.dump().await, before);
}

#[tokio::test]
async fn hole_02_stale_holder_tries_every_fenced_operation() {
    a_stale_holder_changes_nothing(Bench::postgres().await).await;
}

#[tokio::test]
async fn hole_02_stale_holder_tries_every_fenced_operation_on_sqlite() {
    a_stale_holder_changes_nothing(Bench::sqlite().await).await;
}

#[tokio::test]
async fn hole_03_a_release_does_not_undo_a_use() {
    let bench = Bench::postgres().await;
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let hold = hold_at(store, claim, 0, HOLD).await;
    mark(store, used(&hold, 7)).await;
    let consumed = read_hold(store, &hold).await;
    let before = bench.raw().await.dump().await;

    let late = mark(&*bench.second(), recyclable(&hold, "timed out")).await;
    assert_eq!(late, MarkOutcome::Conflict(consumed));
    assert!(store.survey(&[lane(1)]).await.unwrap().is_empty(), "nothing to give out again");
    let again = bind(store, reissue(claim, 1, std::slice::from_ref(&hold))).await;
    assert_eq!(again, Err(Refusal::RowLost));
    assert_eq!(bench.raw().await.dump().await, before);
}

#[tokio::test]
async fn hole_03_the_holder_before_does_not_touch_a_reissued_nonce() {
    let bench = Bench::postgres().await;
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let old = hold_at(store, claim, 0, HOLD).await;
    give_back(store, &old).await;
    let new = bind(store, reissue(claim, 1, std::slice::from_ref(&old))).await.unwrap().remove(0);
    mark(store, used(&new, 7)).await;
    let before = bench.raw().await.dump().await;

    mark(store, recyclable(&old, "again")).await;
    let late = mark(store, used(&old, 8)).await;
    assert!(matches!(late, MarkOutcome::Superseded(_)), "{late:?}");
    for hold in [&old, &new] {
        let again = bind(store, reissue(claim, 1, std::slice::from_ref(hold))).await;
        assert_eq!(again, Err(Refusal::RowLost));
    }
    assert_eq!(bench.raw().await.dump().await, before);
    assert_eq!(read_hold(store, &new).await.status, HoldStatus::Consumed);
}

#[tokio::test]
async fn hole_04_a_release_keeps_the_row_and_the_token_rises_at_the_next_holder() {
    let bench = Bench::postgres().await;
    let mut tokens = Vec::new();
    for name in ["a", "b", "a", "c"] {
        let taken = held(&*bench.store, &node(name), lane(1), LEASE).await;
        tokens.push(taken.claim.token().get());
        assert_eq!(bench.store.release(&[taken.claim]).await.unwrap(), [true]);
    }
    assert_eq!(tokens, [1, 2, 3, 4]);
    let deleted = bench.raw().await.attempt("DELETE FROM lane").await;
    assert!(deleted.unwrap_err().contains("a lane row is never deleted"));
    assert_eq!(view(&*bench.store, lane(1)).await.owner.token.get(), 4);
}

#[tokio::test]
async fn hole_09_a_restarted_node_shares_nothing_with_its_zombie() {
    let bench = Bench::postgres().await;
    let zombie_store = &*bench.store;
    let zombie = node("a");
    let stale = lanes_of(zombie_store, &zombie).await;

    let (restarted_store, restarted) = (bench.second(), successor(&zombie));
    let taken = restarted_store.take_own(&restarted, LEASE).await.unwrap();
    assert_eq!(taken.len(), 3, "unexpired lanes of one's own are taken at start");
    let claims = [stale.worked, stale.new, stale.jumped];
    for claim in claims {
        let now = taken.iter().find(|held| held.claim.lane() == claim.lane()).unwrap();
        assert!(now.claim.token() > claim.token());
    }

    let before = bench.raw().await.dump().await;
    try_everything(zombie_store, &stale).await;
    for lane in [lane(1), lane(2)] {
        let owner = owner(acquire(zombie_store, &zombie, lane, LEASE).await);
        assert_eq!(owner.incarnation, restarted.incarnation, "the node id proves nothing");
    }
    assert!(zombie_store.take_expired(&zombie, LEASE, 10, WINDOW).await.unwrap().is_empty());
    assert_eq!(bench.raw().await.dump().await, before);

    // Once the lease has run out the zombie may have the lane like anybody else.
    let claims: Vec<_> = taken.iter().map(|held| held.claim).collect();
    restarted_store.renew(&claims, RUN_OUT).await.unwrap();
    let back = held(zombie_store, &zombie, lane(1), LEASE).await.claim;
    assert!(back.token() > claims[0].token());
}
