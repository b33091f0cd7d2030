//! Asking for receipts one by one, where blocks stayed silent.
//!
//! Blocks show what is mined. This is for what they did not show: transactions that were mined
//! while nobody followed, and those of which nothing has been heard for long. Of each lane only the
//! lowest unmined nonce is asked about, because none above it can be mined before it; once it is
//! found, the next ones are.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use stile_chain::{ReceiptAnswer, View};
use stile_domain::{B256, Receipt, TxId};
use stile_store::{OpenAttempt, TxChange};
use tracing::{debug, warn};

use crate::core::Core;
use crate::metrics;
use crate::tx::track::Track;
use crate::tx::{follow, outside};

/// How often it is looked whether something is due.
const TICK: Duration = Duration::from_millis(500);

/// Transactions in one question.
const CHUNK: usize = 50;

/// How many more of a lane are asked about once its lowest has been found.
const FOLLOWERS: usize = 500;

/// The longest pause between two questions about one transaction.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// The same where a receipt cannot be read: a node that is mended is soon heard.
const UNREADABLE_PAUSE: Duration = Duration::from_secs(30);

/// A transaction and all hashes it may have been mined under.
type Due = (TxId, Vec<B256>);

pub(crate) async fn run(core: Arc<Core>, track: Arc<Track>) {
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = core.stopping.cancelled() => return,
            _ = ticks.tick() => {}
        }
        // Found ones make room for those above them, which are looked at in the same round.
        while check_due(&core, &track).await > 0 && !core.stopping.is_cancelled() {}
    }
}

/// Asks about everything that is due. Answers with how many were found.
async fn check_due(core: &Arc<Core>, track: &Track) -> usize {
    let now = Instant::now();
    let due: Vec<Due> = {
        let book = track.book();
        metrics::in_flight(track.pool.chain(), book.all_in_flight());
        let due: Vec<Due> = book
            .lowest_unmined()
            .filter(|open| open.next_check <= now)
            .flat_map(|lowest| {
                // After a takeover the whole lane is due at once.
                let due = book.unmined_of(lowest.lane).take_while(|open| open.next_check <= now);
                let count = if lowest.vain_checks == 0 { FOLLOWERS } else { 1 };
                due.take(count).map(|open| (open.id, hashes(&open.attempts))).collect::<Vec<_>>()
            })
            .collect();
        due
    };
    metrics::receipt_backlog(track.pool.chain(), due.len());
    if due.is_empty() {
        return 0;
    }
    let view = match track.pool.view().await {
        Ok(view) => view,
        Err(error) => {
            metrics::receipt_checked("error", due.len());
            debug!(%error, "receipts could not be asked for");
            postpone(core, track, &due);
            return 0;
        }
    };
    let workers = core.settings.tx.receipt_workers.max(1);
    let questions: Vec<_> =
        due.chunks(CHUNK).map(|chunk| check(core, track, &view, chunk)).collect();
    let found: Vec<usize> =
        futures::stream::iter(questions).buffer_unordered(workers).collect().await;
    found.into_iter().sum()
}

fn hashes(attempts: &[OpenAttempt]) -> Vec<B256> {
    attempts.iter().map(|attempt| attempt.hash).collect()
}

