//! `stile chain`: a node before it is configured, and the chains of a server.

use serde_json::Value;
use testkit::{Anvil, AnvilOptions, RpcProxy, eventually};

use crate::common::{NodeOptions, SIGNER, run};

fn row<'a>(rows: &'a Value, name: &str) -> &'a Value {
    rows.as_array().unwrap().iter().find(|row| row["name"] == name).unwrap()
}

/// Row 37: what a node cannot do is told before it is configured.
#[tokio::test]
async fn hole_37_a_node_is_tried_before_it_is_configured() {
    let chain = Anvil::start(AnvilOptions::default()).await;
    let proxy = RpcProxy::start(chain.url()).await;
    proxy.fail("eth_getBlockReceipts", -32000, "the method is not available");
    proxy.fail("eth_feeHistory", -32601, "Method not found");
    // Without a scheme it is http.
    let url = proxy.url().replace("http://", "");
    let checked = run(&["chain", "check", &url, "--json"]).await;
    let checked: Value = serde_json::from_str(checked.ok()).unwrap();
    assert_eq!((&checked["works"], &checked["chainId"]), (&true.into(), &31337.into()));
    assert!(checked["clientVersion"].as_str().unwrap().contains("anvil"), "{checked}");
    let rows = &checked["capabilities"];
    for (name, supported) in [
        ("block-receipts", "no"),
        ("fee-history", "no"),
        ("base-fee", "yes"),
        ("batches", "yes"),
        ("estimate-on-pending", "yes"),
        ("tag-pending", "yes"),
        ("websocket", "no"),
    ] {
        assert_eq!(row(rows, name)["supported"], supported, "{name}: {checked}");
    }
    assert_eq!(row(rows, "batches")["detail"], "100 calls answered");
    assert!(row(rows, "block-receipts")["instead"].is_string());
    let ws = chain.url().replace("http", "ws");
    let table = run(&["chain", "check", &ws, "--chain-id", "31337"]).await;
    for part in ["SUPPORTED", "tag-finalized", "Stile can work with it  yes"] {
        assert!(table.ok().contains(part), "{part}: {table:#?}");
    }
}

#[tokio::test]
async fn a_node_that_stile_cannot_work_with_is_refused_with_the_reasons() {
    let chain = Anvil::start(AnvilOptions::default()).await;
    let proxy = RpcProxy::start(chain.url()).await;
    let other = run(&["chain", "check", &proxy.url(), "--chain-id", "5"]).await;
    assert_eq!(other.code, Some(1), "{other:#?}");
    assert!(other.stderr.contains("it serves chain 31337, not 5"), "{other:#?}");
    proxy.fail("eth_sendRawTransaction", -32601, "Method not found");
    proxy.fail("eth_getTransactionCount", -32601, "Method not found");
    let url = format!("{}/canary-secret", proxy.url());
    let refused = run(&["chain", "check", &url]).await;
    assert_eq!(refused.code, Some(1), "{refused:#?}");
    for method in ["eth_sendRawTransaction", "eth_getTransactionCount"] {
        assert!(refused.stderr.contains(method), "{refused:#?}");
    }
    assert!(!format!("{refused:?}").contains("canary"), "{refused:#?}");
    let nothing = run(&["chain", "check", "ftp://node.example/canary-secret"]).await;
    assert!(!nothing.failure().contains("canary"), "{nothing:#?}");
}

/// A server tells what its endpoints can do, at the terminal and over HTTP.
#[tokio::test]
async fn the_chains_of_a_server_are_shown() {
    let options = AnvilOptions { block_time_seconds: Some(1), ..AnvilOptions::default() };
    let chain = Anvil::start(options).await;
    let directory = tempfile::tempdir().unwrap();
    let node = NodeOptions::sqlite(&directory.path().join("stile.db"), &[SIGNER.to_owned()])
        .endpoint(chain.url())
        .start()
        .await;
    let shown = eventually("the endpoint to be known", async || {
        let answer = node.get("/api/v1/chains/31337").await.ok();
        let can = &answer["endpoints"][0]["capabilities"];
        let is_asked = answer["endpoints"][0]["clientVersion"].is_string();
        let known = is_asked && row(can, "fee-history")["supported"] == "yes";
        let known = known && answer["head"].is_u64();
        known.then(|| answer.clone())
    })
    .await;
    assert_eq!((&shown["chainId"], &shown["quorum"]), (&31337.into(), &1.into()));
    let endpoint = &shown["endpoints"][0];
    assert_eq!((&endpoint["usable"], &endpoint["lag"]), (&true.into(), &0.into()));
    assert!(endpoint["clientVersion"].as_str().unwrap().contains("anvil"), "{endpoint}");
    for (url, status, code) in [
        ("/api/v1/chains/5", 404, "unknown-chain"),
        ("/api/v1/chains/five", 422, "invalid-field"),
        ("/api/v1/chains/0", 422, "invalid-field"),
    ] {
        let answer = node.get(url).await;
        assert_eq!((answer.status, answer.problem().as_str()), (status, code), "{url}");
    }
    let text = run(&["chain", "show", "--url", node.url()]).await;
    for part in ["31337", "1 of 1", "block-receipts", "anvil"] {
        assert!(text.ok().contains(part), "{part}: {text:#?}");
    }
    let one = run(&["chain", "show", "31337", "--json", "--url", node.url()]).await;
    let one: Value = serde_json::from_str(one.ok()).unwrap();
    assert_eq!(one["chainId"], 31337);
}
