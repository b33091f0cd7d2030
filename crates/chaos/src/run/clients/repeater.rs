//! Asks again for what a restore has lost, under the same name: what real callers do, who have an answer
//! to a request of which nobody knows any more.

use std::collections::BTreeSet;

use super::caller::Caller;
use crate::evidence::{Ask, Call};

pub(super) async fn run(mut caller: Caller) {
    let mut seen = 0;
    loop {
        // In this order: what was restored before everything was over is seen.
        let is_over = caller.stage.is_over();
        let restores = caller.stage.diary.restores.lock().unwrap().clone();
        for restore in &restores[seen..] {
            let calls = caller.stage.diary.calls.lock().unwrap().clone();
            for ask in lost(&calls, restore.kept_at, restore.at) {
                caller.insist(&ask).await;
            }
        }
        if is_over && seen == restores.len() {
            return;
        }
        seen = restores.len();
        caller.pause(200, 400).await;
    }
}

/// Requests that were taken in this time, once each, but for those that nobody wants any more.
fn lost(calls: &[Call], kept_at: i64, at: i64) -> Vec<Ask> {
    let withdrawn: BTreeSet<&str> = calls
        .iter()
        .filter_map(|call| match &call.ask {
            Ask::Cancel { tx_id } => Some(tx_id.as_str()),
            _ => None,
        })
        .collect();
    let mut names = BTreeSet::new();
    let mut asks = Vec::new();
    for call in calls.iter().filter(|call| call.answer.is_success()) {
        let Ask::Send { request_id, .. } = &call.ask else { continue };
        let is_lost = call.at < at && call.ended_at >= kept_at;
        let is_wanted = !call.answer.tx_id().is_some_and(|id| withdrawn.contains(id));
        if is_lost && is_wanted && names.insert(request_id) {
            asks.push(call.ask.clone());
        }
    }
    asks
}
