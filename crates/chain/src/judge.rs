//! Which endpoints are in use, by how far each says that it has come. Pure.
//!
//! A head is a claim. What counts is the height that a quorum has reached: being far ahead of it
//! makes nobody else late, and being behind it takes nobody's vote at the heights it has.

use stile_domain::Quorum;

/// How many blocks behind what a quorum has reached an endpoint may be.
pub(crate) const TOLERATED_LAG: u64 = 2;

/// How many blocks an endpoint may be ahead of the others. On chains with several blocks a second
/// honest endpoints are seconds apart.
pub(crate) const TOLERATED_LEAD: u64 = 64;

/// What an endpoint's head says about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// It has come as far as the others.
    Level,
    /// It is behind what a quorum has reached.
    Behind,
    /// It claims a leap that no other endpoint confirms.
    Leaps,
}

/// Judges the heads of those that answered; `None` for those that did not. `known` is the height of
/// the newest block that was followed.
pub(crate) fn judge(
    quorum: Quorum,
    known: Option<u64>,
    heads: &[Option<u64>],
) -> Vec<Option<Judgement>> {
    let answered: Vec<u64> = heads.iter().flatten().copied().collect();
    let confirmed = quorum.comparable(&answered);
    // Where one endpoint is enough to go on, going on from what is known is no leap: the other one
    // may stand still.
    let goes_on = |head: u64| {
        quorum.required() == 1 && known.is_some_and(|known| head <= known + TOLERATED_LEAD)
    };
    let leaps = |head: u64| {
        confirmed.is_some_and(|confirmed| head > confirmed + TOLERATED_LEAD) && !goes_on(head)
    };
    let believed: Vec<u64> = answered.into_iter().filter(|head| !leaps(*head)).collect();
    let reached = quorum.reached(&believed).unwrap_or_default();
    let judged = |head: u64| match head {
        head if leaps(head) => Judgement::Leaps,
        head if head + TOLERATED_LAG < reached => Judgement::Behind,
        _ => Judgement::Level,
    };
    heads.iter().map(|head| head.map(judged)).collect()
}

#[cfg(test)]
mod tests {
    use super::Judgement::{Behind, Leaps, Level};
    use super::*;

    type Heads = &'static [Option<u64>];
    type Case = (usize, Option<usize>, Option<u64>, Heads, &'static [Option<Judgement>]);

    #[test]
    fn hole_23_being_ahead_makes_nobody_late() {
        // configured, quorum, known, heads, judgements
        let table: &[Case] = &[
            (1, None, None, &[Some(9)], &[Some(Level)]),
            (1, None, Some(9), &[Some(2000)], &[Some(Level)]),
            // A thousand blocks ahead of two honest ones.
            (
                3,
                None,
                Some(10),
                &[Some(10), Some(1010), Some(11)],
                &[Some(Level), Some(Leaps), Some(Level)],
            ),
            // Known already or not: nobody else has it.
            (
                3,
                None,
                Some(1010),
                &[Some(10), Some(1011), Some(11)],
                &[Some(Level), Some(Leaps), Some(Level)],
            ),
            // One of the honest ones is None, then both.
            (3, None, Some(10), &[Some(10), Some(1010), None], &[Some(Level), Some(Leaps), None]),
            (3, None, Some(10), &[None, Some(1010), None], &[None, Some(Level), None]),
            // Fast blocks: the fastest one makes nobody late, the second one does.
            (
                3,
                None,
                Some(50),
                &[Some(50), Some(44), Some(45)],
                &[Some(Level), Some(Level), Some(Level)],
            ),
            (
                3,
                None,
                Some(50),
                &[Some(50), Some(44), Some(48)],
                &[Some(Level), Some(Behind), Some(Level)],
            ),
            // Two: the one that stands still is late, step by step, and a leap is not believed.
            (2, None, Some(12), &[Some(10), Some(13)], &[Some(Behind), Some(Level)]),
            (2, None, Some(400), &[Some(10), Some(401)], &[Some(Behind), Some(Level)]),
            (2, None, Some(10), &[Some(10), Some(1010)], &[Some(Level), Some(Leaps)]),
            (2, None, None, &[Some(10), Some(1010)], &[Some(Level), Some(Leaps)]),
            (2, None, Some(10), &[None, Some(1010)], &[None, Some(Level)]),
            (2, None, Some(10), &[Some(1009), Some(1010)], &[Some(Level), Some(Level)]),
            (2, Some(2), Some(10), &[Some(10), Some(13)], &[Some(Level), Some(Level)]),
        ];
        for (configured, required, known, heads, judged) in table {
            let quorum = Quorum::of(*configured, *required).unwrap();
            assert_eq!(judge(quorum, *known, heads), *judged, "{quorum:?} {known:?} {heads:?}");
        }
    }
}
