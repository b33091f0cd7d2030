//! Writes that wait for a takeover, and takeovers that wait for a write.
//!
//! One side is a connection of the test's own, which stops wherever the test wants it to. The
//! other side is the store, and the test sees it wait for the first one's lock before it goes on.

use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::json;
use stile_domain::{
    Elsewhere, HeldExpiry, HoldId, Lane, LaneEventKind, LaneOwner, Step, TxId, TxState,
};
use stile_store::{
    Acceptance, Acquisition, Claim, NewLaneEvent, NewTx, Realign, Refusal, Resumed, Store,
    Withdrawal,
};

use crate::common::{
    A_NODE, Bench, HOLD, LEASE, RUN_OUT, Raw, accept_one, acquire, bind, bind_new, bind_txs,
    binding, change, claim_at, fresh, give_back, hold_at, lane, new_tx, node, record, view,
    wait_until_blocked, waiting_binding,
};

/// A write of the holder's: what it asks for, and the refusal if it was refused.
type Write = fn(Arc<dyn Store>, Claim) -> BoxFuture<'static, Option<Refusal>>;

/// A transaction that waits on the lane.
const LEFT_WAITING: TxId = TxId(uuid::Uuid::from_u128(7));

/// Starts a write while another node has taken the lane over but not committed, and lets the
/// takeover commit once the write waits for it.
async fn write_into_a_takeover(write: Write) {
    let bench = Bench::postgres().await;
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    hold_at(store, claim, 0, RUN_OUT).await;
    give_back(store, &hold_at(store, claim, 1, HOLD).await).await;
    accept_one(store, NewTx { id: LEFT_WAITING, ..new_tx(lane(1)) }).await;

    let (other, observer) = (bench.raw().await, bench.raw().await);
    other.execute("BEGIN").await;
    take_over(&other, lane(1)).await;
    let after_takeover = other.dump().await;
    let waiting = tokio::spawn(write(Arc::clone(&bench.store), claim));
    wait_until_blocked(&observer, 1).await;
    assert!(!waiting.is_finished());
    other.execute("COMMIT").await;

    let refusal = waiting.await.unwrap();
    let Some(Refusal::Fenced(owner)) = refusal else { panic!("not fenced: {refusal:?}") };
    assert!(owner.token > claim.token());
    assert_eq!(observer.dump().await, after_takeover, "nothing was written");
}

async fn take_over(raw: &Raw, lane: Lane) {
    let takeover = format!(
        "UPDATE lane SET owner_node = 'b', owner_incarnation = gen_random_uuid(),
                         fencing_token = fencing_token + 1, acquired_at = clock_timestamp(),
                         expires_at = clock_timestamp() + interval '1 minute'
         WHERE {}",
        raw.of(lane)
    );
    raw.execute(&takeover).await;
}

#[tokio::test]
async fn hole_05_a_bind_that_waits_for_a_takeover_is_fenced() {
    write_into_a_takeover(|store, claim| {
        Box::pin(async move { bind(&*store, fresh(claim, 2, 2)).await.err() })
    })
    .await;
}

#[tokio::test]
async fn hole_05_a_reissue_that_waits_for_a_takeover_is_fenced() {
    write_into_a_takeover(|store, claim| {
        Box::pin(async move {
            let survey = store.survey(&[claim.lane()]).await.unwrap();
            let given_back = survey[0].released.clone();
            assert_eq!(given_back.len(), 1);
            bind(&*store, binding(claim, given_back, 2, 0)).await.err()
        })
    })
    .await;
}

#[tokio::test]
async fn hole_05_a_sweep_that_waits_for_a_takeover_is_fenced() {
    write_into_a_takeover(|store, claim| {
        Box::pin(async move {
            let answers = store.expire(&[claim], HeldExpiry::Suspect, LEASE).await.unwrap();
            answers.into_iter().find_map(Result::err)
        })
    })
    .await;
}

#[tokio::test]
async fn hole_05_a_settlement_that_waits_for_a_takeover_is_fenced() {
    write_into_a_takeover(|store, claim| {
        Box::pin(async move {
            let answers = store.settle(&[(claim, 9)], LEASE).await.unwrap();
            answers.into_iter().find_map(Result::err)
        })
    })
    .await;
}

#[tokio::test]
async fn hole_05_a_binding_of_transactions_that_waits_for_a_takeover_is_fenced() {
    write_into_a_takeover(|store, claim| {
        Box::pin(async move {
            bind_txs(&*store, bind_new(claim, 2, [new_tx(claim.lane())])).await.err()
        })
    })
    .await;
}

