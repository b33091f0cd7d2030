//! A new lane's first cursor.
//!
//! Finding it out may take a slow question to the chain, so it runs beside the workers: calls for
//! the lane wait here, calls for its neighbours do not.

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt};
use stile_chain::{BlockTag, ChainError};
use stile_store::Refusal;
use tracing::info;

use crate::allocate::{Allocate, allocate};
use crate::core::Core;
use crate::error::NonceError;
use crate::lanes::Slot;
use crate::metrics;
use crate::settings::ChainQuery;

/// Calls that may wait for one lane's start.
const WAITING_LIMIT: usize = 10_000;

/// Lets calls wait until the lane has a cursor, and sees to it that somebody finds it out.
pub(crate) fn park(core: &Arc<Core>, slot: &Arc<Slot>, calls: Vec<Allocate>) {
    let mut starting = slot.starting.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    match starting.as_mut() {
        Some(waiting) => {
            for call in calls {
                if waiting.len() < WAITING_LIMIT {
                    waiting.push(call);
                } else {
                    call.fail(NonceError::QueueFull);
                }
            }
        }
        None => {
            *starting = Some(calls);
            core.tasks.spawn(run(Arc::clone(core), Arc::clone(slot)));
        }
    }
}

/// Boxed, because the calls it wakes go through `allocate` again.
fn run(core: Arc<Core>, slot: Arc<Slot>) -> BoxFuture<'static, ()> {
    async move {
        let outcome = start(&core, &slot).await;
        let waiting = slot.starting.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        let waiting = waiting.unwrap_or_default();
        match outcome {
            Ok(()) => allocate(&core, waiting).await,
            Err(error) => waiting.into_iter().for_each(|call| call.fail(error.clone())),
        }
    }
    .boxed()
}

async fn start(core: &Core, slot: &Slot) -> Result<(), NonceError> {
    let lane = slot.lane();
    let unavailable = |e: ChainError| NonceError::ChainUnavailable { lane, why: e.to_string() };
    let at = match core.settings.chain_query {
        ChainQuery::Disabled => 0,
        ChainQuery::Enabled(tag) => core.ask_chain(lane, tag).await.map_err(unavailable)?,
    };
    let Some(claim) = slot.claim() else { return Ok(()) };
    let started = core.store.start_cursor(&claim, at, core.lease()).await;
    match started.inspect_err(|_| metrics::store_failed("start"))? {
        Ok(cursor) => {
            info!(signer = %lane.signer, chain = %lane.chain, node = %core.holder.node,
                  token = claim.token().get(), cursor, "lane starts");
            if core.settings.chain_query == ChainQuery::Enabled(BlockTag::Latest) {
                // For people who look at the lane; nothing depends on it.
                let _ = core.store.settle(&[(claim, at)], core.lease()).await;
            }
            Ok(())
        }
        Err(Refusal::Fenced(owner)) => {
            core.lost(slot, claim, &owner, "start");
            Err(NonceError::Fenced { lane, owner: Box::new(owner) })
        }
        Err(refusal) => Err(NonceError::Internal(refusal.to_string())),
    }
}
