//! One endpoint of a chain and what is known of it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use alloy::primitives::{U64, hex, keccak256};
use serde_json::json;
use stile_domain::{ChainId, GasRules, Header};

use crate::blocks::{Block, With, latest_call, read_block, tag_call};
use crate::calls::Method;
use crate::capability::{Capability, CapabilityRow, Learned};
use crate::estimate_block::EstimateBlock;
use crate::hints::Announcer;
use crate::judge::{Judgement, TOLERATED_LAG};
use crate::places::Places;
use crate::probe::{Asked, EndpointCapabilities};
use crate::rpc::{Answer, Call, CallError, Rpc, read_some};
use crate::tags::{Tag, TagWord, tag_word};
use crate::taking::{Change, Exchange, Taking, Turn};
use crate::target::{EndpointError, Target};
use crate::unreadable::Unreadable;

/// For operators: how an endpoint is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointStatus {
    /// Host and port, with a number where several endpoints have both in common.
    pub shown: String,
    /// Whether it is asked at all.
    pub usable: bool,
    /// The height of its newest block, when it last said so.
    pub head: Option<u64>,
    /// What is wrong with it.
    pub why: Option<String>,
    /// Why it takes no transactions, in its own words, if it is known to take none.
    pub read_only: Option<String>,
    /// Whether it answers, and so has a vote.
    pub answers: bool,
    /// What it said lately that the other endpoints contradict.
    pub contradiction: Option<String>,
    /// How often it has said something that the other endpoints contradict.
    pub contradictions: u64,
    /// How long it is left alone, by its own word.
    pub rests: Option<Duration>,
    /// What it answered that cannot be read, the newest first.
    pub unreadable: Vec<Unreadable>,
    /// How often it has answered so since the start, by method.
    pub unreadable_totals: Vec<(&'static str, u64)>,
}

/// How long a contradiction, or what cannot be read, is remembered for whoever asks.
pub(crate) const REMEMBERED: Duration = Duration::from_secs(600);

/// How long an endpoint is not used that was outvoted, or whose head goes back and forth.
const SET_ASIDE: Duration = Duration::from_secs(60);

/// How long the head of an endpoint may stay the same before it is said to stand still.
const STANDS_STILL: Duration = Duration::from_secs(60);

/// How often a head may go back within [`SET_ASIDE`]: nodes behind a load balancer are not level.
const TOLERATED_RETREATS: u32 = 2;

/// How far back, in the time that the chain took to come that far. A few blocks are always tolerated.
const TOLERATED_RETREAT: Duration = Duration::from_secs(3);

/// Whether two reasons are different ones. Heights grow, and the same is said of each.
fn differ(one: &str, other: &str) -> bool {
    let words = |text: &str| text.split(|c: char| c.is_ascii_digit()).collect::<String>();
    words(one) != words(other)
}

/// How many blocks a head may go back, where the endpoint's has risen by so many in this time.
fn tolerated_retreat(risen: u64, time: Duration) -> u64 {
    let within = u128::from(risen) * TOLERATED_RETREAT.as_millis();
    let blocks = within / time.max(TOLERATED_RETREAT).as_millis();
    TOLERATED_LAG.max(u64::try_from(blocks).unwrap_or(u64::MAX))
}

/// Why an endpoint is not used while another one is that is doubted less. The worst is the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Doubt {
    /// Its head goes back and forth.
    Flaps,
    /// The others outvoted what it said.
    Outvoted,
}

/// What a look showed of an endpoint that answers.
#[derive(Debug, Clone)]
pub(crate) struct Sight {
    /// Why it cannot be used, whatever the others are like.
    pub(crate) trouble: Option<String>,
    pub(crate) doubt: Option<Doubt>,
}
/// How often in a row a block's receipts may fail before they are asked for one by one.
const RECEIPTS_GIVEN_UP: u32 = 3;

/// How long nobody waits for an endpoint that was left behind, where the others are enough.
const LATE_FOR: Duration = Duration::from_secs(30);

/// The places at an endpoint, for whoever shares them out.
#[derive(Debug, Clone)]
pub struct EndpointPlaces {
    /// A name for its URL, the same in every process and without its secrets: eight bytes of its hash.
    pub digest: String,
    /// Host and port.
    pub shown: String,
    /// How many calls may be under way at one time.
    pub places: Places,
}

