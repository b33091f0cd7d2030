//! What is open on one chain, in memory.
//!
//! A book is behind a lock that is never held across an await. Every change of a transaction is
//! decided here, by the rule in `domain`, and leaves in the same moment towards the recorder, so
//! the store sees changes in the order in which they were decided.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

use stile_chain::SendClass;
use stile_domain::{
    B256, Bytes, Finality, Lane, Nonce, Payload, Receipt, Rival, Standing, Step, SubState,
    Successor, TxId, TxState,
};
use stile_store::{NewEvent, OpenAttempt, OpenTx, Set, Tx, TxChange};
use tracing::debug;

use crate::tx::delivery::Deliveries;

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
    /// Every attempt, oldest first. Only the newest has its bytes: no other is sent.
    pub(crate) attempts: Vec<OpenAttempt>,
    pub(crate) receipt: Option<Receipt>,
    /// The transaction that took its nonce, if one did.
    pub(crate) rival: Option<Rival>,
    /// What its caller allows an attempt to offer; `None` where only the chain's limit counts.
    pub(crate) fee_limit: Option<u128>,
    /// Whether its caller has stated what it offers.
    pub(crate) has_stated_price: bool,
    /// Whether it is made anew if somebody else's transaction takes its nonce.
    pub(crate) resend: bool,
    /// A new attempt is being signed or written.
    pub(crate) replacing: bool,
    /// When it gets an attempt that offers more.
    pub(crate) next_bump: Option<Instant>,
    /// When it last got a new attempt here.
    pub(crate) replaced: Option<Instant>,
    /// The block up to which its confirmations have been told.
    pub(crate) told: Option<(u64, B256)>,
    pub(crate) sends: u32,
    /// What each endpoint makes of its newest attempt.
    pub(crate) deliveries: Deliveries,
    /// The endpoints that took one of its attempts from this process.
    pub(crate) takers: Vec<String>,
    /// An endpoint may have one of its attempts, and its answer was lost.
    pub(crate) answer_lost: bool,
    /// It was told that an endpoint has it, since it was last sent to all of them.
    pub(crate) taken_told: bool,
    /// Why no endpoint took it when that was last written down.
    pub(crate) not_taken: Option<SendClass>,
    /// The cause for which it was last told that the next attempt would cost more than is allowed.
    pub(crate) limit_told: Option<&'static str>,
    /// What it was last lowered to because its account cannot pay more.
    pub(crate) lowered: Option<u128>,
    /// When this process accepted it; `None` if it took it over.
    pub(crate) accepted: Option<Instant>,
    /// When this process first sent it.
    pub(crate) sent: Option<Instant>,
    /// The block that has it, where no receipt of it could be had.
    pub(crate) shown_in: Option<u64>,
    /// When it is to be sent again, to all endpoints.
    pub(crate) next_send: Option<Instant>,
    /// When its receipt is to be asked for by itself.
    pub(crate) next_check: Instant,
    /// How often that was asked in vain.
    pub(crate) vain_checks: u32,
    /// When that was last asked in vain.
    pub(crate) checked: Option<Instant>,
    /// Whether its block must be compared with the chain before anything is concluded from it.
    pub(crate) unverified: bool,
    /// Blocks on top of its own were replaced and nobody has told yet.
    pub(crate) untold_fork: bool,
    /// The chain does not have its block any more, and has lost more than reorganisations are followed
    /// through: nothing becomes of it before a person says so.
    pub(crate) lost: bool,
    /// The newest block when its newest attempt was first on its way.
    pub(crate) bid_at: Option<u64>,
    /// No block has come since, though it was long enough.
    pub(crate) stalled: bool,
    /// The attempt that a caller has asked for and that no endpoint has answered yet.
    pub(crate) hurried: Option<B256>,
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
            has_stated_price: tx.payload.stated_price().is_some(),
            resend: tx.payload.resend_if_replaced,
            replacing: false,
            next_bump: None,
            replaced: None,
            told: tx.told,
            sends: tx.sends,
            deliveries: Deliveries::default(),
            takers: Vec::new(),
            answer_lost: false,
            taken_told: false,
            not_taken: None,
            limit_told: None,
            lowered: None,
            accepted: None,
            sent: None,
            shown_in: None,
            next_send: None,
            next_check,
            vain_checks: 0,
            checked: None,
            unverified: tx.receipt.is_some() || tx.rival.is_some(),
            untold_fork: false,
            lost: false,
            bid_at: None,
            stalled: false,
            hurried: None,
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

    /// Whether this process read it from the store, so that another one may have sent it before.
    pub(crate) fn is_taken_over(&self) -> bool {
        self.accepted.is_none()
    }

    /// Whether an endpoint may have one of its attempts: one took it, or nobody can say that none
    /// did.
    pub(crate) fn may_be_taken(&self) -> bool {
        self.may_be_had() || self.is_taken_over()
    }

    /// Whether an endpoint is known to have taken one of its attempts, or may have and its answer was
    /// lost.
    pub(crate) fn may_be_had(&self) -> bool {
        self.standing.state == TxState::Submitted || !self.takers.is_empty() || self.answer_lost
    }

    /// Whether the chain's nodes say that its account cannot pay for it, and none is known to have it:
    /// what they do not keep need not be outbid.
    pub(crate) fn is_unpayable(&self) -> bool {
        self.standing.sub_state == Some(SubState::InsufficientFunds) && !self.may_be_had()
    }

    /// Whether it is news that another transaction has its nonce. Whoever has seen one on chain may have
    /// found it to be somebody else's a moment before it was recovered as this one's own attempt.
    pub(crate) fn loses_to(&self, rival: &Rival) -> bool {
        let is_own = rival.by == Successor::Outsider
            && self.attempts.iter().any(|attempt| Some(attempt.hash) == rival.tx_hash);
        self.receipt.is_none() && self.rival != Some(*rival) && !is_own
    }

    /// The block that has decided about its nonce: its own, or that of the transaction which took
    /// its nonce.
    pub(crate) fn block(&self) -> Option<(u64, B256)> {
        let own = self.receipt.as_ref().map(|own| (own.block_number, own.block_hash));
        own.or(self.rival.map(|rival| (rival.block_number, rival.block_hash)))
    }
}

