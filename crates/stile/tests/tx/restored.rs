//! A backup that is put back while payments wait in it.
//!
//! Fails if a payment that was made after the backup was taken is made again, if the chain is not
//! believed about it, or if one of which nobody knows is sent without a person's word.

use std::path::Path;

use serde_json::{Value, json};
use testkit::{Postgres, eventually};

use crate::common::StileProcess;
use crate::support::{Restore, copy, id, put_back, transfer};

#[tokio::test]
async fn hole_20_a_file_that_is_put_back_pays_nobody_twice() {
    let setup = Restore::new().await;
    let directory = tempfile::tempdir().unwrap();
    let (file, backup) = (directory.path().join("stile.db"), directory.path().join("backup.db"));
    let node = setup.file(&file).start().await;
    let txs = setup.pay(&node).await;
    copy(&file, &backup);
    setup.confirmed(&node, &txs).await;
    node.terminate().await;
    put_back(&backup, &file);
    let node = setup.file(&file).start().await;
    setup.goes_on(&node, &txs).await;
}

#[tokio::test]
async fn hole_20_a_dump_that_is_loaded_pays_nobody_twice() {
    let setup = Restore::new().await;
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
    setup.goes_on(&node, &txs).await;
}

#[tokio::test]
async fn hole_20_recovery_to_a_point_in_time_pays_nobody_twice() {
    let setup = Restore::new().await;
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
    setup.goes_on(&options.start().await, &txs).await;
}

/// Bound in the lost history, and in no block: nobody but the lost history knows of it. Answers with
/// the restored node, the payments, and the signed bytes of those that are in no block.
async fn lose_what_is_in_no_block(
    setup: &Restore,
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
    let setup = Restore::new().await;
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
    let setup = Restore::new().await;
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
    let setup = Restore::new().await;
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
    let setup = Restore::new().await;
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
    let setup = Restore::new().await;
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

/// A payment of one wei is in the backup, and one of two wei was made since: a node on the backup, and
/// the payment that the backup does not know.
async fn lose_a_payment(setup: &Restore, directory: &Path) -> (StileProcess, Value) {
    let (file, backup) = (directory.join("stile.db"), directory.join("backup.db"));
    let node = setup.file(&file).start().await;
    let first = node.send_new(&transfer(&setup.signer, 1)).await;
    setup.confirmed(&node, std::slice::from_ref(&first)).await;
    copy(&file, &backup);
    let lost = node.send_new(&transfer(&setup.signer, 2)).await;
    setup.confirmed(&node, std::slice::from_ref(&lost)).await;
    let lost = node.tx(id(&lost)).await;
    node.terminate().await;
    put_back(&backup, &file);
    (setup.file(&file).start().await, lost)
}

/// A request that only the lost history knew, handed over again by its caller: it is the same
/// payment. And what a person closes is closed.
#[tokio::test]
async fn hole_20_a_repeated_request_is_the_payment_that_was_made() {
    let setup = Restore::new().await;
    let directory = tempfile::tempdir().unwrap();
    let (node, lost) = lose_a_payment(&setup, directory.path()).await;
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

/// What the chain has was taken for one of two that do the same. Which of them it was sent for is a guess.
#[tokio::test]
async fn hole_20_a_word_about_the_signer_is_none_about_what_the_chain_may_have() {
    let setup = Restore::new().await;
    let directory = tempfile::tempdir().unwrap();
    let (node, _) = lose_a_payment(&setup, directory.path()).await;
    let mut other = transfer(&setup.signer, 2);
    other["requestId"] = json!("another payment");
    let taken = node.send_new(&other).await;
    setup.confirmed(&node, std::slice::from_ref(&taken)).await;
    let repeated = node.send_new(&transfer(&setup.signer, 2)).await;
    let harmless = node.send_new(&transfer(&setup.signer, 3)).await;
    for tx in [&repeated, &harmless] {
        node.becomes(id(tx), "waits", |tx| tx["subState"] == "RESTORED").await;
    }
    let word = json!({ "verdict": "never-sent" });
    let refused = node.post(&setup.path("/restored"), word.clone()).await;
    assert_eq!(refused.status, 409, "{refused:?}");
    let detail = refused.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains(id(&repeated)) && !detail.contains(id(&harmless)), "{detail}");
    // A word of its own, and then the one about the rest.
    let path = format!("/api/v1/tx/{}/restored", id(&repeated));
    node.post(&path, json!({ "verdict": "was-sent" })).await.ok();
    node.post(&setup.path("/restored"), word).await.ok();
    setup.confirmed(&node, std::slice::from_ref(&harmless)).await;
    assert_eq!(setup.paid().await, [1, 2, 3], "each once, ever");
}
