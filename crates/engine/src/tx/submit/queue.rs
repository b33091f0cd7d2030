//! What waits to be sent: a queue for each endpoint, so that none waits for another.
//!
//! The order within a lane is kept: a lane is in at most one batch at a time, lowest nonce first.
//! Many lanes go side by side, and share batches.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};

use stile_domain::{B256, Bytes, Lane, Nonce, TxId};
use stile_store::OpenAttempt;
use tokio::sync::Notify;

use crate::tx::book::Open;

/// Transactions in one batch at most.
const BATCH_LIMIT: usize = 100;

/// One transaction on its way to the chain.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    pub(super) lane: Lane,
    pub(super) nonce: Nonce,
    pub(super) id: TxId,
    pub(super) hash: B256,
    pub(super) raw: Bytes,
    /// A caller has asked for it and waits.
    pub(super) hurried: bool,
}

impl Item {
    /// The newest attempt of an open transaction.
    pub(crate) fn of(open: &Open) -> Option<Self> {
        let OpenAttempt { hash, raw, .. } = open.newest()?.clone();
        let hurried = open.hurried == Some(hash);
        Some(Self { lane: open.lane, nonce: open.nonce, id: open.id, hash, raw, hurried })
    }
}

/// What waits to be sent, by endpoint.
#[derive(Debug)]
pub(crate) struct Queues {
    queues: Vec<Queue>,
    /// It was told that no endpoint takes transactions.
    pub(super) read_only_told: AtomicBool,
}

impl Queues {
    pub(crate) fn new(endpoints: usize) -> Self {
        let queues = (0..endpoints).map(|_| Queue::default()).collect();
        Self { queues, read_only_told: AtomicBool::new(false) }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Queue> {
        self.queues.iter()
    }
}

/// What waits to be sent to one endpoint.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    pub(super) ready: Notify,
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
    pub(super) fn take(&self) -> Vec<Item> {
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
    pub(super) fn done(&self, lanes: &HashSet<Lane>) {
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

#[cfg(test)]
mod tests {
    use stile_domain::{Address, ChainId};
    use uuid::Uuid;

    use super::*;

    fn item(signer: u8, nonce: Nonce) -> Item {
        let lane = Lane::new(ChainId::new(1).unwrap(), Address::repeat_byte(signer));
        let id = TxId(Uuid::new_v4());
        Item { lane, nonce, id, hash: B256::ZERO, raw: Bytes::new(), hurried: false }
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
