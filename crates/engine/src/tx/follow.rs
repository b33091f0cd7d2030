//! New blocks, reorganisations, finality.
//!
//! One follower per chain keeps the canonical headers and holds each new block's hashes against the
//! book. It asks the chain the same few questions for every block, whatever is in flight.
//! Everything in one pass comes from one endpoint, and blocks are linked by their parents, so two
//! endpoints on different forks cannot be mixed up.
//!
//! | file | what is in it |
//! |---|---|
//! | `path` | the way from what is known to the newest block |
//! | `gate` | what is believed of the endpoint that is followed |
//! | `evidence` | what the endpoints agree on |
//! | `apply` | what new blocks mean for open transactions |
//! | `verify` | comparing what was taken over with the chain |
//! | `finality` | calling transactions done |
//! | `alarm` | what was final and is not on the chain any more |

mod alarm;
mod apply;
pub(crate) mod evidence;
mod finality;
mod gate;
mod path;
mod verify;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use stile_chain::{ChainError, Sighting, View};
use stile_domain::{B256, Header, HeaderWindow, Lane, Receipt, TakenBack, TxId, Verdict};
use stile_store::{HeaderUpdate, OpenTx};
use tracing::{info, warn};

use self::alarm::Lost;
pub(crate) use self::apply::mine;
pub(crate) use self::finality::canonical;
use self::gate::Compared;
use self::path::Steps;
use crate::core::Core;
use crate::metrics;
use crate::tx::outside::{self, Strange};
use crate::tx::track::Track;

/// Passes that may fail before a block is passed whose receipts cannot be had.
const PATIENCE: u32 = 3;

/// Transactions that wait for a quorum to see them. Comparing lanes with their chain finds the rest.
const STRANGE_KEPT: usize = 1000;

/// What a follower remembers from pass to pass.
#[derive(Debug, Default)]
struct Memory {
    /// The endpoint of the last pass.
    endpoint: String,
    /// How many passes in a row have failed; the first one is told.
    failed: u32,
    /// What this pass does not conclude for want of agreement.
    withheld: Option<(Verdict, String)>,
    /// The newest block that was compared with what the other endpoints have.
    compared: Option<(u64, B256)>,
    /// The newest block and the moment when the endpoints were last asked in vain.
    undecided: Option<(B256, Instant)>,
    /// The height from which blocks are decided about in the next pass, if there are more than one
    /// pass decides about.
    go_on_from: u64,
    /// Transactions of this node's accounts whose owners are to be found once a quorum has seen them.
    strange: Vec<Strange>,
    /// How many passes the followed endpoint has been behind what is known.
    behind: u32,
}

impl Memory {
    /// Takes note that something is not concluded. The first thing counts.
    fn withhold(&mut self, track: &Track, verdict: Verdict, height: u64) {
        if self.withheld.is_none() {
            self.withheld = Some((verdict, evidence::open_words(track, verdict, height)));
        }
    }
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
        Ok(headers) => {
            let window = HeaderWindow::new(limit, headers);
            track.pool.set_known(window.clone());
            *track.window() = window;
        }
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
    memory.withheld = None;
    let window = track.window().clone();
    if window.tip().map(|tip| tip.hash) != Some(view.head().hash) {
        let (chain, behind) = (track.pool.chain(), &mut memory.behind);
        let path = path::find(chain, &view, &window, same_endpoint, behind).await?;
        if let Some(steps) = path.into_steps()
            && gate::admits(track, &view, &window, &steps, memory).await
        {
            advance(core, track, &view, &window, steps, memory).await?;
        }
    } else {
        memory.behind = 0;
    }
    if gate::compare(core, track, &view, memory).await? == Compared::Forgotten {
        tell_withheld(track, memory.withheld.take());
        return Ok(());
    }
    memory.strange =
        outside::look_at(core, track, &view, std::mem::take(&mut memory.strange)).await;
    verify::adopted(core, track, &view).await?;
    finality::conclude(core, track, &view, memory).await?;
    tell_withheld(track, memory.withheld.take());
    Ok(())
}