/// Of an attempt that a newer one stands for nothing is needed but its hash and what it was for.
fn drop_older_bytes(attempts: &mut [OpenAttempt]) {
    if let Some((_, older)) = attempts.split_last_mut() {
        for attempt in older.iter_mut().filter(|attempt| !attempt.raw.is_empty()) {
            attempt.raw = Bytes::new();
        }
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
    by_lane: HashMap<Lane, HashSet<TxId>>,
    unmined: HashMap<Lane, BTreeMap<Nonce, TxId>>,
    /// When transactions were last done with: somebody may still be about to put in an older copy.
    closed: HashMap<TxId, Instant>,
    /// What the transactions of a lane have cost lately, in wei.
    costs: HashMap<Lane, f64>,
    /// Lanes that are being read from the store, each with its newest reading.
    readings: HashMap<Lane, Reading>,
    last_reading: u64,
    /// How many transactions were touched one by one, for tests.
    #[cfg(test)]
    touched: std::cell::Cell<usize>,
}

/// One reading of a lane. What an earlier one brings is too old.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reading(u64);

impl Book {
    pub(crate) fn insert(&mut self, mut open: Open) {
        drop_older_bytes(&mut open.attempts);
        for attempt in &open.attempts {
            self.by_hash.insert(attempt.hash, open.id);
        }
        self.by_lane.entry(open.lane).or_default().insert(open.id);
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
        if let Some(ids) = self.by_lane.get_mut(&open.lane) {
            ids.remove(&id);
            if ids.is_empty() {
                self.by_lane.remove(&open.lane);
            }
        }
        Some(open)
    }

    /// Takes note of an attempt that has just been written: from here on it may be sent.
    pub(crate) fn add_attempt(&mut self, id: TxId, attempt: OpenAttempt) {
        if let Some(open) = self.txs.get_mut(&id) {
            self.by_hash.insert(attempt.hash, id);
            open.attempts.push(attempt);
            drop_older_bytes(&mut open.attempts);
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

    /// Drops everything of a lane: it is somebody else's now, or is about to be read again. Whoever
    /// is reading it stops. Costs what the lane has, whatever else is in the book.
    pub(crate) fn drop_lane(&mut self, lane: Lane) {
        self.readings.remove(&lane);
        let ids: Vec<TxId> = self.of_lane(lane).map(|open| open.id).collect();
        for id in ids {
            self.remove(id);
        }
    }

    /// Everything of a lane, in any order.
    pub(crate) fn of_lane(&self, lane: Lane) -> impl Iterator<Item = &Open> {
        self.by_lane.get(&lane).into_iter().flatten().filter_map(|id| self.get(*id))
    }

    /// A lane is going to be read from the store, from its first transaction on.
    pub(crate) fn begin_reading(&mut self, lane: Lane) -> Reading {
        self.last_reading += 1;
        let reading = Reading(self.last_reading);
        self.readings.insert(lane, reading);
        reading
    }

    /// Whether this reading of a lane still counts: nobody has dropped the lane or begun to read it
    /// anew.
    pub(crate) fn is_current(&self, lane: Lane, reading: Reading) -> bool {
        self.readings.get(&lane) == Some(&reading)
    }

    /// All of a lane has been read. `false` if this reading does not count any more.
    pub(crate) fn end_reading(&mut self, lane: Lane, reading: Reading) -> bool {
        let current = self.is_current(lane, reading);
        if current {
            self.readings.remove(&lane);
        }
        current
    }

    pub(crate) fn get(&self, id: TxId) -> Option<&Open> {
        self.touch();
        self.txs.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: TxId) -> Option<&mut Open> {
        self.txs.get_mut(&id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Open> {
        self.txs.values().inspect(|_| self.touch())
    }

    #[cfg(test)]
    fn touch(&self) {
        self.touched.set(self.touched.get() + 1);
    }

    #[cfg(not(test))]
    fn touch(&self) {}

    /// The transaction that an attempt belongs to.
    pub(crate) fn by_hash(&self, hash: &B256) -> Option<TxId> {
        self.by_hash.get(hash).copied()
    }

    /// Whether a lane's transaction at this nonce is open and not in a block.
    pub(crate) fn is_unmined_at(&self, lane: Lane, nonce: Nonce) -> bool {
        self.unmined.get(&lane).is_some_and(|nonces| nonces.contains_key(&nonce))
    }

    /// How many of a lane have a nonce and are not in a block. While the lane is being read nobody
    /// knows, and it counts as full: no more nonces are bound before the end of it.
    pub(crate) fn in_flight(&self, lane: Lane) -> usize {
        if self.readings.contains_key(&lane) {
            return usize::MAX;
        }
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

    /// Whether something of a lane is not in a block, as far as is known, and has a nonce below
    /// this one.
    pub(crate) fn has_unmined_below(&self, lane: Lane, nonce: Nonce) -> bool {
        let lowest = self.unmined.get(&lane).and_then(BTreeMap::first_key_value);
        lowest.is_some_and(|(lowest, _)| *lowest < nonce)
    }

    /// Has the receipts of a lane's unmined asked for, up to a nonce. What was asked for a moment
    /// ago (`stale`) is not asked for sooner than it would be without an answer.
    pub(crate) fn check_up_to(&mut self, lane: Lane, nonce: Nonce, at: Instant, stale: Duration) {
        let Some(nonces) = self.unmined.get(&lane) else { return };
        for id in nonces.range(..=nonce).map(|(_, id)| id) {
            let Some(open) = self.txs.get_mut(id) else { continue };
            match open.checked.map(|checked| checked + stale).filter(|again| *again > at) {
                Some(again) => open.next_check = open.next_check.min(again),
                None => {
                    open.next_check = open.next_check.min(at);
                    open.vain_checks = 0;
                }
            }
        }
    }

    /// Takes a step that ends a transaction, and takes it out. If the step does not apply it stays: what
    /// is open by the record has to be in the book.
    pub(crate) fn finish(
        &mut self,
        id: TxId,
        step: Step,
        data: serde_json::Value,
    ) -> Option<TxChange> {
        let change = self.step(id, step, data)?;
        self.close(id);
        Some(change)
    }

    /// The same on the word of one endpoint: the lowest of the lane is asked for by itself, and the
    /// others once it is found.
    pub(crate) fn check_first_up_to(
        &mut self,
        lane: Lane,
        nonce: Nonce,
        at: Instant,
        stale: Duration,
    ) {
        self.check_up_to(lane, nonce, at, stale);
        let lowest = self.unmined.get(&lane).and_then(|nonces| nonces.values().next());
        if let Some(open) = lowest.and_then(|id| self.txs.get_mut(id)) {
            open.vain_checks = open.vain_checks.max(1);
        }
    }

    /// The receipt of one was asked for, and nobody has it: asked for again after a longer pause
    /// each time. Answers with it if it is its lane's lowest.
    pub(crate) fn checked_in_vain(
        &mut self,
        id: TxId,
        at: Instant,
        stale: Duration,
        longest: Duration,
    ) -> Option<&Open> {
        let open = self.txs.get_mut(&id)?;
        let pause = stale.saturating_mul(2u32.saturating_pow(open.vain_checks.min(10)));
        open.next_check = at + pause.min(longest);
        open.vain_checks += 1;
        open.checked = Some(at);
        self.get(id).filter(|open| self.is_lowest(open))
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
pub(crate) mod tests {
    use stile_domain::{Address, AttemptKind, ChainId};
    use uuid::Uuid;

    use super::*;

    fn lane(number: u8) -> Lane {
        Lane::new(ChainId::new(1).unwrap(), Address::repeat_byte(number))
    }

    fn attempt(hash: u64, size: usize) -> OpenAttempt {
        let hash = B256::left_padding_from(&hash.to_be_bytes());
        OpenAttempt { kind: AttemptKind::Send, hash, raw: vec![1; size].into() }
    }

    /// Distinct by lane and nonce.
    pub(crate) fn open(number: u8, nonce: Nonce) -> Open {
        let distinct = u64::from(number) << 32 | nonce;
        Open {
            id: TxId(Uuid::from_u128(u128::from(distinct))),
            lane: lane(number),
            nonce,
            finality: Finality::Confirmations(1),
            standing: Standing { state: TxState::Submitted, ..Standing::CREATED },
            events: 3,
            attempts: vec![attempt(distinct, 100)],
            receipt: None,
            rival: None,
            fee_limit: None,
            has_stated_price: false,
            resend: false,
            replacing: false,
            next_bump: None,
            replaced: None,
            told: None,
            sends: 1,
            not_taken: None,
            limit_told: None,
            lowered: None,
            accepted: None,
            sent: None,
            shown_in: None,
            deliveries: Default::default(),
            takers: Default::default(),
            answer_lost: Default::default(),
            taken_told: Default::default(),
            next_send: None,
            next_check: Instant::now(),
            vain_checks: 0,
            checked: None,
            unverified: false,
            untold_fork: false,
            lost: false,
            bid_at: None,
            stalled: false,
            hurried: None,
        }
    }

    fn filled(lanes: u8, of_each: Nonce) -> Book {
        let mut book = Book::default();
        for number in 1..=lanes {
            (0..of_each).for_each(|nonce| book.insert(open(number, nonce)));
        }
        book
    }

    #[test]
    fn hole_36_dropping_a_lane_touches_that_lane_alone() {
        let mut book = filled(50, 20);
        book.touched.set(0);
        book.drop_lane(lane(7));
        assert!(book.touched.get() <= 20, "{} of 1000 were looked at", book.touched.get());
        assert_eq!(book.of_lane(lane(7)).count(), 0);
        assert_eq!(book.iter().count(), 980);
        assert_eq!((book.by_hash.len(), book.all_in_flight()), (980, 980), "nothing is left of it");
        assert_eq!(book.of_lane(lane(8)).count(), 20);
        book.touched.set(0);
        book.drop_lane(lane(7));
        assert_eq!(book.touched.get(), 0, "an empty lane costs nothing");
    }

    #[test]
    fn hole_23_what_does_not_end_stays_in_the_book() {
        let mut book = filled(1, 1);
        let id = open(1, 0).id;
        // It is in no block any more, since somebody asked whether it is final.
        assert!(book.finish(id, Step::Final, serde_json::json!({})).is_none());
        assert!(book.get(id).is_some());
        let outcome = stile_domain::Outcome::Success;
        assert!(book.step(id, Step::Mined(outcome), serde_json::json!({})).is_some());
        let done = book.finish(id, Step::Final, serde_json::json!({})).unwrap();
        assert_eq!(done.standing.state, TxState::Confirmed);
        assert!(book.get(id).is_none());
    }

    #[test]
    fn hole_13_the_word_of_one_asks_for_one_receipt_of_a_lane() {
        let (mut book, now) = (filled(1, 5), Instant::now());
        let (stale, longest) = (Duration::from_secs(60), Duration::from_secs(600));
        let ids: Vec<TxId> = (0..5).map(|nonce| open(1, nonce).id).collect();
        let checks = |book: &Book, nonce: usize| {
            let open = book.get(ids[nonce]).unwrap();
            (open.next_check, open.vain_checks)
        };
        assert!(book.checked_in_vain(ids[0], now, stale, longest).is_some(), "it is written");
        assert!(book.checked_in_vain(ids[1], now, stale, longest).is_none(), "it is not");
        assert_eq!(checks(&book, 0), (now + stale, 1));
        let again = now + Duration::from_secs(1);
        book.checked_in_vain(ids[0], again, stale, longest);
        assert_eq!(checks(&book, 0), (again + stale * 2, 2));
        for seconds in 2..50 {
            book.check_first_up_to(lane(1), 4, now + Duration::from_secs(seconds), stale);
        }
        assert_eq!(checks(&book, 0), (again + stale, 2), "not sooner than without an answer");
        assert_eq!(checks(&book, 4).1, 0, "the others once it is found");
        // Later on: the lowest alone, once more.
        let later = again + stale * 3;
        book.check_first_up_to(lane(1), 4, later, stale);
        assert!(checks(&book, 0).0 <= later);
        assert_eq!(checks(&book, 0).1, 1);
        // A quorum says that all of them are mined.
        book.check_up_to(lane(1), 4, later, stale);
        assert_eq!(checks(&book, 0).1, 0);
    }

    #[test]
    fn hole_20_nobody_is_overtaken_by_its_own_attempt() {
        let open = open(1, 0);
        let rival =
            |by, tx_hash| Rival { by, tx_hash, block_number: 5, block_hash: B256::repeat_byte(5) };
        let own = Some(open.attempts[0].hash);
        let other = Some(B256::repeat_byte(9));
        assert!(!open.loses_to(&rival(Successor::Outsider, own)), "recovered a moment ago");
        assert!(open.loses_to(&rival(Successor::Outsider, other)));
        assert!(open.loses_to(&rival(Successor::Outsider, None)), "nobody knows by whom");
        assert!(open.loses_to(&rival(Successor::Cancel, own)), "its own empty one");
        let known = rival(Successor::Outsider, other);
        assert!(!Open { rival: Some(known), ..open }.loses_to(&known), "no news");
    }

    #[test]
    fn the_index_by_lane_follows_what_comes_and_goes() {
        let mut book = filled(2, 3);
        let gone = open(1, 1).id;
        book.remove(gone);
        // Again, as after a reorganisation.
        book.insert(open(2, 2));
        let mut left: Vec<Nonce> = book.of_lane(lane(1)).map(|open| open.nonce).collect();
        left.sort_unstable();
        assert_eq!(left, [0, 2]);
        assert_eq!(book.of_lane(lane(2)).count(), 3);
        for nonce in [0, 2] {
            book.close(open(1, nonce).id);
        }
        assert!(!book.by_lane.contains_key(&lane(1)), "lanes do not pile up");
    }

    #[test]
    fn hole_36_only_the_attempt_that_is_sent_keeps_its_bytes() {
        let mut book = Book::default();
        let mut two = open(1, 0);
        two.attempts.push(attempt(900, 50));
        let id = two.id;
        book.insert(two);
        let sizes = |book: &Book| -> Vec<usize> {
            book.get(id).unwrap().attempts.iter().map(|attempt| attempt.raw.len()).collect()
        };
        assert_eq!(sizes(&book), [0, 50]);
        book.add_attempt(id, attempt(901, 70));
        assert_eq!(sizes(&book), [0, 0, 70]);
        assert_eq!(book.by_hash(&attempt(900, 0).hash), Some(id), "all of them are followed");
    }

    #[test]
    fn hole_36_a_lane_that_is_being_read_is_full() {
        let mut book = filled(1, 3);
        let first = book.begin_reading(lane(1));
        assert_eq!(book.in_flight(lane(1)), usize::MAX);
        let second = book.begin_reading(lane(1));
        assert!(!book.is_current(lane(1), first) && !book.end_reading(lane(1), first));
        assert!(book.is_current(lane(1), second) && book.end_reading(lane(1), second));
        assert_eq!(book.in_flight(lane(1)), 3);
        let third = book.begin_reading(lane(1));
        book.drop_lane(lane(1));
        assert!(!book.is_current(lane(1), third), "what it brings is too old");
        assert_eq!(book.in_flight(lane(1)), 0);
    }

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
