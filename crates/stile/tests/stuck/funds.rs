//! An account that is emptied.

use serde_json::Value;
use testkit::{eventually, eventually_within};

use crate::stage::{LONG, SEND, Stage, assert_says};
use crate::support::{Backend, text};

/// A burst, half of which a chain node has; then the money goes. The blocks leave out what cannot be
/// paid for, and pools forget it.
///
/// Fails if what cannot be paid for is given up or is sent in circles, if nonces are bound for what
/// cannot be sent, or if nobody notices that there is money again.
async fn an_account_that_is_emptied_in_a_burst_waits_for_money(backend: Backend) {
    let stage = Stage::new(&backend, |options| options).await;
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

on_both_stores!(an_account_that_is_emptied_in_a_burst_waits_for_money);
