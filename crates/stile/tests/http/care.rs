//! What is done about a signer that does not move.

use serde_json::{Value, json};

use crate::Solo;
use crate::common::SIGNER;

fn path(rest: &str) -> String {
    format!("/api/v1/signers/{SIGNER}/{rest}")
}

#[tokio::test]
async fn a_signer_that_nobody_has_used_is_not_cared_for() {
    let solo = Solo::start(&[SIGNER.to_owned()]).await;
    for answer in [
        solo.node.get(&path("doctor")).await,
        solo.node.post(&path("repair"), json!({})).await,
        solo.node.post(&path("resume"), json!({ "dryRun": true })).await,
    ] {
        assert_eq!((answer.status, answer.problem().as_str()), (409, "lane-not-started"));
    }
    let silent = solo.node.post(&path("reconcile"), json!({})).await;
    assert_eq!((silent.status, silent.problem().as_str()), (503, "chain-unavailable"));
    let nothing = solo.node.get(&path("history")).await.ok();
    assert_eq!(nothing, json!({ "items": [], "next": null }));
}

#[tokio::test]
async fn a_dry_run_says_what_would_be_done_and_does_nothing() {
    let solo = Solo::start(&[SIGNER.to_owned()]).await;
    solo.node.allocate(SIGNER).await.ok();
    solo.node.post(&path("pause"), json!({ "reason": "key rotation" })).await.ok();
    let before = solo.dump();
    let resumption = solo.node.post(&path("resume"), json!({ "dryRun": true })).await.ok();
    assert_eq!(
        (&resumption["signer"], &resumption["paused"]),
        (&json!(SIGNER), &json!("key rotation"))
    );
    assert!(resumption["plan"].is_array(), "{resumption}");
    for body in [json!({}), json!({ "apply": false }), json!({ "attest": [0] })] {
        let repair = solo.node.post(&path("repair"), body).await.ok();
        assert_eq!(repair["applied"], false, "{repair}");
        for step in repair["steps"].as_array().unwrap() {
            assert_eq!(step["done"], Value::Null, "{repair}");
        }
        assert!(repair["diagnosis"]["facts"].is_object(), "{repair}");
    }
    solo.node.get(&path("doctor")).await.ok();
    assert_eq!(solo.dump(), before);
}

#[tokio::test]
async fn the_doctor_finds_the_pause_and_what_ends_it() {
    let solo = Solo::start(&[SIGNER.to_owned()]).await;
    solo.node.allocate(SIGNER).await.ok();
    solo.node.post(&path("pause"), json!({ "reason": "key rotation" })).await.ok();
    let diagnosis = solo.node.get(&path("doctor")).await.ok();
    assert_eq!(diagnosis["healthy"], false, "{diagnosis}");
    let findings = diagnosis["findings"].as_array().unwrap();
    let pause =
        findings.iter().find(|finding| finding["words"].to_string().contains("key rotation"));
    assert_eq!(pause.unwrap()["severity"], "blocked", "{diagnosis}");
    let resumed = solo.node.post(&path("resume"), json!({})).await.ok();
    assert_eq!(resumed["paused"], Value::Null, "{resumed}");
}

#[tokio::test]
async fn a_history_is_told_newest_first_in_pages() {
    let solo = Solo::start(&[SIGNER.to_owned()]).await;
    solo.node.allocate(SIGNER).await.ok();
    solo.node.post(&path("pause"), json!({ "reason": "key rotation" })).await.ok();
    solo.node.post(&path("resume"), json!({})).await.ok();
    let (mut kinds, mut cursor) = (Vec::new(), String::new());
    for _ in 0..3 {
        let page = solo.node.get(&path(&format!("history?limit=1{cursor}"))).await.ok();
        let items = page["items"].as_array().unwrap();
        assert_eq!(items.len(), 1, "{page}");
        assert_eq!((&items[0]["signer"], &items[0]["chainId"]), (&json!(SIGNER), &json!(31337)));
        assert_eq!(items[0]["nodeId"], "solo");
        kinds.push(items[0]["kind"].as_str().unwrap().to_owned());
        cursor = page["next"].as_str().map(|next| format!("&cursor={next}")).unwrap_or_default();
    }
    assert_eq!(kinds, ["RESUMED", "PAUSED", "STARTED"]);
    assert_eq!(cursor, "", "no page after the last");
}
