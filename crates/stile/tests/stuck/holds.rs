//! Nonces of callers who send by themselves, below transactions that wait for them.

use serde_json::{Value, json};
use testkit::eventually;

use crate::stage::{Other, Stage, assert_says, fillers};
use crate::support::{Backend, id, transfer};

const FILLED: &str = "stile_gaps_filled_total";

impl Stage {
    /// A caller takes the first nonce, and transfers wait above it.
    async fn held_below(&self, wei: std::ops::RangeInclusive<u64>) -> Value {
        let hold = self.node.allocate(&self.signer).await.ok();
        assert_eq!(hold["nonce"], 0, "{hold:#}");
        self.in_flight(wei).await;
        hold
    }
}

/// Fails if time alone is taken for proof that a caller has not sent its transaction.
async fn hole_14_a_suspect_hold_is_filled_on_a_persons_word_only(backend: Backend) {
    let stage = Stage::new(&backend, |options| options.set("nonce.hold_timeout", "1s")).await;
    let hold = stage.held_below(1..=5).await;

    let finding = stage.finding("suspect-hold").await;
    let hold_id = hold["holdId"].as_str().unwrap();
    assert_says(
        &finding["words"],
        &format!("nonce 0 was given to a caller (hold {hold_id}) whose time ran out"),
    );
    assert_eq!(finding["remedy"]["kind"], "attest", "{finding:#}");
    assert_eq!(finding["remedy"]["needsAttestation"], true, "{finding:#}");
    assert_eq!(finding["remedy"]["automatic"], false, "{finding:#}");
    assert_says(&finding["remedy"]["words"], "repair --attest 0");
    // It has been looked at, and more than once.
    let mismatches = "stile_reconcile_mismatch_total{kind=\"suspect_hold\"}";
    eventually("the lane to be looked at again", async || {
        (stage.node.metric(mismatches).await >= 3.0).then_some(())
    })
    .await;

    for body in [
        json!({}),
        json!({ "attest": [0] }),
        json!({ "apply": true }),
        json!({ "apply": true, "attest": [1, 2] }),
    ] {
        let repair = stage.repair(body.clone()).await;
        let step = &repair["steps"][0];
        assert_eq!(
            (&step["kind"], &step["needsAttestation"]),
            (&json!("attest"), &json!(true)),
            "{repair:#}"
        );
        assert_ne!(step["done"], true, "{body}: {repair:#}");
        if body["apply"] == true {
            assert_says(&step["result"], "nobody has said that it was never sent");
        }
    }
    stage.mine(3).await;
    let signer = stage.node.signer(&stage.signer).await;
    assert_eq!((&signer["suspect"], &signer["inFlight"]), (&json!(1), &json!(5)), "{signer:#}");
    assert_eq!(stage.anvil.nonce(&stage.signer, "latest").await, 0);
    assert_eq!((stage.node.metric(FILLED).await, fillers(&backend).await), (0.0, 0));
    for kind in ["REPAIRED", "GAP_FILLED"] {
        assert_eq!(stage.events_of(kind).await, [] as [Value; 0]);
    }

    let repair = stage.repair(json!({ "apply": true, "attest": [0] })).await;
    assert_eq!(repair["steps"][0]["done"], true, "{repair:#}");
    let txs = stage.all_confirmed(5).await;
    stage.assert_mined_once(&txs, &[(0, Other::Empty)]).await;
    let repaired = stage.event("REPAIRED").await;
    assert_eq!(repaired["data"]["attested"], json!([0]), "{repaired:#}");
    assert_eq!(stage.event("GAP_FILLED").await["data"]["nonce"], 0);
    assert_eq!((stage.node.metric(FILLED).await, fillers(&backend).await), (1.0, 1));
    stage.is_healthy().await;
}

