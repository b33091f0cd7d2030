//! The same transactions on anvil: an implementation of the rest by somebody else.

use alloy::consensus::TxEip1559;
use alloy_primitives::{Address, Bytes, TxKind, U256, hex};
use serde_json::{Value, json};
use stile_devchain::accounts::ALL;
use stile_devchain::{Blocks, Options, counter};
use testkit::{Anvil, AnvilOptions};

use crate::common::{Chain, TO, base, manual, sign, transfer, with_data};

/// What has to be the same of two receipts. Base fees and hashes of blocks differ.
fn essence(receipt: &Value) -> Value {
    let logs = receipt["logs"].as_array().unwrap().iter();
    let logs: Vec<Value> = logs
        .map(|log| json!([log["address"], log["topics"], log["data"], log["logIndex"]]))
        .collect();
    let fields = ["status", "gasUsed", "type", "from", "to", "contractAddress", "logsBloom"];
    let fields = fields.map(|name| receipt[name].clone());
    json!([receipt["transactionHash"], receipt["blockNumber"], fields, logs])
}

#[tokio::test]
async fn transactions_do_the_same_on_both() {
    let chain = Chain::start(Options { blocks: Blocks::Instant, ..manual() }).await;
    let anvil = Anvil::start(AnvilOptions::default()).await;
    let contract = ALL[0].address.create(0);
    let call = |nonce, data: &[u8]| sign(0, with_data(nonce, TxKind::Call(contract), data));
    let storing = hex!("60015f5560025f556000600055"); // in a constructor: sets a slot and clears it
    let short = TxEip1559 {
        gas_limit: 30_000,
        ..with_data(6, TxKind::Call(contract), &counter::INCREMENT)
    };
    let floor = TxEip1559 { gas_limit: 100_000, input: Bytes::from(vec![7; 1_000]), ..base(1) };
    for raw in [
        sign(0, with_data(0, TxKind::Create, counter::CREATION)),
        call(1, &counter::INCREMENT),
        call(2, &counter::INCREMENT),
        call(3, &counter::FAIL),
        call(4, &[]),
        sign(0, with_data(5, TxKind::Create, &storing)),
        sign(0, short),
        transfer(1, 0),
        sign(1, floor),
        sign(1, with_data(2, TxKind::Create, &[0xfe])),
        // A precompile: the hash of nothing.
        sign(1, with_data(3, TxKind::Call(Address::with_last_byte(2)), &[])),
        sign(1, TxEip1559 { value: U256::from(7), ..base(4) }),
    ] {
        let ours = chain.send(&raw).await;
        let theirs = anvil.rpc("eth_sendRawTransaction", json!([raw])).await;
        assert_eq!(ours, theirs);
        let ours = chain.receipt(&ours).await;
        let theirs = testkit::eventually("a receipt of anvil", async || {
            let receipt = anvil.rpc("eth_getTransactionReceipt", json!([theirs])).await;
            (!receipt.is_null()).then_some(receipt)
        })
        .await;
        assert_eq!(essence(&ours), essence(&theirs));
    }
    let count = json!([{ "to": contract, "data": hex::encode_prefixed(counter::COUNT) }, "latest"]);
    for (method, params) in [
        ("eth_getBalance", json!([TO, "latest"])),
        ("eth_getTransactionCount", json!([ALL[0].address, "latest"])),
        ("eth_getCode", json!([contract, "latest"])),
        ("eth_getStorageAt", json!([contract, "0x0", "latest"])),
        ("eth_call", count),
        ("eth_getBlockTransactionCountByNumber", json!(["0x3"])),
        ("eth_accounts", json!([])),
        ("eth_chainId", json!([])),
        ("net_version", json!([])),
    ] {
        let (ours, theirs) =
            (chain.rpc(method, params.clone()).await, anvil.rpc(method, params).await);
        let lower = |value: Value| value.to_string().to_lowercase();
        assert_eq!(lower(ours), lower(theirs), "{method}");
    }
}

/// The names of what an answer has.
fn names(answer: &Value) -> Vec<String> {
    let mut names: Vec<String> = answer.as_object().unwrap().keys().cloned().collect();
    names.sort();
    names
}

#[tokio::test]
async fn answers_have_the_fields_that_clients_know() {
    let chain = Chain::start(Options { blocks: Blocks::Instant, ..manual() }).await;
    let anvil = Anvil::start(AnvilOptions::default()).await;
    let raw = transfer(0, 0);
    let hash = chain.send(&raw).await;
    anvil.rpc("eth_sendRawTransaction", json!([raw])).await;
    testkit::eventually("a block of anvil", async || {
        (anvil.rpc("eth_blockNumber", json!([])).await == "0x1").then_some(())
    })
    .await;
    for (method, params, theirs_only) in [
        ("eth_getBlockByNumber", json!(["0x1", false]), &["totalDifficulty"][..]),
        ("eth_getTransactionByHash", json!([hash]), &[]),
        (
            "eth_getTransactionReceipt",
            json!([hash]),
            &["blobGasPrice", "blobGasUsed", "blockTimestamp", "root"],
        ),
        ("eth_feeHistory", json!(["0x1", "latest", [50]]), &[]),
    ] {
        let ours = names(&chain.rpc(method, params.clone()).await);
        let mut theirs = names(&anvil.rpc(method, params).await);
        theirs.retain(|name| !theirs_only.contains(&name.as_str()));
        let missing: Vec<_> = theirs.iter().filter(|name| !ours.contains(name)).collect();
        assert!(missing.is_empty(), "{method} lacks {missing:?}, has {ours:?}");
    }
}
