//! What the endpoints of a chain agree on.
//!
//! No endpoint is believed alone where there are several. What ends a transaction, or takes an end
//! back, is what a quorum of the configured endpoints says about that very height. An endpoint that
//! is behind votes at the heights it has. One that is away does not vote, and is still counted among
//! the configured ones.

use std::fmt;

/// How many of a chain's endpoints have to agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quorum {
    configured: usize,
    required: usize,
}

/// A quorum that no vote could ever reach, or that needs none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be from 1 to {configured}, the number of endpoints, not {required}")]
pub struct QuorumError {
    configured: usize,
    required: usize,
}

/// What the endpoints say about a claim.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Votes {
    /// They say the same.
    pub agree: usize,
    /// They say something else.
    pub disagree: usize,
    /// They are away, or have not come that far.
    pub silent: usize,
}

/// What follows from the votes on a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verdict {
    /// A quorum agrees, and whoever disagrees is outvoted by a majority of the configured
    /// endpoints.
    Agreed,
    /// Somebody disagrees and is not outvoted.
    Contradicted,
    /// Nobody disagrees, but fewer than a quorum agree.
    TooFewVoters,
}

/// What the endpoints say together about a number that only grows, such as the count of an account's
/// transactions. Honest endpoints may be a block apart: then it is known within bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// A quorum, and most of those that answered, have come that far: whatever moves forward by the
    /// number, or is over because of it, goes by this.
    pub at_least: u64,
    /// A quorum, and most of those that answered, have come no further: whatever must not have
    /// happened yet goes by this.
    pub at_most: u64,
}

/// What follows from what each endpoint says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision<T> {
    /// The claim holds.
    Agreed,
    /// Something else holds: this.
    Outvoted(T),
    /// Nothing is concluded.
    Open(Verdict),
}

impl Quorum {
    /// So many of the configured endpoints; without a number the usual one: 1 of 1, 1 of 2 while
    /// the other does not contradict, and the majority of 3 and more.
    pub fn of(configured: usize, required: Option<usize>) -> Result<Self, QuorumError> {
        let required = required.unwrap_or(if configured > 2 { configured / 2 + 1 } else { 1 });
        if required == 0 || required > configured.max(1) {
            return Err(QuorumError { configured, required });
        }
        Ok(Self { configured: configured.max(1), required })
    }

    /// How many endpoints are configured.
    pub fn configured(self) -> usize {
        self.configured
    }

    /// How many of them have to agree.
    pub fn required(self) -> usize {
        self.required
    }

    /// What follows from the votes on a claim.
    pub fn verdict(self, votes: Votes) -> Verdict {
        let outvotes = votes.disagree == 0 || votes.agree * 2 > self.configured;
        match votes {
            Votes { agree, .. } if agree >= self.required && outvotes => Verdict::Agreed,
            Votes { disagree: 1.., .. } => Verdict::Contradicted,
            _ => Verdict::TooFewVoters,
        }
    }

    /// What follows for a claim from what each endpoint says; `None` for those that say nothing. If
    /// the claim does not hold, something else may.
    pub fn decide<T: PartialEq + Clone>(self, claim: &T, said: &[Option<T>]) -> Decision<T> {
        let verdict = self.verdict(Votes::on(claim, said));
        if verdict == Verdict::Agreed {
            return Decision::Agreed;
        }
        let others = said.iter().flatten().filter(|other| *other != claim);
        let holds = |other: &&T| self.verdict(Votes::on(*other, said)) == Verdict::Agreed;
        match others.clone().find(holds) {
            Some(other) => Decision::Outvoted(other.clone()),
            None => Decision::Open(verdict),
        }
    }

    /// Whether those who have not spoken yet can change nothing any more, by the words of those who
    /// have; `None` for those who have nothing to say.
    pub fn is_settled<T: PartialEq>(self, heard: &[Option<T>]) -> bool {
        let enough = self.required.max(self.configured / 2 + 1);
        let silent = heard.iter().filter(|word| word.is_none()).count();
        let said = |word: &T| heard.iter().flatten().filter(|other| *other == word).count();
        silent > self.configured.saturating_sub(self.required)
            || heard.iter().flatten().any(|word| said(word) >= enough)
    }

    /// The height that a quorum has reached, by the heads of those that answer; the lowest of them
    /// where fewer than a quorum answer.
    pub fn reached(self, heads: &[u64]) -> Option<u64> {
        nth_highest(heads, self.required)
    }

