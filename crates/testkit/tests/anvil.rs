//! A private development chain.

use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use serde_json::json;
use testkit::{Anvil, AnvilOptions, eventually};

#[tokio::test]
async fn a_transaction_is_mined_at_once_by_default() {
    let anvil = Anvil::start(AnvilOptions::default()).await;
    assert_eq!(anvil.rpc("eth_chainId", json!([])).await, "0x7a69");
    let accounts = anvil.accounts().await;
    assert_eq!(accounts.len(), 10);

    let hash = anvil.send_transfer(&accounts[0], None).await;
    let receipt = eventually("the receipt", async || {
        let receipt = anvil.rpc("eth_getTransactionReceipt", json!([hash])).await;
        (!receipt.is_null()).then_some(receipt)
    });
    assert_eq!(receipt.await["status"], "0x1");
    assert_eq!(anvil.nonce(&accounts[0], "latest").await, 1);
}

#[tokio::test]
async fn without_mining_blocks_come_when_asked_for() {
    let options = AnvilOptions { no_mining: true, chain_id: 5, accounts: 2, ..Default::default() };
    let anvil = Anvil::start(options).await;
    assert_eq!(anvil.rpc("eth_chainId", json!([])).await, "0x5");
    let accounts = anvil.accounts().await;
    assert_eq!(accounts.len(), 2);

    anvil.send_transfer(&accounts[1], Some(0)).await;
    assert_eq!(anvil.nonce(&accounts[1], "latest").await, 0);
    assert_eq!(anvil.nonce(&accounts[1], "pending").await, 1);
    anvil.mine(3).await;
    assert_eq!(anvil.height().await, 3);
    assert_eq!(anvil.nonce(&accounts[1], "latest").await, 1);
}

#[tokio::test]
async fn with_a_block_time_blocks_come_by_themselves() {
    let options = AnvilOptions { block_time_seconds: Some(1), ..Default::default() };
    let anvil = Anvil::start(options).await;
    eventually("two blocks", async || (anvil.height().await >= 2).then_some(())).await;
}

#[tokio::test]
async fn an_error_ends_the_test_with_its_text() {
    let anvil = Anvil::start(AnvilOptions::default()).await;
    let call = AssertUnwindSafe(anvil.rpc("eth_noSuchMethod", json!([])));
    let panic = call.catch_unwind().await.expect_err("an error");
    let message = panic.downcast_ref::<String>().expect("a message");
    assert!(message.contains("eth_noSuchMethod: {"), "{message}");
}
