//! What a node remembers of a lane that it holds, and whether that covers what a failover has lost.
//!
//! A standby that had not heard of the last commits knows nothing of the transactions that were bound
//! by them, and would have them bound again. If one node held the lane all the time, it wrote all of
//! them itself, and knows which they are.
//!
//! The memory begins with a claim: while that claim's token stands in the lane's row, everything that
//! was committed for the lane before is in the database as well, since the commits of a lane follow
//! each other behind its lock, and a standby has a prefix of them. It ends with the claim.

use std::collections::{HashSet, VecDeque};

use crate::{B256, Bytes, Fees, Nonce, Remembered, TxId};

/// Commits remembered of one lane.
const ENTRIES: usize = 2048;

/// Signed bytes kept with them. Beyond that the oldest are forgotten, and only their hashes are known.
const BYTES: usize = 512 << 10;

/// A first attempt of a transaction, as it was put on record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RememberedAttempt {
    /// The transaction.
    pub tx: TxId,
    /// Its nonce.
    pub nonce: Nonce,
    /// The attempt's hash.
    pub hash: B256,
    /// What was signed; `None` once it is forgotten.
    pub raw: Option<Bytes>,
    /// What it offers.
    pub fees: Fees,
    /// The gas it may use.
    pub gas_limit: u64,
}

/// What a commit did.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Wrote {
    /// A transaction got its nonce. Never written in a history in which the lane is not aligned.
    Bound(RememberedAttempt),
    /// A transaction got another attempt.
    Replaced(TxId, B256),
    /// A transaction that had no nonce was withdrawn, refused or closed: its caller may know that it is
    /// never sent.
    Withdrawn(TxId),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    /// Which commit.
    commit: CommitId,
    /// When its answer came; `None` if it has not, or was lost.
    answered: Option<u64>,
    wrote: Wrote,
}

/// A commit that was begun. They are numbered in the order of their beginnings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CommitId(u64);

/// What a node has committed for a lane under one claim, newest last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LaneMemory {
    /// Counts beginnings and answers, so that it is known what came before what.
    count: u64,
    entries: VecDeque<Entry>,
    bytes: usize,
    /// Something was forgotten, and the last answer of that came at this count.
    forgotten: Option<u64>,
    /// Other nodes take calls, or have: each may have withdrawn what waits.
    pub others_take_calls: bool,
}

/// What the database has of an attempt that is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnRecord {
    /// The attempt itself.
    Attempt,
    /// Its transaction, which has no nonce and waits.
    Waiting,
    /// Its transaction, with a nonce or done, and not this attempt.
    Other,
    /// Not even the transaction.
    Nothing,
}

/// Why a node's memory does not cover what was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotCovered {
    /// Somebody else may have held it.
    #[error("this node has not held the lane all the time, as far as it can tell")]
    NotHeld,
    /// More happened than is remembered.
    #[error("more was written for the lane than this node remembers")]
    Forgotten,
    /// The chain knows more than this node.
    #[error("the chain has a transaction at a nonce that this node has not given out")]
    UsedByOthers,
    /// A transaction that was bound is gone, and would be bound again if its caller repeats it.
    #[error("transaction {0} was bound and is not in the database any more")]
    Gone(TxId),
    /// Another attempt may be on its way.
    #[error("an attempt of transaction {0} is not in the database any more")]
    AttemptLost(TxId),
    /// A transaction was bound to a nonce that was given back before.
    #[error("transaction {0} was bound to a nonce that had been given back")]
    Reissued(TxId),
    /// Two were to be bound to one nonce, or one to two.
    #[error("transaction {0} may have been bound, and so may another with its nonce")]
    Ambiguous(TxId),
    /// A caller was told that it is never sent.
    #[error("transaction {0} was withdrawn or refused and waits again")]
    WithdrawalLost(TxId),
    /// Others may have told callers so.
    #[error("transactions wait that another node may have withdrawn")]
    MayBeWithdrawn,
}

