//! PostgreSQL fails over to a standby that had not heard of the last commits, and one node lives on.
//!
//! Fails if what was bound in the history that is lost is sent a second time, if anything waits for a
//! person although that node remembers all that was lost, or if it does not although nobody remembers.

use std::net::SocketAddr;

use serde_json::{Value, json};
use testkit::{Anvil, AnvilOptions, Postgres, TcpProxy, eventually};

use crate::common::{NodeOptions, StileProcess};
use crate::support::{id, transfer};

/// Payments, of which the lane takes two at a time.
const ALL: u64 = 8;

fn local(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

struct Setup {
    anvil: Anvil,
    primary: Postgres,
    database: TcpProxy,
    url: String,
    signer: String,
}

impl Setup {
    /// A chain that makes blocks when it is told to, and a PostgreSQL behind a proxy.
    async fn new() -> Self {
        let options = AnvilOptions { no_mining: true, ..Default::default() };
        let (anvil, primary) = tokio::join!(Anvil::start(options), Postgres::start(&[]));
        let database = TcpProxy::start(local(primary.port())).await;
        let name = primary.database().await.rsplit('/').next().unwrap().to_owned();
        let url = format!("postgres://postgres@{}/{name}", database.addr());
        let signer = anvil.accounts().await.remove(0);
        Self { anvil, primary, database, url, signer }
    }

    /// A lease that no failover outlasts.
    async fn start(&self) -> StileProcess {
        NodeOptions::postgres("n", &self.url, &[])
            .endpoint(self.anvil.url())
            .development_keys(1)
            .lease("10m", "500ms")
            .set("nonce.state_timeout", "1s")
            .set_literal("confirmations.required", "1")
            .set_literal("lane.max_in_flight", "2")
            .start()
            .await
    }

    async fn confirmed(&self, node: &StileProcess, txs: &[Value]) {
        for tx in txs {
            eventually("the payment to be confirmed", async || {
                self.anvil.mine(1).await;
                (node.tx(id(tx)).await["state"] == "CONFIRMED").then_some(())
            })
            .await;
        }
    }

    async fn paid(&self) -> Vec<u64> {
        let mined = self.anvil.transactions_of(&self.signer).await;
        mined.iter().map(|mined| mined.value.to()).collect()
    }

    /// The server that nodes reach is gone, and a standby that was stopped takes its place.
    async fn fail_over(&mut self, standby: &mut Postgres) {
        self.primary.stop_immediate().await;
        // Not before: it would catch up.
        standby.start_again().await;
        standby.promote().await;
        self.database.point_to(local(standby.port()));
    }

    /// Eight payments; the standby hears of two that are bound. Answers with the payments as they were
    /// when the primary failed: at least two more are bound then, some of them in no block.
    async fn lose_bindings(&self, node: &StileProcess) -> (Vec<Value>, Postgres) {
        let bodies: Vec<Value> = (1..=ALL).map(|wei| transfer(&self.signer, wei)).collect();
        let sent = node.send_all(&bodies).await;
        for tx in &sent[..2] {
            node.reaches(id(tx), "SUBMITTED").await;
        }
        let mut standby = self.primary.start_standby().await;
        standby.stop_immediate().await;
        eventually("two more to get their nonces", async || {
            let fourth = node.tx(id(&sent[3])).await;
            if fourth["state"] == "CREATED" {
                self.anvil.mine(1).await;
            }
            (fourth["state"] == "SUBMITTED").then_some(())
        })
        .await;
        let mut txs = Vec::new();
        for tx in &sent {
            txs.push(node.tx(id(tx)).await);
        }
        (txs, standby)
    }

    async fn realigned(&self, node: &StileProcess) -> Value {
        let path = format!("/api/v1/signers/{}/history", self.signer);
        eventually("the lane to be realigned", async || {
            let history = node.try_get(&path).await.ok()?;
            let entries = history.json()["items"].as_array()?.clone();
            entries.into_iter().find(|entry| entry["kind"] == "REALIGNED")
        })
        .await
    }
}

#[tokio::test]
async fn hole_20_nothing_waits_where_a_node_remembers_all_that_was_lost() {
    let mut setup = Setup::new().await;
    let node = setup.start().await;
    let (before, mut standby) = setup.lose_bindings(&node).await;
    // What is in no block is nowhere but in this node's memory.
    setup.anvil.drop_all_transactions().await;
    setup.fail_over(&mut standby).await;
    let entry = setup.realigned(&node).await;
    let bound = before.iter().filter(|tx| !tx["nonce"].is_null()).count();
    assert!((4..before.len()).contains(&bound), "{before:#?}");
    assert_eq!(entry["data"]["restored"], false, "{entry:#}");
    assert_eq!(entry["data"]["boundAgain"], bound - 2, "{entry:#}");
    setup.confirmed(&node, &before).await;
    assert_eq!(setup.paid().await, (1..=ALL).collect::<Vec<_>>(), "each once, in order");
    for (nonce, was) in before.iter().enumerate() {
        let tx = node.tx(id(was)).await;
        assert_eq!(tx["nonce"], nonce, "{tx:#}");
        assert!(was["txHash"].is_null() || tx["txHash"] == was["txHash"], "{was:#} {tx:#}");
        let again = node.last_event(id(was), "RECOVERED").await.is_some();
        assert_eq!(again, (2..bound).contains(&nonce), "{tx:#}");
        assert!(node.last_event(id(was), "RESTORED").await.is_none(), "it waited: {tx:#}");
    }
    // And the lane goes on.
    let later = node.send_new(&transfer(&setup.signer, ALL + 1)).await;
    setup.confirmed(&node, std::slice::from_ref(&later)).await;
    assert_eq!(setup.paid().await, (1..=ALL + 1).collect::<Vec<_>>());
}

#[tokio::test]
async fn hole_20_a_node_that_was_started_again_remembers_nothing_and_asks() {
    let mut setup = Setup::new().await;
    let node = setup.start().await;
    let (before, mut standby) = setup.lose_bindings(&node).await;
    setup.anvil.drop_all_transactions().await;
    node.kill().await;
    setup.fail_over(&mut standby).await;
    let node = setup.start().await;
    let entry = setup.realigned(&node).await;
    assert_eq!(
        (&entry["data"]["restored"], &entry["data"]["boundAgain"]),
        (&json!(true), &json!(0)),
        "{entry:#}"
    );
    let last = before.last().unwrap();
    let waits = node.becomes(id(last), "waits", |tx| tx["subState"] == "RESTORED").await;
    assert_eq!(waits["nonce"], Value::Null, "{waits:#}");
}
