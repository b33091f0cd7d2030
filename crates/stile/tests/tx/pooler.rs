//! PgBouncer in transaction mode between the nodes and PostgreSQL.
//!
//! Fails if anything is left with a connection that belongs to a session: a prepared statement, a
//! setting, a lock.

use testkit::{Anvil, AnvilOptions, PgBouncer, Postgres, eventually};

use crate::common::{Database, NodeOptions};
use crate::support::{Load, SIGNERS};

/// Two nodes share four connections, from an empty database on; one of them is killed.
#[tokio::test]
async fn everything_works_through_pgbouncer() {
    let options = AnvilOptions { block_time_seconds: Some(1), ..Default::default() };
    let server = Postgres::shared().await;
    let (database, anvil, pooler) =
        tokio::join!(Database::new(), Anvil::start(options), PgBouncer::start(server));
    let through = pooler.url(&database.url);
    let options = |name| {
        NodeOptions::postgres(name, &through, &[])
            .endpoint(anvil.url())
            .development_keys(SIGNERS)
            .lease("2s", "500ms")
            .set("cluster.not_holder", "accept")
            .set("store.pooler", "transaction")
            .set_literal("confirmations.required", "1")
    };
    let (a, b) =
        tokio::join!(async { options("a").start().await }, async { options("b").start().await });
    let load = Load::new(&anvil, &[&a, &b]).await;
    let disturbance = async {
        let taken = async |count: usize| {
            eventually("calls to be taken", async || (load.taken() >= count).then_some(())).await;
        };
        taken(50).await;
        a.kill().await;
        let successor = options("a").start().await;
        load.moved(0, &successor);
        let before = load.taken();
        taken(before + 50).await;
        successor
    };
    let _a = load.during(disturbance).await;
    load.check(&anvil, &b).await;
    for wrong in ["does not exist", "already exists", "WARNING"] {
        let said = server.log();
        let said: Vec<&str> =
            said.lines().filter(|line| line.contains("prepared statement")).collect();
        assert!(!said.iter().any(|line| line.contains(wrong)), "{said:#?}");
    }
}