#[tokio::test]
async fn hole_05_a_record_that_waits_for_a_takeover_is_fenced() {
    write_into_a_takeover(|store, claim| {
        Box::pin(async move {
            let tx = store.txs(&[LEFT_WAITING]).await.unwrap().remove(0).unwrap();
            record(&*store, claim, vec![change(&tx, Step::Refused)]).await.err()
        })
    })
    .await;
}

#[tokio::test]
async fn hole_05_following_the_chain_that_waits_for_a_takeover_is_fenced() {
    write_into_a_takeover(|store, claim| {
        Box::pin(async move {
            let event = NewLaneEvent { kind: LaneEventKind::FollowedChain, data: json!({}) };
            let realign = Realign { from: 2, to: 9 };
            store.follow_chain(&claim, realign, &event, LEASE).await.unwrap().err()
        })
    })
    .await;
}

#[tokio::test]
async fn hole_05_owning_up_that_waits_for_a_takeover_is_fenced() {
    write_into_a_takeover(|store, claim| {
        Box::pin(async move { store.own_up(&claim, &[1], "a gap", LEASE).await.unwrap().err() })
    })
    .await;
}

#[tokio::test]
async fn hole_32_a_pause_that_waits_for_a_takeover_is_fenced() {
    write_into_a_takeover(|store, claim| {
        Box::pin(async move {
            let found = NewLaneEvent { kind: LaneEventKind::OutsideUse, data: json!({}) };
            store.pause_as_holder(&claim, &found, "outside use", LEASE).await.unwrap().err()
        })
    })
    .await;
}

/// What a change of owner writes, up to its commit.
async fn stop_lane(raw: &Raw, lane: Lane) {
    let signer = raw.bytes(lane.signer.as_slice());
    raw.execute("UPDATE rollout_version SET version = version + 1").await;
    let now = raw.now();
    let row = format!("({}, {signer}, 'stopped', {now})", lane.chain);
    raw.execute(&format!("INSERT INTO rollout_lane VALUES {row}")).await;
}

/// An acceptance that has begun while a lane changes hands waits for that, and sees it.
#[tokio::test]
async fn hole_33_an_acceptance_that_waits_for_a_change_of_owner_sees_it() {
    let bench = Bench::postgres().await;
    claim_at(&*bench.store, &node("a"), lane(1), 0).await;
    let (exporter, observer) = (bench.raw().await, bench.raw().await);
    exporter.execute("BEGIN").await;
    stop_lane(&exporter, lane(1)).await;
    let store = Arc::clone(&bench.store);
    let accepted =
        tokio::spawn(async move { store.accept(&A_NODE, &[new_tx(lane(1))]).await.unwrap() });
    wait_until_blocked(&observer, 1).await;
    exporter.execute("COMMIT").await;
    assert_eq!(accepted.await.unwrap(), [Acceptance::Elsewhere(Elsewhere::Stopped)]);
    assert_eq!(observer.value("SELECT count(*) FROM tx").await, "0");
}

/// The other way round: whoever stops a lane waits for the acceptances that have begun, and so sees all
/// of them afterwards.
#[tokio::test]
async fn hole_33_a_change_of_owner_waits_for_acceptances_that_have_begun() {
    let bench = Bench::postgres().await;
    claim_at(&*bench.store, &node("a"), lane(1), 0).await;
    let (acceptor, observer) = (bench.raw().await, bench.raw().await);
    let new = new_tx(lane(1));
    acceptor.execute("BEGIN").await;
    let (chain, signer) = (lane(1).chain.get().cast_signed(), lane(1).signer);
    let elsewhere = acceptor
        .client()
        .query(
            "SELECT * FROM stile_lanes_elsewhere($1, $2)",
            &[&[chain].as_slice(), &[signer.as_slice()].as_slice()],
        )
        .await
        .unwrap();
    assert!(elsewhere.is_empty(), "it is Stile's");
    let store = Arc::clone(&bench.store);
    let stopped = tokio::spawn(async move {
        let from = [None, Some(LaneOwner::Stile)];
        store.set_owner(&A_NODE, &[lane(1)], &from, LaneOwner::Stopped).await.unwrap();
        view(&*store, lane(1)).await.queued
    });
    wait_until_blocked(&observer, 1).await;
    let now = acceptor.now();
    acceptor
        .execute(&format!(
            "INSERT INTO tx (tx_id, tenant, chain_id, signer, request_hash, payload, finality, state,
                             sub_state, events, created_at, updated_at)
             VALUES ({}, '', {chain}, {}, sha256(''), '{{}}', '1', 'CREATED', 'PENDING', 1, {now}, {now})",
            acceptor.uuid(new.id.0),
            acceptor.bytes(signer.as_slice()),
        ))
        .await;
    acceptor.execute("COMMIT").await;
    assert_eq!(stopped.await.unwrap(), 1, "it is seen by whoever looks after the stop");
}

