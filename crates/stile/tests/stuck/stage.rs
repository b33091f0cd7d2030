//! A chain, a proxy before it, a node, and what is asked of a signer that does not move.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Anvil, AnvilOptions, RpcProxy, eventually, eventually_within};

use crate::common::{NodeOptions, StileProcess};
use crate::support::{Backend, id, text, transfer};

/// Brings signed bytes to a chain node.
pub(crate) const SEND: &str = "eth_sendRawTransaction";

/// How long a lane may take to get going again on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(120);

pub(crate) struct Stage {
    pub(crate) anvil: Anvil,
    pub(crate) proxy: RpcProxy,
    pub(crate) node: StileProcess,
    pub(crate) signer: String,
}

/// A chain that has no block unless it is asked for.
pub(crate) fn by_hand() -> AnvilOptions {
    AnvilOptions { no_mining: true, ..Default::default() }
}

impl Stage {
    /// A node that has looked at its lanes a moment ago, on a chain that mines when it is told to.
    pub(crate) async fn new(
        backend: &Backend,
        configure: impl FnOnce(NodeOptions) -> NodeOptions,
    ) -> Self {
        Self::on(by_hand(), backend, configure).await
    }

    pub(crate) async fn on(
        chain: AnvilOptions,
        backend: &Backend,
        configure: impl FnOnce(NodeOptions) -> NodeOptions,
    ) -> Self {
        let anvil = Anvil::start(chain).await;
        let proxy = RpcProxy::start(anvil.url()).await;
        let options = backend.node(&proxy.url()).development_keys(1);
        let node = configure(options.set("nonce.state_timeout", "1s")).start().await;
        let signer = anvil.accounts().await.remove(0);
        Self { anvil, proxy, node, signer }
    }

    /// Hands over transfers of so many wei each, and waits until the chain node has all of them.
    pub(crate) async fn in_flight(&self, wei: std::ops::RangeInclusive<u64>) -> Vec<Value> {
        let sent = self.hand_over(wei).await;
        for tx in &sent {
            self.node.reaches(id(tx), "SUBMITTED").await;
        }
        sent
    }

    pub(crate) async fn hand_over(&self, wei: std::ops::RangeInclusive<u64>) -> Vec<Value> {
        let bodies: Vec<Value> = wei.map(|wei| transfer(&self.signer, wei)).collect();
        self.node.send_all(&bodies).await
    }

    /// Makes blocks, and waits until the node has seen them.
    pub(crate) async fn mine(&self, blocks: u64) {
        self.anvil.mine(blocks).await;
        self.node.follows_to(self.anvil.height().await).await;
    }

    fn path(&self, rest: &str) -> String {
        format!("/api/v1/signers/{}/{rest}", self.signer)
    }

    /// What is the matter with the signer.
    pub(crate) async fn doctor(&self) -> Value {
        self.node.get(&self.path("doctor")).await.ok()
    }

    /// Waits until the doctor finds this, and returns it. The summary must be the worst of what was
    /// found, if anything is wrong.
    pub(crate) async fn finding(&self, code: &str) -> Value {
        let mut last = Value::Null;
        let found = eventually_within(LONG, code, async || {
            // There is nothing to look at before the lane's first nonce is asked for.
            let answer = self.node.get(&self.path("doctor")).await;
            if answer.status == 409 {
                return None;
            }
            last = answer.ok();
            finding_in(&last, code)
        });
        let found = match tokio::time::timeout(LONG - Duration::from_secs(5), found).await {
            Ok(found) => found,
            Err(_) => panic!("the doctor does not find {code}: {:#}", self.doctor().await),
        };
        let first = &last["findings"][0];
        if first["severity"] != "info" {
            assert_eq!(last["summary"], first["words"], "{last:#}");
        }
        assert_eq!(last["healthy"], first["severity"] != "blocked", "{last:#}");
        found
    }

    /// Nothing keeps the signer from moving.
    pub(crate) async fn is_healthy(&self) {
        let diagnosis = self.doctor().await;
        assert_eq!(diagnosis["healthy"], true, "{diagnosis:#}");
    }

    /// What happened to the signer, oldest first.
    pub(crate) async fn events(&self) -> Vec<Value> {
        let page = self.node.get(&self.path("history?limit=500")).await.ok();
        let mut events = page["items"].as_array().expect("a list").clone();
        events.reverse();
        events
    }

    /// The entries of this kind in the signer's history, oldest first.
    pub(crate) async fn events_of(&self, kind: &str) -> Vec<Value> {
        let mut events = self.events().await;
        events.retain(|event| event["kind"] == kind);
        events
    }

    /// Waits for an entry of this kind in the signer's history.
    pub(crate) async fn event(&self, kind: &str) -> Value {
        eventually_within(LONG, kind, async || self.events_of(kind).await.pop()).await
    }

    /// Waits until the signer is paused, and returns why.
    pub(crate) async fn paused(&self) -> String {
        eventually("the signer to be paused", async || {
            self.node.signer(&self.signer).await["paused"].as_str().map(str::to_owned)
        })
        .await
    }

    /// How the pause would be ended, which must change nothing.
    pub(crate) async fn resume_dry(&self) -> Vec<String> {
        let before = self.node.signer(&self.signer).await;
        let answer = self.node.post(&self.path("resume"), json!({ "dryRun": true })).await.ok();
        let after = self.node.signer(&self.signer).await;
        for part in ["paused", "nextNonce", "fencingToken"] {
            assert_eq!(before[part], after[part], "a dry run changed something: {after:#}");
        }
        assert!(after["paused"].is_string(), "{after:#}");
        plan(&answer)
    }

