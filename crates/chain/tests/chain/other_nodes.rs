//! Nodes that can do less than others.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use stile_chain::ReceiptAnswer;
use stile_domain::{Address, B256, Payload};

use crate::support::{Fake, look, pool};

/// Row 37: an endpoint that takes so many calls at once and no more is asked for no more.
#[tokio::test]
async fn hole_37_batches_are_as_large_as_the_endpoint_takes() {
    const MOST: usize = 10;
    let sizes: Arc<Mutex<Vec<usize>>> = Arc::default();
    let seen = Arc::clone(&sizes);
    let node = Fake::raw(move |question| {
        let answer = |question: &Value| {
            let result = match question["method"].as_str().unwrap() {
                "eth_getTransactionReceipt" => Value::Null,
                method => json!(look(method, 5)),
            };
            json!({ "jsonrpc": "2.0", "id": question["id"], "result": result })
        };
        let Value::Array(calls) = question else {
            seen.lock().unwrap().push(1);
            return answer(question).to_string();
        };
        seen.lock().unwrap().push(calls.len());
        if calls.len() > MOST {
            let error = json!({ "code": -32600, "message": "too many calls" });
            return json!({ "jsonrpc": "2.0", "id": null, "error": error }).to_string();
        }
        calls.iter().map(answer).collect::<Value>().to_string()
    })
    .await;
    let pool = pool([node.url()]);
    let hashes: Vec<B256> =
        (0..600_u64).map(|n| B256::left_padding_from(&n.to_be_bytes())).collect();
    let answers = pool.receipts(&hashes).await.unwrap();
    assert_eq!(answers, vec![ReceiptAnswer::NotFound { head: 5 }; 600]);
    let sizes = sizes.lock().unwrap();
    let refused = sizes.iter().filter(|size| **size > MOST).count();
    assert!(refused < 8, "it was asked for too many time and again: {sizes:?}");
    assert!(sizes.len() < 100, "it was asked for one at a time: {sizes:?}");
}

/// Row 37: some nodes estimate on no pending block, and some take no block at all.
#[tokio::test]
async fn hole_37_estimates_are_made_on_whatever_block_the_node_takes() {
    // What the node takes as the second parameter, and its words about anything else.
    let old = "too many arguments, want at most 1";
    let js = "invalid argument 1: block option must be a valid 0x-prefixed block hash, hex integer, or \
              latest/earliest";
    for (taken, words) in [(Some("pending"), ""), (Some("latest"), js), (None, old)] {
        let asked: Arc<Mutex<Vec<Option<String>>>> = Arc::default();
        let seen = Arc::clone(&asked);
        let node = Fake::start(move |method, params| match method {
            "eth_estimateGas" => {
                let block = params[1].as_str().map(str::to_owned);
                seen.lock().unwrap().push(block.clone());
                match block.as_deref() == taken {
                    true => Ok(json!("0x5208")),
                    false => Err(json!({ "code": -32602, "message": words })),
                }
            }
            method => Ok(json!(look(method, 5))),
        })
        .await;
        let pool = pool([node.url()]);
        let payload = Payload { to: Some(Address::ZERO), ..Payload::default() };
        for _ in 0..3 {
            assert_eq!(pool.estimate_gas(Address::ZERO, &payload).await, Ok(21_000), "{taken:?}");
        }
        let asked = asked.lock().unwrap();
        let last: Vec<Option<&str>> = asked.iter().rev().take(2).map(Option::as_deref).collect();
        assert_eq!(last, [taken; 2], "what it takes is remembered: {asked:?}");
    }
}
