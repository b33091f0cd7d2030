//! Old heads, lies, delays.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::common::{Chain, TO, manual, quantity, transfer};

#[tokio::test]
async fn an_old_head_is_old_in_every_answer() {
    let chain = Chain::start(manual()).await;
    let mut sent = Vec::new();
    for nonce in 0..4 {
        sent.push(chain.send(&transfer(0, nonce)).await);
        chain.mine(1).await;
    }
    let newest = chain.block("latest").await;
    chain.rpc("dev_oldHead", json!([2])).await;
    assert_eq!(chain.head().await, 2);
    assert_eq!(chain.block("latest").await["number"], "0x2");
    assert!(chain.block("0x3").await.is_null());
    assert!(chain.rpc("eth_getBlockByHash", json!([newest["hash"], false])).await.is_null());
    assert!(chain.rpc("eth_getBlockReceipts", json!(["0x4"])).await.is_null());
    assert_eq!(chain.mined_in(&sent[1]).await, Some(2));
    assert_eq!(chain.mined_in(&sent[2]).await, None);
    let tx = chain.rpc("eth_getTransactionByHash", json!([sent[2]])).await;
    assert!(tx["blockHash"].is_null(), "seen, but in no block: {tx}");
    assert_eq!((chain.nonce(0, "latest").await, chain.nonce(0, "pending").await), (2, 4));
    assert_eq!(chain.rpc("eth_getBalance", json!([TO, "latest"])).await, "0x2");
    assert_eq!(chain.refused("eth_getBalance", json!([TO, "0x3"])).await, "header not found");
    let history = chain.rpc("eth_feeHistory", json!(["0x1", "latest", []])).await;
    assert_eq!(history["oldestBlock"], "0x2");
    let logs = json!([{ "fromBlock": "0x0", "toBlock": "0x9" }]);
    assert_eq!(chain.rpc("eth_getLogs", logs).await, json!([]));
    chain.send(&transfer(0, 4)).await;
    chain.mine(1).await;
    assert_eq!(chain.head().await, 3, "as far behind as before");
    chain.rpc("dev_oldHead", json!([null])).await;
    assert_eq!((chain.head().await, chain.mined_in(&sent[2]).await), (5, Some(3)));
    chain.rpc("dev_oldHead", json!([99])).await;
    assert_eq!(chain.head().await, 0);
}

#[tokio::test]
async fn lies_are_told_as_often_as_was_asked_for() {
    let chain = Chain::start(manual()).await;
    let lie = json!([{ "method": "eth_blockNumber", "result": "0x63", "times": 2 }]);
    chain.rpc("dev_lie", lie).await;
    assert_eq!([chain.head().await, chain.head().await, chain.head().await], [99, 99, 0]);
    let error = json!({ "code": -32005, "message": "rate limited", "data": { "see": "docs" } });
    chain.rpc("dev_lie", json!([{ "method": "eth_chainId", "error": error }])).await;
    for _ in 0..3 {
        assert_eq!(chain.ask("eth_chainId", json!([])).await.unwrap_err(), error);
    }
    chain.rpc("dev_lie", json!([{ "method": "eth_chainId", "result": null, "times": 1 }])).await;
    assert!(chain.rpc("eth_chainId", json!([])).await.is_null());
    assert!(chain.ask("eth_chainId", json!([])).await.is_err());
    chain.rpc("dev_honest", json!([])).await;
    assert_eq!(chain.rpc("eth_chainId", json!([])).await, "0x7a69");
    for bad in [
        json!([{ "method": "dev_mine", "result": 1 }]),
        json!([{ "method": "eth_chainId" }]),
        json!([{ "method": "eth_chainId", "result": 1, "error": 1 }]),
        json!([{ "method": "eth_chainId", "result": 1, "times": 0 }]),
        json!([{ "method": "eth_chainId", "result": 1, "time": 1 }]),
    ] {
        assert_eq!(chain.ask("dev_lie", bad).await.unwrap_err()["code"], -32602);
    }
}

#[tokio::test]
async fn answers_come_late_and_are_as_old_as_that() {
    let chain = Chain::start(manual()).await;
    let late = Duration::from_millis(400);
    let delay = json!([{ "methods": ["eth_blockNumber"], "milliseconds": 400 }]);
    chain.rpc("dev_delay", delay).await;
    let start = Instant::now();
    let (old, ()) = tokio::join!(chain.head(), async {
        // The question is asked first, and answered after the block was made.
        tokio::time::sleep(late / 4).await;
        chain.mine(1).await;
    });
    assert!(start.elapsed() >= late);
    assert_eq!(old, 0, "the answer is from before the delay");
    chain.rpc("dev_delay", json!([{ "methods": null, "milliseconds": 300 }])).await;
    let start = Instant::now();
    assert_eq!(quantity(&chain.rpc("eth_chainId", json!([])).await), 31337);
    assert!(start.elapsed() >= Duration::from_millis(300));
    chain.rpc("dev_honest", json!([])).await;
    assert_eq!(chain.head().await, 1);
}

#[tokio::test]
async fn a_chain_ends_even_if_answers_are_late() {
    let chain = Chain::start(manual()).await;
    let url = chain.chain.url();
    let delay = json!([{ "methods": ["eth_chainId"], "milliseconds": 600_000 }]);
    chain.rpc("dev_delay", delay).await;
    let asking = tokio::spawn(async move {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_chainId" });
        client.post(url).json(&request).send().await.unwrap().text().await.unwrap()
    });
    // Until the question is there; it is answered as soon as the chain ends.
    tokio::time::sleep(Duration::from_millis(200)).await;
    chain.chain.stop().await;
    assert!(asking.await.unwrap().contains("0x7a69"));
}
