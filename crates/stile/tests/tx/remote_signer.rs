//! A signer in another process that is slow, and one that is away.

use std::time::Duration;

use futures::future::join_all;
use serde_json::Value;
use testkit::{Anvil, AnvilOptions, RpcProxy, eventually, eventually_within};

use crate::common::StileProcess;
use crate::support::{Backend, assert_mined_once, id, transfer};

const SIGN: &str = "eth_signTransaction";
const COUNT: u64 = 200;

struct Setup {
    anvil: Anvil,
    /// Before the signer, which is the chain node with its unlocked accounts; what is sent to the
    /// chain goes past it.
    remote: RpcProxy,
    node: StileProcess,
    signer: String,
}

impl Setup {
    async fn new(backend: &Backend) -> Self {
        let options = AnvilOptions { block_time_seconds: Some(1), ..Default::default() };
        let anvil = Anvil::start(options).await;
        let remote = RpcProxy::start(anvil.url()).await;
        let signer = anvil.accounts().await.remove(0);
        let options = backend.node(anvil.url()).remote_signer(&remote.url(), &signer);
        Self { node: options.start().await, anvil, remote, signer }
    }
}

/// A burst while every signature takes 200 ms, with an outage of twenty blocks in the middle.
///
/// Fails if accepting waits for a signature, if a failed signature drops or reorders what waits,
/// or if signatures that run ahead are committed past one that is missing.
async fn a_slow_signer_that_goes_away_loses_nothing_and_keeps_the_order(backend: Backend) {
    let setup = Setup::new(&backend).await;
    setup.remote.delay(SIGN, Duration::from_millis(200));
    let mut accepted = Vec::new();
    for wei in 1..=COUNT {
        if wei == COUNT / 4 {
            setup.remote.refuse().await;
        }
        accepted.push(setup.node.send_new(&transfer(&setup.signer, wei)).await);
    }
    let away_at = setup.anvil.height().await;
    assert!(setup.node.has_any(&setup.signer, "CREATED").await, "answered without a signature");
    eventually_within(Duration::from_secs(60), "twenty blocks without a signer", async || {
        (setup.anvil.height().await >= away_at + 20).then_some(())
    })
    .await;
    assert!(setup.node.has_any(&setup.signer, "CREATED").await, "nobody signed");
    assert!(!setup.node.has_any(&setup.signer, "FAILED").await, "no timer gives up");
    setup.remote.heal().await;

    let confirmed = setup.node.all_confirmed(&setup.signer, COUNT as usize).await;
    let order: Vec<&str> = confirmed.iter().map(id).collect();
    assert_eq!(order, accepted.iter().map(id).collect::<Vec<_>>());
    let nonces: Vec<u64> = confirmed.iter().filter_map(|tx| tx["nonce"].as_u64()).collect();
    assert_eq!(nonces, (0..COUNT).collect::<Vec<_>>(), "in the order of acceptance");
    assert_mined_once(&setup.anvil, &setup.signer, &confirmed).await;
}

/// A bare nonce is asked for while transactions wait for their signatures, which were asked for
/// with nonces in them.
///
/// Fails if the nonces that are being signed for are not taken out of the cursor's way, or if the
/// commit does not compare the cursor with what was planned.
async fn hole_16a_a_bare_nonce_during_a_slow_signature_makes_no_hole(backend: Backend) {
    let setup = Setup::new(&backend).await;
    setup.remote.hold(SIGN);
    let bodies: Vec<Value> = (1..=10).map(|wei| transfer(&setup.signer, wei)).collect();
    for body in &bodies[..5] {
        setup.node.send_new(body).await;
    }
    eventually("a signature to be under way", async || {
        (setup.remote.count(SIGN) > 0).then_some(())
    })
    .await;
    let allocations = join_all((0..3).map(|_| setup.node.allocate(&setup.signer)));
    let others = async {
        for body in &bodies[5..] {
            setup.node.send_new(body).await;
        }
        setup.remote.release();
    };
    let (holds, ()) = tokio::join!(allocations, others);
    let holds: Vec<Value> = holds.iter().map(|hold| hold.ok()).collect();
    let txs = eventually("every transaction to have a nonce", async || {
        let txs = setup.node.txs(&setup.signer).await;
        txs.iter().all(|tx| tx["nonce"].is_u64()).then_some(txs)
    })
    .await;

    let nonce = |value: &Value| value["nonce"].as_u64().unwrap();
    let mut nonces: Vec<u64> = txs.iter().chain(&holds).map(nonce).collect();
    nonces.sort_unstable();
    assert_eq!(nonces, (0..13).collect::<Vec<_>>(), "all different and none left out");
    let of_txs: Vec<u64> = txs.iter().map(nonce).collect();
    assert!(of_txs.is_sorted(), "in the order of acceptance: {of_txs:?}");

    // The callers of the bare nonces send, and nothing is in anybody's way.
    for hold in &holds {
        let hash = setup.anvil.send_transfer(&setup.signer, Some(nonce(hold))).await;
        setup.node.used(hold, &hash).await.ok();
    }
    setup.node.all_confirmed(&setup.signer, 10).await;
    let mined = setup.anvil.transactions_of(&setup.signer).await;
    assert!(mined.iter().map(|mined| mined.nonce).eq(0..13), "{mined:?}");
}

on_both_stores!(
    a_slow_signer_that_goes_away_loses_nothing_and_keeps_the_order,
    hole_16a_a_bare_nonce_during_a_slow_signature_makes_no_hole,
);
