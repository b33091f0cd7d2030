//! 39: a chain that was set back further than reorganisations are followed.

use serde_json::Value;
use stile_domain::{LaneEventKind, TxState};
use stile_engine::{Node, Settings, TxSettings};
use testkit::{Anvil, AnvilOptions, RpcProxy, eventually, eventually_within, free_port};

use crate::common::{Bench, on, on_both_stores};
use crate::setup::{LONG, lane, send, settings, start, transfer, until};

on_both_stores!(hole_39_what_a_reset_chain_has_lost_is_sent_again_in_parts);

const WINDOW: u32 = 3;

/// Headers that a node keeps besides the window: see `window_limit` in the engine.
const KEPT_BESIDES: u64 = 72;

const COUNT: usize = 5;

async fn paused(node: &Node) -> Option<String> {
    node.lanes().doctor(lane(0)).await.unwrap().facts.paused
}

/// Ends the pause. Answers with what is done, and whether it ended.
async fn resume(node: &Node) -> (Vec<String>, bool) {
    let resumption = node.lanes().resume(lane(0), false).await.unwrap();
    (resumption.plan, resumption.resumed)
}

async fn in_pool(anvil: &Anvil, count: u64) {
    let signer = lane(0).signer.to_string();
    eventually_within(LONG, "them to be in the pool", async || {
        (anvil.nonce(&signer, "pending").await == count).then_some(())
    })
    .await;
}

fn more(from: u64) -> String {
    format!(
        "the chain has lost more transactions, from nonce {from} on. Resume again to send those, best once the \
         chain has those below"
    )
}

/// Fails if all of a long history is opened at once, if the rest is left out without a word, or if it is
/// not sent when a person asks again, before or after the first part is mined.
async fn hole_39_what_a_reset_chain_has_lost_is_sent_again_in_parts(bench: Bench) {
    let options = AnvilOptions { port: free_port(), no_mining: true, ..AnvilOptions::default() };
    let mut anvil = Anvil::start(options).await;
    let proxy = RpcProxy::start(anvil.url()).await;
    let usual = settings(&bench, "a");
    let tx = TxSettings { reorg_window: WINDOW, resent_at_once: 2, ..usual.tx.clone() };
    let node = start(&bench, Settings { tx, ..usual }, &[&proxy.url()]).await;
    anvil.mine(3).await;
    let state: Value = anvil.dump_state().await;
    let mut txs = Vec::new();
    for n in 0..COUNT {
        txs.push(send(&node, transfer(0, &format!("{n}"))).await.id);
    }
    in_pool(&anvil, COUNT as u64).await;
    anvil.mine(3).await;
    for tx in &txs {
        until(&node, *tx, TxState::Confirmed).await;
    }
    anvil.mine(u64::from(WINDOW) + KEPT_BESIDES + 30).await;
    let height = anvil.height().await;
    eventually("the node to have seen it", async || {
        let seen = node.chains().iter().find_map(|chain| chain.heads)?.latest;
        (seen == height).then_some(())
    })
    .await;
    proxy.refuse().await;
    anvil.restart(&state).await;
    anvil.mine(u64::from(WINDOW) + KEPT_BESIDES).await;
    proxy.heal().await;
    let reason = eventually_within(LONG, "the pause", async || paused(&node).await).await;
    assert!(!reason.contains("Resume again"), "{reason}");

    let part = |count, from: u64| {
        format!(
            "send the stored bytes of {count} transactions once more, from nonce {from} on: the chain has lost them"
        )
    };
    let first = vec![part(2, 0), format!("stay paused: {}", more(2))];
    let dry = node.lanes().resume(lane(0), true).await.unwrap();
    assert_eq!((&dry.plan, dry.resumed), (&first, false));
    assert_eq!(paused(&node).await, Some(reason), "a dry run changes nothing");
    assert_eq!(resume(&node).await, (first, false));
    assert_eq!(paused(&node).await, Some(more(2)));
    in_pool(&anvil, 2).await;
    // Before they are mined.
    let second = vec![part(2, 2), format!("stay paused: {}", more(4))];
    assert_eq!(resume(&node).await, (second, false));
    assert_eq!(paused(&node).await, Some(more(4)));
    in_pool(&anvil, 4).await;
    anvil.mine(1).await;
    let last = vec![part(1, 4), "give out nonces again, from 5 on".to_owned()];
    assert_eq!(resume(&node).await, (last, true));
    assert_eq!(paused(&node).await, None);
    in_pool(&anvil, 5).await;
    anvil.mine(3).await;
    for tx in &txs {
        until(&node, *tx, TxState::Confirmed).await;
    }
    let told = node.lanes().history(lane(0), None, 100).await.unwrap();
    let pauses = told.iter().filter(|event| event.kind == LaneEventKind::Paused);
    let parts: Vec<_> = pauses.filter_map(|event| event.data["moreFrom"].as_u64()).collect();
    assert_eq!(parts, [4, 2], "newest first");
    node.shutdown().await;
}
