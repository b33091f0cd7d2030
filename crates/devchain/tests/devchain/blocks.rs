//! Headers, roots, fees, tags.

use alloy::consensus::proofs::{calculate_receipt_root, calculate_transaction_root};
use alloy::consensus::{
    Eip658Value, Header, Receipt, ReceiptEnvelope, ReceiptWithBloom, TxEnvelope,
};
use alloy::eips::eip2718::Decodable2718;
use alloy_primitives::{Address, B64, B256, Bloom, Bytes, Log, TxKind, U256, hex};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use stile_devchain::{Options, counter};

use crate::common::{Chain, amount, manual, quantity, sign, transfer, with_data};

fn read<T: DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap()
}

/// The header that an answer describes.
fn header(block: &Value) -> Header {
    let number = |name: &str| Some(quantity(&block[name]));
    Header {
        parent_hash: read(&block["parentHash"]),
        ommers_hash: read(&block["sha3Uncles"]),
        beneficiary: read(&block["miner"]),
        state_root: read(&block["stateRoot"]),
        transactions_root: read(&block["transactionsRoot"]),
        receipts_root: read(&block["receiptsRoot"]),
        logs_bloom: read(&block["logsBloom"]),
        difficulty: read(&block["difficulty"]),
        number: quantity(&block["number"]),
        gas_limit: quantity(&block["gasLimit"]),
        gas_used: quantity(&block["gasUsed"]),
        timestamp: quantity(&block["timestamp"]),
        extra_data: read(&block["extraData"]),
        mix_hash: read(&block["mixHash"]),
        nonce: read::<B64>(&block["nonce"]),
        base_fee_per_gas: number("baseFeePerGas"),
        withdrawals_root: read(&block["withdrawalsRoot"]),
        blob_gas_used: number("blobGasUsed"),
        excess_blob_gas: number("excessBlobGas"),
        parent_beacon_block_root: read(&block["parentBeaconBlockRoot"]),
        requests_hash: read(&block["requestsHash"]),
        ..Header::default()
    }
}

/// The receipt that an answer describes.
fn receipt(json: &Value) -> ReceiptEnvelope {
    let logs = json["logs"].as_array().unwrap().iter().map(|log| {
        let (address, topics): (Address, Vec<B256>) = (read(&log["address"]), read(&log["topics"]));
        Log::new_unchecked(address, topics, read::<Bytes>(&log["data"]))
    });
    let receipt = Receipt {
        status: Eip658Value::Eip658(json["status"] == "0x1"),
        cumulative_gas_used: quantity(&json["cumulativeGasUsed"]),
        logs: logs.collect(),
    };
    let with_bloom = ReceiptWithBloom { receipt, logs_bloom: read::<Bloom>(&json["logsBloom"]) };
    ReceiptEnvelope::Eip1559(with_bloom)
}

