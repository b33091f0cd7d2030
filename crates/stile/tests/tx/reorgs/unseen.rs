//! Blocks that came and went while no node was running.
//!
//! Each of these fails if a node starts from the newest block instead of from the headers on
//! record, or believes what the store says of transactions that it finds there.

use serde_json::json;

use super::Setup;
use crate::support::{Backend, id};

/// What was confirmed is in no block when the node comes back.
async fn hole_17_what_was_dropped_while_nobody_looked_is_taken_back(backend: Backend) {
    let mut setup = Setup::new(&backend).await;
    let before = setup.mined(1, 2, 2).await;
    let before = setup.node.reaches(id(&before), "CONFIRMED").await;
    let sends = setup.sends(&before);
    setup.node.kill().await;
    setup.anvil.reorg(3, &[]).await;
    setup.start_again().await;
    setup.is_taken_back(&before, sends).await;
    setup.ends_confirmed(&before, 3).await;
}

/// What was confirmed is in another block when the node comes back.
async fn hole_17_what_was_moved_while_nobody_looked_is_found(backend: Backend) {
    let mut setup = Setup::new(&backend).await;
    let before = setup.mined(1, 2, 2).await;
    let before = setup.node.reaches(id(&before), "CONFIRMED").await;
    let raw = setup.raw(&before).await;
    setup.node.kill().await;
    setup.anvil.reorg(3, &[(&raw, 1)]).await;
    setup.start_again().await;
    let old = &before["receipt"]["blockHash"];
    let after = setup.node.becomes(id(&before), "another block", |tx| {
        !tx["receipt"].is_null() && tx["receipt"]["blockHash"] != *old
    });
    let after = after.await;
    assert_eq!(after["state"], "TRACKING", "one block on top where two were asked for");
    let event = setup.node.last_event(id(&after), "MINED").await.expect("an event");
    assert_eq!(event["data"]["blockHash"], after["receipt"]["blockHash"], "{event:#}");
    setup.ends_confirmed(&after, 1).await;
}

/// Its own block stays; those on top of it, which were told, are others.
async fn hole_17_a_fork_above_it_while_nobody_looked_is_told(backend: Backend) {
    let mut setup = Setup::new(&backend).await;
    let before = setup.mined(1, 3, 2).await;
    assert_eq!(before["state"], "TRACKING");
    setup.node.kill().await;
    setup.anvil.reorg(2, &[]).await;
    setup.start_again().await;
    let after = setup.ends_confirmed(&before, 1).await;
    assert_eq!(after["receipt"]["blockHash"], before["receipt"]["blockHash"]);
    let event = setup.node.last_event(id(&before), "NEW_FORK").await.expect("it was told");
    assert_eq!((&event["state"], &event["data"]["newFork"]), (&json!("TRACKING"), &json!(true)));
    let list = event["data"]["confirmations"].as_array().expect("the whole list");
    assert_eq!(list[0]["blockHash"], before["receipt"]["blockHash"], "{event:#}");
    for block in list {
        let canonical = setup.anvil.block(block["blockNumber"].as_u64().unwrap()).await.unwrap();
        assert_eq!(block["blockHash"], canonical["hash"], "{event:#}");
    }
}

/// It was on its way when the node went, and is deep enough when it comes back.
async fn what_was_mined_while_nobody_looked_is_found(backend: Backend) {
    let mut setup = Setup::new(&backend).await;
    let tx = setup.sent(1, 2).await;
    setup.node.kill().await;
    setup.anvil.mine(5).await;
    setup.start_again().await;
    setup.ends_confirmed(&tx, 0).await;
}

on_both_stores!(
    hole_17_what_was_dropped_while_nobody_looked_is_taken_back,
    hole_17_what_was_moved_while_nobody_looked_is_found,
    hole_17_a_fork_above_it_while_nobody_looked_is_told,
    what_was_mined_while_nobody_looked_is_found,
);
