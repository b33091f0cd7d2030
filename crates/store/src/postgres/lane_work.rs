//! One transaction for several lanes, of which each gets all of its part or none of it.
//!
//! What a lane is refused harms no other: a lane that loses a row is left out and the rest goes
//! again; where a constraint would be broken, each lane on its own shows which one it is.

use std::collections::HashMap;
use std::fmt::Debug;
use std::future::Future;

use stile_domain::Lane;

use super::session::Sessions;
use crate::{Refusal, StoreError};

pub(super) type Answers<T> = HashMap<Lane, Result<T, Refusal>>;

/// How a transaction ended.
pub(super) enum Attempt<T> {
    Committed(Answers<T>),
    /// Lanes that lost something; everything was rolled back.
    Lost(HashMap<Lane, Refusal>),
}

/// Work that is done for several lanes at once. The value itself is the terms: only what is asked
/// for on the same terms goes into one transaction.
pub(super) trait LaneWork: Debug + Clone + PartialEq + Send + Sync {
    /// One lane's part of it.
    type Part: Debug + Clone + Send + Sync;
    /// What the lane gets.
    type Answer: Debug + Send;

    fn lane(part: &Self::Part) -> Lane;

    /// How much there is to write.
    fn rows(part: &Self::Part) -> usize;

    /// One transaction with these parts.
    fn attempt(
        &self,
        sessions: &Sessions,
        parts: &[&Self::Part],
    ) -> impl Future<Output = Result<Attempt<Self::Answer>, StoreError>> + Send;
}

/// Does the work for every lane for which it can be done.
pub(super) async fn lane_by_lane<W: LaneWork>(
    sessions: &Sessions,
    work: &W,
    parts: &[W::Part],
) -> Result<Vec<Result<W::Answer, Refusal>>, StoreError> {
    let mut answers = Answers::with_capacity(parts.len());
    let mut groups: Vec<Vec<&W::Part>> = vec![parts.iter().collect()];
    while let Some(mut open) = groups.pop() {
        if open.is_empty() {
            continue;
        }
        let attempt = work.attempt(sessions, &open);
        match sessions.within(StoreError::CommitUnknown, attempt).await {
            Ok(Attempt::Committed(committed)) => answers.extend(committed),
            Ok(Attempt::Lost(lost)) => {
                open.retain(|part| !lost.contains_key(&W::lane(part)));
                answers.extend(lost.into_iter().map(|(lane, refusal)| (lane, Err(refusal))));
                groups.push(open);
            }
            Err(StoreError::Constraint(text)) => match open[..] {
                [alone] => {
                    answers.insert(W::lane(alone), Err(Refusal::Inconsistent(text)));
                }
                _ => groups.extend(open.into_iter().map(|part| vec![part])),
            },
            // Lanes that were tried by themselves may be committed by now, so that a failure
            // leaves the whole call's fate to be read back.
            Err(error) if answers.values().any(Result::is_ok) => {
                return Err(StoreError::CommitUnknown(error.to_string()));
            }
            Err(error) => return Err(error),
        }
    }
    parts
        .iter()
        .map(|part| {
            let lane = W::lane(part);
            answers
                .remove(&lane)
                .ok_or_else(|| StoreError::Internal(format!("the row of {lane} is gone")))
        })
        .collect()
}
