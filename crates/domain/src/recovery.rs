//! Which of the transactions on chain were sent for those that wait.
//!
//! After a restore the chain has transactions that the database does not know any more, and the
//! database has requests of which nobody knows whether they were sent. Two are the same payment if
//! they do the same: same recipient, same value, same data.

use alloy_primitives::{Address, U256};

use crate::{AttemptKind, Fees, Nonce, Payload, TxId};

/// A transaction that waits, in order of acceptance.
#[derive(Debug, Clone, Copy)]
pub struct Waiting<'p> {
    /// Its name.
    pub id: TxId,
    /// What it is to do.
    pub payload: &'p Payload,
}

/// A transaction that the chain has and the database does not.
#[derive(Debug, Clone, Copy)]
pub struct Found<'p> {
    /// Its nonce.
    pub nonce: Nonce,
    /// What it does: recipient, value and data.
    pub payload: &'p Payload,
    /// The gas that it may use.
    pub gas_limit: u64,
    /// What it offers to pay.
    pub fees: Fees,
}

impl Payload {
    /// Whether both do the same on chain, whatever they cost.
    pub fn does_the_same(&self, other: &Self) -> bool {
        self.to == other.to && self.value == other.value && self.data == other.data
    }

    /// Whether it moves nothing: what an account signs to withdraw a transaction.
    fn is_empty_to(&self, signer: Address) -> bool {
        self.to == Some(signer) && self.value == U256::ZERO && self.data.is_empty()
    }
}

/// What a mined transaction is, that the signer of a transaction of ours has signed at its nonce and
/// the record does not know: an attempt of ours that was lost with the database, if it does what ours
/// does or withdraws it. `None` if it does something else: then it is an outsider's.
pub fn lost_attempt(signer: Address, ours: &Payload, mined: &Payload) -> Option<AttemptKind> {
    if mined.does_the_same(ours) {
        Some(AttemptKind::Bump)
    } else if mined.is_empty_to(signer) {
        Some(AttemptKind::Cancel)
    } else {
        None
    }
}

impl Found<'_> {
    /// Whether it was signed at what the request states: a hint, since attempts are raised.
    fn is_as_stated(&self, payload: &Payload) -> bool {
        let stated = payload.gas_limit.is_some() || Fees::given(payload).is_some();
        stated
            && payload.gas_limit.is_none_or(|gas| gas == self.gas_limit)
            && Fees::given(payload).is_none_or(|fees| fees == self.fees)
    }
}

