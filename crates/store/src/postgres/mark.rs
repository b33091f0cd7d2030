//! What needs no lease: callers' marks on their own holds.

use std::collections::HashMap;

use stile_domain::{Hold, HoldId};
use uuid::Uuid;

use super::read;
use super::rows::{self, LaneColumns};
use super::session::Sessions;
use crate::mark_rules;
use crate::{Mark, MarkOutcome, MarkVerdict, StoreError};

pub(super) async fn mark(
    sessions: &Sessions,
    marks: &[Mark],
) -> Result<Vec<MarkOutcome>, StoreError> {
    let mut outcomes: Vec<Option<MarkOutcome>> = vec![None; marks.len()];
    for places in mark_rules::rounds(marks) {
        let round: Vec<&Mark> = places.iter().map(|place| &marks[*place]).collect();
        let changed = apply(sessions, &round).await?;
        let rest: Vec<_> = round
            .iter()
            .filter(|mark| !changed.get(&mark.hold).is_some_and(|hold| concerns(mark, hold)))
            .map(|mark| (mark.lane, mark.nonce, mark.hold))
            .collect();
        let found = read::holds_by_id(sessions, &rest).await?;
        for (place, mark) in places.into_iter().zip(round) {
            outcomes[place] = Some(match changed.get(&mark.hold) {
                Some(hold) if concerns(mark, hold) => MarkOutcome::Done(hold.clone()),
                _ => {
                    let found = found.get(&mark.hold).filter(|(hold, _)| concerns(mark, hold));
                    mark_rules::unchanged(mark, found.cloned())
                }
            });
        }
    }
    Ok(outcomes.into_iter().flatten().collect())
}

/// Whether the hold that carries the mark's hold id is the one the mark is about. A batch may hold
/// a right mark and one with the same hold id and a wrong nonce.
fn concerns(mark: &Mark, hold: &Hold) -> bool {
    (hold.lane, hold.nonce) == (mark.lane, mark.nonce)
}

/// Applies marks of which no two concern one nonce; answers with the holds that changed.
async fn apply(sessions: &Sessions, marks: &[&Mark]) -> Result<HashMap<HoldId, Hold>, StoreError> {
    let columns = LaneColumns::of(marks.iter().map(|mark| mark.lane));
    let nonces: Vec<i64> = marks.iter().map(|mark| mark.nonce.cast_signed()).collect();
    let holds: Vec<Uuid> = marks.iter().map(|mark| mark.hold.0).collect();
    let (hashes, reasons): (Vec<Option<&[u8]>>, Vec<Option<&str>>) = marks
        .iter()
        .map(|mark| match &mark.verdict {
            MarkVerdict::Used(hash) => (Some(hash.as_slice()), None),
            MarkVerdict::Recyclable(reason) => (None, Some(reason.as_str())),
        })
        .unzip();
    let changed = sessions
        .write(
            include_str!("sql/mark.sql"),
            &[&columns.chains, &columns.signers, &nonces, &holds, &hashes, &reasons],
        )
        .await?;
    changed.iter().map(|row| rows::hold(row).map(|hold| (hold.id, hold))).collect()
}
