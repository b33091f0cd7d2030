//! What a chain asks for, as its endpoints last said.
//!
//! Whoever binds takes the last answer while it is fresh. The chain is asked anew beside that, one
//! question at a time: so a slow endpoint, for which a quote waits, holds up nobody.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use stile_chain::{ChainError, ChainPool, FeeQuotes};
use stile_domain::FeeQuote;
use tracing::{debug, info, warn};

use crate::core::Core;
use crate::task;
use crate::tx::bind;
use crate::tx::track::Track;

/// How long what is heeded stays below what was asked before, where nobody else offers anything.
const RISES_AFTER: Duration = Duration::from_secs(60);

/// How many blocks it is remembered of whose transactions they have.
const REMEMBERED: usize = 1024;

/// Whose transactions the newest blocks have.
#[derive(Debug, Default)]
pub(crate) struct Blocks(BTreeMap<u64, Whose>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    Nobodys,
    Ours,
    Others,
}

impl Blocks {
    /// A block has so many transactions, and so many of them are ours.
    pub(crate) fn note(&mut self, height: u64, all: usize, ours: usize) {
        let whose = match (all, ours) {
            (0, _) => Whose::Nobodys,
            (all, ours) if ours >= all => Whose::Ours,
            _ => Whose::Others,
        };
        // What was above it is not on the chain any more.
        self.0.split_off(&height);
        self.0.insert(height, whose);
        while self.0.len() > REMEMBERED {
            self.0.pop_first();
        }
    }

    /// Those that have ours alone.
    fn own(&self) -> BTreeSet<u64> {
        let own = self.0.iter().filter(|(_, whose)| **whose == Whose::Ours);
        own.map(|(height, _)| *height).collect()
    }

    /// Whether somebody else has anything in one of so many newest blocks.
    fn have_others(&self, newest: u64) -> bool {
        let Some((top, _)) = self.0.last_key_value() else { return false };
        let from = top.saturating_sub(newest.saturating_sub(1));
        self.0.range(from..).any(|(_, whose)| *whose == Whose::Others)
    }
}

/// The quotes of a chain.
#[derive(Debug)]
pub(crate) struct Quotes {
    known: Mutex<Known>,
    blocks: Mutex<Blocks>,
    trouble: Mutex<Option<Trouble>>,
    /// Whoever has it asks; the others wait for the answer.
    asking: tokio::sync::Mutex<()>,
}

/// Nobody has said what the chain asks for when it was last asked.
#[derive(Debug, Clone)]
struct Trouble {
    /// What each endpoint said instead.
    why: String,
    /// It is in the log.
    is_told: bool,
}

#[derive(Debug, Default, Clone, Copy)]
struct Known {
    last: Option<(Instant, FeeQuotes)>,
    /// What several endpoints last said alike.
    agreed: Option<FeeQuote>,
    /// The lower of what two last said together, alike or not. One that is always out of its mind keeps
    /// them from agreeing for ever.
    heard: Option<FeeQuote>,
    /// The operator has set the most that is paid.
    is_limited: bool,
    /// The most that is heeded while nobody else offers anything, and since when.
    most: Option<(Instant, FeeQuote)>,
}

impl Known {
    /// Takes what the endpoints say. One of several that alone says something is believed only within
    /// reach of what was last agreed, or heard from two. Where nothing ever was, it is believed up to the
    /// limit that the operator has set, or that holds where nobody says anything.
    fn take(&mut self, told: FeeQuotes) -> FeeQuotes {
        let known = self.agreed.or(self.heard);
        let taken = match told.is_alone && (known.is_some() || !self.is_limited) {
            true => FeeQuotes {
                offered: told.offered.alone_after(known.as_ref()),
                highest: told.highest.alone_after(known.as_ref()),
                ..told
            },
            false => told,
        };
        if !told.is_alone {
            self.heard = Some(told.offered);
        }
        if !told.is_alone && told.offered.is_like(&told.highest) {
            self.agreed = Some(told.offered);
        }
        self.last = Some((Instant::now(), taken));
        taken
    }

