//! Sending stored bytes.
//!
//! Only bytes that are committed as an attempt ever come here, so whatever is on the wire is on
//! record, whoever sent it and however late. The order within a lane is kept: a lane is in at most
//! one batch at a time, lowest nonce first. Many lanes go side by side, and share batches.

#[cfg(feature = "planted-bugs")]
mod planted;
mod queue;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use stile_chain::{SendAnswer, SendClass};
use stile_domain::{AttemptKind, Bytes, Lane, Obstacle, Step, SubState, TxId, TxState};
use stile_store::{Sending, Set, TxChange};
use tokio::sync::Semaphore;
use tracing::{debug, warn};

use self::queue::Item;
pub(crate) use self::queue::Queue;
use crate::core::Core;
use crate::metrics;
use crate::tx::book::{Book, Open};
use crate::tx::replace::{Cause, cost, replace};
use crate::tx::track::Track;

/// Batches on their way at one time.
const BATCHES: usize = 8;

/// How long a transaction waits that no endpoint could be asked about.
const TRANSIENT_PAUSE: Duration = Duration::from_millis(500);

/// How long one waits that every endpoint refuses for now; twice as long each time, up to a minute.
const OBSTACLE_PAUSE: Duration = Duration::from_secs(4);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// How often every endpoint must refuse a transaction for good before it is given up: one may have
/// been wrong about it, or behind.
const REJECTIONS: u32 = 3;

impl Core {
    /// Hands open transactions to the submitter, unless it has them already.
    pub(crate) fn submit(&self, track: &Track, ids: impl IntoIterator<Item = TxId>) {
        let mut items = Vec::new();
        {
            let mut book = track.book();
            for id in ids {
                let Some(open) = book.get_mut(id).filter(|open| open.is_unmined() && !open.queued)
                else {
                    continue;
                };
                if let Some(item) = Item::of(open) {
                    open.queued = true;
                    open.next_send = None;
                    items.push(item);
                }
            }
        }
        if !items.is_empty() {
            track.queue.push(items);
        }
    }
}

pub(crate) async fn run(core: Arc<Core>, track: Arc<Track>) {
    let batches = Arc::new(Semaphore::new(BATCHES));
    loop {
        let Ok(permit) = Arc::clone(&batches).acquire_owned().await else { return };
        let batch = loop {
            let batch = track.queue.take();
            if !batch.is_empty() {
                break batch;
            }
            tokio::select! {
                () = core.stopping.cancelled() => return,
                () = track.queue.ready.notified() => {}
            }
        };
        let (owned, onto) = (Arc::clone(&core), Arc::clone(&track));
        core.producers.spawn(async move {
            send(&owned, &onto, batch).await;
            drop(permit);
        });
    }
}

async fn send(core: &Arc<Core>, track: &Arc<Track>, batch: Vec<Item>) {
    let lanes: HashSet<Lane> = batch.iter().map(|item| item.lane).collect();
    let unfunded = track.funds().silent();
    let wanted: Vec<Item> = {
        let mut book = track.book();
        let wanted = batch.into_iter().filter(|item| {
            let stopped = unfunded.contains(&item.lane);
            still_wanted(book.get_mut(item.id), stopped)
        });
        wanted.collect()
    };
    if !wanted.is_empty() {
        #[cfg(not(feature = "planted-bugs"))]
        let raw: Vec<Bytes> = wanted.iter().map(|item| item.raw.clone()).collect();
        #[cfg(feature = "planted-bugs")]
        let raw: Vec<Bytes> = planted::bytes(core, track, &wanted).await;
        let answers = track.pool.send_raw(&raw).await;
        for (item, answer) in wanted.iter().zip(&answers) {
            if let Some(cause) = conclude(core, track, item, answer) {
                replace(core, track, item.id, cause);
            }
        }
    }
    track.queue.done(&lanes);
}

/// Whether it is open still, not mined, and its lane not stopped; if not, it is no longer in the
/// submitter's hands.
fn still_wanted(open: Option<&mut Open>, stopped: bool) -> bool {
    let Some(open) = open else { return false };
    let wanted = open.is_unmined() && !stopped;
    if !wanted {
        open.queued = false;
    }
    wanted
}

