//! What V1's rows become.
//!
//! | V1 says | below the chain's count | at or above it |
//! |---|---|---|
//! | `USED` with a hash | `CONSUMED`; a person is told if that hash is not on chain | `CONSUMED`, to be mined still; a person is told if no endpoint knows it |
//! | `USED` without one, `RESERVED`, anything else | `CONSUMED`: the chain shows it used | `SUSPECT`: it may be on the wire |
//! | `RECYCLABLE` | `CONSUMED`, by whoever | `RELEASED`: given out again first |
//! | nothing, below V1's next | nothing: it is over | `SUSPECT`: nobody can say |
//!
//! The cursor goes past everything that V1 gave out and everything on chain. Nothing becomes a
//! transaction: V1 never knew what its callers sent.

use alloy_primitives::B256;

use super::{V1Lane, V1Nonce, V1Status, hold_id};
use crate::{HoldId, HoldStatus, Lane, Nonce};

/// What the endpoints say of a transaction that V1 names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sighting {
    /// It is in a canonical block.
    Mined,
    /// It is in a pool.
    Pooled,
    /// No endpoint knows it.
    Unknown,
}

/// A nonce as it goes into Stile's ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedNonce {
    /// The nonce.
    pub nonce: Nonce,
    /// The hold that has it.
    pub hold: HoldId,
    /// Where the hold stands.
    pub status: HoldStatus,
    /// The transaction, by V1's word.
    pub tx_hash: Option<B256>,
    /// Where that comes from.
    pub reason: &'static str,
}

/// Why a person has to look at a nonce.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Concern {
    /// V1 names a transaction for it; the chain has another one there.
    OtherOnChain,
    /// V1 says that it was sent; no endpoint knows the transaction.
    Vanished,
    /// V1 gave it out and was not told what became of it.
    Silent,
    /// V1 says that it was used, and not by what.
    Unnamed,
    /// V1 has no row for it, though it gave out later ones.
    Missing,
    /// V1 has a status for it that V1 does not know.
    Strange,
}

impl Concern {
    /// What is the matter, and what to do.
    pub fn words(self) -> &'static str {
        match self {
            Self::OtherOnChain => {
                "V1 names a transaction that is not on chain, and the nonce is used: another one took its place. \
                 If what V1's caller wanted is still to happen, it has to be sent again"
            }
            Self::Vanished => {
                "V1 says that it was sent, but no endpoint knows the transaction: nothing above it is mined until it is. \
                 Send it again from where it was signed"
            }
            Self::Silent => {
                "V1 gave it out and heard no more: it may be on the wire. It settles once it is mined; if it was \
                 never sent, mark the hold recyclable"
            }
            Self::Unnamed => {
                "V1 says that it was used, and has no hash: it may be on the wire. It settles once it is mined; if it \
                 was never sent, mark the hold recyclable"
            }
            Self::Missing => {
                "V1 has no row for it, though it gave out later ones: nobody can say whether it was sent. It settles \
                 once it is mined; if it was never sent, mark the hold recyclable"
            }
            Self::Strange => {
                "V1 has a status for it that means nothing to Stile: it may be on the wire. It settles once it is \
                 mined; if it was never sent, mark the hold recyclable"
            }
        }
    }
}

/// What one kind of V1's nonces became.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Became {
    /// Where it stood; `None`: V1 had no row for it.
    pub from: Option<V1Status>,
    /// Where it stands.
    pub to: HoldStatus,
}

/// A signer of V1's as it goes into Stile's store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneImport {
    /// The ledger, lowest nonce first.
    pub nonces: Vec<ImportedNonce>,
    /// What each was, in the same order.
    pub became: Vec<Became>,
    /// The next fresh nonce.
    pub cursor: Nonce,
    /// The chain's count.
    pub latest: Nonce,
    /// What a person has to look at.
    pub concerns: Vec<(Nonce, Concern)>,
}

/// Why a signer's rows cannot be imported as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// More nonces without a row than anybody could look at.
    #[error(
        "V1 has no rows for {missing} nonces between the chain's count, {latest}, and its own next one, {end}: its \
         state looks wrong. Correct next_local_nonce, or the stray rows far above the others, in V1"
    )]
    TooManyMissing {
        /// How many.
        missing: u64,
        /// The chain's count.
        latest: Nonce,
        /// V1's next nonce.
        end: Nonce,
    },
}

/// Nonces without a row beyond which the state is taken for wrong.
pub const MOST_MISSING: u64 = 10_000;