    /// The bounds of a number that only grows, by what those that answer say. Nobody is believed
    /// alone where others answer: each bound is what a quorum says, and more than half of those that
    /// answer. `None` if fewer than a quorum answer.
    pub fn counted(self, said: &[u64]) -> Option<Counted> {
        let needed = self.required.max(said.len() / 2 + 1);
        let mut said = said.to_vec();
        said.sort_unstable();
        let at_most = *said.get(needed - 1)?;
        let at_least = *said.get(said.len() - needed)?;
        Some(Counted { at_least, at_most })
    }

    /// What so many endpoints will say together, if those that have not answered yet cannot change
    /// it any more.
    pub fn counted_early(self, said: &[u64], asked: usize) -> Option<u64> {
        let same = |count: &u64| said.iter().filter(|other| *other == count).count();
        let decides = |count: &&u64| same(count) >= self.required && same(count) * 2 > asked;
        said.iter().find(decides).copied()
    }

    /// The newest height at which endpoints can contradict each other: the one that a quorum has
    /// reached, and two of them at least. `None` if fewer than two answer.
    pub fn comparable(self, heads: &[u64]) -> Option<u64> {
        (heads.len() > 1).then(|| nth_highest(heads, self.required.max(2))).flatten()
    }

    /// The height up to which blocks count as being on top of others, by the heads of those that
    /// answer: what a quorum has reached, and two at least where several answer. A head comes with
    /// whether it has risen lately. Where one endpoint is a quorum, those that stand still hold up
    /// nobody while another one goes on.
    pub fn depth_up_to(self, heads: &[(u64, bool)]) -> Option<u64> {
        let goes_on = self.required == 1 && heads.iter().any(|(_, rises)| *rises);
        let counted = heads.iter().filter(|(_, rises)| *rises || !goes_on);
        let heights: Vec<u64> = counted.map(|(height, _)| *height).collect();
        nth_highest(&heights, self.required.max(heights.len().min(2)))
    }

    /// The height up to which a chain is safe or finalized, by what each endpoint calls so. Where
    /// two or more say so, nobody's word counts alone. `None` if fewer than a quorum say so.
    pub fn confirmed_up_to(self, heights: &[u64]) -> Option<u64> {
        if heights.len() < self.required {
            return None;
        }
        nth_highest(heights, self.required.max(heights.len().min(2)))
    }
}

impl Counted {
    /// All say the same.
    pub fn exactly(count: u64) -> Self {
        Self { at_least: count, at_most: count }
    }

    /// The number, if it is known and not only within bounds.
    pub fn exact(self) -> Option<u64> {
        (self.at_least == self.at_most).then_some(self.at_least)
    }
}

/// The `n`th highest, counted from 1; the lowest if there are fewer.
fn nth_highest(heights: &[u64], n: usize) -> Option<u64> {
    let mut heights = heights.to_vec();
    heights.sort_unstable_by_key(|height| std::cmp::Reverse(*height));
    heights.get(n - 1).or(heights.last()).copied()
}

impl Votes {
    /// Counts what each endpoint says; `None` for those that say nothing.
    pub fn on<T: PartialEq>(claim: &T, said: &[Option<T>]) -> Self {
        let mut votes = Self::default();
        for word in said {
            match word {
                Some(word) if word == claim => votes.agree += 1,
                Some(_) => votes.disagree += 1,
                None => votes.silent += 1,
            }
        }
        votes
    }
}

impl Verdict {
    /// As metrics and documents call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Agreed => "agreed",
            Self::Contradicted => "contradicted",
            Self::TooFewVoters => "too-few-voters",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::Verdict::{Agreed, Contradicted, TooFewVoters};
    use super::*;

    fn usual(configured: usize) -> Quorum {
        Quorum::of(configured, None).unwrap()
    }

    #[test]
    fn the_usual_quorum_is_one_of_one_one_of_two_and_the_majority_of_more() {
        let required: Vec<usize> = (1..=7).map(|n| usual(n).required()).collect();
        assert_eq!(required, [1, 1, 2, 3, 3, 4, 4]);
        assert_eq!(Quorum::of(3, Some(3)).unwrap().required(), 3);
        let error = Quorum::of(2, Some(3)).unwrap_err().to_string();
        assert_eq!(error, "must be from 1 to 2, the number of endpoints, not 3");
        assert!(Quorum::of(2, Some(0)).is_err());
    }

