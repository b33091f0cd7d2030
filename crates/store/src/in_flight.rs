//! What is in flight on many lanes, page by page.
//!
//! A node that takes lanes over reads what their last holder left: a few transactions or a hundred
//! thousand, some of them large. A page is bounded by rows and by bytes, and it is filled in turns:
//! the lowest nonce of every lane first, then the second of every lane. So the transaction that a
//! lane's chain waits for is there soon, whatever else is in flight.

use std::collections::HashMap;

use stile_domain::{Lane, Nonce, TxId};

use crate::OpenTx;

/// A lane, and the nonce from which on it is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InFlightFrom {
    /// The lane.
    pub lane: Lane,
    /// The lowest nonce that is wanted.
    pub nonce: Nonce,
}

impl InFlightFrom {
    /// All of a lane.
    pub fn start(lane: Lane) -> Self {
        Self { lane, nonce: 0 }
    }
}

/// How much one answer may have. One transaction is always answered, however large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageLimit {
    /// Transactions.
    pub rows: usize,
    /// Bytes, counted as [`SIZE_PER_RAW_BYTE`] for each byte of a transaction's largest attempt.
    pub bytes: u64,
}

/// What a transaction takes in an answer for each byte of its largest attempt: the bytes themselves,
/// and the payload, where the same data is written in hexadecimal.
pub const SIZE_PER_RAW_BYTE: u64 = 3;

/// One answer. Lanes that are in neither list have been read to their end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InFlightPage {
    /// What was read: the lowest nonce of each lane first, lanes in the order in which they were
    /// asked for. Of the attempts only the newest has its
    /// bytes, since no other is ever sent.
    pub txs: Vec<OpenTx>,
    /// Lanes of which nothing fitted into this answer.
    pub unread: Vec<InFlightFrom>,
    /// Lanes of which something is here, and more may follow.
    pub more: Vec<InFlightFrom>,
}

/// A transaction that may be part of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) lane: Lane,
    pub(crate) nonce: Nonce,
    pub(crate) id: TxId,
    /// The size of its largest attempt.
    pub(crate) raw_bytes: u64,
}

/// What goes into a page, and where reading goes on after it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) ids: Vec<TxId>,
    pub(crate) unread: Vec<InFlightFrom>,
    pub(crate) more: Vec<InFlightFrom>,
}

impl Cut {
    pub(crate) fn page(self, txs: Vec<OpenTx>) -> InFlightPage {
        InFlightPage { txs, unread: self.unread, more: self.more }
    }
}

/// How many candidates of each lane are looked at for a page.
pub(crate) fn candidates_per_lane(lanes: usize, limit: PageLimit) -> usize {
    limit.rows.div_ceil(lanes.max(1)).max(1)
}

/// Cuts a page from the lowest candidates of each lane, of which there are at most `per_lane`.
pub(crate) fn cut(
    from: &[InFlightFrom],
    per_lane: usize,
    candidates: Vec<Candidate>,
    limit: PageLimit,
) -> Cut {
    let found = candidates.len();
    let in_turns = in_turns(from, candidates);
    let mut lanes: HashMap<Lane, Seen> = HashMap::with_capacity(from.len());
    let mut page = Cut { ids: Vec::with_capacity(found.min(limit.rows)), ..Cut::default() };
    let (mut bytes, mut full) = (0_u64, false);
    for candidate in in_turns {
        let seen = lanes.entry(candidate.lane).or_default();
        seen.found += 1;
        let size = candidate.raw_bytes.saturating_mul(SIZE_PER_RAW_BYTE);
        // What comes after the first one that does not fit waits, too: a lane is read in order.
        full |= page.ids.len() >= limit.rows.max(1)
            || (!page.ids.is_empty() && bytes.saturating_add(size) > limit.bytes);
        if !full {
            bytes = bytes.saturating_add(size);
            page.ids.push(candidate.id);
            seen.taken = Some(candidate.nonce);
        } else {
            seen.left = true;
        }
    }
    for from in from {
        let seen = lanes.remove(&from.lane).unwrap_or_default();
        match seen.taken {
            None if seen.left => page.unread.push(*from),
            Some(last) if seen.left || seen.found >= per_lane => {
                page.more.push(InFlightFrom { lane: from.lane, nonce: last.saturating_add(1) });
            }
            _ => {}
        }
    }
    page
}

/// What became of a lane's candidates.
#[derive(Debug, Default)]
struct Seen {
    found: usize,
    taken: Option<Nonce>,
    left: bool,
}

/// The lowest of each lane, then the second of each lane; lanes in the order in which they were
/// asked for.
fn in_turns(from: &[InFlightFrom], candidates: Vec<Candidate>) -> Vec<Candidate> {
    let places: HashMap<Lane, usize> =
        from.iter().enumerate().map(|(place, from)| (from.lane, place)).collect();
    let place = |it: &Candidate| places.get(&it.lane).copied().unwrap_or(usize::MAX);
    let mut candidates: Vec<(usize, Candidate)> =
        candidates.into_iter().map(|candidate| (place(&candidate), candidate)).collect();
    candidates.sort_unstable_by_key(|(place, it)| (*place, it.nonce));
    let (mut last, mut turn) = (None, 0_usize);
    let mut turns: Vec<(usize, Candidate)> = Vec::with_capacity(candidates.len());
    for (place, candidate) in candidates {
        turn = if last == Some(place) { turn + 1 } else { 0 };
        last = Some(place);
        turns.push((turn, candidate));
    }
    turns.sort_by_key(|(turn, _)| *turn);
    turns.into_iter().map(|(_, candidate)| candidate).collect()
}

