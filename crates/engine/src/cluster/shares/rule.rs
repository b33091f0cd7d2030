//! How many of an endpoint's slots a node wants, as a pure rule.

use std::time::Duration;

/// The registry keeps each slot by itself, so there are not more than this of them; where more calls
/// are allowed, a slot is worth several.
const MOST_SLOTS: usize = 64;

/// For how long a node keeps slots beyond its share before it offers them to the others.
const BORROWED_FOR: Duration = Duration::from_secs(2);

/// Whoever lives offers what is beyond its share sooner than this. What a node still lacks of its own
/// then, nobody has: it was a node's that died, or Redis lost its memory and waits until all slots
/// that there may have been have run out.
const GIVEN_BACK_WITHIN: Duration = Duration::from_secs(5);

/// A limit, in slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limit {
    /// Calls that may be under way at one time, on all nodes together.
    pub(super) calls: usize,
    /// What a slot is worth.
    pub(super) calls_per_slot: usize,
    /// How many slots there are.
    pub(super) slots: usize,
}

/// How it stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Standing {
    /// Slots that this node has.
    pub(super) held: usize,
    /// Calls that it would have had under way lately, at most.
    pub(super) demand: usize,
    /// Nodes there are.
    pub(super) nodes: usize,
    /// For how long it has had more than its share.
    pub(super) borrowed: Duration,
}

impl Limit {
    pub(super) fn of(calls: u32) -> Self {
        let calls = calls as usize;
        let calls_per_slot = calls.div_ceil(MOST_SLOTS).max(1);
        Self { calls, calls_per_slot, slots: calls / calls_per_slot }
    }

    /// A node's share of the slots.
    pub(super) fn share(&self, nodes: usize) -> usize {
        (self.slots / nodes.max(1)).max(1)
    }

    /// How many slots a node is to have next: as many as it uses, and for longer than a moment not
    /// more than its share.
    pub(super) fn wanted(&self, standing: Standing) -> usize {
        let Standing { held, demand, nodes, borrowed } = standing;
        let used = demand.div_ceil(self.calls_per_slot).min(self.slots);
        let share = self.share(nodes);
        if held > share && nodes > 1 && borrowed >= BORROWED_FOR { used.min(share) } else { used }
    }

    /// The calls that a node may have under way with so many slots. One it may always have: a node
    /// that cannot ask its chain is of no use.
    pub(super) fn places(&self, held: usize) -> usize {
        (held * self.calls_per_slot).max(1)
    }

    /// The same for one that has been without its share for so long.
    pub(super) fn places_lacking(&self, held: usize, nodes: usize, lacking: Duration) -> usize {
        let places = self.places(held);
        if lacking < GIVEN_BACK_WITHIN { places } else { places.max(self.places_alone(nodes)) }
    }

    /// The same while nobody can be asked for slots: its share of the calls.
    pub(super) fn places_alone(&self, nodes: usize) -> usize {
        (self.calls / nodes.max(1)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(held: usize, demand: usize, nodes: usize, seconds: u64) -> Standing {
        Standing { held, demand, nodes, borrowed: Duration::from_secs(seconds) }
    }

    #[test]
    fn slots_are_never_worth_more_than_the_limit() {
        for calls in 1..3000 {
            let limit = Limit::of(calls);
            let worth = limit.slots * limit.calls_per_slot;
            assert!(worth <= limit.calls && limit.slots <= MOST_SLOTS, "{limit:?}");
            assert!(worth * 10 >= limit.calls * 9 || limit.calls < 128, "{limit:?}");
        }
    }

    #[test]
    fn a_node_has_what_it_uses() {
        let limit = Limit::of(10);
        assert_eq!(limit.wanted(standing(0, 3, 2, 0)), 3);
        assert_eq!(limit.wanted(standing(3, 0, 2, 0)), 0);
        assert_eq!(limit.wanted(standing(0, 99, 2, 0)), 10, "what the others leave");
    }

    #[test]
    fn what_is_beyond_its_share_is_offered_to_the_others() {
        let limit = Limit::of(10);
        assert_eq!(limit.wanted(standing(10, 99, 2, 1)), 10);
        assert_eq!(limit.wanted(standing(10, 99, 2, 2)), 5);
        assert_eq!(limit.wanted(standing(10, 99, 1, 9)), 10, "there are none");
        assert_eq!(limit.wanted(standing(5, 99, 2, 9)), 10, "it has no more than its share");
    }

    #[test]
    fn a_share_that_nobody_gives_back_is_taken() {
        let (limit, soon) = (Limit::of(10), GIVEN_BACK_WITHIN - Duration::from_millis(1));
        assert!(BORROWED_FOR < soon, "the living are faster");
        assert_eq!(limit.places_lacking(2, 2, soon), 2);
        assert_eq!(limit.places_lacking(2, 2, GIVEN_BACK_WITHIN), 5);
        assert_eq!(limit.places_lacking(7, 2, GIVEN_BACK_WITHIN), 7);
        assert_eq!(limit.places_lacking(0, 1, GIVEN_BACK_WITHIN), 10);
    }

    #[test]
    fn a_node_can_always_ask_its_chain() {
        let limit = Limit::of(2);
        assert_eq!((limit.places(0), limit.places_alone(5)), (1, 1));
        assert_eq!((limit.places(2), limit.places_alone(2)), (2, 1));
    }
}