/// How much of its newest block an endpoint is asked for in a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Its height, which it could make up.
    Height,
    /// Its header, so that it shows what it claims.
    Header,
}

/// What one look at an endpoint found: its head, with the header where that was asked for.
#[derive(Debug, Clone)]
pub(crate) struct Look {
    pub(crate) head: u64,
    pub(crate) header: Option<Header>,
}

#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) rpc: Rpc,
    chain: ChainId,
    /// A name for its URL.
    digest: String,
    standing: Mutex<Standing>,
    /// Whether it takes transactions.
    taking: Mutex<Taking>,
    /// How often in a row a block's receipts were not to be had.
    block_receipts_failed: AtomicU32,
    /// The most gas of a block, as it last said; 0 if it never did.
    block_gas: AtomicU64,
    /// Which rules its blocks and its estimates show that its chain has.
    rules: Mutex<GasRules>,
    /// What it can do.
    learned: Mutex<Learned>,
    /// When it was asked for that.
    asked: Mutex<Asked>,
}

/// Nothing is known at first, and then it is not usable: an endpoint is verified before use.
#[derive(Debug, Clone, Default)]
struct Standing {
    usable: bool,
    head: Option<u64>,
    /// When its head last rose.
    rose: Option<Instant>,
    why: Option<String>,
    /// Looks in a row in which it was far behind the others.
    behind: u32,
    /// It answered the last time it was asked.
    answers: bool,
    /// When it was first seen, and its head then.
    began: Option<(Instant, u64)>,
    /// Until when it is doubted, and why.
    doubted: Option<(Instant, Doubt, String)>,
    /// How often its head went back, and since when that is counted.
    retreats: Option<(Instant, u32)>,
    /// What it said that the others contradict, and when.
    contradiction: Option<(Instant, String)>,
    contradictions: u64,
    /// When the others were enough and it had not answered yet.
    late: Option<Instant>,
}

impl Standing {
    /// It said something that the others contradict.
    fn note_contradiction(&mut self, words: &str) {
        self.contradiction = Some((Instant::now(), words.to_owned()));
        self.contradictions += 1;
    }

    /// Counts how often the head goes back. One that keeps doing so is doubted for a while.
    fn note_head(&mut self, head: u64, now: Instant) {
        let (since, first) = *self.began.get_or_insert((now, head));
        let goes_back = |before: &u64| {
            let risen = before.saturating_sub(first);
            head.saturating_add(tolerated_retreat(risen, now.duration_since(since))) < *before
        };
        if let Some(before) = self.head.filter(goes_back) {
            let counted = self.retreats.filter(|(since, _)| now.duration_since(*since) < SET_ASIDE);
            let (since, count) = counted.unwrap_or((now, 0));
            self.retreats = Some((since, count + 1));
            if count + 1 > TOLERATED_RETREATS {
                let words = format!("its head goes back and forth: {head} after {before}");
                self.note_contradiction(&words);
                if self.doubt(now) != Some(Doubt::Outvoted) {
                    self.doubted = Some((now + SET_ASIDE, Doubt::Flaps, words));
                }
            }
        }
        if self.head.is_none_or(|before| head > before) {
            self.rose = Some(now);
        }
        self.head = Some(head);
    }

    /// Why it is doubted.
    fn doubt(&self, now: Instant) -> Option<Doubt> {
        let (until, doubt, _) = self.doubted.as_ref()?;
        (*until > now).then_some(*doubt)
    }

    /// Whether its head has risen lately.
    fn rises(&self) -> bool {
        self.rose.is_some_and(|rose| rose.elapsed() < STANDS_STILL)
    }
}

impl Endpoint {
    pub(crate) fn new(
        chain: ChainId,
        target: Target,
        url: &str,
        timeout: Duration,
        heads: Announcer,
    ) -> Result<Self, EndpointError> {
        let rpc = Rpc::new(target, timeout, Some(heads))?;
        let (standing, taking) = (Mutex::default(), Mutex::default());
        let digest = hex::encode(&keccak256(url.trim())[..8]);
        Ok(Self {
            rpc,
            chain,
            digest,
            standing,
            taking,
            block_receipts_failed: AtomicU32::new(0),
            block_gas: AtomicU64::new(0),
            rules: Mutex::default(),
            learned: Mutex::default(),
            asked: Mutex::default(),
        })
    }

