//! What a node takes for somebody else's use of its keys, and is not.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};
use stile_domain::{HoldStatus, Holder, Incarnation, Lane, LaneEventKind, NodeId, TxState};
use stile_engine::{Settings, TxSettings};
use stile_store::{Acquisition, LaneEvent, LaneView, LedgerOwner};
use testkit::{Anvil, eventually, eventually_within};
use uuid::Uuid;

use crate::common::{Bench, QUEUE, Spy, lease, on, on_both_stores};
use crate::setup::{
    LONG, chain, get, lane, mined, send, settings, start, start_on, transfer, until,
};

on_both_stores!(
    hole_13_a_nonce_that_an_outsider_used_in_a_block_that_is_gone_is_filled,
    hole_32_a_node_that_slept_does_not_pause_the_lane_of_another
);

/// Somebody with the same key sends a transaction that pays more.
async fn outsider(anvil: &Anvil, lane: Lane) -> String {
    let transaction = json!({
        "from": lane.signer, "to": lane.signer, "value": "0x7", "nonce": "0x0", "gas": "0x5208",
        "maxFeePerGas": "0x2540be40000", "maxPriorityFeePerGas": "0x2540be400",
    });
    let hash: Value = anvil.rpc("eth_sendTransaction", json!([transaction])).await;
    hash.as_str().unwrap().to_owned()
}

async fn view(bench: &Bench, lane: Lane) -> LaneView {
    bench.store.lanes(&[lane]).await.unwrap().pop().flatten().unwrap()
}

async fn told(bench: &Bench, lane: Lane) -> Vec<LaneEventKind> {
    let history: Vec<LaneEvent> = bench.store.lane_history(lane, None, 100).await.unwrap();
    history.into_iter().map(|event| event.kind).collect()
}

/// A caller gives a nonce back, somebody else uses it, and the block with it is gone. Nobody has the
/// nonce then, and what waits behind it waits for ever unless it is filled.
///
/// Fails if a nonce stays with whoever used it.
async fn hole_13_a_nonce_that_an_outsider_used_in_a_block_that_is_gone_is_filled(bench: Bench) {
    let anvil = chain(false).await;
    let node = start(&bench, settings(&bench, "a"), &[anvil.url()]).await;
    let hold = node.nonces().allocate(lane(0)).await.unwrap();
    node.nonces().mark_recyclable(&hold, "not needed after all").await.unwrap();
    outsider(&anvil, lane(0)).await;
    anvil.mine(1).await;
    let owner = async || bench.store.nonce_owners(lane(0), 0, 1).await.unwrap().pop().unwrap();
    eventually_within(LONG, "the nonce to be used", async || match owner().await.owner {
        LedgerOwner::Hold(hold) => (hold.status == HoldStatus::Consumed).then_some(()),
        LedgerOwner::Tx(..) => None,
    })
    .await;
    let above = send(&node, transfer(0, "above")).await;
    let above = until(&node, above.id, TxState::Submitted).await;
    assert_eq!(above.nonce, Some(1));
    anvil.reorg(1, &[]).await;
    eventually_within(LONG, "the gap to be closed", async || {
        anvil.mine(1).await;
        get(&node, above.id).await.receipt
    })
    .await;
    assert!(matches!(owner().await.owner, LedgerOwner::Tx(id, _) if id != above.id));
    assert_eq!(view(&bench, lane(0)).await.paused, None);
    node.shutdown().await;
}

/// A node finds that a nonce was used by somebody else, and falls asleep before it has said so. When it
/// wakes up the lane is another node's.
///
/// Fails if its pause is not held against the lane's row.
async fn hole_32_a_node_that_slept_does_not_pause_the_lane_of_another(bench: Bench) {
    let anvil = chain(false).await;
    let spy = Spy::on(bench.database.open());
    let short = Settings { lease: lease(1000), ..settings(&bench, "a") };
    let a = start_on(spy.clone(), short, &[anvil.url()]).await;
    let tx = send(&a, transfer(0, "one")).await;
    until(&a, tx.id, TxState::Submitted).await;
    spy.pauses.close();
    outsider(&anvil, tx.lane).await;
    anvil.mine(1).await;
    eventually("a to pause the lane", async || (spy.calls("pause") > 0).then_some(())).await;

    spy.away.store(true, Ordering::SeqCst);
    let b =
        Holder { node: NodeId("b".into()), incarnation: Incarnation(Uuid::now_v7()), url: None };
    eventually("b to have the lane", async || {
        let answer = bench.store.acquire(&b, &[tx.lane], Duration::from_secs(600)).await.unwrap();
        matches!(answer[..], [Acquisition::Held(_)]).then_some(())
    })
    .await;
    let before = told(&bench, tx.lane).await;
    spy.pauses.open();
    eventually("a to have its answer", async || (spy.calls("pause answered") > 0).then_some(()))
        .await;
    let lane = view(&bench, tx.lane).await;
    assert_eq!((lane.paused, lane.owner.node), (None, b.node));
    assert_eq!(told(&bench, tx.lane).await, before, "nor is anything told");
    spy.away.store(false, Ordering::SeqCst);
    drop(a);
}

/// An attempt that this node does not know, since another one made it, is mined. No receipt is found for
/// those that it knows, and the account's count has passed their nonce.
///
/// Fails if memory is asked and not the store.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hole_32_what_another_node_signed_is_not_somebody_elses() {
    let bench = Bench::postgres(QUEUE).await;
    let anvil = chain(false).await;
    let quick = settings(&bench, "a");
    let quick = Settings {
        tx: TxSettings { stale_receipt: Duration::from_millis(200), ..quick.tx.clone() },
        ..quick
    };
    let a = start(&bench, quick, &[anvil.url()]).await;
    let tx = send(&a, transfer(0, "one")).await;
    until(&a, tx.id, TxState::Submitted).await;
    let hash = outsider(&anvil, tx.lane).await;
    let raw = anvil.raw_transaction(&hash).await.expect("its bytes");
    bench
        .database
        .execute(&format!(
            "INSERT INTO attempt (tx_id, number, kind, hash, raw, fees, gas_limit, fencing_token, created_at)
             SELECT tx_id, 2, 'BUMP', '\\x{}', '\\x{}', fees, gas_limit, fencing_token, clock_timestamp()
             FROM attempt",
            hash.trim_start_matches("0x"),
            raw.trim_start_matches("0x"),
        ))
        .await;
    anvil.mine(1).await;
    let found = mined(&a, tx.id).await;
    assert_eq!(found.tx_hash.map(|hash| hash.to_string()), Some(hash));
    anvil.mine(2).await;
    until(&a, tx.id, TxState::Confirmed).await;
    assert_eq!(view(&bench, tx.lane).await.paused, None);
    assert_eq!(told(&bench, tx.lane).await, [LaneEventKind::Started]);
    a.shutdown().await;
}