    /// Makes of what the endpoints say what is heeded: one's own offers do not feed what is offered. A low
    /// word does not stay, and what is heeded may rise slowly: the chain may have become dearer all the
    /// same. Where endpoints call an offer too low, it is raised up to what they said.
    fn heed(&mut self, told: FeeQuotes, by_others: bool, now: Instant) -> FeeQuotes {
        let offered = told.offered;
        let Some((since, most)) = self.most else {
            // One endpoint alone begins nothing that others are held against.
            self.most = (!told.is_alone).then_some((now, offered));
            return told;
        };
        let is_over = now.duration_since(since) >= RISES_AFTER;
        let since = if is_over { now } else { since };
        let most = match (is_over, by_others && !told.is_alone) {
            (true, true) => offered,
            (true, false) => most.raised(),
            (false, true) => most.dearer(offered),
            (false, false) => most,
        };
        self.most = Some((since, most));
        FeeQuotes { offered: offered.heeded(Some(&most), by_others), ..told }
    }

    fn since(&self, since: Instant) -> Option<FeeQuotes> {
        self.last.filter(|(at, _)| *at >= since).map(|(_, quotes)| quotes)
    }
}

impl Quotes {
    /// `is_limited`: the operator has set the most that is paid.
    pub(crate) fn new(is_limited: bool) -> Self {
        let known = Known { is_limited, ..Known::default() };
        Self {
            known: Mutex::new(known),
            blocks: Mutex::default(),
            trouble: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whose transactions the newest blocks have.
    pub(crate) fn blocks(&self) -> MutexGuard<'_, Blocks> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the chain asks for, if it was asked after `since`.
    pub(crate) fn since(&self, since: Instant) -> Option<FeeQuotes> {
        self.known().since(since)
    }

    /// What the chain asks for now, or since this was called.
    pub(crate) async fn ask(&self, pool: &ChainPool) -> Result<FeeQuotes, ChainError> {
        let called = Instant::now();
        let _turn = self.asking.lock().await;
        if let Some(quotes) = self.since(called) {
            return Ok(quotes);
        }
        let (own, by_others) = {
            let blocks = self.blocks();
            (blocks.own(), blocks.have_others(pool.fee_blocks()))
        };
        let told = pool.fee_quotes_by_others(&own).await;
        self.note(pool, told.as_ref().err());
        let told = told?;
        let mut known = self.known();
        let heeded = known.heed(told, by_others, Instant::now());
        Ok(known.take(heeded))
    }

    /// What the endpoints said instead of a quote, if it was none when they were last asked.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.troubled().as_ref().map(|trouble| trouble.why.clone())
    }

    fn troubled(&self) -> MutexGuard<'_, Option<Trouble>> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of whether there was a quote. That there is none is told once: not while an older one
    /// still serves, nor where the chain does not answer at all, which is told elsewhere.
    fn note(&self, pool: &ChainPool, error: Option<&ChainError>) {
        let chain = pool.chain().get();
        let mut trouble = self.troubled();
        let was_told = trouble.as_ref().is_some_and(|trouble| trouble.is_told);
        let Some(why) = error.map(words) else {
            if was_told {
                info!(chain, "the endpoints say again what gas costs");
            }
            *trouble = None;
            return;
        };
        let serves = self.since(bind::fresh_quote()).is_some();
        let is_told = was_told || !(serves || pool.why_away().is_some());
        if is_told && !was_told {
            warn!(chain, why, "no endpoint says what gas costs: what has no nonce waits for it");
        }
        *trouble = Some(Trouble { why, is_told });
    }

    fn is_asking(&self) -> bool {
        self.asking.try_lock().is_err()
    }
}

/// What each endpoint said.
fn words(error: &ChainError) -> String {
    match error {
        ChainError::Unreachable { said, .. } | ChainError::Disagreed { said, .. } => {
            said.join("; ")
        }
        ChainError::NoEndpoint(_) => error.to_string(),
    }
}

/// Has the chain asked anew, unless somebody does. Whoever calls this does not wait for it.
pub(crate) fn ask_beside(core: &Arc<Core>, track: &Track) {
    if let Some(track) = core.tracks.get(track.pool.chain()) {
        ask_first(core, track, |_, _| {});
    }
}

/// Has the chain asked anew, unless somebody does, and does this if it answers. Whoever needs it looks
/// again by itself: so it is asked once, however many do.
pub(crate) fn ask_first(
    core: &Arc<Core>,
    track: &Arc<Track>,
    then: impl FnOnce(&Arc<Core>, &Arc<Track>) + Send + 'static,
) {
    if track.quotes.is_asking() {
        return;
    }
    let (core, track) = (Arc::clone(core), Arc::clone(track));
    let producers = core.producers.clone();
    producers.spawn(task::QUOTE, async move {
        let asked = tokio::select! {
            () = core.stopping.cancelled() => return,
            asked = track.ask_quotes() => asked,
        };
        match asked {
            Ok(_) => then(&core, &track),
            Err(error) => debug!(chain = %track.pool.chain(), %error, "no fee quote"),
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(offered: u128, highest: u128, is_alone: bool) -> FeeQuotes {
        let legacy = |gas_price| FeeQuote::Legacy { gas_price };
        FeeQuotes { offered: legacy(offered), highest: legacy(highest), is_alone }
    }

    #[test]
    fn hole_38_while_nobody_else_offers_anything_the_quote_does_not_rise() {
        let (mut known, start) = (Known::default(), Instant::now());
        for (seconds, said, by_others, expected) in [
            (0, told(1, 1, true), false, told(1, 1, true)),
            (0, told(5, 6, false), false, told(5, 6, false)),
            (1, told(9, 9, false), false, told(5, 9, false)),
            (2, told(8, 9, false), true, told(8, 9, false)),
            (3, told(12, 12, false), false, told(8, 12, false)),
            // A low word, of others or not, is heeded and does not stay.
            (4, told(4, 9, false), false, told(4, 9, false)),
            (5, told(1, 1, false), true, told(1, 1, false)),
            (6, told(8, 8, false), false, told(8, 8, false)),
            // The chain has become dearer, and nobody else is on it.
            (59, told(12, 12, false), false, told(8, 12, false)),
            (60, told(12, 12, false), false, told(11, 12, false)),
            (61, told(20, 20, false), false, told(11, 20, false)),
            (120, told(20, 20, false), false, told(14, 20, false)),
            // Others ask for less from then on.
            (180, told(3, 3, false), true, told(3, 3, false)),
            (181, told(9, 9, false), false, told(3, 9, false)),
        ] {
            let now = start + Duration::from_secs(seconds);
            let found = known.heed(said, by_others, now);
            assert_eq!(found, expected, "{seconds} s, {said:?} {by_others}");
        }
    }

    #[test]
    fn hole_38_whose_transactions_blocks_have_is_remembered() {
        let mut blocks = Blocks::default();
        assert!(!blocks.have_others(5));
        for (height, all, ours) in [(1, 2, 1), (2, 0, 0), (3, 1, 1), (4, 3, 3)] {
            blocks.note(height, all, ours);
        }
        assert_eq!(blocks.own(), BTreeSet::from([3, 4]));
        assert!(blocks.have_others(4) && !blocks.have_others(3));
        // The chain was reorganised.
        blocks.note(3, 2, 0);
        assert_eq!(blocks.own(), BTreeSet::new());
        assert!(blocks.have_others(1));
        (0..5000).for_each(|height| blocks.note(height, 1, 1));
        assert_eq!(blocks.own().len(), REMEMBERED);
    }

    #[test]
    fn hole_42_a_lone_word_is_held_against_what_was_last_agreed() {
        let mut known = Known::default();
        let gwei = |gwei: u128| gwei * 1_000_000_000;
        for (said, expected) in [
            // Nothing was ever heard from two.
            (told(9_000, 9_000, true), told(9_000, 9_000, true)),
            (told(gwei(5_000), gwei(5_000), true), told(gwei(100), gwei(100), true)),
            (told(10, 1_000, false), told(10, 1_000, false)),
            // They did not agree: one of them may always be out of its mind.
            (told(9_000, 9_000, true), told(40, 40, true)),
            (told(10, 12, false), told(10, 12, false)),
            (told(9_000, 9_000, true), told(40, 40, true)),
            // What is bounded, or contradicted, is no agreement to go on from.
            (told(9_000, 9_000, true), told(40, 40, true)),
            (told(1, 9_000, false), told(1, 9_000, false)),
            (told(9_000, 9_000, true), told(40, 40, true)),
            (told(12, 12, true), told(12, 12, true)),
            (told(20, 20, false), told(20, 20, false)),
            (told(9_000, 9_000, true), told(80, 80, true)),
        ] {
            let before = Instant::now();
            assert_eq!(known.take(said), expected, "{said:?}");
            assert_eq!(known.since(before), Some(expected));
        }
    }

    #[test]
    fn hole_42_a_lone_word_counts_up_to_the_limit_that_is_set() {
        let mut known = Known { is_limited: true, ..Known::default() };
        let dear = told(300_000_000_000, 300_000_000_000, true);
        assert_eq!(known.take(dear), dear, "what is offered is cut to the limit");
        known.take(told(10, 12, false));
        assert_eq!(known.take(dear), told(40, 40, true));
    }
}
