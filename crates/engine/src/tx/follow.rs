//! New blocks, reorganisations, finality.
//!
//! One follower per chain keeps the canonical headers and holds each new block's hashes against the
//! book. It asks the chain the same few questions for every block, whatever is in flight.
//! Everything in one pass comes from one endpoint, and blocks are linked by their parents, so two
//! endpoints on different forks cannot be mixed up.

mod apply;
mod finality;
mod path;
mod verify;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use stile_chain::{ChainError, Sighting, View};
use stile_domain::{Header, HeaderWindow, Lane, Receipt, TxId};
use stile_store::{HeaderUpdate, OpenTx};
use tracing::{info, warn};

pub(crate) use self::apply::mine;
pub(crate) use self::finality::canonical;
use self::path::Path;
use crate::core::Core;
use crate::metrics;
use crate::tx::outside::{self, Strange};
use crate::tx::track::Track;

/// Passes that may fail before a block is passed whose receipts cannot be had.
const PATIENCE: u32 = 3;

/// What a follower remembers from pass to pass.
#[derive(Debug, Default)]
struct Memory {
    /// The endpoint of the last pass.
    endpoint: String,
    /// How many passes in a row have failed; the first one is told.
    failed: u32,
    /// Whether endpoints contradicted each other in the last pass.
    disputed: bool,
    /// How many passes the followed endpoint has been behind what is known.
    behind: u32,
}

pub(crate) async fn run(core: Arc<Core>, track: Arc<Track>) {
    load(&core, &track).await;
    let mut memory = Memory::default();
    loop {
        tokio::select! {
            () = core.stopping.cancelled() => return,
            () = track.pool.next_head() => {}
            () = track.look.notified() => {}
        }
        let passed = pass(&core, &track, &mut memory).await;
        match passed {
            Ok(()) => memory.failed = 0,
            Err(error) => {
                metrics::follow_failed();
                memory.failed = memory.failed.saturating_add(1);
                if memory.failed == 1 {
                    warn!(chain = %track.pool.chain(), %error, "the chain cannot be followed; tried again");
                }
            }
        }
    }
}

/// Starts from the headers on record, so that a fork is noticed that happened while nobody looked.
async fn load(core: &Core, track: &Track) {
    let limit = window_limit(core);
    match core.store.headers(track.pool.chain()).await {
        Ok(headers) => *track.window() = HeaderWindow::new(limit, headers),
        Err(error) => warn!(%error, "the headers on record could not be read"),
    }
}

/// Somewhat more than reorganisations are followed through.
pub(crate) fn window_limit(core: &Core) -> usize {
    core.settings.tx.reorg_window as usize + 72
}

async fn pass(core: &Arc<Core>, track: &Track, memory: &mut Memory) -> Result<(), ChainError> {
    let view = track.pool.view().await?;
    let same_endpoint = memory.endpoint == view.endpoint();
    memory.endpoint = view.endpoint().to_owned();
    let window = track.window().clone();
    if window.tip().map(|tip| tip.hash) != Some(view.head().hash) {
        let path =
            path::find(track.pool.chain(), &view, &window, same_endpoint, &mut memory.behind)
                .await?;
        let patient = memory.failed < PATIENCE;
        advance(core, track, &view, &window, path, patient).await?;
    } else {
        memory.behind = 0;
    }
    verify::adopted(core, track, &view).await?;
    finality::conclude(core, track, &view, &mut memory.disputed).await
}