    #[test]
    fn hole_23_the_verdict_for_all_votes() {
        // configured, required, agree, disagree, silent
        let table = [
            ((1, None), (1, 0, 0), Agreed),
            ((1, None), (0, 0, 1), TooFewVoters),
            ((1, None), (0, 1, 0), Contradicted),
            // Two: one is enough while the other does not contradict.
            ((2, None), (2, 0, 0), Agreed),
            ((2, None), (1, 0, 1), Agreed),
            ((2, None), (1, 1, 0), Contradicted),
            ((2, None), (0, 0, 2), TooFewVoters),
            ((2, Some(2)), (1, 0, 1), TooFewVoters),
            ((2, Some(2)), (2, 0, 0), Agreed),
            // Three: one liar is outvoted, and one voter is too few.
            ((3, None), (3, 0, 0), Agreed),
            ((3, None), (2, 1, 0), Agreed),
            ((3, None), (2, 0, 1), Agreed),
            ((3, None), (1, 0, 2), TooFewVoters),
            ((3, None), (1, 1, 1), Contradicted),
            ((3, None), (1, 2, 0), Contradicted),
            ((3, None), (0, 0, 3), TooFewVoters),
            // A lower quorum does not outvote anybody: that takes a majority.
            ((3, Some(1)), (1, 0, 2), Agreed),
            ((3, Some(1)), (1, 1, 1), Contradicted),
            ((3, Some(3)), (2, 0, 1), TooFewVoters),
            ((3, Some(3)), (2, 1, 0), Contradicted),
            ((5, None), (3, 2, 0), Agreed),
            ((5, Some(2)), (2, 1, 2), Contradicted),
            ((5, None), (2, 0, 3), TooFewVoters),
            ((4, None), (2, 2, 0), Contradicted),
        ];
        for ((configured, required), (agree, disagree, silent), verdict) in table {
            let quorum = Quorum::of(configured, required).unwrap();
            let votes = Votes { agree, disagree, silent };
            assert_eq!(quorum.verdict(votes), verdict, "{quorum:?} {votes:?}");
        }
    }

    #[test]
    fn whoever_is_outvoted_is_outvoted_by_one_other_word() {
        let three = usual(3);
        let said = [Some('a'), Some('b'), Some('b')];
        assert_eq!(three.decide(&'a', &said), Decision::Outvoted('b'));
        assert_eq!(three.decide(&'b', &said), Decision::Agreed);
        let apart = [Some('a'), Some('b'), Some('c')];
        assert_eq!(three.decide(&'a', &apart), Decision::Open(Contradicted));
        assert_eq!(three.decide(&'a', &[Some('a'), None, None]), Decision::Open(TooFewVoters));
        assert_eq!(usual(2).decide(&'a', &[Some('b'), None]), Decision::Outvoted('b'));
        assert_eq!(usual(1).decide(&'a', &[Some('b')]), Decision::Outvoted('b'));
    }

    #[test]
    fn hole_23_nobody_waits_for_words_that_change_nothing() {
        let (a, b, none) = (Some('a'), Some('b'), None);
        let one_of_three = Quorum::of(3, Some(1)).unwrap();
        let all = Quorum::of(3, Some(3)).unwrap();
        let table: [(Quorum, &[Option<char>], bool); 15] = [
            (usual(1), &[], false),
            (usual(1), &[a], true),
            // The other of two can always contradict.
            (usual(2), &[a], false),
            (usual(2), &[none], false),
            (usual(2), &[a, a], true),
            (usual(2), &[a, b], false),
            (usual(3), &[a], false),
            (usual(3), &[a, b], false),
            (usual(3), &[a, none], false),
            (usual(3), &[a, a], true),
            (usual(3), &[b, b], true),
            (usual(3), &[none, none], true),
            (one_of_three, &[none, none], false),
            (one_of_three, &[a], false),
            (all, &[none], true),
        ];
        for (quorum, heard, settled) in table {
            assert_eq!(quorum.is_settled(heard), settled, "{quorum:?} {heard:?}");
            if !settled || heard.is_empty() {
                continue;
            }
            // Whatever the rest say: what is decided about a claim stays so.
            let missing = quorum.configured() - heard.len();
            for claim in ['a', 'b'] {
                let holds = |rest: Option<char>| {
                    let mut said = heard.to_vec();
                    said.extend(vec![rest; missing]);
                    match quorum.decide(&claim, &said) {
                        Decision::Open(_) => None,
                        decision => Some(decision),
                    }
                };
                assert_eq!(holds(a), holds(none), "{quorum:?} {heard:?} {claim}");
                assert_eq!(holds(b), holds(none), "{quorum:?} {heard:?} {claim}");
            }
        }
    }

    #[test]
    fn a_height_is_reached_by_a_quorum_and_not_by_the_boldest() {
        assert_eq!(usual(3).reached(&[10, 1010, 11]), Some(11));
        assert_eq!(usual(3).reached(&[1010]), Some(1010));
        assert_eq!(usual(2).reached(&[10, 12]), Some(12));
        assert_eq!(usual(1).reached(&[]), None);
        assert_eq!(usual(3).comparable(&[10, 1010, 11]), Some(11));
        assert_eq!(usual(2).comparable(&[10, 12]), Some(10));
        assert_eq!(usual(2).comparable(&[10]), None);
    }