#[cfg(test)]
mod tests {
    use stile_domain::{Address, ChainId};
    use uuid::Uuid;

    use super::*;

    fn lane(number: u8) -> Lane {
        Lane::new(ChainId::new(1).unwrap(), Address::repeat_byte(number))
    }

    fn id(lane: u8, nonce: Nonce) -> TxId {
        TxId(Uuid::from_u128(u128::from(lane) << 64 | u128::from(nonce)))
    }

    fn from(number: u8, nonce: Nonce) -> InFlightFrom {
        InFlightFrom { lane: lane(number), nonce }
    }

    fn candidates(all: &[(u8, Nonce, u64)]) -> Vec<Candidate> {
        let candidate = |(number, nonce, raw_bytes): &(u8, Nonce, u64)| Candidate {
            lane: lane(*number),
            nonce: *nonce,
            id: id(*number, *nonce),
            raw_bytes: *raw_bytes,
        };
        all.iter().map(candidate).collect()
    }

    #[test]
    fn hole_36_a_page_is_cut_by_rows_and_bytes_lowest_nonces_of_all_lanes_first() {
        type Case = (
            &'static str,
            usize,
            PageLimit,
            &'static [(u8, Nonce, u64)],
            &'static [(u8, Nonce)],
            &'static [(u8, Nonce)],
            &'static [(u8, Nonce)],
        );
        let wide = PageLimit { rows: 10, bytes: 1_000_000 };
        let cases: [Case; 7] = [
            ("nothing in flight", 5, wide, &[], &[], &[], &[]),
            (
                "all fits, lanes in turns",
                5,
                wide,
                &[(1, 3, 1), (1, 4, 1), (2, 0, 1), (2, 9, 1), (2, 10, 1)],
                &[(1, 3), (2, 0), (1, 4), (2, 9), (2, 10)],
                &[],
                &[],
            ),
            (
                "a lane with as many as were asked for may have more",
                2,
                wide,
                &[(1, 3, 1), (1, 4, 1), (2, 0, 1)],
                &[(1, 3), (2, 0), (1, 4)],
                &[],
                &[(1, 5)],
            ),
            (
                "rows",
                5,
                PageLimit { rows: 2, ..wide },
                &[(1, 3, 1), (1, 4, 1), (2, 0, 1), (3, 7, 1)],
                &[(1, 3), (2, 0)],
                &[(3, 0)],
                &[(1, 4)],
            ),
            (
                "bytes",
                5,
                PageLimit { bytes: 30 * SIZE_PER_RAW_BYTE, ..wide },
                &[(1, 3, 10), (2, 0, 20), (2, 1, 10), (3, 7, 10)],
                &[(1, 3), (2, 0)],
                &[(3, 0)],
                &[(2, 1)],
            ),
            (
                "one is answered however large, and a small one does not overtake a large one",
                5,
                PageLimit { bytes: 1, ..wide },
                &[(1, 3, 100), (2, 0, 100), (3, 7, 0)],
                &[(1, 3)],
                &[(2, 0), (3, 0)],
                &[],
            ),
            (
                "no room at all is room for one",
                5,
                PageLimit { rows: 0, bytes: 0 },
                &[(2, 4, 1)],
                &[(2, 4)],
                &[],
                &[],
            ),
        ];
        for (case, per_lane, limit, given, taken, unread, more) in cases {
            let lanes = [from(1, 0), from(2, 0), from(3, 0)];
            let ids = taken.iter().map(|(lane, nonce)| id(*lane, *nonce)).collect();
            let listed = |lanes: &[(u8, Nonce)]| lanes.iter().map(|(l, n)| from(*l, *n)).collect();
            let expected = Cut { ids, unread: listed(unread), more: listed(more) };
            assert_eq!(cut(&lanes, per_lane, candidates(given), limit), expected, "{case}");
        }
    }

    #[test]
    fn hole_36_pages_together_have_everything_once() {
        let all: Vec<(u8, Nonce, u64)> = (1..=7)
            .flat_map(|lane| (0..u64::from(lane) * 3).map(move |n| (lane, n * 2, n % 4 * 50)))
            .collect();
        let limit = PageLimit { rows: 5, bytes: 400 };
        let mut left: Vec<InFlightFrom> = (1..=7).map(|number| from(number, 0)).collect();
        let mut read = Vec::new();
        while !left.is_empty() {
            let per_lane = candidates_per_lane(left.len(), limit);
            let mut given = Vec::new();
            for from in &left {
                let of_lane = candidates(&all).into_iter();
                let of_lane = of_lane.filter(|it| it.lane == from.lane && it.nonce >= from.nonce);
                given.extend(of_lane.take(per_lane));
            }
            let page = cut(&left, per_lane, given, limit);
            assert!(page.ids.len() <= limit.rows);
            read.extend(page.ids);
            left = [page.unread, page.more].concat();
        }
        let mut expected: Vec<TxId> =
            all.iter().map(|(lane, nonce, _)| id(*lane, *nonce)).collect();
        expected.sort_unstable();
        read.sort_unstable();
        assert_eq!(read, expected);
    }
}
