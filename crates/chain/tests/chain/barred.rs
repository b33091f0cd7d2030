//! Endpoints that refuse single methods in ways that are no JSON-RPC.

use std::time::Duration;

use serde_json::{Value, json};
use stile_chain::{PoolOptions, Supported, check};
use stile_domain::FeeQuote;
use testkit::RpcProxy;

use crate::support::{Fake, block, look, not_found, pool, pool_with};

const FEE_METHODS: [&str; 2] = ["eth_feeHistory", "eth_maxPriorityFeePerGas"];

/// The base fee of the newest block, and what is offered by the price that the node advises.
const BASE_FEE: u64 = 80;
const OFFERED: FeeQuote = FeeQuote::Market { base_fee: 90, priority_fee: 20 };

fn answer(method: &str, base_fee: Option<u64>) -> Result<Value, Value> {
    match method {
        "eth_getBlockByNumber" => {
            let mut newest = block(5);
            newest["baseFeePerGas"] = json!(base_fee.map(|fee| format!("{fee:#x}")));
            Ok(newest)
        }
        "eth_gasPrice" => Ok(json!("0x64")),
        "eth_feeHistory" => Ok(json!({ "baseFeePerGas": ["0x50", "0x5a"], "reward": [["0x7"]] })),
        "eth_maxPriorityFeePerGas" => Ok(json!("0x7")),
        method => look(method, 5).ok_or_else(not_found),
    }
}

/// A node with a base fee or without, behind something.
async fn node(base_fee: Option<u64>) -> (Fake, RpcProxy) {
    let node = Fake::start(move |method, _| answer(method, base_fee)).await;
    let proxy = RpcProxy::start(node.url()).await;
    (node, proxy)
}

/// Row 37: a gateway that refuses the methods for fees by an HTTP status. The next way is tried, and what is
/// refused is not asked for again.
#[tokio::test]
async fn hole_37_a_quote_falls_back_from_what_a_gateway_refuses_by_status() {
    for (status, base_fee, expected, asked) in [
        (403, Some(BASE_FEE), OFFERED, 1),
        (404, Some(BASE_FEE), OFFERED, 1),
        (405, Some(BASE_FEE), OFFERED, 1),
        (501, Some(BASE_FEE), OFFERED, 1),
        (500, Some(BASE_FEE), OFFERED, 3),
        (403, None, FeeQuote::Legacy { gas_price: 100 }, 1),
    ] {
        let (_node, proxy) = node(base_fee).await;
        FEE_METHODS.iter().for_each(|method| proxy.fail_with_status(method, status, None));
        let pool = pool([proxy.url()]);
        for _ in 0..6 {
            assert_eq!(pool.fee_quote().await.unwrap(), expected, "{status}");
        }
        assert_eq!(proxy.count("eth_feeHistory"), asked, "{status}");
        assert!(pool.endpoints()[0].usable, "{status}");
    }
}

/// Row 37: one that answers with a web page.
#[tokio::test]
async fn hole_37_a_quote_falls_back_from_a_web_page() {
    let node = Fake::raw(|question| {
        let answer = |question: &Value| {
            let result = answer(question["method"].as_str()?, Some(BASE_FEE)).ok()?;
            Some(json!({ "jsonrpc": "2.0", "id": question["id"], "result": result }))
        };
        match question {
            Value::Array(all) => all.iter().filter_map(answer).collect::<Value>().to_string(),
            one if FEE_METHODS.iter().any(|method| one["method"] == *method) => {
                "<html>Not for you</html>".to_owned()
            }
            one => answer(one).map_or_else(String::new, |answer| answer.to_string()),
        }
    })
    .await;
    let pool = pool([node.url()]);
    for _ in 0..6 {
        assert_eq!(pool.fee_quote().await.unwrap(), OFFERED);
    }
    pool.view().await.unwrap();
    let known = pool.capabilities().remove(0);
    for name in ["fee-history", "max-priority-fee"] {
        let row = known.rows.iter().find(|row| row.name == name).unwrap();
        assert_eq!(row.supported, Supported::No, "{name}");
    }
}

/// Row 37: one that does not answer them at all is not waited for at each quote, nor set aside.
#[tokio::test]
async fn hole_37_a_quote_falls_back_from_what_never_comes_and_is_soon_not_waited_for() {
    let (_node, proxy) = node(Some(BASE_FEE)).await;
    FEE_METHODS.iter().for_each(|method| proxy.hold(method));
    let options = PoolOptions { answer_timeout: Duration::from_secs(1), ..Default::default() };
    let pool = pool_with([proxy.url()], options);
    let quote = async || testkit::eventually("a quote", async || pool.fee_quote().await.ok()).await;
    testkit::eventually("the methods to be given up", async || {
        assert_eq!(quote().await, OFFERED);
        let known = pool.capabilities().remove(0);
        let lacks =
            |name| known.rows.iter().any(|it| it.name == name && it.supported == Supported::No);
        (lacks("fee-history") && lacks("max-priority-fee")).then_some(())
    })
    .await;
    let before = proxy.count("eth_feeHistory");
    assert_eq!(quote().await, OFFERED);
    assert_eq!(proxy.count("eth_feeHistory"), before);
}

/// Row 37: whoever tries a node is told.
#[tokio::test]
async fn hole_37_a_checked_node_that_refuses_the_fee_history_works_and_it_is_told() {
    let (_node, proxy) = node(Some(BASE_FEE)).await;
    for status in [403, 500] {
        proxy.fail_with_status("eth_feeHistory", status, None);
        let checked = check(&proxy.url(), None, Duration::from_secs(10)).await.unwrap();
        let fees: Vec<&String> = checked.reasons.iter().filter(|it| it.contains("gas")).collect();
        assert!(fees.is_empty(), "{fees:?}");
        let row = checked.capabilities.iter().find(|row| row.name == "fee-history").unwrap();
        assert_eq!(row.supported, Supported::No, "{status}");
        let told = format!("eth_feeHistory: answered with HTTP status {status}");
        assert!(checked.remarks.iter().any(|it| it.contains(&told)), "{:?}", checked.remarks);
    }
}
