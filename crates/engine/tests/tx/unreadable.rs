//! What endpoints answer that cannot be read, and receipts that do not say how it ended.
//!
//! Each of these fails if such an answer ends in a line of the log: what was mined is never confirmed
//! then, and the doctor finds nothing.

use std::sync::Arc;

use serde_json::{Value, json};
use stile_domain::{EventKind, Outcome, Payload, TxId, TxState};
use stile_engine::{Node, Severity, TxRequest};
use stile_store::Tx;
use testkit::{Anvil, AnvilOptions, RpcProxy, eventually};

use crate::common::{Bench, on, on_both_stores};
use crate::lies::{finding, shown};
use crate::setup::{get, history, lane, send, settings, start, transfer, until};

on_both_stores!(
    hole_37_without_a_status_it_is_confirmed_and_how_it_ended_is_unknown,
    hole_37_how_it_ended_is_said_by_the_endpoint_that_says_it,
    hole_37_a_receipt_that_cannot_be_read_is_asked_of_the_next_endpoint,
    hole_37_one_receipt_that_cannot_be_read_holds_up_only_its_own_transaction,
    hole_37_receipts_without_what_does_not_matter_are_taken,
    hole_37_the_contract_is_known_where_a_receipt_names_none,
);

const RECEIPT: &str = "eth_getTransactionReceipt";
const OF_BLOCK: &str = "eth_getBlockReceipts";

async fn anvil() -> Anvil {
    Anvil::start(AnvilOptions { block_time_seconds: Some(1), ..AnvilOptions::default() }).await
}

/// Receipts come without this field.
fn strip(proxy: &RpcProxy, field: &str) {
    for method in [RECEIPT, OF_BLOCK] {
        proxy.strip(method, field);
    }
}

async fn start_on(bench: &Bench, proxies: &[&RpcProxy]) -> Node {
    let urls: Vec<String> = proxies.iter().map(|proxy| proxy.url()).collect();
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    start(bench, settings(bench, "a"), &urls).await
}

async fn send_some(node: &Node, n: usize, count: usize) -> Vec<TxId> {
    let mut ids = Vec::with_capacity(count);
    for place in 0..count {
        ids.push(send(node, transfer(n, &format!("{n}-{place}"))).await.id);
    }
    ids
}

async fn confirmed(node: &Node, ids: Vec<TxId>) -> Vec<Tx> {
    let mut all = Vec::with_capacity(ids.len());
    for id in ids {
        all.push(until(node, id, TxState::Confirmed).await);
    }
    all
}

/// What its history says of the status, each time that it was mined.
async fn told(node: &Node, id: TxId) -> Vec<Value> {
    let events = history(node, id).await;
    let mined = events.iter().filter(|event| event.kind == EventKind::Mined);
    mined.map(|event| event.data["status"].clone()).collect()
}

async fn hole_37_without_a_status_it_is_confirmed_and_how_it_ended_is_unknown(bench: Bench) {
    let anvil = anvil().await;
    let proxy = RpcProxy::start(anvil.url()).await;
    strip(&proxy, "status");
    let node = start_on(&bench, &[&proxy]).await;
    let ids = send_some(&node, 0, 3).await;
    for tx in confirmed(&node, ids).await {
        assert_eq!(tx.standing.outcome, Some(Outcome::Unknown), "{tx:?}");
        assert_eq!(tx.receipt.unwrap().status, None);
        assert_eq!(told(&node, tx.id).await, [Value::Null]);
    }
    node.shutdown().await;
}

async fn hole_37_how_it_ended_is_said_by_the_endpoint_that_says_it(bench: Bench) {
    let anvil = anvil().await;
    let (silent, says) = (RpcProxy::start(anvil.url()).await, RpcProxy::start(anvil.url()).await);
    strip(&silent, "status");
    let node = start_on(&bench, &[&silent, &says]).await;
    let ids = send_some(&node, 0, 3).await;
    for tx in confirmed(&node, ids).await {
        assert_eq!(tx.standing.outcome, Some(Outcome::Success), "{tx:?}");
        assert_eq!(tx.receipt.unwrap().status, Some(true));
        let told = told(&node, tx.id).await;
        assert_eq!(told.last(), Some(&json!(true)), "{told:?}");
    }
    // Who says less contradicts nobody.
    assert_eq!(finding(&node, "endpoint-contradicts").await, None);
    node.shutdown().await;
}

