//! Callers' marks on their own holds.

use std::time::Instant;
use stile_domain::Hold;
use stile_store::{Mark, MarkOutcome, MarkVerdict, StoreError};
use tokio::sync::oneshot;
use tracing::debug;

use crate::core::Core;
use crate::error::NonceError;
use crate::metrics;

/// One mark and who waits for its answer.
#[derive(Debug)]
pub(crate) struct MarkCall {
    pub(crate) mark: Mark,
    pub(crate) reply: oneshot::Sender<Result<Hold, NonceError>>,
}

/// Writes marks in one commit and answers each. Marks need no lease: any node may write them.
pub(crate) async fn mark(core: &Core, calls: Vec<MarkCall>) {
    if calls.is_empty() {
        return;
    }
    let (marks, replies): (Vec<Mark>, Vec<_>) =
        calls.into_iter().map(|call| (call.mark, call.reply)).unzip();
    let sent = Instant::now();
    let mut answer = core.store.mark(&marks).await;
    if matches!(answer, Err(StoreError::CommitUnknown(_))) {
        // A mark says the same the second time, so asking again is how to learn what happened.
        answer = core.store.mark(&marks).await;
    }
    match answer {
        Ok(outcomes) => {
            metrics::committed("mark", marks.len(), sent.elapsed());
            for ((mark, outcome), reply) in marks.iter().zip(outcomes).zip(replies) {
                // Whoever asked may be gone; the mark stands.
                let _ = reply.send(concluded(core, mark, outcome));
            }
        }
        Err(error) => {
            metrics::store_failed("mark");
            for (mark, reply) in marks.iter().zip(replies) {
                metrics::marked(name(&mark.verdict), "error");
                let _ = reply.send(Err(NonceError::from(&error)));
            }
        }
    }
}

fn concluded(core: &Core, mark: &Mark, outcome: MarkOutcome) -> Result<Hold, NonceError> {
    let verdict = name(&mark.verdict);
    let (result, answer) = match outcome {
        MarkOutcome::Done(hold) => ("done", Ok(hold)),
        MarkOutcome::Conflict(hold) => {
            ("conflict", Err(NonceError::HoldConflict { hold: Box::new(hold) }))
        }
        MarkOutcome::Superseded(hold) => {
            ("superseded", Err(NonceError::HoldSuperseded { hold: Box::new(hold) }))
        }
        MarkOutcome::NotFound => ("not_found", Err(NonceError::HoldNotFound)),
    };
    metrics::marked(verdict, result);
    debug!(signer = %mark.lane.signer, chain = %mark.lane.chain, node = %core.holder.node,
           nonce = mark.nonce, hold = %mark.hold, verdict, result, "mark");
    answer
}

fn name(verdict: &MarkVerdict) -> &'static str {
    match verdict {
        MarkVerdict::Used(_) => "used",
        MarkVerdict::Recyclable(_) => "recyclable",
    }
}
