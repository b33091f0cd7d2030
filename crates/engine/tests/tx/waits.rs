//! 38: what a transaction waits for is told, and what never comes is not waited for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;
use stile_domain::{Finality, TxState, Wait};
use stile_engine::{Diagnosis, Node, Settings, Severity, TxError, TxRequest, TxSettings};
use stile_store::Tx;
use testkit::{Anvil, AnvilOptions, Reaction, RpcProxy, eventually, eventually_within};

use crate::common::{Bench, on, on_both_stores};
use crate::setup::{
    LONG, chain, get, history, kinds, lane, mined, send, settings, start, transfer, until,
};

on_both_stores!(
    hole_38_mined_is_enough_where_no_block_follows,
    hole_38_a_chain_that_mines_on_demand_is_told,
    hole_38_a_chain_that_stands_still_is_told_for_as_long_as_it_does,
    hole_38_finality_that_the_chain_cannot_give_is_refused,
    hole_38_a_lane_that_cannot_begin_is_told,
    hole_38_that_nobody_says_what_gas_costs_is_told,
    hole_38_finality_that_no_block_has_come_to_for_very_many_is_refused
);

fn with(confirmations: u32, request_id: &str) -> TxRequest {
    let finality = Some(Finality::Confirmations(confirmations));
    TxRequest { finality, ..transfer(0, request_id) }
}

async fn wait_of(node: &Node, tx: &Tx) -> Option<Wait> {
    let tx = get(node, tx.id).await;
    node.transactions().waits(&[tx]).await.unwrap().remove(0)
}

/// Waits until a transaction waits for this, in words with this part.
async fn waits_for(node: &Node, tx: &Tx, code: &str, part: &str) -> String {
    let mut last = None;
    let found = eventually_within(LONG, part, async || {
        last = wait_of(node, tx).await;
        let wait = last.clone()?;
        (wait.code.name() == code && wait.words.contains(part)).then_some(wait.words)
    });
    match tokio::time::timeout(LONG, found).await {
        Ok(words) => words,
        Err(_) => panic!("{part} is not said: {last:?}"),
    }
}

async fn doctor(node: &Node) -> Diagnosis {
    node.lanes().doctor(lane(0)).await.unwrap()
}

fn severity(diagnosis: &Diagnosis, code: &str) -> Option<Severity> {
    diagnosis.findings.iter().find(|it| it.code == code).map(|it| it.severity)
}

/// Nothing but the transaction makes a block, and it ends all the same; a block that goes takes it
/// back as ever.
async fn hole_38_mined_is_enough_where_no_block_follows(bench: Bench) {
    let anvil = chain(true).await;
    anvil.mine(1).await;
    let node = start(&bench, settings(&bench, "a"), &[anvil.url()]).await;
    let tx = send(&node, with(0, "enough")).await;
    let done = until(&node, tx.id, TxState::Confirmed).await;
    assert_eq!(anvil.height().await, done.receipt.unwrap().block_number);
    assert_eq!(wait_of(&node, &tx).await, None);
    let usual = send(&node, with(1, "one-more")).await;
    let block = mined(&node, usual.id).await.receipt.unwrap().block_number;
    waits_for(&node, &usual, "confirmations", "1 more block").await;
    assert_eq!(get(&node, usual.id).await.standing.state, TxState::Tracking);
    assert_eq!(anvil.height().await, block, "1 is a block on top of its own");
    // The block that it was confirmed in goes: it is sent again, and is mined again at once.
    anvil.rpc("anvil_reorg", serde_json::json!([2, []])).await;
    eventually("it to be taken back and confirmed again", async || {
        let events = history(&node, tx.id).await;
        let told = kinds(&events);
        let mut told = told.iter();
        ["CONFIRMED", "REORGED", "CONFIRMED"]
            .iter()
            .all(|it| told.any(|told| told == it))
            .then_some(())
    })
    .await;
    node.shutdown().await;
}

async fn hole_38_a_chain_that_mines_on_demand_is_told(bench: Bench) {
    let anvil = chain(true).await;
    let node = start(&bench, settings(&bench, "a"), &[anvil.url()]).await;
    for n in 0..3 {
        let tx = send(&node, with(0, &format!("{n}"))).await;
        until(&node, tx.id, TxState::Confirmed).await;
    }
    let tx = send(&node, with(2, "waits")).await;
    let words = waits_for(&node, &tx, "confirmations", "only when it has transactions").await;
    assert!(words.starts_with("2 more blocks") && words.contains("{\"confirmations\": 0}"));
    let diagnosis = doctor(&node).await;
    assert_eq!(severity(&diagnosis, "mines-on-demand"), Some(Severity::Warning), "{diagnosis:?}");
    assert_eq!(severity(&diagnosis, "chain-stalled"), None, "{diagnosis:?}");
    // Blocks come with further transactions, and with them what was waited for.
    for n in 3..5 {
        let tx = send(&node, with(0, &format!("{n}"))).await;
        until(&node, tx.id, TxState::Confirmed).await;
    }
    until(&node, tx.id, TxState::Confirmed).await;
    let diagnosis = doctor(&node).await;
    assert_eq!(severity(&diagnosis, "mines-on-demand"), Some(Severity::Info), "{diagnosis:?}");
    node.shutdown().await;
}

