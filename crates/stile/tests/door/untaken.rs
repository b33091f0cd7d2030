//! Answers over HTTP/2 that nobody takes. The other side says how much it takes of each.

use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use testkit::{Authority, eventually};
use tokio::task::JoinHandle;

use crate::Solo;
use crate::common::{SIGNER, StileProcess};
use crate::tls::connect;

/// A connection on which so many bytes of each answer are taken before more are asked for.
struct Taker {
    sender: http2::SendRequest<Empty<Bytes>>,
    connection: JoinHandle<hyper::Result<()>>,
}

impl Taker {
    async fn open(node: &StileProcess, authority: &Authority, window: u32) -> Self {
        let stream = connect(node, authority, None, &[b"h2"]).await.unwrap();
        let shaken = http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(window)
            .handshake(TokioIo::new(stream));
        let (sender, connection) = shaken.await.unwrap();
        Self { sender, connection: tokio::spawn(connection) }
    }

    async fn get(&mut self, node: &StileProcess, path: &str) -> Incoming {
        let uri = format!("https://{}{path}", node.address());
        let request = hyper::Request::get(uri).body(Empty::new()).unwrap();
        let answer = self.sender.send_request(request).await.unwrap();
        assert_eq!(answer.status(), 200);
        answer.into_body()
    }
}

/// Each costs the caller a few bytes, and the server an answer for ever: to its socket nothing is wrong.
#[tokio::test]
async fn hole_45_answers_over_http2_that_nobody_takes_are_not_waited_for() {
    let authority = Authority::new();
    let certified = authority.certify("server", &["127.0.0.1"]);
    let solo = Solo::start(|options| {
        options.tls(&authority, &certified).set("server.limits.idle_timeout", "1s")
    })
    .await;
    let node = &solo.node;
    node.allocate(SIGNER).await.ok();
    // Somebody who listens, and has taken all there is, for longer than that.
    let mut listener = Taker::open(node, &authority, 1 << 16).await;
    let mut events = listener.get(node, "/api/v1/events").await;
    let mut takers = Vec::new();
    for path in ["/openapi.json", "/docs/swagger-ui.js", "/health/live", "/api/v1/events"] {
        let mut taker = Taker::open(node, &authority, 0).await;
        let answers = (taker.get(node, path).await, taker.get(node, path).await);
        takers.push((path, taker, answers));
    }
    for (path, taker, _answers) in takers {
        let end = tokio::time::timeout(testkit::DEADLINE, taker.connection).await;
        assert!(end.is_ok(), "{path} is still waited for");
    }
    eventually("it to be told", async || {
        (node.metric("stile_http_timeouts_total{limit=\"write\"}").await >= 4.0).then_some(())
    })
    .await;
    node.post(&format!("/api/v1/signers/{SIGNER}/pause"), json!({ "reason": "test" })).await.ok();
    let mut heard = String::new();
    while !heard.contains("PAUSED") {
        let next = tokio::time::timeout(testkit::DEADLINE, events.frame()).await;
        let frame = next.expect("an event").expect("no end").unwrap();
        heard.push_str(std::str::from_utf8(&frame.into_data().unwrap()).unwrap());
    }
    // And somebody who takes a little at a time gets all of it.
    let mut slow = Taker::open(node, &authority, 1000).await;
    let all = slow.get(node, "/docs/swagger-ui.js").await.collect().await.unwrap().to_bytes();
    let plain = node.get("/docs/swagger-ui.js").await;
    assert!(all == plain.text.as_bytes(), "{} bytes of {}", all.len(), plain.text.len());
}