    #[test]
    fn hole_13_a_count_is_what_a_quorum_says_in_both_directions() {
        let bounds = |at_least, at_most| Some(Counted { at_least, at_most });
        type Case<'a> = ((usize, Option<usize>), &'a [u64], Option<Counted>);
        let table: [Case<'_>; 15] = [
            ((1, None), &[5], bounds(5, 5)),
            ((1, None), &[], None),
            // Two: one is enough while the other is away, and none is believed against the other.
            ((2, None), &[5], bounds(5, 5)),
            ((2, None), &[5, 5], bounds(5, 5)),
            ((2, None), &[5, 1_000_000], bounds(5, 1_000_000)),
            ((2, None), &[0, 5], bounds(0, 5)),
            ((2, Some(2)), &[5], None),
            ((3, None), &[5, 1_000_000, 5], bounds(5, 5)),
            ((3, None), &[0, 5, 5], bounds(5, 5)),
            ((3, None), &[5, 6, 7], bounds(6, 6)),
            // One is away: a liar and an honest one, or two honest ones a block apart.
            ((3, None), &[2, 5], bounds(2, 5)),
            ((3, None), &[5], None),
            ((3, Some(1)), &[5, 1_000_000], bounds(5, 1_000_000)),
            ((4, None), &[5, 5, 6, 9], bounds(5, 6)),
            ((5, None), &[9, 9, 5, 5, 5], bounds(5, 5)),
        ];
        for ((configured, required), said, counted) in table {
            let quorum = Quorum::of(configured, required).unwrap();
            assert_eq!(quorum.counted(said), counted, "{quorum:?} {said:?}");
        }
    }

    #[test]
    fn hole_20_what_cannot_change_any_more_is_not_waited_for() {
        let table: [(usize, &[u64], usize, Option<u64>); 7] = [
            (3, &[5, 5], 3, Some(5)),
            (3, &[5], 3, None),
            (3, &[5, 6], 3, None),
            (3, &[5], 1, None),
            // The other one may contradict.
            (2, &[5], 2, None),
            (2, &[5], 1, Some(5)),
            (5, &[7, 5, 5, 5], 5, Some(5)),
        ];
        for (configured, said, asked, early) in table {
            let quorum = usual(configured);
            assert_eq!(quorum.counted_early(said, asked), early, "{configured} {said:?}");
            let Some(early) = early else { continue };
            for last in [0, 5, 1_000_000] {
                let said: Vec<u64> = said.iter().copied().chain([last]).take(asked).collect();
                assert_eq!(quorum.counted(&said), Some(Counted::exactly(early)), "{said:?}");
            }
        }
    }

    #[test]
    fn hole_23_depth_is_what_a_quorum_has_reached() {
        let rises = |heights: &[u64]| -> Vec<(u64, bool)> {
            heights.iter().map(|height| (*height, true)).collect()
        };
        let table = [
            (1, rises(&[30]), Some(30)),
            (1, rises(&[]), None),
            (2, rises(&[10, 30]), Some(10)),
            (2, rises(&[30]), Some(30)),
            // The other one stands still: for how long, the pool says.
            (2, vec![(10, false), (30, true)], Some(30)),
            (2, vec![(10, false), (30, false)], Some(10)),
            (3, rises(&[10, 30, 11]), Some(11)),
            (3, vec![(10, false), (30, true), (11, false)], Some(11)),
            (3, rises(&[10, 30]), Some(10)),
            (5, rises(&[10, 30, 30, 11, 12]), Some(12)),
        ];
        for (configured, heads, depth) in table {
            assert_eq!(usual(configured).depth_up_to(&heads), depth, "{configured} {heads:?}");
        }
    }

    #[test]
    fn finalized_is_what_a_quorum_calls_so() {
        assert_eq!(usual(3).confirmed_up_to(&[100, 8, 7]), Some(8));
        assert_eq!(usual(3).confirmed_up_to(&[100]), None);
        assert_eq!(usual(2).confirmed_up_to(&[100, 8]), Some(8));
        assert_eq!(usual(2).confirmed_up_to(&[8]), Some(8));
        assert_eq!(usual(1).confirmed_up_to(&[8]), Some(8));
        assert_eq!(Quorum::of(3, Some(3)).unwrap().confirmed_up_to(&[9, 8, 7]), Some(7));
    }
}
