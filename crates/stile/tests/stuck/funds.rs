//! An account that is emptied.

use serde_json::{Value, json};
use testkit::{eventually, eventually_within};

use crate::stage::{LONG, SEND, Stage, assert_says};
use crate::support::{Backend, id, text};

/// A node that takes what an account cannot pay for.
async fn waiting(backend: &Backend) -> Stage {
    Stage::new(backend, |options| options.set("lane.underfunded", "wait")).await
}

/// A burst, half of which a chain node has; then the money goes. The blocks leave out what cannot be
/// paid for, and pools forget it.
///
/// Fails if what cannot be paid for is given up or is sent in circles, if nonces are bound for what
/// cannot be sent, or if nobody notices that there is money again.
async fn an_account_that_is_emptied_in_a_burst_waits_for_money(backend: Backend) {
    let stage = waiting(&backend).await;
    stage.in_flight(1..=1).await;
    stage.mine(2).await;
    let enough = stage.anvil.balance(&stage.signer).await;
    stage.in_flight(2..=10).await;
    stage.anvil.set_balance(&stage.signer, "1000".parse().unwrap()).await;
    stage.hand_over(11..=20).await;

    let unfunded = stage.event("UNFUNDED").await;
    assert_eq!(unfunded["data"]["balance"], "1000", "{unfunded:#}");
    stage.mine(2).await;
    let finding = stage.finding("insufficient-funds").await;
    assert_eq!(finding["severity"], "blocked");
    assert_says(&finding["words"], "the account cannot pay for nonce 1");
    assert_says(&finding["words"], "it has 1000 wei, and ");
    assert_says(&finding["remedy"]["words"], "send the account at least ");
    let diagnosis = stage.doctor().await;
    assert_eq!(diagnosis["summary"], finding["words"], "{diagnosis:#}");
    let cost = &diagnosis["facts"]["head"]["tx"]["newest"]["cost"];
    assert_says(&finding["words"], cost.as_str().expect("an amount"));
    stage.tells_of_money(|balance, runway| balance < 1e-9 && runway == 0.0).await;

    // What comes now gets no nonce and nothing goes out, but for a try every half minute with the
    // one that the chain waits for.
    stage.proxy.reset();
    stage.hand_over(21..=25).await;
    stage.mine(2).await;
    let head = text(&diagnosis["facts"]["head"]["tx"]["newest"]["txHash"]);
    eventually_within(LONG, "the next try", async || (stage.proxy.count(SEND) > 0).then_some(()))
        .await;
    for sent in stage.proxy.sent_raw() {
        assert_eq!(sent.hash.to_string(), head, "nothing else is sent");
    }
    let created = stage.node.txs(&stage.signer).await;
    assert_eq!(
        created.iter().filter(|tx| tx["state"] == "CREATED").count(),
        5,
        "no nonce is bound"
    );
    assert!(!stage.node.has_any(&stage.signer, "FAILED").await);
    stage.finding("insufficient-funds").await;

    stage.anvil.set_balance(&stage.signer, enough).await;
    let txs = stage.all_confirmed(25).await;
    stage.assert_mined_once(&txs, &[]).await;
    stage.event("FUNDED").await;
    let kinds: Vec<Value> =
        stage.events().await.iter().map(|event| event["kind"].clone()).collect();
    assert_eq!(kinds, ["STARTED", "UNFUNDED", "FUNDED"], "told once, and not for a try in vain");
    stage.tells_of_money(|balance, runway| balance > 1.0 && runway > 25.0).await;
    stage.is_healthy().await;
}

impl Stage {
    /// The gauges of what the account has and how far that goes become like this.
    async fn tells_of_money(&self, like: impl Fn(f64, f64) -> bool) {
        eventually("the gauges to tell what the account has", async || {
            let page = self.node.get("/metrics").await.text;
            let gauge = |name: &str| {
                let of_signer = |line: &&str| {
                    line.starts_with(name)
                        && line.to_lowercase().contains(&self.signer.to_lowercase())
                };
                page.lines().find(of_signer)?.rsplit_once(' ')?.1.parse::<f64>().ok()
            };
            let balance = gauge("stile_signer_balance_ether")?;
            let runway = gauge("stile_signer_runway_transactions")?;
            like(balance, runway).then_some(())
        })
        .await;
    }
}

/// The only endpoint says for a while that a unit of gas costs a fortune. What is signed meanwhile cannot be
/// paid for.
///
/// Fails if that waits for money that nobody needs once the endpoint has come to itself, or if what is
/// withdrawn meanwhile waits with it.
async fn hole_42_mad_fees_are_over_when_the_endpoint_is_well_again(backend: Backend) {
    let stage = waiting(&backend).await;
    stage.in_flight(1..=1).await;
    stage.mine(2).await;
    // An ether for a unit of gas.
    let mad = "0xde0b6b3a7640000";
    stage.proxy.lie("eth_feeHistory", move |_, _| {
        let fees = vec![mad; 21];
        Some(json!({ "oldestBlock": "0x1", "baseFeePerGas": fees, "gasUsedRatio": vec![0.5; 20] }))
    });
    stage.mine(2).await;
    let priced = async || {
        let facts = stage.doctor().await;
        (facts["facts"]["marketFeePerGas"] == "1000000000000000000").then_some(())
    };
    eventually("the mad price to be believed", priced).await;
    let txs = stage.hand_over(2..=5).await;
    stage.event("UNFUNDED").await;
    stage.finding("insufficient-funds").await;
    stage.proxy.heal().await;
    let cancelled = format!("/api/v1/tx/{}/cancel", id(&txs[3]));
    let answer = stage.node.post(&cancelled, json!({})).await;
    assert!(matches!(answer.status, 200 | 202), "{answer:?}");
    stage.anvil.set_interval_mining(1).await;
    for tx in &txs[..3] {
        let tx = stage.node.reaches(id(tx), "CONFIRMED").await;
        let attempts = stage.node.attempts(id(&tx)).await;
        let offer = |place: usize| text(&attempts[place]["maxFeePerGas"]).parse::<u128>().unwrap();
        assert!(attempts.len() > 1 && offer(attempts.len() - 1) < offer(0), "{attempts:#?}");
    }
    stage.node.reaches(id(&txs[3]), "FAILED").await;
    stage.event("FUNDED").await;
    stage.is_healthy().await;
}

on_both_stores!(
    an_account_that_is_emptied_in_a_burst_waits_for_money,
    hole_42_mad_fees_are_over_when_the_endpoint_is_well_again,
);
