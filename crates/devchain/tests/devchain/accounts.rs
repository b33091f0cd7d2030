//! Sending from the chain's own accounts.

use alloy_primitives::hex;
use serde_json::json;
use stile_devchain::accounts::ALL;
use stile_devchain::{Blocks, Options, counter};

use crate::common::{Chain, TO, manual, quantity};

#[tokio::test]
async fn what_is_missing_is_filled_in() {
    let chain = Chain::start(Options { blocks: Blocks::Instant, ..manual() }).await;
    let from = ALL[4].address;
    let accounts = chain.rpc("eth_accounts", json!([])).await;
    assert_eq!(accounts[4], json!(from));
    let plain = json!([{ "from": from, "to": TO, "value": "0x5" }]);
    let hash = chain.rpc("eth_sendTransaction", plain).await;
    let tx = chain.rpc("eth_getTransactionByHash", json!([hash])).await;
    assert_eq!((&tx["type"], &tx["gas"]), (&json!("0x2"), &json!("0x5208")));
    assert_eq!(chain.mined_in(&hash).await, Some(1));
    let data = hex::encode_prefixed(counter::CREATION);
    let legacy = json!([{ "from": from, "data": data, "gasPrice": "0x77359400" }]);
    let hash = chain.rpc("eth_sendTransaction", legacy).await;
    let receipt = chain.receipt(&hash).await;
    assert_eq!((&receipt["type"], &receipt["status"]), (&json!("0x0"), &json!("0x1")));
    assert_eq!(receipt["contractAddress"], json!(from.create(1)));
    let list = json!([{ "address": TO, "storageKeys": [] }]);
    let with_list =
        json!([{ "from": from, "to": TO, "gasPrice": "0x77359400", "accessList": list }]);
    let hash = chain.rpc("eth_sendTransaction", with_list).await;
    let tx = chain.rpc("eth_getTransactionByHash", json!([hash])).await;
    assert_eq!((&tx["type"], &tx["accessList"]), (&json!("0x1"), &list));
    assert_eq!(quantity(&tx["gas"]), 21_000 + 2_400);
}

#[tokio::test]
async fn fees_are_those_that_were_asked_for() {
    let chain = Chain::start(manual()).await;
    for (fees, tip, fee) in [
        (json!({}), 1_000_000_000, 2_750_000_000),
        (json!({ "maxPriorityFeePerGas": "0x7" }), 7, 1_750_000_007),
        (json!({ "maxFeePerGas": "0x3b9aca00" }), 1_000_000_000, 1_000_000_000),
        (json!({ "maxFeePerGas": "0x3b9ac9ff" }), 999_999_999, 999_999_999),
        (json!({ "maxFeePerGas": "0x77359400", "maxPriorityFeePerGas": "0x0" }), 0, 2_000_000_000),
    ] {
        let mut request = json!({ "from": ALL[0].address, "to": TO });
        request.as_object_mut().unwrap().extend(fees.as_object().unwrap().clone());
        let tx = chain.rpc("eth_signTransaction", json!([request])).await["tx"].take();
        let found = (quantity(&tx["maxPriorityFeePerGas"]), quantity(&tx["maxFeePerGas"]));
        assert_eq!(found, (tip, fee), "{fees}");
    }
}

#[tokio::test]
async fn signing_does_not_send() {
    let chain = Chain::start(manual()).await;
    let request = json!([{ "from": ALL[0].address, "to": TO, "value": "0x1", "nonce": "0x0",
        "gas": "0x5208", "maxFeePerGas": "0x77359400", "maxPriorityFeePerGas": "0x1" }]);
    let signed = chain.rpc("eth_signTransaction", request).await;
    assert_eq!(chain.waiting().await, (0, 0));
    let hash = chain.rpc("eth_sendRawTransaction", json!([signed["raw"]])).await;
    assert_eq!(hash, signed["tx"]["hash"]);
    assert_eq!(chain.waiting().await, (1, 0));
    let other = json!([{ "from": TO, "to": TO }]);
    assert_eq!(chain.refused("eth_sendTransaction", other).await, "unknown account");
    let elsewhere = json!([{ "from": ALL[0].address, "to": TO, "chainId": "0x1" }]);
    let refused = chain.refused("eth_sendTransaction", elsewhere).await;
    assert!(refused.starts_with("chainId does not match"), "{refused}");
}

#[tokio::test]
async fn two_at_once_get_two_nonces() {
    let chain = std::sync::Arc::new(Chain::start(manual()).await);
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let chain = std::sync::Arc::clone(&chain);
        let request = json!([{ "from": ALL[0].address, "to": TO, "value": "0x1" }]);
        callers.spawn(async move { chain.rpc("eth_sendTransaction", request).await });
    }
    callers.join_all().await;
    assert_eq!(chain.waiting().await, (20, 0));
    chain.mine(1).await;
    assert_eq!(chain.nonce(0, "latest").await, 20);
}