/// Turns what V1 knows into Stile's ledger. `latest` is the chain's count of the account, asked after
/// V1 had stopped; `sighted` says what the endpoints know of a transaction.
pub fn import(
    lane: Lane,
    v1: &V1Lane,
    latest: Nonce,
    sighted: impl Fn(&B256) -> Sighting,
) -> Result<LaneImport, ImportError> {
    let end = v1.end();
    let open = v1.nonces.partition_point(|nonce| nonce.nonce < latest);
    let missing = end.saturating_sub(latest) - (v1.nonces.len() - open) as u64;
    if missing > MOST_MISSING {
        return Err(ImportError::TooManyMissing { missing, latest, end });
    }
    let mut import = LaneImport {
        nonces: Vec::with_capacity(v1.nonces.len() + missing as usize),
        became: Vec::with_capacity(v1.nonces.len() + missing as usize),
        cursor: end.max(latest),
        latest,
        concerns: Vec::new(),
    };
    for nonce in &v1.nonces[..open] {
        import.add(lane, nonce.nonce, Some(nonce.status), below(nonce, &sighted));
    }
    let mut rest = v1.nonces[open..].iter().peekable();
    for number in latest..end {
        match rest.next_if(|nonce| nonce.nonce == number) {
            Some(nonce) => {
                import.add(lane, number, Some(nonce.status), above(nonce, &sighted));
            }
            None => import.add(
                lane,
                number,
                None,
                (HoldStatus::Suspect, None, "no row in V1", Some(Concern::Missing)),
            ),
        }
    }
    Ok(import)
}

