//! Writing down what happened.
//!
//! One task takes whatever waits, of all lanes, and commits it together. Changes are written in the
//! order in which they were decided. If the database is away they wait; if a lane is lost, its
//! changes are somebody else's to make; if the store does not find what the book said, the lane is
//! read again.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use stile_domain::{Lane, TxId};
use stile_store::{Claim, LaneChanges, Recorded, Refusal, StoreError, TxChange};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tracing::{debug, warn};

use crate::core::Core;
use crate::metrics;
use crate::tx;
use crate::tx::{adopt, memorise, replace};

/// Changes committed together at most. Their lanes' rows are locked for as long as the commit takes,
/// and whoever binds on those lanes waits for it.
const BATCH_LIMIT: usize = 250;

/// From so many changes on a commit takes longer than acceptance should wait.
const LONG: usize = 32;

/// From so many changes that wait on, no more nonces are bound: what is decided is kept in memory
/// until it is written, and more must not be decided than can be written.
const BEHIND: usize = 5000;

/// Where decided changes go.
#[derive(Debug)]
pub(crate) struct Recorder {
    sender: UnboundedSender<Decided>,
    waiting: AtomicUsize,
    /// How many changes have been decided, and how many of the first of them are written or dropped.
    decided: AtomicU64,
    settled: watch::Sender<u64>,
    /// How often each lane was forgotten. What was decided before that was decided on a memory that
    /// turned out to be wrong, or is somebody else's to decide.
    forgotten: Mutex<HashMap<Lane, u64>>,
}

/// A change, and how often its lane had been forgotten when it was decided.
type Decided = (Lane, u64, TxChange);

pub(crate) type Inbox = UnboundedReceiver<Decided>;

impl Recorder {
    pub(crate) fn new() -> (Self, Inbox) {
        let (sender, inbox) = unbounded_channel();
        let recorder = Self {
            sender,
            waiting: AtomicUsize::default(),
            decided: AtomicU64::default(),
            settled: watch::Sender::default(),
            forgotten: Mutex::default(),
        };
        (recorder, inbox)
    }

    /// Hands over a change. To be called under the book's lock, in which it was decided.
    pub(crate) fn write(&self, lane: Lane, change: Option<TxChange>) {
        if let Some(change) = change {
            self.waiting.fetch_add(1, Ordering::Relaxed);
            self.decided.fetch_add(1, Ordering::SeqCst);
            // The inbox only closes when the process ends.
            let _ = self.sender.send((lane, self.times_forgotten(lane), change));
        }
    }

    /// A lane's transactions are dropped from the book: what was decided about them and is not
    /// written yet is dropped too. To be called under the book's lock.
    pub(crate) fn forget(&self, lane: Lane) {
        *self.forgotten().entry(lane).or_default() += 1;
    }

    /// Waits until everything is written that has been decided so far. `false` if the database does
    /// not take it within this time.
    pub(crate) async fn is_written(&self, within: Duration) -> bool {
        let decided = self.decided.load(Ordering::SeqCst);
        let mut settled = self.settled.subscribe();
        let written = settled.wait_for(|settled| *settled >= decided);
        matches!(tokio::time::timeout(within, written).await, Ok(Ok(_)))
    }

    /// Whether what was decided when a lane had been forgotten so often still counts.
    fn is_remembered(&self, lane: Lane, times: u64) -> bool {
        self.times_forgotten(lane) == times
    }

    fn times_forgotten(&self, lane: Lane) -> u64 {
        self.forgotten().get(&lane).copied().unwrap_or_default()
    }

    fn forgotten(&self) -> MutexGuard<'_, HashMap<Lane, u64>> {
        self.forgotten.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether more is decided than can be written at the moment.
    pub(crate) fn is_behind(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) >= BEHIND
    }

    /// So many are written, or somebody else's to write. `true` if that ends being behind.
    fn done(&self, count: usize) -> bool {
        let before = self.waiting.fetch_sub(count, Ordering::Relaxed);
        before >= BEHIND && before - count < BEHIND
    }
}

