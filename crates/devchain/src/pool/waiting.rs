//! Who waits: per sender by nonce.

use std::collections::BTreeMap;
use std::sync::Arc;

use alloy::consensus::Transaction;
use alloy_primitives::map::{AddressMap, B256Map};
use alloy_primitives::{Address, B256, U256};

use super::refusal::Refusal;
use crate::chain::Tx;
use crate::chain::state::Account;

/// How many may wait.
const CAPACITY: usize = 200_000;

/// By how many hundredths a replacement has to offer more, of both fees.
const BUMP_PERCENT: u128 = 10;

/// A transaction that waits.
#[derive(Debug, Clone)]
pub(crate) struct Waiting {
    pub(crate) tx: Arc<Tx>,
    /// Who came first goes first among those who offer the same.
    pub(crate) arrival: u64,
}

/// How many transactions wait.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Status {
    /// Those that could go into a block.
    pub(crate) pending: usize,
    /// Those that wait for an earlier nonce.
    pub(crate) queued: usize,
}

/// Transactions that wait for a block.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    senders: AddressMap<Sender>,
    by_hash: B256Map<Arc<Tx>>,
    arrivals: u64,
}

#[derive(Debug, Default)]
struct Sender {
    by_nonce: BTreeMap<u64, Waiting>,
    /// The most that all of them can cost.
    cost: U256,
}

impl Pool {
    /// Takes a transaction that was [checked](super::check) against this account of its sender.
    pub(crate) fn add(&mut self, tx: Arc<Tx>, sender: &Account) -> Result<(), Refusal> {
        if self.by_hash.contains_key(&tx.hash) {
            return Err(Refusal::Known);
        }
        let nonce = tx.envelope.nonce();
        let queue = self.senders.get(&tx.from);
        let old = queue.and_then(|queue| queue.by_nonce.get(&nonce)).map(|waiting| &waiting.tx);
        if old.is_some_and(|old| !outbids(&tx, old)) {
            return Err(Refusal::ReplacementUnderpriced);
        }
        if old.is_none() && self.by_hash.len() >= CAPACITY {
            return Err(Refusal::Full);
        }
        let replaced = old.map(|old| (old.hash, old.cost()));
        let queued = queue.map_or(U256::ZERO, |queue| queue.cost);
        let queued = queued.saturating_sub(replaced.map_or(U256::ZERO, |(_, cost)| cost));
        let cost = tx.cost();
        if queued.saturating_add(cost) > sender.balance {
            return Err(Refusal::QueuedFunds { balance: sender.balance, queued, cost });
        }
        if let Some((hash, _)) = replaced {
            self.by_hash.remove(&hash);
        }
        self.put(tx, queued.saturating_add(cost));
        Ok(())
    }

    /// Puts transactions of replaced blocks back. They were checked when they first came.
    pub(crate) fn put_back(&mut self, txs: impl IntoIterator<Item = Arc<Tx>>) {
        for tx in txs {
            self.remove(tx.hash);
            let nonce = tx.envelope.nonce();
            let queue = self.senders.entry(tx.from).or_default();
            if let Some(other) = queue.by_nonce.get(&nonce).map(|waiting| waiting.tx.hash) {
                self.remove(other);
            }
            let queued = self.senders.get(&tx.from).map_or(U256::ZERO, |queue| queue.cost);
            let cost = queued.saturating_add(tx.cost());
            self.put(tx, cost);
        }
    }

    fn put(&mut self, tx: Arc<Tx>, cost: U256) {
        self.arrivals += 1;
        self.by_hash.insert(tx.hash, Arc::clone(&tx));
        let queue = self.senders.entry(tx.from).or_default();
        queue.cost = cost;
        let nonce = tx.envelope.nonce();
        queue.by_nonce.insert(nonce, Waiting { tx, arrival: self.arrivals });
    }

    /// A transaction that waits.
    pub(crate) fn get(&self, hash: B256) -> Option<&Arc<Tx>> {
        self.by_hash.get(&hash)
    }

    /// Forgets a transaction; false if it does not wait.
    pub(crate) fn remove(&mut self, hash: B256) -> bool {
        let Some(tx) = self.by_hash.remove(&hash) else { return false };
        if let Some(queue) = self.senders.get_mut(&tx.from) {
            queue.by_nonce.remove(&tx.envelope.nonce());
            queue.cost = queue.cost.saturating_sub(tx.cost());
            if queue.by_nonce.is_empty() {
                self.senders.remove(&tx.from);
            }
        }
        true
    }

    /// Forgets all of them; how many there were.
    pub(crate) fn clear(&mut self) -> usize {
        self.senders.clear();
        std::mem::take(&mut self.by_hash).len()
    }

    /// Forgets what of a sender is below its next nonce.
    pub(crate) fn used(&mut self, sender: Address, next: u64) {
        let Some(queue) = self.senders.get(&sender) else { return };
        let used: Vec<B256> = queue.by_nonce.range(..next).map(|(_, one)| one.tx.hash).collect();
        for hash in used {
            self.remove(hash);
        }
    }

    /// The nonce after all that could be mined of a sender whose next nonce is `next`.
    pub(crate) fn next_nonce(&self, sender: Address, next: u64) -> u64 {
        let Some(queue) = self.senders.get(&sender) else { return next };
        let run = queue.by_nonce.range(next..).zip(next..);
        next + run.take_while(|((nonce, _), expected)| *nonce == expected).count() as u64
    }

    /// Of each sender what could be mined, by nonce. `next` knows the senders' next nonces.
    pub(crate) fn executable(&self, next: impl Fn(Address) -> u64) -> Vec<Vec<Waiting>> {
        let mut queues: Vec<Vec<Waiting>> = Vec::with_capacity(self.senders.len());
        for (sender, queue) in &self.senders {
            let first = next(*sender);
            let run = queue.by_nonce.range(first..).zip(first..);
            let run = run.take_while(|((nonce, _), expected)| *nonce == expected);
            let run: Vec<Waiting> = run.map(|((_, waiting), _)| waiting.clone()).collect();
            if !run.is_empty() {
                queues.push(run);
            }
        }
        queues
    }

    /// How many wait. `next` knows the senders' next nonces.
    pub(crate) fn status(&self, next: impl Fn(Address) -> u64) -> Status {
        let runs = self.senders.keys().map(|sender| {
            let first = next(*sender);
            usize::try_from(self.next_nonce(*sender, first) - first).unwrap_or(usize::MAX)
        });
        let pending = runs.sum();
        Status { pending, queued: self.by_hash.len() - pending }
    }
}

/// Whether a transaction offers enough more than the one it would replace.
fn outbids(new: &Tx, old: &Tx) -> bool {
    let enough = |new: u128, old: u128| {
        new > old && new.saturating_mul(100) >= old.saturating_mul(100 + BUMP_PERCENT)
    };
    enough(new.envelope.max_fee_per_gas(), old.envelope.max_fee_per_gas())
        && enough(new.max_tip(), old.max_tip())
}