#[tokio::test]
async fn hashes_and_roots_are_those_of_what_is_answered() {
    let chain = Chain::start(manual()).await;
    let contract = stile_devchain::accounts::ALL[0].address.create(0);
    let call = |nonce, data| sign(0, with_data(nonce, TxKind::Call(contract), data));
    let raw = [
        sign(0, with_data(0, TxKind::Create, counter::CREATION)),
        call(1, &counter::INCREMENT),
        call(2, &counter::FAIL),
        transfer(1, 0),
    ];
    for raw in &raw {
        chain.send(raw).await;
    }
    chain.mine(2).await;
    let mut parent = None;
    for number in 0..=2 {
        let block = chain.block(format!("0x{number:x}")).await;
        let header = header(&block);
        assert_eq!(json!(header.hash_slow()), block["hash"], "{block}");
        assert_eq!(parent.unwrap_or(B256::ZERO), header.parent_hash);
        assert_eq!(header.timestamp, 1_700_000_000 + 2 * number);
        parent = Some(header.hash_slow());
    }
    let block = chain.rpc("eth_getBlockByNumber", json!(["0x1", true])).await;
    let hashes: Vec<Value> = (0..4).map(|n| block["transactions"][n]["hash"].clone()).collect();
    let short = chain.rpc("eth_getBlockByHash", json!([block["hash"], false])).await;
    assert_eq!(short["transactions"], json!(hashes));
    let mut envelopes = Vec::new();
    for hash in &hashes {
        let raw =
            raw.iter().map(|raw| TxEnvelope::decode_2718(&mut &hex::decode(raw).unwrap()[..]));
        let found = raw.map(Result::unwrap).find(|envelope| json!(envelope.tx_hash()) == *hash);
        envelopes.push(found.unwrap());
    }
    assert_eq!(json!(calculate_transaction_root(&envelopes)), block["transactionsRoot"]);
    let receipts = chain.rpc("eth_getBlockReceipts", json!([block["hash"]])).await;
    let receipts: Vec<ReceiptEnvelope> = receipts.as_array().unwrap().iter().map(receipt).collect();
    assert_eq!(json!(calculate_receipt_root(&receipts)), block["receiptsRoot"]);
    let size = quantity(&block["size"]);
    assert!(size > raw.iter().map(|raw| raw.len() as u64 / 2 - 1).sum(), "{size}");
    for (index, hash) in hashes.iter().enumerate() {
        let index = format!("0x{index:x}");
        let by_number = chain.rpc("eth_getTransactionByBlockNumberAndIndex", json!(["0x1", index]));
        assert_eq!(by_number.await["hash"], *hash);
        let place = json!([block["hash"], index]);
        let by_hash = chain.rpc("eth_getTransactionByBlockHashAndIndex", place).await;
        assert_eq!(by_hash["transactionIndex"], index);
    }
    let count = chain.rpc("eth_getBlockTransactionCountByNumber", json!(["0x1"])).await;
    assert_eq!(count, "0x4");
    assert!(chain.block("0x3").await.is_null());
}

#[tokio::test]
async fn the_base_fee_follows_the_blocks() {
    let options = Options { gas_limit: 1_000_000, ..manual() };
    let chain = Chain::start(options).await;
    for nonce in 0..40 {
        chain.send(&transfer(0, nonce)).await;
    }
    chain.mine(3).await;
    let history = json!(["0x4", "latest", [0.0, 50.0, 100.0]]);
    let history = chain.rpc("eth_feeHistory", history).await;
    assert_eq!(history["oldestBlock"], "0x0");
    let fees: Vec<u64> =
        history["baseFeePerGas"].as_array().unwrap().iter().map(quantity).collect();
    assert_eq!(fees[0], 1_000_000_000);
    assert_eq!(fees[1], 875_000_000, "after an empty block an eighth less");
    let full = 840_000;
    let more = fees[1] + fees[1] * (full - 500_000) / 500_000 / 8;
    assert_eq!(fees[2], more, "after a full block up to an eighth more");
    assert_eq!(fees[3], fees[2] - fees[2] / 8);
    assert_eq!(fees.len(), 5, "and that of the block to come");
    assert_eq!(history["gasUsedRatio"], json!([0.0, 0.84, 0.0, 0.0]));
    let gwei = "0x3b9aca00";
    assert_eq!(history["reward"][1], json!([gwei, gwei, gwei]));
    assert_eq!(history["reward"][0], json!(["0x0", "0x0", "0x0"]));
    let price = chain.number("eth_gasPrice", json!([])).await;
    let tip = chain.number("eth_maxPriorityFeePerGas", json!([])).await;
    assert_eq!((price, tip), (fees[4] + 1_000_000_000, 1_000_000_000));
    for (params, word) in [
        (json!(["0x1", "0x9", []]), "beyond head"),
        (json!(["0x1", "latest", [50, 10]]), "percentile"),
    ] {
        let refused = chain.refused("eth_feeHistory", params).await;
        assert!(refused.contains(word), "{refused}");
    }
}

