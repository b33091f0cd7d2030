//! Endpoints that lie, forget and ramble. Nothing they say may be believed or panic.

use serde_json::{Value, json};
use stile_chain::{BlockTag, ReceiptAnswer, SendClass};
use stile_domain::{Address, B256};

use crate::support::*;

/// A healthy node, but for one method.
async fn node_but(odd: &'static str, answer: Value) -> Fake {
    Fake::start(move |method, _| {
        if method == odd { Ok(answer.clone()) } else { look(method, 5).ok_or_else(not_found) }
    })
    .await
}

#[tokio::test]
async fn absurd_counts_and_amounts_are_errors() {
    for answer in [json!("0xffffffffffffffff"), json!("-1"), json!(null), json!({}), json!("0xg")] {
        let node = node_but("eth_getTransactionCount", answer.clone()).await;
        let count = pool([node.url()]).transaction_count(Address::ZERO, BlockTag::Latest).await;
        assert!(count.is_err(), "{answer}: {count:?}");
        let node = node_but("eth_estimateGas", answer.clone()).await;
        let payload = stile_domain::Payload::default();
        let gas = pool([node.url()]).estimate_gas(Address::ZERO, &payload).await;
        assert!(gas.is_err(), "{answer}: {gas:?}");
        let node = node_but("eth_feeHistory", answer.clone()).await;
        let quote = pool([node.url()]).fee_quote().await;
        assert!(quote.is_err(), "{answer}: {quote:?}");
    }
}

#[tokio::test]
async fn blocks_that_were_not_asked_for_are_errors() {
    let node = node_but("eth_getBlockByHash", block(4)).await;
    let view = pool([node.url()]).view().await.unwrap();
    assert!(view.block(B256::repeat_byte(1)).await.is_err());
    assert!(view.block_at(4).await.is_err(), "it always answers with its fifth");
    assert!(view.blocks(&[5, 4]).await.is_err());
    for head in [json!(null), json!({}), json!([]), json!("0x5"), json!({ "number": "0x5" })] {
        let node = node_but("eth_getBlockByNumber", head.clone()).await;
        let view = pool([node.url()]).view().await;
        assert!(view.is_err(), "{head}");
    }
}

/// A node without its index, or one that hides it, and one that has it.
#[tokio::test]
async fn hole_23_a_receipt_that_one_endpoint_does_not_have_is_asked_of_the_next() {
    let hash = B256::repeat_byte(7);
    let receipt = json!({
        "transactionHash": hash,
        "blockNumber": "0x5",
        "blockHash": block(5)["hash"],
        "status": "0x1",
        "gasUsed": "0x1",
    });
    let hides = node_but("eth_getTransactionReceipt", json!(null)).await;
    let has = node_but("eth_getTransactionReceipt", receipt).await;
    for urls in [[hides.url(), has.url()], [has.url(), hides.url()]] {
        let answers = pool(urls).receipts(&[hash]).await.unwrap();
        assert!(matches!(&answers[..], [ReceiptAnswer::Found(it)] if it.tx_hash == hash));
    }
    let answers = pool([hides.url()]).receipts(&[hash]).await.unwrap();
    assert_eq!(answers, [ReceiptAnswer::NotFound { head: 5 }]);
}

#[tokio::test]
async fn another_transactions_receipt_or_hash_is_not_taken() {
    let receipt = json!({
        "transactionHash": B256::repeat_byte(7),
        "blockNumber": "0x5",
        "blockHash": block(5)["hash"],
        "status": "0x1",
        "gasUsed": "0x1",
    });
    let node = node_but("eth_getTransactionReceipt", receipt).await;
    let answers = pool([node.url()]).receipts(&[B256::repeat_byte(8)]).await.unwrap();
    assert_eq!(answers, [ReceiptAnswer::Unreadable]);
    assert!(pool([node.url()]).receipts(&[B256::repeat_byte(7)]).await.is_ok());
    let node = node_but("eth_getTransactionByHash", json!({ "hash": B256::repeat_byte(7) })).await;
    assert!(pool([node.url()]).known(&[B256::repeat_byte(8)]).await.is_err());
    let node = node_but("eth_sendRawTransaction", json!(B256::repeat_byte(7))).await;
    let answer = pool([node.url()]).send_raw(&[signed(0).raw]).await.remove(0);
    assert_eq!(answer.verdict, SendClass::Transient, "{answer:?}");
}

#[tokio::test]
async fn batches_with_holes_and_strange_bodies_are_errors() {
    type Handler = fn(&Value) -> String;
    let answers: [Handler; 8] = [
        |_| String::new(),
        |_| "[]".to_owned(),
        |_| "null".to_owned(),
        |_| "<html>busy</html>".to_owned(),
        |_| "[1,2,3]".to_owned(),
        |_| r#"[{"id":1},{"id":1},{"id":1}]"#.to_owned(),
        |_| r#"{"jsonrpc":"2.0","id":1,"result":"0x7a69"}"#.to_owned(),
        |question| {
            // The right answers under each other's numbers.
            let mut ids: Vec<Value> =
                question.as_array().unwrap().iter().map(|q| q["id"].clone()).collect();
            ids.reverse();
            json!([{ "id": ids[0], "result": "0x7a69" }, { "id": ids[1], "result": block(5) }])
                .to_string()
        },
    ];
    for handler in answers {
        let node = Fake::raw(handler).await;
        let pool = pool([node.url()]);
        assert!(pool.view().await.is_err());
        let answer = pool.send_raw(&[signed(0).raw, signed(1).raw]).await;
        assert_eq!(answer.len(), 2);
        assert!(answer.iter().all(|answer| answer.verdict == SendClass::Transient));
    }
}

/// A head that cannot be shown neither is followed nor makes others look late.
#[tokio::test]
async fn a_claim_that_cannot_be_shown_sets_nobody_else_aside() {
    let honest = Fake::start(|method, _| look(method, 5).ok_or_else(not_found)).await;
    let boaster = Fake::start(|method, _| match method {
        "eth_blockNumber" => Ok(json!("0xffffff")),
        _ => look(method, 5).ok_or_else(not_found),
    })
    .await;
    let pool = pool([honest.url(), boaster.url()]);
    for _ in 0..6 {
        assert_eq!(pool.view().await.unwrap().endpoint(), shown(honest.url()));
    }
}

/// Some nodes send a proper answer with an HTTP status to match; gateways send their own.
#[tokio::test]
async fn an_http_status_counts_unless_a_node_speaks_through_it() {
    let answer = |question: &Value| {
        let answer = |question: &Value| {
            let result = look(question["method"].as_str().unwrap(), 5);
            json!({ "jsonrpc": "2.0", "id": question["id"], "result": result })
        };
        question.as_array().unwrap().iter().map(answer).collect::<Value>().to_string()
    };
    let node = Fake::with_status(400, answer).await;
    assert!(pool([node.url()]).view().await.is_ok());
    for status in [429, 502, 503] {
        let node = Fake::with_status(status, answer).await;
        let pool = pool([node.url()]);
        assert!(pool.view().await.is_err());
        let why = format!("answered with HTTP status {status}");
        assert_eq!(pool.endpoints()[0].why, Some(why));
    }
    let node = Fake::with_status(302, |_| String::new()).await;
    assert!(pool([node.url()]).view().await.is_err(), "a redirect is not followed");
}