/// Fails if a nonce that its caller gave back stays missing below transactions that are on the wire.
async fn hole_16c_a_released_nonce_below_others_is_filled(backend: Backend) {
    let stage = Stage::new(&backend, |options| options).await;
    let hold = stage.held_below(1..=5).await;
    let finding = stage.finding("held").await;
    assert_says(&finding["words"], "who has not sent it yet");
    stage.node.recyclable(&hold, "not sent").await.ok();
    let finding = stage.finding("gap").await;
    assert_says(&finding["words"], "nonce 0 is missing");
    assert_eq!(finding["remedy"]["kind"], "fill", "{finding:#}");
    assert_eq!(finding["remedy"]["automatic"], true, "{finding:#}");

    assert_eq!(stage.event("GAP_FILLED").await["data"]["nonce"], 0);
    let txs = stage.all_confirmed(5).await;
    stage.assert_mined_once(&txs, &[(0, Other::Empty)]).await;
    assert_eq!((stage.node.metric(FILLED).await, fillers(&backend).await), (1.0, 1));
    assert_eq!(stage.events_of("REPAIRED").await, [] as [Value; 0], "nobody had to do anything");
    stage.is_healthy().await;
}

/// Fails if an empty transaction is sent where one that does something could have been.
async fn hole_16c_a_released_nonce_goes_to_the_next_transaction(backend: Backend) {
    let stage = Stage::new(&backend, |options| options).await;
    let hold = stage.held_below(1..=5).await;
    stage.node.recyclable(&hold, "not sent").await.ok();
    let next = stage.node.send_new(&transfer(&stage.signer, 6)).await;
    let next = stage.node.reaches(id(&next), "SUBMITTED").await;
    assert_eq!(next["nonce"], 0, "{next:#}");
    let finding = stage.finding("waits-for-a-block").await;
    assert_says(&finding["words"], &format!("nonce 0 ({})", id(&next)));
    let txs = stage.all_confirmed(6).await;
    stage.assert_mined_once(&txs, &[]).await;
    assert_eq!((stage.node.metric(FILLED).await, fillers(&backend).await), (0.0, 0));
    stage.is_healthy().await;
}

/// As many are in flight as may be, and more wait, when the nonce below all of them is given back.
///
/// Fails if the gap waits for room in the window, which waits for the gap.
async fn hole_16c_a_released_nonce_is_filled_below_a_full_window(backend: Backend) {
    let stage =
        Stage::new(&backend, |options| options.set_literal("lane.max_in_flight", "5")).await;
    let hold = stage.held_below(1..=5).await;
    let waiting = stage.hand_over(6..=8).await;
    for tx in &waiting {
        assert_eq!(tx["state"], "CREATED", "{tx:#}");
    }
    let full = stage.finding("window-full").await;
    assert_says(
        &full["words"],
        "5 transactions are in flight, as many as lane.max_in_flight allows; 3 wait",
    );
    stage.node.recyclable(&hold, "not sent").await.ok();
    stage.finding("gap").await;
    let txs = stage.all_confirmed(8).await;
    let filled = fillers(&backend).await;
    let others: Vec<(u64, Other)> = (0..filled as u64).map(|nonce| (nonce, Other::Empty)).collect();
    stage.assert_mined_once(&txs, &others).await;
    stage.is_healthy().await;
}

/// The holder dies with a gap below what it has sent.
///
/// Fails if the gap is filled only once somebody asks the next holder for a nonce.
async fn hole_16c_a_gap_is_filled_by_a_holder_of_whom_nobody_asks_anything(backend: Backend) {
    let mut stage = Stage::new(&backend, |options| options).await;
    let hold = stage.held_below(1..=5).await;
    stage.node.recyclable(&hold, "not sent").await.ok();
    stage.node.kill().await;
    assert_eq!(fillers(&backend).await, 0, "it was given a moment to be used");
    let options = backend.node(&stage.proxy.url()).development_keys(1);
    stage.node = options.set("nonce.state_timeout", "1s").start().await;

    assert_eq!(stage.event("GAP_FILLED").await["data"]["nonce"], 0);
    let txs = stage.all_confirmed(5).await;
    stage.assert_mined_once(&txs, &[(0, Other::Empty)]).await;
    stage.is_healthy().await;
}

on_both_stores!(
    hole_16c_a_gap_is_filled_by_a_holder_of_whom_nobody_asks_anything,
    hole_14_a_suspect_hold_is_filled_on_a_persons_word_only,
    hole_16c_a_released_nonce_below_others_is_filled,
    hole_16c_a_released_nonce_goes_to_the_next_transaction,
    hole_16c_a_released_nonce_is_filled_below_a_full_window,
);