    pub(crate) fn shown(&self) -> &str {
        self.rpc.shown()
    }

    /// Whether it can do something, as far as that is known.
    pub(crate) fn knows(&self, capability: Capability) -> Option<bool> {
        self.learned().knows(capability, Instant::now())
    }

    /// It showed that it can do something, or that it cannot.
    pub(crate) fn learn(&self, capability: Capability, can: bool) {
        self.learned().note(capability, can, Instant::now());
    }

    /// It failed to show that it can do something, and may be able to.
    pub(crate) fn note_failed(&self, capability: Capability) {
        self.learned().note_failed(capability, Instant::now());
    }

    /// It offers something or not, by an answer that does not show how well.
    pub(crate) fn learn_offered(&self, capability: Capability, offers: bool) {
        self.learned().note_offered(capability, offers, Instant::now());
    }

    /// Whether asking for a tag may tell something new.
    pub(crate) fn is_to_be_asked(&self, tag: Tag) -> bool {
        self.learned().is_to_be_asked(tag, Instant::now())
    }

    /// Whether it is known not to know the name of a tag.
    pub(crate) fn is_unknown(&self, tag: Tag) -> bool {
        self.learned().is_unknown(tag, Instant::now())
    }

    /// What it said when it was asked for the block of this name.
    pub(crate) fn note_tag(&self, tag: Tag, word: TagWord) {
        let height = self.head();
        self.learned().note_tag(tag, word, height, Instant::now());
    }

    fn learned(&self) -> MutexGuard<'_, Learned> {
        self.learned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The best block that it is known to estimate on top of.
    pub(crate) fn estimate_block(&self) -> EstimateBlock {
        EstimateBlock::best(
            self.knows(Capability::EstimateOnPending),
            self.knows(Capability::EstimateOnBlock),
        )
    }

    /// It has estimated on top of this one, after it refused those from the first that was tried.
    pub(crate) fn note_estimate_block(&self, first: EstimateBlock, taken: EstimateBlock) {
        taken.shows(first).into_iter().for_each(|(capability, can)| self.learn(capability, can));
    }

    /// Another node is behind the address: what was known is not known of that one.
    pub(crate) fn forget_capabilities(&self) {
        self.learned().forget();
        self.block_receipts_failed.store(0, Ordering::Relaxed);
        // Another node may be there, of a chain that was made anew with fewer rules.
        *self.rules.lock().unwrap_or_else(PoisonError::into_inner) = GasRules::default();
    }

    /// A block's receipts were had, or not: by an error that does not say that they never are, or with some
    /// left out that the endpoint has. What fails again and again is as good as not offered.
    pub(crate) fn note_block_receipts(&self, had: bool) {
        let failed = match had {
            true => 0,
            false => self.block_receipts_failed.load(Ordering::Relaxed) + 1,
        };
        self.block_receipts_failed.store(failed % RECEIPTS_GIVEN_UP, Ordering::Relaxed);
        if had {
            self.learn(Capability::BlockReceipts, true);
        } else if failed >= RECEIPTS_GIVEN_UP {
            self.learn(Capability::BlockReceipts, false);
        }
    }

    /// When it was asked what it can do.
    pub(crate) fn asked(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it can do.
    pub(crate) fn capabilities(&self) -> EndpointCapabilities {
        let rows = Capability::ALL.map(|capability| self.row(capability));
        EndpointCapabilities {
            shown: self.shown().to_owned(),
            client_version: self.asked().client_version.clone(),
            rows: rows.into(),
        }
    }

    /// What is not possible with it because of what it cannot do.
    pub(crate) fn impossible(&self) -> Vec<&'static str> {
        Capability::ALL.into_iter().filter_map(|it| self.row(it).impossible).collect()
    }

