//! Replaced blocks, and what becomes of their transactions.

use serde_json::{Value, json};

use crate::common::{Chain, manual, quantity, transfer};

/// A chain of five blocks, with a transaction in each of the last three.
async fn five() -> (Chain, Vec<Value>) {
    let chain = Chain::start(manual()).await;
    chain.mine(2).await;
    let mut sent = Vec::new();
    for nonce in 0..3 {
        sent.push(chain.send(&transfer(0, nonce)).await);
        chain.mine(1).await;
    }
    (chain, sent)
}

async fn places(chain: &Chain, sent: &[Value]) -> Vec<Option<u64>> {
    let mut places = Vec::new();
    for hash in sent {
        places.push(chain.mined_in(hash).await);
    }
    places
}

async fn hashes(chain: &Chain) -> Vec<Value> {
    let mut hashes = Vec::new();
    for number in 0..=chain.head().await {
        hashes.push(chain.block(format!("0x{number:x}")).await["hash"].clone());
    }
    hashes
}

#[tokio::test]
async fn kept_transactions_are_in_the_new_blocks() {
    let (chain, sent) = five().await;
    let old = hashes(&chain).await;
    let head = chain.rpc("dev_reorg", json!([{ "depth": 3 }])).await;
    let new = hashes(&chain).await;
    assert_eq!(new.len(), old.len() + 1, "one block longer");
    assert_eq!(new.last(), Some(&head));
    assert_eq!(new[..3], old[..3]);
    for number in 3..6 {
        assert_ne!(new[number], old[number]);
        let replaced = chain.rpc("eth_getBlockByHash", json!([old[number], false])).await;
        assert_eq!(quantity(&replaced["number"]), number as u64, "it can still be asked for");
        let params = json!([crate::common::TO, old[number]]);
        assert_eq!(chain.refused("eth_getBalance", params).await, "header not found");
    }
    assert_eq!(places(&chain, &sent).await, [Some(3), Some(4), Some(5)]);
    for (number, hash) in sent.iter().enumerate() {
        assert_eq!(chain.receipt(hash).await["blockHash"], new[number + 3]);
    }
    for number in 1..new.len() {
        let block = chain.block(format!("0x{number:x}")).await;
        assert_eq!(block["parentHash"], new[number - 1]);
    }
}

#[tokio::test]
async fn kept_transactions_can_move_to_later_blocks() {
    let (chain, sent) = five().await;
    chain.rpc("dev_reorg", json!([{ "depth": 3, "transactions": "keep", "later": 1 }])).await;
    assert_eq!(places(&chain, &sent).await, [Some(4), Some(5), Some(6)]);
    chain.rpc("dev_reorg", json!([{ "depth": 4, "length": 2, "later": 9 }])).await;
    assert_eq!(chain.head().await, 4, "a shorter one");
    assert_eq!(places(&chain, &sent).await, [Some(4), Some(4), Some(4)], "the last has the rest");
    chain.rpc("dev_reorg", json!([{ "depth": 1, "length": 0 }])).await;
    assert_eq!((chain.head().await, chain.waiting().await), (3, (3, 0)), "no block, so they wait");
}

#[tokio::test]
async fn dropped_transactions_are_nowhere() {
    let (chain, sent) = five().await;
    let waits = chain.send(&transfer(0, 3)).await;
    chain.rpc("dev_reorg", json!([{ "depth": 2, "transactions": "drop" }])).await;
    assert_eq!(chain.head().await, 6);
    assert_eq!(places(&chain, &sent).await, [Some(3), None, None]);
    assert!(chain.rpc("eth_getTransactionByHash", json!([sent[1]])).await.is_null());
    assert_eq!(chain.nonce(0, "pending").await, 1);
    assert_eq!(chain.waiting().await, (0, 1), "its nonces before it are missing");
    for nonce in 1..3 {
        chain.send(&transfer(0, nonce)).await;
    }
    chain.mine(1).await;
    assert_eq!(places(&chain, &sent).await, [Some(3), Some(7), Some(7)]);
    assert_eq!(chain.mined_in(&waits).await, Some(7));
}

#[tokio::test]
async fn delayed_transactions_wait_for_the_next_block() {
    let (chain, sent) = five().await;
    chain.rpc("dev_reorg", json!([{ "depth": 3, "transactions": "delay" }])).await;
    assert_eq!(places(&chain, &sent).await, [None; 3]);
    assert_eq!(chain.waiting().await, (3, 0));
    let waiting = chain.rpc("eth_getTransactionByHash", json!([sent[0]])).await;
    assert!(waiting["blockNumber"].is_null(), "{waiting}");
    assert_eq!((chain.nonce(0, "latest").await, chain.nonce(0, "pending").await), (0, 3));
    chain.mine(1).await;
    assert_eq!(places(&chain, &sent).await, [Some(7); 3]);
}

#[tokio::test]
async fn state_goes_back_with_the_blocks() {
    let (chain, _) = five().await;
    let to = json!([crate::common::TO, "latest"]);
    chain.rpc("dev_setBalance", json!([crate::common::TO, "0x64"])).await;
    assert_eq!(chain.rpc("eth_getBalance", to.clone()).await, "0x64");
    chain.rpc("dev_reorg", json!([{ "depth": 1, "transactions": "drop" }])).await;
    assert_eq!(chain.rpc("eth_getBalance", to.clone()).await, "0x2");
    assert_eq!(chain.nonce(0, "latest").await, 2);
    chain.rpc("dev_reorg", json!([{ "depth": 6, "transactions": "drop", "length": 1 }])).await;
    assert_eq!(chain.rpc("eth_getBalance", to).await, "0x0");
    assert_eq!((chain.head().await, chain.nonce(0, "latest").await), (1, 0));
    let refused = chain.refused("dev_reorg", json!([{ "depth": 2 }])).await;
    assert!(refused.contains("genesis cannot be replaced"), "{refused}");
    assert_eq!(chain.head().await, 1);
}
