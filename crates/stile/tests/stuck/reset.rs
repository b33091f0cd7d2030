//! A chain that is set back: its node is restarted from an old state.

use serde_json::{Value, json};
use testkit::{AnvilOptions, eventually, free_port};

use crate::stage::{Stage, assert_says, by_hand};
use crate::support::{Backend, id};

const COUNT: u64 = 20;

fn restartable() -> AnvilOptions {
    AnvilOptions { port: free_port(), ..by_hand() }
}

/// Headers that a node keeps besides the window: see `window_limit` in the engine.
pub(crate) const KEPT_BESIDES: u64 = 72;

impl Stage {
    /// A burst that is mined and called done. Answers with the state before it.
    async fn done(&self) -> (Value, Vec<Value>) {
        self.anvil.mine(3).await;
        let state = self.anvil.dump_state().await;
        self.in_flight(1..=COUNT).await;
        self.mine(3).await;
        let done = self.node.all_confirmed(&self.signer, COUNT as usize).await;
        assert_eq!(self.anvil.nonce(&self.signer, "latest").await, COUNT);
        (state, done)
    }

    /// Sets the chain back behind the node's back, with so many blocks on top of the old state.
    pub(crate) async fn set_back(&mut self, state: &Value, blocks: u64) {
        self.proxy.refuse().await;
        self.anvil.restart(state).await;
        if blocks > 0 {
            self.anvil.mine(blocks).await;
        }
        assert_eq!(self.anvil.nonce(&self.signer, "pending").await, 0, "all of it is gone");
        let finding = self.finding("no-endpoint").await;
        assert_says(&finding["words"], "no endpoint of chain 31337 answers");
        self.proxy.heal().await;
    }

    /// All of it is confirmed again, as it was signed the first time.
    async fn all_end_well(&self, before: &[Value]) {
        let txs = self.all_confirmed(COUNT as usize).await;
        for (before, after) in before.iter().zip(&txs) {
            assert_eq!(after["txHash"], before["txHash"], "the same bytes");
            assert_ne!(after["receipt"]["blockHash"], before["receipt"]["blockHash"]);
            assert_eq!(self.node.attempts(id(after)).await.len(), 1, "nothing was signed again");
        }
        self.assert_mined_once(&txs, &[]).await;
        self.is_healthy().await;
    }
}

/// Fails if what was called done is not looked at again when the chain gets shorter.
async fn a_chain_set_back_within_reach_is_made_up_for(backend: Backend) {
    let mut stage = Stage::on(restartable(), &backend, |options| options).await;
    let (state, done) = stage.done().await;
    // A head that is known is only late (hole 24): the first block of the new chain tells.
    stage.set_back(&state, 1).await;
    eventually("all of them to be in the pool again", async || {
        (stage.anvil.nonce(&stage.signer, "pending").await == COUNT).then_some(())
    })
    .await;
    let finding = stage.finding("waits-for-a-block").await;
    assert_says(&finding["words"], &format!("nonce 0 ({}) is with the endpoints", id(&done[0])));
    stage.all_end_well(&done).await;
    let kinds: Vec<Value> =
        stage.events().await.iter().map(|event| event["kind"].clone()).collect();
    assert_eq!(kinds, ["STARTED"], "nobody had to do anything");
}

/// Fails if a lane goes on over a chain that has lost what was final, if nobody is asked, or if what
/// was lost is not sent again.
async fn a_chain_set_back_beyond_reach_waits_for_a_person(backend: Backend) {
    const REORG_WINDOW: u64 = 3;
    let mut stage = Stage::on(restartable(), &backend, |options| {
        options.set_literal("confirmations.reorg_window", REORG_WINDOW.to_string())
    })
    .await;
    let (state, done) = stage.done().await;
    // None of the headers that the node keeps is as old as what was mined.
    stage.mine(REORG_WINDOW + KEPT_BESIDES + 30).await;
    stage.set_back(&state, REORG_WINDOW + KEPT_BESIDES).await;

    let finding = stage.finding("chain-reset").await;
    assert_says(
        &finding["words"],
        "the chain waits for nonce 0, which is on record as used and final",
    );
    assert_says(&finding["remedy"]["words"], "send the stored bytes of the lost transactions");
    let reason = stage.paused().await;
    assert!(reason.contains("it has lost transactions, or was reset"), "{reason}");
    assert_says(&stage.finding("paused").await["words"], &reason);
    let reset = stage.event("CHAIN_RESET").await;
    assert_eq!(reset["data"]["chainNonce"], 0, "{reset:#}");
    stage.event("PAUSED").await;
    assert_eq!(stage.anvil.nonce(&stage.signer, "pending").await, 0, "nothing is sent meanwhile");
    for tx in &done {
        assert_eq!(stage.node.tx(id(tx)).await["state"], "CONFIRMED");
    }

    let steps = [
        "send the stored bytes of 20 transactions once more, from nonce 0 on: the chain has lost them",
        "give out nonces again, from 20 on",
    ];
    assert_eq!(stage.resume_dry().await, steps);
    assert_eq!(stage.anvil.nonce(&stage.signer, "pending").await, 0, "a dry run sends nothing");
    assert_eq!(stage.resume().await, steps);
    stage.all_end_well(&done).await;
    for tx in &done {
        let event = stage.node.last_event(id(tx), "REORGED").await.expect("it is told");
        assert_eq!(event["data"]["reason"], json!("the chain has lost it"), "{event:#}");
    }
    let kinds: Vec<Value> =
        stage.events().await.iter().map(|event| event["kind"].clone()).collect();
    assert_eq!(kinds, ["STARTED", "CHAIN_RESET", "PAUSED", "RESUMED"]);
}

on_both_stores!(
    a_chain_set_back_within_reach_is_made_up_for,
    a_chain_set_back_beyond_reach_waits_for_a_person,
);
