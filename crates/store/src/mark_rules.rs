//! What a mark means for the hold it finds, the same on both stores.

use std::collections::HashSet;

use stile_domain::{Hold, HoldStatus, Nonce};

use crate::{Mark, MarkOutcome, MarkVerdict};

/// Splits marks so that no nonce comes twice in one round: two marks on one hold in one statement
/// would leave it to chance which of them counts. Answers with the marks' places in the slice.
pub(crate) fn rounds(marks: &[Mark]) -> Vec<Vec<usize>> {
    let mut rounds: Vec<(Vec<usize>, HashSet<(stile_domain::Lane, Nonce)>)> = Vec::new();
    for (place, mark) in marks.iter().enumerate() {
        let key = (mark.lane, mark.nonce);
        match rounds.iter_mut().find(|(_, taken)| !taken.contains(&key)) {
            Some((places, taken)) => {
                places.push(place);
                taken.insert(key);
            }
            None => rounds.push((vec![place], HashSet::from([key]))),
        }
    }
    rounds.into_iter().map(|(places, _)| places).collect()
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
