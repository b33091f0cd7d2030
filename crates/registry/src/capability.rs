//! Services as bits, so that a node is held against what a job needs in one comparison.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::{Requirement, Services};

type Words = papaya::HashMap<Box<str>, u32, foldhash::fast::RandomState>;

/// Numbers for words: each word that a node has ever offered has one. Only what nodes say is
/// numbered, so callers who ask for nonsense use no memory.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    words: Words,
    next: AtomicU32,
}

impl Numbers {
    pub(crate) fn of(&self, word: &str) -> u32 {
        let words = self.words.pin();
        match words.get(word) {
            Some(number) => *number,
            // Two who number the same word at once use up two numbers and agree on one.
            None => {
                *words.get_or_insert_with(word.into(), || self.next.fetch_add(1, Ordering::Relaxed))
            }
        }
    }

    pub(crate) fn known(&self, word: &str) -> Option<u32> {
        self.words.pin().get(word).copied()
    }

    /// What a node offers.
    pub(crate) fn offered(&self, services: &Services) -> Bits {
        let mut bits = Bits::default();
        for (service, what_for) in services {
            bits.set(self.of(service.as_str()));
            for what_for in what_for {
                bits.set(self.of(&format!("{service}:{what_for}")));
            }
        }
        bits
    }

    /// What a job needs; `None` if no node has ever offered it.
    pub(crate) fn needed(&self, requirements: &[Requirement]) -> Option<Bits> {
        let mut bits = Bits::default();
        for requirement in requirements {
            bits.set(self.known(&requirement.to_string())?);
        }
        Some(bits)
    }
}

/// A set of small numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Bits {
    low: u64,
    high: Vec<u64>,
}

impl Bits {
    fn set(&mut self, number: u32) {
        let (word, bit) = (number as usize / 64, 1 << (number % 64));
        if word == 0 {
            self.low |= bit;
            return;
        }
        if self.high.len() < word {
            self.high.resize(word, 0);
        }
        self.high[word - 1] |= bit;
    }

    /// Whether everything in the other set is in this one.
    #[inline]
    pub(crate) fn contains(&self, other: &Self) -> bool {
        let has = |mine: u64, theirs: u64| theirs & !mine == 0;
        has(self.low, other.low)
            && other
                .high
                .iter()
                .enumerate()
                .all(|(word, theirs)| has(self.high.get(word).copied().unwrap_or(0), *theirs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn services(text: &str) -> Services {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_node_has_what_it_offers_and_nothing_else() {
        let numbers = Numbers::default();
        let offered = numbers.offered(&services(r#"{"asr":["zh","en"],"eth":[]}"#));
        numbers.offered(&services(r#"{"tts":["zh"]}"#));
        let has = |text: &str| {
            let needed = numbers.needed(&Requirement::list(text).unwrap());
            needed.is_some_and(|needed| offered.contains(&needed))
        };
        for yes in ["", "asr", "asr:zh", "asr:en,eth", "eth,asr"] {
            assert!(has(yes), "{yes}");
        }
        for no in ["tts", "asr:fr", "asr,tts", "nobody-offers-it"] {
            assert!(!has(no), "{no}");
        }
    }

    #[test]
    fn many_services_do_not_get_mixed_up() {
        let numbers = Numbers::default();
        let all: Vec<_> =
            (0..300).map(|n| numbers.offered(&services(&format!(r#"{{"s{n}":[]}}"#)))).collect();
        for (n, needed) in all.iter().enumerate() {
            for (m, offered) in all.iter().enumerate() {
                assert_eq!(offered.contains(needed), n == m, "{n} {m}");
            }
        }
    }
}
