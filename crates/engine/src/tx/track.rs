//! What a node keeps of one chain.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use stile_chain::{ChainError, ChainPool, Chains, FeeQuotes};
use stile_domain::{
    B256, ChainId, FeeQuote, Finality, Header, HeaderWindow, Heads, Lane, SetBack, TxId, U256,
    Verdict,
};
use tokio::sync::{Notify, Semaphore};

use crate::tx::adopt::READERS;
use crate::tx::balance::Balances;
use crate::tx::bind;
use crate::tx::book::{Book, Open};
use crate::tx::estimates::Estimates;
use crate::tx::funds::Funds;
use crate::tx::limits::BlockGas;
use crate::tx::pace::BlockPace;
use crate::tx::quotes::Quotes;
use crate::tx::settings::TxSettings;
use crate::tx::submit::Queues;

/// The chains that transactions go to.
#[derive(Debug)]
pub(crate) struct Tracks {
    tracks: HashMap<ChainId, Arc<Track>>,
    /// Who may read what is in flight on lanes that have come: so many pages are in memory at most
    /// that are not in a book yet.
    pub(crate) readers: Semaphore,
}

#[derive(Debug)]
pub(crate) struct Track {
    pub(crate) pool: Arc<ChainPool>,
    pub(crate) queues: Queues,
    /// Wakes the follower.
    pub(crate) look: Notify,
    book: Mutex<Book>,
    window: Mutex<HeaderWindow>,
    heads: Mutex<Option<Heads>>,
    /// What it asks for.
    pub(crate) quotes: Quotes,
    /// The most gas of its blocks, and by which rules it is counted.
    pub(crate) block_gas: BlockGas,
    /// What accounts had when they were last looked at.
    pub(crate) balances: Balances,
    /// How its blocks come.
    pub(crate) pace: BlockPace,
    adopted: Mutex<Vec<Lane>>,
    funds: Mutex<Funds>,
    estimates: Mutex<Estimates>,
    withheld: Mutex<Option<Withheld>>,
    /// Finality that the chain does not give.
    lacking: Mutex<HashSet<Finality>>,
    left: Mutex<Vec<Left>>,
    extent: Mutex<Extent>,
    /// Why the chain is not followed, and since when.
    trouble: Mutex<Option<(Instant, String)>>,
    /// Transactions about whose lost finality a person was called, each with its block.
    pub(crate) alarmed: Mutex<HashMap<TxId, (u64, B256)>>,
}

/// Something is not concluded, because the endpoints do not agree on it.
#[derive(Debug, Clone)]
pub(crate) struct Withheld {
    pub(crate) since: Instant,
    pub(crate) verdict: Verdict,
    pub(crate) words: String,
}

/// The chain was picked up far above where it was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Left {
    /// The newest block that was known before.
    pub(crate) tip: Header,
    /// A known block as far below it as reorganisations are followed through, or the lowest.
    pub(crate) base: Header,
    /// It is on the chain no more: what was done shortly below it is looked at again, on each lane
    /// that comes to this node. `false` until that is found out.
    pub(crate) is_gone: bool,
    /// The block below it is gone as well: a person decides about what stood on it.
    pub(crate) is_deep: bool,
}

impl Left {
    /// Whether a person decides about what stood at a height.
    fn took(&self, height: u64) -> bool {
        self.is_deep && height <= self.tip.height
    }
}

/// How far the chain had come, and how far it is shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Extent {
    /// The highest block that was ever followed, as far as is on record.
    highest: u64,
    /// It was another chain, with another first block.
    is_another: bool,
    /// What stood up to here is gone with more blocks than reorganisations are followed through, and a
    /// person decides about it, however high the chain is by now. Kept until all of that is below the
    /// window.
    gone_up_to: Option<u64>,
    /// Blocks that were replaced after that. What stood in them was not lost with the rest.
    since: HashSet<B256>,
    /// When what is known last became shorter, or was read from the record.
    fell: Option<Instant>,
    /// The endpoint that is followed is behind what is known: at this block, for so many passes.
    behind: Option<(u64, u32)>,
}

/// How a block that is gone stands to what was lost with more than reorganisations are followed
/// through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Nothing of the kind was lost, or above it.
    Usual,
    /// It was lost with the rest.
    Lost,
    /// It was on the chain that came after.
    Since,
}

