//! Hole 14: a hold that ran out is given to somebody else although its caller did send.

use std::sync::Arc;

use stile_domain::{HeldExpiry, Hold, HoldStatus};
use stile_engine::{Node, Settings};
use testkit::{Anvil, AnvilOptions, eventually};

use crate::common::{
    Bench, Chain, hold_as_it_stands, in_every_setup, lane_of, on, status, until_status,
};

in_every_setup!(
    hole_14_a_nonce_sent_by_a_silent_caller_is_not_given_out_again,
    hole_14_a_silent_callers_nonce_waits_for_its_word,
    a_deployment_may_promise_that_nobody_sends_late,
);

/// A chain that makes no block by itself, and a node whose holds run out after a second.
struct Scene {
    anvil: Anvil,
    account: String,
    chain: Arc<Chain>,
    node: Node,
}

impl Scene {
    async fn new(bench: &Bench, settings: Settings) -> Self {
        let options = AnvilOptions { no_mining: true, accounts: 1, ..AnvilOptions::default() };
        let anvil = Anvil::start(options).await;
        let account = anvil.accounts().await.remove(0);
        let chain = Arc::new(Chain::of(&anvil));
        let node = bench.start_with(settings, Arc::clone(&chain) as _).await;
        Self { anvil, account, chain, node }
    }

    async fn allocate(&self) -> Hold {
        self.node.nonces().allocate(lane_of(&self.account)).await.expect("a nonce")
    }

    /// Waits until a hold has run out, and the chain has been asked about what became of it.
    async fn ran_out(&self, bench: &Bench, hold: &Hold) {
        eventually("the hold to run out", async || {
            (status(&*bench.store, hold).await != HoldStatus::Held).then_some(())
        })
        .await;
        self.asked_again().await;
    }

    /// Waits until the chain has been asked, and has answered, twice from now on: the first
    /// question may have been under way.
    async fn asked_again(&self) {
        let lane = lane_of(&self.account);
        let before = self.chain.answered(lane);
        eventually("two answers of the chain", async || {
            (self.chain.answered(lane) >= before + 2).then_some(())
        })
        .await;
    }
}

async fn hole_14_a_nonce_sent_by_a_silent_caller_is_not_given_out_again(bench: Bench) {
    let scene = Scene::new(&bench, bench.impatient("a")).await;
    let silent = scene.allocate().await;
    assert_eq!(silent.nonce, 0);
    scene.anvil.send_transfer(&scene.account, Some(0)).await;
    assert_eq!(scene.allocate().await.nonce, 1);
    scene.ran_out(&bench, &silent).await;
    // In nobody's block yet, the transaction is no evidence, and the chain says nothing of it.
    assert_eq!(scene.allocate().await.nonce, 2);
    assert_eq!(status(&*bench.store, &silent).await, HoldStatus::Suspect);
    scene.anvil.mine(1).await;
    until_status(&*bench.store, &silent, HoldStatus::Consumed).await;
    assert_eq!(scene.allocate().await.nonce, 3);
}

async fn hole_14_a_silent_callers_nonce_waits_for_its_word(bench: Bench) {
    let scene = Scene::new(&bench, bench.impatient("a")).await;
    let silent = scene.allocate().await;
    scene.ran_out(&bench, &silent).await;
    for nonce in 1..4 {
        assert_eq!(scene.allocate().await.nonce, nonce);
    }
    scene.asked_again().await;
    assert_eq!(status(&*bench.store, &silent).await, HoldStatus::Suspect);
    assert_eq!(scene.allocate().await.nonce, 4);

    let given_back =
        scene.node.nonces().mark_recyclable(&silent, "crashed before sending").await.unwrap();
    assert_eq!(given_back.status, HoldStatus::Released);
    let next = scene.allocate().await;
    assert_eq!(next.nonce, 0);
    assert_ne!(next.id, silent.id);
    let past = hold_as_it_stands(&*bench.store, &silent).await;
    assert_eq!(past.status, HoldStatus::Released);
}

async fn a_deployment_may_promise_that_nobody_sends_late(bench: Bench) {
    let settings = Settings { held_expiry: HeldExpiry::Reclaim, ..bench.impatient("a") };
    let scene = Scene::new(&bench, settings).await;
    let silent = scene.allocate().await;
    assert_eq!(silent.nonce, 0);
    until_status(&*bench.store, &silent, HoldStatus::Released).await;
    // On offer once the chain has been asked about it; until then, fresh ones.
    eventually("the nonce to be given out again", async || {
        (scene.allocate().await.nonce == 0).then_some(())
    })
    .await;
}
