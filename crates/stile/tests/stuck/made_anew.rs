//! A transaction that was made anew, and whose nonce the chain gives back.
//!
//! Fails if both are executed: the one that lost its nonce to an outsider, and the one in its place.

use serde_json::{Value, json};
use testkit::{AnvilOptions, free_port};

use crate::outside;
use crate::reset::KEPT_BESIDES;
use crate::stage::{Other, Stage, by_hand};
use crate::support::{Backend, id, text, transfer};

const WINDOW: u64 = 3;

impl Stage {
    /// A transaction that lost its nonce to an outsider, in a block that the node has seen, and that is
    /// to be made anew.
    async fn lost_to_an_outsider(&self) -> Value {
        let mut body = transfer(&self.signer, 7);
        body["payload"]["resendIfReplaced"] = json!(true);
        let first = self.node.send_new(&body).await;
        self.node.reaches(id(&first), "SUBMITTED").await;
        self.outsider(0).await;
        self.mine(1).await;
        self.node.becomes(id(&first), "a rival", |tx| !tx["rival"].is_null()).await
    }

    /// The same once it has failed, and the one in its place.
    async fn made_anew(&self, first: &Value) -> (Value, Value) {
        let failed = self.node.reaches(id(first), "FAILED").await;
        let anew = self.node.tx(text(&failed["replacedBy"])).await;
        (failed, anew)
    }
}

/// The one in its place has a nonce: the first one stays closed, and an empty one takes its nonce.
async fn hole_27_a_deep_reorganisation_does_not_bring_back_what_was_made_anew(backend: Backend) {
    let stage = outside::stage(&backend, |options| {
        options
            .set("lane.outside_use", "follow")
            .set_literal("confirmations.reorg_window", WINDOW.to_string())
    })
    .await;
    stage.anvil.mine(3).await;
    let first = stage.lost_to_an_outsider().await;
    stage.mine(WINDOW).await;
    let (failed, anew) = stage.made_anew(&first).await;
    let anew = stage.node.reaches(id(&anew), "SUBMITTED").await;
    assert_eq!(anew["nonce"], 1, "{anew:#}");

    // Deeper than the window, and not deeper than the headers that are kept.
    stage.anvil.reorg(WINDOW + 1, &[]).await;
    assert_eq!(stage.anvil.nonce(&stage.signer, "latest").await, 0, "the outsider's is gone");
    let reason = stage.paused().await;
    assert!(reason.contains("is not on the chain any more"), "{reason}");
    assert_eq!(stage.node.tx(id(&first)).await["state"], "FAILED");
    let steps = [
        "send the stored bytes of 0 transactions once more, from nonce 0 on: the chain has lost them".into(),
        format!(
            "{} is not sent again, since it was made anew as {}: an empty transaction takes its nonce 0",
            id(&first),
            id(&anew)
        ),
        "give out nonces again, from 2 on".into(),
    ];
    assert_eq!(stage.resume_dry().await, steps);
    assert_eq!(stage.node.attempts(id(&first)).await.len(), 1, "a dry run signs nothing");
    assert_eq!(stage.resume().await, steps);

    let txs = stage.all_done(2).await;
    assert_eq!(
        (&txs[0]["state"], &txs[0]["replacedBy"]),
        (&json!("FAILED"), &failed["replacedBy"])
    );
    assert_eq!((&txs[1]["state"], &txs[1]["nonce"]), (&json!("CONFIRMED"), &json!(1)));
    stage.assert_mined_once(&txs[1..], &[(0, Other::Empty)]).await;
    stage.is_healthy().await;
}

/// The one in its place has no nonce yet: it is withdrawn, and the first one is sent again.
async fn hole_27_after_a_reset_one_of_the_two_is_sent(backend: Backend) {
    let chain =
        AnvilOptions { port: free_port(), arguments: vec!["--order=fifo".to_owned()], ..by_hand() };
    let mut stage = Stage::on(chain, &backend, |options| {
        options.set_literal("confirmations.reorg_window", WINDOW.to_string())
    })
    .await;
    stage.anvil.mine(3).await;
    let state = stage.anvil.dump_state().await;
    let first = stage.lost_to_an_outsider().await;
    stage.paused().await;
    stage.mine(WINDOW + KEPT_BESIDES + 30).await;
    let (_, anew) = stage.made_anew(&first).await;
    assert_eq!((&anew["state"], &anew["nonce"]), (&json!("CREATED"), &Value::Null), "{anew:#}");

    stage.set_back(&state, WINDOW + KEPT_BESIDES).await;
    stage.finding("chain-reset").await;
    let steps = [
        "send the stored bytes of 1 transactions once more, from nonce 0 on: the chain has lost them".into(),
        format!(
            "withdraw {}, which has no nonce yet: {}, in whose place it was made, is sent again",
            id(&anew),
            id(&first)
        ),
        "give out nonces again, from 1 on".into(),
    ];
    assert_eq!(stage.resume_dry().await, steps);
    assert_eq!(stage.node.tx(id(&anew)).await["state"], "CREATED", "a dry run withdraws nothing");
    assert_eq!(stage.resume().await, steps);

    let txs = stage.all_done(2).await;
    assert_eq!((&txs[0]["state"], &txs[0]["nonce"]), (&json!("CONFIRMED"), &json!(0)));
    assert_eq!((&txs[1]["state"], &txs[1]["subState"]), (&json!("FAILED"), &json!("CANCELLED")));
    stage.assert_mined_once(&txs[..1], &[]).await;
    stage.is_healthy().await;
}

on_both_stores!(
    hole_27_a_deep_reorganisation_does_not_bring_back_what_was_made_anew,
    hole_27_after_a_reset_one_of_the_two_is_sent,
);