/// Takes the chain from where the window ends to where the path leads.
async fn advance(
    core: &Arc<Core>,
    track: &Track,
    view: &View,
    window: &HeaderWindow,
    path: Path,
    patient: bool,
) -> Result<(), ChainError> {
    let Some(path) = path.into_steps() else { return Ok(()) };
    let replaced: Vec<Header> = match path.above {
        Some(ancestor) => window.from(ancestor + 1).copied().collect(),
        None => Vec::new(),
    };
    if !replaced.is_empty() {
        info!(chain = %track.pool.chain(), depth = replaced.len(), ancestor = path.above,
              endpoint = view.endpoint(), "the chain was reorganised");
        metrics::reorganised(replaced.len());
        reopen(core, track, path.above.unwrap_or(0)).await?;
    }
    let mut found: HashMap<TxId, Receipt> = HashMap::new();
    let held: HashSet<Lane> = held_lanes(core, track).into_iter().collect();
    let mut strange: Vec<Strange> = Vec::new();
    for block in &path.blocks {
        let wanted: Vec<_> = {
            let book = track.book();
            let (ours, others): (Vec<&Sighting>, Vec<&Sighting>) =
                block.transactions.iter().partition(|tx| book.by_hash(&tx.hash).is_some());
            let header = block.header;
            let of_lane = |tx: &&Sighting| Lane::new(track.pool.chain(), tx.from);
            let others = others.into_iter().filter(|tx| held.contains(&of_lane(tx)));
            strange.extend(others.map(|tx| Strange { lane: of_lane(&tx), seen: *tx, header }));
            ours.into_iter().map(|tx| tx.hash).collect()
        };
        if wanted.is_empty() {
            continue;
        }
        let receipts = match view.receipts_in(&block.header, &wanted).await {
            Ok(receipts) => receipts,
            Err(error) if patient => return Err(error),
            // The chain goes on, whatever is the matter with this block's receipts.
            Err(error) => {
                let height = block.header.height;
                warn!(%error, height, "the receipts of a block cannot be had at once: one by one");
                Vec::new()
            }
        };
        let mut book = track.book();
        for receipt in receipts {
            found.extend(book.by_hash(&receipt.tx_hash).map(|id| (id, receipt)));
        }
        // The endpoint has the block and not all of its receipts: those are asked for by
        // themselves.
        for id in wanted.iter().filter_map(|hash| book.by_hash(hash)).collect::<Vec<_>>() {
            if let Some(open) = book.get_mut(id).filter(|_| !found.contains_key(&id)) {
                open.next_check = std::time::Instant::now();
            }
        }
    }
    let tags = track.book().iter().any(|open| {
        let tagged = !matches!(open.finality, stile_domain::Finality::Confirmations(_));
        (tagged && !open.is_unmined()) || (open.resend && open.rival.is_some())
    });
    let heads = view.heads(tags).await;
    let canonical: Vec<Header> = path.blocks.iter().map(|block| block.header).collect();
    {
        let mut window = track.window();
        if path.leap {
            *window = HeaderWindow::new(window_limit(core), []);
        }
        if let Some(ancestor) = path.above {
            window.cut_above(ancestor);
        }
        for header in &canonical {
            window.put(*header);
        }
    }
    track.set_heads(heads);
    if path.leap {
        look_at_all(track);
    }
    apply::blocks(core, track, path.above.filter(|_| !replaced.is_empty()), &replaced, found);
    save(core, track, canonical, replaced).await;
    outside::look_at(core, track, strange).await;
    match track.pool.fee_quote().await {
        Ok(quote) => track.set_quote(quote),
        Err(error) => tracing::debug!(%error, "no fee quote"),
    }
    metrics::head(track.pool.chain(), heads.latest);
    Ok(())
}

/// Too much happened in between, or nothing was known before: every open transaction is compared
/// with the chain by itself.
fn look_at_all(track: &Track) {
    let mut book = track.book();
    let ids: Vec<TxId> = book.iter().map(|open| open.id).collect();
    for id in ids {
        if let Some(open) = book.get_mut(id) {
            open.unverified = open.block().is_some();
            open.next_check = std::time::Instant::now();
        }
    }
}

/// Finished transactions of these lanes that were mined above a height. A pass that cannot read
/// them fails as one that cannot read the chain does, and is made again.
async fn done_above(
    core: &Core,
    track: &Track,
    lanes: &[Lane],
    height: u64,
) -> Result<Vec<OpenTx>, ChainError> {
    let chain = track.pool.chain();
    core.store.done_above(chain, lanes, height).await.map_err(|error| {
        metrics::store_failed("done_above");
        let why = format!("finished transactions could not be read: {error}");
        ChainError::Unreachable { chain, said: vec![why] }
    })
}

/// How long what is decided may take to be written before a fork is looked at later.
const WRITTEN_WITHIN: Duration = Duration::from_secs(2);

/// Opens finished transactions again that a fork concerns, before the new blocks are looked at. One
/// that was found final and is not written so yet is neither in the book nor among the finished
/// ones, so whatever is decided has to be written first.
async fn reopen(core: &Core, track: &Track, ancestor: u64) -> Result<(), ChainError> {
    if !core.recorder.is_written(WRITTEN_WITHIN).await {
        let said = vec!["what was decided before a fork is not written yet".to_owned()];
        return Err(ChainError::Unreachable { chain: track.pool.chain(), said });
    }
    let lanes: Vec<Lane> = held_lanes(core, track);
    let floor = ancestor.saturating_sub(u64::from(core.settings.tx.reorg_window));
    let done = done_above(core, track, &lanes, floor).await?;
    let mut book = track.book();
    for tx in done {
        let rival = tx.tx.rival.map(|rival| rival.block_number);
        let own = tx.tx.receipt.as_ref().map(|receipt| receipt.block_number);
        let concerned = own.or(rival).is_some_and(|height| height > ancestor)
            || tx.tx.told.is_some_and(|(height, _)| height > ancestor);
        if concerned {
            take_back(&mut book, tx);
        }
    }
    Ok(())
}

fn take_back(book: &mut crate::tx::book::Book, tx: OpenTx) {
    if book.get(tx.tx.id).is_some() {
        return;
    }
    if let Some(mut open) = crate::tx::book::Open::read(tx, std::time::Instant::now()) {
        open.unverified = false;
        book.insert(open);
    }
}

fn held_lanes(core: &Core, track: &Track) -> Vec<Lane> {
    let chain = track.pool.chain();
    let held = core.lanes.held().into_iter().map(|(slot, _)| slot.lane());
    held.filter(|lane| lane.chain == chain).collect()
}

/// Writes down what is canonical. A memory only: if it fails, the next one carries on.
async fn save(core: &Core, track: &Track, canonical: Vec<Header>, replaced: Vec<Header>) {
    let keep_from = track.window().bottom().unwrap_or(0);
    let update = HeaderUpdate { chain: track.pool.chain(), canonical, replaced, keep_from };
    if let Err(error) = core.store.save_headers(&update).await {
        metrics::store_failed("save_headers");
        warn!(%error, "headers could not be written");
    }
}