    /// Ends the pause, and returns how.
    pub(crate) async fn resume(&self) -> Vec<String> {
        let answer = self.node.post(&self.path("resume"), json!({})).await.ok();
        assert_eq!(answer["paused"], Value::Null, "{answer:#}");
        plan(&answer)
    }

    pub(crate) async fn repair(&self, body: Value) -> Value {
        self.node.post(&self.path("repair"), body).await.ok()
    }

    /// A block every second from now on, until so many transactions have been accepted and none
    /// is open; all of them in the order of acceptance.
    pub(crate) async fn all_done(&self, count: usize) -> Vec<Value> {
        self.anvil.set_interval_mining(1).await;
        let done = eventually_within(LONG, "no transaction to be open", async || {
            for state in ["CREATED", "ALLOCATED", "SUBMITTED", "TRACKING"] {
                if self.node.has_any(&self.signer, state).await {
                    return None;
                }
            }
            let txs = self.node.txs(&self.signer).await;
            (txs.len() == count).then_some(txs)
        });
        match tokio::time::timeout(LONG - Duration::from_secs(5), done).await {
            Ok(txs) => txs,
            Err(_) => {
                let txs = self.node.txs(&self.signer).await;
                let open: Vec<&Value> =
                    txs.iter().filter(|tx| tx["state"] != "CONFIRMED").take(3).collect();
                panic!(
                    "{} transactions, not {count} that are done: {open:#?}\n{:#}\n{:#?}",
                    txs.len(),
                    self.doctor().await,
                    self.events().await
                )
            }
        }
    }

    /// [`Stage::all_done`], and every one of them is on the chain.
    pub(crate) async fn all_confirmed(&self, count: usize) -> Vec<Value> {
        let txs = self.all_done(count).await;
        for tx in &txs {
            assert_eq!(
                (&tx["state"], &tx["outcome"]),
                (&json!("CONFIRMED"), &json!("success")),
                "{tx:#}"
            );
        }
        txs
    }

    /// Checks, from every block of the chain, that each nonce of the signer is used once: by the
    /// transaction that the node says, or by one of the others. The transactions must differ in the
    /// wei they carry.
    pub(crate) async fn assert_mined_once(&self, txs: &[Value], others: &[(u64, Other)]) {
        let mined = self.anvil.transactions_of(&self.signer).await;
        let nonces: Vec<u64> = mined.iter().map(|mined| mined.nonce).collect();
        let count = (txs.len() + others.len()) as u64;
        assert_eq!(nonces, (0..count).collect::<Vec<_>>(), "every nonce once: {mined:#?}");
        assert_eq!(self.anvil.nonce(&self.signer, "pending").await, count, "nothing waits");
        let others: BTreeMap<u64, &Other> =
            others.iter().map(|(nonce, other)| (*nonce, other)).collect();
        let told: BTreeMap<u64, &Value> =
            txs.iter().map(|tx| (tx["nonce"].as_u64().expect("a nonce"), tx)).collect();
        let mut values = Vec::new();
        for mined in &mined {
            match (told.get(&mined.nonce), others.get(&mined.nonce)) {
                (Some(tx), None) => {
                    assert_eq!(tx["txHash"], mined.hash.as_str(), "{tx:#}");
                    assert_eq!(tx["payload"]["value"], mined.value.to_string(), "{tx:#}");
                    values.push(mined.value);
                }
                (None, Some(Other::Outsider(hash))) => assert_eq!(hash, &mined.hash),
                (None, Some(Other::Empty)) => assert!(mined.value.is_zero(), "{mined:?}"),
                other => panic!("{mined:?} is {other:?}"),
            }
        }
        values.sort();
        values.dedup();
        assert_eq!(values.len(), txs.len(), "an amount was carried twice");
    }
}

/// Whoever used a nonce that is not one of the transactions.
#[derive(Debug)]
pub(crate) enum Other {
    /// Somebody with the same key, under this hash.
    Outsider(String),
    /// An empty transaction in a gap.
    Empty,
}

fn finding_in(diagnosis: &Value, code: &str) -> Option<Value> {
    let findings = diagnosis["findings"].as_array().expect("a list");
    findings.iter().find(|finding| finding["code"] == code).cloned()
}

fn plan(answer: &Value) -> Vec<String> {
    answer["plan"].as_array().expect("a plan").iter().map(|step| text(step).to_owned()).collect()
}

/// A text says this.
#[track_caller]
pub(crate) fn assert_says(value: &Value, part: &str) {
    assert!(text(value).contains(part), "{value} does not say {part:?}");
}

/// How many transactions of the tenant for empty ones the store has.
pub(crate) async fn fillers(backend: &Backend) -> usize {
    let sql = "SELECT tx_id FROM tx WHERE tenant = 'stile:filler'";
    match backend {
        Backend::Postgres(database) => database.rows(sql).await.len(),
        Backend::Sqlite(directory) => {
            let file = directory.path().join("stile.db");
            let connection = rusqlite::Connection::open(file).unwrap();
            connection.busy_timeout(testkit::DEADLINE).unwrap();
            let mut statement = connection.prepare(sql).unwrap();
            statement.query_map([], |_| Ok(())).unwrap().count()
        }
    }
}
