//! Deployments, calls, reverts, logs, gas.

use alloy_primitives::{Address, TxKind, hex};
use serde_json::{Value, json};
use stile_devchain::accounts::ALL;
use stile_devchain::{Blocks, Options, counter};

use crate::common::{Chain, TO, base, manual, quantity, sign, with_data};

const WORD: &str = "0000000000000000000000000000000000000000000000000000000000000001";

/// A chain with a counter that was used once.
async fn deployed() -> (Chain, Address) {
    let chain = Chain::start(Options { blocks: Blocks::Instant, ..manual() }).await;
    let hash = chain.send(&sign(0, with_data(0, TxKind::Create, counter::CREATION))).await;
    let contract = ALL[0].address.create(0);
    assert_eq!(chain.receipt(&hash).await["contractAddress"], json!(contract));
    chain.send(&sign(0, with_data(1, TxKind::Call(contract), &counter::INCREMENT))).await;
    (chain, contract)
}

fn call(to: Address, data: &[u8]) -> Value {
    json!({ "from": ALL[0].address, "to": to, "data": hex::encode_prefixed(data) })
}

#[tokio::test]
async fn code_runs_and_its_state_is_read_at_any_block() {
    let (chain, contract) = deployed().await;
    let count = call(contract, &counter::COUNT);
    let zero = "0".repeat(64);
    for (block, expected) in [("0x1", zero.as_str()), ("latest", WORD)] {
        let result = chain.rpc("eth_call", json!([count, block])).await;
        assert_eq!(result, format!("0x{expected}"), "{block}");
    }
    let slot = chain.rpc("eth_getStorageAt", json!([contract, "0x0", "latest"])).await;
    assert_eq!(slot, format!("0x{WORD}"));
    let code = chain.rpc("eth_getCode", json!([contract, "latest"])).await;
    assert_eq!(code, hex::encode_prefixed(&counter::CREATION[9..]));
    assert_eq!(chain.rpc("eth_getCode", json!([contract, "0x0"])).await, "0x");
    assert_eq!(chain.rpc("eth_getCode", json!([TO, "latest"])).await, "0x");
    chain.rpc("eth_call", json!([call(contract, &counter::INCREMENT), "latest"])).await;
    let again = chain.rpc("eth_call", json!([count, "latest"])).await;
    assert_eq!(again, format!("0x{WORD}"), "a call changes nothing");
    let overrides = json!([count, "latest", { contract.to_string(): { "balance": "0x1" } }]);
    assert!(chain.refused("eth_call", overrides).await.contains("overrides"));
}

#[tokio::test]
async fn reverts_say_why() {
    let (chain, contract) = deployed().await;
    for method in ["eth_call", "eth_estimateGas"] {
        let error = chain.ask(method, json!([call(contract, &counter::FAIL), "latest"])).await;
        let error = error.unwrap_err();
        assert_eq!(error["code"], 3);
        assert_eq!(error["message"], "execution reverted: no luck");
        assert!(error["data"].as_str().unwrap().starts_with("0x08c379a0"), "{error}");
        let silent = chain.ask(method, json!([call(contract, &[]), "latest"])).await.unwrap_err();
        assert_eq!(
            (&silent["message"], &silent["data"]),
            (&json!("execution reverted"), &json!("0x"))
        );
    }
    let hash = chain.send(&sign(0, with_data(2, TxKind::Call(contract), &counter::FAIL))).await;
    let receipt = chain.receipt(&hash).await;
    assert_eq!((&receipt["status"], &receipt["logs"]), (&json!("0x0"), &json!([])));
    assert!(quantity(&receipt["gasUsed"]) < 30_000, "what is left comes back: {receipt}");
    let bad = chain.send(&sign(0, with_data(3, TxKind::Create, &[0xfe]))).await;
    let receipt = chain.receipt(&bad).await;
    assert_eq!((&receipt["status"], &receipt["gasUsed"]), (&json!("0x0"), &json!("0x7a120")));
    let error = chain.refused("eth_call", json!([{ "data": "0xfe" }, "latest"])).await;
    assert_eq!(error, "invalid opcode");
}

