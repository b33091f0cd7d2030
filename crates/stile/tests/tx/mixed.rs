//! Bare nonces and transactions on one lane.

use futures::future::join_all;
use serde_json::Value;
use testkit::{Anvil, AnvilOptions};

use crate::common::StileProcess;
use crate::support::{Backend, transfer};

const EACH: u64 = 60;

/// A caller who signs and sends by itself.
async fn by_hand(node: &StileProcess, anvil: &Anvil, signer: &str) -> u64 {
    let hold = node.allocate(signer).await.ok();
    let nonce = hold["nonce"].as_u64().expect("a nonce");
    let hash = anvil.send_transfer(signer, Some(nonce)).await;
    node.used(&hold, &hash).await.ok();
    nonce
}

/// Both kinds at once, mined from the same account.
///
/// Fails if holds and transactions draw from different cursors, or if a nonce can be in two tables.
async fn hole_16b_bare_nonces_and_transactions_share_one_cursor(backend: Backend) {
    let options = AnvilOptions { block_time_seconds: Some(1), ..Default::default() };
    let anvil = Anvil::start(options).await;
    let signer = anvil.accounts().await.remove(0);
    let node = backend.node(anvil.url()).development_keys(1).start().await;
    let bodies: Vec<Value> = (1..=EACH).map(|wei| transfer(&signer, 1000 + wei)).collect();
    let managed = join_all(bodies.iter().map(|body| node.send_new(body)));
    let bare = join_all((0..EACH).map(|_| by_hand(&node, &anvil, &signer)));
    let (_, bare) = tokio::join!(managed, bare);

    let confirmed = node.all_confirmed(&signer, EACH as usize).await;
    let managed = confirmed.iter().map(|tx| tx["nonce"].as_u64().expect("a nonce"));
    let mut nonces: Vec<u64> = managed.chain(bare).collect();
    nonces.sort_unstable();
    assert_eq!(nonces, (0..2 * EACH).collect::<Vec<_>>(), "all different and none left out");
    let mined = anvil.transactions_of(&signer).await;
    assert!(mined.iter().map(|mined| mined.nonce).eq(0..2 * EACH), "{mined:?}");
}

on_both_stores!(hole_16b_bare_nonces_and_transactions_share_one_cursor);
