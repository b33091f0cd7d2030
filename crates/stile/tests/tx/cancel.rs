//! Transactions withdrawn by their callers: whoever wins, that is what is told.

use serde_json::{Value, json};
use testkit::{Anvil, AnvilOptions, RpcProxy, eventually};

use crate::common::StileProcess;
use crate::support::{Backend, id, text, transfer};

const SEND: &str = "eth_sendRawTransaction";

struct Setup {
    anvil: Anvil,
    proxy: RpcProxy,
    node: StileProcess,
    signer: String,
}

impl Setup {
    /// A node that has the lane, with one transfer done, on a chain that makes no blocks by itself
    /// from then on.
    async fn new(backend: &Backend) -> Self {
        let anvil = Anvil::start(AnvilOptions::default()).await;
        let proxy = RpcProxy::start(anvil.url()).await;
        let node = backend.node(&proxy.url()).development_keys(1).start().await;
        let signer = anvil.accounts().await.remove(0);
        let first = node.send_new(&transfer(&signer, 1)).await;
        let setup = Self { anvil, proxy, node, signer };
        setup.done(id(&first)).await;
        setup.anvil.set_automine(false).await;
        setup
    }

    async fn cancel(&self, id: &str, status: u16) -> Value {
        let answer = self.node.post(&format!("/api/v1/tx/{id}/cancel"), json!({})).await;
        assert_eq!(answer.status, status, "{answer:?}");
        answer.json()
    }

    /// The codes of what the doctor finds, and all of its words.
    async fn doctor(&self) -> (Vec<String>, String) {
        let path = format!("/api/v1/signers/{}/doctor", self.signer);
        let diagnosis = self.node.get(&path).await.ok();
        let findings = diagnosis["findings"].as_array().unwrap();
        let codes = findings.iter().map(|finding| text(&finding["code"]).to_owned()).collect();
        (codes, diagnosis["findings"].to_string())
    }

    /// Waits until an attempt of this kind is on record, and returns its hash.
    async fn attempt(&self, id: &str, kind: &str) -> String {
        eventually(&format!("an attempt of the kind {kind}"), async || {
            let attempts = self.node.attempts(id).await;
            let found = attempts.iter().rfind(|attempt| attempt["kind"] == kind)?;
            Some(text(&found["txHash"]).to_owned())
        })
        .await
    }

    /// Waits until the chain's pool has this transaction.
    async fn in_pool(&self, hash: &str) {
        eventually("the pool to have it", async || {
            self.anvil.raw_transaction(hash).await.map(|_| ())
        })
        .await;
    }

    /// Mines until a transaction is done, and returns it.
    async fn done(&self, id: &str) -> Value {
        eventually("it to be done", async || {
            self.anvil.mine(1).await;
            let tx = self.node.tx(id).await;
            ["CONFIRMED", "FAILED"].contains(&text(&tx["state"])).then_some(tx)
        })
        .await
    }

    /// Checks that the chain shows exactly these amounts from the signer, at nonces without a gap.
    async fn assert_mined(&self, wei: &[u64]) {
        let mined = self.anvil.transactions_of(&self.signer).await;
        assert!(mined.iter().map(|mined| mined.nonce).eq(0..mined.len() as u64), "{mined:?}");
        let mut shown: Vec<u64> = mined.iter().map(|mined| mined.value.to()).collect();
        shown.retain(|wei| *wei > 0);
        shown.sort_unstable();
        assert_eq!(shown, wei);
    }
}

fn is_cancelled(tx: &Value) -> bool {
    (&tx["state"], &tx["subState"]) == (&json!("FAILED"), &json!("CANCELLED"))
}

/// Fails if one that waits for its nonce gets it after it was withdrawn.
async fn a_cancel_before_the_nonce_wins(backend: Backend) {
    let setup = Setup::new(&backend).await;
    let pause = format!("/api/v1/signers/{}/pause", setup.signer);
    setup.node.post(&pause, json!({ "reason": "for a test" })).await.ok();
    let tx = setup.node.send_new(&transfer(&setup.signer, 2)).await;
    let other = setup.node.send_new(&transfer(&setup.signer, 3)).await;
    assert_eq!(tx["state"], "CREATED", "{tx:#}");
    let (codes, words) = setup.doctor().await;
    assert!(codes.contains(&"paused".to_owned()) && words.contains("for a test"), "{words}");
    let cancelled = setup.cancel(id(&tx), 200).await;
    assert!(is_cancelled(&cancelled) && cancelled["nonce"].is_null(), "{cancelled:#}");
    assert_eq!(setup.cancel(id(&tx), 200).await, cancelled, "said again, it is the same");
    let resume = format!("/api/v1/signers/{}/resume", setup.signer);
    setup.node.post(&resume, json!({})).await.ok();
    setup.node.becomes(id(&other), "its nonce", |tx| tx["nonce"] == 1).await;
    setup.done(id(&other)).await;
    assert!(is_cancelled(&setup.node.tx(id(&tx)).await));
    setup.assert_mined(&[1, 3]).await;
}

