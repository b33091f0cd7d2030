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

impl Heads {
    /// These heads, after earlier ones: what was called finalized stays so, unless the chain has
    /// become shorter than that.
    pub fn after(self, earlier: Option<Self>) -> Self {
        let stays = |height: Option<u64>| height.filter(|height| *height <= self.latest);
        let earlier = earlier.unwrap_or_default();
        Self { finalized: self.finalized.max(stays(earlier.finalized)), ..self }
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

/// What becomes of a finished transaction whose block is not canonical any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TakenBack {
    /// It is open again.
    Reopened,
    /// It was as final as anything gets. It stays what it is, and a person decides.
    Alarm,
}

/// What a reorganisation takes back. What was called finalized, and what was deeper than
/// reorganisations are followed, is never taken back by whoever follows the chain.
pub fn taken_back(finality: Finality, height: u64, heads: &Heads, reorg_window: u32) -> TakenBack {
    let finalized = Finality::Finalized.is_reached(height, heads);
    let buried = heads.confirmations(height) > u64::from(reorg_window);
    match finality {
        Finality::Finalized => TakenBack::Alarm,
        _ if finalized || buried => TakenBack::Alarm,
        _ => TakenBack::Reopened,
    }
}

/// How a chain was set back: a fork, or a chain that is shorter than it was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SetBack {
    /// How many of its newest blocks are gone.
    pub blocks: u64,
    /// Its first block is gone as well, so it is another chain under the same number.
    pub is_another: bool,
}

impl SetBack {
    /// Whether more is gone than reorganisations are followed through. Then a person decides about
    /// all that stood on it, however deep.
    pub fn is_deep(&self, reorg_window: u32) -> bool {
        self.is_another || self.blocks > u64::from(reorg_window)
    }

    /// What becomes of a transaction that stood on what is gone, by its finality and the height of
    /// its block. `heads` is how far the chain had come.
    pub fn fate(
        &self,
        finality: Finality,
        height: u64,
        heads: &Heads,
        reorg_window: u32,
    ) -> TakenBack {
        match self.is_deep(reorg_window) {
            true => TakenBack::Alarm,
            false => taken_back(finality, height, heads, reorg_window),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hole_39_below_the_window_a_person_decides() {
        use TakenBack::{Alarm, Reopened};
        let one = Finality::Confirmations(1);
        // blocks gone, another chain, height, how far it had come, window, fate
        let table = [
            (0, false, 109, 110, 20, Reopened),
            (5, false, 106, 110, 20, Reopened),
            (20, false, 91, 110, 20, Reopened),
            // As deep as it was, not as deep as it is on a chain that is shorter now.
            (15, false, 89, 110, 20, Alarm),
            // The chain has lost more than is followed: nothing of it is sent by itself.
            (21, false, 109, 110, 20, Alarm),
            (110, false, 110, 110, 20, Alarm),
            // So young that all of it is in the window.
            (10, true, 9, 10, 20, Alarm),
            (10, false, 9, 10, 20, Reopened),
        ];
        for (blocks, is_another, height, latest, window, expected) in table {
            let heads = Heads { latest, safe: None, finalized: None };
            let set_back = SetBack { blocks, is_another };
            let found = set_back.fate(one, height, &heads, window);
            assert_eq!(found, expected, "{set_back:?} {height} of {latest}");
        }
    }

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
    fn hole_24_finalized_only_rises() {
        let heads = |latest, finalized| Heads { latest, safe: None, finalized };
        let before = Some(heads(100, Some(90)));
        assert_eq!(heads(101, Some(80)).after(before).finalized, Some(90));
        assert_eq!(heads(101, None).after(before).finalized, Some(90));
        assert_eq!(heads(101, Some(95)).after(before).finalized, Some(95));
        assert_eq!(heads(5, None).after(before).finalized, None, "another chain");
        assert_eq!(heads(101, None).after(None).finalized, None);
    }

    #[test]
    fn hole_24_what_was_finalized_is_never_taken_back() {
        use TakenBack::{Alarm, Reopened};
        let heads = Heads { latest: 110, safe: Some(108), finalized: Some(90) };
        let unsaid = Heads { latest: 110, safe: None, finalized: None };
        let one = Finality::Confirmations(1);
        // finality, height, heads, window
        let table = [
            (one, 109, heads, 20, Reopened),
            (one, 91, heads, 20, Reopened),
            (one, 90, heads, 20, Alarm),
            (one, 89, unsaid, 20, Alarm),
            (one, 90, unsaid, 20, Reopened),
            (Finality::Safe, 108, heads, 20, Reopened),
            (Finality::Finalized, 109, unsaid, 20, Alarm),
        ];
        for (finality, height, heads, window, fate) in table {
            let found = taken_back(finality, height, &heads, window);
            assert_eq!(found, fate, "{finality:?} at {height} of {heads:?}");
        }
    }
}
