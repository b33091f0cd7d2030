//! Fees that rise above every offer, and the limits of what is offered.

use serde_json::{Value, json};
use testkit::{Anvil, AnvilOptions, RpcProxy, eventually};

use crate::care::assert_remedy;
use crate::common::{NodeOptions, StileProcess};
use crate::support::{Backend, assert_mined_once, id, text, transfer};

const SIGN: &str = "eth_signTransaction";
const GWEI: u64 = 1_000_000_000;
const LIMIT_REACHED: &str = "stile_fee_limit_reached_total";

struct Setup {
    anvil: Anvil,
    /// Before the chain. It does not say what it has in its pool, so that nobody notices that anvil
    /// drops what it cannot mine: other nodes keep it.
    _proxy: RpcProxy,
    /// Before the signer, which is the chain node with its unlocked accounts; what is sent to the
    /// chain goes past it.
    signing: RpcProxy,
    node: StileProcess,
    signer: String,
}

impl Setup {
    /// A node that raises its offers every second. Its chain makes no blocks by itself.
    async fn new(backend: &Backend, with: impl Fn(NodeOptions) -> NodeOptions) -> Self {
        let anvil = Anvil::start(AnvilOptions { no_mining: true, ..Default::default() }).await;
        let proxy = RpcProxy::start(anvil.url()).await;
        proxy.fail("eth_getTransactionByHash", -32000, "the pool is not shown");
        let signing = RpcProxy::start(anvil.url()).await;
        let signer = anvil.accounts().await.remove(0);
        let options = backend.node(&proxy.url()).remote_signer(&signing.url(), &signer);
        let options = options.set("tx.resubmit.interval", "1h").set("lane.check_timeout", "30s");
        let node = with(options.set("tx.resubmit.bump_after", "1s")).start().await;
        Self { anvil, _proxy: proxy, signing, node, signer }
    }

    /// Transfers that are in the pool, with this in their payloads.
    async fn send(&self, count: u64, payload: &Value) -> Vec<Value> {
        let body = |wei| {
            let mut body = transfer(&self.signer, wei);
            let payload = payload.as_object().unwrap().clone();
            body["payload"].as_object_mut().unwrap().extend(payload);
            body
        };
        let txs = self.node.send_all(&(1..=count).map(body).collect::<Vec<_>>()).await;
        for tx in &txs {
            self.node.reaches(id(tx), "SUBMITTED").await;
        }
        assert_eq!(self.anvil.nonce(&self.signer, "pending").await, count);
        txs
    }

    /// The next block asks for more than anybody offers. Anvil takes whatever offers less out of its
    /// pool then.
    async fn fees_rise(&self) {
        self.anvil.set_next_base_fee(100 * GWEI).await;
        self.anvil.mine(1).await;
        assert_eq!(self.anvil.nonce(&self.signer, "latest").await, 0, "none is mined");
    }

    /// All of them end mined once, with what the node says is their hash.
    async fn all_end_well(&self, count: usize) {
        self.anvil.set_interval_mining(1).await;
        let confirmed = self.node.all_confirmed(&self.signer, count).await;
        assert_mined_once(&self.anvil, &self.signer, &confirmed).await;
    }

    async fn kinds(&self, tx: &Value) -> Vec<String> {
        let attempts = self.node.attempts(id(tx)).await;
        attempts.iter().map(|attempt| text(&attempt["kind"]).to_owned()).collect()
    }

    /// Waits until nothing more is offered for a transaction.
    async fn reaches_its_limit(&self, tx: &Value) {
        let what = "the limit to be reached";
        self.node
            .becomes(id(tx), what, |tx| {
                let error = tx["error"].as_str().unwrap_or_default();
                tx["subState"] == "UNDERPRICED" && error.contains("the limit is")
            })
            .await;
    }
}

