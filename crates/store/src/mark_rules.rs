//! What a mark means for the hold it finds, the same on both stores.

use std::collections::HashMap;

use stile_domain::{Hold, HoldStatus, Lane, Nonce};

use crate::{Mark, MarkOutcome, MarkVerdict};

/// Splits marks so that no nonce comes twice in one round: two marks on one hold in one statement
/// would leave it to chance which of them counts. Answers with the marks' places in the slice.
pub(crate) fn rounds(marks: &[Mark]) -> Vec<Vec<usize>> {
    let mut rounds: Vec<Vec<usize>> = Vec::new();
    let mut earlier_marks: HashMap<(Lane, Nonce), usize> = HashMap::new();
    for (place, mark) in marks.iter().enumerate() {
        let round = earlier_marks.entry((mark.lane, mark.nonce)).or_default();
        if *round == rounds.len() {
            rounds.push(Vec::new());
        }
        rounds[*round].push(place);
        *round += 1;
    }
    rounds
}

/// The answer to a mark that changed nothing, from the hold as it stands. `past` says that the
/// nonce has been given out again since.
pub(crate) fn unchanged(mark: &Mark, found: Option<(Hold, bool)>) -> MarkOutcome {
    let Some((hold, past)) = found else { return MarkOutcome::NotFound };
    let says_the_same = match &mark.verdict {
        MarkVerdict::Used(hash) => {
            hold.status == HoldStatus::Consumed && hold.tx_hash == Some(*hash)
        }
        MarkVerdict::Recyclable(_) => hold.status == HoldStatus::Released,
    };
    match (says_the_same, past) {
        (true, _) => MarkOutcome::Done(hold),
        (false, true) => MarkOutcome::Superseded(hold),
        (false, false) => MarkOutcome::Conflict(hold),
    }
}