/// What the endpoints' answer means. Answers with why a new attempt is to be made, if one is.
fn conclude(core: &Arc<Core>, track: &Track, item: &Item, answer: &SendAnswer) -> Option<Cause> {
    metrics::submitted(answer.verdict.name());
    let now = Instant::now();
    let settings = &core.settings.tx;
    let mut book = track.book();
    let open = book.get_mut(item.id)?;
    open.queued = false;
    let taken = answer.verdict.is_taken();
    let said = json!(answer.said);
    let newest = open.newest().is_some_and(|newest| newest.hash == item.hash);
    if !open.is_unmined() || !newest {
        // Mined before its endpoint had answered, or replaced: only that it was sent is written.
        if open.is_unmined() {
            open.next_send = Some(now);
        }
        let mut change = TxChange::new(open.id, open.events, open.standing);
        change.sent = Some(Sending { hash: item.hash, taken, said });
        core.recorder.write(item.lane, Some(change));
        return None;
    }
    let (sub_state, state) = (open.standing.sub_state, open.standing.state);
    let given_up = open.newest().is_some_and(|newest| newest.kind == AttemptKind::GiveUp);
    let obstacle = match answer.verdict {
        SendClass::Accepted | SendClass::Known => None,
        SendClass::NonceTooLow => {
            // One of the attempts is mined, or somebody else's transaction is: ask which.
            open.next_send = settings.resubmit_after.map(|after| now + after);
            debug!(txId = %item.id, "nonce too low: receipts are asked for");
            keep_word(core, &mut book, item, answer);
            // Its own receipt and, since nonces are mined in order, those of all below it.
            book.check_up_to(item.lane, item.nonce, now);
            return None;
        }
        SendClass::NonceTooHigh | SendClass::Transient => {
            open.next_send = Some(now + TRANSIENT_PAUSE);
            debug!(txId = %item.id, said = ?answer.said, "not sent; tried again soon");
            keep_word(core, &mut book, item, answer);
            return None;
        }
        SendClass::Underpriced | SendClass::ReplacementUnderpriced => Some(Obstacle::Underpriced),
        SendClass::InsufficientFunds => Some(Obstacle::InsufficientFunds),
        SendClass::Rejected => Some(Obstacle::Rejected),
    };
    open.not_taken = None;
    open.sends += 1;
    let used_up = settings.max_sends > 0 && open.sends >= settings.max_sends;
    open.refusals = if taken { 0 } else { open.refusals + 1 };
    open.rejections = if obstacle == Some(Obstacle::Rejected) { open.rejections + 1 } else { 0 };
    let again = if taken { settings.resubmit_after } else { Some(pause_after(open.refusals)) };
    let again = again.filter(|_| !used_up || !taken);
    open.next_send = again.map(|after| now + after);
    if taken {
        track.funds().taken(item.lane);
        if open.next_bump.is_none() {
            open.next_bump = settings.bump_after.map(|after| now + after);
        }
        if settings.receipt_upon_entry {
            open.next_check = now;
        }
        if state == TxState::Allocated
            && let Some(accepted) = open.accepted
        {
            metrics::first_sent(accepted.elapsed());
        }
    }
    let cause = match obstacle {
        Some(Obstacle::Underpriced) if !used_up => Some(Cause::Underpriced),
        Some(Obstacle::Rejected) if open.rejections >= REJECTIONS => Some(Cause::GiveUp),
        _ => None,
    };
    if obstacle == Some(Obstacle::InsufficientFunds) {
        // It is sent again once the account can pay, and nothing of the lane before.
        open.next_send = None;
        track.stop_for_funds(item.lane, cost(&item.raw).unwrap_or_default());
    }
    let change = match obstacle {
        // Told once; that it goes on is no news, but what was said and when is kept.
        Some(obstacle) if told(obstacle, sub_state) => {
            Some(TxChange::new(open.id, open.events, open.standing))
        }
        Some(obstacle) => {
            warn!(txId = %item.id, signer = %item.lane.signer, chain = %item.lane.chain,
                  nonce = item.nonce, ?obstacle, said = ?answer.said,
                  "the chain's nodes refuse it for now");
            book.step(
                item.id,
                Step::HeldUp(obstacle),
                json!({ "txHash": item.hash, "endpoints": said }),
            )
        }
        None => book.step(item.id, Step::Sent, json!({ "txHash": item.hash, "endpoints": said })),
    };
    let change = change.map(|change| TxChange {
        sent: Some(Sending { hash: item.hash, taken, said }),
        resubmit_after: again.map_or(Set::Clear, Set::To),
        error: match obstacle {
            // Why it was given up is what its caller wants to know.
            _ if given_up => Set::Keep,
            None => Set::Clear,
            Some(_) => answer.said.first().map_or(Set::Keep, |said| Set::To(said.text.clone())),
        },
        ..change
    });
    core.recorder.write(item.lane, change);
    cause
}

/// What keeps a lane's lowest from being taken is written down, once as long as it stays the same:
/// nothing else of the lane can be mined before it, and whoever asks is told why.
fn keep_word(core: &Core, book: &mut Book, item: &Item, answer: &SendAnswer) {
    let Some(open) = book.get(item.id).filter(|open| book.is_lowest(open)) else { return };
    if open.not_taken == Some(answer.verdict) {
        return;
    }
    let mut change = TxChange::new(open.id, open.events, open.standing);
    change.sent = Some(Sending { hash: item.hash, taken: false, said: json!(answer.said) });
    core.recorder.write(item.lane, Some(change));
    if let Some(open) = book.get_mut(item.id) {
        open.not_taken = Some(answer.verdict);
    }
}

fn pause_after(refusals: u32) -> Duration {
    (OBSTACLE_PAUSE * 2u32.pow(refusals.saturating_sub(1).min(4))).min(LONGEST_PAUSE)
}

fn told(obstacle: Obstacle, sub_state: Option<SubState>) -> bool {
    let told = match obstacle {
        Obstacle::Underpriced => SubState::Underpriced,
        Obstacle::InsufficientFunds => SubState::InsufficientFunds,
        Obstacle::Rejected => SubState::Rejected,
    };
    sub_state == Some(told)
}