/// How many blocks are remembered that were replaced after such a loss.
const SINCE_KEPT: usize = 10_000;

/// After so many passes an endpoint that is behind shows how far the chain has come. Nothing follows
/// from that by itself.
const BEHIND: u32 = 40;

/// For how long the chain has to be as short as it is before what is above it counts as gone.
const SHORT_FOR: Duration = Duration::from_secs(10);

impl Extent {
    /// How the chain is set back, where this is its newest block.
    fn set_back(&self, tip: u64) -> SetBack {
        match self.highest.saturating_sub(tip) {
            0 => SetBack::default(),
            blocks => SetBack { blocks, is_another: self.is_another },
        }
    }

    /// The newest block is this one now.
    fn come_to(&mut self, tip: u64, set_back: SetBack, window: u32, now: Instant) {
        if set_back.is_deep(window) {
            self.gone_up_to = self.gone_up_to.max(Some(self.highest));
            self.since.clear();
        }
        let is_below = |gone: &u64| gone.saturating_add(u64::from(window)) < tip;
        self.gone_up_to = self.gone_up_to.filter(|gone| !is_below(gone));
        if self.gone_up_to.is_none() {
            self.since.clear();
        }
        if set_back.blocks > 0 || set_back.is_another {
            self.fell = Some(now);
            self.is_another |= set_back.is_another;
        }
        if tip >= self.highest {
            (self.highest, self.is_another) = (tip, false);
        }
    }

    /// These blocks were replaced, by no more than reorganisations are followed through.
    fn replaced(&mut self, blocks: &[Header]) {
        if self.gone_up_to.is_some() && self.since.len() < SINCE_KEPT {
            self.since.extend(blocks.iter().map(|header| header.hash));
        }
    }

    fn place_of(&self, height: u64, block: B256) -> Place {
        match self.gone_up_to {
            Some(gone) if height <= gone => match self.since.contains(&block) {
                true => Place::Since,
                false => Place::Lost,
            },
            _ => Place::Usual,
        }
    }
}

/// For how many blocks it is remembered where the chain was left.
const LEFT_REMEMBERED: u64 = 100_000;

/// How many such places are remembered. Each is one row of the store, and one question at the start.
const LEFT_KEPT: usize = 8;

impl Tracks {
    pub(crate) fn new(chains: &Chains, window: usize, settings: &TxSettings) -> Self {
        let tracks = chains.iter().map(|pool| {
            let track = Track {
                pool: Arc::clone(pool),
                queues: Queues::new(pool.endpoint_count()),
                look: Notify::new(),
                book: Mutex::default(),
                window: Mutex::new(HeaderWindow::new(window, [])),
                heads: Mutex::default(),
                quotes: Quotes::new(settings.fee_limit(pool.chain()).is_some()),
                block_gas: BlockGas::new(settings.check_within),
                balances: Balances::default(),
                pace: BlockPace::default(),
                adopted: Mutex::default(),
                funds: Mutex::default(),
                estimates: Mutex::default(),
                withheld: Mutex::default(),
                lacking: Mutex::default(),
                left: Mutex::default(),
                extent: Mutex::default(),
                trouble: Mutex::default(),
                alarmed: Mutex::default(),
            };
            (pool.chain(), Arc::new(track))
        });
        Self { tracks: tracks.collect(), readers: Semaphore::new(READERS) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tracks.is_empty()
    }

    pub(crate) fn get(&self, chain: ChainId) -> Option<&Arc<Track>> {
        self.tracks.get(&chain)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Track>> {
        self.tracks.values()
    }
}

impl Track {
    pub(crate) fn book(&self) -> MutexGuard<'_, Book> {
        lock(&self.book)
    }

    pub(crate) fn window(&self) -> MutexGuard<'_, HeaderWindow> {
        lock(&self.window)
    }

    /// The height below which no reorganisation reopens anything: that of the oldest header kept,
    /// once as many are kept as are ever looked back. 0 until then.
    pub(crate) fn settled_below(&self) -> u64 {
        let window = self.window();
        window.bottom().filter(|_| window.is_full()).unwrap_or(0)
    }

    /// How far the chain has come; `None` until it has been seen.
    pub(crate) fn heads(&self) -> Option<Heads> {
        *lock(&self.heads)
    }

    pub(crate) fn set_heads(&self, heads: Heads) {
        let mut known = lock(&self.heads);
        *known = Some(heads.after(*known));
    }

