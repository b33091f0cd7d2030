//! Nodes that can do less than others.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use stile_chain::{ChainPool, EstimateError, PoolOptions, ReceiptAnswer, Supported, Tag, check};
use stile_domain::{Address, B256, FeeQuote, Payload};

use crate::support::{Fake, block, look, not_found, pool, pool_with};

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

/// Row 37: an endpoint that is done with so many calls in time and no more is read to the end.
///
/// Fails if a batch that was too slow ends the whole read, and the next read grows to it again.
#[tokio::test]
async fn hole_37_many_receipts_are_had_from_an_endpoint_that_is_slow_with_large_batches() {
    const MOST: usize = 20;
    let size = |question: &Value| question.as_array().map_or(1, Vec::len);
    let takes = move |question: &Value| match size(question) > MOST {
        true => Duration::from_secs(3600),
        false => Duration::ZERO,
    };
    let node = Fake::slow(200, takes, |question| {
        let answer = |question: &Value| {
            let result = match question["method"].as_str().unwrap() {
                "eth_getTransactionReceipt" => Value::Null,
                method => json!(look(method, 5)),
            };
            json!({ "jsonrpc": "2.0", "id": question["id"], "result": result })
        };
        match question {
            Value::Array(calls) => calls.iter().map(answer).collect::<Value>().to_string(),
            call => answer(call).to_string(),
        }
    })
    .await;
    let options = PoolOptions { answer_timeout: Duration::from_millis(500), ..Default::default() };
    let pool = pool_with([node.url()], options);
    let hashes: Vec<B256> =
        (0..600_u64).map(|n| B256::left_padding_from(&n.to_be_bytes())).collect();
    let mut failed = Vec::new();
    let answers = loop {
        match pool.receipts(&hashes).await {
            Ok(answers) => break answers,
            Err(error) => failed.push(error.to_string()),
        }
        // A look that found nobody is believed for a moment.
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(failed.len() < 8, "{failed:#?}");
    };
    assert_eq!(answers, vec![ReceiptAnswer::NotFound { head: 5 }; 600]);
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

/// Row 37: a node that says no to what is pending in words of its own is asked on the newest block, and nothing
/// is learned from it.
#[tokio::test]
async fn hole_37_an_unknown_error_on_what_is_pending_has_the_newest_block_tried() {
    for (code, message) in [
        (-32000, "the state to come is not kept"),
        (-32603, "Internal error"),
        (-32000, "header not found"),
    ] {
        let (node, counts) = node(move |method, params| match method {
            "eth_estimateGas" if params[1] == "pending" => {
                Some(Err(json!({ "code": code, "message": message })))
            }
            "eth_estimateGas" => Some(Ok(json!("0x5208"))),
            _ => None,
        })
        .await;
        let pool = pool([node.url()]);
        let payload = Payload { to: Some(Address::ZERO), ..Payload::default() };
        for times in 1..=3 {
            assert_eq!(pool.estimate_gas(Address::ZERO, &payload).await, Ok(21_000), "{message}");
            assert_eq!(count(&counts, "eth_estimateGas"), 2 * times, "{message}");
            assert_eq!(on_pending(&pool), Supported::Unknown, "{message}");
        }
    }
}

/// What is known of an endpoint's estimates on what is pending.
fn on_pending(pool: &ChainPool) -> Supported {
    let known = pool.capabilities().remove(0);
    known.rows.iter().find(|row| row.name == "estimate-on-pending").unwrap().supported
}

/// Row 37: whoever wrote a contract does not choose the block that all others are estimated on.
#[tokio::test]
async fn hole_37_a_contracts_words_do_not_move_estimates_to_another_block() {
    let node = Fake::start(|method, params| match method {
        "eth_estimateGas" => match (params[0].get("data"), params[1].as_str()) {
            (Some(_), Some("pending")) => {
                Err(json!({ "code": 3, "message": "execution reverted: pending block" }))
            }
            _ => Ok(json!("0x5208")),
        },
        method => Ok(json!(look(method, 5))),
    })
    .await;
    let pool = pool([node.url()]);
    let plain = Payload { to: Some(Address::ZERO), ..Payload::default() };
    let hostile = Payload { data: vec![1].into(), ..plain.clone() };
    assert_eq!(pool.estimate_gas(Address::ZERO, &plain).await, Ok(21_000));
    let refused = pool.estimate_gas(Address::ZERO, &hostile).await.unwrap_err();
    assert!(matches!(refused, EstimateError::Reverted { .. }), "{refused:?}");
    assert_eq!(on_pending(&pool), Supported::Yes);
}

/// Row 37: an endpoint that refused what is pending once is tried again, and another node behind its
/// address is another one.
#[tokio::test]
async fn hole_37_a_no_to_estimates_on_what_is_pending_is_corrected() {
    let (refuses, away) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(false)));
    let version = Arc::new(AtomicU32::new(1));
    let told = (Arc::clone(&refuses), Arc::clone(&away), Arc::clone(&version));
    let node = Fake::start(move |method, params| match method {
        _ if told.1.load(Relaxed) => Err(json!({ "code": -32603, "message": "starting" })),
        "web3_clientVersion" => Ok(json!(format!("node/{}", told.2.load(Relaxed)))),
        "eth_estimateGas" if params[1] == "pending" && told.0.load(Relaxed) => {
            Err(json!({ "code": -32000, "message": "pending state is not available" }))
        }
        "eth_estimateGas" => Ok(json!("0x5208")),
        method => look(method, 5).ok_or_else(not_found),
    })
    .await;
    let pool = pool([node.url()]);
    let payload = Payload { to: Some(Address::ZERO), ..Payload::default() };
    let estimate =
        async || assert_eq!(pool.estimate_gas(Address::ZERO, &payload).await, Ok(21_000));
    estimate().await;
    assert_eq!(on_pending(&pool), Supported::No, "it has refused it");
    refuses.store(false, Relaxed);
    estimate().await;
    assert_eq!(on_pending(&pool), Supported::No, "that is remembered");
    pool.learn().await;
    assert_eq!(on_pending(&pool), Supported::Yes, "it was tried again");

    refuses.store(true, Relaxed);
    estimate().await;
    assert_eq!(on_pending(&pool), Supported::No);
    away.store(true, Relaxed);
    assert!(pool.view().await.is_err());
    pool.learn().await;
    refuses.store(false, Relaxed);
    away.store(false, Relaxed);
    version.store(2, Relaxed);
    testkit::eventually("the endpoint to be back", async || pool.view().await.ok()).await;
    pool.learn().await;
    assert_eq!(on_pending(&pool), Supported::Yes, "it is another node");
    assert_eq!(pool.capabilities()[0].client_version.as_deref(), Some("node/2"));
}

