//! A node that goes, and one that takes over.

use stile_domain::TxState;
use stile_engine::Settings;

use crate::common::{Bench, lease, on, on_both_stores};
use crate::setup::{chain, get, send, settings, start, transfer, until};

on_both_stores!(
    what_a_node_left_is_sent_again_byte_by_byte,
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
