//! What endpoints say of a transaction, each for itself.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use stile_domain::{AttemptKind, Outcome, SubState, TxId, TxState};
use stile_engine::{Node, Settings, TxSettings};
use testkit::{Anvil, AnvilOptions, RpcProxy, eventually};

use crate::common::{Bench, on, on_both_stores};
use crate::setup::{
    chain, get, history, kinds, lane, send, settings, start, start_with, transfer, until,
};

on_both_stores!(
    hole_22_what_was_taken_is_not_given_up_for_words_that_nobody_knows,
    hole_22_nor_by_whoever_takes_over,
    hole_22_what_is_taken_while_it_is_being_given_up_is_kept,
    hole_25_a_read_only_endpoint_does_not_hide_what_the_other_says,
    hole_25_nothing_is_given_up_where_nobody_takes_transactions,
    hole_25_one_slow_endpoint_does_not_pace_the_others
);

const SEND: &str = "eth_sendRawTransaction";

/// What a CometBFT node says to what it has, and then what nobody has ever said.
const REPEATS: [&str; 2] = ["tx already exists in cache", "the flux is not in its capacitor"];

/// A chain node that takes each transaction once, and answers repeats in words of its own: first
/// those of a CometBFT node, and from then on some that nobody knows.
async fn forgetful_of_manners(anvil: &Anvil) -> (RpcProxy, Arc<AtomicU32>) {
    let proxy = RpcProxy::start(anvil.url()).await;
    let (seen, repeats) = (Mutex::new(HashSet::new()), Arc::new(AtomicU32::new(0)));
    let counted = Arc::clone(&repeats);
    proxy.refuse_sends(move |raw| {
        if seen.lock().unwrap().insert(raw.to_owned()) {
            return None;
        }
        let repeat = counted.fetch_add(1, Ordering::Relaxed);
        Some((-32000, REPEATS[usize::from(repeat > 0)].to_owned()))
    });
    (proxy, repeats)
}

fn eager(bench: &Bench, node: &str) -> Settings {
    let settings = settings(bench, node);
    let resubmit_after = Some(Duration::from_millis(500));
    Settings { tx: TxSettings { resubmit_after, ..settings.tx }, ..settings }
}

async fn kinds_of_attempts(node: &Node, id: TxId) -> Vec<AttemptKind> {
    let attempts = node.transactions().attempts(id).await.unwrap();
    attempts.iter().map(|attempt| attempt.kind).collect()
}

/// Waits until a transaction was sent again this often, and is as it was.
async fn repeated(node: &Node, id: TxId, repeats: &AtomicU32, times: u32) {
    let goal = repeats.load(Ordering::Relaxed) + times;
    eventually("repeats", async || {
        assert_eq!(kinds_of_attempts(node, id).await, [AttemptKind::Send]);
        (repeats.load(Ordering::Relaxed) >= goal).then_some(())
    })
    .await;
}

/// Fails if an empty transaction overwrites one that a chain node has.
async fn hole_22_what_was_taken_is_not_given_up_for_words_that_nobody_knows(bench: Bench) {
    let anvil = chain(false).await;
    let (proxy, repeats) = forgetful_of_manners(&anvil).await;
    let node = start(&bench, eager(&bench, "a"), &[&proxy.url()]).await;
    let tx = send(&node, transfer(0, "one")).await;
    until(&node, tx.id, TxState::Submitted).await;
    repeated(&node, tx.id, &repeats, 8).await;
    anvil.set_interval_mining(1).await;
    let done = until(&node, tx.id, TxState::Confirmed).await;
    assert_eq!(done.standing.outcome, Some(Outcome::Success));
    let told = kinds(&history(&node, tx.id).await);
    assert!(!told.contains(&"HELD_UP") && !told.contains(&"GIVEN_UP"), "{told:?}");
    assert_eq!(kinds_of_attempts(&node, tx.id).await, [AttemptKind::Send]);
    node.shutdown().await;
}

