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

use futures::StreamExt;
use stile_chain::{Block, ChainError, ReceiptAnswer, Sighting, View};
use stile_domain::{
    B256, Content, Header, HeaderWindow, Lane, Made, Receipt, SetBack, TakenBack, TxId, Verdict,
    no_block,
};
use stile_store::{HeaderUpdate, OpenTx};
use tracing::{debug, info, warn};

use self::alarm::Lost;
use self::apply::Fork;
pub(crate) use self::apply::mine;
pub(crate) use self::finality::canonical;
use self::gate::Compared;
use self::path::{Fault, Steps};
use crate::core::Core;
use crate::metrics;
use crate::tx::outside::{self, Strange};
use crate::tx::quotes;
use crate::tx::tags;
use crate::tx::track::Track;

/// Passes that may fail before a block is passed whose receipts cannot be had.
const PATIENCE: u32 = 3;

/// Passes in a row in which an endpoint may not give what it has to have, before another one is
/// followed.
const UNSHOWN: u32 = 3;

/// How long the way to the newest block may take, or the receipts on it, where another endpoint could
/// be followed instead.
const SHOWN_WITHIN: Duration = Duration::from_secs(60);

/// How soon it is asked again what is safe and finalized, while no block comes.
const TAGS_AGAIN: Duration = Duration::from_secs(2);

/// Blocks whose receipts are asked for at once.
const RECEIPTS: usize = 4;

/// Transactions that wait for a quorum to see them. Comparing lanes with their chain finds the rest.
const STRANGE_KEPT: usize = 1000;

