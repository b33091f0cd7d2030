//! Transactions whose gas cannot be estimated.

use std::time::Duration;

use serde_json::json;
use stile_domain::{EstimatePolicy, SubState, TxId, TxState};
use stile_engine::{Node, Settings, TxError, TxRequest, TxSettings};
use testkit::{Anvil, AnvilOptions, RpcProxy, eventually};

use crate::common::{Bench, on, on_both_stores};
use crate::setup::{
    chain, get, history, kinds, lane, mined, send, settings, start, transfer, until,
};

on_both_stores!(
    hole_21_a_transaction_without_an_estimate_holds_up_nobody,
    hole_21_after_its_tries_it_is_refused_with_the_nodes_words,
    hole_21_tries_do_not_count_while_the_chain_is_away,
    hole_37_an_estimate_above_what_a_block_has_costs_no_nonce,
    hole_37_before_istanbul_call_data_needs_more_gas
);

/// A transfer whose caller does not say how much gas it needs.
fn without_gas(request_id: &str) -> TxRequest {
    let mut request = transfer(0, request_id);
    request.payload.gas_limit = None;
    request
}

fn trying(bench: &Bench, tries: u32) -> Settings {
    let usual = settings(bench, "a");
    let estimate = EstimatePolicy {
        tries,
        first_pause: Duration::from_millis(100),
        longest_pause: Duration::from_millis(400),
    };
    Settings { tx: TxSettings { estimate, ..usual.tx.clone() }, ..usual }
}

async fn until_set_aside(node: &Node, id: TxId) {
    eventually("it to be set aside", async || {
        let tx = get(node, id).await;
        (tx.standing.sub_state == Some(SubState::Estimating)).then_some(())
    })
    .await;
}

async fn hole_21_a_transaction_without_an_estimate_holds_up_nobody(bench: Bench) {
    let anvil = chain(true).await;
    let proxy = RpcProxy::start(anvil.url()).await;
    let node = start(&bench, trying(&bench, 1000), &[&proxy.url()]).await;
    proxy.hold("eth_estimateGas");
    let aside = send(&node, without_gas("first")).await;
    let later = send(&node, without_gas("second")).await;
    assert_eq!((aside.nonce, aside.standing.state), (None, TxState::Created));
    let behind = send(&node, transfer(0, "behind")).await;
    assert_eq!(mined(&node, behind.id).await.nonce, Some(0), "nobody waits for the first");
    until_set_aside(&node, aside.id).await;
    until_set_aside(&node, later.id).await;
    // Nor do those that come later wait in the store for it: they get their nonces at once.
    let mut count = 0;
    eventually("a nonce at once", async || {
        count += 1;
        send(&node, transfer(0, &format!("at once {count}"))).await.nonce
    })
    .await;
    // What was sent last may be on its way still, and is said first then.
    let diagnosis = eventually("the doctor to say so", async || {
        let diagnosis = node.lanes().doctor(lane(0)).await.unwrap();
        diagnosis.summary.contains("estimate").then_some(diagnosis)
    })
    .await;
    assert!(diagnosis.findings.iter().any(|finding| finding.code == "estimating"));
    assert_eq!(kinds(&history(&node, aside.id).await), ["ACCEPTED", "NOT_ESTIMATED"]);
    proxy.release();
    let (first, second) = (mined(&node, aside.id).await, mined(&node, later.id).await);
    assert_eq!(first.error, None);
    assert!(first.nonce > Some(0) && second.nonce > Some(0));
    let kinds = kinds(&history(&node, aside.id).await);
    assert_eq!(kinds[..4], ["ACCEPTED", "NOT_ESTIMATED", "ESTIMATED", "BOUND"]);
    node.shutdown().await;
}

async fn hole_21_after_its_tries_it_is_refused_with_the_nodes_words(bench: Bench) {
    let anvil = chain(true).await;
    let proxy = RpcProxy::start(anvil.url()).await;
    let node = start(&bench, trying(&bench, 3), &[&proxy.url()]).await;
    // What says nothing about the transaction.
    proxy.fail("eth_estimateGas", -32005, "no estimates on Wednesdays");
    let hopeless = send(&node, without_gas("hopeless")).await;
    let refused = until(&node, hopeless.id, TxState::Failed).await;
    assert_eq!((refused.nonce, refused.standing.sub_state), (None, Some(SubState::Rejected)));
    let words = refused.error.unwrap();
    assert!(words.contains("tried 3 times") && words.contains("on Wednesdays"), "{words}");
    let kinds = kinds(&history(&node, hopeless.id).await);
    assert_eq!(kinds, ["ACCEPTED", "NOT_ESTIMATED", "REJECTED"], "told once");
    // What the endpoint can do is found out with an estimate for nobody.
    let nobody = format!("{:#042x}", 0);
    let calls = proxy.calls();
    let tries = calls.iter().filter(|call| call.method == "eth_estimateGas");
    assert_eq!(tries.filter(|call| call.params[0]["from"] != nobody.as_str()).count(), 3);
    let next = send(&node, transfer(0, "next")).await;
    assert_eq!(mined(&node, next.id).await.nonce, Some(0), "it cost no nonce");
    node.shutdown().await;
}