    fn row(&self, capability: Capability) -> CapabilityRow {
        let batches = self.rpc.batches();
        let known = self.knows(capability);
        let known = match capability {
            Capability::Batches => batches.taken,
            Capability::WebSocket => Some(self.rpc.is_web_socket()),
            Capability::Subscriptions => self.rpc.announces(),
            // The oldest kind, which every chain takes that does not refuse it.
            Capability::LegacyTransactions => known.or(Some(true)),
            // Base fees came with the one kind, and after the other one.
            Capability::FeeMarketTransactions => known.or(self.knows(Capability::BaseFee)),
            Capability::AccessListTransactions => {
                known.or(self.knows(Capability::BaseFee).filter(|has| *has))
            }
            _ => known,
        };
        let mut row = CapabilityRow::new(capability, known);
        if capability == Capability::Batches && batches.answered > 1 {
            let refused = batches.too_many.map(|calls| format!(", {calls} are too many"));
            row.detail =
                Some(format!("{} calls answered{}", batches.answered, refused.unwrap_or_default()));
        }
        row
    }

    /// Asks which chain this is and how far it has come, in one exchange. Both every time: somebody
    /// may have put another node behind the address since.
    pub(crate) async fn look(&self, extent: Extent) -> Result<Look, String> {
        let head = match extent {
            Extent::Height => height_call(),
            Extent::Header => latest_call(With::Hashes),
        };
        let mut answers = self.rpc.batch(&[chain_call(), head]).await;
        let (Some(head), Some(chain)) = (answers.pop(), answers.pop()) else {
            return Err("did not answer".to_owned());
        };
        self.verify(chain)?;
        if extent == Extent::Height {
            return Ok(Look { head: read_height(head)?, header: None });
        }
        let block = read_block(head).map_err(|error| error.to_string())?;
        let block = block.ok_or("has no block at all")?;
        self.note_block(&block);
        Ok(Look { head: block.header.height, header: Some(block.header) })
    }

    /// Checks that the endpoint serves the chain it is configured for.
    pub(crate) fn verify(&self, chain: Answer) -> Result<(), String> {
        let found = read_some::<U64>(chain).map_err(|error| error.to_string())?.to::<u64>();
        if found == self.chain.get() {
            return Ok(());
        }
        Err(format!("serves chain {found}, not {}", self.chain))
    }

    pub(crate) fn is_usable(&self) -> bool {
        self.standing().usable
    }

    pub(crate) fn head(&self) -> Option<u64> {
        self.standing().head
    }

    /// Its head, and whether that has risen lately.
    pub(crate) fn progress(&self) -> Option<(u64, bool)> {
        let standing = self.standing();
        Some((standing.head?, standing.rises()))
    }

    /// Whether it answered the last time it was asked.
    pub(crate) fn answers(&self) -> bool {
        self.standing().answers
    }

    /// Whether the others had to go on without it a short while ago.
    pub(crate) fn is_late(&self) -> bool {
        self.standing().late.is_some_and(|late| late.elapsed() < LATE_FOR)
    }

    /// It has answered while there was time, or the others went on without it.
    pub(crate) fn note_time(&self, is_late: bool) {
        self.standing().late = is_late.then(Instant::now);
    }

    /// Whether it is set aside, and its head has not risen lately either.
    pub(crate) fn stands_still(&self) -> bool {
        let standing = self.standing();
        !standing.usable && !standing.rises()
    }

    /// It answered, and properly. How its head stands to the others' is for the pool to say, and
    /// whether it is used, once all were seen.
    pub(crate) fn seen_well(&self, head: u64, judged: Judgement, tolerated: u32) -> Sight {
        let (mut standing, now) = (self.standing(), Instant::now());
        standing.answers = true;
        standing.note_head(head, now);
        let is_behind = judged == Judgement::Behind;
        standing.behind = if is_behind { standing.behind.saturating_add(1) } else { 0 };
        // An endpoint that was set aside comes back only when it has caught up.
        let lags = is_behind && (standing.behind > tolerated || !standing.usable);
        let trouble = match judged {
            Judgement::Leaps => {
                let words = format!("claims block {head}, which no other endpoint has");
                standing.note_contradiction(&words);
                Some(words)
            }
            _ if lags => Some("lags behind the other endpoints".to_owned()),
            _ => None,
        };
        Sight { trouble, doubt: standing.doubt(now) }
    }

    /// Whether it is used, by what was seen of it. `least`: the least that one is doubted that can be.
    pub(crate) fn settle(&self, sight: Sight, least: Option<Doubt>) {
        let mut standing = self.standing();
        let was = (standing.usable, standing.why.take());
        let words = standing.doubted.as_ref().map(|(.., words)| words.clone());
        standing.why = sight.trouble.or(words.filter(|_| sight.doubt > least));
        standing.usable = standing.why.is_none();
        self.report(was, &standing);
    }

