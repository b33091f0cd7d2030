//! Where a reader of the stream goes on when the database has another history than the one it read.
//!
//! A failover to a standby that had not heard of everything, or a restore, takes back what was written
//! last and counts on from a lower number. A place from before is then ahead of entries that its reader
//! has never seen. So a place names its history, and this decides what it is worth in another one:
//! nothing may be missed, and something may be read twice.

use crate::{HistoryChange, HistoryId, StreamHistory, StreamPosition};

/// A history as a store knows it. Places in it are this store's own, without a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KnownHistory {
    pub(crate) history: StreamHistory,
    /// How far the stream had come when it was named.
    pub(crate) began: StreamPosition,
    /// Up to here it is the past of the history that is being written, too.
    pub(crate) reached: StreamPosition,
    /// Whether it is the one that is being written.
    pub(crate) is_here: bool,
}

/// What becomes of a reader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Course {
    /// It reads on from this place; there is nothing to tell.
    On(StreamPosition),
    /// It is told that the history has changed, and reads on from the place in it.
    Told(HistoryChange),
}

/// The rule. `known` has all histories, oldest first; `end` is a place that no entry of the one that is
/// being written is past. `None` if that one has no name yet.
pub(crate) fn course(
    position: StreamPosition,
    known: &[KnownHistory],
    end: StreamPosition,
) -> Option<Course> {
    let here = known.iter().find(|known| known.is_here)?;
    let place = position.unnamed();
    let origin = match position.history {
        Some(id) => known.iter().find(|known| known.history.id == id),
        // From a version that named no histories, whose last one was named first. A place that it had
        // not come to is from one that was lost before.
        None => known.first().filter(|first| place <= first.began),
    };
    let start = StreamPosition::default();
    let from = match origin {
        _ if position == start => return Some(Course::On(start.of(here.history.id))),
        Some(origin) if origin.is_here && place <= end => {
            return Some(Course::On(place.of(here.history.id)));
        }
        // Ahead of everything: the database went back without anybody noticing.
        Some(origin) if origin.is_here => start,
        Some(origin) => place.min(origin.reached),
        None => start,
    };
    let unknown = |id: HistoryId| StreamHistory { id, timeline: None };
    Some(Course::Told(HistoryChange {
        position: from.of(here.history.id),
        from: origin.map(|origin| origin.history.clone()).or_else(|| position.history.map(unknown)),
        to: here.history.clone(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(transaction: i64, entry: i64) -> StreamPosition {
        StreamPosition { transaction, entry, history: None }
    }

    fn named(id: i64, transaction: i64, entry: i64) -> StreamPosition {
        at(transaction, entry).of(HistoryId(id))
    }

    fn known(id: i64, began: i64, reached: i64, is_here: bool) -> KnownHistory {
        let history = StreamHistory { id: HistoryId(id), timeline: Some(id.to_string()) };
        KnownHistory { history, began: at(began, 0), reached: at(reached, 0), is_here }
    }

    /// Where a reader goes on, and whether it is told.
    fn goes(position: StreamPosition, known: &[KnownHistory]) -> (StreamPosition, bool) {
        match course(position, known, at(900, i64::MAX)).unwrap() {
            Course::On(position) => (position, false),
            Course::Told(change) => (change.position, true),
        }
    }

    #[test]
    fn a_reader_misses_nothing_of_another_history() {
        let one = [known(1, 100, 500, true)];
        let after = [known(1, 100, 500, false), known(2, 700, 800, true)];
        let loaded = [known(1, 100, 0, false), known(2, 5, 800, true)];
        let table = [
            ("the same history", named(1, 600, 3), &one[..], (named(1, 600, 3), false)),
            ("ahead of all there is", named(1, 901, 3), &one, (named(1, 0, 0), true)),
            ("the beginning of no history", at(0, 0), &after, (named(2, 0, 0), false)),
            ("where the two parted is unknown", named(1, 720, 3), &after, (named(2, 500, 0), true)),
            ("from before they parted", named(1, 400, 3), &after, (named(2, 400, 3), true)),
            ("a history that was lost", named(7, 720, 3), &after, (named(2, 0, 0), true)),
            ("another server's numbers", named(1, 720, 3), &loaded, (named(2, 0, 0), true)),
            ("without a name, from here", at(99, 3), &one, (named(1, 99, 3), false)),
            ("without a name, from a lost one", at(101, 3), &one, (named(1, 0, 0), true)),
            ("without a name, and changed since", at(99, 3), &after, (named(2, 99, 3), true)),
        ];
        for (case, position, known, expected) in table {
            assert_eq!(goes(position, known), expected, "{case}");
        }
    }

    #[test]
    fn who_is_told_hears_both_names() {
        let known = [known(1, 100, 500, false), known(2, 700, 800, true)];
        let told = |position| match course(position, &known, at(900, 0)) {
            Some(Course::Told(change)) => (change.from, change.to),
            other => panic!("{other:?}"),
        };
        let (from, to) = told(named(1, 720, 3));
        assert_eq!((from, to), (Some(known[0].history.clone()), known[1].history.clone()));
        let (from, _) = told(named(9, 1, 1));
        assert_eq!(from, Some(StreamHistory { id: HistoryId(9), timeline: None }));
        assert_eq!(told(at(101, 0)).0, None);
        assert_eq!(course(at(1, 1), &known[..1], at(900, 0)), None, "nobody has named it");
    }
}
