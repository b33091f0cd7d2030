//! Blocks that are taken back.

use std::sync::atomic::Ordering;

use serde_json::json;
use stile_domain::{Finality, TxState};
use stile_engine::{ChainQuery, Settings, TxRequest};
use testkit::{RpcProxy, eventually};

use crate::common::{Bench, Spy, lease, on, on_both_stores};
use crate::setup::{
    chain, get, history, kinds, mined, send, settings, start, start_on, transfer, until,
};

on_both_stores!(
    hole_17_a_dropped_transaction_is_sent_again_and_confirmed_on_the_new_fork,
    hole_17_a_kept_transaction_tells_of_the_new_fork,
    hole_17_a_confirmed_transaction_is_taken_back,
    hole_17_what_is_confirmed_and_not_written_yet_is_taken_back_too,
    hole_17_a_moved_transaction_tells_its_new_block
);

fn deep(request_id: &str, confirmations: u32) -> TxRequest {
    TxRequest { finality: Some(Finality::Confirmations(confirmations)), ..transfer(0, request_id) }
}

async fn hole_17_a_dropped_transaction_is_sent_again_and_confirmed_on_the_new_fork(bench: Bench) {
    let anvil = chain(false).await;
    anvil.mine(10).await;
    let node = start(&bench, settings(&bench, "a"), &[anvil.url()]).await;
    let tx = send(&node, deep("dropped", 6)).await;
    until(&node, tx.id, TxState::Submitted).await;
    anvil.mine(3).await;
    let mined = mined(&node, tx.id).await.receipt.unwrap();
    anvil.rpc("anvil_reorg", json!([5, []])).await;
    until(&node, tx.id, TxState::Submitted).await;
    let taken_back = history(&node, tx.id).await;
    let reorged = taken_back.iter().find(|event| event.kind.name() == "REORGED").unwrap();
    assert_eq!(reorged.data["newFork"], true);
    // Sent again at once: the next block has it, without any timer.
    let again = eventually("it to be mined again", async || {
        anvil.mine(1).await;
        get(&node, tx.id).await.receipt
    })
    .await;
    assert_ne!(again.block_hash, mined.block_hash);
    assert_eq!(again.tx_hash, mined.tx_hash, "the stored bytes, not signed anew");
    anvil.mine(6).await;
    until(&node, tx.id, TxState::Confirmed).await;
    node.shutdown().await;
}

async fn hole_17_a_kept_transaction_tells_of_the_new_fork(bench: Bench) {
    let anvil = chain(false).await;
    anvil.mine(2).await;
    let node = start(&bench, settings(&bench, "a"), &[anvil.url()]).await;
    let tx = send(&node, deep("kept", 12)).await;
    until(&node, tx.id, TxState::Submitted).await;
    anvil.mine(1).await;
    mined(&node, tx.id).await;
    anvil.mine(8).await;
    eventually("the blocks to be seen", async || {
        let tx = get(&node, tx.id).await;
        (node.transactions().confirmations_of(&tx) == 8).then_some(())
    })
    .await;
    let before = node.transactions().confirmations(&get(&node, tx.id).await, None).await.unwrap();
    assert_eq!(before.blocks.len(), 9);
    anvil.rpc("anvil_reorg", json!([4, []])).await;
    let event = eventually("the new fork to be told", async || {
        let events = history(&node, tx.id).await;
        events.into_iter().find(|event| event.kind.name() == "NEW_FORK")
    })
    .await;
    assert_eq!(event.data["newFork"], true);
    assert_eq!(event.state, TxState::Tracking);
    let told = event.data["confirmations"].as_array().unwrap();
    assert_eq!(told.len(), 9, "{told:?}");
    let seen = *before.blocks.last().unwrap();
    let now =
        node.transactions().confirmations(&get(&node, tx.id).await, Some(seen)).await.unwrap();
    assert!(now.new_fork, "what was seen is not canonical any more");
    assert_eq!(now.blocks.len(), 9);
    node.shutdown().await;
}