#[tokio::test]
async fn a_block_has_only_so_much_room() {
    let chain = Chain::start(Options { gas_limit: 1_000_000, ..manual() }).await;
    for nonce in 0..60 {
        chain.send(&transfer(0, nonce)).await;
    }
    chain.mine(2).await;
    let used = [chain.block("0x1").await, chain.block("0x2").await];
    assert_eq!(used.map(|block| quantity(&block["gasUsed"])), [47 * 21_000, 13 * 21_000]);
}

#[tokio::test]
async fn state_is_kept_for_every_block() {
    let chain = Chain::start(Options { safe_depth: 1, finalized_depth: 2, ..manual() }).await;
    for nonce in 0..4 {
        chain.send(&transfer(0, nonce)).await;
        chain.mine(1).await;
    }
    let balance = async |block: Value| {
        let to = crate::common::TO;
        amount(&chain.rpc("eth_getBalance", json!([to, block])).await)
    };
    for (block, expected) in [
        (json!("earliest"), 0),
        (json!("0x1"), 1),
        (json!("0x3"), 3),
        (json!("finalized"), 2),
        (json!("safe"), 3),
        (json!("latest"), 4),
        (json!("pending"), 4),
        (json!(null), 4),
        (chain.block("0x2").await["hash"].clone(), 2),
        (json!({ "blockHash": chain.block("0x1").await["hash"] }), 1),
        (json!({ "blockNumber": "0x3" }), 3),
    ] {
        assert_eq!(balance(block.clone()).await, U256::from(expected), "{block}");
    }
    assert_eq!(chain.nonce(0, "0x2").await, 2);
    assert_eq!(chain.block("finalized").await["number"], "0x2");
    for unknown in [json!("0x5"), json!(format!("0x{:064x}", 5))] {
        let params = json!([crate::common::TO, unknown]);
        assert_eq!(chain.refused("eth_getBalance", params).await, "header not found");
    }
}

#[tokio::test]
async fn transactions_are_counted_at_every_block() {
    let chain = Chain::start(Options { safe_depth: 1, finalized_depth: 2, ..manual() }).await;
    for nonce in 0..4 {
        chain.send(&transfer(0, nonce)).await;
        chain.mine(1).await;
    }
    chain.send(&transfer(0, 4)).await;
    for (block, expected) in [
        ("earliest", 0),
        ("0x0", 0),
        ("0x1", 1),
        ("0x3", 3),
        ("finalized", 2),
        ("safe", 3),
        ("latest", 4),
        ("pending", 5),
    ] {
        assert_eq!(chain.nonce(0, block).await, expected, "{block}");
        assert_eq!(chain.nonce(1, block).await, 0, "{block}");
    }
    let beyond = json!([crate::common::TO, "0x5"]);
    assert_eq!(chain.refused("eth_getTransactionCount", beyond).await, "header not found");
}

#[tokio::test]
async fn whole_blocks_tell_whose_transactions_they_have() {
    let chain = Chain::start(manual()).await;
    let mut sent = Vec::new();
    for (account, nonce) in [(0, 0), (1, 0), (0, 1)] {
        sent.push((chain.send(&transfer(account, nonce)).await, account, nonce));
    }
    chain.mine(1).await;
    let by_number = chain.rpc("eth_getBlockByNumber", json!(["0x1", true])).await;
    let by_hash = chain.rpc("eth_getBlockByHash", json!([by_number["hash"], true])).await;
    assert_eq!(by_number, by_hash);
    let found = by_hash["transactions"].as_array().unwrap();
    assert_eq!(found.len(), 3);
    for (hash, account, nonce) in sent {
        let tx = found.iter().find(|tx| tx["hash"] == hash).unwrap();
        let from = stile_devchain::accounts::ALL[account].address;
        assert_eq!((&tx["from"], quantity(&tx["nonce"])), (&json!(from), nonce));
    }
}
