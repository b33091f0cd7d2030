//! Who may pass calls on, and how often.

use serde_json::{Value, json};

use crate::common::{Answer, Database, NodeOptions, StileProcess, signer, signers};

const SECRET: &str = "correct-horse-battery-staple";

fn options(name: &str, database: &Database) -> NodeOptions {
    NodeOptions::postgres(name, &database.url, &signers(1))
        .lease("60s", "20s")
        .set("cluster.not_holder", "accept")
}

fn with_secret(options: NodeOptions, secret: &str) -> NodeOptions {
    options.set("cluster.secret", "env:CLUSTER_SECRET").environment("CLUSTER_SECRET", secret)
}

/// A nonce, asked for in this way.
async fn allocate(node: &StileProcess, headers: &[(&str, &str)]) -> Answer {
    let request = node.request("POST", &format!("/api/v1/nonces/{}/allocate", signer(0)));
    let request =
        headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    Answer::of(request.json(&json!({})).send().await.unwrap()).await.unwrap()
}

/// The first key there is: from now on every call needs one.
async fn first_key(node: &StileProcess) -> String {
    let body = json!({ "name": "boss", "operations": ["admin", "send", "read"], "signers": "all" });
    let made: Value = node.post("/api/v1/keys", body).await.json();
    format!("Bearer {}", made["token"].as_str().unwrap_or_else(|| panic!("{made}")))
}

/// The lane is another process's, which says that it is reached here.
async fn held_by(database: &Database, url: &str) {
    let sql = format!(
        "UPDATE lane SET owner_node = 'x', owner_incarnation = gen_random_uuid(), owner_url = '{url}',
                         fencing_token = fencing_token + 1,
                         expires_at = clock_timestamp() + interval '1 hour'"
    );
    database.execute(&sql).await;
}

async fn calls(node: &StileProcess) -> f64 {
    let page = node.get("/metrics").await.text;
    let route = "route=\"/api/v1/nonces/{signer}/allocate\"";
    let lines = page
        .lines()
        .filter(|line| line.starts_with("stile_http_requests_total{") && line.contains(route));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

/// Whatever the database says of who is reached where, a call ends.
#[tokio::test]
async fn a_call_is_passed_on_once() {
    let database = Database::new().await;
    let (a, b) = (options("a", &database), options("b", &database));
    let (a, b) = tokio::join!(a.start(), b.start());
    assert_eq!(allocate(&a, &[]).await.nonce(), 0);
    // Two nodes that would send each other in circles.
    held_by(&database, b.url()).await;
    let answer = allocate(&a, &[]).await;
    assert_eq!((answer.status, answer.problem().as_str()), (409, "not-holder"), "{answer:?}");
    assert!(answer.header("retry-after").is_some());
    assert_eq!(calls(&a).await, 2.0, "nobody passed it back");
    assert!(calls(&b).await <= 6.0, "b answered each try of a, and passed nothing on");
    assert_eq!(b.metric("stile_forward_total").await, 0.0);
    // And one that would send itself.
    let answer = allocate(&b, &[]).await;
    assert_eq!((answer.status, answer.problem().as_str()), (409, "not-holder"), "{answer:?}");
}

/// It believed to hold the lane when the call came, and learned otherwise from the commit.
#[tokio::test]
async fn a_call_that_was_fenced_in_the_middle_is_sent_on_to_the_holder() {
    let database = Database::new().await;
    let (a, b) = (options("a", &database), options("b", &database));
    let (a, b) = tokio::join!(a.start(), b.start());
    assert_eq!(allocate(&a, &[]).await.nonce(), 0);
    database.execute("UPDATE lane SET expires_at = clock_timestamp()").await;
    assert_eq!(allocate(&b, &[]).await.nonce(), 1);
    assert_eq!(allocate(&a, &[]).await.nonce(), 2);
    assert_eq!(a.metric("stile_fence_reject_total{op=\"allocate\"}").await, 1.0);
    assert_eq!(a.metric("stile_forward_total{result=\"answered\"}").await, 1.0);
}

/// The caller's own key goes along, and the holder checks it again.
#[tokio::test]
async fn with_api_keys_calls_are_passed_on_by_nodes_that_share_a_secret() {
    let database = Database::new().await;
    let start = async |name: &str| with_secret(options(name, &database), SECRET).start().await;
    let (a, b) = tokio::join!(start("a"), start("b"));
    assert_eq!(allocate(&a, &[]).await.nonce(), 0);
    let key = first_key(&a).await;
    let caller = ("authorization", key.as_str());
    assert_eq!(allocate(&b, &[caller]).await.nonce(), 1);
    assert_eq!(allocate(&b, &[]).await.status, 401, "nobody gets in by way of a node");
    // Whoever has the secret and no key gets nothing from it either.
    let node = [("stile-forwarded", "b"), ("stile-cluster-secret", SECRET)];
    assert_eq!(allocate(&a, &node).await.status, 401);
}

#[tokio::test]
async fn only_nodes_are_believed_that_a_call_was_passed_on() {
    let database = Database::new().await;
    let a = with_secret(options("a", &database), SECRET).start().await;
    for headers in [
        &[("stile-forwarded", "b")][..],
        &[("stile-forwarded", "b"), ("stile-cluster-secret", "incorrect-horse-battery")],
    ] {
        let answer = allocate(&a, headers).await;
        assert_eq!((answer.status, answer.problem().as_str()), (403, "not-a-node"), "{answer:?}");
    }
    let node = [("stile-forwarded", "b"), ("stile-cluster-secret", SECRET)];
    assert_eq!(allocate(&a, &node).await.nonce(), 0);
}

/// The other node does not take the call, so the caller is told where to go.
#[tokio::test]
async fn a_node_with_a_wrong_secret_is_refused() {
    let database = Database::new().await;
    let a = with_secret(options("a", &database), SECRET);
    let b = with_secret(options("b", &database), "incorrect-horse-battery");
    let (a, b) = tokio::join!(a.start(), b.start());
    assert_eq!(allocate(&a, &[]).await.nonce(), 0);
    let answer = allocate(&b, &[]).await;
    assert_eq!((answer.status, answer.problem().as_str()), (409, "not-holder"), "{answer:?}");
    assert_eq!(answer.header("stile-owner-url"), Some(a.url()));
    assert_eq!(b.metric("stile_forward_total{result=\"refused\"}").await, 1.0);
    assert!(b.process.stderr().contains("cluster.secret"), "it is said what to do about it");
}

/// Without a secret nobody could tell a node from anybody else.
#[tokio::test]
async fn with_api_keys_and_without_a_secret_nothing_is_passed_on() {
    let database = Database::new().await;
    let (a, b) = (options("a", &database), options("b", &database));
    let (a, b) = tokio::join!(a.start(), b.start());
    assert_eq!(allocate(&a, &[]).await.nonce(), 0);
    assert_eq!(allocate(&b, &[]).await.nonce(), 1, "open to this machine, nodes included");
    let key = first_key(&b).await;
    let caller = ("authorization", key.as_str());
    let answer = allocate(&b, &[caller]).await;
    assert_eq!((answer.status, answer.problem().as_str()), (409, "not-holder"), "{answer:?}");
    let answer = allocate(&a, &[caller, ("stile-forwarded", "b")]).await;
    assert_eq!((answer.status, answer.problem().as_str()), (403, "not-a-node"), "{answer:?}");
}
