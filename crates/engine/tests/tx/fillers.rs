//! Empty transactions for nonces that nobody will use.

use stile_domain::{Hold, TxState};
use stile_engine::fill::FILLER_TENANT;
use stile_engine::{Node, TxRequest};
use stile_store::{Store, Tx};
use testkit::{RpcProxy, eventually, eventually_within};

use crate::common::{Bench, on, on_both_stores};
use crate::setup::{LONG, chain, get, lane, send, settings, start, transfer, until};

on_both_stores!(
    hole_28_a_gap_is_filled_after_its_filler_was_refused,
    hole_28_a_gap_is_filled_after_who_was_to_take_it_was_withdrawn,
    hole_28_a_gap_is_filled_after_its_filler_was_withdrawn_while_somebody_was_at_it,
    hole_28_repair_tells_what_it_did
);

/// The transaction that was made for a hold's nonce, if it was: the first of them, or a later one.
async fn filler(store: &dyn Store, hold: &Hold, number: u32) -> Option<Tx> {
    let name = match number {
        0 => format!("gap-{}-{}", hold.nonce, hold.id.0),
        again => format!("gap-{}-{}-{again}", hold.nonce, hold.id.0),
    };
    store.txs_by_request(FILLER_TENANT, lane(0), &[name]).await.unwrap().pop().flatten()
}

/// A transaction at nonce 1, and a caller who has nonce 0.
async fn with_hold(node: &Node) -> (Hold, Tx) {
    let hold = node.nonces().allocate(lane(0)).await.unwrap();
    let above = send(node, transfer(0, "above")).await;
    (hold, until(node, above.id, TxState::Submitted).await)
}

async fn until_mined(node: &Node, tx: &Tx) {
    eventually_within(LONG, "the gap to be closed", async || get(node, tx.id).await.receipt).await;
}

async fn hole_28_a_gap_is_filled_after_its_filler_was_refused(bench: Bench) {
    let anvil = chain(true).await;
    let proxy = RpcProxy::start(anvil.url()).await;
    let node = start(&bench, settings(&bench, "a"), &[&proxy.url()]).await;
    let store = bench.database.open();
    let (hold, above) = with_hold(&node).await;
    proxy.fail("eth_estimateGas", -32000, "nothing is estimated today");
    node.nonces().mark_recyclable(&hold, "not needed after all").await.unwrap();
    eventually_within(LONG, "the filler to be refused", async || {
        let tx = filler(&*store, &hold, 0).await?;
        (tx.standing.state == TxState::Failed).then_some(())
    })
    .await;
    proxy.heal().await;
    until_mined(&node, &above).await;
    node.shutdown().await;
}

async fn hole_28_a_gap_is_filled_after_who_was_to_take_it_was_withdrawn(bench: Bench) {
    let anvil = chain(true).await;
    let proxy = RpcProxy::start(anvil.url()).await;
    let node = start(&bench, settings(&bench, "a"), &[&proxy.url()]).await;
    let store = bench.database.open();
    let (hold, above) = with_hold(&node).await;
    // Its filler waits, for want of an estimate. A user's transaction comes that is to take the gap,
    // and waits too; so nobody needs the filler, and it ends. Then the user's is withdrawn.
    proxy.hold("eth_estimateGas");
    node.nonces().mark_recyclable(&hold, "not needed after all").await.unwrap();
    let waiting =
        eventually_within(LONG, "a filler", async || filler(&*store, &hold, 0).await).await;
    let mut users: TxRequest = transfer(0, "user's");
    users.payload.gas_limit = None;
    let users = send(&node, users).await;
    store.withdraw(node.id(), waiting.id).await.unwrap();
    node.transactions().cancel(users.id).await.unwrap();
    proxy.release();
    until_mined(&node, &above).await;
    assert_eq!(get(&node, users.id).await.nonce, None, "the user's was not sent");
    let second = filler(&*store, &hold, 1).await.expect("a second filler");
    assert_eq!(second.nonce, Some(hold.nonce));
    node.shutdown().await;
}

async fn hole_28_a_gap_is_filled_after_its_filler_was_withdrawn_while_somebody_was_at_it(
    bench: Bench,
) {
    let anvil = chain(true).await;
    let proxy = RpcProxy::start(anvil.url()).await;
    let node = start(&bench, settings(&bench, "a"), &[&proxy.url()]).await;
    let store = bench.database.open();
    let (hold, above) = with_hold(&node).await;
    proxy.hold("eth_estimateGas");
    node.nonces().mark_recyclable(&hold, "not needed after all").await.unwrap();
    let first = eventually_within(LONG, "a filler", async || filler(&*store, &hold, 0).await).await;
    // The lane's task waits for its estimate, and then finds that it is gone.
    eventually("the estimate to be asked for", async || {
        // What the endpoint can do is found out with an estimate for nobody.
        let nobody = format!("{:#042x}", 0);
        let calls = proxy.calls();
        let mut asked = calls.iter().filter(|call| call.method == "eth_estimateGas");
        asked.any(|call| call.params[0]["from"] != nobody.as_str()).then_some(())
    })
    .await;
    store.withdraw(node.id(), first.id).await.unwrap();
    eventually_within(LONG, "a second filler", async || filler(&*store, &hold, 1).await).await;
    proxy.release();
    until_mined(&node, &above).await;
    node.shutdown().await;
}

async fn hole_28_repair_tells_what_it_did(bench: Bench) {
    let anvil = chain(true).await;
    let proxy = RpcProxy::start(anvil.url()).await;
    let node = start(&bench, settings(&bench, "a"), &[&proxy.url()]).await;
    let store = bench.database.open();
    let (hold, above) = with_hold(&node).await;
    proxy.hold("eth_estimateGas");
    node.nonces().mark_recyclable(&hold, "not needed after all").await.unwrap();
    let made = eventually_within(LONG, "a filler", async || filler(&*store, &hold, 0).await).await;
    let step = eventually("a step that fills the gap", async || {
        let repair = node.lanes().repair(lane(0), true, &[]).await.unwrap();
        let step = repair.steps.into_iter().find(|step| step.kind == "fill")?;
        step.result.as_ref().is_some_and(|words| words.contains("waits still")).then_some(step)
    })
    .await;
    assert_eq!(step.done, Some(false), "it was made before: {step:?}");
    assert!(step.result.unwrap().contains(&made.id.to_string()));
    proxy.release();
    until_mined(&node, &above).await;
    node.shutdown().await;
}
