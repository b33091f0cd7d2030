//! What a key is not for does not exist, on every route: the answer about another's signer is, byte
//! for byte, the answer about one that nobody serves.

use serde_json::{Value, json};

use crate::common::hash;
use crate::support::{Backend, Caller, NOBODY, OURS, THEIRS, chain, transfer};

on_both_stores!(another_signers_affairs_do_not_exist);

/// An id that nothing has.
const NO_ID: &str = "01890000-0000-7000-8000-000000000000";
const REQUEST: &str = "theirs-1";

/// Everything that can be asked about a signer, its transaction and its hold.
fn questions(signer: &str, tx: &str, hold: &str) -> Vec<(&'static str, String, Option<Value>)> {
    let get = |path: String| ("GET", path, None);
    let lower = signer.to_lowercase();
    let mark = |mark: &str| format!("/api/v1/nonces/{signer}/1/{mark}");
    vec![
        get(format!("/api/v1/tx/{tx}")),
        get(format!("/api/v1/tx/{tx}/history")),
        get(format!("/api/v1/tx/{tx}/attempts")),
        get(format!("/api/v1/tx/{tx}/confirmations")),
        get(format!("/api/v1/tx/by-request?signer={signer}&requestId={REQUEST}")),
        get(format!("/api/v1/tx/by-request?signer={lower}&requestId={REQUEST}&chainId=31337")),
        get(format!("/api/v1/tx?signer={signer}")),
        get(format!("/api/v1/tx?signer={lower}&state=CONFIRMED")),
        get(format!("/api/v1/nonces/{signer}")),
        get(format!("/api/v1/nonces/{lower}?status=HELD")),
        get(format!("/api/v1/signers/{signer}")),
        get(format!("/api/v1/signers/{signer}/doctor")),
        get(format!("/api/v1/signers/{lower}/doctor?chainId=31337")),
        get(format!("/api/v1/signers/{signer}/history")),
        get(format!("/api/v1/signers/{lower}/history?limit=1")),
        get(format!("/api/v1/events?signer={signer}&after=0-0")),
        ("POST", "/api/v1/tx".into(), Some(transfer(signer, REQUEST))),
        ("POST", "/api/v1/tx".into(), Some(transfer(&lower, "new"))),
        ("POST", format!("/api/v1/tx/{tx}/cancel"), None),
        ("POST", format!("/api/v1/tx/{tx}/cancel"), Some(json!({}))),
        ("POST", format!("/api/v1/tx/{tx}/speed-up"), None),
        ("POST", format!("/api/v1/tx/{tx}/speed-up"), Some(json!({ "gasPrice": "1000000000" }))),
        ("POST", format!("/api/v1/nonces/{signer}/allocate"), Some(json!({}))),
        ("POST", mark("used"), Some(json!({ "holdId": hold, "txHash": hash(1) }))),
        ("POST", mark("recyclable"), Some(json!({ "holdId": hold, "reason": "not sent" }))),
        ("POST", format!("/api/v1/signers/{signer}/pause"), Some(json!({ "reason": "so" }))),
        ("POST", format!("/api/v1/signers/{signer}/resume"), Some(json!({ "dryRun": true }))),
        ("POST", format!("/api/v1/signers/{signer}/resume"), Some(json!({}))),
        ("POST", format!("/api/v1/signers/{signer}/repair"), Some(json!({}))),
        ("POST", format!("/api/v1/signers/{signer}/repair"), Some(json!({ "attest": [1] }))),
        ("POST", format!("/api/v1/signers/{signer}/reconcile"), Some(json!({}))),
        (
            "POST",
            "/api/v1/tx/batch".into(),
            Some(json!({ "items": [transfer(signer, REQUEST), transfer(&lower, "new")] })),
        ),
    ]
}

/// All of an answer that is not the names asked about.
fn without_names(text: &str, signer: &str, tx: &str) -> String {
    text.replace(signer, "SIGNER").replace(tx, "TX")
}

async fn compare(caller: Caller<'_>, tx: &str, hold: &str) {
    let (theirs, nobodys) = (questions(THEIRS, tx, hold), questions(NOBODY, NO_ID, NO_ID));
    for ((method, path, body), (_, other_path, other_body)) in theirs.into_iter().zip(nobodys) {
        let about_theirs = caller.call(method, &path, body.as_ref()).await;
        let about_nobodys = caller.call(method, &other_path, other_body.as_ref()).await;
        let batch = path.ends_with("/batch");
        assert_eq!(about_theirs.status, if batch { 200 } else { 404 }, "{path}: {about_theirs:?}");
        let (one, other) = (
            without_names(&about_theirs.text, THEIRS, tx),
            without_names(&about_nobodys.text, NOBODY, NO_ID),
        );
        assert_eq!(one, other, "{method} {path}");
        let names = |answer: &crate::common::Answer| {
            let headers = answer.headers.iter().filter(|(name, _)| name != "date");
            headers.filter(|(name, _)| name != "content-length").cloned().collect::<Vec<_>>()
        };
        assert_eq!(names(&about_theirs), names(&about_nobodys), "{method} {path}");
        if batch {
            for item in about_theirs.json()["items"].as_array().unwrap() {
                assert_eq!((&item["status"], item.get("tx")), (&json!(404), None), "{item}");
                assert_eq!(item["problem"]["code"], "unknown-signer");
            }
        }
    }
}

async fn another_signers_affairs_do_not_exist(backend: Backend) {
    let chain = chain().await;
    let admin = backend.key("admin", "admin", "all").await;
    let ours = backend.key("ours", "read,send,operate", OURS).await;
    let node = backend.node_on(&chain).start().await;
    let (admin, ours) = (node.with(&admin), node.with(&ours));
    let tx = admin.confirmed(&transfer(THEIRS, REQUEST)).await;
    let hold = admin.post(&format!("/api/v1/nonces/{THEIRS}/allocate"), json!({})).await.ok();
    assert_eq!(hold["nonce"], 1, "the one that is asked about below");
    let state = async || {
        let list = admin.get(&format!("/api/v1/tx?signer={THEIRS}")).await.ok();
        let holds = admin.get(&format!("/api/v1/nonces/{THEIRS}")).await.ok();
        let mut lane = admin.get(&format!("/api/v1/signers/{THEIRS}")).await.ok();
        lane["expiresAt"].take();
        (list["items"].as_array().unwrap().len(), holds, lane)
    };
    let before = state().await;
    compare(ours, &tx, hold["holdId"].as_str().unwrap()).await;
    assert_eq!(state().await, before, "and nothing was done");

    // The same questions have answers for those who may ask, so it is not for want of them.
    for (method, path, body) in questions(THEIRS, &tx, hold["holdId"].as_str().unwrap()) {
        if !path.contains("/events") {
            let answer = admin.call(method, &path, body.as_ref()).await;
            // A hold that was used is not recyclable any more.
            let fine = (200..300).contains(&answer.status) || answer.status == 409;
            assert!(fine, "{method} {path}: {answer:?}");
        }
    }
    // And the key does what it is for, in the same batch too.
    let mixed =
        json!({ "items": [transfer(THEIRS, "b"), transfer(OURS, "b"), transfer(NOBODY, "b")] });
    let items = ours.post("/api/v1/tx/batch", mixed).await.ok();
    let statuses: Vec<_> =
        items["items"].as_array().unwrap().iter().map(|i| &i["status"]).collect();
    assert_eq!(statuses, [404, 202, 404]);
    assert_eq!(items["items"][1]["tx"]["signer"], OURS);
}
