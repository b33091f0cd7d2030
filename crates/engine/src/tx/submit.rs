//! Sending stored bytes.
//!
//! Only bytes that are committed as an attempt ever come here, so whatever is on the wire is on
//! record, whoever sent it and however late. The order within a lane is kept: a lane is in at most
//! one batch at a time, lowest nonce first. Many lanes go side by side, and share batches.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::json;
use stile_chain::{SendAnswer, SendClass};
use stile_domain::{B256, Bytes, Lane, Nonce, Obstacle, Step, SubState, TxId, TxState};
use stile_store::{Sending, Set, TxChange};
use tokio::sync::{Notify, Semaphore};
use tracing::{debug, warn};

use crate::core::Core;
use crate::metrics;
use crate::tx::book::Open;
use crate::tx::track::Track;

/// Transactions in one batch at most.
const BATCH_LIMIT: usize = 100;

/// Batches on their way at one time.
const BATCHES: usize = 8;

/// How long a transaction waits that no endpoint could be asked about.
const TRANSIENT_PAUSE: Duration = Duration::from_millis(500);

/// How long one waits that every endpoint refuses for now; twice as long each time, up to a minute.
const OBSTACLE_PAUSE: Duration = Duration::from_secs(4);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// One transaction on its way to the chain.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    lane: Lane,
    nonce: Nonce,
    id: TxId,
    hash: B256,
    raw: Bytes,
}

impl Item {
    /// The newest attempt of an open transaction.
    pub(crate) fn of(open: &Open) -> Option<Self> {
        let (hash, raw) = open.newest()?.clone();
        Some(Self { lane: open.lane, nonce: open.nonce, id: open.id, hash, raw })
    }
}

/// What waits to be sent.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    ready: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    lanes: HashMap<Lane, VecDeque<Item>>,
    /// Lanes that have something and are not being sent, in turn.
    turn: VecDeque<Lane>,
    sending: HashSet<Lane>,
}

