//! Transactions that were made anew, when the chain gives their nonces back.
//!
//! A transaction lost its nonce to somebody else, and a linked one was accepted in its place
//! (`resendIfReplaced`). Then the chain loses the other's transaction: by a reorganisation that is deeper
//! than any that is followed, or because it was reset. The nonce waits for the first one again, and sent
//! once more it would be executed beside its successor. So it is never opened by itself; the store
//! refuses that, too. The lane is paused like any that the chain has set back, and a person resumes it:
//!
//! * The successor has no nonce yet: it is withdrawn, for good, and the first one is sent again.
//! * The successor has a nonce, or was withdrawn by its caller: the first one stays closed. An empty
//!   transaction takes its nonce, so that those above it can be mined.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::json;
use stile_chain::UnsignedTx;
use stile_domain::{AttemptKind, EventKind, Lane, Standing, TxId, TxState};
use stile_store::{
    LaneChanges, LedgerOwner, NewAttempt, NewEvent, OpenTx, Recorded, StoreError, TxChange,
    Withdrawal,
};
use tracing::{info, warn};

use crate::core::Core;
use crate::reconcile::Comparison;
use crate::tx::memorise;
use crate::tx::sign::{self, Signable};
use crate::tx::track::Track;
use crate::tx::{bind, replace};

/// What becomes of a finished transaction that the chain has lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Its stored bytes are sent again.
    SentAgain,
    /// Its successor has no nonce: that one is withdrawn, and this one's bytes are sent again.
    InPlaceOf(TxId),
    /// It has a successor and stays closed.
    StaysClosed(TxId),
}

/// The rule: of a transaction in this state that was made anew as another, if it was, and where that one
/// stands, if it is on record.
fn fate(state: TxState, replaced_by: Option<TxId>, successor: Option<Standing>) -> Fate {
    let Some(id) = replaced_by else { return Fate::SentAgain };
    match successor {
        Some(Standing { state: TxState::Created, .. }) => Fate::InPlaceOf(id),
        // It was opened again in its successor's place before.
        Some(Standing { state: TxState::Failed, bound: false, .. })
            if state == TxState::Confirmed =>
        {
            Fate::SentAgain
        }
        _ => Fate::StaysClosed(id),
    }
}

/// Finished transactions that the chain has lost, each with what becomes of it.
pub(crate) async fn fates(
    core: &Core,
    lost: Vec<OpenTx>,
) -> Result<Vec<(OpenTx, Fate)>, StoreError> {
    let ids: Vec<TxId> = lost.iter().filter_map(|open| open.tx.replaced_by).collect();
    let successors: HashMap<TxId, Standing> = if ids.is_empty() {
        HashMap::new()
    } else {
        let found = core.store.txs(&ids).await?.into_iter().flatten();
        found.map(|tx| (tx.id, tx.standing)).collect()
    };
    let fated = lost.into_iter().map(|open| {
        let replaced_by = open.tx.replaced_by;
        let successor = replaced_by.and_then(|id| successors.get(&id).copied());
        let fate = fate(open.tx.standing.state, replaced_by, successor);
        (open, fate)
    });
    Ok(fated.collect())
}

/// Withdraws the successor of a transaction that takes its place again. If it has got a nonce
/// meanwhile, the first one stays closed.
pub(crate) async fn withdraw_successor(core: &Core, fate: Fate) -> Result<Fate, StoreError> {
    let Fate::InPlaceOf(successor) = fate else { return Ok(fate) };
    let answer = core.store.withdraw(&core.holder.node, successor).await;
    memorise::withdrew(core, successor, &answer);
    match answer? {
        Withdrawal::Done(tx) => {
            info!(txId = %successor, signer = %tx.lane.signer, chain = %tx.lane.chain,
                  "withdrawn: the transaction that it was made in place of is sent again");
            Ok(fate)
        }
        // A successor that may be on the chain stays, and so this one does.
        Withdrawal::TooLate(_) | Withdrawal::AwaitsWord(_) | Withdrawal::NotFound => {
            Ok(Fate::StaysClosed(successor))
        }
    }
}

