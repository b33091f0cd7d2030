//! What a block costs in chain calls, whatever is in flight.
//!
//! Fails if receipts are asked for transaction by transaction at every block, or if anything else
//! is asked per open transaction.

use std::collections::BTreeMap;

use serde_json::json;
use testkit::{Anvil, AnvilOptions, RpcProxy, eventually, eventually_within};

use crate::common::StileProcess;
use crate::support::{Backend, transfer};

/// Blocks that are counted.
const BLOCKS: u64 = 10;

/// What the chain asks for is asked beside the blocks, one question at a time: about once a block.
const FEES: [&str; 2] = ["eth_feeHistory", "eth_maxPriorityFeePerGas"];

/// What is asked by the clock and not by the block: a look at the endpoint twice a second, and now
/// and then whether it still knows the lowest transaction of each lane, and how each lane stands.
const BY_THE_CLOCK: [&str; 7] = [
    "eth_chainId",
    // After a moment in which the endpoint did not answer.
    "web3_clientVersion",
    "eth_blockNumber",
    "eth_getBlockByNumber",
    "eth_getTransactionByHash",
    "eth_getTransactionCount",
    "eth_getBalance",
];

/// Waits until the node knows what its endpoints can do: it does not ask for that any more.
async fn has_learned(node: &StileProcess) {
    eventually("the node to know its endpoints", async || {
        let chains = node.get("/api/v1/chains").await.ok();
        let rows = chains["items"][0]["endpoints"].as_array()?.iter().map(|endpoint| {
            let rows = endpoint["capabilities"].as_array()?;
            rows.iter().find(|row| row["name"] == LEARNED_LAST).cloned()
        });
        rows.into_iter()
            .all(|row| row.is_some_and(|row| row["supported"] != "unknown"))
            .then_some(())
    })
    .await;
}

/// What is found out last of an endpoint.
const LEARNED_LAST: &str = "estimate-on-pending";

/// How often each method is called while so many are in flight and blocks come without them.
async fn calls(backend: &Backend, in_flight: u64) -> BTreeMap<String, u64> {
    let anvil = Anvil::start(AnvilOptions { no_mining: true, ..Default::default() }).await;
    let proxy = RpcProxy::start(anvil.url()).await;
    let options = backend.node(&proxy.url()).development_keys(1);
    let node = options
        .set_literal("lane.max_in_flight", "10000")
        .set("tx.resubmit.interval", "1h")
        .set("confirmations.stale_receipt_timeout", "1h")
        .set("nonce.state_timeout", "1h")
        .start()
        .await;
    let signer = anvil.accounts().await.remove(0);
    let bodies: Vec<_> = (1..=in_flight).map(|wei| transfer(&signer, wei)).collect();
    node.send_all(&bodies).await;
    eventually_within(4 * testkit::DEADLINE, "all of them to be in the pool", async || {
        let open =
            node.has_any(&signer, "CREATED").await || node.has_any(&signer, "ALLOCATED").await;
        (!open && anvil.nonce(&signer, "pending").await == in_flight).then_some(())
    })
    .await;
    // From now on no transfer fits into a block.
    anvil.rpc("evm_setBlockGasLimit", json!(["0x5000"])).await;
    let mine = async || {
        anvil.mine(1).await;
        node.follows_to(anvil.height().await).await;
    };
    mine().await;
    has_learned(&node).await;
    proxy.reset();
    for _ in 0..BLOCKS {
        mine().await;
    }
    let counts = proxy.counts();
    assert_eq!(anvil.nonce(&signer, "latest").await, 0, "none was mined");
    assert_eq!(node.metric("stile_tx_in_flight").await, in_flight as f64);
    counts
}

/// How often each method is called at one of three endpoints until so many transactions of one block
/// are confirmed.
async fn calls_to_confirm(backend: &Backend, count: u64) -> BTreeMap<String, u64> {
    let anvil = Anvil::start(AnvilOptions { no_mining: true, ..Default::default() }).await;
    let proxy = RpcProxy::start(anvil.url()).await;
    let options = backend.node(anvil.url()).endpoint(anvil.url()).endpoint(&proxy.url());
    let node = options
        .development_keys(1)
        .set("tx.resubmit.interval", "1h")
        .set("confirmations.stale_receipt_timeout", "1h")
        .set("nonce.state_timeout", "1h")
        .start()
        .await;
    let signer = anvil.accounts().await.remove(0);
    let bodies: Vec<_> = (1..=count).map(|wei| transfer(&signer, wei)).collect();
    node.send_all(&bodies).await;
    eventually_within(4 * testkit::DEADLINE, "all of them to be in the pool", async || {
        (anvil.nonce(&signer, "pending").await == count).then_some(())
    })
    .await;
    has_learned(&node).await;
    proxy.reset();
    anvil.mine(4).await;
    node.all_confirmed(&signer, count as usize).await;
    proxy.counts()
}

/// Fails if the endpoints are asked for their votes transaction by transaction.
async fn a_vote_costs_as_many_calls_for_three_as_for_three_hundred(backend: Backend) {
    let other = match backend {
        Backend::Sqlite(_) => Backend::sqlite(),
        Backend::Postgres(_) => Backend::postgres().await,
    };
    let few = calls_to_confirm(&backend, 3).await;
    let many = calls_to_confirm(&other, 300).await;
    println!("few {few:?}\nmany {many:?}");
    for of in [&few, &many] {
        let count = |method: &str| of.get(method).copied().unwrap_or_default();
        assert_eq!(count("eth_getTransactionReceipt"), 0, "{of:?}");
        assert!((1..=2).contains(&count("eth_getBlockReceipts")), "{of:?}");
    }
}

async fn a_block_costs_as_many_calls_with_ten_as_with_ten_thousand_in_flight(backend: Backend) {
    let other = match backend {
        Backend::Sqlite(_) => Backend::sqlite(),
        Backend::Postgres(_) => Backend::postgres().await,
    };
    let few = calls(&backend, 10).await;
    let many = calls(&other, 10_000).await;
    println!("few {few:?}\nmany {many:?}");
    for method in few.keys().chain(many.keys()) {
        let count = |of: &BTreeMap<String, u64>| of.get(method).copied().unwrap_or_default();
        if !BY_THE_CLOCK.contains(&method.as_str()) && !FEES.contains(&method.as_str()) {
            assert_eq!(count(&few), count(&many), "{method} in {few:?} and in {many:?}");
        }
    }
    // What comes with the clock: each look costs the same, and what else there is does not count
    // by transactions.
    for of in [&few, &many] {
        let count = |method: &str| of.get(method).copied().unwrap_or_default();
        assert!(count("eth_chainId") >= BLOCKS, "{of:?}");
        assert!(count("eth_getBlockByNumber") <= count("eth_chainId") + 2 * BLOCKS, "{of:?}");
        assert!(count("eth_getTransactionByHash") <= count("eth_chainId"), "{of:?}");
        assert!(count("eth_blockNumber") <= count("eth_chainId"), "{of:?}");
        for method in FEES {
            assert!((1..=BLOCKS + 1).contains(&count(method)), "{method}: {of:?}");
        }
    }
}

on_both_stores!(
    a_block_costs_as_many_calls_with_ten_as_with_ten_thousand_in_flight,
    a_vote_costs_as_many_calls_for_three_as_for_three_hundred,
);
