//! A planted bug: what is sent again is signed again, with a tip of one wei more, and not stored.

use stile_chain::UnsignedTx;
use stile_domain::{AttemptKind, Bytes, Ceiling, Fees};
use stile_store::planted::Bug;

use super::queue::Item;
use crate::core::Core;
use crate::tx::sign::{self, Signable};
use crate::tx::track::Track;

/// The bytes that are sent for these.
pub(super) async fn bytes(core: &Core, track: &Track, items: &[Item]) -> Vec<Bytes> {
    let mut bytes = Vec::with_capacity(items.len());
    for item in items {
        let sent_before = track.book().get(item.id).is_some_and(|open| open.sends > 0);
        let wrong = sent_before && Bug::SignedAgain.is_planted();
        let signed = if wrong { signed_again(core, item).await } else { None };
        bytes.push(signed.unwrap_or_else(|| item.raw.clone()));
    }
    bytes
}

async fn signed_again(core: &Core, item: &Item) -> Option<Bytes> {
    let mut tx = UnsignedTx::of(&item.raw)?;
    if let Fees::Market { max_fee_per_gas, max_priority_fee_per_gas } = &mut tx.fees {
        *max_fee_per_gas += 1;
        *max_priority_fee_per_gas += 1;
    }
    let fees = Ceiling::new(Some(u128::MAX), None).cut(tx.fees);
    let signer = core.signers.get(item.lane)?;
    let attempt = sign::sign_one(signer, &Signable::new(tx, fees), AttemptKind::Bump).await.ok()?;
    Some(attempt.raw)
}
