//! What is open on one chain, in memory.
//!
//! A book is behind a lock that is never held across an await. Every change of a transaction is
//! decided here, by the rule in `domain`, and leaves in the same moment towards the recorder, so
//! the store sees changes in the order in which they were decided.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use stile_chain::SendClass;
use stile_domain::{
    B256, Finality, Lane, Nonce, Payload, Receipt, Rival, Standing, Step, TxId, TxState,
};
use stile_store::{NewEvent, OpenAttempt, OpenTx, Set, Tx, TxChange};
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
    /// Every attempt, oldest first.
    pub(crate) attempts: Vec<OpenAttempt>,
    pub(crate) receipt: Option<Receipt>,
    /// The transaction that took its nonce, if one did.
    pub(crate) rival: Option<Rival>,
    /// What its caller allows an attempt to offer; `None` where only the chain's limit counts.
    pub(crate) fee_limit: Option<u128>,
    /// Whether it is made anew if somebody else's transaction takes its nonce.
    pub(crate) resend: bool,
    /// A new attempt is being signed or written.
    pub(crate) replacing: bool,
    /// When it gets an attempt that offers more.
    pub(crate) next_bump: Option<Instant>,
    /// When it last got a new attempt here.
    pub(crate) replaced: Option<Instant>,
    /// How often in a row every endpoint has refused it for good.
    pub(crate) rejections: u32,
    /// The block up to which its confirmations have been told.
    pub(crate) told: Option<(u64, B256)>,
    pub(crate) sends: u32,
    /// How often in a row every endpoint has refused it for now.
    pub(crate) refusals: u32,
    /// Why no endpoint took it when that was last written down.
    pub(crate) not_taken: Option<SendClass>,
    /// It was told that the next attempt would cost more than is allowed.
    pub(crate) limit_told: bool,
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
        attempt: OpenAttempt,
        accepted: Instant,
        check: Instant,
    ) -> Option<Self> {
        Some(Self {
            accepted: Some(accepted),
            next_check: check,
            ..Self::of(tx, vec![attempt], check)?
        })
    }

    fn of(tx: &Tx, attempts: Vec<OpenAttempt>, next_check: Instant) -> Option<Self> {
        Some(Self {
            id: tx.id,
            lane: tx.lane,
            nonce: tx.nonce?,
            finality: tx.finality,
            standing: tx.standing,
            events: tx.events,
            attempts,
            receipt: tx.receipt.clone(),
            rival: tx.rival,
            fee_limit: own_limit(&tx.payload),
            resend: tx.payload.resend_if_replaced,
            replacing: false,
            next_bump: None,
            replaced: None,
            rejections: 0,
            told: tx.told,
            sends: tx.sends,
            refusals: 0,
            not_taken: None,
            limit_told: false,
            accepted: None,
            queued: false,
            next_send: None,
            next_check,
            vain_checks: 0,
            unverified: tx.receipt.is_some() || tx.rival.is_some(),
            untold_fork: false,
        })
    }

    /// One that was read from the store.
    pub(crate) fn read(open: OpenTx, now: Instant) -> Option<Self> {
        Some(Self { untold_fork: open.forked, ..Self::of(&open.tx, open.attempts, now)? })
    }

    /// Whether no transaction with its nonce is in a canonical block, as far as is known.
    pub(crate) fn is_unmined(&self) -> bool {
        self.rival.is_none()
            && matches!(self.standing.state, TxState::Allocated | TxState::Submitted)
    }

    /// The attempt that is sent: the newest.
    pub(crate) fn newest(&self) -> Option<&OpenAttempt> {
        self.attempts.last()
    }

    /// The block that has decided about its nonce: its own, or that of the transaction which took
    /// its nonce.
    pub(crate) fn block(&self) -> Option<(u64, B256)> {
        let own = self.receipt.as_ref().map(|own| (own.block_number, own.block_hash));
        own.or(self.rival.map(|rival| (rival.block_number, rival.block_hash)))
    }
}

fn own_limit(payload: &Payload) -> Option<u128> {
    payload.fee_limit.or(payload.stated_price())
}

/// For how long it is remembered that one was done with: longer than anybody takes to read a lane.
const CLOSED_FOR: Duration = Duration::from_secs(60);

/// How many are remembered before the old ones are forgotten.
const CLOSED_KEPT: usize = 10_000;