async fn check(core: &Arc<Core>, track: &Track, view: &View, due: &[Due]) -> usize {
    let wanted: Vec<B256> = due.iter().flat_map(|(_, hashes)| hashes).copied().collect();
    let answers = match track.pool.receipts(&wanted).await {
        Ok(answers) => answers,
        Err(error) => {
            metrics::receipt_checked("error", due.len());
            warn!(chain = %track.pool.chain(), %error, "receipts could not be asked for");
            postpone(core, track, due);
            return 0;
        }
    };
    let mut answers = answers.into_iter();
    let mut found: Vec<(TxId, Receipt)> = Vec::new();
    let (mut missing, mut unreadable) = (Vec::new(), Vec::new());
    for (id, hashes) in due {
        match one_of(answers.by_ref().take(hashes.len())) {
            ReceiptAnswer::Found(receipt) => found.push((*id, receipt)),
            ReceiptAnswer::NotFound { .. } => missing.push(*id),
            ReceiptAnswer::Unreadable => unreadable.push(*id),
        }
    }
    metrics::receipt_checked("not_found", missing.len());
    metrics::receipt_checked("unreadable", unreadable.len());
    silent(core, track, &missing, LONGEST_PAUSE);
    // Nothing is concluded: somebody has a receipt.
    silent(core, track, &unreadable, UNREADABLE_PAUSE);
    outside::search(core, track, view, &missing).await;
    let heights = found.iter().map(|(_, receipt)| receipt.block_number);
    let canonical = match follow::canonical(track, view, heights).await {
        Ok(canonical) => canonical,
        Err(error) => {
            debug!(%error, "receipts could not be compared with the chain");
            let found: Vec<Due> = found.into_iter().map(|(id, _)| (id, Vec::new())).collect();
            postpone(core, track, &found);
            return 0;
        }
    };
    let window = track.window().clone();
    let newest = window.tip().map(|tip| tip.height);
    let mut count = 0;
    let mut lanes = Vec::new();
    {
        let mut book = track.book();
        for (id, receipt) in found {
            let canonical = canonical.get(&receipt.block_number) == Some(&receipt.block_hash);
            #[cfg(feature = "planted-bugs")]
            let canonical = canonical || stile_store::planted::Bug::SideBlock.is_planted();
            // What is above the window is the follower's to find, with its parents.
            if !canonical || newest.is_none_or(|newest| receipt.block_number > newest) {
                metrics::receipt_checked("side_block", 1);
                if let Some(open) = book.get_mut(id) {
                    open.next_check = Instant::now() + Duration::from_secs(2);
                }
                continue;
            }
            metrics::receipt_checked("found", 1);
            lanes.extend(book.get(id).map(|open| open.lane));
            follow::mine(core, &mut book, &window, id, receipt);
            count += 1;
        }
    }
    lanes.dedup();
    for lane in lanes {
        crate::tx::wake(core, &core.lanes.slot(lane));
    }
    count
}

/// What is known of a transaction, by the answers about each of its attempts.
fn one_of(answers: impl Iterator<Item = ReceiptAnswer>) -> ReceiptAnswer {
    answers.fold(ReceiptAnswer::NotFound { head: 0 }, |best, answer| match (best, answer) {
        (_, found @ ReceiptAnswer::Found(_)) => found,
        (best, ReceiptAnswer::NotFound { .. }) => best,
        (ReceiptAnswer::Found(receipt), _) => ReceiptAnswer::Found(receipt),
        (_, ReceiptAnswer::Unreadable) => ReceiptAnswer::Unreadable,
    })
}

/// Nothing was found: asked again after a longer pause each time. Of each lane that is written down of
/// the lowest only, which the others wait for.
fn silent(core: &Core, track: &Track, ids: &[TxId], longest: Duration) {
    let (mut book, now) = (track.book(), Instant::now());
    for id in ids {
        let stale = core.settings.tx.stale_receipt;
        let Some(lowest) = book.checked_in_vain(*id, now, stale, longest) else { continue };
        let mut change = TxChange::new(lowest.id, lowest.events, lowest.standing);
        change.receipt_checked = true;
        core.recorder.write(lowest.lane, Some(change));
    }
}

/// Nobody could be asked: soon again.
fn postpone(core: &Core, track: &Track, due: &[Due]) {
    let mut book = track.book();
    let soon = Instant::now() + core.settings.tx.stale_receipt.min(Duration::from_secs(2));
    for (id, _) in due {
        if let Some(open) = book.get_mut(*id) {
            open.next_check = soon;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hole_37_a_receipt_that_cannot_be_read_is_not_the_word_that_there_is_none() {
        use ReceiptAnswer::{NotFound, Unreadable};
        let none = || NotFound { head: 7 };
        for (answers, is_none) in [
            (vec![none(), none()], true),
            (vec![none(), Unreadable], false),
            (vec![Unreadable, none()], false),
        ] {
            let found = one_of(answers.clone().into_iter());
            assert_eq!(matches!(found, NotFound { .. }), is_none, "{answers:?}");
        }
    }
}