/// Gives the nonce of a transaction that stays closed to an empty one. The transaction is not opened for
/// that: the empty one is written as its attempt, and then sent.
pub(crate) async fn empty(
    core: &Arc<Core>,
    track: &Track,
    open: &OpenTx,
    successor: TxId,
) -> Result<bool, StoreError> {
    let (tx, lane) = (&open.tx, open.tx.lane);
    let Some(claim) = core.lanes.slot(lane).claim() else { return Ok(false) };
    let Some(attempt) = sign_empty(core, track, open).await else { return Ok(false) };
    let mut change = TxChange::new(tx.id, tx.events, tx.standing);
    let data = json!({
        "cause": "made-anew", "replacedBy": successor, "txHash": attempt.hash, "fees": attempt.fees,
    });
    change.event = Some(NewEvent { kind: EventKind::CancelRequested, data });
    change.attempt = Some(attempt.clone());
    let part = LaneChanges { claim, changes: vec![change] };
    let parts = std::slice::from_ref(&part);
    let slot = core.lanes.slot(lane);
    let remembered = memorise::replaces(&slot, &part);
    let answers = core.store.record(&core.holder.node, parts, core.lease()).await;
    memorise::replaced(&slot, &part, remembered, answers.as_deref());
    let answers = answers?;
    core.events.send_modify(|count| *count += 1);
    let written =
        matches!(answers[..], [Ok(ref one)] if matches!(one[..], [Recorded::Written { .. }]));
    if written {
        warn!(txId = %tx.id, signer = %lane.signer, chain = %lane.chain, nonce = tx.nonce, %successor,
              txHash = %attempt.hash, "made anew, and so not sent again: an empty transaction takes its nonce");
        track.pool.send_raw(&[attempt.raw]).await;
    }
    Ok(written)
}

/// An empty transaction at its nonce that chain nodes take in place of what they may have.
async fn sign_empty(core: &Core, track: &Track, open: &OpenTx) -> Option<NewAttempt> {
    let lane: Lane = open.tx.lane;
    let before = UnsignedTx::of(&open.attempts.last()?.raw)?;
    let quote = match track.quote(bind::fresh_quote()) {
        Some(quote) => Some(quote),
        None => track.ask_quotes().await.ok().map(|quotes| quotes.offered),
    };
    let ceiling = core.ceiling(lane.chain, quote.as_ref());
    let fees = core.settings.tx.fees.next(&before.fees, quote.as_ref(), ceiling.limit());
    let fees = ceiling.cut(fees.unwrap_or(before.fees));
    let nothing = Signable::new(before.nothing(lane.signer, fees.fees()), fees);
    let tx = nothing.with_gas(replace::gas_for_nothing(track, lane).await);
    let signer = core.signers.get(lane)?;
    let signed = sign::sign_one(signer, &tx, AttemptKind::Cancel).await;
    core.signing.note(lane, signed.as_ref().err());
    signed.inspect_err(|error| warn!(%error, signer = %lane.signer, "not signed")).ok()
}

/// The chain waits for a nonce on record as done. If that is a transaction which stays closed, and an
/// empty one was made for its nonce, the empty one's stored bytes are sent again, until a block has it.
pub(crate) async fn send_empty_again(
    core: &Core,
    track: &Track,
    comparison: &Comparison,
) -> Result<bool, StoreError> {
    let head = comparison.head.as_ref().map(|head| &head.owner);
    let Some(LedgerOwner::Tx(id, TxState::Failed)) = head else { return Ok(false) };
    let found = core.store.with_attempts(&[*id]).await?.pop();
    let Some(open) = found.filter(|open| open.tx.replaced_by.is_some()) else { return Ok(false) };
    match open.attempts.last().filter(|newest| newest.kind == AttemptKind::Cancel) {
        Some(empty) => {
            track.pool.send_raw(std::slice::from_ref(&empty.raw)).await;
            Ok(true)
        }
        None => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use stile_domain::{Outcome, Step, Successor};
    use uuid::Uuid;

    use super::*;

    fn after(steps: &[Step]) -> Standing {
        steps.iter().fold(Standing::CREATED, |at, step| at.after(*step).unwrap())
    }

    #[test]
    fn only_one_of_the_two_is_ever_sent() {
        let other = TxId(Uuid::from_u128(2));
        let lost = after(&[Step::Bound, Step::Superseded(Successor::Outsider)]);
        let done = after(&[Step::Bound, Step::Mined(Outcome::Success), Step::Final]);
        let withdrawn = after(&[Step::Withdrawn]);
        let (bound, sent) = (after(&[Step::Bound]), after(&[Step::Bound, Step::Sent]));
        let (anew, stays) = (Some(other), Fate::StaysClosed(other));
        let table = [
            ("never made anew", lost, None, None, Fate::SentAgain),
            ("done", done, None, None, Fate::SentAgain),
            ("waits", lost, anew, Some(Standing::CREATED), Fate::InPlaceOf(other)),
            ("bound", lost, anew, Some(bound), stays),
            ("sent", lost, anew, Some(sent), stays),
            ("done too", lost, anew, Some(done), stays),
            ("lost its nonce too", lost, anew, Some(lost), stays),
            ("withdrawn by its caller", lost, anew, Some(withdrawn), stays),
            ("removed since", lost, anew, None, stays),
            ("had its place again", done, anew, Some(withdrawn), Fate::SentAgain),
        ];
        for (case, tx, replaced_by, successor, expected) in table {
            assert_eq!(fate(tx.state, replaced_by, successor), expected, "{case}");
        }
    }
}
