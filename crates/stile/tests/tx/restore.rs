//! The database is lost, or an older one is put in its place.
//!
//! Fails if a nonce that the chain has used is given out again, or if it happens without a word.

use serde_json::{Value, json};
use testkit::Postgres;

use crate::common::StileProcess;
use crate::support::{Restore, assert_mined_once, copy, id, put_back, transfer};

/// Transactions sent at one time.
const SOME: u64 = 5;

impl Restore {
    /// Sends some transactions and waits until they are mined.
    async fn work(&self, node: &StileProcess, first: u64) -> Vec<Value> {
        let bodies: Vec<Value> =
            (first..first + SOME).map(|wei| transfer(&self.signer, wei)).collect();
        let mut done = Vec::new();
        for tx in node.send_all(&bodies).await {
            done.push(node.reaches(id(&tx), "CONFIRMED").await);
        }
        done
    }

    /// Without anybody's call the lane is held against its chain, and its history tells.
    async fn is_realigned(&self, node: &StileProcess) {
        let entry = self.realigned(node).await;
        assert_eq!(entry["data"]["from"], json!(SOME), "{entry:#}");
        assert_eq!(entry["data"]["cursor"], json!(2 * SOME), "{entry:#}");
        let log = node.process.stderr();
        let words = ["the database was restored", "the chain is ahead of the database"];
        assert!(words.iter().any(|words| log.contains(words)), "{log}");
        let lane = node.signer(&self.signer).await;
        assert_eq!((&lane["paused"], &lane["nextNonce"]), (&Value::Null, &json!(2 * SOME)));
        // What was lost is read from the chain; then a person says that nothing else was sent.
        let settled = self.settle(node, "never-sent").await;
        assert_eq!(settled["found"].as_array().map(Vec::len), Some(SOME as usize), "{settled:#}");
    }
}

#[tokio::test]
async fn an_emptied_database_begins_where_the_chain_is() {
    let setup = Restore::with_blocks().await;
    let server = Postgres::shared().await;
    let node = setup.on(&server.database().await).start().await;
    let mut all = setup.work(&node, 1).await;
    node.terminate().await;
    let node = setup.on(&server.database().await).start().await;
    all.extend(setup.work(&node, 101).await);
    assert_mined_once(&setup.anvil, &setup.signer, &all).await;
    let history = setup.history(&node).await;
    assert_eq!(
        (&history[0]["kind"], &history[0]["data"]["cursor"]),
        (&json!("STARTED"), &json!(SOME))
    );
}

#[tokio::test]
async fn a_database_restored_from_a_dump_goes_on_where_the_chain_is() {
    let setup = Restore::with_blocks().await;
    let server = Postgres::shared().await;
    let url = server.database().await;
    let node = setup.on(&url).start().await;
    let mut all = setup.work(&node, 1).await;
    let backup = server.dump(&url).await;
    let lost = setup.work(&node, 101).await;
    node.terminate().await;
    let node = setup.on(&server.restore(&backup).await).start().await;
    assert_eq!(node.get(&format!("/api/v1/tx/{}", id(&lost[0]))).await.status, 404);
    setup.is_realigned(&node).await;
    all.extend(lost);
    all.extend(setup.work(&node, 201).await);
    assert_mined_once(&setup.anvil, &setup.signer, &all).await;
}

#[tokio::test]
async fn an_older_file_goes_on_where_the_chain_is() {
    let setup = Restore::with_blocks().await;
    let directory = tempfile::tempdir().unwrap();
    let (file, backup) = (directory.path().join("stile.db"), directory.path().join("backup.db"));
    let node = setup.file(&file).start().await;
    let mut all = setup.work(&node, 1).await;
    copy(&file, &backup);
    let lost = setup.work(&node, 101).await;
    node.terminate().await;
    put_back(&backup, &file);
    let node = setup.file(&file).start().await;
    setup.is_realigned(&node).await;
    all.extend(lost);
    all.extend(setup.work(&node, 201).await);
    assert_mined_once(&setup.anvil, &setup.signer, &all).await;
    // Once: the next start finds what it left.
    node.terminate().await;
    let node = setup.file(&file).start().await;
    assert!(!node.process.stderr().contains("the database was restored"));
}

/// A copy that was made since the last start, put back after a crash with the stamp beside it, cannot
/// be told from the file that was there. The chain shows it all the same.
#[tokio::test]
async fn an_older_file_that_cannot_be_told_from_the_last_is_known_by_the_chain() {
    let setup = Restore::with_blocks().await;
    let directory = tempfile::tempdir().unwrap();
    let (file, backup) = (directory.path().join("stile.db"), directory.path().join("backup.db"));
    let (origin, kept) = (directory.path().join("stile.db.origin"), directory.path().join("kept"));
    let node = setup.file(&file).start().await;
    let mut all = setup.work(&node, 1).await;
    copy(&file, &backup);
    std::fs::copy(&origin, &kept).unwrap();
    all.extend(setup.work(&node, 101).await);
    node.kill().await;
    put_back(&backup, &file);
    std::fs::copy(&kept, &origin).unwrap();
    let node = setup.file(&file).start().await;
    setup.is_realigned(&node).await;
    assert!(node.signer(&setup.signer).await["paused"].is_null(), "nobody is blamed");
    all.extend(setup.work(&node, 201).await);
    assert_mined_once(&setup.anvil, &setup.signer, &all).await;
}
