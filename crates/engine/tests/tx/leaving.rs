//! A node that goes, and one that takes over.

use std::sync::atomic::Ordering;

use stile_domain::TxState;
use stile_engine::Settings;

use crate::common::{Bench, Spy, lease, on, on_both_stores};
use crate::setup::{chain, get, history, kinds, send, settings, start, start_on, transfer, until};

on_both_stores!(
    what_a_node_left_is_sent_again_byte_by_byte,
    what_was_decided_before_another_node_held_the_lane_is_forgotten,
    a_reorg_while_nobody_looked_is_noticed
);

async fn what_a_node_left_is_sent_again_byte_by_byte(bench: Bench) {
    let anvil = chain(false).await;
    let short = |node: &str| Settings { lease: lease(1000), ..settings(&bench, node) };
    let a = start(&bench, short("a"), &[anvil.url()]).await;
    let mut ids = Vec::new();
    for n in 0..10 {
        ids.push(send(&a, transfer(0, &format!("{n}"))).await.id);
    }
    for id in &ids {
        until(&a, *id, TxState::Submitted).await;
    }
    let signed = a.transactions().attempts(ids[0]).await.unwrap();
    // Gone without a word, and its pool entries with it.
    drop(a);
    anvil.rpc("anvil_dropAllTransactions", serde_json::json!([])).await;
    let b = start(&bench, short("b"), &[anvil.url()]).await;
    for id in &ids {
        testkit::eventually("it to be mined", async || {
            anvil.mine(1).await;
            let state = get(&b, *id).await.standing.state;
            matches!(state, TxState::Tracking | TxState::Confirmed).then_some(())
        })
        .await;
    }
    anvil.mine(2).await;
    for (n, id) in ids.iter().enumerate() {
        assert_eq!(until(&b, *id, TxState::Confirmed).await.nonce, Some(n as u64));
    }
    let attempts = b.transactions().attempts(ids[0]).await.unwrap();
    assert_eq!(attempts.len(), 1);
    assert_eq!(attempts[0].raw, signed[0].raw);
    b.shutdown().await;
}

/// A holder that cannot write for so long that another one comes and goes, and has the lane again
/// before it has learned of that. It saw the transaction mined and taken back meanwhile; the other
/// one saw it sent.
///
/// Fails if a book outlives the claim it was filled under, or if what was decided on it is written
/// under a later one: the numbers of the entries fit by accident.
async fn what_was_decided_before_another_node_held_the_lane_is_forgotten(bench: Bench) {
    let anvil = chain(false).await;
    let short = |node: &str| Settings { lease: lease(1000), ..settings(&bench, node) };
    let spy = Spy::on(bench.database.open());
    let a = start_on(spy.clone(), short("a"), &[anvil.url()]).await;
    let tx = send(&a, transfer(0, "one")).await;
    until(&a, tx.id, TxState::Submitted).await;
    let holder = async |name: &str| {
        testkit::eventually(&format!("{name} to hold the lane"), async || {
            let view = bench.store.lanes(&[tx.lane]).await.unwrap().pop().flatten()?;
            (view.owner.node.0 == name && !view.owner.remaining.is_zero()).then_some(())
        })
        .await;
    };
    let before = spy.calls("record");
    spy.away.store(true, Ordering::SeqCst);
    anvil.mine(1).await;
    testkit::eventually("a to have something to write", async || {
        (spy.calls("record") > before).then_some(())
    })
    .await;
    anvil.rpc("anvil_rollback", serde_json::json!([1])).await;
    anvil.mine(2).await;

    let b = start(&bench, short("b"), &[anvil.url()]).await;
    holder("b").await;
    testkit::eventually("b to have sent it again", async || {
        let events = history(&b, tx.id).await;
        kinds(&events).contains(&"RESENT").then_some(())
    })
    .await;
    drop(b);
    holder("a").await;
    spy.away.store(false, Ordering::SeqCst);
    testkit::eventually("it to be confirmed", async || {
        anvil.mine(1).await;
        (get(&a, tx.id).await.standing.state == TxState::Confirmed).then_some(())
    })
    .await;
    let events = history(&a, tx.id).await;
    assert!(!kinds(&events).contains(&"REORGED"), "on record it was mined once: {events:#?}");
    a.shutdown().await;
}

async fn a_reorg_while_nobody_looked_is_noticed(bench: Bench) {
    let anvil = chain(false).await;
    anvil.mine(5).await;
    let a = start(&bench, settings(&bench, "a"), &[anvil.url()]).await;
    let tx = send(&a, transfer(0, "one")).await;
    until(&a, tx.id, TxState::Submitted).await;
    anvil.mine(2).await;
    until(&a, tx.id, TxState::Confirmed).await;
    a.shutdown().await;
    anvil.rpc("anvil_reorg", serde_json::json!([3, []])).await;
    let b = start(&bench, settings(&bench, "a"), &[anvil.url()]).await;
    until(&b, tx.id, TxState::Submitted).await;
    anvil.mine(2).await;
    until(&b, tx.id, TxState::Confirmed).await;
    b.shutdown().await;
}
