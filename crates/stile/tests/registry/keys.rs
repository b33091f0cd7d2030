//! What each call needs.

use serde_json::{Value, json};

use super::connect::Wire;
use crate::key_support::{Backend, OURS};

/// Calls that need each operation, and are otherwise refused or harmless.
fn calls(operation: &str) -> Vec<(&'static str, &'static str, Option<Value>)> {
    let job = "/api/v1/jobs/00000000000000000000000000000000@w/complete";
    match operation {
        "read" => vec![
            ("GET", "/api/v1/nodes", None),
            ("GET", "/api/v1/nodes/w", None),
            ("GET", "/api/v1/pools/speech/select", None),
            ("GET", "/api/v1/pools/speech/members", None),
            ("GET", "/api/v1/registry/config/c", None),
        ],
        "send" => vec![
            ("POST", "/api/v1/dispatch", Some(json!({ "session": "s", "services": ["asr"] }))),
            ("POST", job, None),
        ],
        "operate" => vec![
            ("PUT", "/api/v1/nodes/w", Some(json!({}))),
            ("POST", "/api/v1/nodes/w/heartbeat", Some(json!({ "incarnation": 1 }))),
            ("DELETE", "/api/v1/nodes/nobody", None),
            ("GET", "/api/v1/nodes/connect", None),
            (
                "PUT",
                "/api/v1/registry/config/c",
                Some(json!({ "value": 1, "expectedVersion": 99 })),
            ),
        ],
        _ => unreachable!(),
    }
}

#[tokio::test]
async fn a_key_does_what_it_is_for_and_nothing_else() {
    let backend = Backend::sqlite();
    let mut keys = Vec::new();
    for operation in ["read", "send", "operate"] {
        keys.push((backend.key(operation, operation, OURS).await, vec![operation]));
    }
    let admin = backend.key("admin", "admin", "all").await;
    keys.push((admin, vec!["read", "send", "operate"]));
    let node = backend.node().start().await;
    for (key, may) in &keys {
        for operation in ["read", "send", "operate"] {
            for (method, path, body) in calls(operation) {
                let answer = node.with(key).call(method, path, body.as_ref()).await;
                let what = format!("{method} {path} with {may:?}: {answer:?}");
                assert_eq!(answer.status != 403, may.contains(&operation), "{what}");
                assert_eq!(node.without().call(method, path, None).await.status, 401, "{what}");
            }
        }
    }
}

#[tokio::test]
async fn a_connection_needs_a_key_and_ends_with_it() {
    let backend = Backend::sqlite();
    let (worker, reader) =
        (backend.key("worker", "operate", OURS).await, backend.key("r", "read", OURS).await);
    let node = backend.node().start().await;
    for (token, status) in [(None, 401), (Some(reader.as_str()), 403)] {
        let refused = Wire::open(&node, token).await.err().expect("a refusal");
        let tokio_tungstenite::tungstenite::Error::Http(answer) = refused else {
            panic!("{refused:?}")
        };
        assert_eq!(answer.status(), status);
    }
    let mut wire = Wire::open(&node, Some(&worker)).await.unwrap();
    let register = json!({ "type": "register", "node": { "id": "w" } });
    assert_eq!(wire.ask(register).await["type"], "registered");
    backend.revoke("worker").await;
    assert_eq!(wire.closed().await, Some(1008));
}
