//! What somebody probably meant by a key that does not exist.

use super::environment::variable_name;
use crate::config::reference::{SECTIONS, Section, section_paths};

/// Below this likeness (0 to 1) a guess would mislead more than help.
const LEAST_LIKENESS: f64 = 0.75;

/// The right name in the wrong section is a good guess, though not as good as a near miss.
const SAME_NAME_LIKENESS: f64 = 0.8;

/// What to say about an unknown key or section of a file.
pub(super) fn unknown(path: &str, is_section: bool) -> String {
    let word = if is_section { "section" } else { "key" };
    let guess = if is_section { nearest_section(path) } else { nearest_key(path) };
    match guess {
        Some(guess) => format!("unknown {word}; did you mean {guess}?"),
        None => format!("unknown {word}; {}", what_there_is(path)),
    }
}

/// What to say about an unknown key set by a variable.
pub(super) fn unknown_variable(path: &str) -> String {
    match nearest_key(path) {
        Some(guess) => {
            let variable = variable_name(&guess);
            format!("unknown key; did you mean {guess} ({variable})?")
        }
        None => format!("unknown key; {}", what_there_is(path)),
    }
}

fn nearest_key(path: &str) -> Option<String> {
    nearest(path, SECTIONS.iter().copied().flat_map(Section::paths))
}

fn nearest_section(path: &str) -> Option<String> {
    nearest(path, section_paths().into_iter())
}

fn nearest(path: &str, candidates: impl Iterator<Item = String>) -> Option<String> {
    candidates
        .map(|candidate| (likeness(path, &candidate), candidate))
        .filter(|(likeness, _)| *likeness >= LEAST_LIKENESS)
        .max_by(|(left, _), (right, _)| left.total_cmp(right))
        .map(|(_, candidate)| candidate)
}

fn likeness(path: &str, candidate: &str) -> f64 {
    let ((parent, name), (candidate_parent, candidate_name)) =
        (split_last(path), split_last(candidate));
    let whole = strsim::normalized_damerau_levenshtein(path, candidate);
    // Inside the right section only the last name counts: the shared beginning says nothing.
    let inside =
        if parent == candidate_parent { strsim::jaro_winkler(name, candidate_name) } else { whole };
    if name == candidate_name { inside.max(SAME_NAME_LIKENESS) } else { inside }
}

fn split_last(path: &str) -> (&str, &str) {
    path.rsplit_once('.').unwrap_or(("", path))
}

fn what_there_is(path: &str) -> String {
    let (parent, _) = split_last(path);
    match SECTIONS.iter().find(|section| section.name == parent) {
        Some(section) => {
            let names: Vec<&str> = section.keys.iter().map(|key| key.name).collect();
            format!("{parent} has {}", names.join(", "))
        }
        None => {
            let names: Vec<&str> = SECTIONS.iter().map(|section| section.name).collect();
            format!("the sections are {}", names.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{nearest_key, nearest_section};

    #[test]
    fn finds_what_was_meant() {
        for (given, meant) in [
            ("nonce.lease.duratoin", "nonce.lease.duration"),
            ("nonce.workers", "nonce.worker_count"),
            ("nonce.workerCount", "nonce.worker_count"),
            ("lease.duration", "nonce.lease.duration"),
            ("server.pool_size", "store.pool_size"),
            ("store.uri", "store.url"),
            ("signer.adress", "signer.address"),
            ("chain.endpoint", "chain.endpoints"),
            ("confirmation.required", "confirmations.required"),
        ] {
            assert_eq!(nearest_key(given).as_deref(), Some(meant), "{given}");
        }
        assert_eq!(nearest_section("nonce.leese").as_deref(), Some("nonce.lease"));
        assert_eq!(nearest_section("chains").as_deref(), Some("chain"));
    }

    #[test]
    fn does_not_guess_wildly() {
        for given in ["nonce.colour", "telemetry.exporter", "x"] {
            assert_eq!(nearest_key(given), None, "{given}");
        }
    }
}
