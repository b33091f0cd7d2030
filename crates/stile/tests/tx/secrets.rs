//! What must not be seen is not seen: not in logs at their loudest, not in answers, not in metrics.
//!
//! Fails if a key, an endpoint's address or a password is formatted into anything anywhere.

use std::path::PathBuf;

use serde_json::json;
use testkit::{Anvil, AnvilOptions, RpcProxy, Signal, eventually};

use crate::common::{Finished, StileProcess};
use crate::support::{Backend, id, transfer};

/// Of nobody's account.
const KEY: &str = "5e1f00d5e1f00dcafe5e1f00dcafe5e1f00dcafe5e1f00dcafe5e1f00dcafe42";
/// As long as the access keys of chain providers are.
const PATH: &str = "canary-path-6e1c0f2b9d4a8e7c";
const QUERY: &str = "canary-query-77ab";
const PASSWORD: &str = "canary-password-93b2";
const SIGNER_PATH: &str = "canary-signer-b5c84d1f7a2e9c06";
const STORE_PASSWORD: &str = "canary-store-41fe";

const CANARIES: [&str; 6] = [KEY, PATH, QUERY, PASSWORD, SIGNER_PATH, STORE_PASSWORD];

/// A URL with everything in it that is nobody's business.
fn with_secrets(url: &str) -> String {
    let address = url.trim_start_matches("http://");
    format!("http://reader:{PASSWORD}@{address}/{PATH}?key={QUERY}")
}

#[track_caller]
fn assert_clean(what: &str, text: &str) {
    let text = text.to_lowercase();
    for canary in CANARIES {
        assert!(!text.contains(canary), "{canary} in {what}:\n{text}");
    }
    // Bytes as a list of numbers, as a careless `{:?}` would have them.
    assert!(!text.contains("94, 31, 0, 213, 225"), "the key in {what}:\n{text}");
}

/// Everything that can be asked for.
async fn ask_everything(node: &StileProcess, signer: &str, tx: &str) {
    let paths = [
        format!("/api/v1/tx/{tx}"),
        format!("/api/v1/tx/{tx}/history"),
        format!("/api/v1/tx/{tx}/attempts"),
        format!("/api/v1/tx/{tx}/confirmations"),
        format!("/api/v1/tx?signer={signer}"),
        "/api/v1/signers".to_owned(),
        format!("/api/v1/signers/{signer}"),
        format!("/api/v1/signers/{signer}/doctor"),
        "/health/live".to_owned(),
        "/health/ready".to_owned(),
        "/metrics".to_owned(),
        "/openapi.json".to_owned(),
        "/docs".to_owned(),
        "/".to_owned(),
        "/nowhere".to_owned(),
    ];
    for path in paths {
        let answer = node.get(&path).await;
        assert_clean(&path, &format!("{answer:?}"));
    }
}

async fn keys_passwords_and_endpoint_addresses_stay_inside(backend: Backend) {
    let options = AnvilOptions { block_time_seconds: Some(1), ..Default::default() };
    let anvil = Anvil::start(options).await;
    let chain = RpcProxy::start(anvil.url()).await;
    let remote = RpcProxy::start(anvil.url()).await;
    let remote_account = anvil.accounts().await.remove(3);
    let mut options = backend
        .node(&with_secrets(&chain.url()))
        .key_in_environment("CANARY_KEY", KEY)
        .remote_signer(&format!("{}/{SIGNER_PATH}", remote.url()), &remote_account)
        .set("log.level", "trace");
    if let Backend::Postgres(database) = &backend {
        // The server trusts everybody, so any password will do.
        let url = database.url.replacen('@', &format!(":{STORE_PASSWORD}@"), 1);
        options = options.set("store.url", url);
    }
    let node = options.start().await;

    let signers = node.get("/api/v1/signers").await.ok();
    let signers = signers["items"].as_array().unwrap().iter();
    let signers: Vec<String> =
        signers.map(|signer| signer["signer"].as_str().unwrap().to_owned()).collect();
    let local = signers.iter().find(|signer| **signer != remote_account).expect("two signers");
    anvil.set_balance(local, "1000000000000000000".parse().unwrap()).await;

    // The good path, by both signers.
    let mut last = String::new();
    for (wei, signer) in [(1, local), (2, &remote_account)] {
        let tx = node.send_new(&transfer(signer, wei)).await;
        node.reaches(id(&tx), "CONFIRMED").await;
        last = id(&tx).to_owned();
    }
    ask_everything(&node, local, &last).await;

    // And all that can go wrong: errors are what mentions addresses.
    chain.fail_all(401);
    remote.fail_all(500);
    for (wei, signer) in [(3, local), (4, &remote_account)] {
        let mut body = transfer(signer, wei);
        assert_clean("an answer", &format!("{:?}", node.send(&body).await));
        body["requestId"] = json!(format!("estimated-{wei}"));
        body["payload"].as_object_mut().unwrap().remove("gasLimit");
        assert_clean("an answer", &format!("{:?}", node.send(&body).await));
    }
    for proxy in [&chain, &remote] {
        let seen = proxy.calls().len();
        eventually("a call to be answered with the failure", async || {
            (proxy.calls().len() > seen).then_some(())
        })
        .await;
    }
    ask_everything(&node, local, &last).await;
    chain.refuse().await;
    remote.refuse().await;
    eventually("the endpoint to be missed", async || {
        node.process.stderr().contains("endpoint set aside").then_some(())
    })
    .await;
    ask_everything(&node, &remote_account, &last).await;
    let (stdout, stderr) = (node.process.stdout(), node.process.stderr());
    for part in ["stile_engine", "stile_chain"] {
        assert!(stderr.contains(part), "all of it speaks, {part} too:\n{stderr}");
    }
    assert!(stderr.contains("DEBUG"), "at its loudest:\n{stderr}");
    assert_clean("standard output", &stdout);
    assert_clean("standard error", &stderr);
    let config_file: PathBuf = node.config_file();
    let shown = ["config", "show", "--config", config_file.to_str().unwrap()];
    let shown = crate::common::run(&shown).await;
    assert_clean("config show", &format!("{shown:?}"));
    node.process.signal(Signal::Term);
    let ended = Finished::of(&node.process).await;
    assert_clean("the last words", &format!("{ended:?}"));
}

on_both_stores!(keys_passwords_and_endpoint_addresses_stay_inside);