impl LaneMemory {
    fn tick(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    fn push(&mut self, commit: CommitId, wrote: Wrote) {
        if let Wrote::Bound(RememberedAttempt { raw: Some(raw), .. }) = &wrote {
            self.bytes += raw.len();
        }
        self.entries.push_back(Entry { commit, answered: None, wrote });
        while self.entries.len() > ENTRIES {
            let Some(oldest) = self.entries.pop_front() else { break };
            // Of one that was never answered, nothing is ever known.
            let answered = oldest.answered.unwrap_or(u64::MAX);
            self.forgotten = self.forgotten.max(Some(answered));
            if let Wrote::Bound(RememberedAttempt { raw: Some(raw), .. }) = oldest.wrote {
                self.bytes -= raw.len();
            }
        }
        for entry in &mut self.entries {
            if self.bytes <= BYTES {
                break;
            }
            if let Wrote::Bound(attempt) = &mut entry.wrote
                && let Some(raw) = attempt.raw.take()
            {
                self.bytes -= raw.len();
            }
        }
    }

    /// A commit begins that binds transactions.
    pub fn binds(&mut self, attempts: impl IntoIterator<Item = RememberedAttempt>) -> CommitId {
        let commit = CommitId(self.tick());
        attempts.into_iter().for_each(|attempt| self.push(commit, Wrote::Bound(attempt)));
        commit
    }

    /// A commit begins that adds attempts.
    pub fn replaces(&mut self, attempts: impl IntoIterator<Item = (TxId, B256)>) -> CommitId {
        let commit = CommitId(self.tick());
        attempts.into_iter().for_each(|(tx, hash)| self.push(commit, Wrote::Replaced(tx, hash)));
        commit
    }

    /// A transaction was withdrawn by this node, or may have been.
    pub fn withdrew(&mut self, tx: TxId) {
        let commit = CommitId(self.tick());
        self.push(commit, Wrote::Withdrawn(tx));
        self.happened(commit);
    }

    /// A commit begins that ends transactions which have no nonce.
    pub fn ends(&mut self, txs: impl IntoIterator<Item = TxId>) -> CommitId {
        let commit = CommitId(self.tick());
        txs.into_iter().for_each(|tx| self.push(commit, Wrote::Withdrawn(tx)));
        commit
    }

    /// A commit happened.
    pub fn happened(&mut self, commit: CommitId) {
        let now = self.tick();
        for entry in self.entries.iter_mut().rev().take_while(|entry| entry.commit >= commit) {
            if entry.commit == commit {
                entry.answered = Some(now);
            }
        }
    }

    /// A commit did not happen. One whose fate is not known stays.
    pub fn did_not_happen(&mut self, commit: CommitId) {
        let mut bytes = 0;
        self.entries.retain(|entry| {
            if let Wrote::Bound(RememberedAttempt { raw: Some(raw), .. }) = &entry.wrote
                && entry.commit == commit
            {
                bytes += raw.len();
            }
            entry.commit != commit
        });
        self.bytes -= bytes;
    }

    /// The attempts that are to be looked for in the database.
    pub fn attempts(&self) -> impl Iterator<Item = (TxId, B256)> + '_ {
        self.entries.iter().map(|entry| match &entry.wrote {
            Wrote::Bound(attempt) => (attempt.tx, attempt.hash),
            Wrote::Replaced(tx, hash) => (*tx, *hash),
            Wrote::Withdrawn(tx) => (*tx, B256::ZERO),
        })
    }
}