/// Runs until the node stops and nobody is left who decides anything.
pub(crate) async fn run(core: Arc<Core>, mut inbox: Inbox) {
    let mut waiting: VecDeque<Decided> = VecDeque::new();
    let mut taken: u64 = 0;
    let ended = core.producers.wait();
    tokio::pin!(ended);
    let mut ending = false;
    loop {
        if waiting.is_empty() {
            let mut more = Vec::new();
            tokio::select! {
                biased;
                count = inbox.recv_many(&mut more, BATCH_LIMIT) => {
                    taken += count as u64;
                    waiting.extend(more);
                }
                () = &mut ended, if !ending => ending = true,
                else => return,
            }
            if waiting.is_empty() {
                if ending && inbox.is_empty() {
                    return;
                }
                continue;
            }
        }
        let before = waiting.len();
        waiting.retain(|(lane, times, _)| core.recorder.is_remembered(*lane, *times));
        let batch = next_batch(&mut waiting);
        write(&core, batch).await;
        if core.recorder.done(before - waiting.len()) {
            wake_all(&core);
        }
        if waiting.is_empty() {
            core.recorder.settled.send_replace(taken);
        }
    }
}

/// Whoever waits for a nonce may have one again.
fn wake_all(core: &Arc<Core>) {
    for (slot, _) in core.lanes.held() {
        if slot.has_waiting() {
            tx::wake(core, &slot);
        }
    }
}

/// What goes into one commit, by lane, and how often the lane had been forgotten when it was decided.
type Batch = BTreeMap<Lane, (u64, Vec<TxChange>)>;

/// As much as goes into one commit: no transaction twice, and nothing overtakes.
fn next_batch(waiting: &mut VecDeque<Decided>) -> Batch {
    let mut seen: HashSet<TxId> = HashSet::new();
    let mut batch = Batch::new();
    let mut later = VecDeque::new();
    for (lane, times, change) in waiting.drain(..) {
        if seen.insert(change.tx) {
            batch.entry(lane).or_insert((times, Vec::new())).1.push(change);
        } else {
            later.push_back((lane, times, change));
        }
    }
    *waiting = later;
    batch
}

/// Writes a batch, however long the database takes to come back.
async fn write(core: &Arc<Core>, mut batch: Batch) {
    let mut pause = Duration::from_millis(100);
    while !batch.is_empty() {
        let (lanes, changes) = claimed(core, &mut batch);
        if changes.is_empty() {
            return;
        }
        let (sent, until) = (Instant::now(), core.trust_from_now());
        let size: usize = changes.iter().map(|part| part.changes.len()).sum();
        let long = lanes.iter().filter(|_| size >= LONG);
        let recording: Vec<_> = long.map(|lane| core.lanes.slot(*lane).recording()).collect();
        let slots: Vec<_> = lanes.iter().map(|lane| core.lanes.slot(*lane)).collect();
        let parts = || slots.iter().zip(&changes);
        let remembered: Vec<_> =
            parts().map(|(slot, part)| memorise::replaces(slot, part)).collect();
        let written = core.store.record(&core.holder.node, &changes, core.lease()).await;
        drop(recording);
        for (place, ((slot, part), commit)) in parts().zip(remembered).enumerate() {
            let answer = written.as_deref().map(|answers| answers.get(place..=place));
            memorise::replaced(slot, part, commit, answer.map(Option::unwrap_or_default));
        }
        match written {
            Ok(answers) => {
                metrics::committed("record", size, sent.elapsed());
                core.events.send_modify(|count| *count += 1);
                for ((lane, part), answer) in lanes.iter().zip(&changes).zip(answers) {
                    if conclude(core, *lane, part, answer, until).await {
                        batch.remove(lane);
                    }
                }
            }
            Err(error) => {
                metrics::store_failed("record");
                warn!(%error, lanes = lanes.len(), "what happened could not be written; it waits");
                if error.retry_after().is_none() || core.stopping.is_cancelled() {
                    // Nothing of it can be written as it is: what is true is read again.
                    for lane in lanes {
                        adopt::again(core, lane);
                    }
                    return;
                }
                if matches!(error, StoreError::CommitUnknown(_)) {
                    debug!("written twice at worst: the second time finds the first");
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_secs(2));
            }
        }
    }
}

