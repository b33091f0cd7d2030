//! What an endpoint answered that cannot be read.
//!
//! An answer without a field that it has to have, or with one that cannot be, says nothing: the next
//! endpoint is asked. But a node that always answers so is another kind of node than Stile knows,
//! and what waits for its answers waits for ever. So each is written down, by method and field, and
//! told: in the log once, as a metric, and by the doctor.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::calls::Method;
use crate::target::Target;

/// The field of what is wrong as a whole.
pub(crate) const WHOLE: &str = "result";

/// So many kinds are kept of an endpoint; the one that was not seen for longest makes room.
const MOST: usize = 32;

/// How much of an answer is shown.
const SAMPLE: usize = 160;

/// How much of it is cleaned, and by how much that is more than what is looked at.
const CLEANED: usize = 4_000;
const LONGEST_SECRET: usize = 1_000;

/// The longest name of a field, and the longest words.
const FIELD: usize = 80;
const WORDS: usize = 200;

/// Hexadecimal numbers up to this long are shown whole: a hash and its prefix.
const SHOWN_WHOLE: usize = 66;

/// One kind of answer of an endpoint that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// What it was asked.
    pub method: &'static str,
    /// The field that is missing or cannot be read; `result` for the answer as a whole.
    pub field: String,
    /// What is wrong with it.
    pub words: String,
    /// How often it came.
    pub count: u64,
    /// How long ago it last did.
    pub ago: Duration,
    /// How the answer begins, without parts of the endpoint's URL.
    pub sample: String,
}

#[derive(Debug)]
struct Kind {
    words: String,
    count: u64,
    last: Instant,
    sample: String,
}

/// What an endpoint answered that cannot be read.
pub(crate) struct Ledger {
    target: Arc<Target>,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    kinds: BTreeMap<(&'static str, String), Kind>,
    totals: BTreeMap<&'static str, u64>,
}

impl Ledger {
    pub(crate) fn new(target: Arc<Target>) -> Self {
        Self { target, kept: Mutex::default() }
    }

    /// Writes an answer down. Answers with the words, fit to be shown.
    pub(crate) fn note(&self, method: Method, field: &str, words: &str, text: &str) -> String {
        let (method, words) = (method.name(), self.target.clean(words, WORDS));
        let field = self.target.clean(field, FIELD);
        // More is cleaned than is looked at, so that no secret is cut in two before it is found.
        let text: String = text.chars().take(CLEANED).collect();
        let text = shortened(&self.target.clean(&text, CLEANED - LONGEST_SECRET));
        let sample: String = text.chars().take(SAMPLE).collect();
        let mut kept = self.kept();
        *kept.totals.entry(method).or_default() += 1;
        let place = (method, field);
        let now = Instant::now();
        if let Some(kind) = kept.kinds.get_mut(&place) {
            kind.count += 1;
            (kind.last, kind.sample) = (now, sample);
            kind.words.clone_from(&words);
            return words;
        }
        if kept.kinds.len() >= MOST {
            let oldest = kept.kinds.iter().min_by_key(|(_, kind)| kind.last);
            if let Some(oldest) = oldest.map(|(place, _)| place.clone()) {
                kept.kinds.remove(&oldest);
            }
        }
        let endpoint = &self.target.shown;
        tracing::warn!(%endpoint, method, field = place.1, %words, %sample, "an answer cannot be read");
        kept.kinds.insert(place, Kind { words: words.clone(), count: 1, last: now, sample });
        words
    }

    /// What is kept, the newest first.
    pub(crate) fn list(&self) -> Vec<Unreadable> {
        let kept = self.kept();
        let told = kept.kinds.iter().map(|((method, field), kind)| Unreadable {
            method,
            field: field.clone(),
            words: kind.words.clone(),
            count: kind.count,
            ago: kind.last.elapsed(),
            sample: kind.sample.clone(),
        });
        let mut told: Vec<Unreadable> = told.collect();
        told.sort_by_key(|kind| kind.ago);
        told
    }

    /// How often it happened, by method.
    pub(crate) fn totals(&self) -> Vec<(&'static str, u64)> {
        self.kept().totals.iter().map(|(method, count)| (*method, *count)).collect()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Ledger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ledger").field("kept", &self.kept).finish_non_exhaustive()
    }
}

/// The same text, with the long hexadecimal numbers cut: signed bytes and call data.
fn shortened(text: &str) -> String {
    let mut short = String::with_capacity(text.len().min(SAMPLE * 4));
    let mut run = 0usize;
    for c in text.chars() {
        run = if c.is_ascii_alphanumeric() { run + 1 } else { 0 };
        match run {
            0..=SHOWN_WHOLE => short.push(c),
            over if over == SHOWN_WHOLE + 1 => short.push('…'),
            _ => {}
        }
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger() -> Ledger {
        Ledger::new(Arc::new(Target::parse("http://node.example/canary-key").unwrap()))
    }

    #[test]
    fn hole_37_what_cannot_be_read_is_counted_by_method_and_field() {
        let ledger = ledger();
        for text in ["{\"a\":1}", "{\"a\":2}"] {
            ledger.note(Method::TransactionReceipt, "gasUsed", "no gas", text);
        }
        ledger.note(Method::TransactionReceipt, "blockHash", "no hash", "{}");
        let mut told = ledger.list();
        told.sort_by(|one, other| one.field.cmp(&other.field));
        let told: Vec<_> =
            told.iter().map(|it| (it.field.as_str(), it.count, it.sample.as_str())).collect();
        assert_eq!(told, [("blockHash", 1, "{}"), ("gasUsed", 2, "{\"a\":2}")]);
        assert_eq!(ledger.totals(), [("eth_getTransactionReceipt", 3)]);
    }

    #[test]
    fn hole_37_little_is_kept_and_no_secret() {
        let ledger = ledger();
        for place in 0..100 {
            let text = format!("canary-key {}", "f".repeat(5_000));
            ledger.note(Method::BlockByHash, &format!("f{place}"), "canary-key is odd", &text);
        }
        let told = ledger.list();
        assert_eq!(told.len(), MOST);
        assert_eq!(ledger.totals(), [("eth_getBlockByHash", 100)]);
        assert!(told.iter().any(|it| it.field == "f99") && !told.iter().any(|it| it.field == "f0"));
        for it in told {
            assert_eq!(it.words, "… is odd");
            assert!(it.sample.starts_with("… fff") && it.sample.chars().count() <= SAMPLE);
        }
    }
}
