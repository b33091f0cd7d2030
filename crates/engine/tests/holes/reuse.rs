//! Hole 16c: a released nonce is given out again although its transaction was mined after all, or
//! is given to a slow caller under later nonces that were sent.

use std::collections::HashSet;
use std::sync::Arc;

use stile_chain::BlockTag;
use stile_domain::{B256, Hold, HoldStatus, Nonce};
use stile_engine::{ChainQuery, Node, Settings};
use testkit::{Anvil, AnvilOptions, eventually};

use crate::common::{Bench, Chain, LANE, in_every_setup, lane, lane_of, on, status, until_status};

in_every_setup!(
    hole_16c_a_released_nonce_mined_from_outside_is_not_given_out_again,
    hole_16c_a_nonce_mined_before_its_release_is_not_given_out_again,
    hole_16c_a_released_nonce_waits_for_a_chain_that_does_not_answer,
    hole_16c_below_sent_nonces_a_release_is_kept_for_stile_where_it_has_the_key,
    hole_16c_a_nonce_on_offer_is_withdrawn_when_later_ones_are_sent,
    hole_16c_without_a_key_the_next_caller_gets_what_was_released,
    the_lowest_released_nonce_comes_first,
);

/// A chain that makes a block for every transaction, and a node that asks it.
struct Scene {
    anvil: Anvil,
    account: String,
    chain: Arc<Chain>,
    node: Node,
}

impl Scene {
    /// With or without the signer's key in Stile's hands.
    async fn new(bench: &Bench, has_key: bool) -> Self {
        let anvil = Anvil::start(AnvilOptions { accounts: 1, ..AnvilOptions::default() }).await;
        let account = anvil.accounts().await.remove(0);
        let chain = Arc::new(Chain::of(&anvil));
        let settings = asking(bench, has_key.then(|| lane_of(&account)));
        let node = bench.start_with(settings, Arc::clone(&chain) as _).await;
        Self { anvil, account, chain, node }
    }

    async fn allocate(&self) -> Hold {
        self.node.nonces().allocate(lane_of(&self.account)).await.expect("a nonce")
    }

    async fn release(&self, hold: &Hold) {
        let hold = self.node.nonces().mark_recyclable(hold, "changed our mind").await.unwrap();
        assert_eq!(hold.status, HoldStatus::Released);
    }

    /// Sends with a hold's nonce, and says so.
    async fn send(&self, hold: &Hold) {
        let hash = self.anvil.send_transfer(&self.account, Some(hold.nonce)).await;
        self.node.nonces().mark_used(hold, hash.parse().unwrap()).await.unwrap();
    }

    /// Waits until every nonce up to this one is in a block.
    async fn until_mined(&self, nonce: Nonce) {
        eventually("a block", async || {
            (self.anvil.nonce(&self.account, "latest").await > nonce).then_some(())
        })
        .await;
    }

    /// Uses a nonce behind Stile's back.
    async fn mine_from_outside(&self, nonce: Nonce) {
        self.anvil.send_transfer(&self.account, Some(nonce)).await;
        self.until_mined(nonce).await;
    }
}

/// Settings of a node that asks the chain when there is reason to.
fn asking(bench: &Bench, key: Option<stile_domain::Lane>) -> Settings {
    Settings {
        chain_query: ChainQuery::Enabled(BlockTag::Latest),
        signs_for: HashSet::from_iter(key),
        ..bench.settings("a")
    }
}

async fn hole_16c_a_released_nonce_mined_from_outside_is_not_given_out_again(bench: Bench) {
    let scene = Scene::new(&bench, false).await;
    let released = scene.allocate().await;
    assert_eq!(released.nonce, 0);
    scene.release(&released).await;
    scene.mine_from_outside(0).await;
    assert_eq!(scene.allocate().await.nonce, 1);
    until_status(&*bench.store, &released, HoldStatus::Consumed).await;
    assert_eq!(scene.allocate().await.nonce, 2);
}