#[tokio::test]
async fn estimates_are_just_enough() {
    let (chain, contract) = deployed().await;
    let transfer = json!([{ "from": ALL[0].address, "to": TO, "value": "0x1" }]);
    assert_eq!(chain.rpc("eth_estimateGas", transfer).await, "0x5208");
    let needed =
        chain.number("eth_estimateGas", json!([call(contract, &counter::INCREMENT)])).await;
    for (nonce, gas_limit, status) in [(2, needed - 1, "0x0"), (3, needed, "0x1")] {
        let tx = with_data(nonce, TxKind::Call(contract), &counter::INCREMENT);
        let hash = chain.send(&sign(0, alloy::consensus::TxEip1559 { gas_limit, ..tx })).await;
        assert_eq!(chain.receipt(&hash).await["status"], status, "{gas_limit}");
    }
    let creation =
        json!([{ "from": ALL[0].address, "data": hex::encode_prefixed(counter::CREATION) }]);
    let needed = chain.number("eth_estimateGas", creation).await;
    let tx = with_data(4, TxKind::Create, counter::CREATION);
    let tx = alloy::consensus::TxEip1559 { gas_limit: needed, ..tx };
    let hash = chain.send(&sign(0, tx)).await;
    assert_eq!(chain.receipt(&hash).await["status"], "0x1");
    for (request, expected) in [
        (json!({ "from": TO, "to": Address::ZERO, "value": "0x2" }), "insufficient funds"),
        (
            json!({ "from": TO, "to": Address::ZERO, "gasPrice": "0x77359400" }),
            "gas required exceeds allowance (0)",
        ),
        (
            json!({ "from": ALL[0].address, "to": contract, "gas": "0x5500",
                    "data": hex::encode_prefixed(counter::INCREMENT) }),
            "gas required exceeds allowance (21760)",
        ),
    ] {
        let refused = chain.refused("eth_estimateGas", json!([request])).await;
        assert!(refused.starts_with(expected), "{refused}, not {expected}");
    }
}

#[tokio::test]
async fn logs_are_found_by_what_they_have() {
    let (chain, contract) = deployed().await;
    chain.send(&sign(1, with_data(0, TxKind::Call(contract), &counter::INCREMENT))).await;
    chain.send(&sign(1, base(1))).await;
    let topic = |address: Address| json!(address.into_word());
    let all = json!({ "fromBlock": "0x0", "toBlock": "latest" });
    let logs = chain.rpc("eth_getLogs", json!([all])).await;
    assert_eq!(logs.as_array().unwrap().len(), 2);
    assert_eq!(logs[0]["topics"], json!([counter::INCREMENTED, topic(ALL[0].address)]));
    assert_eq!((&logs[0]["blockNumber"], &logs[0]["logIndex"]), (&json!("0x2"), &json!("0x0")));
    assert_eq!(logs[0]["data"], format!("0x{WORD}"));
    assert_eq!(logs[0]["removed"], false);
    let by = counter::INCREMENTED;
    let other = Address::repeat_byte(1);
    let block = logs[1]["blockHash"].clone();
    for (filter, expected) in [
        (json!({}), 0),
        (json!({ "fromBlock": "earliest" }), 2),
        (json!({ "fromBlock": "0x3" }), 1),
        (json!({ "fromBlock": "0x1", "toBlock": "0x2" }), 1),
        (json!({ "fromBlock": "0x0", "toBlock": "0x99" }), 2),
        (json!({ "fromBlock": "0x0", "address": contract }), 2),
        (json!({ "fromBlock": "0x0", "address": [other, contract] }), 2),
        (json!({ "fromBlock": "0x0", "address": other }), 0),
        (json!({ "fromBlock": "0x0", "topics": [by] }), 2),
        (json!({ "fromBlock": "0x0", "topics": [[by, topic(other)], topic(ALL[1].address)] }), 1),
        (json!({ "fromBlock": "0x0", "topics": [null, topic(ALL[0].address)] }), 1),
        (json!({ "fromBlock": "0x0", "topics": [null, null, null] }), 0),
        (json!({ "fromBlock": "0x0", "topics": [topic(other)] }), 0),
        (json!({ "blockHash": block }), 1),
    ] {
        let logs = chain.rpc("eth_getLogs", json!([filter])).await;
        assert_eq!(logs.as_array().unwrap().len(), expected, "{filter}");
    }
    let refused = chain.refused("eth_getLogs", json!([{ "fromBlock": "0x3", "toBlock": "0x1" }]));
    assert_eq!(refused.await, "invalid block range params");
}