async fn hole_37_a_receipt_that_cannot_be_read_is_asked_of_the_next_endpoint(bench: Bench) {
    let anvil = anvil().await;
    let (odd, fine) = (RpcProxy::start(anvil.url()).await, RpcProxy::start(anvil.url()).await);
    strip(&odd, "blockHash");
    let node = start_on(&bench, &[&odd, &fine]).await;
    let ids = send_some(&node, 0, 3).await;
    for tx in confirmed(&node, ids).await {
        assert_eq!(tx.standing.outcome, Some(Outcome::Success), "{tx:?}");
    }
    let found = finding(&node, "unreadable-answer").await.unwrap();
    assert_eq!(found.severity, Severity::Warning);
    for word in [shown(&odd).as_str(), "blockHash"] {
        assert!(found.words.contains(word), "{}", found.words);
    }
    assert!(!found.words.contains(&shown(&fine)), "{}", found.words);
    node.shutdown().await;
}

async fn hole_37_one_receipt_that_cannot_be_read_holds_up_only_its_own_transaction(bench: Bench) {
    let anvil = anvil().await;
    let proxy = RpcProxy::start(anvil.url()).await;
    let account = format!("{:#x}", lane(0).signer);
    let without = Arc::new(move |receipt: &Value| {
        let mut receipt = receipt.clone();
        if receipt["from"].as_str().is_some_and(|from| from.eq_ignore_ascii_case(&account)) {
            receipt.as_object_mut().unwrap().remove("blockHash");
        }
        receipt
    });
    let of_block = Arc::clone(&without);
    proxy.lie(RECEIPT, move |_, receipt| receipt.is_object().then(|| without(receipt)));
    proxy.lie(OF_BLOCK, move |_, receipts| {
        Some(receipts.as_array()?.iter().map(|receipt| of_block(receipt)).collect())
    });
    let node = start_on(&bench, &[&proxy]).await;
    let odd = send_some(&node, 0, 2).await;
    let fine = send_some(&node, 1, 3).await;
    confirmed(&node, fine).await;
    let found = eventually("the doctor to say why it waits", async || {
        let found = finding(&node, "unreadable-answer").await?;
        (found.severity == Severity::Blocked).then_some(found)
    })
    .await;
    assert!(found.words.contains(RECEIPT) && found.words.contains("blockHash"), "{}", found.words);
    assert_eq!(get(&node, odd[0]).await.standing.state, TxState::Submitted);
    proxy.heal().await;
    for tx in confirmed(&node, odd).await {
        assert_eq!(tx.standing.outcome, Some(Outcome::Success), "{tx:?}");
    }
    node.shutdown().await;
}

async fn hole_37_receipts_without_what_does_not_matter_are_taken(bench: Bench) {
    let anvil = anvil().await;
    let proxy = RpcProxy::start(anvil.url()).await;
    let odd = |receipt: &Value| {
        let mut receipt = receipt.clone();
        receipt["gasUsed"] = Value::Null;
        receipt["contractAddress"] = json!("0x");
        receipt["transactionIndex"] = json!("first");
        receipt
    };
    proxy.lie(RECEIPT, move |_, receipt| receipt.is_object().then(|| odd(receipt)));
    proxy.lie(OF_BLOCK, move |_, receipts| Some(receipts.as_array()?.iter().map(odd).collect()));
    let node = start_on(&bench, &[&proxy]).await;
    let ids = send_some(&node, 0, 3).await;
    for tx in confirmed(&node, ids).await {
        assert_eq!(tx.standing.outcome, Some(Outcome::Success), "{tx:?}");
        assert_eq!(tx.receipt.unwrap().gas_used, 0, "it is not known");
    }
    let found = finding(&node, "unreadable-answer").await.unwrap();
    assert_eq!(found.severity, Severity::Warning, "{}", found.words);
    assert!(found.words.contains("gasUsed"), "{}", found.words);
    node.shutdown().await;
}

async fn hole_37_the_contract_is_known_where_a_receipt_names_none(bench: Bench) {
    let anvil = anvil().await;
    let (silent, says) = (RpcProxy::start(anvil.url()).await, RpcProxy::start(anvil.url()).await);
    strip(&silent, "contractAddress");
    for proxies in [vec![&silent], vec![&silent, &says], vec![&says, &silent]] {
        let node = start_on(&bench, &proxies).await;
        let request = creation(&format!("made by {}", proxies.len()), shown(proxies[0]));
        let tx = until(&node, send(&node, request).await.id, TxState::Confirmed).await;
        let made = tx.lane.signer.create(tx.nonce.unwrap());
        assert_eq!(tx.receipt.unwrap().contract(), Some(made));
        // Who names none contradicts nobody.
        assert_eq!(finding(&node, "endpoint-contradicts").await, None);
        node.shutdown().await;
    }
}

/// Makes a contract without code.
fn creation(request_id: &str, first: String) -> TxRequest {
    let mut request = transfer(0, &format!("{request_id} from {first}"));
    let payload = Payload { gas_limit: Some(100_000), ..Payload::default() };
    request.payload = Payload { data: vec![0].into(), ..payload };
    request
}