/// Acceptances do not wait for each other, nor for the lane's holder.
#[tokio::test]
async fn acceptances_of_a_lane_share_what_keeps_its_owner() {
    let bench = Bench::postgres().await;
    claim_at(&*bench.store, &node("a"), lane(1), 0).await;
    let (acceptor, holder) = (bench.raw().await, bench.raw().await);
    acceptor.execute("BEGIN; SELECT * FROM stile_lanes_elsewhere('{1}', '{}')").await;
    holder.execute("BEGIN; SELECT FROM lane FOR UPDATE").await;
    accept_one(&*bench.store, new_tx(lane(1))).await;
    acceptor.execute("COMMIT").await;
    holder.execute("COMMIT").await;
}

/// On SQLite whoever writes has the file alone.
#[tokio::test]
async fn hole_33_an_acceptance_that_waits_for_a_change_of_owner_sees_it_in_a_file_too() {
    let bench = Bench::sqlite().await;
    claim_at(&*bench.store, &node("a"), lane(1), 0).await;
    let exporter = bench.raw().await;
    exporter.execute("BEGIN IMMEDIATE").await;
    let store = Arc::clone(&bench.store);
    let accepted =
        tokio::spawn(async move { store.accept(&A_NODE, &[new_tx(lane(1))]).await.unwrap() });
    tokio::task::yield_now().await;
    stop_lane(&exporter, lane(1)).await;
    exporter.execute("COMMIT").await;
    assert_eq!(accepted.await.unwrap(), [Acceptance::Elsewhere(Elsewhere::Stopped)]);
    assert_eq!(exporter.value("SELECT count(*) FROM tx").await, "0");
}

/// The row of a transaction is locked by another session that has withdrawn it; a binding waits,
/// and then finds that it waits no longer.
#[tokio::test]
async fn a_binding_that_waits_for_a_withdrawal_is_refused() {
    let bench = Bench::postgres().await;
    let store = Arc::clone(&bench.store);
    let claim = claim_at(&*store, &node("a"), lane(1), 0).await;
    let tx = accept_one(&*store, new_tx(lane(1))).await;
    let (other, observer) = (bench.raw().await, bench.raw().await);
    other.execute("BEGIN").await;
    other
        .execute("UPDATE tx SET state = 'FAILED', sub_state = 'CANCELLED', events = events + 1")
        .await;
    let bound = tokio::spawn({
        let (store, binding) = (Arc::clone(&store), waiting_binding(claim, 0, [&tx]));
        async move { bind_txs(&*store, binding).await }
    });
    wait_until_blocked(&observer, 1).await;
    other.execute("COMMIT").await;
    assert_eq!(bound.await.unwrap(), Err(Refusal::RowLost));
    assert_eq!(view(&*store, lane(1)).await.next_nonce, Some(0), "no nonce was spent");
    let again = store.withdraw(&A_NODE, tx.id).await.unwrap();
    assert!(matches!(again, Withdrawal::Done(_)), "{again:?}");
}

/// The other way round: whoever withdraws waits for the binding, and comes too late.
#[tokio::test]
async fn a_withdrawal_that_waits_for_a_binding_is_too_late() {
    let bench = Bench::postgres().await;
    let store = Arc::clone(&bench.store);
    claim_at(&*store, &node("a"), lane(1), 0).await;
    let tx = accept_one(&*store, new_tx(lane(1))).await;
    let (other, observer) = (bench.raw().await, bench.raw().await);
    other.execute("BEGIN").await;
    other.execute("UPDATE tx SET state = 'ALLOCATED', nonce = 0, events = events + 1").await;
    let withdrawn = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.withdraw(&A_NODE, tx.id).await.unwrap() }
    });
    wait_until_blocked(&observer, 1).await;
    other.execute("COMMIT").await;
    let Withdrawal::TooLate(found) = withdrawn.await.unwrap() else { panic!("withdrawn") };
    assert_eq!((found.standing.state, found.nonce), (TxState::Allocated, Some(0)));
    assert_eq!(store.history(tx.id).await.unwrap().len(), 1);
}

/// A resumption reads the ledger behind the lane's lock: what a holder wrote while it waited counts.
#[tokio::test]
async fn a_resumption_that_waits_for_a_holder_sees_its_nonces() {
    let bench = Bench::postgres().await;
    let store = Arc::clone(&bench.store);
    claim_at(&*store, &node("a"), lane(1), 10).await;
    let (other, observer) = (bench.raw().await, bench.raw().await);
    other.execute("BEGIN; UPDATE lane SET updated_at = clock_timestamp()").await;
    let resumed = tokio::spawn({
        let store = Arc::clone(&store);
        async move {
            let realign = Some(Realign { from: 10, to: 5 });
            store.resume(&A_NODE, lane(1), realign, &json!({})).await.unwrap()
        }
    });
    wait_until_blocked(&observer, 1).await;
    other.plant(lane(1), 7, "hold", "RELEASED").await.unwrap();
    other.execute("COMMIT").await;
    assert_eq!(resumed.await.unwrap(), Resumed::Moved);
    assert_eq!(view(&*store, lane(1)).await.next_nonce, Some(10));
}

