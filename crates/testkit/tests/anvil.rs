//! A private development chain.

use std::panic::AssertUnwindSafe;

use alloy_primitives::U256;
use futures::FutureExt;
use serde_json::json;
use testkit::{Anvil, AnvilOptions, Mined, eventually};

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

#[tokio::test]
async fn the_keys_are_those_of_the_accounts() {
    let anvil = Anvil::start(AnvilOptions::default()).await;
    let printed = anvil.process().stdout();
    for account in 0..10 {
        let line = format!("({account}) {}", Anvil::key(account));
        assert!(printed.lines().any(|printed| printed == line), "no {line} in\n{printed}");
    }
}

#[tokio::test]
async fn a_balance_is_what_it_was_set_to() {
    let anvil = Anvil::start(AnvilOptions::default()).await;
    let account = anvil.accounts().await.remove(0);
    assert_eq!(anvil.balance(&account).await, U256::from(10).pow(U256::from(22)));
    anvil.set_balance(&account, U256::from(17)).await;
    assert_eq!(anvil.balance(&account).await, U256::from(17));
}

#[tokio::test]
async fn every_transaction_of_an_account_is_found_in_its_block() {
    let anvil = Anvil::start(AnvilOptions { no_mining: true, ..Default::default() }).await;
    let accounts = anvil.accounts().await;
    let mut sent = Vec::new();
    for (nonce, block) in [(0, 1), (1, 1), (2, 2)] {
        let hash = anvil.send_transfer(&accounts[0], Some(nonce)).await;
        anvil.send_transfer(&accounts[1], Some(nonce)).await;
        let from = accounts[0].to_lowercase();
        sent.push(Mined { from, nonce, hash, block, value: U256::from(1) });
        if nonce > 0 {
            anvil.mine(1).await;
        }
    }
    assert_eq!(anvil.transactions_of(&accounts[0]).await, sent);
    assert_eq!(anvil.transactions().await.len(), 6);
    assert_eq!(anvil.transactions_of(&accounts[1]).await.len(), 3);
    assert_eq!(anvil.transactions_of(&accounts[2]).await, []);
    let block = anvil.block(2).await.expect("a block");
    assert_eq!(block["transactions"].as_array().map(Vec::len), Some(2));
    assert_eq!(anvil.block(3).await, None);
    assert_eq!(anvil.receipt(&sent[2].hash).await.expect("a receipt")["blockHash"], block["hash"]);
    assert_eq!(anvil.receipt(&format!("{:#066x}", 5)).await, None);
}

/// What a reorganisation does with a transaction: gone, kept in its block, moved to another.
#[tokio::test]
async fn a_reorg_drops_keeps_and_moves() {
    let anvil = Anvil::start(AnvilOptions { no_mining: true, ..Default::default() }).await;
    let account = anvil.accounts().await.remove(0);
    anvil.mine(1).await;
    let hash = anvil.send_transfer(&account, Some(0)).await;
    anvil.mine(3).await;
    let raw = anvil.raw_transaction(&hash).await.expect("its bytes");
    let mined_in = async || Some(anvil.receipt(&hash).await?["blockNumber"].clone());
    assert_eq!(mined_in().await, Some(json!("0x2")));
    let before = anvil.block(2).await.expect("a block")["hash"].clone();

    anvil.reorg(3, &[(&raw, 0)]).await;
    assert_eq!((anvil.height().await, mined_in().await), (4, Some(json!("0x2"))), "kept");
    assert_ne!(anvil.block(2).await.expect("a block")["hash"], before);
    anvil.reorg(3, &[(&raw, 2)]).await;
    assert_eq!((anvil.height().await, mined_in().await), (4, Some(json!("0x4"))), "moved");
    anvil.reorg(2, &[]).await;
    assert_eq!((anvil.height().await, mined_in().await), (4, None), "dropped");
    assert_eq!(anvil.raw_transaction(&hash).await, None, "from the pool too");
    assert_eq!(anvil.send_raw(&raw).await, hash);
    anvil.mine(1).await;
    anvil.rollback(2).await;
    assert_eq!((anvil.height().await, mined_in().await), (3, None), "rolled back");
}

#[tokio::test]
async fn blocks_come_as_they_are_wanted_and_the_pool_can_be_emptied() {
    let anvil = Anvil::start(AnvilOptions { no_mining: true, ..Default::default() }).await;
    let account = anvil.accounts().await.remove(0);
    anvil.send_transfer(&account, None).await;
    anvil.drop_all_transactions().await;
    assert_eq!(anvil.nonce(&account, "pending").await, 0);
    anvil.set_automine(true).await;
    anvil.send_transfer(&account, None).await;
    eventually("a block for it", async || (anvil.height().await == 1).then_some(())).await;
    anvil.set_automine(false).await;
    anvil.set_interval_mining(1).await;
    eventually("two more", async || (anvil.height().await >= 3).then_some(())).await;
}

#[tokio::test]
async fn the_contract_stores_a_number_and_reverts_for_zero() {
    let anvil = Anvil::start(AnvilOptions::default()).await;
    let account = anvil.accounts().await.remove(0);
    let contract = anvil.deploy_contract(&account).await;
    let call =
        |number| json!([{ "from": account, "to": contract, "data": Anvil::contract_call(number) }]);
    anvil.rpc("eth_sendTransaction", call(42)).await;
    let stored = async || anvil.contract_value(&contract).await;
    eventually("the number", async || (stored().await == U256::from(42)).then_some(())).await;

    let reverted = AssertUnwindSafe(anvil.rpc("eth_estimateGas", call(0))).catch_unwind();
    let panic = reverted.await.expect_err("a revert");
    let message = panic.downcast_ref::<String>().expect("a message");
    assert!(message.contains("execution reverted: zero"), "{message}");
}

#[tokio::test]
async fn a_chain_is_restarted_from_an_old_state_at_the_same_address() {
    let options =
        AnvilOptions { no_mining: true, port: testkit::free_port(), ..Default::default() };
    let mut anvil = Anvil::start(options).await;
    let account = anvil.accounts().await.remove(0);
    anvil.send_transfer(&account, None).await;
    anvil.mine(2).await;
    let (state, url, block) =
        (anvil.dump_state().await, anvil.url().to_owned(), anvil.block(2).await.unwrap());
    anvil.send_transfer(&account, None).await;
    anvil.mine(2).await;
    anvil.restart(&state).await;
    assert_eq!((anvil.url(), anvil.height().await), (url.as_str(), 2));
    assert_eq!(anvil.block(2).await.unwrap()["hash"], block["hash"]);
    assert_eq!(anvil.nonce(&account, "pending").await, 1);
}
