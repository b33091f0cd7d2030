//! Order of acceptance, full lanes, pauses, silent chains.

use stile_domain::{TxId, TxState};
use stile_engine::{Settings, TxSettings};
use testkit::eventually;

use crate::common::{Bench, on, on_both_stores};
use crate::setup::{chain, get, lane, mined, send, settings, start, transfer, until};

on_both_stores!(
    hole_16e_a_new_one_does_not_overtake_those_that_wait,
    a_paused_lane_accepts_and_goes_on_when_resumed,
    hole_16c_a_released_nonce_below_sent_ones_goes_to_the_next_transaction,
    without_a_chain_it_is_accepted_and_waits
);

async fn hole_16e_a_new_one_does_not_overtake_those_that_wait(bench: Bench) {
    const WINDOW: usize = 4;
    const COUNT: usize = 20;
    let anvil = chain(false).await;
    let usual = settings(&bench, "a");
    let tx = TxSettings { max_in_flight: WINDOW, ..usual.tx.clone() };
    let node = start(&bench, Settings { tx, ..usual }, &[anvil.url()]).await;
    let mut ids: Vec<TxId> = Vec::new();
    for n in 0..COUNT {
        ids.push(send(&node, transfer(0, &format!("{n}"))).await.id);
    }
    for id in &ids[..WINDOW] {
        until(&node, *id, TxState::Submitted).await;
    }
    assert_eq!(get(&node, ids[WINDOW]).await.standing.state, TxState::Created);
    // While the lane makes room again and again, more come: each must stay behind the older ones.
    for n in COUNT..COUNT * 2 {
        anvil.mine(1).await;
        ids.push(send(&node, transfer(0, &format!("{n}"))).await.id);
    }
    for (n, id) in ids.iter().enumerate() {
        let nonce = eventually("a nonce", async || {
            anvil.mine(1).await;
            get(&node, *id).await.nonce
        })
        .await;
        assert_eq!(nonce, n as u64, "in order of acceptance");
    }
    node.shutdown().await;
}

async fn a_paused_lane_accepts_and_goes_on_when_resumed(bench: Bench) {
    let anvil = chain(true).await;
    let node = start(&bench, settings(&bench, "a"), &[anvil.url()]).await;
    let first = send(&node, transfer(0, "first")).await;
    mined(&node, first.id).await;
    node.nonces().pause(lane(0), "for a test").await.unwrap();
    let tx = send(&node, transfer(0, "paused")).await;
    assert_eq!((tx.nonce, tx.standing.state), (None, TxState::Created));
    node.lanes().resume(lane(0), false).await.unwrap();
    mined(&node, tx.id).await;
    node.shutdown().await;
}

async fn hole_16c_a_released_nonce_below_sent_ones_goes_to_the_next_transaction(bench: Bench) {
    let anvil = chain(true).await;
    let node = start(&bench, settings(&bench, "a"), &[anvil.url()]).await;
    let hold = node.nonces().allocate(lane(0)).await.unwrap();
    assert_eq!(hold.nonce, 0);
    let above = send(&node, transfer(0, "above")).await;
    let above = until(&node, above.id, TxState::Submitted).await;
    assert_eq!(above.nonce, Some(1));
    node.nonces().mark_recyclable(&hold, "not needed after all").await.unwrap();
    // Not to a bare hold, whose caller may be slow.
    assert_eq!(node.nonces().allocate(lane(0)).await.unwrap().nonce, 2);
    let filling = send(&node, transfer(0, "filling")).await;
    let nonce = eventually("a nonce", async || get(&node, filling.id).await.nonce).await;
    assert_eq!(nonce, 0);
    mined(&node, filling.id).await;
    eventually("what was above it to be mined as well", async || {
        anvil.mine(1).await;
        get(&node, above.id).await.receipt
    })
    .await;
    node.shutdown().await;
}

async fn without_a_chain_it_is_accepted_and_waits(bench: Bench) {
    let anvil = chain(true).await;
    let address = anvil.url().trim_start_matches("http://").parse().unwrap();
    let proxy = testkit::TcpProxy::start(address).await;
    proxy.cut().await;
    let url = format!("http://{}", proxy.addr());
    let node = start(&bench, settings(&bench, "a"), &[&url]).await;
    let mut request = transfer(0, "early");
    request.payload.gas_limit = None;
    let tx = send(&node, request).await;
    assert_eq!((tx.nonce, tx.standing.state), (None, TxState::Created));
    proxy.heal().await;
    mined(&node, tx.id).await;
    node.shutdown().await;
}
