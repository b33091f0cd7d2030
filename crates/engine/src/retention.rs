//! Removing what is over, after as long as it is to be kept.
//!
//! Every node does its part, in small batches with pauses in between, and none of it holds up
//! anybody's work: the store skips what is locked, and gives its writer back after every batch. A
//! transaction goes only once no reorganisation can reopen it: its block, and the blocks told on top
//! of it, are below the oldest header that this node keeps, and it keeps as many as it ever looks
//! back. A hold goes only once the chain shows its nonce used.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;
use stile_domain::{ChainId, Lane};
use stile_store::StoreError;
use tracing::{info, warn};

use crate::core::Core;
use crate::metrics;
use crate::settings::Retention;

/// Rows of one kind that go in one commit.
const BATCH: u32 = 500;

/// The least time between two batches; never less than the last one took.
const PAUSE: Duration = Duration::from_millis(20);

/// How often it is looked for what is over: the tenth part of the time it is kept, between these.
const LEAST_INTERVAL: Duration = Duration::from_millis(500);
const MOST_INTERVAL: Duration = Duration::from_secs(60);

pub(crate) async fn run(core: Arc<Core>) {
    let Retention { finished, holds } = core.settings.retention;
    let Some(shortest) = finished.into_iter().chain(holds).min() else { return };
    let mut ticks = tokio::time::interval((shortest / 10).clamp(LEAST_INTERVAL, MOST_INTERVAL));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = core.stopping.cancelled() => return,
            _ = ticks.tick() => {}
        }
        let begun = Instant::now();
        let txs = match finished {
            Some(kept) => sweep_txs(&core, kept).await,
            None => 0,
        };
        let holds = match holds {
            Some(kept) => sweep_holds(&core, kept).await,
            None => 0,
        };
        if txs + holds > 0 {
            info!(node = %core.holder.node, transactions = txs, holds, took = ?begun.elapsed(),
                  "what was kept long enough is removed");
        }
    }
}

/// Transactions, of every chain that this node follows.
async fn sweep_txs(core: &Core, kept: Duration) -> u64 {
    let mut removed = 0;
    for track in core.tracks.iter() {
        let chain = track.pool.chain();
        // The window moves on meanwhile, and only upwards is more over than was: once is enough.
        let below = track.settled_below();
        removed += in_batches(core, "tx", || core.store.sweep_txs(chain, below, kept, BATCH)).await;
    }
    removed
}

/// Holds whose nonce the chain shows used, and those that were given back long ago.
async fn sweep_holds(core: &Core, kept: Duration) -> u64 {
    let mut removed = in_batches(core, "hold", || core.store.sweep_past_holds(kept, BATCH)).await;
    let mut chains: BTreeMap<ChainId, Vec<Lane>> = BTreeMap::new();
    let lanes: Vec<Lane> = match core.store.lanes_with_old_holds(kept).await {
        Ok(lanes) => lanes,
        Err(error) => {
            failed(&error);
            return removed;
        }
    };
    for lane in lanes {
        chains.entry(lane.chain).or_default().push(lane);
    }
    // Beside each other: a chain that does not answer holds up no other.
    let swept = chains.into_values().map(|lanes| sweep_holds_of_chain(core, lanes, kept));
    removed += join_all(swept).await.into_iter().sum::<u64>();
    removed
}

async fn sweep_holds_of_chain(core: &Core, lanes: Vec<Lane>, kept: Duration) -> u64 {
    let mut removed = 0;
    for lane in lanes {
        if core.stopping.is_cancelled() {
            break;
        }
        // A chain that is not asked, or does not answer, shows nothing: they stay.
        let latest = match core.chain_latest(lane).await {
            Ok(Some(latest)) => latest,
            Ok(None) => continue,
            // It would be silent about the next lane too.
            Err(_) => break,
        };
        let sweep = || core.store.sweep_holds(lane, latest, kept, BATCH);
        removed += in_batches(core, "hold", sweep).await;
    }
    removed
}

/// Repeats a batch until nothing is left, the node stops, or the store does not answer; the next
/// round goes on from there.
async fn in_batches<F>(core: &Core, what: &'static str, mut batch: impl FnMut() -> F) -> u64
where
    F: Future<Output = Result<u64, StoreError>>,
{
    let mut removed = 0;
    while !core.stopping.is_cancelled() {
        let sent = Instant::now();
        match batch().await {
            Ok(0) => break,
            Ok(count) => {
                metrics::swept(what, count, sent.elapsed());
                removed += count;
            }
            Err(error) => {
                failed(&error);
                break;
            }
        }
        tokio::select! {
            () = core.stopping.cancelled() => break,
            () = tokio::time::sleep(sent.elapsed().max(PAUSE)) => {}
        }
    }
    removed
}

fn failed(error: &StoreError) {
    metrics::store_failed("retention");
    warn!(%error, "what was kept long enough could not be removed; tried again");
}
