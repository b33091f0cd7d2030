//! Many listeners, one reader: none misses an event, none gets one twice.

use futures::future::join_all;
use serde_json::json;
use testkit::eventually;

use crate::Solo;
use crate::common::{Answer, StileProcess};
use crate::support::{Backend, OURS, THEIRS};

/// The events of a signer: a pause and its end, however often.
async fn pause_and_resume(node: &StileProcess, signer: &str, times: usize) {
    for _ in 0..times {
        let path = format!("/api/v1/signers/{signer}");
        node.post(&format!("{path}/pause"), json!({ "reason": "test" })).await.ok();
        node.post(&format!("{path}/resume"), json!({})).await.ok();
    }
}

/// A client of the stream, which reads when it is asked to.
struct Listener {
    response: reqwest::Response,
    unread: String,
}

impl Listener {
    async fn open(request: reqwest::RequestBuilder) -> Self {
        // No time-out: a stream has no end.
        let request = request.timeout(std::time::Duration::from_secs(600));
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        Self { response, unread: String::new() }
    }

    /// The next event that has data: its place, and what it is about.
    async fn next(&mut self) -> (String, serde_json::Value) {
        loop {
            while let Some((frame, rest)) = self.unread.split_once("\n\n") {
                let (frame, rest) = (frame.to_owned(), rest.to_owned());
                self.unread = rest;
                let line = |name: &str| frame.lines().find_map(|line| line.strip_prefix(name));
                if let (Some(id), Some(data)) = (line("id: "), line("data: ")) {
                    return (id.to_owned(), serde_json::from_str(data).unwrap());
                }
            }
            let more = tokio::time::timeout(testkit::DEADLINE, self.response.chunk());
            let more = more.await.expect("an event").unwrap().expect("no end");
            self.unread.push_str(std::str::from_utf8(&more).unwrap());
        }
    }

    async fn take(&mut self, count: usize) -> Vec<String> {
        let mut ids = Vec::new();
        while ids.len() < count {
            ids.push(self.next().await.0);
        }
        ids
    }
}

fn listen(node: &StileProcess, query: &str) -> reqwest::RequestBuilder {
    node.bare_request("GET", &format!("/api/v1/events{query}"))
}

#[tokio::test]
async fn hole_45_idle_listeners_share_one_reader() {
    const LISTENERS: usize = 200;
    let solo = Solo::start(|options| options).await;
    let node = &solo.node;
    // A lane exists from its first nonce on.
    node.allocate(crate::SIGNER).await.ok();
    let opened = (0..LISTENERS).map(|_| Listener::open(listen(node, "")));
    let mut listeners = join_all(opened).await;
    assert_eq!(node.metric("stile_http_streams").await, LISTENERS as f64);
    let reads = async |reader: &str| {
        node.metric(&format!("stile_stream_reads_total{{reader=\"{reader}\"}}")).await
    };
    let (mut own, begun) = (0.0, reads("all").await);
    // Long enough for each of them to have read many times.
    eventually("the stream to be read ten times", async || {
        own = reads("one").await;
        (reads("all").await >= begun + 10.0).then_some(())
    })
    .await;
    assert!(
        own <= LISTENERS as f64,
        "listeners read {own} times by themselves: once each to begin"
    );
    pause_and_resume(node, crate::SIGNER, 2).await;
    let first = listeners[0].take(4).await;
    for listener in &mut listeners[1..] {
        assert_eq!(listener.take(4).await, first);
    }
    assert_eq!(reads("one").await, own, "whoever keeps up reads nothing by itself");
    drop(listeners);
    eventually("the streams to be closed", async || {
        (node.metric("stile_http_streams").await == 0.0).then_some(())
    })
    .await;
}

/// Those who come in the middle, come back, read slowly or may not see everything.
#[tokio::test]
async fn hole_45_no_listener_misses_an_event_or_gets_one_twice() {
    const TIMES: usize = 300;
    let backend = Backend::sqlite();
    let node = backend.node().start().await;
    let mut early = Listener::open(listen(&node, "?after=0-0")).await;
    let mut slow = Listener::open(listen(&node, "?after=0-0")).await;
    let mut only = Listener::open(listen(&node, &format!("?after=0-0&signer={OURS}"))).await;
    // A lane exists from its first nonce on.
    node.allocate(OURS).await.ok();
    node.allocate(THEIRS).await.ok();
    let (node, middle) = (&node, TIMES);
    let writes = async {
        for _ in 0..TIMES / 10 {
            let ours = pause_and_resume(node, OURS, 10);
            let theirs = pause_and_resume(node, THEIRS, 10);
            tokio::join!(ours, theirs);
        }
    };
    let late = async {
        let mut first = Listener::open(listen(node, "?after=0-0")).await;
        let seen = first.take(middle).await;
        drop(first);
        // It comes back where it was.
        let after = seen.last().unwrap().clone();
        let mut second = Listener::open(listen(node, &format!("?after={after}"))).await;
        [seen, second.take(4 * TIMES - middle).await].concat()
    };
    let (all, late, ()) = tokio::join!(early.take(4 * TIMES), late, writes);
    assert_eq!(late, all);
    let distinct: std::collections::BTreeSet<_> = all.iter().collect();
    assert_eq!(distinct.len(), all.len(), "none twice");
    assert_eq!(slow.take(4 * TIMES).await, all, "whoever has not read until now");
    let mut of_ours = Vec::new();
    while of_ours.len() < 2 * TIMES {
        let (id, event) = only.next().await;
        assert_eq!(event["signer"], OURS, "{event}");
        of_ours.push(id);
    }
    let subset = all.iter().filter(|id| of_ours.contains(id)).cloned().collect::<Vec<_>>();
    // Both lanes begin with an entry of their own, so the last ones may be behind what was taken of all.
    assert!(subset.len() >= 2 * TIMES - 2, "{} of {}", subset.len(), of_ours.len());
    assert_eq!(of_ours[..subset.len()], subset);
}

#[tokio::test]
async fn hole_45_a_key_has_so_many_streams_and_no_more() {
    let backend = Backend::sqlite();
    let (one, other) =
        (backend.key("one", "read", "all").await, backend.key("other", "read", "all").await);
    let node = backend.node().set_literal("server.limits.streams_per_key", "2").start().await;
    let open = |key: &str| Listener::open(listen(&node, "").bearer_auth(key));
    let held = (open(&one).await, open(&one).await);
    let third =
        Answer::of(listen(&node, "").bearer_auth(&one).send().await.unwrap()).await.unwrap();
    assert_eq!((third.status, third.problem().as_str()), (429, "too-many-streams"));
    assert!(third.header("retry-after").is_some(), "{third:?}");
    let _theirs = open(&other).await;
    drop(held);
    eventually("there to be room again", async || {
        let response = listen(&node, "").bearer_auth(&one).send().await.unwrap();
        (response.status() == 200).then_some(())
    })
    .await;
}

/// The key is looked at once for all its streams.
#[tokio::test]
async fn streams_end_with_their_key() {
    let backend = Backend::sqlite();
    let key = backend.key("gone", "read", "all").await;
    let node = backend.node().start().await;
    let mut streams = Vec::new();
    for _ in 0..20 {
        streams.push(Listener::open(listen(&node, "").bearer_auth(&key)).await);
    }
    backend.revoke("gone").await;
    for mut stream in streams {
        let end = async { while stream.response.chunk().await.unwrap().is_some() {} };
        tokio::time::timeout(testkit::DEADLINE, end).await.expect("an end");
    }
}
