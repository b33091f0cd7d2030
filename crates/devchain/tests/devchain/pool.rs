//! What is taken, what waits, what replaces what.

use alloy::consensus::{TxEip1559, TxEip2930, TxLegacy};
use alloy_primitives::{Address, TxKind, U256};
use serde_json::json;
use stile_devchain::accounts::ALL;
use stile_devchain::{Blocks, Options};

use crate::common::{Chain, GWEI, TO, amount, base, manual, priced, quantity, sign, transfer};

#[tokio::test]
async fn nonces_wait_for_those_before_them() {
    let chain = Chain::start(manual()).await;
    let late = chain.send(&transfer(0, 2)).await;
    let early = chain.send(&transfer(0, 0)).await;
    assert_eq!(chain.waiting().await, (1, 1));
    assert_eq!(chain.nonce(0, "pending").await, 1);
    let pending = chain.rpc("eth_getTransactionByHash", json!([late])).await;
    assert!(pending["blockHash"].is_null(), "{pending}");
    chain.mine(1).await;
    assert_eq!((chain.mined_in(&early).await, chain.mined_in(&late).await), (Some(1), None));
    assert_eq!(chain.waiting().await, (0, 1));
    chain.send(&transfer(0, 1)).await;
    assert_eq!(chain.nonce(0, "pending").await, 3);
    assert_eq!(chain.nonce(0, "latest").await, 1);
    chain.mine(1).await;
    assert_eq!(chain.mined_in(&late).await, Some(2));
    assert_eq!(chain.waiting().await, (0, 0));
    assert_eq!(chain.nonce(0, "latest").await, 3);
}

#[tokio::test]
async fn a_replacement_offers_a_tenth_more_of_both() {
    let chain = Chain::start(manual()).await;
    let old = chain.send(&sign(0, priced(0, 20, 10))).await;
    for (fee, tip) in [(21, 11), (22, 10), (21, 12), (40, 10), (10, 5)] {
        let refused =
            chain.refused("eth_sendRawTransaction", json!([sign(0, priced(0, fee, tip))]));
        assert_eq!(refused.await, "replacement transaction underpriced", "{fee} {tip}");
    }
    let new = chain.send(&sign(0, priced(0, 22, 11))).await;
    assert!(chain.rpc("eth_getTransactionByHash", json!([old])).await.is_null());
    chain.mine(1).await;
    assert_eq!(chain.mined_in(&new).await, Some(1));
}

#[tokio::test]
async fn the_best_tips_go_first_and_the_same_in_order_of_arrival() {
    let chain = Chain::start(manual()).await;
    let mut sent = Vec::new();
    for (account, fee, tip) in [(0, 20, 1), (1, 20, 3), (2, 20, 3), (3, 2, 2)] {
        sent.push(chain.send(&sign(account, priced(0, fee, tip))).await);
    }
    // A later nonce cannot go before an earlier one, whatever it offers.
    sent.push(chain.send(&sign(0, priced(1, 90, 80))).await);
    chain.mine(1).await;
    // The base fee leaves the fourth 2 - 0.875 gwei, which is more than the first offers.
    let order: Vec<_> = [1, 2, 3, 0, 4].map(|n: usize| sent[n].clone()).into();
    assert_eq!(chain.block("latest").await["transactions"], json!(order));
    let receipts = chain.rpc("eth_getBlockReceipts", json!(["latest"])).await;
    let prices: Vec<u64> = (0..5).map(|n| quantity(&receipts[n]["effectiveGasPrice"])).collect();
    let base_fee = quantity(&chain.block("latest").await["baseFeePerGas"]);
    let gwei = GWEI as u64;
    let tips = [3 * gwei, 3 * gwei, 2 * gwei - base_fee, gwei, 80 * gwei];
    assert_eq!(prices, tips.map(|tip| tip + base_fee));
    let miner = chain.rpc("eth_getBalance", json!([Address::ZERO, "latest"])).await;
    assert_eq!(amount(&miner), U256::from(21_000 * tips.iter().sum::<u64>()));
}

#[tokio::test]
async fn what_does_not_offer_the_base_fee_waits_for_it() {
    let chain = Chain::start(manual()).await;
    chain.rpc("dev_setBaseFee", json!(["0x2540be400"])).await;
    let cheap = chain.send(&sign(0, priced(0, 5, 1))).await;
    let after = chain.send(&sign(0, priced(1, 50, 1))).await;
    let fine = chain.send(&sign(1, priced(0, 12, 1))).await;
    chain.mine(2).await;
    assert_eq!(chain.mined_in(&fine).await, Some(1));
    assert_eq!((chain.mined_in(&cheap).await, chain.mined_in(&after).await), (None, None));
    assert_eq!(chain.waiting().await, (2, 0));
    assert_eq!(quantity(&chain.block("latest").await["baseFeePerGas"]), 10_000_000_000);
    chain.rpc("dev_setBaseFee", json!([null])).await;
    for _ in 0..9 {
        chain.mine(1).await;
    }
    assert_eq!(chain.mined_in(&cheap).await, chain.mined_in(&after).await);
    assert!(chain.mined_in(&cheap).await.is_some(), "an eighth less with each empty block");
}

