//! Several nodes, and a database that is away.

use std::time::Duration;

use stile_domain::Token;
use testkit::Postgres;

use crate::common::{NodeOptions, StileProcess};
use crate::support::{Backend, OURS};

async fn node(id: &str, backend: &Backend) -> StileProcess {
    let url = &backend.database.as_ref().unwrap().url;
    NodeOptions::postgres(id, url, &[OURS.to_owned()]).start().await
}

#[tokio::test]
async fn a_key_made_on_one_node_works_on_the_others() {
    let backend = Backend::postgres().await;
    let (a, b) = (node("a", &backend).await, node("b", &backend).await);
    let boss = serde_json::json!({ "name": "boss", "operations": ["admin"] });
    let boss = a.without().post("/api/v1/keys", boss).await.json();
    let boss = boss["token"].as_str().unwrap();
    assert!(b.with(boss).is_let_in().await, "at once");
    assert!(!b.without().is_let_in().await);
    let made = serde_json::json!({ "name": "shop", "signers": "all" });
    let made = b.with(boss).post("/api/v1/keys", made).await.json();
    let shop = made["token"].as_str().unwrap();
    assert!(a.with(shop).is_let_in().await);
    let path = format!("/api/v1/keys/{}", made["keyId"].as_str().unwrap());
    assert_eq!(a.with(boss).call("DELETE", &path, None).await.status, 204);
    assert!(!a.with(shop).is_let_in().await);
    b.with(shop).until_let_in(false).await;
}

#[tokio::test]
async fn without_its_database_a_node_goes_by_the_keys_it_knows() {
    let mut postgres = Postgres::start(&[]).await;
    let database = crate::common::Database { url: postgres.database().await };
    let node = NodeOptions::postgres("a", &database.url, &[OURS.to_owned()]).start().await;
    let path = "/api/v1/keys";
    let body = serde_json::json!({ "name": "boss", "operations": ["admin"] });
    let boss = node.without().post(path, body).await.json();
    let boss = boss["token"].as_str().unwrap();
    let short = serde_json::json!({ "name": "short", "signers": "all", "expiresInSeconds": 6 });
    let short = node.with(boss).post(path, short).await.json();
    let short = short["token"].as_str().unwrap();
    let let_in = async |token: &str| match node.with(token).get("/api/v1/signers").await.status {
        503 => true,
        401 => false,
        status => panic!("{status}"),
    };
    postgres.stop_immediate().await;
    assert!(let_in(short).await, "known, and still good");
    assert!(let_in(boss).await);
    let unknown = Token::fresh().unwrap();
    let asked = std::time::Instant::now();
    assert!(!let_in(unknown.reveal()).await);
    assert!(asked.elapsed() < Duration::from_secs(20), "it is not waited for");
    testkit::eventually("the key to end by the clock", async || {
        (!let_in(short).await).then_some(())
    })
    .await;
    assert!(let_in(boss).await);
    postgres.start_again().await;
    node.with(boss).until_let_in_after_outage().await;
}

impl crate::support::Caller<'_> {
    async fn until_let_in_after_outage(&self) {
        testkit::eventually("the node to answer again", async || {
            (self.get("/api/v1/signers").await.status == 200).then_some(())
        })
        .await;
    }
}

/// Junk must not become load on the database: however many unknown tokens come, they share reads.
#[tokio::test]
async fn unknown_tokens_do_not_hammer_the_database() {
    let backend = Backend::postgres().await;
    let good = backend.key("good", "read", "all").await;
    let node = node("a", &backend).await;
    let begun = std::time::Instant::now();
    let junk: Vec<Token> = (0..400).map(|_| Token::fresh().unwrap()).collect();
    let before = node.metric_with(&good, "stile_api_key_reads_total{result=\"done\"}").await;
    for chunk in junk.chunks(100) {
        let calls = chunk.iter().map(|token| async {
            assert!(!node.with(token.reveal()).is_let_in().await);
        });
        futures::future::join_all(calls).await;
    }
    let reads =
        node.metric_with(&good, "stile_api_key_reads_total{result=\"done\"}").await - before;
    // One for every tenth of a second at most, and the one of every second.
    let most = begun.elapsed().as_secs_f64() * 11.0 + 3.0;
    assert!(reads >= 1.0 && reads <= most && reads < 200.0, "{reads} reads, {most} at most");
}

impl StileProcess {
    /// A metric of a node that asks for a key.
    async fn metric_with(&self, token: &str, name: &str) -> f64 {
        let page = self.with(token).get("/metrics").await;
        let line = page.text.lines().find(|line| line.starts_with(&format!("{name} ")));
        line.and_then(|line| line.rsplit(' ').next()).map_or(0.0, |value| value.parse().unwrap())
    }
}