async fn offers_follow_the_market(setup: &Setup, payload: Value) {
    let txs = setup.send(20, &payload).await;
    // No attempt is signed before the doctor has looked.
    setup.signing.hold(SIGN);
    setup.fees_rise().await;
    let words = &["nonce 0", id(&txs[0]), "offers at most", "the chain's"];
    let finding = setup.node.blocked_by(&setup.signer, "underpriced", words).await;
    assert_remedy(&finding, "bump", true);
    setup.signing.release();
    setup.all_end_well(20).await;
    for tx in &txs {
        let (mined, attempts) = (setup.node.tx(id(tx)).await, setup.node.attempts(id(tx)).await);
        let kind_of_mined = attempts.iter().find(|attempt| attempt["txHash"] == mined["txHash"]);
        assert_eq!(kind_of_mined.unwrap()["kind"], "BUMP", "{mined:#} {attempts:#?}");
        assert_eq!(attempts[0]["kind"], "SEND");
        assert!(setup.node.last_event(id(tx), "BUMPED").await.is_some());
    }
    assert!(setup.node.metric("stile_tx_bump_total").await >= 20.0);
}

/// Fails if nobody notices that offers have become too low, if only the lowest nonce's is raised, or
/// if what is mined is not the hash that the node tells.
async fn offers_follow_the_market_as_it_rises(backend: Backend) {
    let setup = Setup::new(&backend, |options| options).await;
    offers_follow_the_market(&setup, json!({})).await;
}

/// The same for transactions of the old kind, which have one price.
async fn prices_follow_the_market_as_it_rises(backend: Backend) {
    let setup = Setup::new(&backend, |options| options).await;
    let payload = json!({
        "gasPrice": (2 * GWEI).to_string(),
        "feeLimit": (1000 * GWEI).to_string(),
    });
    offers_follow_the_market(&setup, payload).await;
    for tx in setup.node.txs(&setup.signer).await {
        let attempts = setup.node.attempts(id(&tx)).await;
        assert!(attempts.iter().all(|attempt| attempt["gasPrice"].is_string()), "{attempts:#?}");
    }
}

/// Whoever states a price and no limit means it.
///
/// Fails if more is offered than the caller has said, or if its own word does not go beyond that.
async fn a_stated_price_is_the_limit_until_its_caller_raises_it(backend: Backend) {
    let setup = Setup::new(&backend, |options| options).await;
    let price = (2 * GWEI).to_string();
    let payload = json!({ "maxFeePerGas": price, "maxPriorityFeePerGas": GWEI.to_string() });
    let txs = setup.send(5, &payload).await;
    setup.fees_rise().await;
    for tx in &txs {
        setup.reaches_its_limit(tx).await;
        assert_eq!(setup.kinds(tx).await, ["SEND"]);
    }
    let words = &["nonce 0", id(&txs[0]), &price];
    let finding = setup.node.blocked_by(&setup.signer, "underpriced", words).await;
    assert_remedy(&finding, "speed-up", false);
    assert!(setup.node.metric(LIMIT_REACHED).await >= 5.0);
    for tx in &txs {
        let body = json!({
            "maxFeePerGas": (300 * GWEI).to_string(),
            "maxPriorityFeePerGas": (3 * GWEI).to_string(),
        });
        let answer = setup.node.post(&format!("/api/v1/tx/{}/speed-up", id(tx)), body).await;
        assert_eq!(answer.status, 202, "{answer:?}");
    }
    setup.all_end_well(5).await;
    for tx in &txs {
        assert_eq!(setup.kinds(tx).await, ["SEND", "BUMP"]);
    }
}