/// Says what is not concluded, once.
fn tell_withheld(track: &Track, withheld: Option<(Verdict, String)>) {
    let chain = track.pool.chain();
    if track.withhold(withheld) {
        match track.withheld() {
            Some(now) => warn!(%chain, why = %now.verdict, words = now.words,
                               "nothing is concluded until the endpoints agree"),
            None => info!(%chain, "the endpoints agree again"),
        }
    }
    let withheld = track.withheld();
    metrics::withheld(chain, withheld.map(|now| (now.verdict, now.since.elapsed())));
}

/// Takes the chain from where the window ends to where the path leads.
async fn advance(
    core: &Arc<Core>,
    track: &Track,
    view: &View,
    window: &HeaderWindow,
    path: Steps,
    memory: &mut Memory,
) -> Result<(), ChainError> {
    let patient = memory.failed < PATIENCE;
    let replaced: Vec<Header> = match path.above {
        Some(ancestor) => window.from(ancestor + 1).copied().collect(),
        None => Vec::new(),
    };
    if !replaced.is_empty() {
        info!(chain = %track.pool.chain(), depth = replaced.len(), ancestor = path.above,
              endpoint = view.endpoint(), "the chain was reorganised");
        metrics::reorganised(replaced.len());
        reopen(core, track, path.above.unwrap_or(0)).await?;
        memory.compared = None;
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
    let canonical: Vec<Header> = path.blocks.iter().map(|block| block.header).collect();
    let mut next = match path.leap {
        true => HeaderWindow::new(window_limit(core), []),
        false => window.clone(),
    };
    if let Some(ancestor) = path.above {
        next.cut_above(ancestor);
    }
    for header in &canonical {
        next.put(*header);
    }
    let heads = track.pool.heads(view.head().height, &next, tags).await;
    track.pool.set_known(next.clone());
    *track.window() = next;
    track.set_heads(heads);
    if path.leap {
        look_at_all(track);
        if let Some(tip) = window.tip() {
            verify::left_at(core, track, view, tip).await;
        }
    }
    apply::blocks(core, track, path.above.filter(|_| !replaced.is_empty()), &replaced, found);
    save(core, track, canonical, replaced).await;
    memory.strange.extend(strange);
    memory.strange.truncate(STRANGE_KEPT);
    match track.pool.fee_quotes().await {
        Ok(quotes) => track.set_quotes(quotes),
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
///
/// What was finalized, or deeper than reorganisations are followed, is not opened again: a person
/// is called.
async fn reopen(core: &Arc<Core>, track: &Track, ancestor: u64) -> Result<(), ChainError> {
    if !core.recorder.is_written(WRITTEN_WITHIN).await {
        let said = vec!["what was decided before a fork is not written yet".to_owned()];
        return Err(ChainError::Unreachable { chain: track.pool.chain(), said });
    }
    let lanes: Vec<Lane> = held_lanes(core, track);
    let floor = ancestor.saturating_sub(u64::from(core.settings.tx.reorg_window));
    let done = done_above(core, track, &lanes, floor).await?;
    let heads = track.heads().unwrap_or_default();
    let (mut reopened, mut lost) = (Vec::new(), Vec::new());
    for tx in done {
        let decided = verify::decided_in(&tx.tx);
        let told = tx.tx.told.is_some_and(|(height, _)| height > ancestor);
        match decided.filter(|(height, _)| *height > ancestor) {
            Some((height, block)) => match verify::fate(core, &tx.tx, height, &heads) {
                TakenBack::Reopened => reopened.push(tx),
                TakenBack::Alarm => {
                    lost.push(Lost { lane: tx.tx.lane, id: tx.tx.id, height, block });
                }
            },
            None if told => reopened.push(tx),
            None => {}
        }
    }
    alarm::raise(core, track, lost).await?;
    let mut book = track.book();
    for tx in reopened {
        take_back(&mut book, tx);
    }
    Ok(())
}

/// What was made anew stays closed, however deep a reorganisation goes: it would be executed beside
/// its successor. See `made_anew`.
fn take_back(book: &mut crate::tx::book::Book, tx: OpenTx) {
    if book.get(tx.tx.id).is_some() || is_made_anew(&tx.tx) {
        return;
    }
    if let Some(mut open) = crate::tx::book::Open::read(tx, std::time::Instant::now()) {
        open.unverified = false;
        book.insert(open);
    }
}

fn is_made_anew(tx: &stile_store::Tx) -> bool {
    tx.replaced_by.is_some() && tx.standing.state == stile_domain::TxState::Failed
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
