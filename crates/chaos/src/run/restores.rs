//! Databases that go back to what they were: from a backup, or to a standby that had not heard of the
//! last commits.

use std::sync::Arc;
use std::time::Duration;

use super::node::Node;
use super::stage::Stage;

/// How often the store is read for what is about to be lost.
const READS: usize = 5;

/// Makes a backup, and puts it back after this time. All nodes are killed or asked to end before, and
/// started again after it. An error says that what is lost could not be read.
pub(super) async fn from_backup(stage: &Arc<Stage>, lost: Duration) -> Result<(), String> {
    let (mut read, mut until_back) = (Err("not yet".to_owned()), None);
    let restore = stage.database.restore(lost, async || {
        until_back = Some(stage.history.write().await);
        for node in &stage.nodes {
            take(node).await;
            // A process that cannot end by itself is killed: it might go on in the past otherwise.
            if node.number % 2 == 0 { node.kill().await } else { node.terminate().await }
        }
        read = keep_what_is_lost(stage).await;
    });
    let restore = restore.await;
    stage.diary.restores.lock().unwrap().push(restore);
    drop(until_back);
    for node in &stage.nodes {
        node.start();
        node.give_back();
    }
    read
}

/// Cuts the standby off, and has it take the server's place after this time, under nodes that go on.
pub(super) async fn from_standby(stage: &Arc<Stage>, lost: Duration) -> Result<(), String> {
    let mut read = Err("not yet".to_owned());
    let until_back = std::sync::Mutex::new(None);
    let cut = async || {
        let history = stage.history.write().await;
        *until_back.lock().unwrap() = Some(history);
        for node in &stage.nodes {
            node.store.cut().await;
        }
        read = keep_what_is_lost(stage).await;
    };
    let lead = async |moved, restore| {
        stage.diary.restores.lock().unwrap().push(restore);
        stage.lead(&moved);
        for node in &stage.nodes {
            node.store.heal().await;
        }
        drop(until_back.lock().unwrap().take());
    };
    stage.database.fail_over_to_the_past(lost, cut, lead).await;
    read
}

/// Has a node as soon as no other fault has it.
async fn take(node: &Node) {
    while !node.take() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Writes down what is in the database, now that nobody writes to it.
async fn keep_what_is_lost(stage: &Stage) -> Result<(), String> {
    let mut read = Err("never asked".to_owned());
    for _ in 0..READS {
        read = stage.witness.all_sent().await;
        if read.is_ok() {
            break;
        }
    }
    let read = read?;
    let mut lost = stage.diary.lost.lock().unwrap();
    lost.txs.extend(read.txs);
    lost.attempts.extend(read.attempts);
    Ok(())
}
