//! Clocks that are wrong: nodes run under libfaketime, each start with another offset.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// Names the library where it is not in a usual place.
const VARIABLE: &str = "STILE_FAKETIME";

const LIBRARY: &str = "faketime/libfaketime.so.1";

/// Seconds that a node's clock on the wall is ahead. Its monotonic clock is right.
const OFFSETS: [i64; 5] = [3_600, 0, -600, 95, -90_000];

const DAY: i64 = 86_400;

/// Answers carry whole seconds, and come late on a busy machine.
const TOLERANCE: i64 = 20;

/// The offset of a node's start.
pub(super) fn offset(seed: u64, node: usize, start: u64) -> i64 {
    let count = OFFSETS.len() as u64;
    // Three nodes that start together differ; one that starts again does from what it was.
    let place = (seed % count + node as u64 + start * 2) % count;
    OFFSETS[usize::try_from(place).unwrap_or_default()]
}

/// What a process needs in its environment to have this offset.
pub(super) fn environment(library: &str, offset: i64) -> Vec<(&'static str, String)> {
    if offset == 0 {
        return Vec::new();
    }
    vec![
        ("LD_PRELOAD", library.to_owned()),
        ("FAKETIME", format!("{offset:+}s")),
        // Only the clock on the wall is wrong: timers are what they are.
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
        ("NO_FAKE_STAT", "1".to_owned()),
    ]
}

/// The library's path.
///
/// Panics with what to do if it is not there.
pub(super) fn library() -> String {
    let named = std::env::var_os(VARIABLE).map(PathBuf::from);
    let usual = ["/usr/lib", "/usr/lib64", "/usr/local/lib"].into_iter().map(PathBuf::from);
    let triples = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let places = usual.chain(triples.map(|entry| entry.path())).map(|it| it.join(LIBRARY));
    let found = named.into_iter().chain(places).find(|place| place.is_file());
    let found = found.unwrap_or_else(|| {
        panic!(
            "libfaketime.so.1 is missing, under which nodes run with wrong clocks. Install the \
             package faketime (apt-get install faketime), or name the file in {VARIABLE}."
        )
    });
    found.display().to_string()
}

/// Whether the date of an answer, as HTTP writes it, is by a clock with this offset.
pub(super) fn shows(date: &str, offset: i64) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    second_of_day(date).is_some_and(|told| is_near(told, now + offset))
}

/// Whether a second of a day is near a time.
fn is_near(told: i64, time: i64) -> bool {
    let apart = (told - time).rem_euclid(DAY);
    apart.min(DAY - apart) <= TOLERANCE
}

/// The second of its day of a date such as `Sun, 15 Nov 2026 22:31:21 GMT`.
fn second_of_day(date: &str) -> Option<i64> {
    let mut parts = date.split_whitespace().nth(4)?.split(':').map(str::parse::<i64>);
    let (hours, minutes) = (parts.next()?.ok()?, parts.next()?.ok()?);
    Some(hours * 3_600 + minutes * 60 + parts.next()?.ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_tells_the_second_of_its_day() {
        assert_eq!(second_of_day("Sun, 15 Nov 2026 01:01:05 GMT"), Some(3_665));
        assert_eq!(second_of_day("yesterday"), None);
    }

    #[test]
    fn midnight_is_near_the_second_before_it() {
        assert!(is_near(DAY - 1, 3 * DAY + 2));
        assert!(!is_near(3_600, 3 * DAY));
    }

    #[test]
    fn most_nodes_of_any_start_are_wrong_and_each_in_its_own_way() {
        for seed in 0..10 {
            let offsets: Vec<i64> = (0..3).map(|node| offset(seed, node, 1)).collect();
            assert!(offsets.iter().filter(|offset| **offset != 0).count() >= 2, "{offsets:?}");
            assert_ne!(offset(seed, 0, 1), offset(seed, 0, 2));
        }
    }
}
