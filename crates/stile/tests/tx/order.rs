//! Nonces in the order of acceptance.

use serde_json::{Value, json};
use testkit::{Anvil, AnvilOptions, RpcProxy, eventually};

use crate::support::{Backend, assert_mined_once, id, transfer};

fn by_hand() -> AnvilOptions {
    AnvilOptions { no_mining: true, ..Default::default() }
}

/// More than the lane has room for, and then more while room appears.
///
/// Fails if a new transaction is bound at once without asking whether older ones wait.
async fn hole_16e_nobody_overtakes_those_who_wait(backend: Backend) {
    const ROOM: usize = 5;
    let anvil = Anvil::start(by_hand()).await;
    let signer = anvil.accounts().await.remove(0);
    let options = backend.node(anvil.url()).development_keys(1);
    let node = options.set_literal("lane.max_in_flight", ROOM.to_string()).start().await;
    // The first one brings the node to take the lane.
    let first = node.send_new(&transfer(&signer, 1)).await;
    node.reaches(id(&first), "SUBMITTED").await;
    let mut sent: Vec<String> = vec![id(&first).to_owned()];
    for wei in 2..=15 {
        let tx = node.send_new(&transfer(&signer, wei)).await;
        assert_eq!(tx["nonce"].is_u64(), sent.len() < ROOM, "bound while there is room: {tx:#}");
        sent.push(id(&tx).to_owned());
    }
    let shown = node.signer(&signer).await;
    assert_eq!((&shown["inFlight"], &shown["queued"]), (&json!(5), &json!(10)), "{shown:#}");

    // Blocks make room again and again, while others come.
    for wei in 16..=60 {
        if wei % 5 == 0 {
            anvil.mine(1).await;
        }
        sent.push(id(&node.send_new(&transfer(&signer, wei)).await).to_owned());
    }
    anvil.set_interval_mining(1).await;
    let confirmed = node.all_confirmed(&signer, 60).await;
    let order: Vec<&str> = confirmed.iter().map(id).collect();
    assert_eq!(order, sent, "listed in the order of acceptance");
    let nonces: Vec<u64> = confirmed.iter().map(nonce).collect();
    assert_eq!(nonces, (0..60).collect::<Vec<_>>(), "bound in the order of acceptance");
    assert_mined_once(&anvil, &signer, &confirmed).await;
}

/// There is room, but the oldest that waits cannot have its nonce yet: its gas could not be
/// estimated when it came, and the estimate takes its time now.
///
/// Fails if those behind it overtake each other.
async fn hole_16e_only_one_without_an_estimate_is_overtaken(backend: Backend) {
    const ESTIMATE: &str = "eth_estimateGas";
    let options = AnvilOptions { block_time_seconds: Some(1), ..Default::default() };
    let anvil = Anvil::start(options).await;
    let proxy = RpcProxy::start(anvil.url()).await;
    let signer = anvil.accounts().await.remove(0);
    let node = backend.node(&proxy.url()).development_keys(1).start().await;
    // The node takes the lane, and knows what a transaction costs.
    let first = node.send_new(&transfer(&signer, 1)).await;
    node.reaches(id(&first), "CONFIRMED").await;
    assert!(node.send_new(&transfer(&signer, 2)).await["nonce"].is_u64(), "the fast path is open");

    proxy.hold(ESTIMATE);
    proxy.refuse().await;
    let mut unknown = transfer(&signer, 3);
    unknown["payload"].as_object_mut().unwrap().remove("gasLimit");
    let unknown = node.send_new(&unknown).await;
    assert_eq!((&unknown["state"], &unknown["nonce"]), (&json!("CREATED"), &json!(null)));
    proxy.heal().await;
    eventually("the estimate to be under way", async || (proxy.count(ESTIMATE) > 0).then_some(()))
        .await;
    // It holds up nobody (hole 21), and the others keep their order.
    for wei in 4..=8 {
        node.send_new(&transfer(&signer, wei)).await;
    }
    proxy.release();
    let confirmed = node.all_confirmed(&signer, 8).await;
    let mut nonces: Vec<u64> = confirmed.iter().map(nonce).collect();
    nonces.remove(2);
    assert!(nonces.is_sorted(), "bound in the order of acceptance: {nonces:?}");
    assert_mined_once(&anvil, &signer, &confirmed).await;
}

fn nonce(tx: &Value) -> u64 {
    tx["nonce"].as_u64().unwrap_or_else(|| panic!("no nonce: {tx:#}"))
}

/// A bare nonce comes back after a higher one is on the wire: everything above it waits for it.
///
/// Fails if released nonces are given to bare holds whatever was broadcast above them, or are not
/// given to transactions at all.
async fn hole_16c_a_released_nonce_below_broadcast_ones_goes_to_the_next_transaction(
    backend: Backend,
) {
    let anvil = Anvil::start(by_hand()).await;
    let signer = anvil.accounts().await.remove(0);
    let node = backend.node(anvil.url()).development_keys(1).start().await;
    let hold = node.allocate(&signer).await.ok();
    assert_eq!(nonce(&hold), 0);
    let above = node.send_new(&transfer(&signer, 1)).await;
    let above = node.reaches(id(&above), "SUBMITTED").await;
    assert_eq!(nonce(&above), 1);
    assert_eq!(node.recyclable(&hold, "not sent").await.ok()["status"], "RELEASED");

    let bare = node.allocate(&signer).await.ok();
    assert_eq!(nonce(&bare), 2, "a slow caller would keep nonce 1 waiting");
    let next = node.send_new(&transfer(&signer, 2)).await;
    let next = node.becomes(id(&next), "a nonce", |tx| tx["nonce"].is_u64()).await;
    assert_eq!(nonce(&next), 0, "the gap is closed first");

    anvil.set_interval_mining(1).await;
    for tx in [&next, &above] {
        node.reaches(id(tx), "CONFIRMED").await;
    }
    // The caller of the bare nonce sends after all, and the lane goes on behind it.
    let last = node.send_new(&transfer(&signer, 3)).await;
    assert_eq!(nonce(&node.reaches(id(&last), "SUBMITTED").await), 3);
    let hash = anvil.send_transfer(&signer, Some(2)).await;
    node.used(&bare, &hash).await.ok();
    node.reaches(id(&last), "CONFIRMED").await;
    eventually("every nonce to be used", async || {
        (anvil.nonce(&signer, "latest").await == 4).then_some(())
    })
    .await;
}

on_both_stores!(
    hole_16e_nobody_overtakes_those_who_wait,
    hole_16e_only_one_without_an_estimate_is_overtaken,
    hole_16c_a_released_nonce_below_broadcast_ones_goes_to_the_next_transaction,
);
