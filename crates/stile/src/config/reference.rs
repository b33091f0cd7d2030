//! The one table of every key: what it accepts, what it is without being set, and what it does.
//!
//! The check of each value, the guesses at misspelt keys and the reference page are all taken from
//! here. A key that is in the model and not in this table, or the other way round, fails a test.

mod lists;
mod markdown;
mod nonce;
mod registry;
mod server;
mod service;
#[cfg(test)]
mod tests;
mod transaction;

pub use self::markdown::reference_markdown;
use super::value::{HumanDuration, Kind};

/// Every section, in the order of the reference page.
pub(super) const SECTIONS: &[&Section] = &[
    &service::NODE,
    &server::SERVER,
    &server::TLS,
    &server::LIMITS,
    &service::LOG,
    &service::STORE,
    &service::RETENTION,
    &registry::REDIS,
    &registry::REGISTRY,
    &nonce::NONCE,
    &nonce::LEASE,
    &nonce::CHAIN_QUERY,
    &nonce::LANE,
    &service::CLUSTER,
    &transaction::RESUBMIT,
    &transaction::FEES,
    &transaction::ESTIMATE,
    &transaction::CONFIRMATIONS,
    &lists::CHAIN,
    &lists::SIGNER,
];

/// A section of the file, or a list of which each entry is one.
pub(super) struct Section {
    /// Its dotted path: `nonce.lease`.
    pub(super) name: &'static str,
    /// Whether it is a list, `[[chain]]`.
    pub(super) is_list: bool,
    /// What it is about.
    pub(super) text: &'static str,
    /// Its keys.
    pub(super) keys: &'static [Key],
}

impl Section {
    /// The dotted paths of its keys.
    pub(super) fn paths(&self) -> impl Iterator<Item = String> {
        self.keys.iter().map(|key| format!("{}.{}", self.name, key.name))
    }
}

/// One key.
pub(super) struct Key {
    /// Its name inside the section.
    pub(super) name: &'static str,
    /// What it accepts.
    pub(super) kind: Kind,
    /// What it is without being set.
    pub(super) preset: Preset,
    /// What it does, in one or two sentences.
    text: &'static str,
}

/// What a key is without being set.
pub(super) enum Preset {
    /// This value, written without quotes.
    Value(&'static str),
    /// Nothing, which means this.
    Unset(&'static str),
    /// It has to be set.
    Required,
}

impl Key {
    const fn new(name: &'static str, kind: Kind, preset: Preset, text: &'static str) -> Self {
        Self { name, kind, preset, text }
    }
}

/// A duration between two numbers of milliseconds.
const fn duration(min_ms: u64, max_ms: u64) -> Kind {
    Kind::Duration {
        min: HumanDuration::from_millis(min_ms),
        max: HumanDuration::from_millis(max_ms),
    }
}

const SECOND_MS: u64 = 1_000;
const MINUTE_MS: u64 = 60 * SECOND_MS;
const HOUR_MS: u64 = 60 * MINUTE_MS;
const DAY_MS: u64 = 24 * HOUR_MS;

/// What a dotted path is.
pub(super) enum Known {
    /// A key, and the section it is in.
    Key(&'static Section, &'static Key),
    /// A section, or what sections have in common at the front (`tx`).
    Section,
    /// A list.
    List(&'static Section),
    /// Nothing there is.
    Nothing,
}

/// Finds what a dotted path is.
pub(super) fn lookup(path: &str) -> Known {
    for section in SECTIONS.iter().copied() {
        if section.name == path && section.is_list {
            return Known::List(section);
        }
        let name = path.strip_prefix(section.name).and_then(|rest| rest.strip_prefix('.'));
        if let Some(key) = section.keys.iter().find(|key| Some(key.name) == name) {
            return Known::Key(section, key);
        }
    }
    if section_paths().iter().any(|section| section == path) {
        Known::Section
    } else {
        Known::Nothing
    }
}

/// The paths of all sections and lists, including those that only hold other sections.
pub(super) fn section_paths() -> Vec<String> {
    let mut paths = Vec::new();
    for section in SECTIONS {
        let ends = section.name.match_indices('.').map(|(end, _)| end).chain([section.name.len()]);
        paths.extend(ends.map(|end| section.name[..end].to_owned()));
    }
    paths.dedup();
    paths
}
