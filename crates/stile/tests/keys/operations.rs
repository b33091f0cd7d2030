//! What a key may do: every call of the API with a key of every scope.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::common::{Answer, StileProcess, hash};
use crate::support::{Backend, Caller, NOBODY, OURS, THEIRS, chain, transfer};

on_both_stores!(a_key_does_what_it_is_for_and_nothing_else);

/// An id that nothing has.
const NO_ID: &str = "01890000-0000-7000-8000-000000000000";

/// Every call of the API and the operation that it needs; `None` for what is open to all. A test holds it
/// against the document, so a call that is added must be added here.
const TABLE: [(&str, &str, Option<&str>); 48] = [
    ("GET", "/api/v1/chains", Some("read")),
    ("GET", "/api/v1/chains/{chainId}", Some("read")),
    ("GET", "/api/v1/events", Some("read")),
    ("GET", "/api/v1/keys", Some("admin")),
    ("POST", "/api/v1/keys", Some("admin")),
    ("DELETE", "/api/v1/keys/{keyId}", Some("admin")),
    ("POST", "/api/v1/keys/{keyId}/rotate", Some("admin")),
    ("POST", "/api/v1/dispatch", Some("send")),
    ("POST", "/api/v1/jobs/{id}/complete", Some("send")),
    ("GET", "/api/v1/nodes", Some("read")),
    ("GET", "/api/v1/nodes/connect", Some("operate")),
    ("GET", "/api/v1/nodes/{id}", Some("read")),
    ("PUT", "/api/v1/nodes/{id}", Some("operate")),
    ("DELETE", "/api/v1/nodes/{id}", Some("operate")),
    ("POST", "/api/v1/nodes/{id}/heartbeat", Some("operate")),
    ("GET", "/api/v1/pools/{id}/members", Some("read")),
    ("GET", "/api/v1/pools/{id}/select", Some("read")),
    ("GET", "/api/v1/registry/config/{name}", Some("read")),
    ("PUT", "/api/v1/registry/config/{name}", Some("operate")),
    ("GET", "/api/v1/nonces/{signer}", Some("read")),
    ("POST", "/api/v1/nonces/{signer}/allocate", Some("send")),
    ("POST", "/api/v1/nonces/{signer}/{nonce}/recyclable", Some("send")),
    ("POST", "/api/v1/nonces/{signer}/{nonce}/used", Some("send")),
    ("GET", "/api/v1/route", Some("read")),
    ("GET", "/api/v1/signers", Some("read")),
    ("GET", "/api/v1/signers/{signer}", Some("read")),
    ("GET", "/api/v1/signers/{signer}/doctor", Some("read")),
    ("GET", "/api/v1/signers/{signer}/history", Some("read")),
    ("POST", "/api/v1/signers/{signer}/pause", Some("operate")),
    ("POST", "/api/v1/signers/{signer}/reconcile", Some("operate")),
    ("POST", "/api/v1/signers/{signer}/repair", Some("operate")),
    ("GET", "/api/v1/signers/{signer}/restored", Some("read")),
    ("POST", "/api/v1/signers/{signer}/restored", Some("operate")),
    ("POST", "/api/v1/signers/{signer}/resume", Some("operate")),
    ("GET", "/api/v1/tx", Some("read")),
    ("POST", "/api/v1/tx", Some("send")),
    ("POST", "/api/v1/tx/batch", Some("send")),
    ("GET", "/api/v1/tx/by-request", Some("read")),
    ("GET", "/api/v1/tx/{txId}", Some("read")),
    ("GET", "/api/v1/tx/{txId}/attempts", Some("read")),
    ("POST", "/api/v1/tx/{txId}/cancel", Some("send")),
    ("GET", "/api/v1/tx/{txId}/confirmations", Some("read")),
    ("GET", "/api/v1/tx/{txId}/history", Some("read")),
    ("POST", "/api/v1/tx/{txId}/restored", Some("operate")),
    ("POST", "/api/v1/tx/{txId}/speed-up", Some("send")),
    ("GET", "/health/live", None),
    ("GET", "/health/ready", None),
    ("GET", "/metrics", Some("read")),
];

/// A call that would do something, were it not for the scope: a good body where one is needed.
fn body(method: &str, path: &str, signer: &str) -> Option<Value> {
    if method == "GET" || method == "DELETE" {
        return None;
    }
    Some(match path.rsplit('/').next().unwrap() {
        "tx" => transfer(signer, &format!("table-{signer}")),
        "batch" => json!({ "items": [transfer(signer, &format!("table-{signer}"))] }),
        "pause" => json!({ "reason": "to see who may" }),
        "used" => json!({ "holdId": NO_ID, "txHash": hash(1) }),
        "recyclable" => json!({ "holdId": NO_ID, "reason": "to see who may" }),
        "restored" => json!({ "verdict": "never-sent" }),
        _ => json!({}),
    })
}

