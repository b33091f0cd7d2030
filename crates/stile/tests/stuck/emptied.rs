//! A chain that is emptied: its node is started again with nothing, under the same number.

use serde_json::{Value, json};
use testkit::{AnvilOptions, eventually, free_port};

use crate::common::NodeOptions;
use crate::stage::{SEND, Stage, assert_says};
use crate::support::{Backend, id};

/// Mines on demand, and can be started again at the same address.
fn on_demand() -> AnvilOptions {
    AnvilOptions { port: free_port(), ..Default::default() }
}

fn reorg_window_of_3(options: NodeOptions, required: u32) -> NodeOptions {
    options
        .set_literal("confirmations.reorg_window", "3")
        .set_literal("confirmations.required", required.to_string())
}

impl Stage {
    /// The chain has nothing but another first block, and so many blocks on top of it.
    async fn emptied(&mut self, blocks: u64) {
        self.proxy.refuse().await;
        let first = self.first_block().await;
        // Its hash has the second in which the chain was begun, and no more.
        eventually("another first block", async || {
            self.anvil.restart_empty().await;
            (self.first_block().await != first).then_some(())
        })
        .await;
        if blocks > 0 {
            self.anvil.mine(blocks).await;
        }
        self.proxy.reset();
        self.proxy.heal().await;
    }

    async fn first_block(&self) -> Value {
        let block = self.anvil.rpc("eth_getBlockByNumber", json!(["0x0", false])).await;
        block["hash"].clone()
    }

    /// Waits until lanes were compared with their chain so many times.
    async fn compared(&self, times: u64) {
        let before = self.proxy.count("eth_getTransactionCount");
        eventually("lanes to be compared with their chain", async || {
            let now = self.proxy.count("eth_getTransactionCount");
            (now >= before + times).then_some(())
        })
        .await;
    }

    fn assert_nothing_was_sent(&self) {
        assert_eq!(self.proxy.count(SEND), 0, "a person decides: {}", self.node.process.stderr());
    }

    /// All of them are on the new chain, under the hashes that they had, and done.
    async fn all_end_as_before(&self, before: &[Value]) {
        eventually("all of them to be on the new chain", async || {
            let count = self.anvil.nonce(&self.signer, "latest").await;
            (count == before.len() as u64).then_some(())
        })
        .await;
        self.anvil.mine(5).await;
        let after = self.node.all_confirmed(&self.signer, before.len()).await;
        for (before, after) in before.iter().zip(&after) {
            assert_eq!(after["txHash"], before["txHash"], "the same bytes");
            assert_ne!(after["receipt"]["blockHash"], before["receipt"]["blockHash"]);
            assert_eq!(self.node.attempts(id(after)).await.len(), 1, "nothing was signed again");
        }
        self.assert_mined_once(&after, &[]).await;
        self.is_healthy().await;
    }
}

/// Fails if what was far below the window is sent by itself once its block is gone: at once, while
/// the chain is shorter than it was, or when it has grown past that.
async fn hole_39_what_was_deep_is_not_sent_by_itself(backend: Backend) {
    let mut stage = Stage::on(on_demand(), &backend, |options| reorg_window_of_3(options, 1)).await;
    stage.hand_over(1..=12).await;
    eventually("all of them to be mined", async || {
        (stage.anvil.nonce(&stage.signer, "latest").await == 12).then_some(())
    })
    .await;
    stage.mine(20).await;
    let done = stage.node.all_confirmed(&stage.signer, 12).await;
    stage.emptied(0).await;
    let reason = stage.paused().await;
    assert!(
        reason.contains("not on the chain any more") || reason.contains("was reset"),
        "{reason}"
    );
    let finding = stage.finding("chain-reset").await;
    assert_says(&finding["remedy"]["kind"], "resume");
    stage.event("CHAIN_RESET").await;
    stage.compared(4).await;
    stage.assert_nothing_was_sent();
    // As high as some of them were, then higher than all of them.
    for blocks in [6, 60] {
        stage.mine(blocks).await;
        stage.compared(6).await;
        stage.assert_nothing_was_sent();
    }
    for tx in &done {
        assert_eq!(stage.node.tx(id(tx)).await["state"], "CONFIRMED");
    }
    let log = stage.node.process.stderr();
    let signer = stage.signer.to_lowercase();
    let is_told = |line: &str| line.contains("ERROR") && line.to_lowercase().contains(&signer);
    assert!(log.lines().any(is_told), "not at INFO only: {log}");
    stage.resume().await;
    stage.all_end_as_before(&done).await;
}

/// Everything stood within the window, and the new chain is higher than the old one at once.
///
/// Fails if what a person is to decide about is sent by itself once the chain has come as far as before.
async fn hole_39_a_higher_chain_does_not_send_by_itself(backend: Backend) {
    let mut stage = Stage::on(on_demand(), &backend, |options| {
        options.set_literal("confirmations.required", "20")
    })
    .await;
    let sent = stage.hand_over(1..=6).await;
    let mut before = Vec::new();
    for tx in &sent {
        before.push(stage.node.reaches(id(tx), "TRACKING").await);
    }
    stage.emptied(40).await;
    stage.paused().await;
    stage.compared(8).await;
    stage.assert_nothing_was_sent();
    stage.mine(30).await;
    stage.compared(8).await;
    stage.assert_nothing_was_sent();
    stage.resume().await;
    eventually("all of them to be on the new chain", async || {
        (stage.anvil.nonce(&stage.signer, "latest").await == 6).then_some(())
    })
    .await;
    stage.anvil.mine(25).await;
    let after = stage.node.all_confirmed(&stage.signer, 6).await;
    stage.assert_mined_once(&after, &[]).await;
}