async fn hole_17_a_confirmed_transaction_is_taken_back(bench: Bench) {
    let anvil = chain(false).await;
    anvil.mine(5).await;
    let node = start(&bench, settings(&bench, "a"), &[anvil.url()]).await;
    let tx = send(&node, deep("early", 1)).await;
    until(&node, tx.id, TxState::Submitted).await;
    anvil.mine(2).await;
    until(&node, tx.id, TxState::Confirmed).await;
    anvil.rpc("anvil_reorg", json!([3, []])).await;
    until(&node, tx.id, TxState::Submitted).await;
    anvil.mine(1).await;
    mined(&node, tx.id).await;
    anvil.mine(1).await;
    let done = until(&node, tx.id, TxState::Confirmed).await;
    assert!(done.confirmed_at.is_some());
    let events = history(&node, tx.id).await;
    let told = kinds(&events);
    let wanted = ["CONFIRMED", "REORGED", "CONFIRMED"];
    let mut told = told.iter();
    assert!(wanted.iter().all(|kind| told.any(|it| it == kind)), "{:?}", kinds(&events));
    node.shutdown().await;
}

/// Fails if a fork is dealt with while a confirmation waits for the database: it is not among the
/// finished ones there yet, and would stay confirmed in a block that is gone.
async fn hole_17_what_is_confirmed_and_not_written_yet_is_taken_back_too(bench: Bench) {
    const BLOCKS: &str = "eth_getBlockByNumber";
    let anvil = chain(false).await;
    anvil.mine(5).await;
    let proxy = RpcProxy::start(anvil.url()).await;
    let spy = Spy::on(bench.database.open());
    // Comparisons of whole lanes with the chain would find it too, some seconds later.
    let alone = ChainQuery::Disabled;
    let long = Settings { lease: lease(60_000), chain_query: alone, ..settings(&bench, "a") };
    let node = start_on(spy.clone(), long, &[&proxy.url()]).await;
    let tx = send(&node, deep("late", 2)).await;
    until(&node, tx.id, TxState::Submitted).await;
    anvil.mine(1).await;
    mined(&node, tx.id).await;
    let before = spy.calls("record");
    spy.away.store(true, Ordering::SeqCst);
    anvil.mine(2).await;
    eventually("the confirmation to wait for the database", async || {
        (spy.calls("record") > before).then_some(())
    })
    .await;
    anvil.rpc("anvil_reorg", json!([4, []])).await;
    anvil.mine(1).await;
    let asked = proxy.count(BLOCKS);
    eventually("the fork to be looked at", async || {
        (proxy.count(BLOCKS) > asked + 10).then_some(())
    })
    .await;
    spy.away.store(false, Ordering::SeqCst);
    eventually("it to be taken back", async || {
        kinds(&history(&node, tx.id).await).contains(&"REORGED").then_some(())
    })
    .await;
    eventually("it to be confirmed again", async || {
        anvil.mine(1).await;
        (get(&node, tx.id).await.standing.state == TxState::Confirmed).then_some(())
    })
    .await;
    assert_eq!(
        kinds(&history(&node, tx.id).await).iter().filter(|kind| **kind == "CONFIRMED").count(),
        2
    );
    node.shutdown().await;
}

async fn hole_17_a_moved_transaction_tells_its_new_block(bench: Bench) {
    let anvil = chain(false).await;
    anvil.mine(5).await;
    let node = start(&bench, settings(&bench, "a"), &[anvil.url()]).await;
    let tx = send(&node, deep("moved", 30)).await;
    until(&node, tx.id, TxState::Submitted).await;
    anvil.mine(3).await;
    let first = mined(&node, tx.id).await.receipt.unwrap();
    let raw = node.transactions().attempts(tx.id).await.unwrap()[0].raw.clone();
    anvil.rpc("anvil_reorg", json!([4, [[raw, 2]]])).await;
    let moved = eventually("its new block", async || {
        get(&node, tx.id).await.receipt.filter(|now| now.block_hash != first.block_hash)
    })
    .await;
    assert_ne!(moved.block_number, first.block_number);
    let events = history(&node, tx.id).await;
    let last = events.last().unwrap();
    assert_eq!((last.kind.name(), last.state), ("MINED", TxState::Tracking));
    assert_eq!(last.data["newFork"], true);
    node.shutdown().await;
}