/// Cancellations that race with binding. Some win and some lose, and each is told as it is.
///
/// Fails if a transaction is withdrawn and bound, or if one that lost leaves a gap.
async fn cancels_that_race_with_the_nonce_are_told_truly(backend: Backend) {
    let setup = Setup::new(&backend).await;
    let bodies: Vec<Value> = (2..=41).map(|wei| transfer(&setup.signer, wei)).collect();
    let sent = setup.node.send_all(&bodies).await;
    let cancels = sent.iter().map(|tx| {
        let path = format!("/api/v1/tx/{}/cancel", id(tx));
        let node = &setup.node;
        async move { node.post(&path, json!({})).await.status }
    });
    for status in futures::future::join_all(cancels).await {
        assert!([200, 202].contains(&status), "{status}");
    }
    let mut landed = vec![1];
    for (tx, wei) in sent.iter().zip(2..) {
        let done = setup.done(id(tx)).await;
        if done["state"] == "CONFIRMED" {
            landed.push(wei);
        } else {
            assert!(is_cancelled(&done), "{done:#}");
        }
    }
    setup.assert_mined(&landed).await;
}

/// Nothing was sent yet, and then the empty transaction is.
///
/// Fails if the first attempt is sent although its caller withdrew it.
async fn a_cancel_before_the_first_send_wins(backend: Backend) {
    let setup = Setup::new(&backend).await;
    setup.proxy.fail(SEND, -32005, "limit exceeded, try again later");
    let tx = setup.node.send_new(&transfer(&setup.signer, 2)).await;
    setup.node.becomes(id(&tx), "its nonce", |tx| tx["nonce"] == 1).await;
    let (codes, words) = setup.doctor().await;
    assert!(codes.contains(&"not-taken".to_owned()), "{words}");
    let asked = setup.cancel(id(&tx), 202).await;
    assert_eq!((&asked["state"], &asked["nonce"]), (&json!("ALLOCATED"), &json!(1)), "{asked:#}");
    let empty = setup.attempt(id(&tx), "CANCEL").await;
    setup.proxy.heal().await;
    setup.in_pool(&empty).await;
    let done = setup.done(id(&tx)).await;
    assert!(is_cancelled(&done), "{done:#}");
    assert_eq!(
        (&done["rival"]["by"], &done["rival"]["txHash"]),
        (&json!("cancel"), &json!(empty)),
        "{done:#}"
    );
    setup.assert_mined(&[1]).await;
}

/// The chain has it, and nobody told the node.
///
/// Fails if a cancellation is believed to have won because it was asked for.
async fn a_cancel_of_one_that_was_sent_in_secret_loses(backend: Backend) {
    let setup = Setup::new(&backend).await;
    setup.proxy.lose_answers(SEND);
    let tx = setup.node.send_new(&transfer(&setup.signer, 2)).await;
    let tx = setup.node.becomes(id(&tx), "its nonce", |tx| tx["nonce"] == 1).await;
    setup.in_pool(text(&tx["txHash"])).await;
    setup.proxy.refuse().await;
    setup.anvil.mine(1).await;
    setup.cancel(id(&tx), 202).await;
    setup.attempt(id(&tx), "CANCEL").await;
    let (codes, words) = setup.doctor().await;
    assert!(codes.contains(&"no-endpoint".to_owned()), "{words}");
    setup.proxy.heal().await;
    let done = setup.done(id(&tx)).await;
    assert_eq!((&done["state"], &done["outcome"]), (&json!("CONFIRMED"), &json!("success")));
    assert_eq!(done["txHash"], tx["txHash"], "the record says which attempt it was: {done:#}");
    assert!(setup.node.last_event(id(&tx), "CANCEL_REQUESTED").await.is_some());
    setup.assert_mined(&[1, 2]).await;
}

