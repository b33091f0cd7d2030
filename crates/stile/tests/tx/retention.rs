//! What is over is removed, as a whole, and callers see that it is gone.
//!
//! Fails if a removal leaves a part behind, if a nonce is given out again, or if a reader of the
//! stream is lost when the last event it got is gone.

use std::time::Duration;

use serde_json::Value;
use stile::{Address, ChainId, Lane, parse_address};
use testkit::{Anvil, AnvilOptions, eventually, eventually_within};

use crate::common::{CHAIN, NodeOptions, StileProcess};
use crate::support::{Backend, Random, id, text, transfer};

/// Headers that a node keeps which follows reorganisations one block deep.
const HEADERS: u64 = 1 + 72;

/// A node that keeps what is over for a second.
fn forgetful(backend: &Backend, anvil: &Anvil) -> NodeOptions {
    backend
        .node(anvil.url())
        .development_keys(1)
        .set_literal("confirmations.reorg_window", "1")
        .set("retention.finished", "1s")
}

/// Reads the stream from a place until an event of this kind, and returns its place and what it
/// tells.
async fn until_event(node: &StileProcess, last_id: &str, kind: &str) -> (String, Value) {
    let request = node.request("GET", "/api/v1/events").header("last-event-id", last_id);
    let mut stream = request.send().await.unwrap();
    let mut seen = String::new();
    while let Some(chunk) = stream.chunk().await.unwrap() {
        seen.push_str(&String::from_utf8_lossy(&chunk));
        let whole = seen.rsplit_once("\n\n").map_or("", |(whole, _)| whole);
        for event in whole.split("\n\n") {
            let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name));
            let (Some(id), Some(data)) = (field("id:"), field("data:")) else { continue };
            let data: Value = serde_json::from_str(data.trim()).unwrap();
            if data["kind"] == kind {
                return (id.trim().to_owned(), data);
            }
        }
    }
    panic!("the stream ended:\n{seen}")
}

async fn what_is_over_is_gone_for_everybody(backend: Backend) {
    let anvil = Anvil::start(AnvilOptions::default()).await;
    let account = &anvil.accounts().await[0];
    let node = forgetful(&backend, &anvil).start().await;
    let body = transfer(account, 7);
    let first = node.send_new(&body).await;
    node.becomes(id(&first), "mined", |tx| !tx["receipt"].is_null()).await;
    anvil.mine(1).await;
    let (place, told) = until_event(&node, "0-0", "CONFIRMED").await;
    assert_eq!(told["txId"], first["txId"]);
    anvil.mine(HEADERS + 2).await;

    let path = format!("/api/v1/tx/{}", id(&first));
    eventually("it to be removed", async || (node.get(&path).await.status == 404).then_some(()))
        .await;
    let by_request = format!("/api/v1/tx/by-request?signer={account}&requestId=request-7");
    let parts = ["history", "attempts", "confirmations"].map(|part| format!("{path}/{part}"));
    for gone in parts.iter().chain([&path, &by_request]) {
        let answer = node.get(gone).await;
        assert_eq!((answer.status, answer.problem().as_str()), (404, "tx-not-found"), "{gone}");
    }
    assert!(node.txs(account).await.is_empty());
    assert_eq!(node.metric("stile_retention_removed_total{what=\"tx\"}").await, 1.0);
    eventually("the log to tell", async || {
        node.process.stderr().contains("what was kept long enough is removed").then_some(())
    })
    .await;

    // The same request is a new one now, at the next nonce.
    let second = node.send_new(&body).await;
    assert_ne!(id(&second), id(&first));
    let second = node.becomes(id(&second), "mined", |tx| !tx["receipt"].is_null()).await;
    assert_eq!(second["nonce"], 1);
    // A reader whose last event is gone goes on with what is there.
    let (_, told) = until_event(&node, &place, "ACCEPTED").await;
    assert_eq!(text(&told["txId"]), id(&second));
}

/// Killed again and again while there is much to remove: whatever is there is whole.
async fn a_node_killed_while_it_removes_leaves_nothing_half(backend: Backend) {
    const COUNT: u64 = 10_000;
    let anvil = Anvil::start(AnvilOptions::default()).await;
    let account: Address = parse_address(&anvil.accounts().await[0]).unwrap();
    let lane = Lane::new(ChainId::new(CHAIN).unwrap(), account);
    let options = forgetful(&backend, &anvil);
    // For the schema, and for as many headers on record as a node ever looks back.
    let node = options.start().await;
    anvil.mine(1).await;
    node.follows_to(1).await;
    anvil.mine(HEADERS + 10).await;
    node.follows_to(1 + HEADERS + 10).await;
    node.terminate().await;
    let next = stile_store::raw::seed_finished(&backend.url(), lane, COUNT, |_| {}).await.unwrap();
    assert_eq!(next, COUNT);
    let mut random = Random::new();
    for _ in 0..8 {
        let node = options.start().await;
        // A random moment is the point here; nothing is expected of it.
        tokio::time::sleep(Duration::from_millis(400 + random.below(600))).await;
        node.kill().await;
        let witness = backend.witness().await;
        let [txs, attempts, events, nonces] = witness.counts().await;
        assert_eq!((attempts, events, nonces), (txs, 5 * txs, txs));
    }
    let node = options.start().await;
    let witness = backend.witness().await;
    eventually_within(Duration::from_secs(90), "everything to be removed", async || {
        (witness.counts().await == [0; 4]).then_some(())
    })
    .await;
    // As the chain will have it that the account has sent none, the cursor shows: it never moves.
    assert_eq!(node.signer(&account.to_string()).await["nextNonce"], COUNT);
}

on_both_stores!(
    what_is_over_is_gone_for_everybody,
    a_node_killed_while_it_removes_leaves_nothing_half,
);
