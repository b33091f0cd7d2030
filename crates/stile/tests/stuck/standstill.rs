//! What is offered while nothing happens on a chain, or nothing but Stile's own transactions.

use serde_json::{Value, json};
use stile::U256;
use testkit::{eventually, eventually_within};

use crate::stage::{LONG, SEND, Stage};
use crate::support::{Backend, id, text, transfer};

impl Stage {
    async fn kinds(&self, tx: &Value) -> Vec<String> {
        let attempts = self.node.attempts(id(tx)).await;
        attempts.iter().map(|attempt| text(&attempt["kind"]).to_owned()).collect()
    }

    /// Asks for something, and waits until a transaction has so many attempts.
    async fn wish(&self, tx: &Value, what: &str, attempts: usize) -> Value {
        let answer = self.node.post(&format!("/api/v1/tx/{}/{what}", id(tx)), json!({})).await;
        assert_eq!(answer.status, 202, "{answer:?}");
        eventually("a new attempt", async || {
            let mut all = self.node.attempts(id(tx)).await;
            (all.len() >= attempts).then(|| all.pop()).flatten()
        })
        .await
    }
}

/// The chain node says that it has the transaction, and no block has it: first because there is none,
/// then because it was swallowed.
///
/// Fails if more is offered on a chain that stands still, or no more is offered once it goes on.
async fn hole_38_no_fee_is_raised_while_no_block_is_made(backend: Backend) {
    let stage = Stage::new(&backend, |options| {
        options.set("tx.resubmit.interval", "1s").set("tx.resubmit.bump_after", "1s")
    })
    .await;
    stage.mine(1).await;
    stage.proxy.swallow_sends();
    let tx = stage.in_flight(1..=1).await.remove(0);
    // A second each, at least.
    eventually_within(LONG, "it to be sent again and again", async || {
        (stage.proxy.count(SEND) >= 6).then_some(())
    })
    .await;
    assert_eq!(stage.kinds(&tx).await, ["SEND"], "there was no block that could have had it");
    eventually_within(LONG, "more to be offered", async || {
        stage.anvil.mine(1).await;
        stage.kinds(&tx).await.contains(&"BUMP".to_owned()).then_some(())
    })
    .await;
    stage.proxy.heal().await;
    let txs = stage.all_confirmed(1).await;
    stage.assert_mined_once(&txs, &[]).await;
}

/// A lane is stopped because its account cannot pay for the lowest, and the one above it is withdrawn.
///
/// Fails if the empty transaction, for which there is enough, waits for money too.
async fn hole_38_a_cancel_goes_out_at_once(backend: Backend) {
    const ETHER: u64 = 1_000_000_000_000_000_000;
    let stage = Stage::new(&backend, |options| options.set("tx.resubmit.interval", "1h")).await;
    stage.mine(1).await;
    stage.proxy.hold(SEND);
    let bodies = [transfer(&stage.signer, ETHER), transfer(&stage.signer, 2)];
    let txs = stage.node.send_all(&bodies).await;
    for tx in &txs {
        stage.node.becomes(id(tx), "its nonce", |tx| tx["nonce"].is_u64()).await;
    }
    stage.anvil.set_balance(&stage.signer, U256::from(ETHER / 2)).await;
    stage.proxy.release();
    stage.finding("insufficient-funds").await;
    for tx in txs.iter().rev() {
        let empty = stage.wish(tx, "cancel", 2).await;
        assert_eq!(empty["kind"], "CANCEL");
        eventually("the empty one to be sent", async || {
            let hash = text(&empty["txHash"]);
            let sent = stage.proxy.sent_raw();
            sent.iter().any(|sent| sent.hash.to_string() == hash).then_some(())
        })
        .await;
    }
    stage.anvil.set_interval_mining(1).await;
    for tx in &txs {
        let done = stage.node.reaches(id(tx), "FAILED").await;
        assert_eq!(done["subState"], "CANCELLED", "{done:#}");
    }
}

/// Nobody else sends anything, and everything is raised before it is mined.
///
/// Fails if what was paid for one makes the next one offer more from the start.
async fn hole_38_own_bids_do_not_feed_the_quote(backend: Backend) {
    let stage = Stage::new(&backend, |options| options.set("tx.resubmit.interval", "1h")).await;
    stage.mine(2).await;
    let mut tips = Vec::new();
    for round in 1..=5 {
        let tx = stage.in_flight(round..=round).await.remove(0);
        stage.wish(&tx, "speed-up", 2).await;
        let newest = stage.wish(&tx, "speed-up", 3).await;
        eventually("the newest to be in the pool", async || {
            stage.anvil.raw_transaction(text(&newest["txHash"])).await.map(|_| ())
        })
        .await;
        stage.mine(1).await;
        stage.node.reaches(id(&tx), "TRACKING").await;
        let attempts = stage.node.attempts(id(&tx)).await;
        let tip =
            |attempt: &Value| -> u128 { text(&attempt["maxPriorityFeePerGas"]).parse().unwrap() };
        assert!(tip(&attempts[2]) > tip(&attempts[0]), "{attempts:#?}");
        tips.push(tip(&attempts[0]));
    }
    assert!(tips.iter().all(|tip| *tip <= tips[0]), "{tips:?}");
    let txs = stage.all_confirmed(5).await;
    stage.assert_mined_once(&txs, &[]).await;
}

on_both_stores!(
    hole_38_no_fee_is_raised_while_no_block_is_made,
    hole_38_a_cancel_goes_out_at_once,
    hole_38_own_bids_do_not_feed_the_quote,
);
