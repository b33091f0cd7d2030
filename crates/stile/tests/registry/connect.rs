//! Nodes that hold a connection.

use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use testkit::eventually;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use crate::common::StileProcess;
use crate::{Solo, speech};

/// A connection of a node.
pub(crate) struct Wire(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Wire {
    pub(crate) async fn open(
        node: &StileProcess,
        token: Option<&str>,
    ) -> Result<Self, tungstenite::Error> {
        Self::open_with(node, token.map(|token| ("authorization", format!("Bearer {token}")))).await
    }

    async fn open_with(
        node: &StileProcess,
        header: Option<(&'static str, String)>,
    ) -> Result<Self, tungstenite::Error> {
        let url = format!("ws://{}/api/v1/nodes/connect", node.address());
        let mut request = url.into_client_request().unwrap();
        if let Some((name, value)) = header {
            request.headers_mut().insert(name, value.parse().unwrap());
        }
        tokio_tungstenite::connect_async(request).await.map(|(stream, _)| Self(stream))
    }

    async fn send(&mut self, text: String) {
        self.0.send(Message::Text(text.into())).await.unwrap();
    }

    /// The next answer; what WebSockets say to each other is passed over.
    async fn answer(&mut self) -> Value {
        loop {
            match self.next().await {
                Some(Message::Text(text)) => return serde_json::from_str(text.as_str()).unwrap(),
                Some(Message::Ping(_) | Message::Pong(_)) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    async fn next(&mut self) -> Option<Message> {
        let next = tokio::time::timeout(testkit::DEADLINE, self.0.next()).await;
        next.expect("something in time").and_then(Result::ok)
    }

    pub(crate) async fn ask(&mut self, message: Value) -> Value {
        self.send(message.to_string()).await;
        self.answer().await
    }

    /// Waits until the other side ends it, and says by what code.
    pub(crate) async fn closed(mut self) -> Option<u16> {
        let closed = async {
            loop {
                match self.next().await {
                    Some(Message::Close(frame)) => return frame.map(|frame| frame.code.into()),
                    // A connection that stays is asked now and then whether it lives.
                    Some(_) => {}
                    None => return None,
                }
            }
        };
        tokio::time::timeout(testkit::DEADLINE, closed).await.expect("the end in time")
    }
}

fn register(max_concurrency: u32) -> Value {
    let mut node = speech(max_concurrency);
    node["id"] = json!("w");
    json!({ "type": "register", "ref": "r-1", "node": node })
}

/// A connection costs one call, and what is said over it is as much as calls would be.
#[tokio::test]
async fn hole_45_messages_take_from_the_rate_of_their_key() {
    let backend = crate::key_support::Backend::sqlite();
    let key = backend.key("fleet", "read,operate", "all").await;
    let node = backend.node().set_literal("server.limits.calls_per_key", "5").start().await;
    let mut wire = Wire::open(&node, Some(&key)).await.unwrap();
    let mut refused = 0;
    for number in 0..200 {
        let name = number.to_string();
        let answer = wire.ask(json!({ "type": "heartbeat", "ref": name })).await;
        assert_eq!((&answer["type"], &answer["ref"]), (&json!("problem"), &json!(name)));
        if answer["problem"]["code"] == "rate-limited" {
            assert_eq!(answer["problem"]["retryAfter"], 1, "{answer}");
            refused += 1;
        }
    }
    assert!(refused > 0, "200 messages were let through");
    eventually("it to be heard again", async || {
        let answer = wire.ask(register(1)).await;
        (answer["type"] == "registered").then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_node_does_all_over_its_connection() {
    let solo = Solo::start().await;
    let mut wire = Wire::open(&solo.node, None).await.unwrap();
    let early = wire.ask(json!({ "type": "heartbeat", "ref": "early" })).await;
    assert_eq!((&early["type"], &early["ref"]), (&json!("problem"), &json!("early")));
    assert_eq!(early["problem"]["code"], "node-unknown");
    assert_eq!(early["problem"]["status"], 404);

    let registered = wire.ask(register(2)).await;
    assert_eq!((&registered["type"], &registered["ref"]), (&json!("registered"), &json!("r-1")));
    assert_eq!(registered["node"], solo.node.get("/api/v1/nodes/w").await.ok());
    let load = json!({ "resources": { "maxConcurrency": 2, "cpuUsage": 0.75 } });
    let heard = wire.ask(json!({ "type": "heartbeat", "heartbeat": load })).await;
    assert_eq!(heard["type"], "heard");
    assert_eq!(heard["node"]["resources"]["cpuUsage"], 0.75);
    assert_eq!(heard["node"]["incarnation"], registered["node"]["incarnation"]);

    let wanted = json!({ "session": "s", "services": ["asr:zh"] });
    let job = solo.node.post("/api/v1/dispatch", wanted).await.json();
    assert_eq!(job["nodeId"], "w");
    let heard = wire.ask(json!({ "type": "heartbeat" })).await;
    assert_eq!(heard["node"]["resources"]["currentJobs"], 1);
    let complete = json!({ "type": "complete", "ref": "c", "jobId": job["jobId"] });
    let done = wire.ask(complete.clone()).await;
    assert_eq!(done, json!({ "type": "completed", "ref": "c", "jobId": job["jobId"] }));
    let over = wire.ask(complete).await;
    assert_eq!((&over["problem"]["code"], &over["ref"]), (&json!("job-over"), &json!("c")));
    // Another node's job is none of its business.
    let other = json!({ "services": { "tts": [] }, "resources": { "maxConcurrency": 1 }, "pools": ["voices"] });
    solo.node.put("/api/v1/nodes/other", other).await.ok();
    let wanted = json!({ "session": "t", "services": ["tts"] });
    let job = solo.node.post("/api/v1/dispatch", wanted).await.json();
    assert_eq!(job["nodeId"], "other");
    let over = wire.ask(json!({ "type": "complete", "jobId": job["jobId"] })).await;
    assert_eq!(over["problem"]["code"], "job-over");
    let path = format!("/api/v1/jobs/{}/complete", job["jobId"].as_str().unwrap());
    assert_eq!(solo.node.post(&path, json!({})).await.status, 204, "it ran on");
}

#[tokio::test]
async fn what_cannot_be_read_is_said_and_the_connection_stays() {
    let solo = Solo::start().await;
    let mut wire = Wire::open(&solo.node, None).await.unwrap();
    for (text, code, part) in [
        ("{", "malformed-json", ""),
        ("[]", "invalid-field", "body"),
        (r#"{"type":"dance"}"#, "invalid-field", "dance"),
        (r#"{"type":"register","node":{"id":"w","colour":1}}"#, "invalid-field", "colour"),
        (r#"{"type":"register","node":{}}"#, "invalid-field", "id"),
        (r#"{"type":"register","node":{"id":"connect"}}"#, "invalid-field", "reserved"),
        (r#"{"type":"register","node":{"id":"w","pools":["stile"]}}"#, "node-reserved", "stile"),
        (r#"{"type":"complete","jobId":"x"}"#, "invalid-field", "x"),
    ] {
        wire.send(text.to_owned()).await;
        let answer = wire.answer().await;
        assert_eq!(answer["problem"]["code"], code, "{text}: {answer}");
        assert!(answer["problem"]["detail"].as_str().unwrap().contains(part), "{text}: {answer}");
    }
    wire.0.send(Message::Binary(vec![1, 2, 3].into())).await.unwrap();
    assert_eq!(wire.answer().await["problem"]["code"], "malformed-json");
    assert_eq!(wire.ask(register(1)).await["type"], "registered");
    let other = json!({ "type": "register", "node": { "id": "another" } });
    assert_eq!(wire.ask(other).await["problem"]["code"], "invalid-field", "one node speaks");

    // Whoever says too much at once is not listened to.
    let long = "x".repeat(64 * 1024);
    wire.send(json!({ "type": "heartbeat", "ref": long }).to_string()).await;
    assert!(matches!(wire.closed().await, Some(1009) | None));
}

#[tokio::test]
async fn a_node_whose_connection_broke_is_still_there_when_it_is_back() {
    let solo = Solo::start().await;
    let mut wire = Wire::open(&solo.node, None).await.unwrap();
    let first = wire.ask(register(2)).await;
    drop(wire);
    assert_eq!(
        solo.node.get("/api/v1/nodes/w").await.ok()["incarnation"],
        first["node"]["incarnation"]
    );
    let mut wire = Wire::open(&solo.node, None).await.unwrap();
    let mut again = register(2);
    again["node"]["incarnation"] = first["node"]["incarnation"].clone();
    let again = wire.ask(again).await;
    assert_eq!(again["node"]["incarnation"], first["node"]["incarnation"]);
    assert_eq!(again["node"]["sequence"], 2);

    // Another start has the name; this one is told.
    solo.node.put("/api/v1/nodes/w", speech(1)).await.ok();
    let stale = wire.ask(json!({ "type": "heartbeat" })).await;
    assert_eq!(stale["problem"]["code"], "node-stale");
}

#[tokio::test]
async fn a_server_that_stops_ends_connections() {
    let solo = Solo::start().await;
    let mut wire = Wire::open(&solo.node, None).await.unwrap();
    wire.ask(register(1)).await;
    let (ended, closed) = tokio::join!(solo.node.terminate(), wire.closed());
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(closed, Some(1001));
}

#[tokio::test]
async fn a_node_that_says_nothing_more_dies() {
    let solo = Solo::start_with(|options| options.set("registry.node_ttl", "1s")).await;
    let mut wire = Wire::open(&solo.node, None).await.unwrap();
    wire.ask(register(1)).await;
    eventually("the node to be gone, although its connection is there", async || {
        (solo.node.get("/api/v1/nodes/w").await.status == 404).then_some(())
    })
    .await;
    let gone = wire.ask(json!({ "type": "heartbeat" })).await;
    assert_eq!(gone["problem"]["code"], "node-unknown");
    assert_eq!(wire.ask(register(1)).await["type"], "registered");
    drop(wire);
    assert_eq!(solo.node.get("/api/v1/nodes/w").await.status, 200, "it may come back");
    eventually("the node to be gone with its connection", async || {
        (solo.node.get("/api/v1/nodes/w").await.status == 404).then_some(())
    })
    .await;
}

/// Browsers let every page open a WebSocket to this machine.
#[tokio::test]
async fn a_page_of_another_site_cannot_connect() {
    let solo = Solo::start().await;
    let from = async |origin: String| Wire::open_with(&solo.node, Some(("origin", origin))).await;
    let refused = from("http://evil.example".to_owned()).await.err().expect("a refusal");
    let tungstenite::Error::Http(answer) = refused else { panic!("{refused:?}") };
    assert_eq!(answer.status(), 403);
    let mut own = from(solo.node.url().to_owned()).await.unwrap();
    assert_eq!(own.ask(register(1)).await["type"], "registered");
}