/// What a follower remembers from pass to pass.
#[derive(Debug, Default)]
struct Memory {
    /// The endpoint of the last pass.
    endpoint: String,
    /// How many passes in a row have failed; the first one is told.
    failed: u32,
    /// In how many passes in a row the endpoint did not give what it has to have.
    unshown: u32,
    /// What this pass does not conclude for want of agreement.
    withheld: Option<(Verdict, String)>,
    /// The newest block that was compared with what the other endpoints have.
    compared: Option<(u64, B256)>,
    /// The highest that the endpoints agreed on, or that is on record from before.
    agreed: u64,
    /// When it was last asked what is safe and finalized, while no block came.
    tags_read: Option<Instant>,
    /// The newest block and the moment when the endpoints were last asked in vain.
    undecided: Option<(B256, Instant)>,
    /// The height from which blocks are decided about in the next pass, if there are more than one
    /// pass decides about.
    go_on_from: u64,
    /// Transactions of this node's accounts whose owners are to be found once a quorum has seen them.
    strange: Vec<Strange>,
    /// How many passes the followed endpoint has been behind what is known.
    behind: u32,
    /// It was told that the chain makes no blocks.
    stands_still: bool,
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
    let agreed = track.window().tip().map_or(0, |tip| tip.height);
    let mut memory = Memory { agreed, ..Memory::default() };
    loop {
        tokio::select! {
            () = core.stopping.cancelled() => return,
            () = track.pool.next_head() => {}
            () = track.look.notified() => {}
        }
        let passed = look(&core, &track, &mut memory).await;
        if passed.is_ok() && track.pace.looked() {
            tell_on_demand(&track);
        }
        tell_standstill(&track, &mut memory);
        tags::note(&core, &track).await;
        for endpoint in track.pool.endpoints() {
            let (chain, times) = (track.pool.chain(), endpoint.contradictions);
            metrics::usable(chain, &endpoint.shown, endpoint.usable);
            metrics::contradicted(chain, &endpoint.shown, times);
            metrics::unreadable(chain, &endpoint.shown, &endpoint.unreadable_totals);
            metrics::left_alone(track.pool.chain(), &endpoint.shown, endpoint.rests);
        }
        match passed {
            Ok(()) => {
                memory.failed = 0;
                track.set_trouble(None);
            }
            Err(error) => {
                track.set_trouble(Some(error.to_string()));
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
            let window = HeaderWindow::new(limit, headers.iter().copied());
            for tip in verify::left_behind(&headers, &window) {
                let base = verify::base(&headers, tip, core.settings.tx.reorg_window);
                track.leave(tip, base);
            }
            let tip = window.tip().map_or(0, |tip| tip.height);
            track.pool.set_known(window.clone());
            *track.window() = window;
            match core.store.replaced_headers(track.pool.chain()).await {
                Ok(replaced) => {
                    let highest = replaced.iter().map(|header| header.height).max().unwrap_or(0);
                    let is_another = replaced.iter().any(|header| header.height == 0);
                    let gone = verify::gone_up_to(&replaced, tip, core.settings.tx.reorg_window);
                    track.had_come_to(highest.max(tip), is_another && highest > tip, gone);
                }
                Err(error) => warn!(%error, "the headers that were replaced could not be read"),
            }
        }
        Err(error) => warn!(%error, "the headers on record could not be read"),
    }
}

/// Somewhat more than reorganisations are followed through.
pub(crate) fn window_limit(core: &Core) -> usize {
    core.settings.tx.reorg_window as usize + 72
}

/// One pass. An endpoint that shows its newest block and does not give what belongs to it is left for
/// another one after a few passes.
async fn look(core: &Arc<Core>, track: &Track, memory: &mut Memory) -> Result<(), ChainError> {
    let view = track.pool.view().await?.for_one();
    let same_endpoint = memory.endpoint == view.endpoint();
    if !same_endpoint {
        memory.endpoint = view.endpoint().to_owned();
        memory.unshown = 0;
    }
    let passed = pass(core, track, &view, same_endpoint, memory).await;
    match view.trouble() {
        Some(trouble) => {
            memory.unshown = memory.unshown.saturating_add(1);
            if memory.unshown >= UNSHOWN {
                let head = view.head().height;
                let words =
                    format!("is at block {head} and does not give what belongs to it: {trouble}");
                leave(track, &view, &words);
            }
        }
        None if passed.is_ok() => memory.unshown = 0,
        None => {}
    }
    if passed.is_ok() && track.pace.wants_history() {
        learn_pace(track, &view).await;
    }
    passed
}

/// How many older blocks tell how a chain's blocks come.
const OLDER: u64 = 16;

/// The chain is silent before enough of its blocks were seen coming: looks at older ones, once.
async fn learn_pace(track: &Track, view: &View) {
    let head = view.head().height;
    // The first block of a chain is empty everywhere.
    let heights: Vec<u64> = (head.saturating_sub(OLDER).max(1)..=head).collect();
    // What cannot be read is not asked for again: the pace is measured as blocks come.
    let older = view.outlines(&heights).await.unwrap_or_default();
    let older = older.into_iter().flatten().filter(|block| block.height > 0);
    track.pace.learn(older.map(|block| (block.timestamp, block.is_empty)));
}

/// Said once for each chain.
fn tell_on_demand(track: &Track) {
    info!(chain = %track.pool.chain(),
          "the chain makes blocks only when it has transactions: confirmations on top of the last \
           one do not come by themselves; finality {{\"confirmations\": 0}} waits for none");
}

/// Says once that the chain has stopped making blocks while something waits for one, and once that
/// it goes on.
fn tell_standstill(track: &Track, memory: &mut Memory) {
    let chain = track.pool.chain();
    let (anything, waiting) = {
        let book = track.book();
        let waiting = book.lowest_unmined().filter_map(|open| open.sent).min();
        (book.iter().next().is_some(), waiting)
    };
    let standstill = track.pace.standstill(waiting).filter(|_| anything);
    metrics::standstill(chain, standstill.map(|it| it.silent).unwrap_or_default());
    match standstill {
        Some(it) if !memory.stands_still => {
            let words = no_block(it.silent, it.usual);
            warn!(%chain, words, "the chain makes no blocks, and transactions wait for one");
        }
        None if memory.stands_still && anything => info!(%chain, "the chain makes blocks again"),
        _ => {}
    }
    memory.stands_still = standstill.is_some();
}

async fn pass(
    core: &Arc<Core>,
    track: &Track,
    view: &View,
    same_endpoint: bool,
    memory: &mut Memory,
) -> Result<(), ChainError> {
    memory.withheld = None;
    let window = track.window().clone();
    if window.tip().map(|tip| tip.hash) != Some(view.head().hash) {
        let path = path::find(view, &window, same_endpoint, &mut memory.behind);
        let path = in_time(track, view, path).await?;
        let path = path.map_err(|fault| match fault {
            Fault::Unread(error) => error,
            Fault::Impossible(words) => {
                evidence::name(track, view.place(), &words);
                ChainError::Unreachable { chain: track.pool.chain(), said: vec![words] }
            }
        })?;
        let behind = matches!(path, path::Path::Wait);
        track.set_behind(behind.then_some((view.head().height, memory.behind)));
        if let Some(steps) = path.into_steps()
            && gate::admits(track, view, &window, &steps, memory).await
        {
            advance(core, track, view, &window, steps, memory).await?;
        }
    } else {
        memory.behind = 0;
        track.set_behind(None);
        look_at_heads(track, view, &window, memory).await;
    }
    if gate::compare(core, track, view, memory).await? == Compared::Forgotten {
        tell_withheld(track, memory.withheld.take());
        return Ok(());
    }
    memory.strange = outside::look_at(core, track, view, std::mem::take(&mut memory.strange)).await;
    verify::left(core, track, view).await;
    verify::adopted(core, track, view).await?;
    finality::conclude(core, track, view, memory).await?;
    tell_withheld(track, memory.withheld.take());
    Ok(())
}

/// All headers below this one, if they are few. So the first block of a young chain is known, and by it
/// another chain in its place; of an older one more is known than reorganisations are followed through.
/// Nothing if they cannot be had, or do not link to it.
async fn from_the_first(view: &View, newest: &Header, most: usize) -> Vec<Header> {
    if newest.height >= most as u64 {
        return Vec::new();
    }
    let heights: Vec<u64> = (0..newest.height).collect();
    let headers = view.headers(&heights).await.unwrap_or_default();
    let headers: Vec<Header> = headers.into_iter().flatten().collect();
    let children = headers.iter().skip(1).chain([newest]);
    let links = headers.iter().zip(children).all(|(parent, child)| child.parent == parent.hash);
    if links && headers.len() == heights.len() { headers } else { Vec::new() }
}

/// While no block comes: how far the chain has come, after a start, and what it calls safe and
/// finalized, which may rise by itself.
async fn look_at_heads(track: &Track, view: &View, window: &HeaderWindow, memory: &mut Memory) {
    let (known, tags) = (track.heads(), are_tags_wanted(track));
    let is_due = memory.tags_read.is_none_or(|read| read.elapsed() >= TAGS_AGAIN);
    if known.is_some() && !(tags && is_due) {
        return;
    }
    let heads = track.pool.heads(view.head().height, window, tags).await;
    memory.tags_read = tags.then(Instant::now);
    track.set_heads(heads);
}

/// Whether something waits for what the chain calls safe or finalized.
fn are_tags_wanted(track: &Track) -> bool {
    track.book().iter().any(|open| {
        let tagged = !matches!(open.finality, stile_domain::Finality::Confirmations(_));
        (tagged && !open.is_unmined()) || (open.resend && open.rival.is_some())
    })
}

/// Whether another endpoint could be followed.
fn has_others(track: &Track, place: usize) -> bool {
    let others = track.pool.endpoints().into_iter().enumerate();
    others.filter(|(other, _)| *other != place).any(|(_, status)| status.usable)
}

/// Has another endpoint followed for a while, if there is one.
fn leave(track: &Track, view: &View, words: &str) {
    if has_others(track, view.place()) {
        evidence::name(track, view.place(), words);
    }
}

/// Waits for what is read from the endpoint that is followed: not without end where another one could
/// be followed instead.
async fn in_time<T>(
    track: &Track,
    view: &View,
    reading: impl Future<Output = T>,
) -> Result<T, ChainError> {
    if !has_others(track, view.place()) {
        return Ok(reading.await);
    }
    match tokio::time::timeout(SHOWN_WITHIN, reading).await {
        Ok(read) => Ok(read),
        Err(_) => {
            let words = format!("takes more than {SHOWN_WITHIN:?} to show its newest blocks");
            leave(track, view, &words);
            Err(view.lacks(words))
        }
    }
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
    let is_alone = track.pool.quorum().configured() == 1;
    let agreed = (!is_alone).then_some(memory.agreed);
    let (replaced, set_back) = (path.replaced(window), path.set_back(window, agreed));
    let is_deep = !replaced.is_empty() && set_back.is_deep(core.settings.tx.reorg_window);
    let mut lost = Vec::new();
    if !replaced.is_empty() {
        let (chain, blocks, endpoint) = (track.pool.chain(), set_back.blocks, view.endpoint());
        match is_deep {
            true => warn!(%chain, blocks, another_chain = set_back.is_another, endpoint,
                          newest = view.head().height,
                          "the chain has lost more blocks than reorganisations are followed through, or \
                           was reset: what stood on them is not sent again before a person says so"),
            false => info!(%chain, depth = replaced.len(), ancestor = path.above, endpoint,
                           "the chain was reorganised"),
        }
        metrics::reorganised(replaced.len());
        if !is_deep {
            track.replaced(&replaced);
        }
        lost = reopen(core, track, path.above.unwrap_or(0), set_back).await?;
    }
    note_pace(track, &path);
    let mut found: HashMap<TxId, Receipt> = HashMap::new();
    let held: HashSet<Lane> = held_lanes(core, track).into_iter().collect();
    let mut strange: Vec<Strange> = Vec::new();
    let mut wanted: Vec<(Header, Vec<B256>)> = Vec::new();
    for block in &path.blocks {
        let book = track.book();
        let (ours, others): (Vec<&Sighting>, Vec<&Sighting>) =
            block.transactions.iter().partition(|tx| book.by_hash(&tx.hash).is_some());
        let header = block.header;
        let of_lane = |tx: &&Sighting| Lane::new(track.pool.chain(), tx.from);
        let is_own = |tx: &&&Sighting| {
            let lane = of_lane(tx);
            held.contains(&lane) || core.signers.signs(lane)
        };
        let own = ours.len() + others.iter().filter(is_own).count();
        track.quotes.blocks().note(block.header.height, block.transactions.len(), own);
        let others = others.into_iter().filter(|tx| held.contains(&of_lane(tx)));
        strange.extend(others.map(|tx| Strange { lane: of_lane(&tx), seen: *tx, header }));
        if !ours.is_empty() {
            wanted.push((header, ours.into_iter().map(|tx| tx.hash).collect()));
        }
    }
    let receipts = wanted.iter().map(|(header, hashes)| view.receipts_in(header, hashes));
    let receipts = futures::stream::iter(receipts.collect::<Vec<_>>()).buffered(RECEIPTS);
    let receipts: Vec<_> = in_time(track, view, receipts.collect()).await?;
    if let Some(ancestor) = path.above.filter(|_| !replaced.is_empty()) {
        let mut book = track.book();
        let ids: Vec<TxId> = book.iter().map(|open| open.id).collect();
        for open in ids {
            if let Some(open) = book.get_mut(open) {
                open.shown_in = open.shown_in.filter(|height| *height <= ancestor);
            }
        }
    }
    for ((header, wanted), receipts) in wanted.into_iter().zip(receipts) {
        let height = header.height;
        let receipts = match receipts {
            Ok(receipts) => receipts,
            Err(error) if patient => return Err(error),
            // The chain goes on, whatever is the matter with this block's receipts.
            Err(error) => {
                let height = header.height;
                warn!(%error, height, "the receipts of a block cannot be had at once: one by one");
                Vec::new()
            }
        };
        let receipts = told_by_others(track, receipts).await;
        let mut book = track.book();
        for receipt in receipts {
            found.extend(book.by_hash(&receipt.tx_hash).map(|id| (id, receipt)));
        }
        // The endpoint has the block and not all of its receipts: those are asked for by
        // themselves.
        for id in wanted.iter().filter_map(|hash| book.by_hash(hash)).collect::<Vec<_>>() {
            if let Some(open) = book.get_mut(id).filter(|_| !found.contains_key(&id)) {
                open.next_check = std::time::Instant::now();
                open.shown_in = Some(height);
            }
        }
    }
    let tags = are_tags_wanted(track);
    let mut canonical: Vec<Header> = path.blocks.iter().map(|block| block.header).collect();
    if let (None, Some(first)) = (window.tip(), canonical.first()) {
        let older = from_the_first(view, first, window_limit(core)).await;
        canonical.splice(0..0, older);
    }
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
    let fork = path.above.filter(|_| !replaced.is_empty());
    if let Some(ancestor) = fork.filter(|_| is_deep) {
        lost.extend(apply::lost(&track.book(), ancestor, &found));
    }
    // All of it at once: a person is called once.
    alarm::raise(core, track, lost).await?;
    track.pool.set_known(next.clone());
    *track.window() = next;
    if !replaced.is_empty() {
        // Not before: a pass that fails is made again, and finds the chain set back as far as this one.
        memory.compared = None;
        memory.agreed = memory.agreed.min(path.above.unwrap_or(0));
    }
    // What one endpoint alone has shown of the chain is not how far it had come.
    let shown = if is_alone { u64::MAX } else { memory.agreed.saturating_add(evidence::SETTLED) };
    track.come_to(heads.latest.min(shown), set_back, core.settings.tx.reorg_window);
    track.set_heads(heads);
    if path.leap {
        look_at_all(track);
        if let Some(tip) = window.tip().copied() {
            let known: Vec<Header> = window.from(0).copied().collect();
            track.leave(tip, verify::base(&known, tip, core.settings.tx.reorg_window));
        }
    }
    apply::blocks(core, track, fork.map(|above| Fork { above, is_deep }), &replaced, found);
    save(core, track, canonical, replaced).await;
    memory.strange.extend(strange);
    keep_newest(&mut memory.strange, STRANGE_KEPT);
    quotes::ask_beside(core, track);
    metrics::head(track.pool.chain(), heads.latest);
    Ok(())
}

/// The same receipts, with how the execution ended where the followed endpoint does not say so and
/// another one does.
async fn told_by_others(track: &Track, mut receipts: Vec<Receipt>) -> Vec<Receipt> {
    let is_untold = |receipt: &&mut Receipt| receipt.status.is_none();
    let hashes: Vec<B256> =
        receipts.iter_mut().filter(is_untold).map(|receipt| receipt.tx_hash).collect();
    if hashes.is_empty() || track.pool.endpoint_count() < 2 {
        return receipts;
    }
    match track.pool.receipts(&hashes).await {
        Ok(told) => {
            for (receipt, told) in receipts.iter_mut().filter(is_untold).zip(told) {
                if let ReceiptAnswer::Found(told) = told
                    && told.block_hash == receipt.block_hash
                {
                    *receipt = told;
                }
            }
        }
        Err(error) => debug!(%error, "nobody else says how transactions ended"),
    }
    receipts
}

/// Takes note of how the new blocks came, and whether they came for what was sent.
fn note_pace(track: &Track, path: &Steps) {
    let mut sent = None;
    let made: Vec<Made> = {
        let book = track.book();
        let mut content = |block: &Block| {
            let ours = block.transactions.iter().map(|tx| book.by_hash(&tx.hash));
            let ours: Vec<Option<TxId>> = ours.collect();
            sent = sent.max(ours.iter().flatten().filter_map(|id| book.get(*id)?.sent).max());
            match ours {
                ours if ours.is_empty() => Content::Nothing,
                ours if ours.iter().all(Option::is_some) => Content::Ours,
                _ => Content::Others,
            }
        };
        let blocks = path.blocks.iter();
        blocks.map(|block| Made { timestamp: block.timestamp, content: content(block) }).collect()
    };
    match made.last() {
        Some(newest) if path.leap => track.pace.picked_up(*newest),
        _ => track.pace.rose(&made, sent),
    }
}

/// Drops the oldest, which come first, if there are more than this many.
fn keep_newest<T>(all: &mut Vec<T>, kept: usize) {
    all.drain(..all.len().saturating_sub(kept));
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

/// Finished transactions of these lanes that were mined above a height, and up to another. A pass
/// that cannot read them fails as one that cannot read the chain does, and is made again.
async fn done_between(
    core: &Core,
    track: &Track,
    lanes: &[Lane],
    (above, up_to): (u64, u64),
) -> Result<Vec<OpenTx>, ChainError> {
    let chain = track.pool.chain();
    core.store.done_between(chain, lanes, above, up_to).await.map_err(|error| {
        metrics::store_failed("done_between");
        let why = format!("finished transactions could not be read: {error}");
        ChainError::Unreachable { chain, said: vec![why] }
    })
}

/// Above every block.
const HIGHEST: u64 = i64::MAX.unsigned_abs();

/// How long what is decided may take to be written before a fork is looked at later.
const WRITTEN_WITHIN: Duration = Duration::from_secs(2);

/// Opens finished transactions again that a fork concerns, before the new blocks are looked at. One
/// that was found final and is not written so yet is neither in the book nor among the finished
/// ones, so whatever is decided has to be written first.
///
/// What was finalized, or deeper than reorganisations are followed, is not opened again: it is returned,
/// and a person is to be called about it.
async fn reopen(
    core: &Arc<Core>,
    track: &Track,
    ancestor: u64,
    set_back: SetBack,
) -> Result<Vec<Lost>, ChainError> {
    if !core.recorder.is_written(WRITTEN_WITHIN).await {
        let said = vec!["what was decided before a fork is not written yet".to_owned()];
        return Err(ChainError::Unreachable { chain: track.pool.chain(), said });
    }
    let lanes: Vec<Lane> = held_lanes(core, track);
    let floor = ancestor.saturating_sub(u64::from(core.settings.tx.reorg_window));
    let done = done_between(core, track, &lanes, (floor, HIGHEST)).await?;
    let mut heads = track.heads().unwrap_or_default();
    // A process that has just started knows it from the record alone.
    let known = track.window().tip().map_or(0, |tip| tip.height);
    heads.latest = heads.latest.max(known);
    let come = track.fallen().0;
    let (mut reopened, mut lost) = (Vec::new(), Vec::new());
    for tx in done {
        let decided = verify::decided_in(&tx.tx);
        let is_lost = |(height, block): (u64, B256)| {
            track.window().hash_at(height) != Some(block) && track.is_lost(height, block)
        };
        let told = tx.tx.told.is_some_and(|(height, _)| height > ancestor)
            && !decided.is_some_and(is_lost);
        match decided.filter(|(height, _)| *height > ancestor) {
            Some(place @ (height, block)) => {
                match verify::fate(core, track, tx.tx.finality, place, &heads, come, set_back) {
                    TakenBack::Reopened => reopened.push(tx),
                    TakenBack::Alarm => {
                        lost.push(Lost { lane: tx.tx.lane, id: tx.tx.id, height, block });
                    }
                }
            }
            None if told => reopened.push(tx),
            None => {}
        }
    }
    let mut book = track.book();
    for tx in reopened {
        take_back(&mut book, tx);
    }
    Ok(lost)
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
    let keep_from = track.kept_from();
    let update = HeaderUpdate { chain: track.pool.chain(), canonical, replaced, keep_from };
    if let Err(error) = core.store.save_headers(&update).await {
        metrics::store_failed("save_headers");
        warn!(%error, "headers could not be written");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hole_23_of_too_many_strange_transactions_the_newest_are_kept() {
        let mut few = vec![1, 2];
        keep_newest(&mut few, 3);
        assert_eq!(few, [1, 2]);
        let mut many: Vec<usize> = (0..=STRANGE_KEPT).collect();
        keep_newest(&mut many, STRANGE_KEPT);
        assert_eq!((many.len(), many[0], many.last()), (STRANGE_KEPT, 1, Some(&STRANGE_KEPT)));
    }
}
