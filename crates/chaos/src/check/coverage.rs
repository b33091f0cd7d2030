//! What a run must have reached to count.

use std::collections::BTreeSet;

use crate::evidence::{Attempt, Evidence};

/// How often each thing happened that a run is for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Transactions that were in flight when another holder took their lane.
    pub taken_over: usize,
    /// Writes that were refused because their token was superseded.
    pub fenced_rejects: usize,
    /// Gaps that were filled with an empty transaction.
    pub gaps_filled: usize,
    /// Transactions whose cancellation was mined.
    pub cancels_won: usize,
    /// Transactions that were mined although their cancellation was on its way.
    pub cancels_lost: usize,
    /// Transactions that a reorganisation took out of their blocks.
    pub rolled_back: usize,
    /// Attempts that were on the wire, and gone from the database afterwards. Only runs with restores
    /// are for them.
    pub sent_and_lost: usize,
    /// Whether there was a restore.
    pub restored: bool,
}

impl Coverage {
    /// Counts.
    pub fn of(evidence: &Evidence) -> Self {
        let histories = evidence.events_by_tx();
        let mined = evidence.mined_by_hash();
        let mut coverage = Self {
            fenced_rejects: usize::try_from(evidence.fenced_rejects).unwrap_or(usize::MAX),
            gaps_filled: evidence.lane_events.iter().filter(|e| e.kind == "GAP_FILLED").count(),
            sent_and_lost: sent_and_lost(evidence),
            restored: !evidence.restores.is_empty(),
            ..Self::default()
        };
        for events in histories.values() {
            let mut tokens: Vec<u64> = events.iter().filter_map(|event| event.token).collect();
            tokens.dedup();
            let mut nodes: Vec<&str> = events
                .iter()
                .filter(|event| event.token.is_some())
                .map(|event| event.node.as_str())
                .collect();
            nodes.dedup();
            coverage.taken_over += usize::from(tokens.len() > 1 && nodes.len() > 1);
            let rolled_back = events.iter().any(|event| event.kind == "REORGED");
            coverage.rolled_back += usize::from(rolled_back);
        }
        let states = evidence.txs_by_id();
        for (id, attempts) in evidence.attempts_by_tx() {
            if !attempts.iter().any(|attempt| attempt.kind == "CANCEL") {
                continue;
            }
            let state = states.get(id).map_or("", |tx| tx.state.as_str());
            let cancelled = attempts
                .iter()
                .any(|attempt| attempt.kind == "CANCEL" && mined.contains_key(&*attempt.hash));
            coverage.cancels_won += usize::from(cancelled && state == "FAILED");
            coverage.cancels_lost += usize::from(state == "CONFIRMED");
        }
        coverage
    }

    /// Each count with its name.
    pub fn counts(&self) -> [(&'static str, usize); 7] {
        [
            ("takeovers with work in flight", self.taken_over),
            ("fenced rejects", self.fenced_rejects),
            ("gaps filled", self.gaps_filled),
            ("cancels that won", self.cancels_won),
            ("cancels that lost", self.cancels_lost),
            ("reorganised out of a block", self.rolled_back),
            (LOST, self.sent_and_lost),
        ]
    }

    /// What two runs have reached together.
    pub fn and(&self, other: &Self) -> Self {
        Self {
            taken_over: self.taken_over + other.taken_over,
            fenced_rejects: self.fenced_rejects + other.fenced_rejects,
            gaps_filled: self.gaps_filled + other.gaps_filled,
            cancels_won: self.cancels_won + other.cancels_won,
            cancels_lost: self.cancels_lost + other.cancels_lost,
            rolled_back: self.rolled_back + other.rolled_back,
            sent_and_lost: self.sent_and_lost + other.sent_and_lost,
            restored: self.restored || other.restored,
        }
    }

    /// What was not reached. A run that lacks something proves nothing about it.
    pub fn missing(&self) -> Vec<&'static str> {
        let wanted = |name: &str| name != LOST || self.restored;
        let missing = self.counts().into_iter().filter(|(name, count)| *count == 0 && wanted(name));
        missing.map(|(name, _)| name).collect()
    }
}

const LOST: &str = "sent, and lost with a restore";

/// Attempts of lost histories that somebody had sent, and that no backup had.
fn sent_and_lost(evidence: &Evidence) -> usize {
    let sent: BTreeSet<&str> = evidence.wire.iter().map(|sent| sent.hash.as_str()).collect();
    let gone = |attempt: &&Attempt| evidence.is_lost(attempt.created_at);
    let lost = evidence.lost_attempts.iter().filter(gone).map(|attempt| attempt.hash.as_str());
    lost.filter(|hash| sent.contains(hash)).collect::<BTreeSet<_>>().len()
}

#[cfg(test)]
mod tests {
    use super::super::sample::{event, good};
    use super::*;
    use crate::evidence::Restore;

    #[test]
    fn what_was_not_reached_is_named() {
        let coverage = Coverage::of(&good());
        assert_eq!(coverage.taken_over, 1, "tx-b was bound by n0 and finished by n1");
        assert_eq!((coverage.cancels_won, coverage.gaps_filled), (1, 1));
        let missing = ["fenced rejects", "cancels that lost", "reorganised out of a block"];
        assert_eq!(coverage.missing(), missing);
    }

    #[test]
    fn a_run_that_reached_all_counts() {
        let mut evidence = good();
        evidence.fenced_rejects = 3;
        evidence.events.push(event("tx-a", 6, 60, "REORGED", "SUBMITTED", 2));
        let mut cancel = evidence.attempts[0].clone();
        cancel.kind = "CANCEL".to_owned();
        cancel.hash = "0xnever-mined".to_owned();
        evidence.attempts.push(cancel);
        assert_eq!(Coverage::of(&evidence).missing(), [] as [&str; 0]);
        // A restore before which nothing was sent shows nothing about what is sent again.
        evidence.restores.push(Restore { kept_at: 0, at: 1 });
        assert_eq!(Coverage::of(&evidence).missing(), [LOST]);
        evidence.restores[0].at = i64::MAX;
        evidence.lost_attempts.push(evidence.attempts[0].clone());
        assert_eq!(Coverage::of(&evidence).missing(), [] as [&str; 0]);
    }
}
