//! What is open on one chain, in memory.
//!
//! A book is behind a lock that is never held across an await. Every change of a transaction is
//! decided here, by the rule in `domain`, and leaves in the same moment towards the recorder, so
//! the store sees changes in the order in which they were decided.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use stile_domain::{B256, Bytes, Finality, Lane, Nonce, Receipt, Standing, Step, TxId, TxState};
use stile_store::{NewEvent, OpenTx, Set, Tx, TxChange};
use tracing::debug;

/// A transaction that has a nonce and is not done.
#[derive(Debug, Clone)]
pub(crate) struct Open {
    pub(crate) id: TxId,
    pub(crate) lane: Lane,
    pub(crate) nonce: Nonce,
    pub(crate) finality: Finality,
    pub(crate) standing: Standing,
    /// The length of its history.
    pub(crate) events: u32,
    /// Hash and bytes of every attempt, oldest first.
    pub(crate) attempts: Vec<(B256, Bytes)>,
    pub(crate) receipt: Option<Receipt>,
    /// The block up to which its confirmations have been told.
    pub(crate) told: Option<(u64, B256)>,
    pub(crate) sends: u32,
    /// How often in a row every endpoint has refused it for now.
    pub(crate) refusals: u32,
    /// When this process accepted it; `None` if it took it over.
    pub(crate) accepted: Option<Instant>,
    /// In the submitter's hands.
    pub(crate) queued: bool,
    /// When it is to be sent again.
    pub(crate) next_send: Option<Instant>,
    /// When its receipt is to be asked for by itself.
    pub(crate) next_check: Instant,
    /// How often that was asked in vain.
    pub(crate) vain_checks: u32,
    /// Whether its block must be compared with the chain before anything is concluded from it.
    pub(crate) unverified: bool,
    /// Blocks on top of its own were replaced and nobody has told yet.
    pub(crate) untold_fork: bool,
}

impl Open {
    /// One that was just bound.
    pub(crate) fn bound(
        tx: &Tx,
        hash: B256,
        raw: Bytes,
        accepted: Instant,
        check: Instant,
    ) -> Option<Self> {
        Some(Self {
            id: tx.id,
            lane: tx.lane,
            nonce: tx.nonce?,
            finality: tx.finality,
            standing: tx.standing,
            events: tx.events,
            attempts: vec![(hash, raw)],
            receipt: None,
            told: None,
            sends: 0,
            refusals: 0,
            accepted: Some(accepted),
            queued: false,
            next_send: None,
            next_check: check,
            vain_checks: 0,
            unverified: false,
            untold_fork: false,
        })
    }

    /// One that was read from the store.
    pub(crate) fn read(open: OpenTx, now: Instant) -> Option<Self> {
        let tx = open.tx;
        Some(Self {
            id: tx.id,
            lane: tx.lane,
            nonce: tx.nonce?,
            finality: tx.finality,
            standing: tx.standing,
            events: tx.events,
            attempts: open.attempts.into_iter().map(|(_, hash, raw)| (hash, raw)).collect(),
            unverified: tx.receipt.is_some(),
            receipt: tx.receipt,
            told: tx.told,
            sends: tx.sends,
            refusals: 0,
            accepted: None,
            queued: false,
            next_send: None,
            next_check: now,
            vain_checks: 0,
            untold_fork: open.forked,
        })
    }

    /// Whether it is not in a canonical block.
    pub(crate) fn is_unmined(&self) -> bool {
        matches!(self.standing.state, TxState::Allocated | TxState::Submitted)
    }

    /// The attempt that is sent: the newest.
    pub(crate) fn newest(&self) -> Option<&(B256, Bytes)> {
        self.attempts.last()
    }
}

/// All of them, on one chain.
#[derive(Debug, Default)]
pub(crate) struct Book {
    txs: HashMap<TxId, Open>,
    by_hash: HashMap<B256, TxId>,
    unmined: HashMap<Lane, BTreeMap<Nonce, TxId>>,
}

impl Book {
    pub(crate) fn insert(&mut self, open: Open) {
        for (hash, _) in &open.attempts {
            self.by_hash.insert(*hash, open.id);
        }
        if open.is_unmined() {
            self.unmined.entry(open.lane).or_default().insert(open.nonce, open.id);
        }
        self.txs.insert(open.id, open);
    }

