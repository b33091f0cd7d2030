//! One endpoint of a chain and what is known of it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use alloy::primitives::{U64, hex, keccak256};
use serde_json::json;
use stile_domain::{ChainId, Header};

use crate::blocks::{With, latest_call, read_block, tag_call};
use crate::calls::Method;
use crate::hints::Announcer;
use crate::judge::{Judgement, TOLERATED_LAG};
use crate::places::Places;
use crate::rpc::{Answer, Call, CallError, Rpc, read_some};
use crate::taking::{Change, Exchange, Taking, Turn};
use crate::target::{EndpointError, Target};

/// For operators: how an endpoint is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointStatus {
    /// Host and port.
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
}

/// How long a contradiction is remembered, for whoever asks.
const REMEMBERED: Duration = Duration::from_secs(600);

/// How long an endpoint is not used that was outvoted, or whose head goes back and forth.
const SET_ASIDE: Duration = Duration::from_secs(60);

/// How long the head of an endpoint may stay the same before it is said to stand still.
const STANDS_STILL: Duration = Duration::from_secs(60);

/// How often a head may go back within [`SET_ASIDE`]: nodes behind a load balancer are not level.
const TOLERATED_RETREATS: u32 = 2;

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
    /// It said that it does not offer `eth_getBlockReceipts`.
    pub(crate) lacks_block_receipts: AtomicBool,
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
    /// Until when it is not used, and why.
    distrusted: Option<(Instant, String)>,
    /// How often its head went back, and since when that is counted.
    retreats: Option<(Instant, u32)>,
    /// What it said that the others contradict, and when.
    contradiction: Option<(Instant, String)>,
    /// When the others were enough and it had not answered yet.
    late: Option<Instant>,
}

impl Standing {
    /// Counts how often the head goes back. One that keeps doing so is not used for a while.
    fn note_head(&mut self, head: u64) {
        if let Some(before) = self.head.filter(|before| head + TOLERATED_LAG < *before) {
            let counted = self.retreats.filter(|(since, _)| since.elapsed() < SET_ASIDE);
            let (since, count) = counted.unwrap_or((Instant::now(), 0));
            self.retreats = Some((since, count + 1));
            if count + 1 > TOLERATED_RETREATS {
                let words = format!("its head goes back and forth: {head} after {before}");
                self.distrusted = Some((Instant::now() + SET_ASIDE, words.clone()));
                self.contradiction = Some((Instant::now(), words));
            }
        }
        if self.head.is_none_or(|before| head > before) {
            self.rose = Some(Instant::now());
        }
        self.head = Some(head);
    }

    /// Why it is not used for a while.
    fn distrust(&self) -> Option<String> {
        let (until, why) = self.distrusted.as_ref()?;
        (*until > Instant::now()).then(|| why.clone())
    }
}

impl Endpoint {
    pub(crate) fn new(
        chain: ChainId,
        url: &str,
        timeout: Duration,
        heads: Announcer,
    ) -> Result<Self, EndpointError> {
        let rpc = Rpc::new(Target::parse(url)?, timeout, Some(heads))?;
        let (standing, taking) = (Mutex::default(), Mutex::default());
        let digest = hex::encode(&keccak256(url.trim())[..8]);
        let lacks_block_receipts = AtomicBool::new(false);
        Ok(Self { rpc, chain, digest, standing, taking, lacks_block_receipts })
    }

    pub(crate) fn shown(&self) -> &str {
        self.rpc.shown()
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
        let rises = standing.rose.is_some_and(|rose| rose.elapsed() < STANDS_STILL);
        Some((standing.head?, rises))
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

    /// It answered, and properly. How its head stands to the others' is for the pool to say.
    pub(crate) fn seen_well(&self, head: u64, judged: Judgement, tolerated: u32, is_alone: bool) {
        let mut standing = self.standing();
        standing.answers = true;
        standing.note_head(head);
        let is_behind = judged == Judgement::Behind;
        standing.behind = if is_behind { standing.behind.saturating_add(1) } else { 0 };
        // An endpoint that was set aside comes back only when it has caught up.
        let lags = is_behind && (standing.behind > tolerated || !standing.usable);
        let was = (standing.usable, standing.why.take());
        standing.why = match judged {
            Judgement::Leaps => {
                let words = format!("claims block {head}, which no other endpoint has");
                standing.contradiction = Some((Instant::now(), words.clone()));
                Some(words)
            }
            _ if lags => Some("lags behind the other endpoints".to_owned()),
            _ if is_alone => None,
            _ => standing.distrust(),
        };
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
        standing.contradiction = Some((Instant::now(), words.to_owned()));
        if set_aside {
            standing.distrusted = Some((Instant::now() + SET_ASIDE, words.to_owned()));
        }
    }

    /// The blocks that it calls safe and finalized; `None` where it does not say.
    pub(crate) async fn tagged(&self) -> [Option<Header>; 2] {
        let calls = ["safe", "finalized"].map(|tag| tag_call(tag, With::Hashes));
        let mut answers = self
            .rpc
            .batch(&calls)
            .await
            .into_iter()
            .map(|answer| Some(read_block(answer).ok().flatten()?.header));
        [answers.next().flatten(), answers.next().flatten()]
    }

    /// Sets aside whoever does not answer. An error that was answered is an answer.
    pub(crate) fn note(&self, error: &CallError) {
        if matches!(error, CallError::Timeout(_) | CallError::Unreachable) {
            self.set_aside(error.to_string());
        }
    }

    /// Says what changed, once.
    fn report(&self, (was_usable, why): (bool, Option<String>), now: &Standing) {
        let (chain, endpoint) = (self.chain.get(), self.shown());
        match (&now.why, now.usable) {
            (Some(why_now), false) if was_usable || why.as_ref() != Some(why_now) => {
                tracing::warn!(chain, endpoint, why = why_now, "endpoint set aside");
            }
            (None, true) if !was_usable => {
                tracing::info!(chain, endpoint, head = now.head, "endpoint in use");
            }
            _ => {}
        }
    }

    pub(crate) fn status(&self) -> EndpointStatus {
        let Standing { usable, head, why, answers, contradiction, .. } = self.standing().clone();
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
        self.lacks_block_receipts.load(Ordering::Relaxed)
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
