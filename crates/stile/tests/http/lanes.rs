//! Pause, resume, lists and pages.

use serde_json::{Value, json};

use crate::Solo;
use crate::common::{SIGNER, hash, signers};

#[tokio::test]
async fn a_paused_lane_says_why_until_it_is_resumed() {
    let solo = Solo::start(&[SIGNER.to_owned()]).await;
    let (pause, resume) =
        (format!("/api/v1/signers/{SIGNER}/pause"), format!("/api/v1/signers/{SIGNER}/resume"));
    for answer in [
        solo.node.post(&pause, json!({ "reason": "too early" })).await,
        solo.node.post(&resume, json!({})).await,
    ] {
        assert_eq!((answer.status, answer.problem().as_str()), (409, "lane-not-started"));
    }
    let hold = solo.node.allocate(SIGNER).await.ok();

    let paused = solo.node.post(&pause, json!({ "reason": "key rotation" })).await.ok();
    assert_eq!((&paused["paused"], &paused["fencingToken"]), (&"key rotation".into(), &2.into()));
    let refused = solo.node.allocate(SIGNER).await;
    assert_eq!((refused.status, refused.problem().as_str()), (409, "lane-paused"));
    assert!(refused.json()["detail"].as_str().unwrap().contains("key rotation"), "{refused:?}");
    assert_eq!(refused.header("retry-after"), None, "only a person can end it");
    let marked = solo.node.used(&hold, &hash(1)).await.ok();
    assert_eq!(marked["status"], "CONSUMED", "what was given out can still be marked");

    let resumed = solo.node.post(&resume, json!({})).await.ok();
    assert_eq!((&resumed["paused"], &resumed["fencingToken"]), (&Value::Null, &3.into()));
    assert_eq!(solo.node.allocate(SIGNER).await.nonce(), 1);
}

#[tokio::test]
async fn a_signer_shows_its_holder_and_what_is_open() {
    let solo = Solo::start(&[SIGNER.to_owned()]).await;
    let unused = solo.node.signer(SIGNER).await;
    assert_eq!((&unused["signer"], &unused["chainId"]), (&SIGNER.into(), &31337.into()));
    for name in ["ownerNode", "ownerUrl", "fencingToken", "expiresAt", "nextNonce", "paused"] {
        assert_eq!(unused[name], Value::Null, "{name}");
    }
    let holds = [(); 3].map(|()| solo.node.allocate(SIGNER));
    let holds = futures::future::join_all(holds).await;
    let lowest = holds.iter().map(|answer| answer.ok()).find(|hold| hold["nonce"] == 0).unwrap();
    solo.node.recyclable(&lowest, "not sent").await.ok();

    let shown = solo.node.signer(SIGNER).await;
    assert_eq!((&shown["ownerNode"], &shown["fencingToken"]), (&"solo".into(), &1.into()));
    assert_eq!(shown["ownerUrl"], solo.node.url());
    assert_eq!((&shown["nextNonce"], &shown["held"]), (&3.into(), &2.into()));
    assert_eq!((&shown["gaps"], &shown["suspect"]), (&json!([0]), &0.into()));
    assert_eq!((&shown["inFlight"], &shown["queued"]), (&0.into(), &0.into()));
}

/// The items of all pages of a list.
async fn all_pages(solo: &Solo, path: &str, page_sizes: &[usize]) -> Vec<Value> {
    let (mut items, mut cursor) = (Vec::new(), String::new());
    for (page, size) in page_sizes.iter().enumerate() {
        let answer = solo.node.get(&format!("{path}{cursor}")).await.ok();
        let found = answer["items"].as_array().unwrap();
        assert_eq!(found.len(), *size, "{answer}");
        items.extend(found.iter().cloned());
        match &answer["next"] {
            Value::Null => assert_eq!(page + 1, page_sizes.len(), "the last page: {answer}"),
            Value::String(next) => cursor = format!("&cursor={next}"),
            next => cursor = format!("&cursor={next}"),
        }
    }
    items
}

#[tokio::test]
async fn holds_are_listed_in_pages_lowest_nonce_first() {
    let solo = Solo::start(&[SIGNER.to_owned()]).await;
    let path = format!("/api/v1/nonces/{SIGNER}");
    assert_eq!(solo.node.get(&path).await.ok(), json!({ "items": [], "next": null }));
    let mut holds = Vec::new();
    for _ in 0..5 {
        holds.push(solo.node.allocate(SIGNER).await.ok());
    }
    holds[1] = solo.node.used(&holds[1], &hash(1)).await.ok();
    holds[3] = solo.node.recyclable(&holds[3], "not sent").await.ok();
    assert_eq!(all_pages(&solo, &format!("{path}?limit=2"), &[2, 2, 1]).await, holds);
    assert_eq!(all_pages(&solo, &format!("{path}?limit=5"), &[5]).await, holds);
    assert_eq!(all_pages(&solo, &format!("{path}?chainId=31337"), &[5]).await, holds);
    let held = format!("{path}?status=HELD&limit=1");
    let held = all_pages(&solo, &held, &[1, 1, 1]).await;
    assert_eq!(held, [holds[0].clone(), holds[2].clone(), holds[4].clone()]);
    for (status, hold) in [("CONSUMED", &holds[1]), ("RELEASED", &holds[3])] {
        let found = solo.node.get(&format!("{path}?status={status}")).await.ok();
        assert_eq!(found["items"], json!([hold]));
    }
    let none = solo.node.get(&format!("{path}?status=SUSPECT")).await.ok();
    assert_eq!(none["items"], json!([]));
}

#[tokio::test]
async fn signers_are_listed_in_pages_used_or_not() {
    let configured = signers(5);
    let solo = Solo::start(&configured).await;
    solo.node.allocate(&configured[3]).await.ok();
    let listed = all_pages(&solo, "/api/v1/signers?limit=2", &[2, 2, 1]).await;
    let names: Vec<_> = listed.iter().map(|signer| signer["signer"].as_str().unwrap()).collect();
    assert_eq!(names, configured);
    let used: Vec<_> = listed.iter().map(|signer| signer["nextNonce"].as_u64()).collect();
    assert_eq!(used, [None, None, None, Some(1), None]);
    assert_eq!(listed[3], solo.node.signer(&configured[3]).await);
    assert_eq!(all_pages(&solo, "/api/v1/signers?chainId=31337", &[5]).await, listed);
    let elsewhere = solo.node.get("/api/v1/signers?chainId=1").await.ok();
    assert_eq!(elsewhere, json!({ "items": [], "next": null }));
}

#[tokio::test]
async fn with_two_chains_the_chain_must_be_said() {
    let solo = Solo::start_with(&[SIGNER.to_owned()], |options| options.another_chain(5)).await;
    let (allocate, show) =
        (format!("/api/v1/nonces/{SIGNER}/allocate"), format!("/api/v1/signers/{SIGNER}"));
    for answer in [solo.node.post(&allocate, json!({})).await, solo.node.get(&show).await] {
        assert_eq!((answer.status, answer.problem().as_str()), (422, "chain-required"));
    }
    for chain in [5, 31337] {
        let hold = solo.node.post(&allocate, json!({ "chainId": chain })).await.ok();
        assert_eq!((&hold["chainId"], &hold["nonce"]), (&chain.into(), &0.into()));
        let shown = solo.node.get(&format!("{show}?chainId={chain}")).await.ok();
        assert_eq!((&shown["chainId"], &shown["nextNonce"]), (&chain.into(), &1.into()));
    }
    let listed = all_pages(&solo, "/api/v1/signers?limit=1", &[1, 1]).await;
    assert_eq!(listed[0]["chainId"], 5);
}
