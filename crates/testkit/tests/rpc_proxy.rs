//! A proxy before a chain node.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::{Anvil, AnvilOptions, Reaction, RpcProxy, eventually};

/// A chain, a proxy before it and a client of the proxy.
struct Setup {
    anvil: Anvil,
    proxy: RpcProxy,
    client: reqwest::Client,
}

impl Setup {
    async fn new() -> Self {
        let anvil = Anvil::start(AnvilOptions::default()).await;
        let proxy = RpcProxy::start(anvil.url()).await;
        let client = reqwest::Client::builder().no_proxy().timeout(testkit::DEADLINE).build();
        Self { anvil, proxy, client: client.unwrap() }
    }

    async fn post(&self, body: &Value) -> reqwest::Result<reqwest::Response> {
        self.client.post(format!("{}/any/path", self.proxy.url())).json(body).send().await
    }

    async fn ask(&self, body: &Value) -> Value {
        self.post(body).await.unwrap().json().await.unwrap()
    }

    /// A signed transfer with this nonce, not sent.
    async fn signed(&self, nonce: u64) -> String {
        let account = &self.anvil.accounts().await[0];
        let transfer = json!({
            "from": account, "to": account, "value": "0x1", "nonce": format!("{nonce:#x}"),
            "gas": "0x5208", "maxFeePerGas": "0x77359400", "maxPriorityFeePerGas": "0x1",
            "chainId": "0x7a69",
        });
        self.anvil.sign_transaction(transfer).await
    }
}