/// The batch's lanes that are ours and remembered, with their claims; the others are dropped from it.
fn claimed(core: &Arc<Core>, batch: &mut Batch) -> (Vec<Lane>, Vec<LaneChanges>) {
    let mut lanes = Vec::with_capacity(batch.len());
    let mut changes = Vec::with_capacity(batch.len());
    // The claim is read first: a lane is forgotten before it is trusted under a new one.
    batch.retain(|lane, (times, part)| match core.lanes.slot(*lane).claim() {
        Some(_) if !core.recorder.is_remembered(*lane, *times) => false,
        Some(claim) => {
            lanes.push(*lane);
            changes.push(LaneChanges { claim, changes: part.clone() });
            true
        }
        None => {
            adopt::give_up(core, *lane);
            false
        }
    });
    (lanes, changes)
}

/// What the commit said for one lane. `false` if its changes are to be written again.
async fn conclude(
    core: &Arc<Core>,
    lane: Lane,
    part: &LaneChanges,
    answer: Result<Vec<Recorded>, Refusal>,
    until: Instant,
) -> bool {
    let (slot, claim): (_, Claim) = (core.lanes.slot(lane), part.claim);
    match answer {
        Ok(recorded) => {
            slot.renewed(claim, until);
            let mut lost = false;
            let mut attempts = Vec::new();
            for (change, recorded) in part.changes.iter().zip(recorded) {
                lost |= recorded == Recorded::Lost;
                if let (Recorded::Written { .. }, Some(attempt)) = (recorded, &change.attempt) {
                    attempts.push((change.tx, attempt.clone()));
                }
                debug!(txId = %change.tx, signer = %lane.signer, chain = %lane.chain, node = %core.holder.node,
                       token = claim.token().get(), op = "record", state = %change.standing.state,
                       event = change.event.as_ref().map(|event| event.kind.name()), ?recorded,
                       "fenced write");
            }
            replace::written(core, lane, &attempts);
            if lost {
                warn!(signer = %lane.signer, chain = %lane.chain,
                      "the store knows more of this lane than this node: it is read again");
                adopt::again(core, lane);
            }
            true
        }
        Err(Refusal::Fenced(owner)) if core.is_ours(&owner) => {
            // The token was raised under us by a pause or resume.
            if let Err(error) = core.acquire(&[lane]).await {
                warn!(%error, "a lease could not be renewed");
            }
            false
        }
        Err(Refusal::Fenced(owner)) => {
            core.lost(&slot, claim, &owner, "record");
            adopt::give_up(core, lane);
            true
        }
        Err(refusal) => {
            warn!(%refusal, signer = %lane.signer, chain = %lane.chain, "not written");
            adopt::again(core, lane);
            true
        }
    }
}

#[cfg(test)]
mod tests {
    use stile_domain::{Address, ChainId, Standing};
    use uuid::Uuid;

    use super::*;

    #[test]
    fn whoever_decides_more_than_can_be_written_is_told() {
        let (recorder, _inbox) = Recorder::new();
        let lane = Lane::new(ChainId::new(1).unwrap(), Address::ZERO);
        for _ in 0..BEHIND {
            assert!(!recorder.is_behind());
            let change = TxChange::new(TxId(Uuid::nil()), 1, Standing::CREATED);
            recorder.write(lane, Some(change));
        }
        assert!(recorder.is_behind());
        assert!(recorder.done(1), "that ends it");
        assert!(!recorder.is_behind() && !recorder.done(1));
    }

    #[test]
    fn changes_of_one_transaction_keep_their_order_over_commits() {
        let lane = Lane::new(ChainId::new(1).unwrap(), Address::ZERO);
        let (a, b) = (TxId(Uuid::new_v4()), TxId(Uuid::new_v4()));
        let change = |tx, events| (lane, 0, TxChange::new(tx, events, Standing::CREATED));
        let mut waiting: VecDeque<_> =
            [change(a, 1), change(b, 1), change(a, 2), change(a, 3)].into();
        let mut seen = Vec::new();
        while !waiting.is_empty() {
            let batch = next_batch(&mut waiting);
            seen.push(
                batch[&lane].1.iter().map(|change| (change.tx, change.events)).collect::<Vec<_>>(),
            );
        }
        assert_eq!(seen, [vec![(a, 1), (b, 1)], vec![(a, 2)], vec![(a, 3)]]);
    }
}
