//! Removing what is over, while the chain goes on.

use std::time::Duration;

use serde_json::json;
use stile_domain::{TxId, TxState};
use stile_engine::{Node, Retention, Settings, TxSettings};
use testkit::{Anvil, eventually};

use crate::common::{Bench, lane_of, on, on_both_stores};
use crate::setup::{chain, get, lane, mined, send, settings, start, transfer, until};

on_both_stores!(
    what_a_reorganisation_can_concern_is_kept_to_the_block,
    what_is_over_goes_and_its_request_id_with_it,
    nothing_goes_without_being_asked
);

/// A node that keeps what is over for no time at all, and follows reorganisations 4 blocks deep.
fn forgetful(bench: &Bench) -> Settings {
    let base = settings(bench, "a");
    Settings {
        tx: TxSettings { reorg_window: 4, ..base.tx.clone() },
        retention: Retention { finished: Some(Duration::ZERO), holds: Some(Duration::ZERO) },
        ..base
    }
}

/// Headers that such a node keeps: as many as it follows, and some more.
const HEADERS: u64 = 4 + 72;

/// Sends a transaction that gets into the next block.
async fn next_block(node: &Node, anvil: &Anvil, request_id: &str) -> TxId {
    let tx = send(node, transfer(0, request_id)).await;
    until(node, tx.id, TxState::Submitted).await;
    anvil.mine(1).await;
    mined(node, tx.id).await;
    tx.id
}

async fn is_there(node: &Node, id: TxId) -> bool {
    node.transactions().get(id).await.unwrap().is_some()
}

async fn gone(node: &Node, id: TxId) {
    eventually("it to be removed", async || (!is_there(node, id).await).then_some(())).await;
}

/// Two transactions, two blocks apart. Once the first one is below every header that is kept it goes,
/// and in the same moment the second is at the edge: kept. The deepest reorganisation that is seen
/// concerns it, far below those that are followed, so a person decides.
async fn what_a_reorganisation_can_concern_is_kept_to_the_block(bench: Bench) {
    let anvil = chain(false).await;
    anvil.mine(2).await;
    let node = start(&bench, forgetful(&bench), &[anvil.url()]).await;
    let first = next_block(&node, &anvil, "first").await;
    anvil.mine(1).await;
    until(&node, first, TxState::Confirmed).await;
    let second = next_block(&node, &anvil, "second").await;
    anvil.mine(1).await;
    until(&node, second, TxState::Confirmed).await;
    let edge = get(&node, second).await.receipt.unwrap().block_number;
    assert_eq!(edge, get(&node, first).await.receipt.unwrap().block_number + 2);

    // The second one's block becomes the oldest that is kept.
    anvil.mine(edge + HEADERS - 1 - anvil.height().await).await;
    gone(&node, first).await;
    let kept = get(&node, second).await;
    anvil.rpc("anvil_reorg", json!([HEADERS, []])).await;
    eventually("a person to be called", async || {
        bench.store.lanes(&[kept.lane]).await.unwrap().remove(0)?.paused
    })
    .await;
    assert_eq!(get(&node, second).await.standing.state, TxState::Confirmed);
    node.shutdown().await;
}

async fn what_is_over_goes_and_its_request_id_with_it(bench: Bench) {
    let anvil = chain(false).await;
    anvil.mine(2).await;
    let node = start(&bench, forgetful(&bench), &[anvil.url()]).await;
    let first = next_block(&node, &anvil, "invoice").await;
    anvil.mine(1).await;
    until(&node, first, TxState::Confirmed).await;
    let again = node.transactions().send(transfer(0, "invoice")).await.unwrap();
    assert_eq!((again.new, again.tx.id), (false, first));
    anvil.mine(HEADERS + 2).await;
    gone(&node, first).await;
    assert!(node.transactions().history(first).await.unwrap().is_empty());

    let second = next_block(&node, &anvil, "invoice").await;
    assert_ne!(second, first);
    assert_eq!(get(&node, second).await.nonce, Some(1), "a nonce is never given out again");
    node.shutdown().await;
}

async fn nothing_goes_without_being_asked(bench: Bench) {
    let anvil = chain(false).await;
    anvil.mine(2).await;
    let settings = Settings {
        retention: Retention { finished: None, holds: Some(Duration::ZERO) },
        ..forgetful(&bench)
    };
    let node = start(&bench, settings, &[anvil.url()]).await;
    // A hold, sent by its caller.
    let account = anvil.accounts().await[5].clone();
    let hold = node.nonces().allocate(lane_of(&account)).await.unwrap();
    let sent = json!([{ "from": account, "to": account, "value": "0x1" }]);
    let hash = anvil.rpc("eth_sendTransaction", sent).await;
    node.nonces().mark_used(&hold, hash.as_str().unwrap().parse().unwrap()).await.unwrap();
    let tx = next_block(&node, &anvil, "kept").await;
    anvil.mine(HEADERS + 4).await;
    eventually("the hold to be removed", async || {
        let found = bench.store.read_back(hold.lane, &[(hold.nonce, hold.id)]).await.unwrap();
        found.is_empty().then_some(())
    })
    .await;
    assert!(is_there(&node, tx).await);
    assert_eq!(node.nonces().allocate(hold.lane).await.unwrap().nonce, 1);
    assert_eq!(get(&node, tx).await.lane, lane(0));
    node.shutdown().await;
}