    /// What was known above a height is forgotten. What was called finalized stays so.
    pub(crate) fn lower_heads(&self, height: u64) {
        if let Some(heads) = &mut *lock(&self.heads) {
            heads.latest = heads.latest.min(height);
            heads.safe = heads.safe.map(|safe| safe.min(height));
        }
    }

    /// Whether the chain is known to have no block of the name that a finality goes by.
    pub(crate) fn lacks(&self, finality: Finality) -> bool {
        lock(&self.lacking).contains(&finality)
    }

    /// Takes note whether it has. Answers whether it is news that it has not.
    pub(crate) fn note_lacking(&self, finality: Finality, is_lacking: bool) -> bool {
        let mut lacking = lock(&self.lacking);
        match is_lacking {
            true => lacking.insert(finality),
            false => {
                lacking.remove(&finality);
                false
            }
        }
    }

    /// What is not concluded for want of agreement.
    pub(crate) fn withheld(&self) -> Option<Withheld> {
        lock(&self.withheld).clone()
    }

    /// Takes note of what is not concluded, or that nothing is withheld. Answers whether that is
    /// news.
    pub(crate) fn withhold(&self, found: Option<(Verdict, String)>) -> bool {
        let mut known = lock(&self.withheld);
        let before = known.as_ref().map(|withheld| (withheld.since, withheld.verdict));
        *known = found.map(|(verdict, words)| {
            let same = before.filter(|(_, known)| *known == verdict);
            let since = same.map_or_else(Instant::now, |(since, _)| since);
            Withheld { since, verdict, words }
        });
        before.map(|(_, verdict)| verdict) != known.as_ref().map(|withheld| withheld.verdict)
    }

    /// The chain had come as far as this before, by the record. `is_another`: it was another chain.
    /// `gone_up_to`: more was lost with what stood up to there than reorganisations are followed through.
    pub(crate) fn had_come_to(&self, highest: u64, is_another: bool, gone_up_to: Option<u64>) {
        let mut extent = lock(&self.extent);
        extent.gone_up_to = extent.gone_up_to.max(gone_up_to);
        extent.highest = extent.highest.max(highest);
        extent.is_another |= is_another;
        extent.fell = Some(Instant::now());
    }

    /// Takes note of why the chain could not be followed just now, or that it was.
    pub(crate) fn set_trouble(&self, why: Option<String>) {
        let mut trouble = lock(&self.trouble);
        let since = trouble.as_ref().map_or_else(Instant::now, |(since, _)| *since);
        *trouble = why.map(|why| (since, why));
    }

    /// Why the chain is not followed, if that has been so for a while.
    pub(crate) fn unfollowed(&self) -> Option<String> {
        let trouble = lock(&self.trouble);
        let long = trouble.as_ref().filter(|(since, _)| since.elapsed() >= SHORT_FOR);
        long.map(|(_, why)| why.clone())
    }

    /// The newest known block is this one now, and the chain was set back by so much.
    pub(crate) fn come_to(&self, tip: u64, set_back: SetBack, window: u32) {
        lock(&self.extent).come_to(tip, set_back, window, Instant::now());
    }

    /// Takes note of blocks that were replaced, by no more than reorganisations are followed through.
    pub(crate) fn replaced(&self, blocks: &[Header]) {
        lock(&self.extent).replaced(blocks);
    }

    /// How a block that is not on the chain any more stands to what a person decides about.
    pub(crate) fn place_of(&self, height: u64, block: B256) -> Place {
        let is_left = lock(&self.left).iter().any(|left| left.took(height));
        match lock(&self.extent).place_of(height, block) {
            Place::Usual if is_left => Place::Lost,
            place => place,
        }
    }

    /// Whether a person decides about what stood in a block, if that is not on the chain any more.
    pub(crate) fn is_lost(&self, height: u64, block: B256) -> bool {
        self.place_of(height, block) == Place::Lost
    }

    /// The endpoint that is followed has been behind what is known for so many passes, or is not.
    pub(crate) fn set_behind(&self, behind: Option<(u64, u32)>) {
        lock(&self.extent).behind = behind;
    }

    /// The highest block that was ever followed, and how the chain is set back from there.
    pub(crate) fn fallen(&self) -> (u64, SetBack) {
        let tip = self.window().tip().map(|tip| tip.height);
        let extent = lock(&self.extent);
        (extent.highest, tip.map_or(SetBack::default(), |tip| extent.set_back(tip)))
    }

