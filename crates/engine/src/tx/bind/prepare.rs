//! What must be known of a transaction before it can be signed.

use std::sync::Arc;

use futures::future::join_all;
use serde_json::json;
use stile_domain::{GasBelowIntrinsic, Standing, Step, check_gas};
use stile_store::{Claim, LaneChanges, NewEvent, Set, Tx, TxChange};
use tracing::{debug, warn};

use super::fresh_quote;
use crate::core::Core;
use crate::metrics;
use crate::tx::estimates::{self, Estimate};
use crate::tx::limits;
use crate::tx::memorise;
use crate::tx::sign::ToSign;
use crate::tx::track::Track;

/// Finds out gas and fees. Answers with what can be bound, in order; what would be reverted is
/// refused for good, and what cannot be estimated is set aside. `None` if the chain does not say.
pub(super) async fn prepare(
    core: &Arc<Core>,
    track: &Arc<Track>,
    claim: Claim,
    waiting: Vec<Tx>,
) -> Option<(Vec<Tx>, Vec<ToSign>)> {
    let quotes = match track.quotes(fresh_quote()) {
        Some(quotes) => Some(quotes),
        None if waiting
            .iter()
            .all(|tx| core.first_fees(tx.lane.chain, &tx.payload, None).is_some()) =>
        {
            None
        }
        None => match track.ask_quotes().await {
            Ok(quotes) => Some(quotes),
            Err(error) => {
                debug!(%error, "no fee quote: transactions wait");
                return None;
            }
        },
    };
    let block = match waiting.iter().any(|tx| limits::states_gas(&tx.payload)) {
        true => track.block_gas.get(&track.pool).await.and_then(|gas| gas.agreed),
        false => None,
    };
    let (mut ready, mut to_sign, mut refused) = (Vec::new(), Vec::new(), Vec::new());
    let (mut silent, mut is_stuck) = (Vec::new(), false);
    let mut waiting = waiting.into_iter();
    // One part after the other: after one in which somebody got no estimate, what is ready goes first.
    while silent.is_empty() && !is_stuck {
        let part: Vec<Tx> = waiting.by_ref().take(estimates::AT_ONCE).collect();
        if part.is_empty() {
            break;
        }
        let found = join_all(part.iter().map(|tx| estimates::estimate(track, tx))).await;
        let is_silent = found.iter().any(|estimate| matches!(estimate, Estimate::Silent(_)));
        let is_reachable = !is_silent || track.pool.is_reachable().await;
        for (tx, estimate) in part.into_iter().zip(found) {
            match estimate {
                Estimate::Silent(words) if is_reachable => silent.push((tx, words)),
                Estimate::Silent(words) => {
                    // The chain's trouble, not the transaction's: it and those after it keep their
                    // order.
                    debug!(why = words, "the chain cannot be reached: transactions wait");
                    track.estimates().forget_failure(tx.id);
                    is_stuck = true;
                }
                _ if is_stuck => {}
                Estimate::Known(gas_limit) => {
                    let least = limits::at_least(core, track, &tx.payload, gas_limit).await;
                    if let Some(stated) = tx.payload.gas_limit.filter(|stated| *stated < least) {
                        refused.push((tx, GasBelowIntrinsic { stated, least }.to_string()));
                        continue;
                    }
                    let gas_limit = gas_limit.max(least);
                    // It was taken: what most endpoints do not say is found out when it is sent.
                    if let (Some(stated), Some(_)) = (tx.payload.gas_limit, block)
                        && let Err(above) = check_gas(stated, block)
                    {
                        refused.push((tx, above.to_string()));
                        continue;
                    }
                    let fees = core.first_fees(tx.lane.chain, &tx.payload, quotes.as_ref())?;
                    to_sign.push(ToSign { payload: tx.payload.clone(), gas_limit, fees });
                    ready.push(tx);
                }
                Estimate::Refused(why) => refused.push((tx, why)),
            }
        }
    }
    refuse(core, claim, refused).await;
    let is_written = estimates::set_aside(core, track, claim, silent).await;
    let is_stuck = is_stuck || !is_written;
    if ready.is_empty() && is_stuck { None } else { Some((ready, to_sign)) }
}

/// Ends transactions that would be reverted, or are of no use, before they cost a nonce.
pub(crate) async fn refuse(core: &Arc<Core>, claim: Claim, refused: Vec<(Tx, String)>) {
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
    // Remembered before it is sent: after a failover that has lost it, nobody sends what a caller was
    // told has failed.
    let slot = core.lanes.slot(claim.lane());
    let remembered = memorise::ends(&slot, &part);
    let answer =
        core.store.record(&core.holder.node, std::slice::from_ref(&part), core.lease()).await;
    memorise::ended(&slot, &part, remembered, &answer);
    match answer {
        Ok(_) => core.events.send_modify(|count| *count += 1),
        Err(error) => {
            metrics::store_failed("record");
            warn!(%error, "refusals could not be written; they are tried again");
        }
    }
}
