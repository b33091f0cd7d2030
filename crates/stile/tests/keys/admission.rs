//! Who is let in, from when, and until when.

use std::time::{Duration, Instant};

use serde_json::json;
use stile_domain::Token;

use crate::support::{Backend, OURS};

on_both_stores!(
    the_first_key_closes_the_server,
    what_is_open_stays_open,
    every_bad_key_gets_the_same_answer,
    a_key_works_from_the_moment_it_is_made,
    a_revoked_key_lets_nobody_in,
    a_key_that_expires_lets_nobody_in,
    a_server_without_its_last_key_stays_closed,
);

async fn the_first_key_closes_the_server(backend: Backend) {
    let node = backend.node().start().await;
    assert!(node.process.stderr().contains("there is no API key"), "it says so");
    assert!(node.without().is_let_in().await, "no key, no question");
    let junk = Token::fresh().unwrap();
    assert!(node.with(junk.reveal()).is_let_in().await, "open is open");
    let key = backend.key("first", "read", "all").await;
    assert!(node.with(&key).is_let_in().await);
    assert!(!node.without().is_let_in().await, "the key that was shown closed it");
    assert!(!node.with(junk.reveal()).is_let_in().await);

    // Without anybody showing a key it takes a moment.
    let other = Backend::sqlite();
    let node = other.node().start().await;
    other.key("first", "read", "all").await;
    node.without().until_let_in(false).await;
}

async fn what_is_open_stays_open(backend: Backend) {
    backend.key("first", "read", "all").await;
    let node = backend.node().start().await;
    for path in [
        "/",
        "/docs",
        "/docs/swagger-ui.js",
        "/docs/swagger-ui.css",
        "/openapi.json",
        "/health/live",
        "/health/ready",
    ] {
        assert_eq!(node.get(path).await.status, 200, "{path}");
    }
    // The page can ask for a key and send it, which an EventSource cannot, and does not keep it.
    let page = node.get("/").await.text;
    assert!(page.contains("\"Bearer \"") && page.contains("sessionStorage"));
    assert!(!page.contains("new EventSource") && !page.contains("localStorage"));
    for path in ["/metrics", "/api/v1/tx", "/api/v1/events", "/api/v1/nowhere", "/nowhere", "/rpc"]
    {
        let refused = node.get(path).await;
        assert_eq!((refused.status, refused.problem().as_str()), (401, "unauthorized"), "{path}");
    }
}

async fn every_bad_key_gets_the_same_answer(backend: Backend) {
    let revoked = backend.key("revoked", "read", "all").await;
    backend.revoke("revoked").await;
    let good = backend.key("good", "read", "all").await;
    let node = backend.node().start().await;
    let expired = backend.key_with("short", "read", "all", &["--expires", "1s"]).await;
    // A read that takes long ends a key a moment too early, and the next one gives it that moment
    // back. So it is over once its time is.
    let made = Instant::now();
    testkit::eventually("the key's time to be over", async || {
        (made.elapsed() > Duration::from_secs(1)).then_some(())
    })
    .await;
    node.with(&expired).until_let_in(false).await;
    let unknown = Token::fresh().unwrap();
    let missing = node.get("/api/v1/signers").await;
    let mut answers = vec![missing.clone()];
    for token in [&revoked, &expired, unknown.reveal(), "stile_", "x", "", &good[1..]] {
        answers.push(node.with(token).get("/api/v1/signers").await);
    }
    for header in [format!("Basic {good}"), good.clone(), format!("Bearer {good} x")] {
        let request = node.request("GET", "/api/v1/signers").header("authorization", header);
        answers.push(crate::common::Answer::of(request.send().await.unwrap()).await.unwrap());
    }
    for answer in answers {
        assert_eq!((answer.status, answer.problem().as_str()), (401, "unauthorized"));
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
        assert_eq!(answer.text, missing.text, "nothing is learnt from it");
    }
    assert!(node.with(&good).is_let_in().await);
    let twice = node.with(&good).request("GET", "/api/v1/signers").bearer_auth(&good);
    assert_eq!(twice.send().await.unwrap().status(), 401, "two keys are none");
}

async fn a_key_works_from_the_moment_it_is_made(backend: Backend) {
    backend.key("first", "read", "all").await;
    let node = backend.node().start().await;
    for number in 0..5 {
        let key = backend.key(&format!("key-{number}"), "read", "all").await;
        assert!(node.with(&key).is_let_in().await, "at once, and not within a second");
    }
}

async fn a_revoked_key_lets_nobody_in(backend: Backend) {
    let (good, bad) =
        (backend.key("good", "read", "all").await, backend.key("bad", "read", "all").await);
    let node = backend.node().start().await;
    let mut stream = node.with(&bad).request("GET", "/api/v1/events").send().await.unwrap();
    assert_eq!(stream.status(), 200);
    assert!(node.with(&bad).is_let_in().await);
    backend.revoke("bad").await;
    node.with(&bad).until_let_in(false).await;
    assert!(node.with(&good).is_let_in().await);
    // A stream that was open ends, too.
    let rest = async { while stream.chunk().await.unwrap().is_some() {} };
    tokio::time::timeout(testkit::DEADLINE, rest).await.expect("the stream to end");
}

async fn a_key_that_expires_lets_nobody_in(backend: Backend) {
    backend.key("good", "read", "all").await;
    let node = backend.node().start().await;
    let key = backend.key_with("short", "read,send", OURS, &["--expires", "3s"]).await;
    let caller = node.with(&key);
    assert!(caller.is_let_in().await);
    caller.post(&format!("/api/v1/nonces/{OURS}/allocate"), json!({})).await.ok();
    caller.until_let_in(false).await;
}

async fn a_server_without_its_last_key_stays_closed(backend: Backend) {
    let key = backend.key("only", "read", "all").await;
    let started_with = backend.node().start().await;
    assert!(started_with.with(&key).is_let_in().await);
    backend.revoke("only").await;
    started_with.with(&key).until_let_in(false).await;
    assert!(!started_with.without().is_let_in().await);
    started_with.terminate().await;

    // The same for one that starts without a good key, and gets one while it runs.
    let node = backend.node().start().await;
    assert!(!node.without().is_let_in().await, "there was a key once");
    let key = backend.key("only", "read", "all").await;
    assert!(node.with(&key).is_let_in().await);
    backend.revoke("only").await;
    node.with(&key).until_let_in(false).await;
    assert!(!node.without().is_let_in().await);
    let late = backend.key("late", "read", "all").await;
    assert!(node.with(&late).is_let_in().await, "and opens for a new key");
}
