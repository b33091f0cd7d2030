//! Endpoints that take no batches, in whatever way they say so.

use std::time::Duration;

use serde_json::{Value, json};
use stile_chain::{ChainPool, ReceiptAnswer, Supported, check};
use stile_domain::B256;
use testkit::RpcProxy;

use crate::support::{Fake, look, not_found, pool};

/// A node behind something that has not been told to do anything yet.
async fn node() -> (Fake, RpcProxy) {
    let node = Fake::start(|method, _| match method {
        "eth_getTransactionReceipt" => Ok(Value::Null),
        method => look(method, 5).ok_or_else(not_found),
    })
    .await;
    let proxy = RpcProxy::start(node.url()).await;
    (node, proxy)
}

fn text(value: impl Into<Value>) -> String {
    value.into().to_string()
}

fn error(code: i64, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": null, "error": { "code": code, "message": message } })
}

fn numbered(answers: Vec<Value>, id: impl Fn(&Value) -> Value) -> String {
    let first = answers[0]["id"].clone();
    let each = answers.into_iter().map(|mut answer| {
        answer["id"] = id(&first);
        answer
    });
    text(each.collect::<Value>())
}

type Written = fn(Vec<Value>) -> String;

/// What comes instead of the answers to a batch: the name, the HTTP status, and what is written.
const WAYS: &[(&str, u16, Written)] = &[
    ("unauthorized", 401, |_| "unauthorized".to_owned()),
    ("forbidden", 403, |_| "forbidden".to_owned()),
    ("not found", 404, |_| "<html>404</html>".to_owned()),
    ("not allowed", 405, |_| String::new()),
    ("no object", 422, |_| text(json!({ "detail": "body must be object" }))),
    ("a plan without them", 429, |_| "no batches on the free plan".to_owned()),
    ("server error", 500, |_| text(json!({ "message": "Internal server error" }))),
    ("not there", 501, |_| String::new()),
    ("bad gateway", 502, |_| "<html>502</html>".to_owned()),
    ("a web page", 200, |_| "<html>Hello</html>".to_owned()),
    ("nothing", 200, |_| String::new()),
    ("null", 200, |_| "null".to_owned()),
    ("an error in words", 200, |_| text(json!({ "error": "batch requests not allowed" }))),
    ("internal", 200, |_| text(error(-32603, "Internal error"))),
    ("unmarshal", 200, |_| {
        text(error(-32000, "json: cannot unmarshal array into Go value of type rpc.request"))
    }),
    ("an error in a list", 200, |_| text(vec![error(-32600, "batch not allowed")])),
    ("the last left out", 200, |mut answers| {
        answers.pop();
        text(answers)
    }),
    ("an empty list", 200, |_| "[]".to_owned()),
    ("the same number", 200, |answers| numbered(answers, Value::clone)),
    ("no number", 200, |answers| numbered(answers, |_| Value::Null)),
    ("everything twice", 200, |answers| text([answers.clone(), answers].concat())),
    ("the first alone", 200, |answers| text(answers[0].clone())),
];

fn takes_batches(pool: &ChainPool) -> Supported {
    let known = pool.capabilities().remove(0);
    known.rows.iter().find(|row| row.name == "batches").unwrap().supported
}

async fn read(pool: &ChainPool, way: &str) {
    let hashes: Vec<B256> = (1..=40).map(B256::repeat_byte).collect();
    pool.view().await.unwrap_or_else(|error| panic!("{way}: {error}"));
    let answers = pool.receipts(&hashes).await.unwrap_or_else(|error| panic!("{way}: {error}"));
    assert_eq!(answers, vec![ReceiptAnswer::NotFound { head: 5 }; 40], "{way}");
    let endpoint = pool.endpoints().remove(0);
    assert!(endpoint.usable, "{way}: {:?}", endpoint.why);
    assert_eq!(endpoint.unreadable, [], "{way}");
}

/// Row 37: however an endpoint says that it takes no batches, it is asked one thing at a time.
#[tokio::test]
async fn hole_37_an_endpoint_that_takes_no_batches_is_asked_one_thing_at_a_time() {
    for (way, status, write) in WAYS {
        let (_node, proxy) = node().await;
        proxy.answer_batches(*status, write);
        let pool = pool([proxy.url()]);
        read(&pool, way).await;
        assert_eq!(takes_batches(&pool), Supported::No, "{way}");
        proxy.reset();
        read(&pool, way).await;
        assert!(proxy.calls().iter().all(|seen| seen.batch == 1), "{way}: it is asked again");
    }
}

/// Row 37: one that is in use and takes batches no more stays in use.
#[tokio::test]
async fn hole_37_an_endpoint_in_use_that_takes_no_batches_any_more_stays_in_use() {
    for (way, status, write) in WAYS {
        let (_node, proxy) = node().await;
        let pool = pool([proxy.url()]);
        read(&pool, way).await;
        assert_eq!(takes_batches(&pool), Supported::Yes, "{way}");
        proxy.answer_batches(*status, write);
        for _ in 0..2 {
            read(&pool, way).await;
        }
        pool.view().await.unwrap();
        assert_eq!(takes_batches(&pool), Supported::No, "{way}");
    }
}

/// Row 37: one that refuses single questions in the same way is not there, and nothing is learned of its
/// batches.
#[tokio::test]
async fn hole_37_an_endpoint_that_refuses_everything_is_not_said_to_refuse_batches() {
    for status in [401, 403, 404, 429, 500, 502] {
        let (_node, proxy) = node().await;
        proxy.fail_all(status);
        let pool = pool([proxy.url()]);
        let error = pool.view().await.unwrap_err().to_string();
        assert!(error.contains(&format!("HTTP status {status}")), "{error}");
        assert_eq!(takes_batches(&pool), Supported::Unknown, "{status}");
    }
}

/// Row 37: whoever tries a node is told what is so.
#[tokio::test]
async fn hole_37_a_checked_node_that_takes_no_batches_works_and_it_is_told() {
    for (way, status, write) in WAYS {
        let (_node, proxy) = node().await;
        proxy.answer_batches(*status, write);
        let checked = check(&proxy.url(), None, Duration::from_secs(10)).await.unwrap();
        let together: Vec<&String> =
            checked.reasons.iter().filter(|reason| reason.contains("together")).collect();
        assert!(together.is_empty(), "{way}: {together:?}");
        let row = checked.capabilities.iter().find(|row| row.name == "batches").unwrap();
        assert_eq!(row.supported, Supported::No, "{way}");
        assert_eq!(row.instead, Some("asks one question at a time"), "{way}");
    }
}