type Counts = Arc<Mutex<BTreeMap<String, u32>>>;

/// A node with these answers in the place of a healthy one's, and how often each method was asked.
async fn node(
    answers: impl Fn(&str, &Value) -> Option<Result<Value, Value>> + Send + Sync + 'static,
) -> (Fake, Counts) {
    let counts: Counts = Arc::default();
    let counted = Arc::clone(&counts);
    let node = Fake::start(move |method, params| {
        *counted.lock().unwrap().entry(method.to_owned()).or_default() += 1;
        match answers(method, params) {
            Some(answer) => answer,
            None => look(method, 5).ok_or_else(not_found),
        }
    })
    .await;
    (node, counts)
}

fn count(counts: &Counts, method: &str) -> u32 {
    counts.lock().unwrap().get(method).copied().unwrap_or_default()
}

/// Row 37: whatever the words, a node that gives no receipts by block is asked for them once, and from
/// then on one by one.
#[tokio::test]
async fn hole_37_receipts_by_block_are_not_asked_for_again_where_they_are_refused() {
    for (code, message) in [
        (-32601, "Method not found"),
        (-32600, "Unsupported method"),
        (-32000, "method not found"),
        (-32000, "the method eth_getBlockReceipts does not exist/is not available"),
        (-32603, "eth_getBlockReceipts is not supported"),
    ] {
        let (node, counts) = node(move |method, _| match method {
            "eth_getBlockReceipts" => Some(Err(json!({ "code": code, "message": message }))),
            "eth_getTransactionReceipt" => Some(Ok(Value::Null)),
            _ => None,
        })
        .await;
        let pool = pool([node.url()]);
        let wanted: Vec<B256> = (1..=3).map(B256::repeat_byte).collect();
        for _ in 0..3 {
            let view = pool.view().await.unwrap();
            let head = *view.head();
            assert_eq!(view.receipts_in(&head, &wanted).await.unwrap(), [], "{message}");
        }
        assert_eq!(count(&counts, "eth_getBlockReceipts"), 1, "{message}");
        assert_eq!(count(&counts, "eth_getTransactionReceipt"), 9, "{message}");
    }
}

