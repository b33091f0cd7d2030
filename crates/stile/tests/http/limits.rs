//! What is offered and used stays within what the chain allows, whoever asks for it.

use serde_json::{Value, json};
use testkit::{Anvil, AnvilOptions, eventually};

use crate::Solo;
use crate::common::{Answer, SIGNER};

const GWEI: u64 = 1_000_000_000;

struct Place {
    solo: Solo,
    chain: Anvil,
}

impl Place {
    async fn start(max_fee_gwei: Option<f64>) -> Self {
        let chain = Anvil::start(AnvilOptions { no_mining: true, ..AnvilOptions::default() }).await;
        let url = chain.url().to_owned();
        let solo = Solo::start_with(&[], |options| {
            let options = options
                .development_keys(1)
                .endpoint(&url)
                .set_literal("confirmations.required", "0")
                .set("lane.check_timeout", "30s")
                .set("confirmations.poll_interval", "100ms");
            max_fee_gwei.into_iter().fold(options, |options, gwei| options.max_fee_gwei(gwei))
        })
        .await;
        Self { solo, chain }
    }

    /// Hands over a transfer with this in its payload.
    async fn send(&self, request_id: Option<&str>, more: &Value) -> Answer {
        let mut payload = json!({ "to": SIGNER, "value": "1", "gasLimit": "21000" });
        payload.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let mut body = json!({ "signer": SIGNER, "payload": payload });
        if let Some(request_id) = request_id {
            body["requestId"] = request_id.into();
        }
        self.solo.node.post("/api/v1/tx", body).await
    }

    async fn refuses(&self, more: Value, code: &str, words: &[&str]) {
        let refused = self.send(None, &more).await;
        assert_eq!((refused.status, refused.problem().as_str()), (422, code), "{more} {refused:?}");
        let detail = refused.json()["detail"].as_str().unwrap().to_owned();
        for part in words {
            assert!(detail.contains(part), "{part}: {detail}");
        }
    }

    async fn tx(&self, id: &str) -> Value {
        self.solo.node.get(&format!("/api/v1/tx/{id}")).await.ok()
    }

    async fn has_nonce(&self, id: &str) {
        eventually("its nonce", async || self.tx(id).await["nonce"].as_u64()).await;
    }

    async fn attempts(&self, id: &str) -> Vec<Value> {
        let list = self.solo.node.get(&format!("/api/v1/tx/{id}/attempts")).await.ok();
        list["items"].as_array().unwrap().clone()
    }
}

/// Each way to state a price.
fn prices(gwei: u64) -> [Value; 3] {
    let wei = (gwei * GWEI).to_string();
    [
        json!({ "gasPrice": wei }),
        json!({ "maxFeePerGas": wei, "maxPriorityFeePerGas": GWEI.to_string() }),
        json!({ "maxPriorityFeePerGas": wei }),
    ]
}

#[tokio::test]
async fn hole_42_a_request_above_max_fee_gwei_is_refused() {
    let place = Place::start(Some(100.0)).await;
    for price in prices(5_000) {
        place.refuses(price, "fee-limit", &["5000000000000", "100000000000", "max_fee_gwei"]).await;
    }
    let listed = place.solo.node.get("/api/v1/tx").await.ok();
    assert_eq!(listed["items"], json!([]), "nothing was taken");
    for price in prices(100) {
        let taken = place.send(None, &price).await;
        assert_eq!(taken.status, 202, "{price}: {taken:?}");
    }
    // A limit of the caller's own is no price: no more than the chain's is offered whatever it says.
    let taken = place.send(None, &json!({ "feeLimit": (5_000 * GWEI).to_string() })).await;
    assert_eq!(taken.status, 202, "{taken:?}");
}

#[tokio::test]
async fn hole_42_without_a_limit_a_multiple_of_what_the_chain_asks_for_is_one() {
    let place = Place::start(None).await;
    for price in prices(5_000) {
        place.refuses(price, "fee-limit", &["5000000000000", "ten times", "max_fee_gwei"]).await;
    }
    let taken = place.send(None, &prices(90)[0]).await;
    assert_eq!(taken.status, 202, "{taken:?}");
    let id = taken.json()["txId"].as_str().unwrap().to_owned();
    place.has_nonce(&id).await;
    let speed_up = format!("/api/v1/tx/{id}/speed-up");
    let body = json!({ "gasPrice": (5_000 * GWEI).to_string() });
    let refused = place.solo.node.post(&speed_up, body).await;
    assert_eq!((refused.status, refused.problem().as_str()), (422, "fee-limit"), "{refused:?}");
}

/// The chain asked for much when it was taken, and asks for little when its nonce is bound.
///
/// Fails if it offers what it states by then, if it waits for ever, or if asking for it once more is
/// refused.
#[tokio::test]
async fn hole_42_what_was_taken_lands_within_the_limit_of_the_time() {
    let place = Place::start(None).await;
    let first = place.send(None, &json!({})).await.json();
    place.has_nonce(first["txId"].as_str().unwrap()).await;
    place.chain.set_next_base_fee(200 * GWEI).await;
    place.chain.mine(1).await;
    let stated = json!({ "gasPrice": (1_500 * GWEI).to_string() });
    // So that it waits for its nonce until the chain is cheap again.
    let reason = json!({ "reason": "the chain is dear" });
    place.solo.node.post(&format!("/api/v1/signers/{SIGNER}/pause"), reason).await.ok();
    eventually("the chain's price to be known", async || {
        let answer = place.send(Some("dear"), &stated).await;
        (answer.status == 202).then_some(())
    })
    .await;
    place.chain.set_next_base_fee(GWEI).await;
    place.chain.mine(1).await;
    eventually("the limit to fall", async || {
        let answer = place.send(None, &stated).await;
        (answer.status == 422).then_some(())
    })
    .await;
    let again = place.send(Some("dear"), &stated).await;
    assert_eq!(again.status, 200, "it is the same as before: {again:?}");
    place.solo.node.post(&format!("/api/v1/signers/{SIGNER}/resume"), json!({})).await.ok();
    place.chain.set_interval_mining(1).await;
    let id = again.json()["txId"].as_str().unwrap().to_owned();
    eventually("it to land", async || (place.tx(&id).await["state"] == "CONFIRMED").then_some(()))
        .await;
    for attempt in place.attempts(&id).await {
        let price: u64 = attempt["gasPrice"].as_str().unwrap().parse().unwrap();
        assert!(price <= 100 * GWEI, "{attempt:#}");
    }
}

#[tokio::test]
async fn hole_42_a_gas_limit_above_the_blocks_is_refused() {
    let place = Place::start(None).await;
    let block = place.chain.block(0).await.unwrap();
    let limit = block["gasLimit"].as_str().unwrap().trim_start_matches("0x");
    let limit = u64::from_str_radix(limit, 16).unwrap();
    for above in [limit + 1, 1 << 62] {
        let gas = json!({ "gasLimit": above.to_string() });
        place.refuses(gas, "gas-limit", &[&above.to_string(), &limit.to_string()]).await;
    }
    let taken = place.send(None, &json!({ "gasLimit": limit.to_string() })).await;
    assert_eq!(taken.status, 202, "{taken:?}");
}