    /// The newest known block, if the chain has been as short as that for long enough: what is above it
    /// is on no chain, unless somebody else knows of it.
    pub(crate) fn ends_at(&self) -> Option<u64> {
        let fell = lock(&self.extent).fell;
        let is_long = fell.is_none_or(|fell| fell.elapsed() >= SHORT_FOR);
        self.window().tip().filter(|_| is_long).map(|tip| tip.height)
    }

    /// How far the chain has come, as far as is shown. `None` until it has been seen.
    pub(crate) fn shown(&self) -> Option<u64> {
        let behind = lock(&self.extent).behind.filter(|(_, passes)| *passes >= BEHIND);
        behind.map(|(head, _)| head).or(self.heads().map(|heads| heads.latest))
    }

    /// Whether the chain does not have the block that an open transaction is on record to be in.
    pub(crate) fn is_gone(&self, id: TxId) -> bool {
        let shown = self.shown();
        let book = self.book();
        let Some(open) = book.get(id) else { return false };
        let above = |(height, _)| shown.is_some_and(|shown| height > shown);
        open.lost || open.block().is_some_and(above)
    }

    /// Open transactions of a lane in blocks that the chain does not have, with those blocks' heights.
    pub(crate) fn gone_of(&self, lane: Lane) -> Vec<(TxId, u64)> {
        let shown = self.shown();
        let book = self.book();
        let in_blocks = book.of_lane(lane).filter_map(|open| Some((open, open.block()?.0)));
        let is_gone =
            |(open, height): &(&Open, u64)| open.lost || shown.is_some_and(|shown| *height > shown);
        in_blocks.filter(is_gone).map(|(open, height)| (open.id, height)).collect()
    }

    /// Where the chain was left, and picked up again far above.
    pub(crate) fn left(&self) -> Vec<Left> {
        lock(&self.left).clone()
    }

    /// The chain was left at this block.
    pub(crate) fn leave(&self, tip: Header, base: Header) {
        let mut left = lock(&self.left);
        left.retain(|known| known.tip != tip);
        left.push(Left { tip, base, is_gone: false, is_deep: false });
        let surplus = left.len().saturating_sub(LEFT_KEPT);
        left.drain(..surplus);
    }

    /// It is known whether the block is gone at which the chain was left. One that is still there
    /// need not be remembered.
    pub(crate) fn found_left(&self, tip: Header, is_gone: bool, is_deep: bool) {
        let mut left = lock(&self.left);
        left.retain(|known| is_gone || known.tip != tip);
        for known in left.iter_mut().filter(|known| known.tip == tip) {
            (known.is_gone, known.is_deep) = (true, is_deep);
        }
    }

    /// The lowest height from which headers are kept on record: those of the window, and the blocks at
    /// which the chain was left, so that another process finds out about them too.
    pub(crate) fn kept_from(&self) -> u64 {
        let newest = self.window().tip().map_or(0, |tip| tip.height);
        let mut left = lock(&self.left);
        left.retain(|known| known.tip.height.saturating_add(LEFT_REMEMBERED) > newest);
        let lowest = left.iter().map(|known| known.base.height).min();
        drop(left);
        let bottom = self.window().bottom().unwrap_or(0);
        lowest.map_or(bottom, |lowest| lowest.min(bottom))
    }

    /// What the chain asks for, if it was asked after `since`.
    pub(crate) fn quote(&self, since: Instant) -> Option<FeeQuote> {
        self.quotes(since).map(|quotes| quotes.offered)
    }

    /// The same, by the lower and by the higher word.
    pub(crate) fn quotes(&self, since: Instant) -> Option<FeeQuotes> {
        self.quotes.since(since)
    }

    /// Asks what the chain asks for.
    pub(crate) async fn ask_quotes(&self) -> Result<FeeQuotes, ChainError> {
        self.quotes.ask(&self.pool).await
    }

    /// Why nobody says what the chain asks for, if that was asked and nobody has said so for a while. A
    /// chain that does not answer at all is something else.
    pub(crate) fn unquoted(&self) -> Option<String> {
        let is_quoted = self.quote(bind::fresh_quote()).is_some();
        self.quotes.trouble().filter(|_| !is_quoted && self.pool.why_away().is_none())
    }

