//! Who may pass calls on, and how often.

use serde_json::{Value, json};

use crate::common::{Answer, Database, NodeOptions, StileProcess, signer, signers};

pub(crate) const SECRET: &str = "0d6c3ab1f9e24578bb1c90e7d35af2648c7b1e90fa26d4538e0b7c1fd29a6e43";
pub(crate) const ANOTHER: &str = "8c7b1e90fa26d4538e0b7c1fd29a6e430d6c3ab1f9e24578bb1c90e7d35af264";

pub(crate) fn options(name: &str, database: &Database) -> NodeOptions {
    NodeOptions::postgres(name, &database.url, &signers(1))
        .lease("60s", "20s")
        .set("cluster.not_holder", "accept")
}

pub(crate) fn with_secret(options: NodeOptions, secret: &str) -> NodeOptions {
    options.set("cluster.secret", "env:CLUSTER_SECRET").environment("CLUSTER_SECRET", secret)
}

/// A nonce, asked for in this way.
pub(crate) async fn allocate(node: &StileProcess, headers: &[(&str, &str)]) -> Answer {
    let request = node.request("POST", &format!("/api/v1/nonces/{}/allocate", signer(0)));
    let request =
        headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    Answer::of(request.json(&json!({})).send().await.unwrap()).await.unwrap()
}

/// The first key there is: from now on every call needs one.
pub(crate) async fn first_key(node: &StileProcess) -> String {
    let body = json!({ "name": "boss", "operations": ["admin", "send", "read"], "signers": "all" });
    let made: Value = node.post("/api/v1/keys", body).await.json();
    format!("Bearer {}", made["token"].as_str().unwrap_or_else(|| panic!("{made}")))
}

/// The lane is another process's, which has told the database that it is reached here.
pub(crate) async fn held_by(database: &Database, url: &str) {
    let sql = format!(
        "INSERT INTO node (node_id, incarnation, url, mode, serves, started_at, seen_at)
         SELECT 'x', gen_random_uuid(), '{url}', 'basic', '', clock_timestamp(), clock_timestamp()"
    );
    database.execute(&sql).await;
    let sql = "UPDATE lane SET owner_node = n.node_id, owner_incarnation = n.incarnation,
                               owner_url = n.url, fencing_token = fencing_token + 1,
                               expires_at = clock_timestamp() + interval '1 hour'
               FROM node n WHERE n.node_id = 'x'";
    database.execute(sql).await;
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

/// A node says whose call it is, and the holder looks the key up itself.
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
    assert_eq!(b.metric_with(&key, "stile_forward_total{result=\"answered\"}").await, 1.0);
}

/// A key that was revoked does not get in by way of a node that has not heard of it, nor does one that
/// is for something else.
#[tokio::test]
async fn hole_40_a_key_is_looked_up_by_whoever_does_what_is_asked() {
    let database = Database::new().await;
    let start = async |name: &str| with_secret(options(name, &database), SECRET).start().await;
    let (a, b) = tokio::join!(start("a"), start("b"));
    assert_eq!(allocate(&a, &[]).await.nonce(), 0);
    let boss = first_key(&a).await;
    let made = json!({ "name": "shop", "operations": ["send"], "signers": [signer(0)] });
    let made = with(&b, &boss, "POST", "/api/v1/keys").json(&made).send().await.unwrap();
    let shop: Value = made.json().await.unwrap();
    let token = format!("Bearer {}", shop["token"].as_str().unwrap());
    // A key that the holder has not heard of yet works at once.
    assert_eq!(allocate(&b, &[("authorization", &token)]).await.nonce(), 1);
    let reader = json!({ "name": "reader", "operations": ["read"], "signers": [signer(0)] });
    let made = with(&b, &boss, "POST", "/api/v1/keys").json(&reader).send().await.unwrap();
    let reader: Value = made.json().await.unwrap();
    let reader = format!("Bearer {}", reader["token"].as_str().unwrap());
    assert_eq!(allocate(&b, &[("authorization", &reader)]).await.status, 403);
    let path = format!("/api/v1/keys/{}", shop["keyId"].as_str().unwrap());
    assert_eq!(with(&a, &boss, "DELETE", &path).send().await.unwrap().status(), 204);
    // Whether b has heard of it by now or not: the holder has.
    let answer = allocate(&b, &[("authorization", &token)]).await;
    let code = answer.problem();
    assert!(
        answer.status == 401 && ["callers-key", "unauthorized"].contains(&&*code),
        "{answer:?}"
    );
    assert_eq!(answer.header("www-authenticate"), Some("Bearer"), "{answer:?}");
    assert_eq!(allocate(&b, &[("authorization", &boss)]).await.nonce(), 2, "nothing was given out");
    // It is the caller's affair: neither a wrong secret nor a wrong key of a node.
    let log = b.process.stderr();
    assert!(!log.contains("cluster.secret"), "{log}");
    let log = a.process.stderr();
    assert!(!log.contains("wrong API key"), "{log}");
    assert_eq!(b.metric_with(&boss, "stile_forward_total{result=\"refused\"}").await, 0.0);
}

pub(crate) fn with(
    node: &StileProcess,
    key: &str,
    method: &str,
    path: &str,
) -> reqwest::RequestBuilder {
    node.request(method, path).header("authorization", key)
}

impl StileProcess {
    /// A metric of a node that asks for a key.
    async fn metric_with(&self, key: &str, series: &str) -> f64 {
        let page = with(self, key, "GET", "/metrics").send().await.unwrap().text().await.unwrap();
        let value = page.lines().filter_map(|line| line.rsplit_once(' '));
        let value = value.filter(|(name, _)| *name == series).map(|(_, value)| value);
        value.map(|value| value.parse::<f64>().unwrap()).sum()
    }
}

#[tokio::test]
async fn only_nodes_are_believed_that_a_call_was_passed_on() {
    let database = Database::new().await;
    let a = with_secret(options("a", &database), SECRET).start().await;
    for headers in [
        &[("stile-forwarded", "b")][..],
        &[("stile-forwarded", "b"), ("stile-pass", "bm90aGluZw.bm90aGluZw")],
        // As nodes of an earlier version say it: they keep the call, and their secret is not ours.
        &[("stile-forwarded", "b"), ("stile-cluster-secret", SECRET)],
    ] {
        let answer = allocate(&a, headers).await;
        assert_eq!((answer.status, answer.problem().as_str()), (403, "not-a-node"), "{answer:?}");
    }
    assert_eq!(allocate(&a, &[]).await.nonce(), 0);
}

/// The other node does not take the call, so the caller is told where to go.
#[tokio::test]
async fn a_node_with_a_wrong_secret_is_refused() {
    let database = Database::new().await;
    let a = with_secret(options("a", &database), SECRET);
    let b = with_secret(options("b", &database), ANOTHER);
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