/// The same by a node that has never been told that it was taken.
async fn hole_22_nor_by_whoever_takes_over(bench: Bench) {
    let anvil = chain(false).await;
    let (proxy, repeats) = forgetful_of_manners(&anvil).await;
    let first = start(&bench, eager(&bench, "a"), &[&proxy.url()]).await;
    let tx = send(&first, transfer(0, "one")).await;
    until(&first, tx.id, TxState::Submitted).await;
    repeated(&first, tx.id, &repeats, 2).await;
    first.shutdown().await;
    let second = start(&bench, eager(&bench, "a"), &[&proxy.url()]).await;
    // One lane to do something for is what makes it look.
    let other = send(&second, transfer(0, "two")).await;
    repeated(&second, tx.id, &repeats, 8).await;
    anvil.set_interval_mining(1).await;
    for id in [tx.id, other.id] {
        until(&second, id, TxState::Confirmed).await;
        assert_eq!(kinds_of_attempts(&second, id).await, [AttemptKind::Send]);
    }
    second.shutdown().await;
}

/// Fails if it is given up by what was known when that was first thought of: an endpoint takes it
/// while the endpoints are asked whether they know it.
async fn hole_22_what_is_taken_while_it_is_being_given_up_is_kept(bench: Bench) {
    let anvil = chain(false).await;
    let proxy = RpcProxy::start(anvil.url()).await;
    let refusals = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&refusals);
    proxy.refuse_sends(move |_| {
        let refuses = counted.fetch_add(1, Ordering::Relaxed) < 3;
        refuses.then(|| (-32000, "exceeds block gas limit".to_owned()))
    });
    // Nor does it own up to it.
    proxy.lie("eth_getTransactionByHash", |_, _| Some(serde_json::Value::Null));
    proxy.hold("eth_getTransactionByHash");
    let (store, patience) = (bench.database.open(), Duration::from_secs(600));
    let node = start_with(store, settings(&bench, "a"), &[&proxy.url()], patience).await;
    let tx = send(&node, transfer(0, "one")).await;
    until(&node, tx.id, TxState::Submitted).await;
    assert!(proxy.count("eth_getTransactionByHash") > 0, "it was to be given up");
    proxy.release();
    proxy.reset();
    eventually("many looks", async || (proxy.count("eth_chainId") > 40).then_some(())).await;
    assert_eq!(kinds_of_attempts(&node, tx.id).await, [AttemptKind::Send]);
    anvil.set_interval_mining(1).await;
    let done = until(&node, tx.id, TxState::Confirmed).await;
    assert_eq!(done.standing.outcome, Some(Outcome::Success));
    assert_eq!(kinds_of_attempts(&node, tx.id).await, [AttemptKind::Send]);
    node.shutdown().await;
}

/// Fails if a transaction above the block gas limit is tried for ever because one endpoint takes
/// none at all, or if that endpoint is asked again and again.
async fn hole_25_a_read_only_endpoint_does_not_hide_what_the_other_says(bench: Bench) {
    let options = AnvilOptions { block_time_seconds: Some(1), ..AnvilOptions::default() };
    let anvil = Anvil::start(options).await;
    let (no_method, forbidden) =
        (RpcProxy::start(anvil.url()).await, RpcProxy::start(anvil.url()).await);
    no_method.fail(SEND, -32601, "the method eth_sendRawTransaction does not exist");
    forbidden.fail_with_status(SEND, 403, None);
    // The only one that takes transactions refuses what carries this, as too much gas for a block.
    let taking = RpcProxy::start(anvil.url()).await;
    let words = || (-32000, "exceeds block gas limit".to_owned());
    taking.refuse_sends(move |raw| raw.contains("0101010101010101").then(words));
    let endpoints = [no_method.url(), taking.url(), forbidden.url()];
    let endpoints = endpoints.each_ref().map(String::as_str);
    let node = start(&bench, settings(&bench, "a"), &endpoints).await;
    let mut large = transfer(0, "large");
    large.payload.data = vec![1; 100].into();
    large.payload.gas_limit = Some(100_000);
    let large = send(&node, large).await;
    let small = send(&node, transfer(0, "small")).await;
    let failed = until(&node, large.id, TxState::Failed).await;
    assert_eq!(failed.standing.sub_state, Some(SubState::Rejected), "{failed:?}");
    assert_eq!(kinds_of_attempts(&node, large.id).await, [AttemptKind::Send, AttemptKind::GiveUp]);
    until(&node, small.id, TxState::Confirmed).await;
    for proxy in [no_method, forbidden] {
        let asked = proxy.count(SEND);
        // Once for each batch that was on its way when it was learned, and once for a rare probe.
        assert!((1..=4).contains(&asked), "asked {asked} times");
    }
    let diagnosis = node.lanes().doctor(lane(0)).await.unwrap();
    let found = diagnosis.findings.iter().find(|found| found.code == "endpoint-read-only").unwrap();
    assert!(found.words.contains("does not exist") && found.words.contains("403"), "{found:?}");
    assert!(diagnosis.healthy, "{diagnosis:?}");
    node.shutdown().await;
}

