//! Withdrawing transactions, and having them mined sooner.

use serde_json::{Value, json};
use testkit::{Anvil, AnvilOptions, eventually};

use crate::Solo;
use crate::common::{Answer, SIGNER};

const TO: &str = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";

/// A node on a chain that makes blocks when it is told to.
struct Place {
    solo: Solo,
    chain: Anvil,
}

impl Place {
    async fn start() -> Self {
        let chain = Anvil::start(AnvilOptions { no_mining: true, ..AnvilOptions::default() }).await;
        let url = chain.url().to_owned();
        let solo = Solo::start_with(&[], |options| {
            options
                .development_keys(1)
                .endpoint(&url)
                .max_fee_gwei(100.0)
                .set_literal("confirmations.required", "0")
                .set("lane.check_timeout", "30s")
                .set("confirmations.poll_interval", "100ms")
        })
        .await;
        Self { solo, chain }
    }

    async fn mine(&self) {
        self.chain.rpc("anvil_mine", json!([1])).await;
    }

    /// Hands over a transfer and waits until it stands so.
    async fn send(&self, state: &str) -> String {
        let payload = json!({ "to": TO, "value": "1", "gasLimit": "21000" });
        let sent =
            self.solo.node.post("/api/v1/tx", json!({ "signer": SIGNER, "payload": payload }));
        let sent = sent.await;
        assert_eq!(sent.status, 202, "{sent:?}");
        let id = sent.json()["txId"].as_str().unwrap().to_owned();
        self.until(&id, |tx| tx["state"] == state).await;
        id
    }

    async fn tx(&self, id: &str) -> Value {
        self.solo.node.get(&format!("/api/v1/tx/{id}")).await.ok()
    }

    async fn until(&self, id: &str, holds: impl Fn(&Value) -> bool) -> Value {
        eventually("the transaction to get there", async || {
            Some(self.tx(id).await).filter(|tx| holds(tx))
        })
        .await
    }

    async fn order(&self, id: &str, what: &str, body: Value) -> Answer {
        self.solo.node.post(&format!("/api/v1/tx/{id}/{what}"), body).await
    }

    /// What its attempts are for, oldest first.
    async fn attempts(&self, id: &str, count: usize) -> Vec<Value> {
        eventually("its attempts", async || {
            let list = self.solo.node.get(&format!("/api/v1/tx/{id}/attempts")).await.ok();
            Some(list["items"].as_array().unwrap().clone()).filter(|items| items.len() == count)
        })
        .await
    }

    async fn pause(&self) {
        let reason = json!({ "reason": "key rotation" });
        self.solo.node.post(&format!("/api/v1/signers/{SIGNER}/pause"), reason).await.ok();
    }
}

#[tokio::test]
async fn what_has_no_nonce_is_withdrawn_at_once() {
    let place = Place::start().await;
    place.send("SUBMITTED").await;
    place.pause().await;
    let id = place.send("CREATED").await;
    let refused = place.order(&id, "speed-up", json!({})).await;
    assert_eq!((refused.status, refused.problem().as_str()), (409, "no-nonce-yet"));
    assert_eq!(refused.json()["txId"], id.as_str());
    for time in ["now", "before"] {
        let withdrawn = place.order(&id, "cancel", json!({})).await;
        assert_eq!(withdrawn.status, 200, "{time}: {withdrawn:?}");
        let tx = withdrawn.json();
        assert_eq!((&tx["state"], &tx["subState"]), (&json!("FAILED"), &json!("CANCELLED")));
        assert_eq!((&tx["nonce"], &tx["rival"]), (&Value::Null, &Value::Null));
    }
}

#[tokio::test]
async fn an_attempt_that_offers_more_is_made_and_mined() {
    let place = Place::start().await;
    let id = place.send("SUBMITTED").await;
    for above in [
        json!({ "maxFeePerGas": "100000000001", "maxPriorityFeePerGas": "1" }),
        json!({ "gasPrice": "100000000001" }),
    ] {
        let refused = place.order(&id, "speed-up", above).await;
        assert_eq!((refused.status, refused.problem().as_str()), (422, "fee-limit"));
        assert!(refused.json()["detail"].as_str().unwrap().contains("100000000000"), "{refused:?}");
    }
    assert_eq!(place.tx(&id).await["wish"], Value::Null, "nothing is left of what was refused");
    let fees = json!({ "maxFeePerGas": "90000000000", "maxPriorityFeePerGas": "9000000000" });
    let asked = place.order(&id, "speed-up", fees).await;
    assert_eq!(asked.status, 202, "{asked:?}");
    let attempts = place.attempts(&id, 2).await;
    assert_eq!((&attempts[0]["kind"], &attempts[1]["kind"]), (&json!("SEND"), &json!("BUMP")));
    assert_eq!(attempts[1]["maxFeePerGas"], "90000000000");
    let tx = place.until(&id, |tx| tx["txHash"] == attempts[1]["txHash"]).await;
    assert_eq!(tx["wish"], Value::Null, "it has been seen to");
    eventually("the chain to have the new one", async || {
        let params = json!([attempts[1]["txHash"]]);
        let known = place.chain.rpc("eth_getTransactionByHash", params).await;
        (!known.is_null()).then_some(())
    })
    .await;
    place.mine().await;
    let tx = place.until(&id, |tx| tx["state"] == "CONFIRMED").await;
    assert_eq!(tx["receipt"]["txHash"], attempts[1]["txHash"]);
    for what in ["cancel", "speed-up"] {
        let late = place.order(&id, what, json!({})).await;
        assert_eq!((late.status, late.problem().as_str()), (409, "too-late"), "{what}");
    }
}

#[tokio::test]
async fn a_cancellation_that_is_mined_first_wins() {
    let place = Place::start().await;
    let id = place.send("SUBMITTED").await;
    let asked = place.order(&id, "cancel", json!({})).await;
    assert_eq!(asked.status, 202, "{asked:?}");
    let attempts = place.attempts(&id, 2).await;
    assert_eq!(attempts[1]["kind"], "CANCEL");
    eventually("the chain to have the empty one", async || {
        let params = json!([attempts[1]["txHash"]]);
        let known = place.chain.rpc("eth_getTransactionByHash", params).await;
        (!known.is_null()).then_some(())
    })
    .await;
    let again = place.order(&id, "cancel", json!({})).await;
    assert_eq!(again.status, 202, "asking again changes nothing: {again:?}");
    place.mine().await;
    let tx = place.until(&id, |tx| tx["state"] == "FAILED").await;
    assert_eq!((&tx["subState"], &tx["rival"]["by"]), (&json!("CANCELLED"), &json!("cancel")));
    assert_eq!(tx["rival"]["txHash"], attempts[1]["txHash"]);
    assert_eq!(tx["receipt"], Value::Null, "{tx}");
    place.attempts(&id, 2).await;
}