/// Row 37: a node whose receipts by block fail again and again, in words that say nothing of the method,
/// is not asked for them for ever.
#[tokio::test]
async fn hole_37_receipts_by_block_that_always_fail_are_given_up() {
    let (node, counts) = node(|method, _| match method {
        "eth_getBlockReceipts" => Some(Err(json!({ "code": -32603, "message": "Internal error" }))),
        "eth_getTransactionReceipt" => Some(Ok(Value::Null)),
        _ => None,
    })
    .await;
    let pool = pool([node.url()]);
    let wanted: Vec<B256> = (1..=3).map(B256::repeat_byte).collect();
    for _ in 0..8 {
        let view = pool.view().await.unwrap();
        let head = *view.head();
        assert_eq!(view.receipts_in(&head, &wanted).await.unwrap(), []);
    }
    assert_eq!(count(&counts, "eth_getBlockReceipts"), 3);
}

fn receipt_in_5(hash: &Value) -> Value {
    json!({
        "transactionHash": hash,
        "blockNumber": "0x5",
        "blockHash": block(5)["hash"],
        "transactionIndex": "0x0",
        "status": "0x1",
        "gasUsed": "0x5208",
    })
}

/// Row 37: an endpoint may leave out of a block's receipts what it has. Each answer of this kind is made up
/// for by asking singly, and such an endpoint is soon not asked for whole blocks any more.
#[tokio::test]
async fn hole_37_receipts_that_a_block_lacks_are_asked_for_one_by_one() {
    let wanted: Vec<B256> = (1..=3).map(B256::repeat_byte).collect();
    let elsewhere = {
        let mut receipt = receipt_in_5(&json!(wanted[0]));
        receipt["blockHash"] = json!(B256::repeat_byte(9));
        receipt
    };
    for (at_once, singly) in [
        (json!([]), 3),
        (json!(null), 3),
        (json!([receipt_in_5(&json!(wanted[1]))]), 2),
        (json!([elsewhere, receipt_in_5(&json!(wanted[1])), receipt_in_5(&json!(wanted[2]))]), 1),
        (json!([{ "transactionHash": wanted[0] }]), 3),
    ] {
        let told = at_once.clone();
        let (node, counts) = node(move |method, params| match method {
            "eth_getBlockReceipts" => Some(Ok(told.clone())),
            "eth_getTransactionReceipt" => Some(Ok(receipt_in_5(&params[0]))),
            _ => None,
        })
        .await;
        let pool = pool([node.url()]);
        pool.view().await.unwrap();
        for _ in 0..6 {
            let view = pool.view().await.unwrap();
            let head = *view.head();
            let mut found = view.receipts_in(&head, &wanted).await.unwrap();
            found.sort_by_key(|receipt| receipt.tx_hash);
            let found: Vec<B256> = found.into_iter().map(|receipt| receipt.tx_hash).collect();
            assert_eq!(found, wanted, "{at_once}");
            assert_eq!(view.trouble(), None, "{at_once}");
        }
        assert_eq!(count(&counts, "eth_getBlockReceipts"), 3, "{at_once}");
        assert_eq!(count(&counts, "eth_getTransactionReceipt"), 3 * singly + 3 * 3, "{at_once}");
        // That the method is known does not help.
        pool.learn().await;
        let known = pool.capabilities().remove(0);
        let row = known.rows.iter().find(|row| row.name == "block-receipts").unwrap();
        assert_eq!(row.supported, Supported::No, "{at_once}");
    }
}

