//! When a transaction is done.

use serde::{Deserialize, Serialize};

/// The evidence a transaction asks for before it is called done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Finality {
    /// This many blocks on top of its own.
    Confirmations(u32),
    /// The chain calls its block safe.
    Safe,
    /// The chain calls its block finalized.
    Finalized,
}

/// How far a chain has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Heads {
    /// The newest canonical block.
    pub latest: u64,
    /// The newest block that the chain calls safe, where it says so.
    pub safe: Option<u64>,
    /// The newest block that the chain calls finalized, where it says so.
    pub finalized: Option<u64>,
}

impl Heads {
    /// How many blocks are on top of one at this height.
    pub fn confirmations(&self, height: u64) -> u64 {
        self.latest.saturating_sub(height)
    }
}

impl Finality {
    /// Whether a transaction in the canonical block at `height` is done.
    pub fn is_reached(self, height: u64, heads: &Heads) -> bool {
        if height > heads.latest {
            return false;
        }
        match self {
            Self::Confirmations(required) => heads.confirmations(height) >= u64::from(required),
            Self::Safe => heads.safe.max(heads.finalized).is_some_and(|safe| safe >= height),
            Self::Finalized => heads.finalized.is_some_and(|finalized| finalized >= height),
        }
    }
}

/// What the chain's endpoints say about a block that one of them calls canonical.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Votes {
    /// Endpoints that have this very block at that height.
    pub agree: usize,
    /// Endpoints that have another block there.
    pub disagree: usize,
}

impl Votes {
    /// Whether a transaction may be called done on this evidence: more endpoints agree than
    /// disagree. Endpoints that have not come so far, or do not answer, have no vote.
    pub fn carry(self) -> bool {
        self.agree > self.disagree
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confirmations_are_the_blocks_on_top() {
        let heads = Heads { latest: 110, safe: None, finalized: None };
        assert!(Finality::Confirmations(10).is_reached(100, &heads));
        assert!(!Finality::Confirmations(11).is_reached(100, &heads));
        assert!(Finality::Confirmations(0).is_reached(110, &heads));
        assert!(!Finality::Confirmations(0).is_reached(111, &heads));
    }

    #[test]
    fn the_chains_own_word_counts_only_where_it_is_given() {
        let silent = Heads { latest: 110, safe: None, finalized: None };
        assert!(!Finality::Safe.is_reached(1, &silent));
        let heads = Heads { latest: 110, safe: Some(100), finalized: Some(90) };
        assert!(Finality::Safe.is_reached(100, &heads));
        assert!(!Finality::Safe.is_reached(101, &heads));
        assert!(Finality::Finalized.is_reached(90, &heads));
        assert!(!Finality::Finalized.is_reached(91, &heads));
    }

    #[test]
    fn a_tie_confirms_nothing() {
        assert!(Votes { agree: 1, disagree: 0 }.carry());
        assert!(Votes { agree: 2, disagree: 1 }.carry());
        assert!(!Votes { agree: 1, disagree: 1 }.carry());
        assert!(!Votes::default().carry());
    }
}
