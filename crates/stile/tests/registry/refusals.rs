//! What cannot be used is refused, with the field and the code.

use serde_json::{Value, json};

use crate::common::Answer;
use crate::{Solo, speech};

fn refused(answer: &Answer, status: u16, code: &str, field: Option<&str>) {
    assert_eq!((answer.status, answer.problem().as_str()), (status, code), "{answer:?}");
    assert_eq!(answer.fields().first().map(String::as_str), field, "{answer:?}");
}

#[tokio::test]
async fn bodies_and_names_that_cannot_be_used() {
    let solo = Solo::start().await;
    let node = &solo.node;
    let with = |name: &str, value: Value| {
        let mut body = speech(1);
        body[name] = value;
        body
    };
    for (body, field) in [
        (with("colour", json!("red")), "colour"),
        (with("pools", json!(["a/b"])), "pools[0]"),
        (with("status", json!("asleep")), "status"),
        (with("services", json!({ "asr:zh": [] })), "services.asr:zh"),
        (with("incarnation", json!(1_u64 << 53)), "incarnation"),
        (with("incarnation", json!(-1)), "incarnation"),
        (with("id", json!("another")), "id"),
        (with("resources", json!({ "cpuUsage": -0.1 })), "resources.cpuUsage"),
        (with("resources", json!({ "gpus": 1 })), "resources.gpus"),
    ] {
        let answer = node.put("/api/v1/nodes/n", body).await;
        assert_eq!((answer.status, answer.problem().as_str()), (422, "invalid-field"));
        let found = answer.fields().remove(0);
        assert!(field.starts_with(&found) || found.starts_with(field), "{field}: {answer:?}");
    }
    assert_eq!(node.get("/api/v1/nodes/n").await.status, 404, "nothing was written");
    refused(&node.put("/api/v1/nodes/a%20b", speech(1)).await, 422, "invalid-field", Some("id"));
    refused(&node.get("/api/v1/nodes?ids=a,,b").await, 422, "invalid-field", Some("ids"));
    refused(&node.get("/api/v1/nodes?limit=0").await, 422, "invalid-field", Some("limit"));
    refused(&node.get("/api/v1/nodes?pool=x").await, 422, "invalid-field", Some("pool"));
    let select = node.get("/api/v1/pools/speech/select?services=asr:zh:cn").await;
    refused(&select, 422, "invalid-field", Some("services"));
    let beat = node.post("/api/v1/nodes/n/heartbeat", json!({})).await;
    refused(&beat, 422, "invalid-field", Some("incarnation"));
    let beat = node.post("/api/v1/nodes/n/heartbeat", json!({ "incarnation": 1 })).await;
    refused(&beat, 404, "node-unknown", None);
    let complete = node.post("/api/v1/jobs/nonsense/complete", json!({})).await;
    refused(&complete, 422, "invalid-field", Some("id"));
    let connect = node.get("/api/v1/nodes/connect").await;
    refused(&connect, 426, "upgrade-required", None);
    assert_eq!(connect.header("upgrade"), Some("websocket"));
}

#[tokio::test]
async fn what_is_stiles_own_is_left_alone() {
    let solo = Solo::start().await;
    let node = &solo.node;
    let before = node.get("/api/v1/nodes/solo").await.ok();
    let url = json!({ "features": { "url": "http://elsewhere" } });
    refused(&node.put("/api/v1/nodes/solo", url.clone()).await, 409, "node-reserved", None);
    let beat = json!({ "incarnation": before["incarnation"], "features": url["features"] });
    let beat = node.post("/api/v1/nodes/solo/heartbeat", beat).await;
    refused(&beat, 409, "node-reserved", None);
    refused(&node.delete("/api/v1/nodes/solo").await, 409, "node-reserved", None);
    for pool in ["stile", "chain:1"] {
        let body = json!({ "pools": ["speech", pool] });
        refused(&node.put("/api/v1/nodes/n", body.clone()).await, 409, "node-reserved", None);
        let known = node.put("/api/v1/nodes/known", speech(1)).await.ok();
        let beat = json!({ "incarnation": known["incarnation"], "pools": [pool] });
        let beat = node.post("/api/v1/nodes/known/heartbeat", beat).await;
        refused(&beat, 409, "node-reserved", None);
    }
    let after = node.get("/api/v1/nodes/solo").await.ok();
    assert_eq!(after["features"], before["features"]);
    assert_eq!(after["incarnation"], before["incarnation"]);
}