/// Row 37: a node that shows no receipts at all is not said to leave some out.
#[tokio::test]
async fn hole_37_a_node_that_is_a_moment_late_with_receipts_keeps_its_name() {
    for (at_once, expected) in [(json!([]), Some(0)), (json!(null), None)] {
        let told = at_once.clone();
        let (node, counts) = node(move |method, _| match method {
            "eth_getBlockReceipts" => Some(Ok(told.clone())),
            "eth_getTransactionReceipt" => Some(Ok(Value::Null)),
            _ => None,
        })
        .await;
        let pool = pool([node.url()]);
        let wanted: Vec<B256> = (1..=3).map(B256::repeat_byte).collect();
        for _ in 0..5 {
            let view = pool.view().await.unwrap();
            let head = *view.head();
            let found = view.receipts_in(&head, &wanted).await.ok().map(|found| found.len());
            assert_eq!(found, expected, "{at_once}");
        }
        assert_eq!(count(&counts, "eth_getBlockReceipts"), 5, "{at_once}");
    }
}

/// Row 37: what was found out about a node's real blocks is not forgotten for what it says of a block that
/// it does not have.
#[tokio::test]
async fn hole_37_a_checked_node_that_leaves_receipts_out_is_told() {
    let tx = B256::repeat_byte(1);
    for (told, expected) in [
        (json!([]), Supported::No),
        (json!(null), Supported::No),
        (json!([receipt_in_5(&json!(tx))]), Supported::Yes),
    ] {
        let at_once = told.clone();
        let (node, _) = node(move |method, params| match method {
            "eth_getBlockByNumber" | "eth_getBlockByHash" => {
                let mut block = block(5);
                block["transactions"] = match params[1].as_bool() {
                    Some(true) => json!([{
                        "hash": tx, "from": Address::ZERO, "nonce": "0x0",
                    }]),
                    _ => json!([tx]),
                };
                Some(Ok(block))
            }
            "eth_getBlockReceipts" if params[0] == block(5)["hash"] => Some(Ok(at_once.clone())),
            "eth_getBlockReceipts" => Some(Ok(json!(null))),
            "eth_getTransactionReceipt" => Some(Ok(receipt_in_5(&params[0]))),
            _ => None,
        })
        .await;
        let checked = check(node.url(), None, Duration::from_secs(10)).await.unwrap();
        let row = checked.capabilities.iter().find(|row| row.name == "block-receipts").unwrap();
        assert_eq!(row.supported, expected, "{told}");
    }
}

/// Row 37: a quote falls back from the history of fees to the tip that the node advises and the block's
/// base fee, then to the gas price, and what a node does not have is not asked for each time.
#[tokio::test]
async fn hole_37_quotes_fall_back_and_what_is_not_there_is_remembered() {
    let market = |base_fee, priority_fee| FeeQuote::Market { base_fee, priority_fee };
    for (base_fee, tip, expected) in [
        (Some(80_u64), Some(7_u64), market(90, 7)),
        (Some(80), None, market(90, 20)),
        (None, None, FeeQuote::Legacy { gas_price: 100 }),
    ] {
        let (node, counts) = node(move |method, _| match method {
            "eth_getBlockByNumber" => {
                let mut block = block(5);
                block["baseFeePerGas"] = json!(base_fee.map(|fee| format!("{fee:#x}")));
                Some(Ok(block))
            }
            "eth_maxPriorityFeePerGas" => tip.map(|tip| Ok(json!(format!("{tip:#x}")))),
            "eth_gasPrice" => Some(Ok(json!("0x64"))),
            _ => None,
        })
        .await;
        let pool = pool([node.url()]);
        for _ in 0..4 {
            assert_eq!(pool.fee_quote().await.unwrap(), expected, "{base_fee:?} {tip:?}");
        }
        assert_eq!(count(&counts, "eth_feeHistory"), 1, "{base_fee:?} {tip:?}");
        if base_fee.is_some() && tip.is_none() {
            assert_eq!(count(&counts, "eth_maxPriorityFeePerGas"), 1);
        }
    }
}

