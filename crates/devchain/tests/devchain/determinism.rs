//! The same calls make the same blocks.

use alloy_primitives::TxKind;
use serde_json::{Value, json};
use stile_devchain::accounts::ALL;
use stile_devchain::{Options, counter};

use crate::common::{Chain, TO, manual, sign, transfer, with_data};

/// A bit of everything, and the hashes of the blocks it makes.
async fn history(options: Options) -> Vec<Value> {
    let chain = Chain::start(options).await;
    chain.send(&sign(0, with_data(0, TxKind::Create, counter::CREATION))).await;
    chain.mine(3).await;
    let contract = TxKind::Call(ALL[0].address.create(0));
    for account in 1..6 {
        chain.send(&sign(account, with_data(0, contract, &counter::INCREMENT))).await;
        chain.send(&transfer(account, 1)).await;
    }
    chain.mine(1).await;
    chain.rpc("dev_setBalance", json!([TO, "0x99"])).await;
    chain.send(&transfer(6, 0)).await;
    chain.mine(2).await;
    chain.rpc("dev_reorg", json!([{ "depth": 2, "transactions": "keep" }])).await;
    chain.rpc("dev_setBaseFee", json!(["0x3b9aca00"])).await;
    chain.mine(2).await;
    let mut hashes = Vec::new();
    for number in 0..=chain.head().await {
        hashes.push(chain.block(format!("0x{number:x}")).await["hash"].clone());
    }
    hashes
}

#[tokio::test]
async fn the_same_calls_make_the_same_blocks() {
    let first = history(manual()).await;
    assert_eq!(first.len(), 10);
    assert_eq!(history(manual()).await, first);
    let other = history(Options { seed: 1, ..manual() }).await;
    assert_ne!(other[0], first[0], "another seed is another chain");
    let accounts = vec![(ALL[0].address, alloy_primitives::U256::MAX); 1];
    let poorer = Chain::start(Options { accounts, ..manual() }).await;
    assert_ne!(poorer.block("0x0").await["hash"], first[0]);
}
