//! What must be known of a transaction before it can be signed.

use std::sync::Arc;

use futures::StreamExt;
use serde_json::json;
use stile_chain::EstimateError;
use stile_domain::{Fees, Standing, Step, gas_limit_for};
use stile_store::{Claim, LaneChanges, NewEvent, Set, Tx, TxChange};
use tracing::{debug, warn};

use super::fresh_quote;
use crate::core::Core;
use crate::metrics;
use crate::tx::sign::ToSign;
use crate::tx::track::Track;

/// Estimates at one time.
const ESTIMATES: usize = 8;

/// Finds out gas and fees. Answers with what can be bound, in order; what would be reverted is
/// refused for good. `None` if the chain does not say.
pub(super) async fn prepare(
    core: &Arc<Core>,
    track: &Arc<Track>,
    claim: Claim,
    waiting: Vec<Tx>,
) -> Option<(Vec<Tx>, Vec<ToSign>)> {
    let quote = match track.quote(fresh_quote()) {
        Some(quote) => Some(quote),
        None if waiting.iter().all(|tx| Fees::given(&tx.payload).is_some()) => None,
        None => match track.pool.fee_quote().await {
            Ok(quote) => {
                track.set_quote(quote);
                Some(quote)
            }
            Err(error) => {
                debug!(%error, "no fee quote: transactions wait");
                return None;
            }
        },
    };
    let estimates: Vec<_> = waiting.iter().map(|tx| gas_limit(track, tx)).collect();
    let estimates: Vec<Result<u64, EstimateError>> =
        futures::stream::iter(estimates).buffered(ESTIMATES).collect().await;
    let (mut ready, mut to_sign, mut refused) = (Vec::new(), Vec::new(), Vec::new());
    let mut silent = false;
    for (tx, estimate) in waiting.into_iter().zip(estimates) {
        match estimate {
            Ok(gas_limit) => {
                let fees = match quote {
                    Some(quote) => core.first_fees(tx.lane.chain, &tx.payload, &quote),
                    None => Fees::given(&tx.payload)?,
                };
                to_sign.push(ToSign { payload: tx.payload.clone(), gas_limit, fees });
                ready.push(tx);
            }
            Err(EstimateError::Reverted { reason, .. }) => {
                refused
                    .push((tx, format!("the estimate says that it would be reverted: {reason}")));
            }
            Err(EstimateError::Refused(why)) => {
                refused.push((tx, format!("its gas could not be estimated: {why}")));
            }
            Err(EstimateError::Unavailable(error)) => {
                debug!(%error, "no estimate: transactions wait");
                // Those before it may go; it and those after it keep their order.
                silent = true;
                break;
            }
        }
    }
    refuse(core, claim, refused).await;
    if ready.is_empty() && silent { None } else { Some((ready, to_sign)) }
}

async fn gas_limit(track: &Track, tx: &Tx) -> Result<u64, EstimateError> {
    match tx.gas_limit {
        Some(gas_limit) => Ok(gas_limit),
        None => track.pool.estimate_gas(tx.lane.signer, &tx.payload).await.map(gas_limit_for),
    }
}

/// Ends transactions that would be reverted, or are of no use, before they cost a nonce.
pub(super) async fn refuse(core: &Arc<Core>, claim: Claim, refused: Vec<(Tx, String)>) {
    let changes: Vec<TxChange> = refused
        .into_iter()
        .filter_map(|(tx, why)| {
            let step: Step = Step::Refused;
            let standing: Standing = tx.standing.after(step).ok()?;
            let mut change = TxChange::new(tx.id, tx.events, standing);
            let data = json!({ "reason": why });
            change.event = Some(NewEvent { kind: tx.standing.kind_of(step), data });
            warn!(txId = %tx.id, signer = %tx.lane.signer, why, "refused before a nonce was bound");
            change.error = Set::To(why);
            Some(change)
        })
        .collect();
    if changes.is_empty() {
        return;
    }
    let part = LaneChanges { claim, changes };
    match core.store.record(&core.holder.node, std::slice::from_ref(&part), core.lease()).await {
        Ok(_) => core.events.send_modify(|count| *count += 1),
        Err(error) => {
            metrics::store_failed("record");
            warn!(%error, "refusals could not be written; they are tried again");
        }
    }
}