    /// It failed: set aside until a look finds it well.
    pub(crate) fn set_aside(&self, why: String) {
        let mut standing = self.standing();
        standing.answers = false;
        self.hold_back_now(&mut standing, why);
    }

    /// It answers, and is not used until a look finds it well.
    pub(crate) fn hold_back(&self, why: String) {
        self.hold_back_now(&mut self.standing(), why);
    }

    fn hold_back_now(&self, standing: &mut Standing, why: String) {
        let was = (standing.usable, standing.why.take());
        standing.usable = false;
        standing.behind = 0;
        standing.why = Some(why);
        self.report(was, standing);
    }

    /// It said something that the others contradict.
    pub(crate) fn contradicted(&self, words: &str, set_aside: bool) {
        let mut standing = self.standing();
        standing.note_contradiction(words);
        if set_aside {
            let until = Instant::now() + SET_ASIDE;
            standing.doubted = Some((until, Doubt::Outvoted, words.to_owned()));
        }
    }

    /// The blocks that it calls safe and finalized; `None` where it does not say.
    pub(crate) async fn tagged(&self) -> [Option<Header>; 2] {
        let tags = [Tag::Safe, Tag::Finalized];
        let calls = tags.map(|tag| tag_call(tag.name(), With::Hashes));
        let answers = self.rpc.batch(&calls).await.into_iter().zip(tags);
        let mut answers = answers.map(|(answer, tag)| {
            self.note_tag(tag, tag_word(answer.clone(), tag));
            Some(read_block(answer).ok().flatten()?.header)
        });
        [answers.next().flatten(), answers.next().flatten()]
    }

    /// Sets aside whoever does not answer, or wants to be left alone. Any other error that was
    /// answered is an answer.
    pub(crate) fn note(&self, error: &CallError) {
        if matches!(error, CallError::Timeout(_) | CallError::Unreachable) || self.rests().is_some()
        {
            let why = self.rpc.rest.refuses().unwrap_or_else(|| error.clone());
            self.set_aside(why.to_string());
        }
    }

    /// How long it is left alone, by its own word; `None` if it may be asked.
    pub(crate) fn rests(&self) -> Option<Duration> {
        self.rpc.rest.left()
    }

    /// Says what changed, once.
    fn report(&self, (was_usable, why): (bool, Option<String>), now: &Standing) {
        let (chain, endpoint) = (self.chain.get(), self.shown());
        match (&now.why, now.usable) {
            (Some(why_now), false)
                if was_usable || why.as_deref().is_none_or(|why| differ(why, why_now)) =>
            {
                tracing::warn!(chain, endpoint, why = why_now, "endpoint set aside");
            }
            (None, true) if !was_usable => {
                tracing::info!(chain, endpoint, head = now.head, "endpoint in use");
            }
            _ => {}
        }
    }

    pub(crate) fn status(&self) -> EndpointStatus {
        let Standing { usable, head, why, answers, contradiction, contradictions, .. } =
            self.standing().clone();
        let why = why.or_else(|| (!usable).then(|| "not asked yet".to_owned()));
        let recent = contradiction.filter(|(at, _)| at.elapsed() < REMEMBERED);
        let contradiction = recent.map(|(_, words)| words);
        EndpointStatus {
            shown: self.shown().to_owned(),
            usable,
            head,
            why,
            read_only: self.read_only(),
            answers,
            contradiction,
            contradictions,
            rests: self.rests(),
            unreadable: self.rpc.unreadable.list(),
            unreadable_totals: self.rpc.unreadable.totals(),
        }
    }

    /// Whether it may be asked to take transactions now. `alone`: no endpoint of the chain takes any.
    pub(crate) fn turn(&self, alone: bool) -> Turn {
        self.taking().turn(Instant::now(), alone)
    }

    /// Takes note of what came of asking it to take transactions, and says what changed, once.
    pub(crate) fn note_sending(&self, exchange: Exchange) {
        let mut taking = self.taking();
        let change = taking.note(Instant::now(), exchange);
        let (chain, endpoint) = (self.chain.get(), self.shown());
        match change {
            Some(Change::BecameReadOnly) => tracing::warn!(
                chain,
                endpoint,
                why = taking.read_only(),
                "endpoint takes no transactions: it is used for reading, and tried again now and then"
            ),
            Some(Change::TakesAgain) => {
                tracing::info!(chain, endpoint, "endpoint takes transactions after all");
            }
            None => {}
        }
    }

