//! What callers want of transactions that are on their way.
//!
//! Whoever has no nonce yet is withdrawn by whatever node is asked. Whoever has one needs a new
//! attempt, which only the lane's holder can make: the wish is left in the store, and the holder,
//! which looks for wishes all the time, sees to it.

use std::sync::Arc;

use stile_domain::{FeeLimitReached, Fees, Lane, Payload, TxId, TxState};
use stile_store::{StoreError, Tx, Wish, Withdrawal};
use tracing::{debug, info};

use crate::cluster;
use crate::core::Core;
use crate::metrics;
use crate::tx::cause::Cause;
use crate::tx::error::TxError;
use crate::tx::limits;
use crate::tx::memorise;
use crate::tx::replace::replace;

/// What became of a cancellation.
#[derive(Debug, Clone)]
pub enum Cancelled {
    /// It had no nonce: it is withdrawn.
    Withdrawn(Tx),
    /// It has one: an empty transaction at its nonce is on its way, and the chain decides.
    Requested(Tx),
}

/// Why nothing is done about a transaction.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ReplaceError {
    /// There is none of that name.
    #[error("there is no such transaction")]
    NotFound,
    /// It has no nonce yet, so there is nothing that could offer more.
    #[error("it has no nonce yet")]
    NoNonceYet(Box<Tx>),
    /// The database was restored, and it may have been sent before: only a person knows.
    #[error(
        "the database was restored, and it may have been sent before: say what became of it with stile tx \
         restored {} --was-sent or --never-sent",
        .0.id
    )]
    AwaitsWord(Box<Tx>),
    /// It is in a block or done.
    #[error("it is {} already", .0.standing.state)]
    TooLate(Box<Tx>),
    /// It would cost more than the chain's limit.
    #[error(transparent)]
    FeeLimit(FeeLimitReached),
    /// Chain nodes would not take it in place of the attempt before.
    #[error(
        "chain nodes take it in place of the attempt before only if it offers at least {least:?}"
    )]
    TooLow {
        /// What it must offer.
        least: Fees,
    },
    /// The store does not say.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Withdraws a transaction, if that can be had still.
pub(crate) async fn cancel(core: &Arc<Core>, id: TxId) -> Result<Cancelled, ReplaceError> {
    let answer = core.store.withdraw(&core.holder.node, id).await;
    memorise::withdrew(core, id, &answer);
    match answer? {
        Withdrawal::Done(tx) => {
            info!(txId = %id, signer = %tx.lane.signer, op = "cancel", "withdrawn before it had a nonce");
            core.events.send_modify(|count| *count += 1);
            Ok(Cancelled::Withdrawn(tx))
        }
        Withdrawal::TooLate(_) => leave(core, id, Wish::Cancel).await.map(Cancelled::Requested),
        Withdrawal::AwaitsWord(tx) => Err(ReplaceError::AwaitsWord(Box::new(tx))),
        Withdrawal::NotFound => Err(ReplaceError::NotFound),
    }
}

/// Has a transaction offer more.
pub(crate) async fn speed_up(
    core: &Arc<Core>,
    id: TxId,
    fees: Option<Fees>,
) -> Result<Tx, ReplaceError> {
    let Some(tx) = core.store.txs(&[id]).await?.pop().flatten() else {
        return Err(ReplaceError::NotFound);
    };
    match tx.standing.state {
        TxState::Created => return Err(ReplaceError::NoNonceYet(Box::new(tx))),
        TxState::Allocated | TxState::Submitted => {}
        TxState::Tracking | TxState::Confirmed | TxState::Failed => {
            return Err(ReplaceError::TooLate(Box::new(tx)));
        }
    }
    if let Some(fees) = fees {
        if let Err(TxError::FeeLimit { reached, .. }) = within_limit(core, tx.lane, fees).await {
            return Err(ReplaceError::FeeLimit(reached));
        }
        check(core, id, &fees).await?;
    }
    leave(core, id, Wish::SpeedUp(fees)).await
}

async fn within_limit(core: &Core, lane: Lane, fees: Fees) -> Result<(), TxError> {
    let stated = match fees {
        Fees::Legacy { gas_price } => Payload { gas_price: Some(gas_price), ..Payload::default() },
        Fees::Market { max_fee_per_gas, max_priority_fee_per_gas } => Payload {
            max_fee_per_gas: Some(max_fee_per_gas),
            max_priority_fee_per_gas: Some(max_priority_fee_per_gas),
            ..Payload::default()
        },
    };
    limits::check(core, lane, &stated).await
}

/// Refuses fees that no chain node would take in place of the newest attempt's.
async fn check(core: &Core, id: TxId, fees: &Fees) -> Result<(), ReplaceError> {
    let Some(newest) = core.store.attempts(id).await?.pop() else { return Ok(()) };
    let least = core.settings.tx.fees.next(&newest.fees, None, u128::MAX);
    match least {
        Ok(least) if !fees.cover(&least) => Err(ReplaceError::TooLow { least }),
        _ => Ok(()),
    }
}

async fn leave(core: &Arc<Core>, id: TxId, wish: Wish) -> Result<Tx, ReplaceError> {
    let Some(tx) = core.store.wish(id, &wish).await? else { return Err(ReplaceError::NotFound) };
    if tx.wish != Some(wish) {
        return Err(ReplaceError::TooLate(Box::new(tx)));
    }
    info!(txId = %id, signer = %tx.lane.signer, ?wish, "a wish is left for the lane's holder");
    let slot = core.lanes.slot(tx.lane);
    if slot.claim().is_some() {
        grant(core, tx.lane, id, wish);
    } else {
        cluster::ring(core, tx.lane);
    }
    Ok(tx)
}

/// Looks for wishes on these lanes, which this node holds.
pub(crate) async fn look(core: &Arc<Core>, lanes: &[Lane]) {
    match core.store.wishes(lanes).await {
        Ok(wishes) => {
            for (lane, id, wish) in wishes {
                grant(core, lane, id, wish);
            }
        }
        Err(error) => {
            metrics::store_failed("wishes");
            debug!(%error, "wishes could not be looked for");
        }
    }
}

fn grant(core: &Arc<Core>, lane: Lane, id: TxId, wish: Wish) {
    let Some(track) = core.tracks.get(lane.chain) else { return };
    let cause = match wish {
        Wish::Cancel => Cause::Cancel,
        Wish::SpeedUp(fees) => Cause::SpeedUp(fees),
    };
    replace(core, track, id, cause);
}
