//! A backup in which a payment has its nonce, and an attempt that was made after it.
//!
//! Fails if the attempt is taken for an outsider's: the payment is then reported as failed, the
//! signer is paused, and with `resendIfReplaced` it is paid once more.

use std::path::PathBuf;

use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::{Anvil, AnvilOptions, eventually};

use crate::common::{NodeOptions, StileProcess};
use crate::support::{copy, id, put_back, text, transfer};

struct Setup {
    anvil: Anvil,
    signer: String,
    directory: TempDir,
}

impl Setup {
    async fn new() -> Self {
        let anvil = Anvil::start(AnvilOptions { no_mining: true, ..Default::default() }).await;
        let signer = anvil.accounts().await.remove(0);
        Self { anvil, signer, directory: tempfile::tempdir().unwrap() }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    async fn start(&self) -> StileProcess {
        NodeOptions::sqlite(&self.file("stile.db"), &[])
            .endpoint(self.anvil.url())
            .development_keys(1)
            .lease("2s", "500ms")
            .set("nonce.state_timeout", "1s")
            .set_literal("confirmations.required", "1")
            .start()
            .await
    }

    /// A payment in flight, and a copy of the database as it is then.
    async fn pay(&self, node: &StileProcess, resend: bool) -> Value {
        let mut body = transfer(&self.signer, 7);
        body["payload"]["resendIfReplaced"] = resend.into();
        let tx = node.send_new(&body).await;
        let tx = node.reaches(id(&tx), "SUBMITTED").await;
        copy(&self.file("stile.db"), &self.file("backup.db"));
        tx
    }

    /// Asks for another attempt, and waits until the chain's pool has it. Answers with its hash.
    async fn replace(&self, node: &StileProcess, tx: &Value, what: &str, kind: &str) -> String {
        let answer = node.post(&format!("/api/v1/tx/{}/{what}", id(tx)), json!({})).await;
        assert!((200..300).contains(&answer.status), "{answer:?}");
        eventually("the attempt to be in the pool", async || {
            let attempts = node.attempts(id(tx)).await;
            let found = attempts.iter().rfind(|attempt| attempt["kind"] == kind)?;
            let hash = text(&found["txHash"]).to_owned();
            self.anvil.raw_transaction(&hash).await.map(|_| hash)
        })
        .await
    }

    async fn done(&self, node: &StileProcess, tx: &Value) -> Value {
        eventually("it to be done", async || {
            self.anvil.mine(1).await;
            let tx = node.tx(id(tx)).await;
            ["CONFIRMED", "FAILED"].contains(&text(&tx["state"])).then_some(tx)
        })
        .await
    }

    /// The backup takes the place of the database.
    async fn put_back(&self, node: StileProcess) -> StileProcess {
        node.terminate().await;
        put_back(&self.file("backup.db"), &self.file("stile.db"));
        self.start().await
    }

    /// The lost attempt is on record again, nothing was sent besides, and nobody is blamed.
    async fn holds(&self, node: &StileProcess, tx: &Value, hash: &str, kind: &str, event: &str) {
        let attempts = node.attempts(id(tx)).await;
        let last = attempts.last().unwrap();
        assert_eq!((&last["kind"], &last["txHash"]), (&json!(kind), &json!(hash)), "{attempts:#?}");
        let entry = node.last_event(id(tx), event).await.expect("an entry");
        assert_eq!(entry["data"]["cause"], "recovered", "{entry:#}");
        self.anvil.mine(3).await;
        assert_eq!(self.anvil.transactions_of(&self.signer).await.len(), 1, "nothing else is sent");
        assert_eq!(node.signer(&self.signer).await["paused"], Value::Null, "nobody is blamed");
        assert_eq!(node.txs(&self.signer).await.len(), 1, "nothing was made anew");
    }
}

async fn sped_up(resend: bool) {
    let setup = Setup::new().await;
    let node = setup.start().await;
    let tx = setup.pay(&node, resend).await;
    let hash = setup.replace(&node, &tx, "speed-up", "BUMP").await;
    assert_eq!(setup.done(&node, &tx).await["txHash"], hash.as_str());
    let node = setup.put_back(node).await;
    let done = setup.done(&node, &tx).await;
    assert_eq!((&done["state"], &done["txHash"]), (&json!("CONFIRMED"), &json!(hash)), "{done:#}");
    setup.holds(&node, &tx, &hash, "BUMP", "BUMPED").await;
}

#[tokio::test]
async fn hole_20_an_attempt_that_was_lost_with_the_database_is_ours() {
    sped_up(false).await;
}

#[tokio::test]
async fn hole_20_what_a_lost_attempt_has_paid_is_not_made_anew() {
    sped_up(true).await;
}

#[tokio::test]
async fn hole_20_a_cancellation_that_was_lost_is_not_made_anew() {
    let setup = Setup::new().await;
    let node = setup.start().await;
    let tx = setup.pay(&node, true).await;
    let hash = setup.replace(&node, &tx, "cancel", "CANCEL").await;
    assert_eq!(setup.done(&node, &tx).await["subState"], "CANCELLED");
    let node = setup.put_back(node).await;
    let done = setup.done(&node, &tx).await;
    assert_eq!(
        (&done["state"], &done["subState"]),
        (&json!("FAILED"), &json!("CANCELLED")),
        "{done:#}"
    );
    setup.holds(&node, &tx, &hash, "CANCEL", "CANCEL_REQUESTED").await;
}
