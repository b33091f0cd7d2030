//! What is told to those who have no key.

use testkit::{Postgres, eventually};

use crate::common::{NodeOptions, signer};

/// An error of the database may name its host, its user and its tables.
#[tokio::test]
async fn health_says_nothing_of_what_the_database_said() {
    let mut server = Postgres::start(&[]).await;
    let url = server.database().await;
    let node = NodeOptions::postgres("a", &url, &[signer(1)])
        .set("store.statement_timeout", "1s")
        .set("store.lock_timeout", "500ms")
        .start()
        .await;
    server.stop_immediate().await;
    let away = eventually("the node not to be ready", async || {
        let answer = node.get("/health/ready").await;
        (answer.status == 503).then_some(answer)
    })
    .await;
    assert_eq!(away.problem(), "store-unavailable");
    assert_eq!(away.json()["detail"], "the store is not available: the log says why");
    let log = node.process.stderr();
    assert!(log.contains("not ready: the database"), "{log}");
}
