//! What this node writes for its lanes is remembered while it holds them.
//!
//! A commit is remembered before it is sent, so that one whose answer never comes is remembered too.

use stile_domain::{CommitId, RememberedAttempt, TxId};
use stile_store::{
    Claim, LaneChanges, NewAttempt, Recorded, Refusal, StoreError, TxBinding, Withdrawal,
};

use crate::core::Core;
use crate::lanes::Slot;

/// Transactions are about to be bound.
pub(crate) fn binds(slot: &Slot, binding: &TxBinding) -> Option<CommitId> {
    let attempts = binding.plan.nonces().zip(&binding.txs).map(|(nonce, tx)| {
        let NewAttempt { hash, raw, fees, gas_limit, .. } = &tx.attempt;
        RememberedAttempt {
            tx: tx.id(),
            nonce,
            hash: *hash,
            raw: Some(raw.clone()),
            fees: *fees,
            gas_limit: *gas_limit,
        }
    });
    slot.memorise(binding.claim, |memory| memory.binds(attempts))
}

/// What became of that.
pub(crate) fn answered<T>(
    slot: &Slot,
    claim: Claim,
    commit: Option<CommitId>,
    answer: &Result<Vec<Result<T, Refusal>>, StoreError>,
) {
    let Some(commit) = commit else { return };
    slot.memorise(claim, |memory| match answer.as_deref() {
        Ok([Ok(_)]) => memory.happened(commit),
        Ok([Err(_)]) => memory.did_not_happen(commit),
        Err(error) if was_not_written(error) => memory.did_not_happen(commit),
        // It may have happened, and stays as it is.
        Ok(_) | Err(_) => {}
    });
}

/// Attempts are about to be added.
pub(crate) fn replaces(slot: &Slot, part: &LaneChanges) -> Option<CommitId> {
    let added = part.changes.iter();
    let mut added =
        added.filter_map(|change| Some((change.tx, change.attempt.as_ref()?.hash))).peekable();
    added.peek()?;
    slot.memorise(part.claim, |memory| memory.replaces(added))
}

/// What became of that, said for this part alone. One that was lost in the store is not written, but
/// the others are.
pub(crate) fn replaced(
    slot: &Slot,
    part: &LaneChanges,
    commit: Option<CommitId>,
    answer: Result<&[Result<Vec<Recorded>, Refusal>], &StoreError>,
) {
    let Some(commit) = commit else { return };
    slot.memorise(part.claim, |memory| match answer {
        Ok([Ok(recorded)]) => {
            memory.did_not_happen(commit);
            let written = part.changes.iter().zip(recorded);
            let written = written.filter(|(_, it)| matches!(it, Recorded::Written { .. }));
            let written = written
                .filter_map(|(change, _)| Some((change.tx, change.attempt.as_ref()?.hash)))
                .collect::<Vec<_>>();
            let again = memory.replaces(written);
            memory.happened(again);
        }
        Ok([Err(_)]) => memory.did_not_happen(commit),
        Err(error) if was_not_written(error) => memory.did_not_happen(commit),
        Ok(_) | Err(_) => {}
    });
}

/// A transaction that has no nonce was withdrawn. If that is not known, neither is its lane: then all
/// lanes take note of it, and it is looked for by its name.
pub(crate) fn withdrew(core: &Core, id: TxId, answer: &Result<Withdrawal, StoreError>) {
    match answer {
        Ok(Withdrawal::Done(tx)) => {
            let slot = core.lanes.slot(tx.lane);
            if let Some(claim) = slot.claim() {
                slot.memorise(claim, |memory| memory.withdrew(id));
            }
        }
        Err(error) if !was_not_written(error) => {
            for (slot, claim) in core.lanes.held() {
                slot.memorise(claim, |memory| memory.withdrew(id));
            }
        }
        Ok(_) | Err(_) => {}
    }
}

/// Transactions that have no nonce are about to be ended.
pub(crate) fn ends(slot: &Slot, part: &LaneChanges) -> Option<CommitId> {
    let txs = part.changes.iter().map(|change| change.tx);
    slot.memorise(part.claim, |memory| memory.ends(txs))
}

/// What became of that. One that was lost in the store is not written, but the others are.
pub(crate) fn ended(
    slot: &Slot,
    part: &LaneChanges,
    commit: Option<CommitId>,
    answer: &Result<Vec<Result<Vec<Recorded>, Refusal>>, StoreError>,
) {
    let Some(commit) = commit else { return };
    slot.memorise(part.claim, |memory| match answer.as_deref() {
        Ok([Ok(recorded)]) => {
            memory.did_not_happen(commit);
            let written = part.changes.iter().zip(recorded);
            let written = written.filter(|(_, it)| matches!(it, Recorded::Written { .. }));
            let again = memory.ends(written.map(|(change, _)| change.tx));
            memory.happened(again);
        }
        Ok([Err(_)]) => memory.did_not_happen(commit),
        Err(error) if was_not_written(error) => memory.did_not_happen(commit),
        Ok(_) | Err(_) => {}
    });
}

/// A person's word ends a transaction that has no nonce, or may: it is not sent by this node after a
/// failover that has lost the word.
pub(crate) fn closes(slot: &Slot, tx: TxId) {
    if let Some(claim) = slot.claim() {
        slot.memorise(claim, |memory| memory.withdrew(tx));
    }
}

/// Whether the store is sure that nothing was written.
fn was_not_written(error: &StoreError) -> bool {
    matches!(error, StoreError::Unavailable(_) | StoreError::Constraint(_))
}