fn call(id: u64, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

#[tokio::test]
async fn requests_and_batches_pass_and_are_written_down() {
    let setup = Setup::new().await;
    let one = setup.ask(&call(7, "eth_chainId", json!([]))).await;
    assert_eq!((&one["id"], &one["result"]), (&json!(7), &json!("0x7a69")));
    let batch = json!([
        call(1, "eth_blockNumber", json!([])),
        call(2, "eth_getBlockByNumber", json!(["0x0", false])),
    ]);
    let answers = setup.ask(&batch).await;
    assert_eq!(answers.as_array().unwrap().len(), 2);

    let calls = setup.proxy.calls();
    let seen: Vec<_> = calls.iter().map(|seen| (seen.method.as_str(), seen.batch)).collect();
    assert_eq!(seen, [("eth_chainId", 1), ("eth_blockNumber", 2), ("eth_getBlockByNumber", 2)]);
    assert_eq!(calls[2].params, json!(["0x0", false]));
    assert_eq!(setup.proxy.count("eth_blockNumber"), 1);
    assert_eq!(setup.proxy.counts().values().sum::<u64>(), 3);
    setup.proxy.reset();
    assert_eq!(setup.proxy.count("eth_blockNumber"), 0);
}

#[tokio::test]
async fn signed_bytes_are_known_by_their_hash_before_the_chain_has_them() {
    let setup = Setup::new().await;
    let found = Arc::new(Mutex::new(Vec::new()));
    let (url, client) = (setup.anvil.url().to_owned(), setup.client.clone());
    setup.proxy.before_send({
        let found = Arc::clone(&found);
        move |hash| {
            let (found, url, client) = (Arc::clone(&found), url.clone(), client.clone());
            async move {
                let body = call(1, "eth_getTransactionByHash", json!([hash]));
                let response = client.post(url).json(&body).send().await.unwrap();
                let known: Value = response.json().await.unwrap();
                found.lock().unwrap().push((hash.to_string(), known["result"].clone()));
            }
        }
    });
    let raws = [setup.signed(0).await, setup.signed(1).await];
    let send = |raw: &str| call(1, "eth_sendRawTransaction", json!([raw]));
    let first = setup.ask(&send(&raws[0])).await["result"].clone();
    let second = setup.ask(&json!([send(&raws[1])])).await[0]["result"].clone();

    let found = found.lock().unwrap().clone();
    let expected =
        [&first, &second].map(|hash| (hash.as_str().unwrap().to_owned(), Value::Null)).to_vec();
    assert_eq!(found, expected);
    let sent = setup.proxy.sent_raw();
    assert_eq!(sent.iter().map(|sent| &sent.raw).collect::<Vec<_>>(), [&raws[0], &raws[1]]);
    assert_eq!(sent[1].hash.to_string(), second);
    assert!(sent[0].at <= sent[1].at);
}

#[tokio::test]
async fn one_method_fails_and_the_rest_of_its_batch_does_not() {
    let setup = Setup::new().await;
    setup.proxy.fail("eth_gasPrice", -32000, "out of gas prices");
    let alone = setup.ask(&call(3, "eth_gasPrice", json!([]))).await;
    assert_eq!(alone["error"], json!({ "code": -32000, "message": "out of gas prices" }));
    assert_eq!(alone["id"], 3);
    let batch = json!([call(1, "eth_gasPrice", json!([])), call(2, "eth_chainId", json!([]))]);
    let mut answers = setup.ask(&batch).await.as_array().unwrap().clone();
    answers.sort_by_key(|answer| answer["id"].as_u64());
    assert_eq!(answers[0]["error"]["code"], -32000);
    assert_eq!(answers[1]["result"], "0x7a69");
    setup.proxy.heal().await;
    assert!(setup.ask(&batch).await[0]["error"].is_null());
}

#[tokio::test]
async fn every_request_can_be_answered_with_a_status() {
    let setup = Setup::new().await;
    setup.proxy.fail_all(429);
    let body = call(1, "eth_chainId", json!([]));
    assert_eq!(setup.post(&body).await.unwrap().status(), 429);
    setup.proxy.heal().await;
    assert_eq!(setup.ask(&body).await["result"], "0x7a69");
    assert_eq!(setup.proxy.count("eth_chainId"), 2, "the failed one counts");
}

#[tokio::test]
async fn an_answer_is_lost_after_the_call_was_passed_on() {
    let setup = Setup::new().await;
    let account = setup.anvil.accounts().await.remove(0);
    setup.proxy.lose_answers("eth_sendRawTransaction");
    let body = call(1, "eth_sendRawTransaction", json!([setup.signed(0).await]));
    assert_eq!(setup.post(&body).await.unwrap().status(), 504);
    eventually("the chain to have it all the same", async || {
        (setup.anvil.nonce(&account, "latest").await == 1).then_some(())
    })
    .await;
    setup.proxy.heal().await;
    assert!(setup.ask(&body).await["error"].is_object(), "it is there already");
}

#[tokio::test]
async fn a_refusing_proxy_closes_connections_until_it_is_healed() {
    let setup = Setup::new().await;
    let body = call(1, "eth_chainId", json!([]));
    assert_eq!(setup.ask(&body).await["result"], "0x7a69");
    setup.proxy.refuse().await;
    assert!(setup.post(&body).await.unwrap_err().is_connect());
    assert_eq!(setup.proxy.count("eth_chainId"), 1, "nobody saw the second");
    setup.proxy.heal().await;
    assert_eq!(setup.ask(&body).await["result"], "0x7a69");
}

#[tokio::test]
async fn a_delay_concerns_one_method() {
    let setup = Setup::new().await;
    let delay = Duration::from_millis(300);
    setup.proxy.delay("eth_chainId", delay);
    let start = Instant::now();
    setup
        .ask(&json!([call(1, "eth_chainId", json!([])), call(2, "eth_gasPrice", json!([]))]))
        .await;
    assert!(start.elapsed() >= delay);
    let slow = call(1, "eth_chainId", json!([]));
    let quick = call(1, "eth_gasPrice", json!([]));
    let (slow, quick) = (setup.ask(&slow), setup.ask(&quick));
    futures::pin_mut!(slow, quick);
    let first = futures::future::select(slow, quick).await;
    assert!(matches!(first, futures::future::Either::Right(_)), "the slow one came first");
}

#[tokio::test]
async fn held_calls_wait_and_are_seen_waiting() {
    let setup = Setup::new().await;
    setup.proxy.hold("eth_sendRawTransaction");
    let account = setup.anvil.accounts().await.remove(0);
    let body = call(1, "eth_sendRawTransaction", json!([setup.signed(0).await]));
    let other = call(1, "eth_chainId", json!([]));
    let meanwhile = async {
        eventually("the call to be seen", async || {
            (setup.proxy.sent_raw().len() == 1).then_some(())
        })
        .await;
        assert_eq!(setup.ask(&other).await["result"], "0x7a69");
        assert_eq!(setup.anvil.nonce(&account, "pending").await, 0, "it was passed on");
        setup.proxy.release();
    };
    let (answer, ()) = tokio::join!(setup.ask(&body), meanwhile);
    assert!(answer["result"].is_string(), "{answer}");
    eventually("the transaction to be mined", async || {
        (setup.anvil.nonce(&account, "latest").await == 1).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_lie_changes_the_results_it_is_about_and_no_others() {
    let setup = Setup::new().await;
    let account = setup.anvil.accounts().await.remove(0);
    setup.anvil.send_transfer(&account, None).await;
    setup.proxy.lie("eth_getTransactionCount", |params, result| {
        (params[1] == "pending").then(|| json!(format!("{}0", result.as_str().unwrap())))
    });
    let count = |id, tag| call(id, "eth_getTransactionCount", json!([account, tag]));
    let answers = setup.ask(&json!([count(1, "latest"), count(2, "pending")])).await;
    let results: Vec<&Value> = answers.as_array().unwrap().iter().map(|a| &a["result"]).collect();
    assert_eq!(results, ["0x1", "0x10"]);
    assert_eq!(setup.ask(&count(3, "pending")).await["result"], "0x10", "outside a batch too");
    let wrong = setup.ask(&call(4, "eth_getTransactionCount", json!(["?", "pending"]))).await;
    assert!(wrong["error"].is_object(), "{wrong}");
    setup.proxy.heal().await;
    assert_eq!(setup.ask(&count(5, "pending")).await["result"], "0x1");
}

#[tokio::test]
async fn a_field_is_missing_from_what_one_method_answers() {
    let setup = Setup::new().await;
    let account = setup.anvil.accounts().await.remove(0);
    let hash = setup.anvil.send_transfer(&account, None).await;
    eventually("the receipt", async || setup.anvil.receipt(&hash).await).await;
    setup.proxy.strip("eth_getTransactionReceipt", "status");
    setup.proxy.strip("eth_getTransactionReceipt", "gasUsed");
    setup.proxy.strip("eth_getBlockReceipts", "status");
    let receipt = |id| call(id, "eth_getTransactionReceipt", json!([hash]));
    let of_block = |id| call(id, "eth_getBlockReceipts", json!(["latest"]));
    let block = call(3, "eth_getBlockByNumber", json!(["latest", false]));
    let answers = setup.ask(&json!([receipt(1), of_block(2), block])).await;
    let of = |id: u64| {
        let of_id = answers.as_array().unwrap().iter().find(|answer| answer["id"] == id);
        of_id.unwrap()["result"].clone()
    };
    let has = |object: &Value, field: &str| object.get(field).is_some();
    let (one, all) = (of(1), of(2));
    assert!(!has(&one, "status") && !has(&one, "gasUsed") && has(&one, "blockHash"), "{one}");
    assert!(!has(&all[0], "status") && has(&all[0], "gasUsed"), "{all}");
    assert!(has(&of(3), "gasUsed"), "of blocks nothing was said");
    // Beside a call that fails, too.
    setup.proxy.fail("eth_gasPrice", -32000, "not today");
    let answers = setup.ask(&json!([call(4, "eth_gasPrice", json!([])), receipt(5)])).await;
    let told = answers.as_array().unwrap().iter().find(|answer| answer["id"] == 5).unwrap();
    assert!(told["result"].is_object() && !has(&told["result"], "status"), "{told}");
    setup.proxy.heal().await;
    assert!(has(&setup.ask(&receipt(6)).await["result"], "status"));
}

#[tokio::test]
async fn what_an_endpoint_is_like_outlasts_its_faults() {
    let setup = Setup::new().await;
    setup.proxy.is_like(|method, params| match method {
        "eth_sendRawTransaction" => Some(Reaction::Error(-32601, "no such method".to_owned())),
        "eth_gasPrice" => Some(Reaction::Status(403)),
        "eth_estimateGas" => (params[0]["data"] == "0x01").then_some(Reaction::Silence),
        _ => None,
    });
    setup.proxy.heal().await;
    let batch = json!([
        call(1, "eth_sendRawTransaction", json!(["0x00"])),
        call(2, "eth_chainId", json!([])),
    ]);
    let answers = setup.ask(&batch).await;
    let of =
        |id: u64| answers.as_array().unwrap().iter().find(|answer| answer["id"] == id).unwrap();
    assert_eq!((&of(1)["error"]["code"], &of(2)["result"]), (&json!(-32601), &json!("0x7a69")));
    let refused = setup.post(&call(3, "eth_gasPrice", json!([]))).await.unwrap();
    assert_eq!(refused.status(), 403);
    let estimate = |data: &str| call(4, "eth_estimateGas", json!([{ "data": data }]));
    assert!(setup.ask(&estimate("0x")).await["result"].is_string());
    let silent = setup.client.post(setup.proxy.url()).json(&estimate("0x01"));
    let silent = silent.timeout(Duration::from_millis(300)).send().await;
    assert!(silent.unwrap_err().is_timeout());
}

#[tokio::test]
async fn an_endpoint_says_in_its_own_words_what_the_chain_refuses() {
    let setup = Setup::new().await;
    setup.proxy.is_like(|method, _| {
        (method == "eth_sendRawTransaction")
            .then(|| Reaction::Reword("decode", -32000, "not today".to_owned()))
    });
    let batch = json!([
        call(1, "eth_sendRawTransaction", json!(["0x00"])),
        call(2, "eth_chainId", json!([])),
    ]);
    for answer in setup.ask(&batch).await.as_array().unwrap() {
        match answer["id"].as_u64().unwrap() {
            1 => assert_eq!(answer["error"]["message"], "not today", "{answer}"),
            _ => assert_eq!(answer["result"], "0x7a69", "{answer}"),
        }
    }
    let alone = setup.ask(&call(3, "eth_sendRawTransaction", json!(["0x00"]))).await;
    assert_eq!(alone["error"], json!({ "code": -32000, "message": "not today" }));
}

#[tokio::test]
async fn an_endpoint_that_hangs_takes_connections_and_answers_nobody() {
    let setup = Setup::new().await;
    setup.proxy.hang();
    let ask = call(1, "eth_chainId", json!([]));
    let asked = setup.client.post(setup.proxy.url()).json(&ask);
    let asked = asked.timeout(Duration::from_millis(300)).send().await;
    assert!(asked.unwrap_err().is_timeout());
    setup.proxy.heal().await;
    assert_eq!(setup.ask(&ask).await["result"], "0x7a69");
}