impl Remembered {
    /// The bindings that a failover has lost, if this node's memory covers everything that can have
    /// been lost: then they are bound again as they were, and nothing else that waits was ever bound.
    ///
    /// `waits` is how many transactions wait on the lane, and `cursor` the first nonce that the
    /// database knows nothing of.
    ///
    /// Why that is so. Whoever calls this holds the claim's lane in the new history, so the commit by
    /// which this node got it is in there, and so is all that was committed for the lane before. In the
    /// history that is lost nobody else held the lane after that: its lease was believed in without a
    /// gap until the new history answered, others take a lane only when its lease has run out, and a
    /// primary that has been replaced takes no more commits. So all that is lost was written by this
    /// node under this claim, and is in its memory: what is remembered and found is not lost, and what
    /// is remembered and not found is. What was forgotten is in the new history if a binding is that
    /// was begun after its answer had come. Bindings alone prove that: unlike other writes they are
    /// refused in a history in which the lane has not been aligned, so they were committed in the old
    /// one.
    ///
    /// What a binding did whose answer was lost is not known. If its transaction waits, it is bound as
    /// it would have been: whether it was or not, that is the one way of sending it only once.
    pub fn lost_bindings(
        &self,
        cursor: Nonce,
        waits: usize,
        on_record: impl Fn(TxId, B256) -> OnRecord,
    ) -> Result<Vec<RememberedAttempt>, NotCovered> {
        let memory = self.memory.as_deref().ok_or(NotCovered::NotHeld)?;
        let found: Vec<(&Entry, OnRecord)> = memory
            .entries
            .iter()
            .zip(memory.attempts())
            .map(|(entry, (tx, hash))| (entry, on_record(tx, hash)))
            .collect();
        let is_proof = |(entry, found): &&(&Entry, OnRecord)| {
            matches!(entry.wrote, Wrote::Bound(_)) && *found == OnRecord::Attempt
        };
        let proven = found.iter().filter(is_proof).map(|(entry, _)| entry.commit.0).max();
        let is_proven = |answered: Option<u64>| answered.is_some() && answered <= proven;
        if memory.forgotten.is_some() && !is_proven(memory.forgotten) {
            return Err(NotCovered::Forgotten);
        }
        let mut lost: Vec<RememberedAttempt> = Vec::new();
        for (entry, found) in found {
            match (&entry.wrote, found) {
                (Wrote::Bound(_) | Wrote::Replaced(..), OnRecord::Attempt) => {}
                (Wrote::Withdrawn(tx), OnRecord::Waiting) => {
                    return Err(NotCovered::WithdrawalLost(*tx));
                }
                (Wrote::Withdrawn(_), _) => {}
                // It was there, and has been removed since, for its age.
                (_, OnRecord::Nothing) if is_proven(entry.answered) => {}
                (Wrote::Replaced(tx, _), _) => return Err(NotCovered::AttemptLost(*tx)),
                (Wrote::Bound(it), OnRecord::Nothing) => return Err(NotCovered::Gone(it.tx)),
                (Wrote::Bound(it), OnRecord::Other) => {
                    // Planned anew after an answer was lost, and bound otherwise.
                    if entry.answered.is_some() {
                        return Err(NotCovered::AttemptLost(it.tx));
                    }
                }
                (Wrote::Bound(it), OnRecord::Waiting) => match &it.raw {
                    None => return Err(NotCovered::Forgotten),
                    Some(_) if it.nonce < cursor => return Err(NotCovered::Reissued(it.tx)),
                    Some(_) => lost.push(it.clone()),
                },
            }
        }
        let (mut txs, mut nonces) = (HashSet::new(), HashSet::new());
        for it in &lost {
            if !txs.insert(it.tx) || !nonces.insert(it.nonce) {
                return Err(NotCovered::Ambiguous(it.tx));
            }
        }
        let known = lost.iter().map(|it| it.nonce + 1).max().unwrap_or(0);
        if self.used.is_some_and(|used| used > cursor.max(self.given_out).max(known)) {
            return Err(NotCovered::UsedByOthers);
        }
        if memory.others_take_calls && waits > lost.len() {
            return Err(NotCovered::MayBeWithdrawn);
        }
        Ok(lost)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::Arc;

    use uuid::Uuid;

    use super::*;

    fn tx(number: u64) -> TxId {
        TxId(Uuid::from_u128(number.into()))
    }

    fn hash(number: u64) -> B256 {
        B256::from(crate::U256::from(number))
    }

    /// The attempt of a transaction that has its nonce's number.
    fn at(nonce: Nonce) -> RememberedAttempt {
        RememberedAttempt {
            tx: tx(nonce),
            nonce,
            hash: hash(nonce),
            raw: Some(Bytes::from_static(b"signed")),
            fees: Fees::Legacy { gas_price: 1 },
            gas_limit: 21_000,
        }
    }

    /// Transactions 5, 6 and 7 were bound, each by a commit of its own.
    fn bound() -> LaneMemory {
        let mut memory = LaneMemory::default();
        for nonce in 5..8 {
            let commit = memory.binds([at(nonce)]);
            memory.happened(commit);
        }
        memory
    }

    fn remembered(memory: LaneMemory) -> Remembered {
        Remembered {
            used: Some(5),
            given_out: 8,
            memory: Some(Arc::new(memory)),
            ..Remembered::default()
        }
    }

    /// What is lost where all have their attempts on record, but for these transactions.
    fn lost(
        remembered: &Remembered,
        cursor: Nonce,
        others: &[(u64, OnRecord)],
    ) -> Result<Vec<Nonce>, NotCovered> {
        let others: HashMap<TxId, OnRecord> =
            others.iter().map(|(number, found)| (tx(*number), *found)).collect();
        let waits = others.values().filter(|found| **found == OnRecord::Waiting).count();
        let on_record = |tx, _| others.get(&tx).copied().unwrap_or(OnRecord::Attempt);
        let lost = remembered.lost_bindings(cursor, waits, on_record)?;
        Ok(lost.into_iter().map(|it| it.nonce).collect())
    }

    #[test]
    fn hole_20_what_a_memory_covers() {
        use OnRecord::{Nothing, Other, Waiting};
        for (words, cursor, others, expected) in [
            ("all is there", 8, &[][..], Ok(vec![])),
            ("the last one is lost", 7, &[(7, Waiting)], Ok(vec![7])),
            ("two are lost", 6, &[(6, Waiting), (7, Waiting)], Ok(vec![6, 7])),
            (
                "one was accepted and bound at once",
                7,
                &[(7, Nothing)],
                Err(NotCovered::Gone(tx(7))),
            ),
            ("one was removed for its age", 8, &[(5, Nothing), (6, Nothing)], Ok(vec![])),
            ("one has another attempt", 7, &[(7, Other)], Err(NotCovered::AttemptLost(tx(7)))),
            ("it had a nonce given back", 8, &[(6, Waiting)], Err(NotCovered::Reissued(tx(6)))),
        ] {
            assert_eq!(lost(&remembered(bound()), cursor, others), expected, "{words}");
        }
    }

    #[test]
    fn hole_20_whoever_did_not_hold_the_lane_all_the_time_covers_nothing() {
        let forgetful = Remembered { memory: None, ..remembered(bound()) };
        assert_eq!(lost(&forgetful, 8, &[]), Err(NotCovered::NotHeld));
    }

    #[test]
    fn hole_20_what_the_chain_shows_used_was_given_out_by_somebody() {
        for (used, expected) in
            [(None, Ok(vec![])), (Some(8), Ok(vec![])), (Some(9), Err(NotCovered::UsedByOthers))]
        {
            let remembered = Remembered { used, ..remembered(bound()) };
            assert_eq!(lost(&remembered, 8, &[]), expected, "{used:?}");
        }
    }

    #[test]
    fn hole_20_a_binding_whose_answer_was_lost_is_made_as_it_was_meant() {
        let mut memory = bound();
        memory.binds([at(8)]);
        assert_eq!(lost(&remembered(memory.clone()), 9, &[]), Ok(vec![]), "it happened");
        let meant = lost(&remembered(memory.clone()), 8, &[(8, OnRecord::Waiting)]);
        assert_eq!(meant, Ok(vec![8]));
        // It did not happen, and the transaction was bound otherwise.
        assert_eq!(lost(&remembered(memory.clone()), 9, &[(8, OnRecord::Other)]), Ok(vec![]));
        // Another one was bound to its nonce then: which of them has it?
        let other = RememberedAttempt { tx: tx(80), ..at(8) };
        let commit = memory.binds([other]);
        memory.happened(commit);
        let both = [(8, OnRecord::Waiting), (80, OnRecord::Waiting)];
        assert_eq!(lost(&remembered(memory), 8, &both), Err(NotCovered::Ambiguous(tx(80))));
    }

    #[test]
    fn a_binding_that_did_not_happen_is_not_remembered() {
        let mut memory = bound();
        let commit = memory.binds([at(8)]);
        memory.did_not_happen(commit);
        assert_eq!(memory.bytes, bound().bytes);
        assert_eq!(lost(&remembered(memory), 8, &[(8, OnRecord::Waiting)]), Ok(vec![]));
    }

    #[test]
    fn hole_20_an_attempt_that_was_added_may_be_on_its_way() {
        let mut memory = bound();
        let commit = memory.replaces([(tx(7), hash(70))]);
        memory.happened(commit);
        let remembered = remembered(memory);
        let find = |missing: B256| {
            remembered.lost_bindings(8, 0, move |_, hash| {
                if hash == missing { OnRecord::Other } else { OnRecord::Attempt }
            })
        };
        assert_eq!(find(hash(70)), Err(NotCovered::AttemptLost(tx(7))));
        assert_eq!(find(hash(71)), Ok(vec![]));
    }

    #[test]
    fn hole_20_what_was_withdrawn_is_not_sent() {
        let mut memory = bound();
        memory.withdrew(tx(9));
        let remembered = remembered(memory);
        assert_eq!(lost(&remembered, 8, &[(9, OnRecord::Other)]), Ok(vec![]));
        let waits = lost(&remembered, 8, &[(9, OnRecord::Waiting)]);
        assert_eq!(waits, Err(NotCovered::WithdrawalLost(tx(9))));
    }

    #[test]
    fn hole_20_what_was_refused_is_not_sent_whether_or_not_the_answer_came() {
        let mut memory = bound();
        let commit = memory.ends([tx(9), tx(10)]);
        for answered in [false, true] {
            if answered {
                memory.happened(commit);
            }
            let remembered = remembered(memory.clone());
            let both = [(9, OnRecord::Other), (10, OnRecord::Nothing)];
            assert_eq!(lost(&remembered, 8, &both), Ok(vec![]), "{answered}");
            let waits = lost(&remembered, 8, &[(9, OnRecord::Other), (10, OnRecord::Waiting)]);
            assert_eq!(waits, Err(NotCovered::WithdrawalLost(tx(10))), "{answered}");
        }
        memory.did_not_happen(commit);
        assert_eq!(lost(&remembered(memory), 8, &[(10, OnRecord::Waiting)]), Ok(vec![]));
    }

    #[test]
    fn hole_20_what_waits_may_have_been_withdrawn_by_another_node() {
        let memory = LaneMemory { others_take_calls: true, ..bound() };
        let remembered = remembered(memory);
        assert_eq!(lost(&remembered, 8, &[]), Ok(vec![]), "nothing waits");
        assert_eq!(lost(&remembered, 7, &[(7, OnRecord::Waiting)]), Ok(vec![7]), "it was bound");
        let waits = lost(&remembered, 8, &[(9, OnRecord::Waiting)]);
        assert_eq!(waits, Err(NotCovered::MayBeWithdrawn));
    }

    #[test]
    fn hole_20_what_was_forgotten_is_there_if_something_later_is() {
        let mut memory = LaneMemory::default();
        let first: Nonce = 5;
        let last = first + ENTRIES as u64;
        for nonce in first..=last {
            let commit = memory.binds([at(nonce)]);
            memory.happened(commit);
        }
        let remembered = Remembered { given_out: last + 1, ..remembered(memory) };
        assert_eq!(lost(&remembered, last + 1, &[]), Ok(vec![]));
        assert_eq!(lost(&remembered, last, &[(last, OnRecord::Waiting)]), Ok(vec![last]));
        let all: Vec<_> = (first..=last).map(|number| (number, OnRecord::Waiting)).collect();
        assert_eq!(lost(&remembered, first, &all), Err(NotCovered::Forgotten));
    }

    #[test]
    fn bytes_are_forgotten_before_their_transactions() {
        let mut memory = LaneMemory::default();
        let large = Some(Bytes::from(vec![0; BYTES / 2]));
        for nonce in 5..8 {
            let commit = memory.binds([RememberedAttempt { raw: large.clone(), ..at(nonce) }]);
            memory.happened(commit);
        }
        let remembered = remembered(memory);
        assert_eq!(lost(&remembered, 7, &[(7, OnRecord::Waiting)]), Ok(vec![7]));
        let all = [5, 6, 7].map(|number| (number, OnRecord::Waiting));
        assert_eq!(lost(&remembered, 5, &all), Err(NotCovered::Forgotten));
    }
}
