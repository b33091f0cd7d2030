//! Numbers that JavaScript rounds: of those that the API has, chain ids are the only ones that get so
//! large.

use std::process::Command;

use serde_json::{Value, json};
use testkit::{Anvil, AnvilOptions, eventually};

use crate::Solo;
use crate::common::{CHAIN, SIGNER};

/// The first whole number that JavaScript does not know is 2^53 + 1.
const LARGE: u64 = 9_007_199_254_740_993;

async fn chain(chain_id: u64) -> Anvil {
    Anvil::start(AnvilOptions { chain_id, ..AnvilOptions::default() }).await
}

/// What a program in JavaScript makes of an answer, as a text.
fn in_javascript(program: &str, answer: &Value) -> String {
    let program =
        format!("const answer = JSON.parse(process.argv[1]); process.stdout.write({program})");
    let output = Command::new("node").args(["-e", &program, &answer.to_string()]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn a_chain_id_that_javascript_rounds_survives_it() {
    let (first, second) = (chain(CHAIN).await, chain(LARGE).await);
    let solo = Solo::start_with(&[], |options| {
        options.endpoint(first.url()).another_chain_at(LARGE, second.url()).key_on_chain(
            "KEY",
            Anvil::key(0),
            LARGE,
        )
    })
    .await;
    let to = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";
    let transfer = |chain: Value, wei: u64| {
        let payload = json!({ "to": to, "value": wei.to_string(), "gasLimit": "21000" });
        json!({ "signer": SIGNER, "chainId": chain, "payload": payload })
    };
    // What is rounded on the way is another chain, and whoever sent it is told why.
    let rounded: u64 = in_javascript("String(answer)", &json!(LARGE)).parse().unwrap();
    assert_eq!(rounded, LARGE - 1);
    let refused = solo.node.post("/api/v1/tx", transfer(json!(rounded), 1)).await;
    assert_eq!(
        (refused.status, refused.problem().as_str()),
        (404, "unknown-signer"),
        "{refused:?}"
    );
    let detail = refused.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("as a text"), "{detail}");
    for (wei, told) in
        [(2, json!(LARGE.to_string())), (3, json!(format!("{LARGE:#x}"))), (4, json!(LARGE))]
    {
        let taken = solo.node.post("/api/v1/tx", transfer(told, wei)).await;
        assert_eq!(taken.status, 202, "{taken:?}");
        let id = taken.json()["txId"].as_str().unwrap().to_owned();
        let tx = eventually("the transaction to be mined", async || {
            let tx = solo.node.get(&format!("/api/v1/tx/{id}")).await.ok();
            (!tx["receipt"].is_null()).then_some(tx)
        })
        .await;
        assert_eq!(in_javascript("answer.chainIdText", &tx), LARGE.to_string());
        assert_eq!(in_javascript("answer.outcome", &tx), "success");
    }
    let hex = format!("{LARGE:#x}");
    for chain in [LARGE.to_string(), hex] {
        let signer = solo.node.get(&format!("/api/v1/signers/{SIGNER}?chainId={chain}")).await.ok();
        assert_eq!(signer["chainIdText"], LARGE.to_string());
    }
}
