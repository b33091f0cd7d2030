//! Attempts of ours that the database has lost and the chain has.
//!
//! A transaction that had its nonce when a backup was taken may have been raised or withdrawn
//! afterwards. After the restore the record does not know that attempt, and the chain has it. It is
//! told from an outsider's by what it does: the same signer has signed the same at the same nonce, or
//! nothing at all, as a cancellation does. Then it is written down as what it is, and followed like
//! every other attempt.

use std::time::{Duration, Instant};

use serde_json::json;
use stile_chain::{ChainError, UnsignedTx, View};
use stile_domain::{AttemptKind, B256, Lane, Nonce, Payload, Step, TxId, lost_attempt};
use stile_store::{NewAttempt, Set, StoreError};
use tracing::{debug, info};

use crate::core::Core;
use crate::metrics;
use crate::tx::track::Track;

/// How long it is waited for an attempt to be written before its receipt is asked for.
const WRITTEN_WITHIN: Duration = Duration::from_secs(2);

/// The cause that such an attempt has on record.
const CAUSE: &str = "recovered";

/// A mined transaction at the nonce of one of ours that is not on record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Competing {
    pub(crate) id: TxId,
    pub(crate) lane: Lane,
    pub(crate) nonce: Nonce,
    pub(crate) hash: B256,
}

/// Who signed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SignedBy {
    /// Stile: it is being written down as an attempt.
    Stile,
    /// Somebody else: it does something else.
    Outsider,
    /// The chain does not show what was signed. Asked again.
    Unknown,
}

/// Finds out whose a mined transaction is, and makes it an attempt of ours if it is ours.
pub(crate) async fn take_back(
    core: &Core,
    track: &Track,
    view: &View,
    competing: Competing,
) -> Result<SignedBy, StoreError> {
    let Competing { id, lane, nonce, hash } = competing;
    let Some(tx) = core.store.txs(&[id]).await?.pop().flatten() else {
        return Ok(SignedBy::Unknown);
    };
    let found = match track.pool.mined(view, &[hash]).await {
        Ok(found) => found.into_iter().next().flatten(),
        Err(error) => return Ok(not_shown(&error)),
    };
    let Some(found) = found.filter(|found| found.from == lane.signer && found.nonce == nonce)
    else {
        return Ok(SignedBy::Unknown);
    };
    let Some((raw, signed)) = found.signed.filter(|(_, signed)| signed.chain == lane.chain) else {
        return Ok(SignedBy::Outsider);
    };
    let UnsignedTx { to, value, ref data, fees, gas_limit, .. } = signed;
    let does = Payload { to, value, data: data.clone(), ..Payload::default() };
    let Some(kind) = lost_attempt(lane.signer, &tx.payload, &does) else {
        return Ok(SignedBy::Outsider);
    };
    let attempt = NewAttempt { kind, hash, raw, fees, gas_limit };
    if !write(core, track, competing, attempt, found.block_number) {
        return Ok(SignedBy::Unknown);
    }
    if core.recorder.is_written(WRITTEN_WITHIN).await
        && let Some(open) = track.book().get_mut(id)
    {
        open.next_check = Instant::now();
        open.vain_checks = 0;
    }
    Ok(SignedBy::Stile)
}

fn not_shown(error: &ChainError) -> SignedBy {
    debug!(%error, "what was signed at one of our nonces could not be read; asked again");
    SignedBy::Unknown
}

/// Decides that it is an attempt. `false` if another one is being written, or it is not open here.
fn write(
    core: &Core,
    track: &Track,
    competing: Competing,
    attempt: NewAttempt,
    block_number: u64,
) -> bool {
    let Competing { id, lane, nonce, hash } = competing;
    let mut book = track.book();
    let Some(open) = book.get_mut(id).filter(|open| open.is_unmined() && !open.replacing) else {
        return false;
    };
    open.deliveries.renew();
    let step = match attempt.kind {
        AttemptKind::Cancel => Step::CancelRequested,
        _ => Step::Bumped,
    };
    let mut data = json!(attempt.fees);
    data["cause"] = CAUSE.into();
    data["txHash"] = hash.to_string().into();
    data["attempt"] = (open.attempts.len() + 1).into();
    data["blockNumber"] = block_number.into();
    data["reason"] =
        "the chain has a transaction of this signer at this nonce that does the same, or \
                      withdraws it, and the database did not know it"
            .into();
    let Some(mut change) = book.step(id, step, data) else { return false };
    change.attempt = Some(attempt);
    change.error = Set::Clear;
    if let Some(open) = book.get_mut(id) {
        open.replacing = true;
    }
    metrics::replaced(CAUSE);
    info!(txId = %id, signer = %lane.signer, chain = %lane.chain, nonce, txHash = %hash, block = block_number,
          "an attempt that the database did not know is on chain: it is ours");
    core.recorder.write(lane, Some(change));
    true
}
