//! Calls by key and by address, and wrong keys.

use futures::future::join_all;
use stile_domain::Token;

use crate::support::{Backend, OURS};

#[tokio::test]
async fn hole_45_a_key_makes_so_many_calls_and_no_more() {
    let backend = Backend::sqlite();
    let (busy, calm) =
        (backend.key("busy", "read", OURS).await, backend.key("calm", "read", OURS).await);
    let node = backend.node().set_literal("server.limits.calls_per_key", "5").start().await;
    let answers =
        join_all((0..50).map(|_| async { node.with(&busy).get("/api/v1/signers").await }));
    let answers = answers.await;
    let (good, bad): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 200);
    assert!(good.len() >= 5 && !bad.is_empty(), "{} of 50 were let through", good.len());
    for answer in &answers {
        assert_eq!(answer.header("ratelimit-limit"), Some("5"), "{answer:?}");
        assert_eq!(answer.header("ratelimit-policy"), Some("5;w=1"), "{answer:?}");
        for name in ["ratelimit-remaining", "ratelimit-reset"] {
            assert!(
                answer.header(name).is_some_and(|text| text.parse::<u64>().is_ok()),
                "{answer:?}"
            );
        }
    }
    for answer in bad {
        assert_eq!((answer.status, answer.problem().as_str()), (429, "rate-limited"));
        assert_eq!(answer.header("ratelimit-remaining"), Some("0"), "{answer:?}");
        assert_eq!(answer.header("retry-after"), Some("1"), "{answer:?}");
    }
    let other = node.with(&calm).get("/api/v1/signers").await;
    assert_eq!(other.status, 200, "another key is not concerned: {other:?}");
    testkit::eventually("the key to be let in again", async || {
        (node.with(&busy).get("/api/v1/signers").await.status == 200).then_some(())
    })
    .await;
}

#[tokio::test]
async fn hole_45_an_address_makes_so_many_calls_and_no_more() {
    let backend = Backend::sqlite();
    let node = backend.node().set_literal("server.limits.calls_per_address", "5").start().await;
    let answers = join_all((0..50).map(|_| async { node.get("/api/v1/signers").await })).await;
    let refused = answers.iter().filter(|answer| answer.status == 429).count();
    assert!((1..=45).contains(&refused), "{refused} of 50 were refused");
}

/// What needs no key costs something all the same, and anybody may ask for it.
#[tokio::test]
async fn hole_45_what_needs_no_key_has_a_rate_of_its_own() {
    let backend = Backend::sqlite();
    let node = backend.node().set_literal("server.limits.calls_per_address", "5").start().await;
    for path in ["/health/ready", "/health/live", "/openapi.json", "/docs", "/"] {
        let answers = join_all((0..50).map(|_| node.get(path))).await;
        let refused: Vec<_> = answers.iter().filter(|answer| answer.status != 200).collect();
        assert!(!refused.is_empty(), "{path}: all of 50 were let through");
        for answer in refused {
            assert_eq!((answer.status, answer.problem().as_str()), (429, "rate-limited"), "{path}");
            assert_eq!(answer.header("ratelimit-remaining"), Some("0"), "{answer:?}");
        }
    }
    // It took nothing from calls. They take nothing from it either.
    assert_eq!(node.get("/api/v1/signers").await.status, 200);
    testkit::eventually("it to be let in again", async || {
        join_all((0..20).map(|_| node.get("/api/v1/signers"))).await;
        (node.get("/health/live").await.status == 200).then_some(())
    })
    .await;
}

/// A call with a thousand transactions in it is not one call.
#[tokio::test]
async fn hole_45_a_batch_costs_what_is_in_it() {
    let backend = Backend::sqlite();
    let (busy, calm) =
        (backend.key("busy", "read,send", OURS).await, backend.key("calm", "read", OURS).await);
    let node = backend.node().set_literal("server.limits.calls_per_key", "5").start().await;
    let batch = |count: usize| serde_json::json!({ "items": vec![serde_json::json!({}); count] });
    let small = node.with(&busy).post("/api/v1/tx/batch", batch(1)).await;
    assert_eq!(small.status, 200, "{small:?}");
    // It is taken, for somebody who has a call left.
    let large = testkit::eventually("the batch to be taken", async || {
        let answer = node.with(&busy).post("/api/v1/tx/batch", batch(1000)).await;
        (answer.status == 200).then_some(answer)
    })
    .await;
    assert_eq!(large.header("ratelimit-remaining"), Some("0"), "{:?}", large.headers);
    // Three minutes' worth are owed.
    for path in ["/api/v1/signers", "/api/v1/tx"] {
        let answer = node.with(&busy).get(path).await;
        assert_eq!((answer.status, answer.problem().as_str()), (429, "rate-limited"));
        let wait: u64 = answer.header("retry-after").unwrap().parse().unwrap();
        assert!((60..=200).contains(&wait), "{answer:?}");
    }
    assert_eq!(node.with(&calm).get("/api/v1/signers").await.status, 200, "another key's");
}

/// Whoever needs no key may send one all the same, as programs do that once had one.
#[tokio::test]
async fn hole_45_a_server_without_keys_refuses_nobody_for_a_key() {
    let backend = Backend::sqlite();
    let node = backend.node().start().await;
    let with_some_key = || async {
        let token = Token::fresh().unwrap();
        node.with(token.reveal()).get("/api/v1/signers").await
    };
    for answer in join_all((0..300).map(|_| with_some_key())).await {
        assert_eq!(answer.status, 200, "{answer:?}");
    }
}

/// Anybody can make keys up, a thousand a second. Each that is not known may be a new one, and is
/// looked for in the database.
#[tokio::test]
async fn hole_45_wrong_keys_are_slowed_down_and_good_ones_are_not() {
    let backend = Backend::sqlite();
    let good = backend.key("good", "read", OURS).await;
    let node = backend.node().start().await;
    let wrong = || async {
        let token = Token::fresh().unwrap();
        let wrong = node.with(token.reveal()).get("/api/v1/signers").await;
        let right = node.with(&good).get("/api/v1/signers").await;
        assert_eq!(right.status, 200, "from the same address: {right:?}");
        wrong
    };
    let answers = join_all((0..400).map(|_| wrong())).await;
    let mut slowed = 0;
    for answer in answers {
        match answer.status {
            401 => assert_eq!(answer.problem(), "unauthorized"),
            _ => {
                assert_eq!(
                    (answer.status, answer.problem().as_str()),
                    (429, "too-many-wrong-keys")
                );
                assert_eq!(answer.header("retry-after"), Some("1"), "{answer:?}");
                slowed += 1;
            }
        }
    }
    assert!(slowed >= 100, "{slowed} of 400 were slowed down");
    let page = node.with(&good).node.request("GET", "/metrics").bearer_auth(&good);
    assert_eq!(page.send().await.unwrap().status(), 403, "a key for one signer sees no metrics");
    let boss = backend.key("boss", "admin", "all").await;
    node.with(&boss).until_let_in(true).await;
    let page = node.with(&boss).get("/metrics").await.text;
    let count = |reason: &str| {
        let name = format!("stile_api_key_refused_total{{reason=\"{reason}\"}} ");
        let line = page.lines().find_map(|line| line.strip_prefix(&name));
        line.expect("a count").parse::<u64>().unwrap()
    };
    assert!(count("too-many") >= slowed && count("wrong") + count("too-many") >= 400, "{page}");
    let log = node.process.stderr();
    let told = log.lines().filter(|line| line.contains("wrong API key")).count();
    assert_eq!(told, 1, "once a minute for each address: {log}");
}
