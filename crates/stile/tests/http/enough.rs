//! Gas that is enough to begin with, and money that is enough for the account's queue.

use serde_json::{Value, json};
use testkit::{Anvil, AnvilOptions, RpcProxy, eventually};

use crate::Solo;
use crate::common::{Answer, NodeOptions, SIGNER};

const TO: &str = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";

/// What a transfer of a wei costs at 10 gwei.
const COST: u64 = 21_000 * 10_000_000_000 + 1;

struct Place {
    solo: Solo,
    chain: Anvil,
}

impl Place {
    async fn start(
        options: AnvilOptions,
        change: impl FnOnce(NodeOptions, &Anvil) -> NodeOptions,
    ) -> Self {
        let chain = Anvil::start(options).await;
        let solo = Solo::start_with(&[], |options| {
            let options = options
                .development_keys(1)
                .set_literal("confirmations.required", "0")
                .set("lane.check_timeout", "30s")
                .set("confirmations.poll_interval", "100ms");
            change(options, &chain)
        })
        .await;
        Self { solo, chain }
    }

    async fn send(&self, payload: &Value, request_id: &str) -> Answer {
        let body = json!({ "signer": SIGNER, "requestId": request_id, "payload": payload });
        self.solo.node.post("/api/v1/tx", body).await
    }

    async fn takes(&self, payload: &Value, request_id: &str) -> String {
        let taken = self.send(payload, request_id).await;
        assert_eq!(taken.status, 202, "{request_id}: {taken:?}");
        taken.json()["txId"].as_str().unwrap().to_owned()
    }

