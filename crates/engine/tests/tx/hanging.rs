//! A chain that takes questions and does not answer, beside one that does.

use std::sync::Arc;
use std::time::Duration;

use stile_chain::{Chains, PoolOptions, TxSigner};
use stile_domain::{ChainId, Lane, TxState};
use stile_engine::{Managed, Node, Settings, Signers};
use testkit::{Anvil, AnvilOptions, RpcProxy, eventually_within};

use crate::common::{Bench, on, on_both_stores};
use crate::setup::{LONG, chain, get, lane, send, settings, signer, transfer, until};

on_both_stores!(hole_26_a_hanging_chain_does_not_hold_up_the_gaps_of_another);

const COUNT: &str = "eth_getTransactionCount";

async fn hole_26_a_hanging_chain_does_not_hold_up_the_gaps_of_another(bench: Bench) {
    let (healthy, dead) = (chain(true).await, ChainId::new(5).unwrap());
    let other = Anvil::start(AnvilOptions { chain_id: 5, ..AnvilOptions::default() }).await;
    let proxy = RpcProxy::start(other.url()).await;
    let settings = Settings { state_timeout: Duration::from_secs(1), ..settings(&bench, "a") };
    // Whoever waits for the chain that hangs waits for longer than the test does.
    let options = PoolOptions { answer_timeout: LONG * 10, ..PoolOptions::default() };
    let urls = [(lane(0).chain, healthy.url().to_owned()), (dead, proxy.url())];
    let urls = urls.map(|(chain, url)| (chain, vec![url]));
    let chains = Arc::new(Chains::new(urls, options).unwrap());
    let mut signers = Signers::new();
    for chain in [lane(0).chain, dead] {
        signers.add(chain, Arc::new(signer(0))).unwrap();
    }
    let managed = Managed { chains: Arc::clone(&chains), signers, ..Managed::default() };
    let node = Node::start_managed(settings, bench.database.open(), chains, managed).await.unwrap();

    // A nonce that was given back makes the sweeper ask the chain about its lane, again and again.
    let hanging = Lane::new(dead, signer(0).address());
    let given_back = node.nonces().allocate(hanging).await.unwrap();
    let hold = node.nonces().allocate(lane(0)).await.unwrap();
    let above = send(&node, transfer(0, "above")).await;
    until(&node, above.id, TxState::Submitted).await;
    proxy.hold(COUNT);
    proxy.reset();
    node.nonces().mark_recyclable(&given_back, "not needed after all").await.unwrap();
    // Once for the sweeper, once for reconciliation, and once because it was given back just now.
    eventually_within(LONG, "everybody to wait for the dead chain", async || {
        (proxy.count(COUNT) >= 3).then_some(())
    })
    .await;
    node.nonces().mark_recyclable(&hold, "not needed after all").await.unwrap();
    eventually_within(LONG, "the gap to be filled", async || get(&node, above.id).await.receipt)
        .await;
    proxy.release();
    node.shutdown().await;
}