    /// What is remembered of estimates.
    pub(crate) fn estimates(&self) -> MutexGuard<'_, Estimates> {
        lock(&self.estimates)
    }

    /// Lanes that are stopped because their accounts cannot pay.
    pub(crate) fn funds(&self) -> MutexGuard<'_, Funds> {
        lock(&self.funds)
    }

    /// The same, by name.
    pub(crate) fn unfunded(&self) -> HashSet<Lane> {
        self.funds().lanes()
    }

    /// Whether a lane is stopped because its account cannot pay.
    pub(crate) fn is_unfunded(&self, lane: Lane) -> bool {
        self.funds().is_stopped(lane)
    }

    /// A lane's account cannot pay this much: nothing of it is sent until it can.
    pub(crate) fn stop_for_funds(&self, lane: Lane, needed: U256, is_lowest: bool) {
        self.funds().stop(lane, needed, is_lowest);
    }

    /// Lanes whose finished transactions are to be compared with the chain.
    pub(crate) fn adopted(&self) -> MutexGuard<'_, Vec<Lane>> {
        lock(&self.adopted)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hole_39_how_far_a_chain_had_come_is_known_until_it_is_there_again() {
        let (mut extent, now) = (Extent::default(), Instant::now());
        extent.come_to(400, SetBack::default(), 128, now);
        assert_eq!(extent.set_back(400), SetBack::default());
        assert_eq!(extent.fell, None);
        let emptied = SetBack { blocks: 400, is_another: true };
        extent.come_to(0, emptied, 128, now);
        assert_eq!(extent.set_back(0), emptied);
        extent.come_to(5, SetBack::default(), 128, now);
        assert_eq!(extent.set_back(5), SetBack { blocks: 395, is_another: true });
        assert_eq!(extent.fell, Some(now));
        extent.come_to(401, SetBack::default(), 128, now);
        assert_eq!(extent.set_back(401), SetBack::default());
        assert_eq!(extent.gone_up_to, Some(400), "all of it is within the window still");
        extent.come_to(399, SetBack { blocks: 2, is_another: false }, 128, now);
        assert_eq!(extent.set_back(399), SetBack { blocks: 2, is_another: false });
        extent.come_to(528, SetBack::default(), 128, now);
        assert_eq!(extent.gone_up_to, Some(400));
        extent.come_to(529, SetBack::default(), 128, now);
        assert_eq!(extent.gone_up_to, None);
    }

    #[test]
    fn hole_39_about_what_stood_where_a_chain_was_left_a_person_decides() {
        let header = |height| Header { height, hash: B256::ZERO, parent: B256::ZERO };
        for (is_deep, height, expected) in
            [(true, 180, true), (true, 181, false), (false, 180, false)]
        {
            let left = Left { tip: header(180), base: header(159), is_gone: true, is_deep };
            assert_eq!(left.took(height), expected, "{is_deep} {height}");
        }
    }

    #[test]
    fn hole_39_what_is_replaced_after_a_deep_loss_was_not_lost_with_the_rest() {
        let (mut extent, now) = (Extent::default(), Instant::now());
        let block = |fork: u8, height: u64| B256::repeat_byte(fork * 16 + height as u8);
        let header =
            |height| Header { height, hash: block(2, height), parent: block(2, height - 1) };
        extent.come_to(8, SetBack::default(), 3, now);
        extent.replaced(&[header(8)]);
        assert_eq!(extent.place_of(8, block(2, 8)), Place::Usual, "nothing was lost");
        extent.come_to(2, SetBack { blocks: 8, is_another: true }, 3, now);
        extent.replaced(&[header(2)]);
        for (fork, height, expected) in
            [(1, 8, Place::Lost), (1, 9, Place::Usual), (2, 2, Place::Since), (2, 3, Place::Lost)]
        {
            assert_eq!(extent.place_of(height, block(fork, height)), expected, "{fork} {height}");
        }
        // It is lost again.
        extent.come_to(0, SetBack { blocks: 2, is_another: true }, 3, now);
        assert_eq!(extent.place_of(2, block(2, 2)), Place::Lost);
        extent.replaced(&[header(1)]);
        // All of it is below the window.
        extent.come_to(12, SetBack::default(), 3, now);
        assert_eq!(extent.place_of(2, block(1, 2)), Place::Usual);
        assert!(extent.since.is_empty());
    }
}
