//! What a chain asks for, as its endpoints last said.
//!
//! Whoever binds takes the last answer while it is fresh. The chain is asked anew beside that, one
//! question at a time: so a slow endpoint, for which a quote waits, holds up nobody.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use stile_chain::{ChainError, ChainPool, FeeQuotes};
use stile_domain::FeeQuote;
use tracing::debug;

use crate::core::Core;
use crate::tx::track::Track;

/// The quotes of a chain.
#[derive(Debug)]
pub(crate) struct Quotes {
    known: Mutex<Known>,
    /// Whoever has it asks; the others wait for the answer.
    asking: tokio::sync::Mutex<()>,
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

    fn since(&self, since: Instant) -> Option<FeeQuotes> {
        self.last.filter(|(at, _)| *at >= since).map(|(_, quotes)| quotes)
    }
}

impl Quotes {
    /// `is_limited`: the operator has set the most that is paid.
    pub(crate) fn new(is_limited: bool) -> Self {
        let known = Known { is_limited, ..Known::default() };
        Self { known: Mutex::new(known), asking: tokio::sync::Mutex::default() }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
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
        let told = pool.fee_quotes().await?;
        Ok(self.known().take(told))
    }

    fn is_asking(&self) -> bool {
        self.asking.try_lock().is_err()
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
    producers.spawn(async move {
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
