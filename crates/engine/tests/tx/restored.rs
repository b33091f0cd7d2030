//! Lanes of a database that has lost commits.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;
use stile_domain::{
    EstimatePolicy, Finality, Holder, Incarnation, LaneEventKind, NodeId, Payload, Step, SubState,
    TxId, TxState, request_hash,
};
use stile_engine::{RestoreError, Settings, TxSettings, Verdict, Word};
use stile_store::{Acquisition, Claim, LaneChanges, NewEvent, NewTx, Store, Tx, TxChange};
use testkit::{Anvil, RpcProxy, eventually};
use uuid::Uuid;

use crate::common::{Bench, QUEUE, Spy, on, on_both_stores};
use crate::setup::{
    chain, get, history, kinds, lane, mined, send, settings, start, start_on, transfer, until,
};

on_both_stores!(
    hole_20_a_fence_does_not_fail_what_the_chain_has,
    hole_20_what_was_executed_already_is_not_refused_for_its_estimate,
);

const LEASE: Duration = Duration::from_secs(30);

/// The lane as a node left it that is gone: its first nonce was never given out.
async fn left(store: &dyn Store) -> Claim {
    let holder =
        Holder { node: NodeId("gone".into()), incarnation: Incarnation::fresh(), url: None };
    let held = store.acquire(&holder, &[lane(0)], LEASE).await.unwrap().pop();
    let Some(Acquisition::Held(held)) = held else { panic!("{held:?}") };
    store.start_cursor(&holder.node, &held.claim, 0.into(), LEASE).await.unwrap().unwrap();
    held.claim
}

async fn accept(store: &dyn Store, payload: Payload) -> Tx {
    let new = NewTx {
        id: TxId(Uuid::now_v7()),
        tenant: String::new(),
        lane: lane(0),
        request_id: None,
        request_hash: request_hash(&payload, None),
        gas_limit: payload.gas_limit,
        payload,
        finality: Finality::Confirmations(1),
        replaces: None,
    };
    let id = new.id;
    store.accept(&NodeId("gone".into()), &[new]).await.unwrap();
    store.txs(&[id]).await.unwrap().pop().flatten().unwrap()
}

/// An older copy was put back, and its holder is gone.
async fn restore(store: &dyn Store, claim: Claim) {
    store.set_unaligned(&claim, LEASE).await.unwrap().unwrap();
    store.release(&[claim]).await.unwrap();
}

/// What the lost history sent.
async fn sent_before(anvil: &Anvil, payload: &Payload) -> String {
    let transaction = json!({
        "from": lane(0).signer, "to": payload.to, "value": payload.value, "nonce": "0x0", "gas": "0x5208",
    });
    let hash = anvil.rpc("eth_sendTransaction", json!([transaction])).await;
    hash.as_str().unwrap().to_owned()
}

async fn until_restored(node: &stile_engine::Node, id: TxId) -> Tx {
    eventually("it to wait for a word", async || {
        let tx = get(node, id).await;
        (tx.standing.sub_state == Some(SubState::Restored)).then_some(tx)
    })
    .await
}

/// A person says of a transaction that it was sent, the chain has it, and the lane's token rises before
/// it can be written down.
///
/// Fails if what the fence refuses is taken for what somebody else was first with.
async fn hole_20_a_fence_does_not_fail_what_the_chain_has(bench: Bench) {
    let anvil = chain(true).await;
    let claim = left(&*bench.store).await;
    let tx = accept(&*bench.store, transfer(0, "").payload).await;
    restore(&*bench.store, claim).await;
    let hash = sent_before(&anvil, &tx.payload).await;
    let spy = Spy::on(bench.database.open());
    spy.fences_recoveries.store(true, Ordering::SeqCst);
    let node = start_on(spy.clone(), settings(&bench, "a"), &[anvil.url()]).await;
    eventually("it to be found", async || (spy.calls("recover") > 0).then_some(())).await;
    let word = Word { verdict: Verdict::WasSent, restored_at: None, force: false, by: "ann" };
    let answer = node.lanes().settle_restored_tx(tx.id, word).await;
    assert!(matches!(answer, Err(RestoreError::HeldElsewhere)), "{answer:?}");
    let answer = node.lanes().settle_restored(lane(0), word).await;
    assert!(matches!(answer, Err(RestoreError::HeldElsewhere)), "{answer:?}");
    assert_eq!(get(&node, tx.id).await.standing.state, TxState::Created);
    spy.fences_recoveries.store(false, Ordering::SeqCst);
    let tx = mined(&node, tx.id).await;
    assert_eq!((tx.nonce, tx.tx_hash.map(|it| it.to_string())), (Some(0), Some(hash)));
    node.shutdown().await;
}

