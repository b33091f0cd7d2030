//! Taking up what a lane's last holder left, and letting go of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::{BoxFuture, FutureExt};
use stile_domain::{Lane, TxId};
use stile_store::OpenTx;
use tracing::{info, warn};

use crate::core::Core;
use crate::metrics;
use crate::tx::bind;
use crate::tx::book::Open;

/// Lanes read by one statement.
const CHUNK: usize = 200;

/// Reads what is open on lanes that have just come to this node, sends stored bytes again, and has
/// everything compared with the chain. Nothing is signed anew.
pub(crate) fn adopt(core: &Arc<Core>, lanes: Vec<Lane>) {
    let lanes: Vec<Lane> =
        lanes.into_iter().filter(|lane| core.tracks.get(lane.chain).is_some()).collect();
    if lanes.is_empty() || core.stopping.is_cancelled() {
        return;
    }
    let owned = Arc::clone(core);
    core.producers.spawn(async move {
        for chunk in lanes.chunks(CHUNK) {
            read(&owned, chunk).await;
        }
    });
}

/// Reads a lane again, because the store knows more of it than this node.
pub(crate) fn again(core: &Arc<Core>, lane: Lane) {
    give_up(core, lane);
    adopt(core, vec![lane]);
}

/// Forgets a lane that is somebody else's.
pub(crate) fn give_up(core: &Core, lane: Lane) {
    if let Some(track) = core.tracks.get(lane.chain) {
        let mut book = track.book();
        book.drop_lane(lane);
        core.recorder.forget(lane);
    }
}

/// Boxed, because reading fails over to reading later.
fn read<'a>(core: &'a Arc<Core>, lanes: &'a [Lane]) -> BoxFuture<'a, ()> {
    async move {
        let mut pause = Duration::from_millis(200);
        let mut began = Instant::now();
        let open = loop {
            match core.store.open_txs(lanes).await {
                Ok(open) => break open,
                Err(error) => {
                    metrics::store_failed("open_txs");
                    warn!(%error, lanes = lanes.len(), "open transactions could not be read; tried again");
                    tokio::select! {
                        () = core.stopping.cancelled() => return,
                        () = tokio::time::sleep(pause) => {}
                    }
                    pause = (pause * 2).min(Duration::from_secs(5));
                    began = Instant::now();
                }
            }
        };
        take_in(core, open, began);
        for lane in lanes {
            let Some(track) = core.tracks.get(lane.chain) else { continue };
            track.adopted().push(*lane);
            track.look.notify_one();
        }
        bind::wake_many(core, lanes).await;
    }
    .boxed()
}

fn take_in(core: &Arc<Core>, open: Vec<OpenTx>, began: Instant) {
    let now = Instant::now();
    if !open.is_empty() {
        info!(node = %core.holder.node, count = open.len(), "open transactions taken up");
    }
    let mut to_send: Vec<(Lane, TxId)> = Vec::new();
    for tx in open {
        let (lane, id) = (tx.tx.lane, tx.tx.id);
        let Some(track) = core.tracks.get(lane.chain) else { continue };
        let mut book = track.book();
        // Whoever is working the lane at this very moment knows more, also of those that were done
        // with since this was read.
        let known = book.get(id).is_some() || book.closed_since(id, began);
        if known || core.lanes.slot(lane).claim().is_none() {
            continue;
        }
        let Some(open) = Open::read(tx, now) else { continue };
        if open.is_unmined() {
            to_send.push((lane, id));
        }
        book.insert(open);
    }
    for track in core.tracks.iter() {
        let chain = track.pool.chain();
        let ids = to_send.iter().filter(|(lane, _)| lane.chain == chain).map(|(_, id)| *id);
        core.submit(track, ids);
    }
}