/// Fails if endpoints that take no transactions have one given up, or if nobody is told.
async fn hole_25_nothing_is_given_up_where_nobody_takes_transactions(bench: Bench) {
    let anvil = chain(true).await;
    let proxy = RpcProxy::start(anvil.url()).await;
    proxy.fail(SEND, -32004, "method not supported");
    let node = start(&bench, settings(&bench, "a"), &[&proxy.url()]).await;
    let tx = send(&node, transfer(0, "one")).await;
    let diagnosis = eventually("the doctor to say so", async || {
        let diagnosis = node.lanes().doctor(lane(0)).await.ok()?;
        diagnosis
            .findings
            .iter()
            .any(|found| found.code == "no-endpoint-takes")
            .then_some(diagnosis)
    })
    .await;
    assert!(!diagnosis.healthy && diagnosis.summary.contains("not supported"), "{diagnosis:?}");
    // It is tried now and then, and taken once that works.
    proxy.heal().await;
    let wait = Duration::from_secs(50);
    testkit::eventually_within(wait, "it to be taken", async || {
        let tx = get(&node, tx.id).await;
        tx.receipt.is_some().then_some(())
    })
    .await;
    assert_eq!(kinds_of_attempts(&node, tx.id).await, [AttemptKind::Send]);
    node.shutdown().await;
}

/// Fails if the slowest endpoint has to answer before anything is concluded from what others say,
/// or before anything else is sent.
async fn hole_25_one_slow_endpoint_does_not_pace_the_others(bench: Bench) {
    let anvil = chain(false).await;
    let slow = RpcProxy::start(anvil.url()).await;
    slow.hold(SEND);
    let endpoints = [slow.url(), anvil.url().to_owned()];
    let endpoints = endpoints.each_ref().map(String::as_str);
    let patience = Duration::from_secs(600);
    let store = bench.database.open();
    let node = start_with(store, settings(&bench, "a"), &endpoints, patience).await;
    let mut ids = Vec::new();
    for n in 0..5 {
        let tx = send(&node, transfer(0, &n.to_string())).await;
        until(&node, tx.id, TxState::Submitted).await;
        ids.push(tx.id);
    }
    assert!(slow.count(SEND) >= 1, "it was asked, and has not answered");
    slow.release();
    let sent = eventually("the slow one to get all of them", async || {
        let sent = slow.sent_raw();
        (sent.len() == ids.len()).then_some(sent)
    })
    .await;
    // In the order of their nonces, as at any other.
    for (sent, id) in sent.iter().zip(&ids) {
        assert_eq!(Some(sent.hash), get(&node, *id).await.tx_hash);
    }
    anvil.set_interval_mining(1).await;
    for id in ids {
        until(&node, id, TxState::Confirmed).await;
    }
    node.shutdown().await;
}