type Fate = (HoldStatus, Option<B256>, &'static str, Option<Concern>);

/// What a nonce becomes that the chain shows used.
fn below(nonce: &V1Nonce, sighted: &impl Fn(&B256) -> Sighting) -> Fate {
    let consumed = |reason| (HoldStatus::Consumed, None, reason, None);
    match (nonce.status, nonce.tx_hash) {
        (V1Status::Used, Some(hash)) => match sighted(&hash) {
            Sighting::Mined => (HoldStatus::Consumed, Some(hash), "V1: USED; seen on chain", None),
            _ => (
                HoldStatus::Consumed,
                Some(hash),
                "V1: USED; another transaction is on chain",
                Some(Concern::OtherOnChain),
            ),
        },
        (V1Status::Used, None) => consumed("V1: USED without a hash; the chain shows it used"),
        (V1Status::Reserved, _) => consumed("V1: RESERVED; the chain shows it used"),
        (V1Status::Recyclable, _) => consumed("V1: RECYCLABLE; the chain shows it used"),
        (V1Status::Unknown, _) => consumed("V1: unknown status; the chain shows it used"),
    }
}

/// What a nonce becomes that is not mined.
fn above(nonce: &V1Nonce, sighted: &impl Fn(&B256) -> Sighting) -> Fate {
    let suspect = |reason, concern| (HoldStatus::Suspect, None, reason, Some(concern));
    match (nonce.status, nonce.tx_hash) {
        (V1Status::Used, Some(hash)) => {
            let vanished = sighted(&hash) == Sighting::Unknown;
            let concern = vanished.then_some(Concern::Vanished);
            (HoldStatus::Consumed, Some(hash), "V1: USED; to be mined", concern)
        }
        (V1Status::Used, None) => suspect("V1: USED without a hash", Concern::Unnamed),
        (V1Status::Reserved, _) => suspect("V1: RESERVED", Concern::Silent),
        (V1Status::Recyclable, _) => (HoldStatus::Released, None, "V1: RECYCLABLE", None),
        (V1Status::Unknown, _) => suspect("V1: unknown status", Concern::Strange),
    }
}

impl LaneImport {
    fn add(&mut self, lane: Lane, nonce: Nonce, from: Option<V1Status>, fate: Fate) {
        let (status, tx_hash, reason, concern) = fate;
        let hold = hold_id(lane, nonce);
        self.nonces.push(ImportedNonce { nonce, hold, status, tx_hash, reason });
        self.became.push(Became { from, to: status });
        self.concerns.extend(concern.map(|concern| (nonce, concern)));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Address, ChainId};
    use HoldStatus::{Consumed, Released, Suspect};
    use V1Status::{Recyclable, Reserved, Unknown, Used};

    fn lane() -> Lane {
        Lane::new(ChainId::new(1).unwrap(), Address::repeat_byte(7))
    }

    fn row(nonce: Nonce, status: V1Status, hash: Option<u8>) -> V1Nonce {
        V1Nonce { nonce, status, tx_hash: hash.map(B256::repeat_byte) }
    }

    fn of(rows: Vec<V1Nonce>, next: Option<Nonce>, latest: Nonce) -> LaneImport {
        // By the hash's first digit, so that each test says what it wants.
        let sighted = |hash: &B256| match hash[0] >> 4 {
            0 => Sighting::Mined,
            1 => Sighting::Pooled,
            _ => Sighting::Unknown,
        };
        import(lane(), &V1Lane { next_local_nonce: next, nonces: rows }, latest, sighted).unwrap()
    }

    fn statuses(import: &LaneImport) -> Vec<(Nonce, HoldStatus)> {
        import.nonces.iter().map(|nonce| (nonce.nonce, nonce.status)).collect()
    }

    #[test]
    fn what_the_chain_shows_used_is_consumed_whatever_v1_says() {
        let rows = vec![
            row(0, Used, Some(0x01)),
            row(1, Used, Some(0x21)),
            row(2, Used, None),
            row(3, Reserved, None),
            row(4, Recyclable, None),
            row(5, Unknown, None),
        ];
        let import = of(rows, Some(6), 6);
        assert!(import.nonces.iter().all(|nonce| nonce.status == Consumed));
        assert_eq!(import.nonces[0].tx_hash, Some(B256::repeat_byte(0x01)));
        assert_eq!(import.concerns, [(1, Concern::OtherOnChain)]);
        assert_eq!(import.cursor, 6);
    }

    #[test]
    fn what_is_not_mined_is_given_to_nobody_unless_v1_gave_it_back() {
        let rows = vec![
            row(5, Used, Some(0x11)),
            row(6, Used, Some(0x22)),
            row(7, Used, None),
            row(8, Reserved, None),
            row(9, Recyclable, None),
            row(10, Unknown, None),
        ];
        let import = of(rows, Some(11), 5);
        let expected = [
            (5, Consumed),
            (6, Consumed),
            (7, Suspect),
            (8, Suspect),
            (9, Released),
            (10, Suspect),
        ];
        assert_eq!(statuses(&import), expected);
        let concerns = [
            (6, Concern::Vanished),
            (7, Concern::Unnamed),
            (8, Concern::Silent),
            (10, Concern::Strange),
        ];
        assert_eq!(import.concerns, concerns);
    }

    #[test]
    fn a_nonce_without_a_row_is_suspect_if_it_is_open() {
        let import = of(vec![row(0, Used, Some(1)), row(4, Used, Some(0x11))], Some(6), 2);
        assert_eq!(
            statuses(&import),
            [(0, Consumed), (2, Suspect), (3, Suspect), (4, Consumed), (5, Suspect)]
        );
        assert!(import.concerns.contains(&(3, Concern::Missing)));
        assert_eq!(import.became[1], Became { from: None, to: Suspect });
    }

    #[test]
    fn the_cursor_is_past_all_three() {
        assert_eq!(of(vec![], None, 4).cursor, 4);
        assert_eq!(of(vec![], Some(9), 9).cursor, 9);
        assert_eq!(of(vec![row(3, Used, Some(1))], Some(2), 0).cursor, 4);
        assert_eq!(of(vec![row(3, Used, Some(1))], Some(8), 0).cursor, 8);
        assert_eq!(of(vec![row(3, Used, Some(1))], Some(4), 7).cursor, 7);
    }

    #[test]
    fn a_state_that_cannot_be_is_left_to_a_person() {
        let far = V1Lane { next_local_nonce: Some(1 << 40), nonces: vec![] };
        let refused = import(lane(), &far, 0, |_| Sighting::Unknown);
        assert!(matches!(refused, Err(ImportError::TooManyMissing { .. })));
    }

    proptest! {
        /// Every nonce that V1 gave out and every open one below the cursor is accounted for, once;
        /// none is given out again but what V1 gave back and the chain has not used.
        #[test]
        fn every_nonce_is_accounted_for(
            rows in proptest::collection::btree_map(0_u64..40, (0_u8..4, proptest::option::of(0_u8..0x30)), 0..40),
            next in proptest::option::of(0_u64..45),
            latest in 0_u64..45,
        ) {
            let status = |n| [Reserved, Used, Recyclable, Unknown][usize::from(n)];
            let nonces: Vec<V1Nonce> =
                rows.iter().map(|(nonce, (s, hash))| row(*nonce, status(*s), *hash)).collect();
            let import = of(nonces.clone(), next, latest);
            let known: Vec<Nonce> = import.nonces.iter().map(|nonce| nonce.nonce).collect();
            prop_assert!(known.windows(2).all(|pair| pair[0] < pair[1]));
            for nonce in &nonces {
                prop_assert!(known.contains(&nonce.nonce));
            }
            for nonce in latest..import.cursor {
                prop_assert!(known.contains(&nonce));
            }
            prop_assert!(known.iter().all(|nonce| *nonce < import.cursor));
            for nonce in import.nonces.iter().filter(|nonce| nonce.status == Released) {
                prop_assert!(nonce.nonce >= latest);
                prop_assert_eq!(status(rows[&nonce.nonce].0), Recyclable);
            }
        }
    }
}
