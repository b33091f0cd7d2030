//! A key is for the chains that its entry names.

use serde_json::{Value, json};
use testkit::{Anvil, AnvilOptions, RpcProxy, eventually};

use crate::Solo;
use crate::common::{Answer, CHAIN, SIGNER, StileProcess};

/// The second chain.
const OTHER: u64 = 5;

const TO: &str = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";
const SIGN: &str = "eth_signTransaction";

async fn chain(chain_id: u64) -> Anvil {
    Anvil::start(AnvilOptions { chain_id, ..AnvilOptions::default() }).await
}

async fn transfer(node: &StileProcess, chain: u64) -> Answer {
    let payload = json!({ "to": TO, "value": "1", "gasLimit": "21000" });
    let body = json!({ "signer": SIGNER, "chainId": chain, "payload": payload });
    node.post("/api/v1/tx", body).await
}

async fn lands(node: &StileProcess, taken: &Answer) -> Value {
    assert_eq!(taken.status, 202, "{taken:?}");
    let id = taken.json()["txId"].as_str().unwrap().to_owned();
    eventually("the transaction to be mined", async || {
        let tx = node.get(&format!("/api/v1/tx/{id}")).await.ok();
        (!tx["receipt"].is_null()).then_some(tx)
    })
    .await
}

/// Its callers sign by themselves on the other chain. The key would do, and has not been given for that.
#[tokio::test]
async fn hole_41_a_key_for_one_chain_never_signs_on_another() {
    let (first, second) = (chain(CHAIN).await, chain(OTHER).await);
    let solo = Solo::start_with(&[], |options| {
        options
            .endpoint(first.url())
            .another_chain_at(OTHER, second.url())
            .key_on_chain("KEY", Anvil::key(0), CHAIN)
            .signer_entry(&format!("address = \"{SIGNER}\"\nchain = {OTHER}"))
    })
    .await;
    let refused = transfer(&solo.node, OTHER).await;
    assert_eq!((refused.status, refused.problem().as_str()), (422, "no-key"), "{refused:?}");
    let detail = refused.json()["detail"].as_str().unwrap().to_owned();
    for part in [SIGNER, "on chain 5", "[[signer]]", "bare nonces"] {
        assert!(detail.contains(part), "{part}: {detail}");
    }
    lands(&solo.node, &transfer(&solo.node, CHAIN).await).await;
    let allocate = format!("/api/v1/nonces/{SIGNER}/allocate");
    let hold = solo.node.post(&allocate, json!({ "chainId": OTHER })).await.ok();
    assert_eq!(hold["nonce"], 0, "nonces there are its callers'");
    assert_eq!(second.nonce(SIGNER, "pending").await, 0, "nothing was sent there");
}

/// Fails if the last source of one account signs on all chains.
#[tokio::test]
async fn hole_41_each_chain_is_signed_for_by_its_own_source() {
    let (first, second) = (chain(CHAIN).await, chain(OTHER).await);
    let signing = RpcProxy::start(second.url()).await;
    let solo = Solo::start_with(&[], |options| {
        options
            .endpoint(first.url())
            .another_chain_at(OTHER, second.url())
            .key_on_chain("KEY", Anvil::key(0), CHAIN)
            .signer_entry(&format!(
                "remote = \"{}\"\naddress = \"{SIGNER}\"\nchain = {OTHER}",
                signing.url()
            ))
    })
    .await;
    lands(&solo.node, &transfer(&solo.node, CHAIN).await).await;
    assert_eq!(signing.count(SIGN), 0, "the key in the process signs here");
    lands(&solo.node, &transfer(&solo.node, OTHER).await).await;
    assert_eq!(signing.count(SIGN), 1, "and the other process there");
}

#[tokio::test]
async fn hole_41_two_sources_for_one_lane_are_refused_with_both_lines() {
    let directory = tempfile::tempdir().unwrap();
    let options = || {
        crate::NodeOptions::sqlite(&directory.path().join("stile.db"), &[])
            .another_chain(OTHER)
            .environment("SAME", Anvil::key(0))
            .key_in_environment("KEY", Anvil::key(0))
    };
    for second in [
        // What the key's address is shows only when it is read.
        format!("address = \"{SIGNER}\""),
        format!("address = \"{SIGNER}\"\nchain = {OTHER}"),
        "key = \"env:SAME\"".to_owned(),
        format!("key = \"env:SAME\"\nchain = {OTHER}"),
        format!("remote = \"http://127.0.0.1:1\"\naddress = \"{SIGNER}\""),
    ] {
        let options = options().signer_entry(&second);
        let text = options.to_toml(1);
        let lines = text.lines().enumerate().filter(|(_, line)| *line == "[[signer]]");
        let lines: Vec<usize> = lines.map(|(place, _)| place + 1).collect();
        let refused = options.refused().await;
        let shown = refused.failure();
        for part in [
            format!("stile.toml:{}: signer[1]", lines[1]),
            "signer[0] (".to_owned(),
            format!("stile.toml:{})", lines[0]),
            "two sources".to_owned(),
            "remove one of them".to_owned(),
        ] {
            assert!(shown.contains(&part), "{part} is missing for {second}: {shown}");
        }
        assert!(!refused.stderr.contains("node starts"), "{refused:?}");
    }
}