async fn call(caller: Caller<'_>, method: &str, path: &str, signer: &str, tx: &str) -> Answer {
    let filled = path
        .replace("{signer}", signer)
        .replace("{txId}", tx)
        .replace("{keyId}", NO_ID)
        .replace("{nonce}", "0")
        .replace("{chainId}", "31337")
        .replace("{id}", "nobody")
        .replace("{name}", "nothing")
        // A stream has no end to wait for, unless it is refused.
        .replace("/events", "/events?after=nonsense");
    let filled = if path.ends_with("/by-request") || path.ends_with("/route") {
        format!("{filled}?signer={signer}&requestId=none")
    } else {
        filled
    };
    caller.call(method, &filled, body(method, path, signer).as_ref()).await
}

/// Every call with this key: what it may do is not refused, everything else is with 403, and about a
/// signer that the key is not for there is nothing to be learnt.
async fn check(caller: Caller<'_>, may: &[&str], tx: &str, sees_theirs: bool) {
    for (method, path, needed) in TABLE {
        for signer in [OURS, THEIRS] {
            let answer = call(caller, method, path, signer, tx).await;
            let what = format!("{method} {path} for {signer} with {may:?}: {answer:?}");
            assert!(answer.status < 500 && answer.status != 401, "{what}");
            let Some(needed) = needed else {
                assert_eq!(answer.status, 200, "{what}");
                continue;
            };
            let all = may.contains(&"admin");
            let is_allowed = (all || may.contains(&needed)) && (path != "/metrics" || sees_theirs);
            assert_eq!(answer.status != 403, is_allowed, "{what}");
            if !is_allowed {
                assert_eq!(answer.problem(), "forbidden");
                let detail = answer.json()["detail"].as_str().unwrap().to_owned();
                let said = format!("this call needs the operation {needed}");
                assert!(detail.starts_with(&said), "{what}");
            }
            if is_allowed && path.contains("{signer}") && signer == THEIRS && !sees_theirs {
                assert_eq!((answer.status, answer.problem().as_str()), (404, "unknown-signer"));
            }
        }
    }
}

fn described(document: &Value) -> BTreeSet<(String, String)> {
    let paths = document["paths"].as_object().unwrap().iter();
    paths
        .flat_map(|(path, calls)| {
            let methods = calls.as_object().unwrap().keys();
            methods.map(|method| (method.to_uppercase(), path.clone())).collect::<Vec<_>>()
        })
        .collect()
}

async fn the_table_is_whole(node: &StileProcess) {
    let document = node.get("/openapi.json").await.ok();
    let listed = TABLE.map(|(method, path, _)| (method.to_owned(), path.to_owned()));
    assert_eq!(described(&document), BTreeSet::from(listed));
    for (method, path, needed) in TABLE {
        let call = &document["paths"][path][method.to_lowercase()];
        assert_eq!(call["security"][0]["bearer"][0].as_str(), needed, "{method} {path}");
    }
}

async fn a_key_does_what_it_is_for_and_nothing_else(backend: Backend) {
    let chain = chain().await;
    let admin = backend.key("a", "admin", "all").await;
    let node = backend.node_on(&chain).start().await;
    the_table_is_whole(&node).await;
    let tx = node.with(&admin).confirmed(&transfer(OURS, "first")).await;
    for operations in [&["read"][..], &["send"], &["operate"], &["read", "send"]] {
        for signer in [OURS, "all"] {
            let name = format!("{}-{signer}", operations.join("-"));
            let key = backend.key(&name, &operations.join(","), signer).await;
            check(node.with(&key), operations, &tx, signer == "all").await;
        }
    }
    check(node.with(&admin), &["admin"], &tx, true).await;

    // Metrics add up what all signers do.
    let one = backend.key("one", "read", OURS).await;
    let refused = node.with(&one).get("/metrics").await;
    assert_eq!((refused.status, refused.problem().as_str()), (403, "forbidden"));
    let said = "this call needs the operation read for all signers";
    assert_eq!(refused.json()["detail"], said);
    let lost = node.with(&one).get("/api/v1/nowhere").await;
    assert_eq!((lost.status, lost.problem().as_str()), (404, "not-found"));
    let nobody = node.with(&one).get(&format!("/api/v1/signers/{NOBODY}")).await;
    assert_eq!(nobody.status, 404);
}