#[tokio::test]
async fn what_cannot_ever_be_mined_is_refused() {
    let chain = Chain::start(manual()).await;
    chain.send(&transfer(0, 0)).await;
    chain.mine(1).await;
    chain.send(&transfer(0, 1)).await;
    let ether = U256::from(10).pow(U256::from(18));
    let rich = |ethers: u64, nonce| TxEip1559 { value: ether * U256::from(ethers), ..base(nonce) };
    let legacy = TxLegacy {
        chain_id: None,
        gas_price: 20 * GWEI,
        gas_limit: 21_000,
        to: TxKind::Call(TO),
        ..TxLegacy::default()
    };
    for (raw, expected) in [
        (transfer(0, 1), "already known"),
        (transfer(0, 0), "nonce too low: next nonce 1, tx nonce 0"),
        (sign(1, rich(10_000, 0)), "insufficient funds for gas * price + value: balance 1"),
        (sign(1, TxEip1559 { gas_limit: 20_999, ..base(0) }), "intrinsic gas too low: gas 20999"),
        (sign(1, TxEip1559 { gas_limit: 60_000_001, ..base(0) }), "exceeds block gas limit"),
        (sign(1, priced(0, 1, 2)), "max priority fee per gas higher than max fee per gas"),
        (sign(1, TxEip1559 { chain_id: 1, ..base(0) }), "invalid sender: invalid chain id"),
        (sign(1, legacy), "only replay-protected (EIP-155) transactions allowed over RPC"),
        ("0x03c0".to_owned(), "transaction type not supported: this chain has no blobs"),
        ("0x04c0".to_owned(), "transaction type not supported: this chain has no authorizations"),
        ("0x02c0".to_owned(), "rlp: "),
        ("0x".to_owned(), "typed transaction too short"),
    ] {
        let refused = chain.refused("eth_sendRawTransaction", json!([raw])).await;
        assert!(refused.starts_with(expected), "{refused}, not {expected}");
    }
    // All that waits has to be payable together.
    chain.send(&sign(2, rich(6_000, 0))).await;
    let refused = chain.refused("eth_sendRawTransaction", json!([sign(2, rich(6_000, 1))])).await;
    assert!(refused.contains("queued cost"), "{refused}");
    chain.send(&sign(2, rich(3_000, 1))).await;
    assert_eq!(chain.waiting().await, (3, 0));
}

#[tokio::test]
async fn every_kind_of_transaction_is_mined() {
    let chain = Chain::start(Options { blocks: Blocks::Instant, ..manual() }).await;
    let legacy = TxLegacy {
        chain_id: Some(31337),
        gas_price: 20 * GWEI,
        gas_limit: 21_000,
        to: TxKind::Call(TO),
        value: U256::from(1),
        ..TxLegacy::default()
    };
    let with_list = TxEip2930 {
        chain_id: 31337,
        nonce: 1,
        gas_price: 20 * GWEI,
        gas_limit: 21_000,
        to: TxKind::Call(TO),
        value: U256::from(1),
        ..TxEip2930::default()
    };
    for (kind, raw) in
        [("0x0", sign(0, legacy)), ("0x1", sign(0, with_list)), ("0x2", transfer(0, 2))]
    {
        let hash = chain.send(&raw).await;
        let receipt = chain.receipt(&hash).await;
        assert_eq!((&receipt["type"], &receipt["status"]), (&json!(kind), &json!("0x1")));
        let tx = chain.rpc("eth_getTransactionByHash", json!([hash])).await;
        assert_eq!((&tx["type"], &tx["from"]), (&json!(kind), &json!(ALL[0].address)));
        assert_eq!(tx["gasPrice"], receipt["effectiveGasPrice"]);
    }
    assert_eq!(chain.head().await, 3, "a block for each");
    let got = chain.rpc("eth_getBalance", json!([TO, "latest"])).await;
    assert_eq!(amount(&got), U256::from(3));
}

#[tokio::test]
async fn blocks_come_as_often_as_was_asked_for() {
    let chain = Chain::start(Options { blocks: Blocks::Instant, ..manual() }).await;
    chain.send(&transfer(0, 1)).await;
    assert_eq!(chain.head().await, 0, "it cannot be mined yet");
    chain.send(&transfer(0, 0)).await;
    assert_eq!(chain.head().await, 2, "one for each that can");
    chain.rpc("dev_setBlocks", json!(["manual"])).await;
    let waits = chain.send(&transfer(0, 2)).await;
    assert_eq!((chain.head().await, chain.mined_in(&waits).await), (2, None));
    chain.rpc("dev_setBlocks", json!(["instant"])).await;
    assert_eq!((chain.head().await, chain.mined_in(&waits).await), (3, Some(3)));
    chain.rpc("dev_setBlocks", json!([10])).await;
    testkit::eventually("blocks come by themselves", async || {
        (chain.head().await > 5).then_some(())
    })
    .await;
    chain.rpc("dev_setBlocks", json!(["manual"])).await;
    assert_eq!(chain.rpc("evm_mine", json!([])).await, "0x0");
}

#[tokio::test]
async fn what_is_dropped_is_gone() {
    let chain = Chain::start(manual()).await;
    let mut sent = Vec::new();
    for nonce in 0..4 {
        sent.push(chain.send(&transfer(0, nonce)).await);
    }
    let unknown = format!("0x{:064x}", 1);
    assert_eq!(chain.rpc("dev_dropTransactions", json!([[sent[1], unknown]])).await, "0x1");
    assert_eq!(chain.waiting().await, (1, 2));
    chain.mine(1).await;
    assert_eq!(chain.nonce(0, "pending").await, 1);
    assert_eq!(chain.rpc("dev_dropTransactions", json!([null])).await, "0x2");
    assert_eq!(chain.waiting().await, (0, 0));
    chain.send(&transfer(0, 1)).await;
    chain.mine(1).await;
    assert_eq!(chain.mined_in(&sent[1]).await, Some(2), "the same bytes are taken again");
}
