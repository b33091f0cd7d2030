//! Giving a transaction up: what there is to know before an empty one takes its nonce.

use std::sync::Arc;

use stile_chain::SendClass;
use stile_domain::{B256, TxId, TxState};
use stile_store::TxEvent;
use tracing::{info, warn};

use crate::core::Core;
use crate::metrics;
use crate::tx::book::Open;
use crate::tx::delivery::{self, EverTaken, Evidence};
use crate::tx::track::Track;

/// Whether a transaction that is refused for good is given up. Asks the endpoints whether they know
/// one of its attempts and, where this process did not send it first, the record who took it.
pub(crate) async fn is_final(core: &Arc<Core>, track: &Track, id: TxId) -> bool {
    let Some(open) = track.book().get(id).cloned() else { return false };
    let mut took: Vec<String> = open.takers.clone();
    if open.is_taken_over() {
        match core.store.history(id).await {
            Ok(history) => took.extend(takers_on_record(&history)),
            Err(error) => {
                metrics::store_failed("history");
                warn!(%error, txId = %id, "who took it could not be read; not given up for now");
                return false;
            }
        }
    }
    let hashes: Vec<B256> = open.attempts.iter().map(|attempt| attempt.hash).collect();
    let known = track.pool.known_by_each(&hashes).await;
    let evidence = evidence(&open, track, &took, known);
    let required = track.pool.quorum().required();
    match delivery::give_up(&evidence, ever_taken(&open, &took), required) {
        Ok(()) => true,
        Err(keep) => {
            info!(txId = %id, signer = %open.lane.signer, chain = %open.lane.chain, ?keep,
                  "refused for good, and not given up");
            false
        }
    }
}

fn evidence(
    open: &Open,
    track: &Track,
    took: &[String],
    known: Vec<Option<Vec<bool>>>,
) -> Vec<Evidence> {
    let deliveries = open.deliveries.iter().zip(known).enumerate();
    let each = deliveries.map(|(place, (delivery, known))| Evidence {
        voice: delivery.voice(),
        rejections: delivery.rejections(),
        took: took.iter().any(|name| name == track.pool.endpoint_name(place)),
        knows: known.map(|known| known.contains(&true)),
    });
    each.collect()
}

fn ever_taken(open: &Open, took: &[String]) -> EverTaken {
    if !took.is_empty() || open.standing.state == TxState::Submitted {
        EverTaken::Yes
    } else if open.may_be_taken() {
        EverTaken::Perhaps
    } else {
        EverTaken::Never
    }
}

/// The endpoints that have taken one of its attempts, by its history.
fn takers_on_record(history: &[TxEvent]) -> Vec<String> {
    let said = history.iter().filter_map(|event| event.data.get("endpoints")?.as_array()).flatten();
    let took = said.filter(|said| {
        let class = said.get("class").and_then(|class| class.as_str());
        [SendClass::Accepted, SendClass::Known].iter().any(|taken| class == Some(taken.name()))
    });
    took.filter_map(|said| Some(said.get("endpoint")?.as_str()?.to_owned())).collect()
}