/// Both are in the pool one after the other, and the second takes the first one's place.
async fn a_cancel_of_one_that_was_sent_wins(backend: Backend) {
    let setup = Setup::new(&backend).await;
    let tx = setup.node.send_new(&transfer(&setup.signer, 2)).await;
    setup.node.reaches(id(&tx), "SUBMITTED").await;
    let (codes, words) = setup.doctor().await;
    assert_eq!(codes, ["waits-for-a-block"], "{words}");
    setup.cancel(id(&tx), 202).await;
    let empty = setup.attempt(id(&tx), "CANCEL").await;
    setup.in_pool(&empty).await;
    let done = setup.done(id(&tx)).await;
    assert!(is_cancelled(&done), "{done:#}");
    assert_eq!(done["rival"]["txHash"], json!(empty), "{done:#}");
    let kinds: Vec<Value> =
        setup.node.history(id(&tx)).await.iter().map(|event| event["kind"].clone()).collect();
    for kind in ["CANCEL_REQUESTED", "OVERTAKEN", "REPLACED"] {
        assert!(kinds.contains(&json!(kind)), "{kinds:?}");
    }
    let late = setup.node.post(&format!("/api/v1/tx/{}/cancel", id(&tx)), json!({})).await;
    assert_eq!(late.status, 409, "{late:?}");
    setup.assert_mined(&[1]).await;
}

/// The first one is mined before the second reaches anybody.
async fn a_cancel_that_comes_too_late_loses(backend: Backend) {
    let setup = Setup::new(&backend).await;
    let tx = setup.node.send_new(&transfer(&setup.signer, 2)).await;
    let tx = setup.node.reaches(id(&tx), "SUBMITTED").await;
    setup.proxy.hold(SEND);
    setup.cancel(id(&tx), 202).await;
    setup.attempt(id(&tx), "CANCEL").await;
    let (codes, words) = setup.doctor().await;
    assert!(codes.contains(&"dropped".to_owned()), "its newest attempt is with nobody: {words}");
    setup.anvil.mine(1).await;
    setup.proxy.release();
    let done = setup.done(id(&tx)).await;
    assert_eq!((&done["state"], &done["txHash"]), (&json!("CONFIRMED"), &tx["txHash"]));
    assert!(done["rival"].is_null(), "{done:#}");
    let late = setup.node.post(&format!("/api/v1/tx/{}/cancel", id(&tx)), json!({})).await;
    assert_eq!((late.status, late.problem().as_str()), (409, "too-late"), "{late:?}");
    setup.assert_mined(&[1, 2]).await;
}

/// The block with the empty transaction is taken back, and the other one is mined in its place.
///
/// Fails if a cancellation counts that is no longer on the chain.
async fn a_cancel_that_is_reorganised_out_may_lose_after_all(backend: Backend) {
    let setup = Setup::new(&backend).await;
    let tx = setup.node.send_new(&transfer(&setup.signer, 2)).await;
    let tx = setup.node.reaches(id(&tx), "SUBMITTED").await;
    let first = setup.anvil.raw_transaction(text(&tx["txHash"])).await.unwrap();
    setup.cancel(id(&tx), 202).await;
    let empty = setup.attempt(id(&tx), "CANCEL").await;
    setup.in_pool(&empty).await;
    setup.proxy.hold(SEND);
    setup.anvil.mine(1).await;
    setup.node.becomes(id(&tx), "being overtaken", |tx| !tx["rival"].is_null()).await;
    setup.anvil.rollback(1).await;
    setup.anvil.drop_all_transactions().await;
    setup.anvil.mine(2).await;
    let open = setup.node.becomes(id(&tx), "being open again", |tx| tx["rival"].is_null()).await;
    assert_eq!((&open["state"], &open["subState"]), (&json!("SUBMITTED"), &json!("REORGED")));
    setup.anvil.send_raw(&first).await;
    setup.anvil.mine(2).await;
    let done = setup.done(id(&tx)).await;
    assert_eq!((&done["state"], &done["txHash"]), (&json!("CONFIRMED"), &tx["txHash"]), "{done:#}");
    setup.proxy.release();
    setup.assert_mined(&[1, 2]).await;
}

on_both_stores!(
    a_cancel_before_the_nonce_wins,
    cancels_that_race_with_the_nonce_are_told_truly,
    a_cancel_before_the_first_send_wins,
    a_cancel_of_one_that_was_sent_in_secret_loses,
    a_cancel_of_one_that_was_sent_wins,
    a_cancel_that_comes_too_late_loses,
    a_cancel_that_is_reorganised_out_may_lose_after_all,
);