async fn hole_38_a_chain_that_stands_still_is_told_for_as_long_as_it_does(bench: Bench) {
    let options = AnvilOptions { block_time_seconds: Some(1), ..AnvilOptions::default() };
    let anvil = Anvil::start(options).await;
    let usual = settings(&bench, "a");
    // What is done with the transaction meanwhile does not change what is found.
    let again = Some(std::time::Duration::from_secs(2));
    let tx = TxSettings { resubmit_after: again, bump_after: again, ..usual.tx.clone() };
    let node = start(&bench, Settings { tx, ..usual }, &[anvil.url()]).await;
    let first = send(&node, with(1, "first")).await;
    until(&node, first.id, TxState::Confirmed).await;
    anvil.set_interval_mining(0).await;
    anvil.set_automine(false).await;
    let tx = send(&node, with(1, "stuck")).await;
    waits_for(&node, &tx, "block", "waits to be mined").await;
    let behind = send(&node, with(1, "behind")).await;
    waits_for(&node, &tx, "block", "has made no block for").await;
    let words = waits_for(&node, &behind, "nonce", "has made no block for").await;
    assert!(words.contains("behind nonce 1") && words.contains(&tx.id.to_string()), "{words}");
    eventually_within(LONG, "the longest silence", async || {
        let diagnosis = doctor(&node).await;
        let found = severity(&diagnosis, "chain-stalled");
        assert_eq!(found, Some(Severity::Warning), "{diagnosis:#?}");
        let facts: Value = serde_json::to_value(&diagnosis.facts).unwrap();
        facts["pace"]["standstillSeconds"].as_f64().filter(|silent| *silent > 25.0)
    })
    .await;
    anvil.mine(3).await;
    until(&node, tx.id, TxState::Confirmed).await;
    until(&node, behind.id, TxState::Confirmed).await;
    let diagnosis = doctor(&node).await;
    assert_eq!(severity(&diagnosis, "chain-stalled"), None, "{diagnosis:?}");
    node.shutdown().await;
}

async fn hole_38_finality_that_the_chain_cannot_give_is_refused(bench: Bench) {
    let anvil = chain(true).await;
    let proxy = RpcProxy::start(anvil.url()).await;
    let names = |params: &Value| params[0] == "safe" || params[0] == "finalized";
    proxy.is_like(move |method, params| {
        let words = "invalid argument 0: hex string without 0x prefix";
        let asks = method == "eth_getBlockByNumber" && names(params);
        asks.then(|| Reaction::Error(-32602, words.to_owned()))
    });
    let asks = || {
        let calls = proxy.calls();
        calls
            .iter()
            .filter(|seen| seen.method == "eth_getBlockByNumber" && names(&seen.params))
            .count()
    };
    let usual = settings(&bench, "a");
    let tx = TxSettings { finality: Finality::Finalized, ..usual.tx.clone() };
    let node = start(&bench, Settings { tx, ..usual }, &[&proxy.url()]).await;
    let asking = |finality, name: &str| TxRequest { finality, ..transfer(0, name) };
    let refused =
        async |finality, name: &str| match node.transactions().send(asking(finality, name)).await {
            Err(error @ TxError::FinalityUnavailable { .. }) => error.to_string(),
            other => panic!("{name}: {other:?}"),
        };
    for (finality, tag) in [
        (Some(Finality::Safe), "safe"),
        (Some(Finality::Finalized), "finalized"),
        (None, "finalized"),
    ] {
        let words = refused(finality, tag).await;
        assert!(words.contains(&format!("calls no block {tag}")), "{words}");
        assert!(words.contains("{\"confirmations\": n}"), "{words}");
    }
    // The last question about what the endpoint can do comes after those for its tags.
    eventually("the endpoint to be known", async || {
        proxy.counts().contains_key("eth_estimateGas").then_some(())
    })
    .await;
    let known = asks();
    for n in 0..10 {
        refused(Some(Finality::Finalized), &format!("{n}")).await;
    }
    assert_eq!(asks(), known, "what is known is not asked for again");
    let tx = send(&node, with(0, "counts")).await;
    until(&node, tx.id, TxState::Confirmed).await;
    let diagnosis = doctor(&node).await;
    let found = severity(&diagnosis, "finality-unavailable");
    assert_eq!(found, Some(Severity::Warning), "{diagnosis:?}");
    node.shutdown().await;
}