    /// The problem document, which names the number that it would have to be.
    async fn refuses(&self, payload: &Value, request_id: &str, code: &str, least: u64) -> Value {
        let refused = self.send(payload, request_id).await;
        assert_eq!((refused.status, refused.problem().as_str()), (422, code), "{refused:?}");
        let problem = refused.json();
        assert_eq!(problem["least"], least.to_string(), "{problem:#}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(&least.to_string()), "{detail}");
        problem
    }

    async fn ends(&self, id: &str, state: &str) -> Value {
        eventually("its end", async || {
            let tx = self.solo.node.get(&format!("/api/v1/tx/{id}")).await.ok();
            matches!(tx["state"].as_str(), Some("CONFIRMED" | "FAILED")).then_some(tx)
        })
        .await
        .as_object()
        .filter(|tx| tx["state"] == state)
        .map_or_else(|| panic!("{id} is not {state}"), |tx| Value::Object(tx.clone()))
    }

    async fn pause(&self) {
        let reason = json!({ "reason": "a test" });
        self.solo.node.post(&format!("/api/v1/signers/{SIGNER}/pause"), reason).await.ok();
    }

    async fn resume(&self) {
        self.solo.node.post(&format!("/api/v1/signers/{SIGNER}/resume"), json!({})).await.ok();
    }
}

fn of_fork(fork: &str) -> AnvilOptions {
    let arguments = vec!["--hardfork".to_owned(), fork.to_owned()];
    AnvilOptions { arguments, ..AnvilOptions::default() }
}

fn by_hand() -> AnvilOptions {
    AnvilOptions { no_mining: true, ..AnvilOptions::default() }
}

fn creation(gas: u64) -> Value {
    json!({ "data": Anvil::contract_creation(), "gasLimit": gas.to_string() })
}

/// A call with a thousand bytes.
fn large_call(gas: u64) -> Value {
    json!({ "to": TO, "data": format!("0x{}", "11".repeat(1000)), "gasLimit": gas.to_string() })
}

fn transfer() -> Value {
    json!({ "to": TO, "value": "1", "gasLimit": "21000", "gasPrice": "10000000000" })
}

fn least_of_creation() -> u64 {
    let code = Anvil::contract_creation();
    let bytes: Vec<&str> = (2..code.len()).step_by(2).map(|at| &code[at..at + 2]).collect();
    let data: u64 = bytes.iter().map(|byte| if *byte == "00" { 4 } else { 16 }).sum();
    53_000 + data + 2 * (bytes.len() as u64).div_ceil(32)
}

/// The chain's node takes a creation below its intrinsic gas, and leaves it out of every block.
///
/// Fails if such a one gets a nonce: nothing behind it is ever mined.
#[tokio::test]
async fn hole_37_creations_below_their_intrinsic_gas_block_no_lane() {
    let place =
        Place::start(of_fork("prague"), |options, chain| options.endpoint(chain.url())).await;
    let least = least_of_creation();
    for gas in [21_000, 53_000, least - 1] {
        place.refuses(&creation(gas), "low", "gas-below-intrinsic", least).await;
    }
    // The floor of EIP-7623.
    place.refuses(&large_call(60_999), "call", "gas-below-intrinsic", 61_000).await;
    let ids = [
        place.takes(&creation(least + 200_000), "enough").await,
        place.takes(&large_call(61_000), "call").await,
        place.takes(&transfer(), "behind").await,
    ];
    for id in &ids {
        place.ends(id, "CONFIRMED").await;
    }
}

/// The same call on a chain before Prague.
#[tokio::test]
async fn hole_37_a_chain_is_asked_for_no_more_than_its_fork_asks_for() {
    let place =
        Place::start(of_fork("cancun"), |options, chain| options.endpoint(chain.url())).await;
    place.refuses(&large_call(36_999), "low", "gas-below-intrinsic", 37_000).await;
    let id = place.takes(&large_call(37_000), "call").await;
    place.ends(&id, "CONFIRMED").await;
}

#[tokio::test]
async fn hole_37_a_chain_may_count_gas_by_rules_of_its_own() {
    let place =
        Place::start(by_hand(), |options, chain| options.own_gas_rules().endpoint(chain.url()))
            .await;
    place.takes(&creation(30_000), "low").await;
}

/// The only endpoint estimates less than any transaction of its kind costs.
///
/// Fails if that is its gas limit: it is in no block then, and neither is what is behind it.
#[tokio::test]
async fn hole_37_an_estimate_below_the_intrinsic_gas_is_raised_to_it() {
    let chain = Anvil::start(of_fork("prague")).await;
    let proxy = RpcProxy::start(chain.url()).await;
    proxy.lie("eth_estimateGas", |_, _| Some(json!("0x5208")));
    let url = proxy.url();
    let place = Place::start(by_hand(), |options, _| options.endpoint(&url)).await;
    let made = place.takes(&json!({ "data": Anvil::contract_creation() }), "creation").await;
    let behind = place.takes(&transfer(), "behind").await;
    let made = place.ends(&made, "CONFIRMED").await;
    let gas: u64 = made["gasLimit"].as_str().unwrap().parse().unwrap();
    assert!(gas >= least_of_creation(), "{made:#}");
    place.ends(&behind, "CONFIRMED").await;
}

/// It was taken while nobody said which rules the chain has.
#[tokio::test]
async fn hole_37_gas_below_the_intrinsic_fails_before_a_nonce_is_bound() {
    let chain = Anvil::start(of_fork("prague")).await;
    let proxy = RpcProxy::start(chain.url()).await;
    for method in ["eth_getBlockByNumber", "eth_getBlockByHash"] {
        proxy.lie(method, |_, block| {
            let mut block = block.clone();
            let fields = block.as_object_mut()?;
            fields.remove("gasLimit");
            fields.remove("requestsHash");
            Some(block)
        });
    }
    let url = proxy.url();
    let place = Place::start(by_hand(), |options, _| options.endpoint(&url)).await;
    let first = place.takes(&transfer(), "first").await;
    place.ends(&first, "CONFIRMED").await;
    place.pause().await;
    let low = place.takes(&large_call(37_000), "low").await;
    let behind = place.takes(&transfer(), "behind").await;
    proxy.heal().await;
    // What nobody said is asked for again after a while.
    let probes = std::cell::Cell::new(0);
    eventually("the rules to be known", async || {
        probes.set(probes.get() + 1);
        let name = format!("probe {}", probes.get());
        (place.send(&large_call(37_000), &name).await.status == 422).then_some(())
    })
    .await;
    place.resume().await;
    let failed = place.ends(&low, "FAILED").await;
    assert_eq!(failed["nonce"], Value::Null, "{failed:#}");
    assert!(failed["error"].as_str().unwrap().contains("61000"), "{failed:#}");
    place.ends(&behind, "CONFIRMED").await;
}

/// Fails if each transaction is held against the balance by itself, or if what was taken before is not
/// answered as it was.
#[tokio::test]
async fn hole_37_a_balance_covers_the_accounts_queue() {
    let place = Place::start(by_hand(), |options, chain| options.endpoint(chain.url())).await;
    let balance = |wei: u64| alloy::primitives::U256::from(wei);
    place.chain.set_balance(SIGNER, balance(2 * COST + COST / 2)).await;
    place.takes(&transfer(), "first").await;
    place.takes(&transfer(), "second").await;
    let code = "insufficient-funds";
    let problem = place.refuses(&transfer(), "third", code, 3 * COST).await;
    assert_eq!(problem["balance"], (2 * COST + COST / 2).to_string(), "{problem:#}");
    assert_eq!(problem["queued"], (2 * COST).to_string(), "{problem:#}");
    let again = place.send(&transfer(), "first").await;
    assert_eq!(again.status, 200, "{again:?}");

    // With more money it is taken at once, and what waits for its nonce counts as well.
    place.chain.set_balance(SIGNER, balance(5 * COST)).await;
    place.pause().await;
    place.takes(&transfer(), "third").await;
    let items: Vec<Value> = ["fourth", "first", "fifth", "sixth", "second"]
        .iter()
        .map(|id| json!({ "signer": SIGNER, "requestId": id, "payload": transfer() }))
        .collect();
    let batch = place.solo.node.post("/api/v1/tx/batch", json!({ "items": items })).await.ok();
    let items = batch["items"].as_array().unwrap();
    let statuses: Vec<u64> = items.iter().map(|item| item["status"].as_u64().unwrap()).collect();
    assert_eq!(statuses, [202, 200, 202, 422, 200], "{batch:#}");
    assert_eq!(items[3]["problem"]["least"], (6 * COST).to_string(), "{batch:#}");

    // What is mined is paid for, and counts no more.
    place.resume().await;
    eventually("all of them to be in the pool", async || {
        (place.chain.nonce(SIGNER, "pending").await == 5).then_some(())
    })
    .await;
    place.chain.mine(1).await;
    eventually("the queue to be empty", async || {
        let refused = place.send(&transfer(), "sixth").await;
        (refused.status == 422 && refused.json()["queued"] == "0").then_some(())
    })
    .await;
    place.chain.set_balance(SIGNER, balance(COST)).await;
    let last = place.takes(&transfer(), "sixth").await;
    place.chain.set_interval_mining(1).await;
    place.ends(&last, "CONFIRMED").await;
}

/// The account can pay for one, which a batch has three times.
///
/// Fails if what is the same as another one of the batch is counted as one more.
#[tokio::test]
async fn hole_37_a_request_that_a_batch_has_several_times_is_paid_for_once() {
    let place = Place::start(by_hand(), |options, chain| options.endpoint(chain.url())).await;
    place.chain.set_balance(SIGNER, alloy::primitives::U256::from(COST)).await;
    let items: Vec<Value> = ["one", "one", "another", "one"]
        .iter()
        .map(|id| json!({ "signer": SIGNER, "requestId": id, "payload": transfer() }))
        .collect();
    let batch = place.solo.node.post("/api/v1/tx/batch", json!({ "items": items })).await.ok();
    let items = batch["items"].as_array().unwrap();
    let statuses: Vec<u64> = items.iter().map(|item| item["status"].as_u64().unwrap()).collect();
    assert_eq!(statuses, [202, 200, 422, 200], "{batch:#}");
    assert_eq!(items[2]["problem"]["least"], (2 * COST).to_string(), "{batch:#}");
    place.chain.set_interval_mining(1).await;
    place.ends(items[3]["tx"]["txId"].as_str().expect("its id"), "CONFIRMED").await;
}

/// Of two endpoints one says that the account has nothing.
#[tokio::test]
async fn hole_37_one_endpoint_does_not_make_an_account_poor() {
    let chain = Anvil::start(by_hand()).await;
    let proxy = RpcProxy::start(chain.url()).await;
    proxy.lie("eth_getBalance", |_, _| Some(json!("0x0")));
    let (honest, liar) = (chain.url().to_owned(), proxy.url());
    let place =
        Place::start(by_hand(), |options, _| options.endpoint(&liar).endpoint(&honest)).await;
    place.takes(&transfer(), "paid for").await;
}