/// Pairs what waits with what was found. Each is in one pair at most, and the two of a pair do the
/// same. Where several do the same, those that were signed as a request states go to that request,
/// and the rest in order of acceptance against rising nonces.
pub fn match_found(waiting: &[Waiting<'_>], found: &[Found<'_>]) -> Vec<(TxId, Nonce)> {
    let mut found: Vec<&Found<'_>> = found.iter().collect();
    found.sort_unstable_by_key(|found| found.nonce);
    let mut pairs: Vec<Option<Nonce>> = vec![None; waiting.len()];
    for by_hint in [true, false] {
        for (pair, waits) in pairs.iter_mut().zip(waiting).filter(|(pair, _)| pair.is_none()) {
            let fits = |found: &&Found<'_>| {
                found.payload.does_the_same(waits.payload)
                    && (!by_hint || found.is_as_stated(waits.payload))
            };
            if let Some(place) = found.iter().position(fits) {
                *pair = Some(found.remove(place).nonce);
            }
        }
    }
    let pairs = waiting.iter().zip(pairs);
    pairs.filter_map(|(waits, nonce)| Some((waits.id, nonce?))).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use alloy_primitives::Bytes;
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    fn pays(to: u8, value: u64) -> Payload {
        Payload {
            to: Some(Address::repeat_byte(to)),
            value: U256::from(value),
            ..Payload::default()
        }
    }

    fn id(number: usize) -> TxId {
        TxId(Uuid::from_u128(number as u128))
    }

    /// Which nonce each of the waiting gets.
    fn matched(waiting: &[Payload], found: &[(Nonce, Payload, u64)]) -> Vec<Option<Nonce>> {
        let waits: Vec<_> = waiting
            .iter()
            .enumerate()
            .map(|(number, payload)| Waiting { id: id(number), payload })
            .collect();
        let fees = Fees::Legacy { gas_price: 7 };
        let found: Vec<_> = found
            .iter()
            .map(|(nonce, payload, gas_limit)| Found {
                nonce: *nonce,
                payload,
                gas_limit: *gas_limit,
                fees,
            })
            .collect();
        let pairs = match_found(&waits, &found);
        let nonce =
            |number| pairs.iter().find(|(of, _)| *of == id(number)).map(|(_, nonce)| *nonce);
        (0..waiting.len()).map(nonce).collect()
    }

    /// What waits, what was found, and which nonce each of the waiting gets.
    type Case = (Vec<Payload>, Vec<(Nonce, Payload, u64)>, Vec<Option<Nonce>>);

    #[test]
    fn the_same_payment_is_found_and_no_other() {
        let data = |byte: u8| Payload { data: Bytes::from(vec![byte]), ..pays(1, 5) };
        let deploys = Payload { to: None, ..data(1) };
        let table: Vec<Case> = vec![
            (vec![pays(1, 5)], vec![], vec![None]),
            (vec![], vec![(3, pays(1, 5), 21_000)], vec![]),
            (vec![pays(1, 5)], vec![(3, pays(1, 5), 21_000)], vec![Some(3)]),
            (vec![pays(1, 5)], vec![(3, pays(1, 6), 21_000)], vec![None]),
            (vec![pays(1, 5)], vec![(3, pays(2, 5), 21_000)], vec![None]),
            (vec![data(1)], vec![(3, data(2), 21_000)], vec![None]),
            (vec![deploys.clone()], vec![(3, data(1), 21_000)], vec![None]),
            (vec![deploys.clone()], vec![(3, deploys, 21_000)], vec![Some(3)]),
            // In order of acceptance against rising nonces, in whatever order they were found.
            (
                vec![pays(1, 5), pays(1, 5), pays(1, 5)],
                vec![(9, pays(1, 5), 21_000), (4, pays(1, 5), 21_000)],
                vec![Some(4), Some(9), None],
            ),
            (
                vec![pays(1, 1), pays(1, 2), pays(1, 3)],
                vec![(5, pays(1, 3), 21_000), (4, pays(1, 1), 21_000)],
                vec![Some(4), None, Some(5)],
            ),
            // What a request states goes before the order, and only as a hint.
            (
                vec![pays(1, 5), Payload { gas_limit: Some(50_000), ..pays(1, 5) }],
                vec![(4, pays(1, 5), 50_000), (5, pays(1, 5), 21_000)],
                vec![Some(5), Some(4)],
            ),
            (
                vec![Payload { gas_limit: Some(50_000), ..pays(1, 5) }],
                vec![(4, pays(1, 5), 60_000)],
                vec![Some(4)],
            ),
            (
                vec![pays(1, 5), Payload { gas_price: Some(7), ..pays(1, 5) }],
                vec![(4, pays(1, 5), 21_000)],
                vec![None, Some(4)],
            ),
        ];
        for (waiting, found, expected) in table {
            assert_eq!(matched(&waiting, &found), expected, "{waiting:?} {found:?}");
        }
    }

    #[test]
    fn hole_20_what_does_the_same_at_the_same_nonce_is_a_lost_attempt() {
        let signer = Address::repeat_byte(9);
        let nothing = Payload { to: Some(signer), ..Payload::default() };
        let data = |byte: u8| Payload { data: Bytes::from(vec![byte]), ..pays(1, 5) };
        let dearer = Payload { gas_price: Some(90), gas_limit: Some(50_000), ..pays(1, 5) };
        for (ours, mined, expected) in [
            (pays(1, 5), pays(1, 5), Some(AttemptKind::Bump)),
            (dearer, pays(1, 5), Some(AttemptKind::Bump)),
            (data(1), data(1), Some(AttemptKind::Bump)),
            (pays(1, 5), nothing.clone(), Some(AttemptKind::Cancel)),
            (data(1), nothing.clone(), Some(AttemptKind::Cancel)),
            // What was empty from the beginning is not withdrawn by being mined.
            (nothing.clone(), nothing.clone(), Some(AttemptKind::Bump)),
            (pays(1, 5), pays(1, 6), None),
            (pays(1, 5), pays(2, 5), None),
            (pays(1, 5), data(1), None),
            (pays(1, 5), Payload { value: U256::from(1), ..nothing.clone() }, None),
            (pays(1, 5), Payload { data: Bytes::from(vec![1]), ..nothing }, None),
            (pays(1, 5), pays(1, 0), None),
            (pays(1, 5), Payload { to: None, ..Payload::default() }, None),
        ] {
            assert_eq!(lost_attempt(signer, &ours, &mined), expected, "{ours:?} {mined:?}");
        }
    }

    proptest! {
        /// Whatever waits and whatever was found: nothing is claimed twice, a pair does the same, and
        /// nothing is left on both sides that would fit.
        #[test]
        fn each_is_claimed_once_and_nothing_that_fits_is_left(
            waiting in proptest::collection::vec((0_u8..3, 0_u64..3, proptest::option::of(1_u64..3)), 0..12),
            found in proptest::collection::btree_map(0_u64..40, (0_u8..3, 0_u64..3, 1_u64..3), 0..12),
        ) {
            let waiting: Vec<Payload> = waiting
                .into_iter()
                .map(|(to, value, gas_limit)| Payload { gas_limit, ..pays(to, value) })
                .collect();
            let found: Vec<_> =
                found.into_iter().map(|(nonce, (to, value, gas))| (nonce, pays(to, value), gas)).collect();
            let matched = matched(&waiting, &found);
            let claimed: Vec<Nonce> = matched.iter().flatten().copied().collect();
            let once: HashSet<Nonce> = claimed.iter().copied().collect();
            prop_assert_eq!(once.len(), claimed.len());
            for (payload, nonce) in waiting.iter().zip(&matched) {
                let mut fitting = found.iter().filter(|(_, found, _)| found.does_the_same(payload));
                match nonce {
                    Some(nonce) => prop_assert!(fitting.any(|(of, ..)| of == nonce)),
                    None => prop_assert!(fitting.all(|(of, ..)| once.contains(of))),
                }
            }
        }
    }
}