/// The write of a holder that comes to a halt before its commit: the fence that the store itself
/// uses, for a lease that is over at once, and one hold.
async fn stop_before_commit(
    raw: &Raw,
    claim: Claim,
    incarnation: uuid::Uuid,
    first: i64,
) -> HoldId {
    let hold = HoldId::fresh();
    let chain = claim.lane().chain.get().cast_signed();
    let signer = claim.lane().signer;
    let token = claim.token().get().cast_signed();
    let client = raw.client();
    client.batch_execute("BEGIN").await.unwrap();
    let passed = client
        .query(
            include_str!("../../src/postgres/sql/fence.sql"),
            &[
                &[chain].as_slice(),
                &[signer.as_slice()].as_slice(),
                &[incarnation].as_slice(),
                &[token].as_slice(),
                &[Some(first)].as_slice(),
                &[Some(1i64)].as_slice(),
                &RUN_OUT.as_secs_f64(),
            ],
        )
        .await
        .unwrap();
    assert_eq!(passed.len(), 1, "the fence lets its holder through");
    client
        .execute(
            include_str!("../../src/postgres/sql/insert_holds.sql"),
            &[
                &[chain].as_slice(),
                &[signer.as_slice()].as_slice(),
                &[first].as_slice(),
                &[hold.0].as_slice(),
                &[token].as_slice(),
                &passed[0].get::<_, jiff::Timestamp>("updated_at"),
                &HOLD.as_secs_f64(),
            ],
        )
        .await
        .unwrap();
    hold
}

#[tokio::test]
async fn hole_06_a_takeover_waits_for_the_old_holders_commit_and_sees_its_cursor() {
    let bench = Bench::postgres().await;
    let (a, b) = (node("a"), node("b"));
    let claim = claim_at(&*bench.store, &a, lane(1), 10).await;
    bench.store.renew(&[claim], RUN_OUT).await.unwrap();

    let (old_holder, observer) = (bench.raw().await, bench.raw().await);
    let written = stop_before_commit(&old_holder, claim, a.incarnation.0, 10).await;
    let second = bench.second();
    let taking = tokio::spawn({
        let (second, b) = (Arc::clone(&second), b.clone());
        async move { acquire(&*second, &b, lane(1), LEASE).await }
    });
    wait_until_blocked(&observer, 1).await;
    old_holder.execute("COMMIT").await;

    let Acquisition::Held(taken) = taking.await.unwrap() else { panic!("the lease had run out") };
    assert_eq!(taken.next_nonce, Some(11), "the cursor as the old holder left it");
    let stale_plan = bind(&*second, fresh(taken.claim, 10, 1)).await;
    assert_eq!(stale_plan, Err(Refusal::CursorMoved), "a plan from before the takeover");
    let next = bind(&*second, fresh(taken.claim, 11, 1)).await.unwrap();
    assert_eq!(next[0].nonce, 11);
    let owners = observer.rows("SELECT nonce, owner_id FROM nonce ORDER BY nonce").await;
    let expected = [["10".into(), written.to_string()], ["11".into(), next[0].id.to_string()]];
    assert_eq!(owners, expected);
}

#[tokio::test]
async fn hole_06_a_takeover_sees_nothing_of_a_write_that_was_rolled_back() {
    let bench = Bench::postgres().await;
    let a = node("a");
    let claim = claim_at(&*bench.store, &a, lane(1), 10).await;
    bench.store.renew(&[claim], RUN_OUT).await.unwrap();
    let (old_holder, observer) = (bench.raw().await, bench.raw().await);
    stop_before_commit(&old_holder, claim, a.incarnation.0, 10).await;
    let second = bench.second();
    let taking = tokio::spawn({
        let second = Arc::clone(&second);
        async move { acquire(&*second, &node("b"), lane(1), LEASE).await }
    });
    wait_until_blocked(&observer, 1).await;
    old_holder.execute("ROLLBACK").await;
    let Acquisition::Held(taken) = taking.await.unwrap() else { panic!("the lease had run out") };
    let next = bind(&*second, fresh(taken.claim, 10, 1)).await.unwrap();
    assert_eq!(next[0].nonce, 10);
}