/// Payments that were made in the lost history, and would be reverted if they were made again: so says
/// the chain, and it is asked as soon as a node starts.
///
/// Fails if one of them is refused before it is known what was sent.
async fn hole_20_what_was_executed_already_is_not_refused_for_its_estimate(bench: Bench) {
    let anvil = chain(true).await;
    let proxy = RpcProxy::start(anvil.url()).await;
    proxy.fail("eth_estimateGas", 3, "execution reverted: paid already");
    let store = &*bench.store;
    let claim = left(store).await;
    let payload = Payload { gas_limit: None, ..transfer(0, "").payload };
    let waits = accept(store, payload.clone()).await;
    let aside = accept(store, payload.clone()).await;
    let standing = aside.standing.after(Step::NotEstimated).unwrap();
    let mut change = TxChange::new(aside.id, aside.events, standing);
    let kind = aside.standing.kind_of(Step::NotEstimated);
    change.event = Some(NewEvent { kind, data: json!({}) });
    let part = LaneChanges { claim, changes: vec![change] };
    store.record(&NodeId("gone".into()), &[part], LEASE).await.unwrap().remove(0).unwrap();
    restore(store, claim).await;
    sent_before(&anvil, &payload).await;
    let node = start(&bench, settings(&bench, "a"), &[&proxy.url()]).await;
    mined(&node, waits.id).await;
    until_restored(&node, aside.id).await;
    let kinds = kinds(&history(&node, aside.id).await);
    assert_eq!(kinds, ["ACCEPTED", "NOT_ESTIMATED", "RESTORED"]);
    node.shutdown().await;
}

/// A failover loses a refusal, and the node that made it lives on.
///
/// Fails if the node does not remember it, and sends what its caller was told had failed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hole_20_what_was_refused_is_not_sent_after_a_failover() {
    let bench = Bench::postgres(QUEUE).await;
    let anvil = chain(true).await;
    let proxy = RpcProxy::start(anvil.url()).await;
    let usual = settings(&bench, "a");
    let estimate = EstimatePolicy { tries: 1, ..EstimatePolicy::default() };
    let short = Settings { tx: TxSettings { estimate, ..usual.tx.clone() }, ..usual };
    let node = start(&bench, short, &[&proxy.url()]).await;
    let first = send(&node, transfer(0, "first")).await;
    mined(&node, first.id).await;
    proxy.fail("eth_estimateGas", -32005, "no estimates today");
    let mut request = transfer(0, "refused");
    request.payload.gas_limit = None;
    let refused = send(&node, request).await;
    until(&node, refused.id, TxState::Failed).await;
    proxy.heal().await;
    // As a standby would have it that had not heard of the refusal.
    let sql = format!(
        "BEGIN;
         UPDATE tx SET state = 'CREATED', sub_state = 'PENDING', error = NULL
         WHERE tx_id = '{0}';
         UPDATE lane SET timeline = overlay(stile_timeline() placing '000000FF' from 1);
         COMMIT;",
        refused.id
    );
    bench.database.execute(&sql).await;
    send(&node, transfer(0, "next")).await;
    let realigned = eventually("the lane to be realigned", async || {
        let told = bench.store.lane_history(lane(0), None, 100).await.unwrap();
        told.into_iter().find(|entry| entry.kind == LaneEventKind::Realigned)
    })
    .await;
    assert_eq!(realigned.data["restored"], true, "{realigned:?}");
    let why = realigned.data["notCovered"].as_str().unwrap();
    assert!(why.contains(&refused.id.to_string()), "{why}");
    until_restored(&node, refused.id).await;
    node.shutdown().await;
}