/// The only endpoint does not say how many transactions the account has.
async fn hole_38_a_lane_that_cannot_begin_is_told(bench: Bench) {
    let anvil = chain(true).await;
    let proxy = RpcProxy::start(anvil.url()).await;
    proxy.is_like(|method, _| {
        let asks = method == "eth_getTransactionCount";
        asks.then(|| Reaction::Error(-32000, "no counts today".to_owned()))
    });
    let node = start(&bench, settings(&bench, "a"), &[&proxy.url()]).await;
    let tx = send(&node, with(0, "first")).await;
    waits_for(&node, &tx, "endpoint", "no counts today").await;
    proxy.is_like(|_, _| None);
    until(&node, tx.id, TxState::Confirmed).await;
    node.shutdown().await;
}

/// The endpoint answers, and everything that it is asked about fees is refused in a way that is no
/// JSON-RPC.
///
/// Fails if nothing says so: then a transaction waits for its turn for ever, and nobody knows why.
async fn hole_38_that_nobody_says_what_gas_costs_is_told(bench: Bench) {
    let anvil = chain(true).await;
    let proxy = RpcProxy::start(anvil.url()).await;
    let shut = ["eth_feeHistory", "eth_maxPriorityFeePerGas", "eth_gasPrice"];
    shut.iter().for_each(|method| proxy.fail_with_status(method, 403, None));
    // Without a base fee the price is all there is.
    proxy.strip("eth_getBlockByNumber", "baseFeePerGas");
    let node = start(&bench, settings(&bench, "a"), &[&proxy.url()]).await;
    let tx = send(&node, with(0, "unquoted")).await;
    let words = waits_for(&node, &tx, "endpoint", "says what gas costs").await;
    assert!(words.contains("eth_gasPrice: answered with HTTP status 403"), "{words}");
    let diagnosis = doctor(&node).await;
    assert_eq!(severity(&diagnosis, "no-fee-quote"), Some(Severity::Blocked), "{diagnosis:?}");
    assert!(!diagnosis.healthy && diagnosis.summary.contains("eth_gasPrice"), "{diagnosis:?}");
    proxy.heal().await;
    until(&node, tx.id, TxState::Confirmed).await;
    assert_eq!(severity(&doctor(&node).await, "no-fee-quote"), None);
    node.shutdown().await;
}

/// A chain that knows the name, and calls none of its blocks so, for a thousand of them.
async fn hole_38_finality_that_no_block_has_come_to_for_very_many_is_refused(bench: Bench) {
    let anvil = chain(true).await;
    let proxy = RpcProxy::start(anvil.url()).await;
    let (finalizes, comes) = (Arc::new(AtomicBool::new(false)), Ordering::Relaxed);
    let has = Arc::clone(&finalizes);
    proxy.is_like(move |method, params| {
        let asks = method == "eth_getBlockByNumber" && params[0] == "finalized";
        (asks && !has.load(comes)).then(|| Reaction::Error(-39001, "Unknown block".to_owned()))
    });
    let node = start(&bench, settings(&bench, "a"), &[&proxy.url()]).await;
    let asking =
        |name: &str| TxRequest { finality: Some(Finality::Finalized), ..transfer(0, name) };
    let tx = send(&node, asking("waits")).await;
    until(&node, tx.id, TxState::Tracking).await;
    waits_for(&node, &tx, "finality", "calls none so yet").await;
    assert_eq!(severity(&doctor(&node).await, "finality-unavailable"), None, "it may come");
    anvil.mine(1_050).await;
    waits_for(&node, &tx, "finality", "this does not come").await;
    let found = severity(&doctor(&node).await, "finality-unavailable");
    assert_eq!(found, Some(Severity::Warning));
    match node.transactions().send(asking("refused")).await {
        Err(TxError::FinalityUnavailable { .. }) => {}
        other => panic!("{other:?}"),
    }
    // It comes after all.
    finalizes.store(true, comes);
    anvil.mine(1).await;
    until(&node, tx.id, TxState::Confirmed).await;
    let taken = send(&node, asking("taken")).await;
    mined(&node, taken.id).await;
    anvil.mine(100).await;
    until(&node, taken.id, TxState::Confirmed).await;
    let found = severity(&doctor(&node).await, "finality-unavailable");
    assert_eq!(found, None);
    node.shutdown().await;
}