/// All of them, on one chain.
#[derive(Debug, Default)]
pub(crate) struct Book {
    txs: HashMap<TxId, Open>,
    by_hash: HashMap<B256, TxId>,
    unmined: HashMap<Lane, BTreeMap<Nonce, TxId>>,
    /// When transactions were last done with: somebody may still be about to put in an older copy.
    closed: HashMap<TxId, Instant>,
    /// What the transactions of a lane have cost lately, in wei.
    costs: HashMap<Lane, f64>,
}

impl Book {
    pub(crate) fn insert(&mut self, open: Open) {
        for attempt in &open.attempts {
            self.by_hash.insert(attempt.hash, open.id);
        }
        if open.is_unmined() {
            self.unmined.entry(open.lane).or_default().insert(open.nonce, open.id);
        }
        self.txs.insert(open.id, open);
    }

    pub(crate) fn remove(&mut self, id: TxId) -> Option<Open> {
        let open = self.txs.remove(&id)?;
        for attempt in &open.attempts {
            self.by_hash.remove(&attempt.hash);
        }
        self.forget_unmined(open.lane, open.nonce);
        Some(open)
    }

    /// Takes note of an attempt that has just been written: from here on it may be sent.
    pub(crate) fn add_attempt(&mut self, id: TxId, attempt: OpenAttempt) {
        if let Some(open) = self.txs.get_mut(&id) {
            self.by_hash.insert(attempt.hash, id);
            open.attempts.push(attempt);
            open.replacing = false;
        }
    }

    fn forget_unmined(&mut self, lane: Lane, nonce: Nonce) {
        if let Some(nonces) = self.unmined.get_mut(&lane) {
            nonces.remove(&nonce);
            if nonces.is_empty() {
                self.unmined.remove(&lane);
            }
        }
    }

    /// Takes out one that is done.
    pub(crate) fn close(&mut self, id: TxId) {
        let now = Instant::now();
        if self.closed.len() >= CLOSED_KEPT {
            self.closed.retain(|_, at| now.duration_since(*at) < CLOSED_FOR);
        }
        self.closed.insert(id, now);
        self.remove(id);
    }

    /// Whether one was done with after this moment.
    pub(crate) fn closed_since(&self, id: TxId, moment: Instant) -> bool {
        self.closed.get(&id).is_some_and(|at| *at >= moment)
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

    /// Whether a lane's transaction at this nonce is open and not in a block.
    pub(crate) fn is_unmined_at(&self, lane: Lane, nonce: Nonce) -> bool {
        self.unmined.get(&lane).is_some_and(|nonces| nonces.contains_key(&nonce))
    }

    /// How many of a lane have a nonce and are not in a block.
    pub(crate) fn in_flight(&self, lane: Lane) -> usize {
        self.unmined.get(&lane).map_or(0, BTreeMap::len)
    }

    /// Takes note of what a mined transaction has cost. Older ones count less and less.
    pub(crate) fn note_cost(&mut self, lane: Lane, wei: f64) {
        let usual = self.costs.entry(lane).or_insert(wei);
        *usual += (wei - *usual) / 16.0;
    }

    /// What a transaction of a lane usually costs, in wei.
    pub(crate) fn usual_cost(&self, lane: Lane) -> Option<f64> {
        self.costs.get(&lane).copied()
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

    /// Whether it is its lane's lowest unmined: nothing above it is mined before it.
    pub(crate) fn is_lowest(&self, open: &Open) -> bool {
        let nonces = self.unmined.get(&open.lane);
        nonces.and_then(BTreeMap::first_key_value).is_some_and(|(_, id)| *id == open.id)
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
            Step::Mined(_) => {
                open.rival = None;
                change.rival = Set::Clear;
                self.forget_unmined(lane, nonce);
            }
            Step::Superseded(_) | Step::Overtaken(_) => self.forget_unmined(lane, nonce),
            Step::Unmined => {
                open.receipt = None;
                open.told = None;
                open.rival = None;
                change.receipt = Set::Clear;
                change.told = Set::Clear;
                change.rival = Set::Clear;
                self.unmined.entry(lane).or_default().insert(nonce, id);
            }
            _ => {}
        }
        Some(change)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn an_older_copy_of_one_that_is_done_is_told_from_a_newer() {
        let (mut book, id) = (Book::default(), TxId(Uuid::nil()));
        let read_before = Instant::now();
        book.close(id);
        assert!(book.closed_since(id, read_before));
        let read_after = Instant::now() + Duration::from_millis(1);
        assert!(!book.closed_since(id, read_after));
    }
}