async fn hole_16c_a_nonce_mined_before_its_release_is_not_given_out_again(bench: Bench) {
    let scene = Scene::new(&bench, false).await;
    let released = scene.allocate().await;
    scene.mine_from_outside(0).await;
    scene.release(&released).await;
    assert_eq!(scene.allocate().await.nonce, 1);
    until_status(&*bench.store, &released, HoldStatus::Consumed).await;
}

async fn hole_16c_a_released_nonce_waits_for_a_chain_that_does_not_answer(bench: Bench) {
    let scene = Scene::new(&bench, false).await;
    let lane = lane_of(&scene.account);
    let (first, second) = (scene.allocate().await, scene.allocate().await);
    scene.chain.fail(lane, true);
    scene.release(&first).await;
    assert_eq!(scene.allocate().await.nonce, 2);
    scene.chain.hang(lane);
    scene.chain.fail(lane, false);
    // The caller is not kept waiting for the chain for long, nor is the next one.
    scene.release(&second).await;
    assert_eq!(scene.allocate().await.nonce, 3);
    assert_eq!(status(&*bench.store, &first).await, HoldStatus::Released);

    scene.mine_from_outside(0).await;
    scene.chain.answer(lane);
    until_status(&*bench.store, &first, HoldStatus::Consumed).await;
    assert_eq!(status(&*bench.store, &second).await, HoldStatus::Released);
}

async fn hole_16c_below_sent_nonces_a_release_is_kept_for_stile_where_it_has_the_key(bench: Bench) {
    let scene = Scene::new(&bench, true).await;
    let (low, high) = (scene.allocate().await, scene.allocate().await);
    scene.send(&high).await;
    scene.release(&low).await;
    assert_eq!(scene.allocate().await.nonce, 2);
    assert_eq!(scene.allocate().await.nonce, 3);
    assert_eq!(status(&*bench.store, &low).await, HoldStatus::Released);
}

async fn hole_16c_a_nonce_on_offer_is_withdrawn_when_later_ones_are_sent(bench: Bench) {
    let scene = Scene::new(&bench, true).await;
    let (low, high) = (scene.allocate().await, scene.allocate().await);
    scene.release(&low).await;
    scene.send(&high).await;
    assert_eq!(scene.allocate().await.nonce, 2);
    assert_eq!(status(&*bench.store, &low).await, HoldStatus::Released);
}

async fn hole_16c_without_a_key_the_next_caller_gets_what_was_released(bench: Bench) {
    let scene = Scene::new(&bench, false).await;
    let (low, high) = (scene.allocate().await, scene.allocate().await);
    scene.send(&high).await;
    scene.release(&low).await;
    let again = scene.allocate().await;
    assert_eq!(again.nonce, 0);
    assert_ne!(again.id, low.id);
    // With it the chain comes unstuck: both are mined.
    scene.send(&again).await;
    scene.until_mined(1).await;
    assert_eq!(scene.allocate().await.nonce, 2);
}

async fn the_lowest_released_nonce_comes_first(bench: Bench) {
    let chain = Arc::new(Chain::default());
    let node = bench.start_with(asking(&bench, None), Arc::clone(&chain) as _).await;
    let component = node.nonces();
    chain.set(lane(LANE), 40);
    let mut holds = Vec::new();
    for _ in 0..5 {
        holds.push(component.allocate(lane(LANE)).await.unwrap());
    }
    component.mark_used(&holds[4], B256::repeat_byte(4)).await.unwrap();
    for place in [3, 0, 2] {
        component.mark_recyclable(&holds[place], "not sent").await.unwrap();
    }
    let mut next = Vec::new();
    for _ in 0..5 {
        next.push(component.allocate(lane(LANE)).await.unwrap().nonce);
    }
    assert_eq!(next, [40, 42, 43, 45, 46]);
}
