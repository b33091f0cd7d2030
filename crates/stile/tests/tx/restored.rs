//! A backup that is put back while payments wait in it.
//!
//! Fails if a payment that was made after the backup was taken is made again, if the chain is not
//! believed about it, or if one of which nobody knows is sent without a person's word.

use std::path::Path;

use serde_json::{Value, json};
use testkit::{Anvil, AnvilOptions, Postgres, eventually};

use crate::common::{NodeOptions, StileProcess};
use crate::support::{id, transfer};

/// Payments, of which the lane takes two at a time.
const ALL: u64 = 5;

pub(crate) struct Setup {
    anvil: Anvil,
    signer: String,
}

impl Setup {
    /// A chain that makes blocks when it is told to.
    pub(crate) async fn new() -> Self {
        let anvil = Anvil::start(AnvilOptions { no_mining: true, ..Default::default() }).await;
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

    fn on(&self, url: &str) -> NodeOptions {
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

    /// What was paid, in the order of nonces.
    async fn paid(&self) -> Vec<u64> {
        let mined = self.anvil.transactions_of(&self.signer).await;
        mined.iter().map(|mined| mined.value.to()).collect()
    }

    fn path(&self, rest: &str) -> String {
        format!("/api/v1/signers/{}{rest}", self.signer)
    }

    async fn restored(&self, node: &StileProcess) -> Value {
        node.get(&self.path("/restored")).await.ok()
    }

    async fn settle(&self, node: &StileProcess, verdict: &str) -> Value {
        eventually("the word to be taken", async || {
            let answer = node.post(&self.path("/restored"), json!({ "verdict": verdict })).await;
            // The chain may not have been read yet.
            (answer.status == 200).then(|| answer.json())
        })
        .await
    }

    /// Puts back what was taken while three waited, and sees that nobody is paid again.
    pub(crate) async fn goes_on(&self, node: StileProcess, txs: &[Value]) {
        self.confirmed(&node, txs).await;
        assert_eq!(self.paid().await, (1..=ALL).collect::<Vec<_>>(), "each once, ever");
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
        let settled = self.settle(&node, "never-sent").await;
        assert_ne!(settled["settledAt"], Value::Null, "{settled:#}");
        self.confirmed(&node, std::slice::from_ref(&later)).await;
        assert_eq!(self.paid().await, (1..=ALL + 1).collect::<Vec<_>>());
        let history = node.get(&self.path("/history")).await.ok();
        let kinds: Vec<&Value> =
            history["items"].as_array().unwrap().iter().map(|entry| &entry["kind"]).collect();
        assert!(kinds.contains(&&json!("RESTORE_SETTLED")), "{history:#}");
    }
}

#[tokio::test]
async fn hole_20_a_file_that_is_put_back_pays_nobody_twice() {
    let setup = Setup::new().await;
    let directory = tempfile::tempdir().unwrap();
    let (file, backup) = (directory.path().join("stile.db"), directory.path().join("backup.db"));
    let node = setup.file(&file).start().await;
    let txs = setup.pay(&node).await;
    copy(&file, &backup);
    setup.confirmed(&node, &txs).await;
    node.terminate().await;
    put_back(&backup, &file);
    let node = setup.file(&file).start().await;
    setup.goes_on(node, &txs).await;
}

#[tokio::test]
async fn hole_20_a_dump_that_is_loaded_pays_nobody_twice() {
    let setup = Setup::new().await;
    let server = Postgres::shared().await;
    let url = server.database().await;
    let node = setup.on(&url).start().await;
    let txs = setup.pay(&node).await;
    let backup = server.dump(&url).await;
    setup.confirmed(&node, &txs).await;
    node.terminate().await;
    // Whatever is said about failovers: this is none.
    let url = server.restore(&backup).await;
    let node = setup.on(&url).set("store.failover", "synchronous").start().await;
    setup.goes_on(node, &txs).await;
}

#[tokio::test]
async fn hole_20_recovery_to_a_point_in_time_pays_nobody_twice() {
    let setup = Setup::new().await;
    let server = Postgres::start_archiving().await;
    let url = server.database().await;
    let name = url.rsplit('/').next().unwrap().to_owned();
    let mut recovered = server.base_backup().await;
    let node = setup.on(&url).start().await;
    let txs = setup.pay(&node).await;
    server.name_this_moment("three_wait").await;
    setup.confirmed(&node, &txs).await;
    node.terminate().await;
    recovered.recover_to(&server, "three_wait").await;
    let options = setup.on(&recovered.url(&name)).set("store.failover", "synchronous");
    setup.goes_on(options.start().await, &txs).await;
}

/// Bound in the lost history, and in no block: nobody but the lost history knows of it. Answers with
/// the restored node, the payments, and the signed bytes of those that are in no block.
async fn lose_what_is_in_no_block(
    setup: &Setup,
    directory: &Path,
) -> (StileProcess, Vec<Value>, Vec<String>) {
    let (file, backup) = (directory.join("stile.db"), directory.join("backup.db"));
    let node = setup.file(&file).start().await;
    let txs = setup.pay(&node).await;
    copy(&file, &backup);
    // The last one gets its nonce, and is not mined.
    eventually("the last one to get its nonce", async || {
        // Two are in flight at a time: a block is made once both of them are sent.
        let highest = setup.paid().await.len() + 1;
        if highest < 4 && node.tx(id(&txs[highest])).await["state"] == "SUBMITTED" {
            setup.anvil.mine(1).await;
        }
        (node.tx(id(&txs[4])).await["state"] == "SUBMITTED").then_some(())
    })
    .await;
    let mined = setup.paid().await.len();
    assert!((2..5).contains(&mined), "the last one is in a block");
    let mut raws = Vec::new();
    for tx in &txs[mined..] {
        raws.push(node.attempts(id(tx)).await[0]["raw"].as_str().unwrap().to_owned());
    }
    node.terminate().await;
    setup.anvil.drop_all_transactions().await;
    put_back(&backup, &file);
    let node = setup.file(&file).start().await;
    setup.confirmed(&node, &txs[..mined]).await;
    for tx in &txs[mined..] {
        let waits = node.becomes(id(tx), "waits", |tx| tx["subState"] == "RESTORED").await;
        assert_eq!(
            (&waits["state"], &waits["nonce"]),
            (&json!("CREATED"), &Value::Null),
            "{waits:#}"
        );
    }
    let waiting = (5 - mined) as f64;
    eventually("the metric", async || {
        (node.metric("stile_lane_restored_waiting").await == waiting).then_some(())
    })
    .await;
    setup.anvil.mine(3).await;
    assert_eq!(setup.paid().await.len(), mined, "nothing is sent by itself");
    (node, txs, raws)
}

#[tokio::test]
async fn hole_20_what_may_be_on_its_way_still_is_not_sent_by_itself() {
    let setup = Setup::new().await;
    let directory = tempfile::tempdir().unwrap();
    let (node, txs, _) = lose_what_is_in_no_block(&setup, directory.path()).await;
    // A person knows that it never will be mined.
    for tx in &txs {
        let tx = &node.tx(id(tx)).await;
        let path = format!("/api/v1/tx/{}/restored", id(tx));
        let answer = node.post(&path, json!({ "verdict": "never-sent" })).await;
        let waited = tx["subState"] == "RESTORED";
        assert_eq!(answer.status, if waited { 200 } else { 409 }, "{answer:?}");
    }
    setup.confirmed(&node, &txs).await;
    assert_eq!(setup.paid().await, [1, 2, 3, 4, 5]);
}

#[tokio::test]
async fn hole_20_what_turns_up_after_the_restore_is_the_payment_itself() {
    let setup = Setup::new().await;
    let directory = tempfile::tempdir().unwrap();
    let (node, txs, raws) = lose_what_is_in_no_block(&setup, directory.path()).await;
    let mut hash = String::new();
    for raw in &raws {
        hash = setup.anvil.send_raw(raw).await;
    }
    setup.confirmed(&node, &txs).await;
    assert_eq!(node.tx(id(&txs[4])).await["txHash"], hash);
    assert_eq!(node.signer(&setup.signer).await["paused"], Value::Null, "nobody is blamed");
    assert_eq!(setup.paid().await, [1, 2, 3, 4, 5]);
}

/// What was cleared gets the nonce of what is still in somebody's pool, and that is mined in its place.
#[tokio::test]
async fn hole_20_what_is_mined_at_a_nonce_given_out_since_is_not_sent_again() {
    let setup = Setup::new().await;
    let directory = tempfile::tempdir().unwrap();
    let (node, txs, raws) = lose_what_is_in_no_block(&setup, directory.path()).await;
    let lost = &txs[txs.len() - raws.len()];
    let cancelled = node.post(&format!("/api/v1/tx/{}/cancel", id(lost)), json!({})).await;
    assert_eq!(
        (cancelled.status, &cancelled.json()["code"]),
        (409, &json!("awaits-word")),
        "{cancelled:?}"
    );
    let cleared = node.send_new(&transfer(&setup.signer, 9)).await;
    node.becomes(id(&cleared), "waits", |tx| tx["subState"] == "RESTORED").await;
    let say = async |tx: &Value, verdict: &str| {
        let path = format!("/api/v1/tx/{}/restored", id(tx));
        node.post(&path, json!({ "verdict": verdict })).await.ok()
    };
    say(&cleared, "never-sent").await;
    node.reaches(id(&cleared), "SUBMITTED").await;
    setup.anvil.drop_all_transactions().await;
    let hash = setup.anvil.send_raw(&raws[0]).await;
    setup.anvil.mine(1).await;
    eventually("the cleared one to have lost its nonce", async || {
        setup.anvil.mine(1).await;
        (node.tx(id(&cleared)).await["subState"] == "REPLACED_EXTERNALLY").then_some(())
    })
    .await;
    assert_eq!(node.signer(&setup.signer).await["paused"], Value::Null, "nobody is blamed");
    let known = setup.restored(&node).await;
    let found = known["found"].as_array().unwrap().iter().find(|found| found["txHash"] == hash);
    assert_eq!(found.expect("what was mined")["txId"], Value::Null, "{known:#}");

    // A word about the signer is none about what the chain has.
    setup.settle(&node, "never-sent").await;
    let rest: Vec<Value> = txs[txs.len() - raws.len() + 1..].to_vec();
    setup.confirmed(&node, &rest).await;
    let waits = node.tx(id(lost)).await;
    assert_eq!((&waits["state"], &waits["subState"]), (&json!("CREATED"), &json!("RESTORED")));
    let closed = say(lost, "was-sent").await;
    assert_eq!(closed["state"], "FAILED", "{closed:#}");
    assert!(closed["error"].as_str().unwrap().contains(&hash), "{closed:#}");
    setup.anvil.mine(3).await;
    assert_eq!(setup.paid().await, [1, 2, 3, 4, 5], "each once, ever");
}

/// A paused lane does not step over what is mined: a person's word waits until it is read.
#[tokio::test]
async fn hole_20_a_word_is_not_taken_while_the_chain_has_more_than_was_read() {
    let setup = Setup::new().await;
    let directory = tempfile::tempdir().unwrap();
    let (node, txs, raws) = lose_what_is_in_no_block(&setup, directory.path()).await;
    node.post(&setup.path("/pause"), json!({ "reason": "a look around" })).await.ok();
    for raw in &raws {
        setup.anvil.send_raw(raw).await;
    }
    setup.anvil.mine(1).await;
    assert_eq!(setup.paid().await, [1, 2, 3, 4, 5]);
    let last = &txs[4];
    for path in [setup.path("/restored"), format!("/api/v1/tx/{}/restored", id(last))] {
        let answer = node.post(&path, json!({ "verdict": "never-sent" })).await;
        assert_eq!(
            (answer.status, &answer.json()["code"]),
            (409, &json!("restore-unread")),
            "{answer:?}"
        );
    }
    assert!(setup.restored(&node).await["unread"].as_array().unwrap().contains(&json!(4)));
    node.post(&setup.path("/resume"), json!({})).await.ok();
    setup.confirmed(&node, &txs).await;
    assert_eq!(setup.paid().await, [1, 2, 3, 4, 5]);
}

/// More nonces than are read in one go have no transaction at all: those above them are read.
#[tokio::test]
async fn hole_20_nonces_that_cannot_be_read_stand_in_nobodys_way() {
    let setup = Setup::new().await;
    let directory = tempfile::tempdir().unwrap();
    let (file, backup) = (directory.path().join("stile.db"), directory.path().join("backup.db"));
    let node = setup.file(&file).start().await;
    let first = node.send_new(&transfer(&setup.signer, 1)).await;
    setup.confirmed(&node, std::slice::from_ref(&first)).await;
    copy(&file, &backup);
    node.terminate().await;
    let body = transfer(&setup.signer, 2);
    let nonce = json!(format!("{:#x}", 301));
    setup.anvil.rpc("anvil_setNonce", json!([setup.signer, nonce])).await;
    let payment = json!([{ "from": setup.signer, "to": body["payload"]["to"], "value": "0x2", "nonce": nonce }]);
    let hash = setup.anvil.rpc("eth_sendTransaction", payment).await;
    setup.anvil.mine(1).await;
    put_back(&backup, &file);
    let node = setup.file(&file).start().await;
    let again = node.send_new(&body).await;
    setup.confirmed(&node, std::slice::from_ref(&again)).await;
    assert_eq!(node.tx(id(&again)).await["txHash"], hash, "it is the same payment");
    assert_eq!(setup.paid().await, [1, 2]);
}

/// A request that only the lost history knew, handed over again by its caller: it is the same
/// payment. And what a person closes is closed.
#[tokio::test]
async fn hole_20_a_repeated_request_is_the_payment_that_was_made() {
    let setup = Setup::new().await;
    let directory = tempfile::tempdir().unwrap();
    let (file, backup) = (directory.path().join("stile.db"), directory.path().join("backup.db"));
    let node = setup.file(&file).start().await;
    let first = node.send_new(&transfer(&setup.signer, 1)).await;
    setup.confirmed(&node, std::slice::from_ref(&first)).await;
    copy(&file, &backup);
    let lost = node.send_new(&transfer(&setup.signer, 2)).await;
    setup.confirmed(&node, std::slice::from_ref(&lost)).await;
    let lost = node.tx(id(&lost)).await;
    node.terminate().await;
    put_back(&backup, &file);
    let node = setup.file(&file).start().await;
    let again = node.send_new(&transfer(&setup.signer, 2)).await;
    assert_ne!(id(&again), id(&lost), "the database has forgotten it");
    setup.confirmed(&node, std::slice::from_ref(&again)).await;
    assert_eq!(node.tx(id(&again)).await["txHash"], lost["txHash"], "it is the same payment");
    assert_eq!(setup.paid().await, [1, 2]);

    let other = node.send_new(&transfer(&setup.signer, 3)).await;
    node.becomes(id(&other), "waits", |tx| tx["subState"] == "RESTORED").await;
    let path = format!("/api/v1/tx/{}/restored", id(&other));
    let closed = node.post(&path, json!({ "verdict": "was-sent" })).await.ok();
    assert_eq!((&closed["state"], &closed["subState"]), (&json!("FAILED"), &json!("RESTORED")));
    assert!(closed["error"].as_str().unwrap().contains("operator"), "{closed:#}");
    let known = setup.restored(&node).await;
    assert_eq!(known["waiting"], json!([]), "{known:#}");
    assert_eq!(node.post(&path, json!({ "verdict": "never-sent" })).await.status, 409);
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