async fn hole_21_tries_do_not_count_while_the_chain_is_away(bench: Bench) {
    let anvil = chain(true).await;
    let proxy = RpcProxy::start(anvil.url()).await;
    let node = start(&bench, trying(&bench, 3), &[&proxy.url()]).await;
    mined(&node, send(&node, transfer(0, "before")).await.id).await;
    proxy.fail_all(503);
    let waits = send(&node, without_gas("waits")).await;
    proxy.reset();
    eventually("many looks", async || (proxy.count("eth_chainId") > 40).then_some(())).await;
    let tx = get(&node, waits.id).await;
    assert_eq!(tx.standing.sub_state, Some(SubState::Pending), "that is not its own trouble");
    // One that is set aside already is not refused for it either.
    proxy.heal().await;
    mined(&node, waits.id).await;
    proxy.hold("eth_estimateGas");
    let aside = send(&node, without_gas("aside")).await;
    until_set_aside(&node, aside.id).await;
    proxy.fail_all(503);
    proxy.release();
    proxy.reset();
    eventually("many looks", async || (proxy.count("eth_chainId") > 40).then_some(())).await;
    assert_eq!(get(&node, aside.id).await.standing.state, TxState::Created);
    proxy.heal().await;
    mined(&node, aside.id).await;
    node.shutdown().await;
}

async fn hole_37_an_estimate_above_what_a_block_has_costs_no_nonce(bench: Bench) {
    let anvil = chain(true).await;
    let proxy = RpcProxy::start(anvil.url()).await;
    let node = start(&bench, trying(&bench, 1000), &[&proxy.url()]).await;
    proxy.lie("eth_estimateGas", |_, _| Some(json!("0x2625a00")));
    match node.transactions().send(without_gas("much")).await {
        Err(TxError::GasLimit(above)) => assert_eq!(above.limit(), 30_000_000),
        other => panic!("{other:?}"),
    }
    // The same of one that was taken while nobody gave an estimate.
    proxy.fail("eth_estimateGas", -32005, "no estimates on Wednesdays");
    let taken = send(&node, without_gas("taken")).await;
    until_set_aside(&node, taken.id).await;
    proxy.heal().await;
    proxy.lie("eth_estimateGas", |_, _| Some(json!("0x2625a00")));
    let refused = until(&node, taken.id, TxState::Failed).await;
    assert_eq!((refused.nonce, refused.standing.sub_state), (None, Some(SubState::Rejected)));
    let words = refused.error.unwrap();
    assert!(words.contains("40000000") && words.contains("30000000"), "{words}");
    let next = send(&node, transfer(0, "next")).await;
    assert_eq!(mined(&node, next.id).await.nonce, Some(0), "it cost no nonce");
    node.shutdown().await;
}

async fn hole_37_before_istanbul_call_data_needs_more_gas(bench: Bench) {
    let arguments = vec!["--hardfork=petersburg".to_owned()];
    let anvil = Anvil::start(AnvilOptions { arguments, ..AnvilOptions::default() }).await;
    let node = start(&bench, settings(&bench, "a"), &[anvil.url()]).await;
    let calling = |gas: u64| {
        let mut request = transfer(0, &format!("{gas}"));
        request.payload.data = vec![0xff; 100].into();
        request.payload.gas_limit = Some(gas);
        request
    };
    let refused = async |gas| match node.transactions().send(calling(gas)).await {
        Err(TxError::GasBelowIntrinsic(low)) => low.least,
        other => panic!("{gas}: {other:?}"),
    };
    // No chain takes so little.
    let is_known = async || (refused(22_599).await == 27_800).then_some(());
    eventually("the price of call data to be known", is_known).await;
    assert_eq!(refused(27_799).await, 27_800);
    let enough = send(&node, calling(27_800)).await;
    mined(&node, enough.id).await;
    node.shutdown().await;
}