impl Queue {
    /// Adds to the lanes' queues, lowest nonce first.
    pub(crate) fn push(&self, items: impl IntoIterator<Item = Item>) {
        let mut guard = self.waiting();
        let waiting = &mut *guard;
        for item in items {
            let lane = item.lane;
            let queue = waiting.lanes.entry(lane).or_default();
            if queue.is_empty() && !waiting.sending.contains(&lane) {
                waiting.turn.push_back(lane);
            }
            let place =
                queue.iter().rposition(|other| other.nonce < item.nonce).map_or(0, |at| at + 1);
            queue.insert(place, item);
        }
        drop(guard);
        self.ready.notify_one();
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next batch, with whole lanes taken out of turn until [`Self::done`].
    fn take(&self) -> Vec<Item> {
        let mut guard = self.waiting();
        let waiting = &mut *guard;
        let mut batch = Vec::new();
        while batch.len() < BATCH_LIMIT
            && let Some(lane) = waiting.turn.pop_front()
        {
            let Some(queue) = waiting.lanes.get_mut(&lane) else { continue };
            let count = queue.len().min(BATCH_LIMIT - batch.len());
            batch.extend(queue.drain(..count));
            if queue.is_empty() {
                waiting.lanes.remove(&lane);
            }
            waiting.sending.insert(lane);
        }
        if !waiting.turn.is_empty() {
            self.ready.notify_one();
        }
        batch
    }

    /// A batch's lanes may be sent again.
    fn done(&self, lanes: &HashSet<Lane>) {
        let mut guard = self.waiting();
        let waiting = &mut *guard;
        for lane in lanes {
            waiting.sending.remove(lane);
            if waiting.lanes.contains_key(lane) {
                waiting.turn.push_back(*lane);
            }
        }
        drop(guard);
        self.ready.notify_one();
    }
}

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

async fn send(core: &Arc<Core>, track: &Track, batch: Vec<Item>) {
    let lanes: HashSet<Lane> = batch.iter().map(|item| item.lane).collect();
    let wanted: Vec<Item> = {
        let mut book = track.book();
        batch.into_iter().filter(|item| still_wanted(book.get_mut(item.id))).collect()
    };
    if !wanted.is_empty() {
        let raw: Vec<Bytes> = wanted.iter().map(|item| item.raw.clone()).collect();
        let answers = track.pool.send_raw(&raw).await;
        for (item, answer) in wanted.iter().zip(&answers) {
            conclude(core, track, item, answer);
        }
    }
    track.queue.done(&lanes);
}

/// Whether it is open still and not mined; if not, it is no longer in the submitter's hands.
fn still_wanted(open: Option<&mut Open>) -> bool {
    let Some(open) = open else { return false };
    if !open.is_unmined() {
        open.queued = false;
    }
    open.is_unmined()
}

/// What the endpoints' answer means.
fn conclude(core: &Core, track: &Track, item: &Item, answer: &SendAnswer) {
    metrics::submitted(answer.verdict.name());
    let now = Instant::now();
    let settings = &core.settings.tx;
    let mut book = track.book();
    let Some(open) = book.get_mut(item.id) else { return };
    open.queued = false;
    if !open.is_unmined() {
        // Mined before its endpoint had answered: only that it was sent is written down.
        let taken = matches!(answer.verdict, SendClass::Accepted | SendClass::Known);
        let mut change = TxChange::new(open.id, open.events, open.standing);
        change.sent = Some(Sending { hash: item.hash, taken, said: json!(answer.said) });
        core.recorder.write(item.lane, Some(change));
        return;
    }
    let (sub_state, state) = (open.standing.sub_state, open.standing.state);
    let taken = matches!(answer.verdict, SendClass::Accepted | SendClass::Known);
    let obstacle = match answer.verdict {
        SendClass::Accepted | SendClass::Known => None,
        SendClass::NonceTooLow => {
            // One of the attempts is mined, or somebody else's transaction is: ask which.
            open.next_send = settings.resubmit_after.map(|after| now + after);
            debug!(txId = %item.id, "nonce too low: receipts are asked for");
            // Its own receipt and, since nonces are mined in order, those of all below it.
            book.check_up_to(item.lane, item.nonce, now);
            return;
        }
        SendClass::NonceTooHigh | SendClass::Transient => {
            open.next_send = Some(now + TRANSIENT_PAUSE);
            debug!(txId = %item.id, said = ?answer.said, "not sent; tried again soon");
            return;
        }
        SendClass::Underpriced | SendClass::ReplacementUnderpriced => Some(Obstacle::Underpriced),
        SendClass::InsufficientFunds => Some(Obstacle::InsufficientFunds),
        SendClass::Rejected => Some(Obstacle::Rejected),
    };
    open.sends += 1;
    let used_up = settings.max_sends > 0 && open.sends >= settings.max_sends;
    open.refusals = if taken { 0 } else { open.refusals + 1 };
    let again = if taken { settings.resubmit_after } else { Some(pause_after(open.refusals)) };
    let again = again.filter(|_| !used_up || !taken);
    open.next_send = again.map(|after| now + after);
    if taken {
        if settings.receipt_upon_entry {
            open.next_check = now;
        }
        if state == TxState::Allocated
            && let Some(accepted) = open.accepted
        {
            metrics::first_sent(accepted.elapsed());
        }
    }
    let said = json!(answer.said);
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
            None => Set::Clear,
            Some(_) => answer.said.first().map_or(Set::Keep, |said| Set::To(said.text.clone())),
        },
        ..change
    });
    core.recorder.write(item.lane, change);
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

#[cfg(test)]
mod tests {
    use stile_domain::{Address, ChainId};
    use uuid::Uuid;

    use super::*;

    fn item(signer: u8, nonce: Nonce) -> Item {
        let lane = Lane::new(ChainId::new(1).unwrap(), Address::repeat_byte(signer));
        let id = TxId(Uuid::new_v4());
        Item { lane, nonce, id, hash: B256::ZERO, raw: Bytes::new() }
    }

    fn nonces(batch: &[Item], signer: u8) -> Vec<Nonce> {
        let of = batch.iter().filter(|item| item.lane.signer == Address::repeat_byte(signer));
        of.map(|item| item.nonce).collect()
    }

    #[test]
    fn a_lane_is_in_one_batch_at_a_time_lowest_nonce_first() {
        let queue = Queue::default();
        queue.push([item(1, 5), item(1, 3), item(2, 9)]);
        let first = queue.take();
        assert_eq!((nonces(&first, 1), nonces(&first, 2)), (vec![3, 5], vec![9]));
        queue.push([item(1, 6), item(3, 1)]);
        assert_eq!(nonces(&queue.take(), 3), [1], "lane 1 is still on its way");
        assert!(queue.take().is_empty());
        queue.done(&first.iter().map(|item| item.lane).collect());
        assert_eq!(nonces(&queue.take(), 1), [6]);
    }

    #[test]
    fn a_long_lane_does_not_keep_others_waiting_for_ever() {
        let queue = Queue::default();
        queue.push((0..150).map(|nonce| item(1, nonce)));
        queue.push([item(2, 0)]);
        let first = queue.take();
        assert_eq!(first.len(), BATCH_LIMIT);
        assert_eq!(nonces(&queue.take(), 2), [0]);
        queue.done(&HashSet::from([first[0].lane]));
        assert_eq!(nonces(&queue.take(), 1), (100..150).collect::<Vec<_>>());
    }
}