/// Fails if the chain's limit is not kept, if that is not counted, or if what waits below it is
/// not mined once the market has come back.
async fn a_chains_limit_ends_the_race_until_the_market_falls(backend: Backend) {
    let setup = Setup::new(&backend, |options| options.max_fee_gwei(5.0)).await;
    let txs = setup.send(5, &json!({})).await;
    setup.fees_rise().await;
    for tx in &txs {
        setup.reaches_its_limit(tx).await;
    }
    let words = &["nonce 0", id(&txs[0])];
    let finding = setup.node.blocked_by(&setup.signer, "underpriced", words).await;
    assert_remedy(&finding, "speed-up", false);
    eventually("each to be counted", async || {
        (setup.node.metric(LIMIT_REACHED).await >= 5.0).then_some(())
    })
    .await;
    for tx in &txs {
        for attempt in setup.node.attempts(id(tx)).await {
            let offer: u64 = text(&attempt["maxFeePerGas"]).parse().unwrap();
            assert!(offer <= 5 * GWEI, "{attempt:#}");
        }
    }
    // Nobody goes beyond it.
    let body = json!({
        "maxFeePerGas": (300 * GWEI).to_string(),
        "maxPriorityFeePerGas": GWEI.to_string(),
    });
    let refused = setup.node.post(&format!("/api/v1/tx/{}/speed-up", id(&txs[0])), body).await;
    assert_eq!((refused.status, refused.problem().as_str()), (422, "fee-limit"));
    setup.anvil.set_next_base_fee(GWEI).await;
    setup.all_end_well(5).await;
}

/// First ones, higher offers, a speed-up, a cancellation and an empty one for a gap, while the chain asks
/// for more than the limit and after.
///
/// Fails if any of them offers more than the limit, or if one of them does not end well.
async fn hole_42_no_attempt_of_any_kind_is_above_the_limit(backend: Backend) {
    let setup = Setup::new(&backend, |options| options.max_fee_gwei(5.0)).await;
    let hold = setup.node.allocate(&setup.signer).await.ok();
    let bodies: Vec<Value> = (1..=4).map(|wei| transfer(&setup.signer, wei)).collect();
    let txs = setup.node.send_all(&bodies).await;
    for tx in &txs {
        setup.node.reaches(id(tx), "SUBMITTED").await;
    }
    setup.fees_rise().await;
    for (tx, what) in [(&txs[0], "cancel"), (&txs[1], "speed-up")] {
        let answer = setup.node.post(&format!("/api/v1/tx/{}/{what}", id(tx)), json!({})).await;
        assert_eq!(answer.status, 202, "{what}: {answer:?}");
    }
    // Nobody will send with it: an empty transaction closes the gap below the others.
    setup.node.recyclable(&hold, "not needed after all").await.ok();
    for tx in &txs {
        setup.reaches_its_limit(tx).await;
    }
    setup.anvil.set_next_base_fee(GWEI).await;
    setup.anvil.set_interval_mining(1).await;
    for tx in &txs {
        setup
            .node
            .becomes(id(tx), "its end", |tx| tx["state"] == "CONFIRMED" || tx["state"] == "FAILED")
            .await;
        for attempt in setup.node.attempts(id(tx)).await {
            let offer: u64 = text(&attempt["maxFeePerGas"]).parse().unwrap();
            assert!(offer <= 5 * GWEI, "{attempt:#}");
        }
    }
    assert_eq!(setup.kinds(&txs[0]).await.last().map(String::as_str), Some("CANCEL"));
    let mined = setup.anvil.transactions_of(&setup.signer).await;
    assert_eq!(mined.iter().map(|tx| tx.nonce).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    for tx in mined {
        let on_chain = setup.anvil.rpc("eth_getTransactionByHash", json!([tx.hash])).await;
        let offer = text(&on_chain["maxFeePerGas"]).trim_start_matches("0x");
        assert!(u64::from_str_radix(offer, 16).unwrap() <= 5 * GWEI, "{on_chain:#}");
    }
}

on_both_stores!(
    hole_42_no_attempt_of_any_kind_is_above_the_limit,
    offers_follow_the_market_as_it_rises,
    prices_follow_the_market_as_it_rises,
    a_stated_price_is_the_limit_until_its_caller_raises_it,
    a_chains_limit_ends_the_race_until_the_market_falls,
);