    pub(crate) fn remove(&mut self, id: TxId) -> Option<Open> {
        let open = self.txs.remove(&id)?;
        for (hash, _) in &open.attempts {
            self.by_hash.remove(hash);
        }
        self.forget_unmined(open.lane, open.nonce);
        Some(open)
    }

    fn forget_unmined(&mut self, lane: Lane, nonce: Nonce) {
        if let Some(nonces) = self.unmined.get_mut(&lane) {
            nonces.remove(&nonce);
            if nonces.is_empty() {
                self.unmined.remove(&lane);
            }
        }
    }

    /// Drops everything of a lane: it is somebody else's now, or is about to be read again.
    pub(crate) fn drop_lane(&mut self, lane: Lane) {
        let ids: Vec<TxId> = self.txs.values().filter(|o| o.lane == lane).map(|o| o.id).collect();
        for id in ids {
            self.remove(id);
        }
    }

    pub(crate) fn get(&self, id: TxId) -> Option<&Open> {
        self.txs.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: TxId) -> Option<&mut Open> {
        self.txs.get_mut(&id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Open> {
        self.txs.values()
    }

    /// The transaction that an attempt belongs to.
    pub(crate) fn by_hash(&self, hash: &B256) -> Option<TxId> {
        self.by_hash.get(hash).copied()
    }

    /// How many of a lane have a nonce and are not in a block.
    pub(crate) fn in_flight(&self, lane: Lane) -> usize {
        self.unmined.get(&lane).map_or(0, BTreeMap::len)
    }

    /// How many in all.
    pub(crate) fn all_in_flight(&self) -> usize {
        self.unmined.values().map(BTreeMap::len).sum()
    }

    /// The lowest unmined nonce of each lane. As long as it is not mined, none above it can be.
    pub(crate) fn lowest_unmined(&self) -> impl Iterator<Item = &Open> {
        let lowest = self.unmined.values().filter_map(|nonces| nonces.first_key_value());
        lowest.filter_map(|(_, id)| self.txs.get(id))
    }

    /// The unmined of all lanes, by lane and nonce.
    pub(crate) fn all_unmined(&self) -> impl Iterator<Item = &Open> {
        self.unmined.values().flat_map(BTreeMap::values).filter_map(|id| self.txs.get(id))
    }

    /// The unmined of one lane, lowest nonce first.
    pub(crate) fn unmined_of(&self, lane: Lane) -> impl Iterator<Item = &Open> {
        let ids = self.unmined.get(&lane).into_iter().flat_map(BTreeMap::values);
        ids.filter_map(|id| self.txs.get(id))
    }

    /// Has the receipts of a lane's unmined asked for, up to a nonce.
    pub(crate) fn check_up_to(&mut self, lane: Lane, nonce: Nonce, at: Instant) {
        let Some(nonces) = self.unmined.get(&lane) else { return };
        for id in nonces.range(..=nonce).map(|(_, id)| id) {
            if let Some(open) = self.txs.get_mut(id) {
                open.next_check = open.next_check.min(at);
                open.vain_checks = 0;
            }
        }
    }

    /// Takes a step: decides by the rule, remembers, and answers with what is to be written. `None`
    /// if it is not open or the step does not apply any more; whoever saw it came too late.
    pub(crate) fn step(
        &mut self,
        id: TxId,
        step: Step,
        data: serde_json::Value,
    ) -> Option<TxChange> {
        let open = self.txs.get_mut(&id)?;
        let from = open.standing;
        let Ok(standing) = from.after(step) else {
            debug!(txId = %id, ?step, state = %from.state, "came too late");
            return None;
        };
        let mut change = TxChange::new(id, open.events, standing);
        change.event = Some(NewEvent { kind: from.kind_of(step), data });
        open.events += 1;
        open.standing = standing;
        let (lane, nonce) = (open.lane, open.nonce);
        match step {
            Step::Mined(_) | Step::Superseded(_) => self.forget_unmined(lane, nonce),
            Step::Unmined => {
                open.receipt = None;
                open.told = None;
                change.receipt = Set::Clear;
                change.told = Set::Clear;
                self.unmined.entry(lane).or_default().insert(nonce, id);
            }
            _ => {}
        }
        Some(change)
    }
}
