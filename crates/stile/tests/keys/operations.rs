//! What a key may do.

use serde_json::{Value, json};

use crate::support::{Backend, Caller, OURS};

on_both_stores!(a_key_does_what_it_is_for_and_nothing_else);

/// Calls that need each operation, and are otherwise refused or harmless.
fn calls(operation: &str) -> Vec<(&'static str, String, Option<Value>)> {
    let id = "01890000-0000-7000-8000-000000000000";
    let get = |path: String| ("GET", path, None);
    let post = |path: String| ("POST", path, Some(json!({})));
    match operation {
        "read" => vec![
            get("/api/v1/tx".into()),
            get(format!("/api/v1/tx/{id}")),
            get(format!("/api/v1/tx/{id}/history")),
            get(format!("/api/v1/tx/{id}/attempts")),
            get(format!("/api/v1/tx/{id}/confirmations")),
            get("/api/v1/tx/by-request".into()),
            get("/api/v1/events?after=nonsense".into()),
            get(format!("/api/v1/nonces/{OURS}")),
            get("/api/v1/signers".into()),
            get(format!("/api/v1/signers/{OURS}")),
            get(format!("/api/v1/signers/{OURS}/doctor")),
            get(format!("/api/v1/signers/{OURS}/history")),
        ],
        "send" => vec![
            post("/api/v1/tx".into()),
            post("/api/v1/tx/batch".into()),
            post(format!("/api/v1/tx/{id}/cancel")),
            post(format!("/api/v1/tx/{id}/speed-up")),
            post(format!("/api/v1/nonces/{OURS}/allocate")),
            post(format!("/api/v1/nonces/{OURS}/0/used")),
            post(format!("/api/v1/nonces/{OURS}/0/recyclable")),
        ],
        "operate" => vec![
            post(format!("/api/v1/signers/{OURS}/pause")),
            post(format!("/api/v1/signers/{OURS}/resume")),
            post(format!("/api/v1/signers/{OURS}/repair")),
            post(format!("/api/v1/signers/{OURS}/reconcile")),
        ],
        "admin" => vec![
            get("/api/v1/keys".into()),
            post("/api/v1/keys".into()),
            ("DELETE", format!("/api/v1/keys/{id}"), None),
        ],
        _ => unreachable!(),
    }
}

async fn check(caller: Caller<'_>, may: &[&str]) {
    for operation in ["read", "send", "operate", "admin"] {
        for (method, path, body) in calls(operation) {
            let answer = caller.call(method, &path, body.as_ref()).await;
            let what = format!("{method} {path} with {may:?}: {answer:?}");
            assert_ne!(answer.status, 401, "{what}");
            assert_eq!(answer.status != 403, may.contains(&operation), "{what}");
            if answer.status == 403 {
                assert_eq!(answer.problem(), "forbidden");
                let detail = answer.json()["detail"].as_str().unwrap().to_owned();
                assert_eq!(detail, format!("this call needs the operation {operation}"));
            }
        }
    }
}

async fn a_key_does_what_it_is_for_and_nothing_else(backend: Backend) {
    let mut keys = Vec::new();
    for (name, operations) in [
        ("r", &["read"][..]),
        ("s", &["send"]),
        ("o", &["operate"]),
        ("rs", &["read", "send"]),
        ("so", &["send", "operate"]),
    ] {
        keys.push((backend.key(name, &operations.join(","), OURS).await, operations));
    }
    let admin = backend.key("a", "admin", "all").await;
    let node = backend.node().start().await;
    for (key, may) in &keys {
        check(node.with(key), may).await;
    }
    check(node.with(&admin), &["read", "send", "operate", "admin"]).await;

    // Metrics add up what all signers do.
    let everywhere = backend.key("everywhere", "read", "all").await;
    let sender = backend.key("sender", "send", "all").await;
    assert_eq!(node.with(&everywhere).get("/metrics").await.status, 200);
    assert_eq!(node.with(&admin).get("/metrics").await.status, 200);
    for (key, words) in [
        (&keys[0].0, "this call needs the operation read for all signers"),
        (&sender, "this call needs the operation read"),
    ] {
        let refused = node.with(key).get("/metrics").await;
        assert_eq!((refused.status, refused.problem().as_str()), (403, "forbidden"));
        assert_eq!(refused.json()["detail"], words);
    }
    let lost = node.with(&keys[0].0).get("/api/v1/nowhere").await;
    assert_eq!((lost.status, lost.problem().as_str()), (404, "not-found"));
}