/// A node that takes these tags and knows no others.
async fn with_tags(tags: &'static [&'static str]) -> (Fake, Counts) {
    node(move |method, params| {
        let tag = params[0].as_str().filter(|_| method == "eth_getBlockByNumber")?;
        let is_unknown = !tag.starts_with("0x") && tag != "latest" && !tags.contains(&tag);
        let words = "invalid argument 0: hex string without 0x prefix";
        is_unknown.then(|| Err(json!({ "code": -32602, "message": words })))
    })
    .await
}

/// Row 38: whether a chain has a tag is what a quorum of its endpoints say, and it is asked once.
#[tokio::test]
async fn hole_38_a_chain_has_a_tag_if_a_quorum_of_its_endpoints_have_it() {
    let (new, old): (&[&str], &[&str]) = (&["pending", "safe", "finalized"], &["pending"]);
    for (nodes, expected) in [
        (vec![new], Some(true)),
        (vec![old], Some(false)),
        (vec![new, new, old], Some(true)),
        (vec![new, old, old], Some(false)),
    ] {
        let mut started = Vec::new();
        for tags in nodes {
            started.push(with_tags(tags).await);
        }
        let pool = pool(started.iter().map(|(node, _)| node.url()));
        let within = Duration::from_secs(10);
        assert_eq!(pool.offers(Tag::Finalized, within).await, expected);
        assert_eq!(pool.offers(Tag::Pending, within).await, Some(true));
        let asked = |counts: &Counts| count(counts, "eth_getBlockByNumber");
        let before: Vec<u32> = started.iter().map(|(_, counts)| asked(counts)).collect();
        assert_eq!(pool.offers(Tag::Finalized, within).await, expected);
        let after: Vec<u32> = started.iter().map(|(_, counts)| asked(counts)).collect();
        assert_eq!(before, after, "what is known is not asked for");
    }
}

/// What an endpoint can do is found out by a few questions, once.
#[tokio::test]
async fn what_an_endpoint_can_do_is_found_out_once() {
    let (node, counts) = node(|method, _| match method {
        "web3_clientVersion" => Some(Ok(json!("old-node/1.0"))),
        "eth_estimateGas" => Some(Ok(json!("0x5208"))),
        "eth_getBlockReceipts" => {
            Some(Err(json!({ "code": -32000, "message": "block not found" })))
        }
        _ => None,
    })
    .await;
    let pool = pool([node.url()]);
    pool.learn().await;
    assert_eq!(count(&counts, "web3_clientVersion"), 0, "it was not seen well yet");
    pool.view().await.unwrap();
    for _ in 0..3 {
        pool.learn().await;
    }
    assert_eq!(count(&counts, "web3_clientVersion"), 1);
    assert_eq!(count(&counts, "eth_feeHistory"), 1);
    let known = pool.capabilities().remove(0);
    assert_eq!(known.client_version.as_deref(), Some("old-node/1.0"));
    for (name, expected) in [
        ("tag-safe", Supported::Yes),
        ("block-receipts", Supported::Yes),
        ("fee-history", Supported::No),
        ("max-priority-fee", Supported::No),
        ("base-fee", Supported::No),
        ("fee-market-transactions", Supported::No),
        ("access-list-transactions", Supported::Unknown),
        ("estimate-on-pending", Supported::Yes),
        ("batches", Supported::Yes),
        ("subscriptions", Supported::No),
        ("pending-transactions", Supported::Unknown),
    ] {
        let row = known.rows.iter().find(|row| row.name == name).unwrap();
        assert_eq!(row.supported, expected, "{row:?}");
    }
}
