//! Removing holds that are over.

use std::sync::Arc;
use std::time::Duration;

use stile_chain::BlockTag;
use stile_domain::{B256, Hold};
use stile_engine::{ChainQuery, NonceError, Retention, Settings};
use testkit::eventually;

use crate::common::{
    Bench, Chain, LANE, in_every_setup, key, lane, on, on_both_stores, once_reachable,
};

in_every_setup!(a_hold_goes_once_the_chain_shows_its_nonce_used);

on_both_stores!(a_chain_that_is_silent_shows_nothing);

fn forgetful(bench: &Bench) -> Settings {
    Settings {
        chain_query: ChainQuery::Enabled(BlockTag::Latest),
        retention: Retention { finished: None, holds: Some(Duration::ZERO) },
        ..bench.settings("a")
    }
}

async fn is_there(bench: &Bench, hold: &Hold) -> bool {
    let found = bench.store.read_back(hold.lane, &[(hold.nonce, hold.id)]).await.unwrap();
    !found.is_empty()
}

async fn gone(bench: &Bench, hold: &Hold) {
    eventually("the hold to be removed", async || (!is_there(bench, hold).await).then_some(()))
        .await;
}

async fn a_hold_goes_once_the_chain_shows_its_nonce_used(bench: Bench) {
    let chain = Arc::new(Chain::default());
    let node = bench.start_with(forgetful(&bench), Arc::clone(&chain) as _).await;
    let component = node.nonces();
    let keys = ["one", "two", "three"].map(|name| key("shop", name));
    let mut holds = Vec::new();
    for key in &keys {
        holds.push(component.allocate_once(lane(LANE), key.clone()).await.unwrap());
    }
    for hold in &holds[..2] {
        component.mark_used(hold, B256::repeat_byte(1)).await.unwrap();
    }
    chain.set(lane(LANE), 1);
    gone(&bench, &holds[0]).await;
    assert!(is_there(&bench, &holds[1]).await, "the chain does not show it");
    chain.set(lane(LANE), 3);
    gone(&bench, &holds[1]).await;
    assert!(is_there(&bench, &holds[2]).await, "somebody still has it");
    let late = component.mark_used(&holds[0], B256::repeat_byte(1)).await;
    assert!(matches!(late, Err(NonceError::HoldNotFound)), "{late:?}");
    // The key is forgotten with its hold, and the nonce is not given out again.
    let again = component.allocate_once(lane(LANE), keys[0].clone()).await.unwrap();
    assert_eq!(again.nonce, 3);
    assert_eq!(component.allocate_once(lane(LANE), keys[2].clone()).await.unwrap(), holds[2]);
    assert_eq!(node.shutdown().await, 0);
}

async fn a_chain_that_is_silent_shows_nothing(bench: Bench) {
    let chain = Arc::new(Chain::default());
    chain.set(lane(LANE), 0);
    let node = bench.start_with(forgetful(&bench), Arc::clone(&chain) as _).await;
    let hold = node.nonces().allocate(lane(LANE)).await.unwrap();
    chain.fail(lane(LANE), true);
    let asked = chain.asked(lane(LANE));
    node.nonces().mark_used(&hold, B256::repeat_byte(1)).await.unwrap();
    eventually("the chain to be asked", async || {
        (chain.asked(lane(LANE)) > asked + 1).then_some(())
    })
    .await;
    assert!(is_there(&bench, &hold).await);
    chain.fail(lane(LANE), false);
    chain.set(lane(LANE), 1);
    gone(&bench, &hold).await;
    node.shutdown().await;
}

/// A database that is away for a while ends nothing: what is over goes when it is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_comes_back_is_swept_again() {
    let bench = Bench::postgres(crate::common::QUEUE).await;
    let chain = Arc::new(Chain::default());
    let (proxy, store) = bench.database.open_proxied().await;
    let node = stile_engine::Node::start(forgetful(&bench), store, Arc::clone(&chain) as _).await;
    let node = node.unwrap();
    let hold = node.nonces().allocate(lane(LANE)).await.unwrap();
    node.nonces().mark_used(&hold, B256::repeat_byte(1)).await.unwrap();
    proxy.cut().await;
    let refused = node.nonces().allocate(lane(LANE)).await;
    assert!(refused.is_err(), "{refused:?}");
    chain.set(lane(LANE), 1);
    proxy.heal().await;
    once_reachable(&node, lane(LANE)).await.unwrap();
    gone(&bench, &hold).await;
    node.shutdown().await;
}