/// Fails if those stay in blocks above the head that were not done when the chain was emptied: it
/// makes no blocks unless it gets transactions, so nothing ever shows that theirs are gone.
async fn hole_39_resume_brings_back_what_stood_above_the_head(backend: Backend) {
    let mut stage = Stage::on(on_demand(), &backend, |options| reorg_window_of_3(options, 3)).await;
    let before = stage.eight_in_blocks().await;
    assert!(before[5..].iter().all(|tx| tx["state"] == "TRACKING"), "{before:#?}");
    stage.emptied(0).await;
    stage.paused().await;
    stage.finding("chain-reset").await;
    stage.compared(4).await;
    stage.assert_nothing_was_sent();
    let steps = stage.resume_dry().await;
    let first = "send the stored bytes of 8 transactions once more, from nonce 0 on: the chain has lost them";
    assert_eq!(steps[0], first, "{steps:?}");
    assert_eq!(stage.resume().await, steps);
    stage.all_end_as_before(&before).await;
}

/// The chain is emptied, and goes on a little, while no node runs.
///
/// Fails if what stood below the window is sent by the next process that looks.
async fn hole_39_what_was_deep_is_not_sent_by_the_next_process(backend: Backend) {
    let mut stage = Stage::on(on_demand(), &backend, |options| reorg_window_of_3(options, 1)).await;
    stage.hand_over(1..=12).await;
    eventually("all of them to be mined", async || {
        (stage.anvil.nonce(&stage.signer, "latest").await == 12).then_some(())
    })
    .await;
    stage.mine(20).await;
    let done = stage.node.all_confirmed(&stage.signer, 12).await;
    stage.node.terminate().await;
    stage.emptied(6).await;
    let options = backend.node(&stage.proxy.url()).development_keys(1);
    let options = reorg_window_of_3(options, 1).set("nonce.state_timeout", "1s");
    stage.node = options.start().await;
    stage.paused().await;
    stage.compared(6).await;
    stage.mine(60).await;
    stage.compared(6).await;
    stage.assert_nothing_was_sent();
    for tx in &done {
        assert_eq!(stage.node.tx(id(tx)).await["state"], "CONFIRMED");
    }
    stage.resume().await;
    stage.all_end_as_before(&done).await;
}

impl Stage {
    /// Eight transactions, each in a block of its own; at least the first five of them are done.
    async fn eight_in_blocks(&self) -> Vec<Value> {
        let mut sent = Vec::new();
        for wei in 1..=8 {
            sent.extend(self.hand_over(wei..=wei).await);
            self.node.reaches(id(&sent[sent.len() - 1]), "TRACKING").await;
        }
        for tx in &sent[..5] {
            self.node.reaches(id(tx), "CONFIRMED").await;
        }
        let mut before = Vec::new();
        for tx in &sent {
            before.push(self.node.tx(id(tx)).await);
        }
        before
    }

    /// Replaces the newest blocks by empty ones, and makes another, which the node follows.
    async fn reorganise(&self, depth: u64) {
        self.anvil.reorg(depth, &[]).await;
        self.mine(1).await;
    }
}

/// The new chain is as high as some of what was lost stood, and is reorganised as any chain is.
///
/// Fails if a small reorganisation takes what waits for a person for what it replaced, and sends it.
async fn hole_39_a_reorganisation_of_the_new_chain_sends_nothing(backend: Backend) {
    let mut stage = Stage::on(on_demand(), &backend, |options| reorg_window_of_3(options, 3)).await;
    let before = stage.eight_in_blocks().await;
    stage.emptied(2).await;
    stage.paused().await;
    stage.mine(3).await;
    stage.compared(2).await;
    for _ in 0..2 {
        stage.reorganise(2).await;
        stage.compared(4).await;
        stage.assert_nothing_was_sent();
    }
    for tx in &before[..5] {
        assert_eq!(stage.node.tx(id(tx)).await["state"], "CONFIRMED");
    }
    let called = stage.events_of("CHAIN_RESET").await;
    assert_eq!(
        called.len(),
        1,
        "a person was called once: {called:#?}\n{}",
        stage.node.process.stderr()
    );
    stage.resume().await;
    stage.all_end_as_before(&before).await;
}

/// Fails if the lane is paused again by a small reorganisation that comes after a person has decided.
async fn hole_39_after_resume_reorganisations_are_followed_as_ever(backend: Backend) {
    let mut stage = Stage::on(on_demand(), &backend, |options| reorg_window_of_3(options, 1)).await;
    let before = stage.eight_in_blocks().await;
    stage.emptied(0).await;
    stage.paused().await;
    stage.resume().await;
    eventually("all of them to be on the new chain", async || {
        (stage.anvil.nonce(&stage.signer, "latest").await == 8).then_some(())
    })
    .await;
    stage.mine(1).await;
    for tx in &before {
        eventually("it to be done again", async || {
            let now = stage.node.tx(id(tx)).await;
            let is_there = now["receipt"]["blockHash"] != tx["receipt"]["blockHash"];
            (is_there && now["state"] == "CONFIRMED").then_some(())
        })
        .await;
    }
    // With the last of them.
    stage.reorganise(2).await;
    stage.all_end_as_before(&before).await;
    assert_eq!(stage.events_of("CHAIN_RESET").await.len(), 1, "a person was called once");
}

on_both_stores!(
    hole_39_a_reorganisation_of_the_new_chain_sends_nothing,
    hole_39_after_resume_reorganisations_are_followed_as_ever,
    hole_39_what_was_deep_is_not_sent_by_itself,
    hole_39_a_higher_chain_does_not_send_by_itself,
    hole_39_resume_brings_back_what_stood_above_the_head,
    hole_39_what_was_deep_is_not_sent_by_the_next_process,
);
