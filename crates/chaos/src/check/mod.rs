//! What must hold of a history. Pure: nothing here reads a clock, a socket or a file.
//!
//! | file | rule |
//! |---|---|
//! | `owners` | C1: a nonce belongs to one request ever |
//! | `once` | C2: a request has at most one nonce and at most one mined transaction |
//! | `record` | C3: what is on the wire was on record before |
//! | `tokens` | C4: tokens only rise, and no commit carries a superseded one |
//! | `survival` | C5: every success survives, and comes to an end |
//! | `truth` | C6: what is told is what the chain shows |
//! | `gaps` | C7: no gap stays open |
//! | `repeats` | C8: the same request again is the same transaction |
//! | `histories` | C9: histories have no gaps, and step back only by a reorganisation |
//! | `payloads` | C10: a payload is mined at most once, whatever was restored |
//! | `naming` | C11: who lies is named |
//! | `astray` | C12: nothing goes where only Redis says that a node is |
//! | `coverage` | what a run must have reached to count |
//! | `story` | everything about one transaction in the order of time |

mod astray;
mod coverage;
mod gaps;
mod histories;
mod naming;
mod once;
mod owners;
mod payloads;
mod record;
mod repeats;
#[cfg(test)]
mod sample;
mod story;
mod survival;
mod tokens;
mod truth;

use std::fmt;

pub use coverage::Coverage;
pub use story::story;

use crate::evidence::Evidence;

/// The rules by their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    C1,
    C2,
    C3,
    C4,
    C5,
    C6,
    C7,
    C8,
    C9,
    C10,
    C11,
    C12,
}

impl Rule {
    /// The rule in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::C1 => "a nonce belongs to one request ever",
            Self::C2 => "a request has at most one nonce and at most one mined transaction",
            Self::C3 => "every transaction on the wire was committed as an attempt before",
            Self::C4 => "tokens only rise; no commit carries a superseded one",
            Self::C5 => "every success survives, and comes to an end once faults stop",
            Self::C6 => "FAILED is not on the chain, CONFIRMED is, and a change of either is told",
            Self::C7 => "no gap stays open",
            Self::C8 => "the same request is the same transaction; another payload is refused",
            Self::C9 => "histories have no gaps, and step back only by a reorganisation",
            Self::C10 => "a payload is mined at most once, whatever was restored",
            Self::C11 => "an endpoint that lies is named by doctor and metrics",
            Self::C12 => "nothing goes where only Redis says that a node is",
        }
    }
}

/// What a violation is about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct About {
    /// A transaction.
    pub tx_id: Option<String>,
    /// A nonce of an account.
    pub nonce: Option<(String, u64)>,
    /// Signed bytes.
    pub hashes: Vec<String>,
}

impl About {
    fn tx(id: &str) -> Self {
        Self { tx_id: Some(id.to_owned()), ..Self::default() }
    }

    fn nonce(signer: &str, nonce: u64) -> Self {
        Self { nonce: Some((signer.to_owned(), nonce)), ..Self::default() }
    }

    fn hash(hash: &str) -> Self {
        Self { hashes: vec![hash.to_owned()], ..Self::default() }
    }

    fn hashes(hashes: Vec<String>) -> Self {
        Self { hashes, ..Self::default() }
    }
}

/// Something that must not be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The rule that is broken.
    pub rule: Rule,
    /// How.
    pub what: String,
    /// By whom.
    pub about: About,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} ({}): {}", self.rule, self.rule.words(), self.what)
    }
}

/// Collects what one rule finds.
struct Findings {
    rule: Rule,
    found: Vec<Violation>,
}

impl Findings {
    fn of(rule: Rule) -> Self {
        Self { rule, found: Vec::new() }
    }

    fn add(&mut self, about: About, what: String) {
        self.found.push(Violation { rule: self.rule, what, about });
    }
}

/// Everything that must not be, by rule.
pub fn check(evidence: &Evidence) -> Vec<Violation> {
    let rules: [fn(&Evidence) -> Findings; 12] = [
        owners::check,
        once::check,
        record::check,
        tokens::check,
        survival::check,
        truth::check,
        gaps::check,
        repeats::check,
        histories::check,
        payloads::check,
        naming::check,
        astray::check,
    ];
    rules.iter().flat_map(|rule| rule(evidence).found).collect()
}
