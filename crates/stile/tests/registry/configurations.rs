//! Configurations under versions.

use serde_json::{Value, json};
use testkit::{Redis, eventually};

use crate::Solo;

#[tokio::test]
async fn whoever_decided_by_an_old_version_decides_anew() {
    let redis = Redis::start().await;
    let (a, b) = tokio::join!(
        Solo::start_with(|options| options.set("redis.url", redis.url()).set("node.id", "a")),
        Solo::start_with(|options| options.set("redis.url", redis.url()).set("node.id", "b")),
    );
    let path = "/api/v1/registry/config/models";
    let missing = a.node.get(path).await;
    assert_eq!((missing.status, missing.problem().as_str()), (404, "config-not-found"));
    let body = |value: Value, version: u64| json!({ "value": value, "expectedVersion": version });
    let first = a.node.put(path, body(json!({ "asr": "large" }), 0)).await.ok();
    assert_eq!((&first["name"], &first["value"]["asr"]), (&json!("models"), &json!("large")));
    let version = first["version"].as_u64().unwrap();
    let lost = b.node.put(path, body(json!(null), 0)).await;
    assert_eq!((lost.status, lost.problem().as_str()), (409, "config-conflict"));
    let second = b.node.put(path, body(json!(["any", 1, null]), version)).await.ok();
    assert!(second["version"].as_u64() > Some(version));
    eventually("the other server to know", async || {
        (a.node.get(path).await.ok() == second).then_some(())
    })
    .await;
    for (body, field) in [
        (json!({ "value": 1 }), "expectedVersion"),
        (json!({ "expectedVersion": 0 }), "value"),
        (json!({ "value": 1, "expectedVersion": 0, "note": "" }), "note"),
    ] {
        let refused = a.node.put(path, body).await;
        assert_eq!((refused.status, refused.fields()), (422, vec![field.to_owned()]));
    }
}
