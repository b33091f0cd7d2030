//! A database that is replaced by an older one, and what becomes of the payments in it.

use std::path::Path;

use serde_json::{Value, json};
use testkit::{Anvil, AnvilOptions, eventually};

use super::{id, transfer};
use crate::common::{NodeOptions, StileProcess};

/// Payments, of which the lane takes two at a time.
const ALL: u64 = 5;

/// A chain, and one signer on it.
pub(crate) struct Restore {
    pub(crate) anvil: Anvil,
    pub(crate) signer: String,
}

impl Restore {
    /// A chain that makes blocks when it is told to.
    pub(crate) async fn new() -> Self {
        Self::on_chain(AnvilOptions { no_mining: true, ..Default::default() }).await
    }

    /// A chain that makes a block each second.
    pub(crate) async fn with_blocks() -> Self {
        Self::on_chain(AnvilOptions { block_time_seconds: Some(1), ..Default::default() }).await
    }

    async fn on_chain(options: AnvilOptions) -> Self {
        let anvil = Anvil::start(options).await;
        let signer = anvil.accounts().await.remove(0);
        Self { anvil, signer }
    }

    fn node(&self, options: NodeOptions) -> NodeOptions {
        options
            .endpoint(self.anvil.url())
            .development_keys(1)
            .lease("2s", "500ms")
            .set("nonce.state_timeout", "1s")
            .set_literal("confirmations.required", "1")
            .set_literal("lane.max_in_flight", "2")
    }

    pub(crate) fn on(&self, url: &str) -> NodeOptions {
        self.node(NodeOptions::postgres("n", url, &[]))
    }

    pub(crate) fn file(&self, file: &Path) -> NodeOptions {
        self.node(NodeOptions::sqlite(file, &[]))
    }

    /// Five payments, of which two are in flight and three wait.
    pub(crate) async fn pay(&self, node: &StileProcess) -> Vec<Value> {
        let bodies: Vec<Value> = (1..=ALL).map(|wei| transfer(&self.signer, wei)).collect();
        let txs = node.send_all(&bodies).await;
        for tx in &txs[..2] {
            node.reaches(id(tx), "SUBMITTED").await;
        }
        for tx in &txs[2..] {
            assert_eq!(node.tx(id(tx)).await["state"], "CREATED", "it waits: {tx:#}");
        }
        txs
    }

    /// Mines until these are done.
    pub(crate) async fn confirmed(&self, node: &StileProcess, txs: &[Value]) {
        for tx in txs {
            eventually("the payment to be confirmed", async || {
                self.anvil.mine(1).await;
                (node.tx(id(tx)).await["state"] == "CONFIRMED").then_some(())
            })
            .await;
        }
    }

    /// Every payment ends well, and none was made twice.
    pub(crate) async fn pays_once(&self, node: &StileProcess, txs: &[Value]) {
        self.confirmed(node, txs).await;
        assert_eq!(self.paid().await, (1..=ALL).collect::<Vec<_>>(), "each once, ever");
    }

    /// One more payment, which nobody has to say anything about.
    pub(crate) async fn pays_more(&self, node: &StileProcess, wei: u64) {
        let more = node.send_new(&transfer(&self.signer, wei)).await;
        self.confirmed(node, std::slice::from_ref(&more)).await;
        assert_eq!(self.paid().await, (1..=wei).collect::<Vec<_>>(), "each once, ever");
    }

    /// What was paid, in the order of nonces.
    pub(crate) async fn paid(&self) -> Vec<u64> {
        let mined = self.anvil.transactions_of(&self.signer).await;
        mined.iter().map(|mined| mined.value.to()).collect()
    }

    pub(crate) fn path(&self, rest: &str) -> String {
        format!("/api/v1/signers/{}{rest}", self.signer)
    }

    pub(crate) async fn history(&self, node: &StileProcess) -> Vec<Value> {
        let history = node.get(&self.path("/history")).await.ok();
        history["items"].as_array().expect("a list").clone()
    }

    /// The entry of the lane's history that says how it came into another history of the database.
    pub(crate) async fn realigned(&self, node: &StileProcess) -> Value {
        eventually("the lane to be realigned", async || {
            let history = self.history(node).await;
            history.into_iter().find(|entry| entry["kind"] == "REALIGNED")
        })
        .await
    }

    pub(crate) async fn restored(&self, node: &StileProcess) -> Value {
        node.get(&self.path("/restored")).await.ok()
    }

    pub(crate) async fn settle(&self, node: &StileProcess, verdict: &str) -> Value {
        eventually("the word to be taken", async || {
            let answer = node.post(&self.path("/restored"), json!({ "verdict": verdict })).await;
            // The chain may not have been read yet.
            (answer.status == 200).then(|| answer.json())
        })
        .await
    }

    /// What was taken while three waited has been put back: sees that nobody is paid again.
    pub(crate) async fn goes_on(&self, node: &StileProcess, txs: &[Value]) {
        self.pays_once(node, txs).await;
        for (tx, nonce) in txs.iter().zip(0_u64..) {
            let tx = node.tx(id(tx)).await;
            assert_eq!(tx["nonce"], nonce, "{tx:#}");
            let recovered = node.last_event(id(&tx), "RECOVERED").await;
            assert_eq!(recovered.is_some(), nonce >= 2, "{tx:#}");
            if let Some(entry) = recovered {
                assert_eq!(entry["data"]["txHash"], tx["txHash"], "{entry:#}");
            }
        }
        // What is handed over now waits for a word, and goes on with it.
        let later = node.send_new(&transfer(&self.signer, 6)).await;
        node.becomes(id(&later), "waits", |tx| tx["subState"] == "RESTORED").await;
        let doctor = node.get(&self.path("/doctor")).await.ok();
        let findings = doctor["findings"].as_array().expect("a list");
        let finding = findings.iter().find(|finding| finding["code"] == "restored");
        let words = finding.expect("a finding")["words"].as_str().unwrap();
        assert!(words.contains(id(&later)), "{doctor:#}");
        let settled = self.settle(node, "never-sent").await;
        assert_ne!(settled["settledAt"], Value::Null, "{settled:#}");
        self.confirmed(node, std::slice::from_ref(&later)).await;
        assert_eq!(self.paid().await, (1..=ALL + 1).collect::<Vec<_>>());
        let history = self.history(node).await;
        let settled = history.iter().any(|entry| entry["kind"] == "RESTORE_SETTLED");
        assert!(settled, "{history:#?}");
    }
}

/// A whole copy of a database that is being written.
pub(crate) fn copy(from: &Path, to: &Path) {
    let connection = rusqlite::Connection::open(from).unwrap();
    connection.execute("VACUUM INTO ?1", [to.to_str().unwrap()]).unwrap();
}

/// A copy takes the place of the file, and what belonged to the file goes with it.
pub(crate) fn put_back(copy: &Path, file: &Path) {
    for end in ["-wal", "-shm"] {
        let mut beside = file.as_os_str().to_owned();
        beside.push(end);
        let _ = std::fs::remove_file(beside);
    }
    std::fs::copy(copy, file).unwrap();
}