    /// Why it takes no transactions, if it is known to take none.
    pub(crate) fn read_only(&self) -> Option<String> {
        self.taking().read_only().map(ToOwned::to_owned)
    }

    fn taking(&self) -> MutexGuard<'_, Taking> {
        self.taking.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn places(&self) -> EndpointPlaces {
        EndpointPlaces {
            digest: self.digest.clone(),
            shown: self.shown().to_owned(),
            places: self.rpc.places.clone(),
        }
    }

    /// `host:port: what is wrong`.
    pub(crate) fn complaint(&self, why: impl std::fmt::Display) -> String {
        format!("{}: {why}", self.shown())
    }

    pub(crate) fn lacks_block_receipts(&self) -> bool {
        self.knows(Capability::BlockReceipts) == Some(false)
    }

    /// Remembers how much gas its blocks have, by which rules it is counted, and whether they have a base
    /// fee.
    pub(crate) fn note_block(&self, block: &Block) {
        self.learn(Capability::BaseFee, block.base_fee.is_some());
        // An older block has fewer rules: a chain does not go back behind a fork.
        let mut rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        *rules = rules.or(block.rules);
        // Base fees came after the new price.
        rules.has_dear_data &= block.base_fee.is_none();
        drop(rules);
        if let Some(limit) = block.gas_limit {
            self.block_gas.store(limit, Ordering::Relaxed);
        }
    }

    /// Its estimate showed whether its chain has the old price of call data.
    pub(crate) fn note_dear_data(&self, is_dear: bool) {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner).has_dear_data = is_dear;
    }

    /// The most gas of a block, if it said so.
    pub(crate) fn block_gas(&self) -> Option<u64> {
        Some(self.block_gas.load(Ordering::Relaxed)).filter(|limit| *limit > 0)
    }

    /// Which rules it has shown that its chain has; none where it has shown nothing.
    pub(crate) fn rules(&self) -> GasRules {
        *self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn standing(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks which chain this is.
pub(crate) fn chain_call() -> Call {
    Call::new(Method::ChainId, json!([]))
}

/// Asks how far it has come.
pub(crate) fn height_call() -> Call {
    Call::new(Method::BlockNumber, json!([]))
}

/// Reads a height that a chain can have.
pub(crate) fn read_height(answer: Answer) -> Result<u64, String> {
    match read_some::<U64>(answer).map_err(|error| error.to_string())?.to::<u64>() {
        head if head > i64::MAX as u64 => Err(format!("claims {head} blocks, which no chain has")),
        head => Ok(head),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_of_another_height_is_no_news() {
        assert!(!differ(
            "claims block 17, which no other has",
            "claims block 9, which no other has"
        ));
        assert!(differ("claims block 17, which no other has", "lags behind the other endpoints"));
    }

    #[test]
    fn hole_24_retreats_are_counted_in_time_and_a_few_blocks_are_always_tolerated() {
        for (risen, seconds, blocks) in [
            (0, 0, 2),
            (0, 600, 2),
            // Four blocks a second, just seen and for long.
            (8, 2, 8),
            (2400, 600, 12),
            // One in two seconds, and one in twelve.
            (300, 600, 2),
            (50, 600, 2),
        ] {
            let found = tolerated_retreat(risen, Duration::from_secs(seconds));
            assert_eq!(found, blocks, "{risen} blocks in {seconds} s");
        }
    }

    /// A load balancer whose nodes are three blocks apart, on a fast chain and on a slow one.
    #[test]
    fn hole_24_a_fast_chain_behind_a_load_balancer_is_not_doubted() {
        for (block, doubt) in [(250, None), (12_000, Some(Doubt::Flaps))] {
            let (mut standing, start) = (Standing::default(), Instant::now());
            let mut now = start;
            for height in 100..300 {
                standing.note_head(height, now);
                if height > 110 {
                    standing.note_head(height - 3, now);
                }
                now += Duration::from_millis(block);
            }
            assert_eq!(standing.doubt(now), doubt, "{block} ms");
        }
    }
}
