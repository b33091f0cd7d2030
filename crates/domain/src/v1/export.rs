//! What Stile's ledger becomes in V1's tables, and when it cannot go back.
//!
//! V1 gives out recyclable nonces first and then its next one, and never asks the chain. So it may
//! go on only where every nonce below its next one is either used or really free, and where nothing
//! is left that only Stile could see through.

use alloy_primitives::B256;
use uuid::Uuid;

use super::{V1Lane, V1Status, is_imported};
use crate::{HoldStatus, Lane, Nonce};

/// A row of Stile's ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerNonce {
    /// The nonce.
    pub nonce: Nonce,
    /// Whose it is: the id of a hold, or of a transaction.
    pub owner: Uuid,
    /// Where it stands.
    pub status: HoldStatus,
    /// The transaction that used it, as far as is known.
    pub tx_hash: Option<B256>,
}

/// What is open on a lane besides its ledger.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OpenWork {
    /// Transactions that wait for a nonce.
    pub queued: u64,
    /// Transactions that have one and are not mined.
    pub in_flight: u64,
}

/// A row for V1's table of allocations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct V1Write {
    /// The nonce.
    pub nonce: Nonce,
    /// Where it is to stand: used or recyclable.
    pub status: V1Status,
    /// The transaction that used it.
    pub tx_hash: Option<B256>,
}

/// A signer as V1 goes on with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneExport {
    /// The rows, lowest nonce first. Rows of V1's that are not here stay as they are.
    pub nonces: Vec<V1Write>,
    /// V1's next nonce.
    pub next_local_nonce: Nonce,
    /// The chain's count. Whatever V1 still calls recyclable below it is used.
    pub latest: Nonce,
    /// Nonces that V1 had given out before Stile came and that are unsettled still: left as V1 has
    /// them.
    pub unsettled: Vec<Nonce>,
}

/// Why a lane cannot go back now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Blocker {
    /// Transactions wait that V1 would never send.
    #[error(
        "{0} transactions wait for a nonce: V1 would never send them. Cancel them (stile tx cancel)"
    )]
    Queued(u64),
    /// Transactions are on their way that V1 would not send again.
    #[error(
        "{0} transactions are signed and not mined: V1 would not send them again. Wait for them, or cancel them"
    )]
    InFlight(u64),
    /// A caller has a nonce and may be about to send.
    #[error("nonce {0} is in a caller's hands. Wait until the caller has marked it")]
    Held(Nonce),
    /// A caller went silent.
    #[error(
        "nonce {0} is SUSPECT: its caller went silent, and V1 would not know. Wait until it is mined, or mark it"
    )]
    Suspect(Nonce),
}

/// Turns a lane's ledger into V1's rows. The lane gives out nothing any more, and `latest` is the
/// chain's count since. `v1` is what V1's tables still have.
pub fn export(
    lane: Lane,
    ledger: &[LedgerNonce],
    cursor: Nonce,
    open: OpenWork,
    latest: Nonce,
    v1: &V1Lane,
) -> Result<LaneExport, Blocker> {
    if open.in_flight > 0 {
        return Err(Blocker::InFlight(open.in_flight));
    }
    if open.queued > 0 {
        return Err(Blocker::Queued(open.queued));
    }
    let next_local_nonce = cursor.max(latest).max(v1.end());
    let mut export =
        LaneExport { nonces: Vec::new(), next_local_nonce, latest, unsettled: Vec::new() };
    let v1_status = |nonce: Nonce| {
        let place = v1.nonces.binary_search_by_key(&nonce, |known| known.nonce).ok();
        place.map(|place| v1.nonces[place].status)
    };
    let mut write = |nonce, status, tx_hash| export.nonces.push(V1Write { nonce, status, tx_hash });
    let mut expected = latest;
    for row in ledger {
        // What nobody has, neither here nor there, is free.
        while expected < row.nonce {
            if v1_status(expected).is_none() {
                write(expected, V1Status::Recyclable, None);
            }
            expected += 1;
        }
        expected = expected.max(row.nonce + 1);
        match row.status {
            HoldStatus::Consumed => write(row.nonce, V1Status::Used, row.tx_hash),
            _ if row.nonce < latest => write(row.nonce, V1Status::Used, None),
            HoldStatus::Released => write(row.nonce, V1Status::Recyclable, None),
            HoldStatus::Held => return Err(Blocker::Held(row.nonce)),
            HoldStatus::Suspect => {
                let is_v1s = is_imported(lane, row.nonce, row.owner)
                    && matches!(
                        v1_status(row.nonce),
                        Some(V1Status::Reserved | V1Status::Used | V1Status::Unknown)
                    );
                if !is_v1s {
                    return Err(Blocker::Suspect(row.nonce));
                }
                export.unsettled.push(row.nonce);
            }
        }
    }
    for nonce in expected..cursor {
        if v1_status(nonce).is_none() {
            export.nonces.push(V1Write { nonce, status: V1Status::Recyclable, tx_hash: None });
        }
    }
    Ok(export)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::{V1Nonce, hold_id};
    use crate::{Address, ChainId};
    use HoldStatus::{Consumed, Held, Released, Suspect};

    const IDLE: OpenWork = OpenWork { queued: 0, in_flight: 0 };

    fn lane() -> Lane {
        Lane::new(ChainId::new(1).unwrap(), Address::repeat_byte(7))
    }

    fn ours(nonce: Nonce, status: HoldStatus) -> LedgerNonce {
        LedgerNonce { nonce, owner: Uuid::from_u128(9), status, tx_hash: None }
    }

    fn imported(nonce: Nonce, status: HoldStatus) -> LedgerNonce {
        LedgerNonce { owner: hold_id(lane(), nonce).0, ..ours(nonce, status) }
    }

    fn v1(rows: &[(Nonce, V1Status)]) -> V1Lane {
        let nonces = rows.iter();
        let nonces =
            nonces.map(|(nonce, status)| V1Nonce { nonce: *nonce, status: *status, tx_hash: None });
        V1Lane { next_local_nonce: None, nonces: nonces.collect() }
    }

    fn written(export: &LaneExport) -> Vec<(Nonce, V1Status)> {
        export.nonces.iter().map(|row| (row.nonce, row.status)).collect()
    }

    #[test]
    fn used_and_free_nonces_go_back_as_such() {
        let ledger = [ours(0, Consumed), ours(1, Released), ours(2, Consumed), ours(3, Released)];
        let export = export(lane(), &ledger, 6, IDLE, 2, &v1(&[])).unwrap();
        let expected = [
            (0, V1Status::Used),
            // Given back, and then used by whoever.
            (1, V1Status::Used),
            (2, V1Status::Used),
            (3, V1Status::Recyclable),
            // Nobody has them.
            (4, V1Status::Recyclable),
            (5, V1Status::Recyclable),
        ];
        assert_eq!(written(&export), expected);
        assert_eq!(export.next_local_nonce, 6);
    }

    #[test]
    fn the_next_nonce_is_past_the_chain_and_past_v1() {
        assert_eq!(export(lane(), &[], 3, IDLE, 8, &v1(&[])).unwrap().next_local_nonce, 8);
        let rows = v1(&[(11, V1Status::Used)]);
        assert_eq!(export(lane(), &[], 3, IDLE, 3, &rows).unwrap().next_local_nonce, 12);
    }

    #[test]
    fn what_v1_could_not_know_keeps_a_lane_here() {
        let busy = |queued, in_flight| OpenWork { queued, in_flight };
        let none = v1(&[]);
        let of = |ledger: &[LedgerNonce], open| export(lane(), ledger, 5, open, 2, &none);
        assert_eq!(of(&[], busy(0, 2)), Err(Blocker::InFlight(2)));
        assert_eq!(of(&[], busy(1, 0)), Err(Blocker::Queued(1)));
        assert_eq!(of(&[ours(3, Held)], IDLE), Err(Blocker::Held(3)));
        assert_eq!(of(&[ours(4, Suspect)], IDLE), Err(Blocker::Suspect(4)));
        assert!(of(&[ours(1, Held), ours(0, Suspect)], IDLE).is_ok(), "the chain shows both used");
    }

    #[test]
    fn what_v1_gave_out_itself_stays_as_v1_has_it() {
        let rows = v1(&[(3, V1Status::Reserved), (4, V1Status::Used)]);
        let ledger = [imported(3, Suspect), imported(4, Suspect)];
        let export = export(lane(), &ledger, 5, IDLE, 3, &rows).unwrap();
        assert_eq!((written(&export), export.unsettled), (vec![], vec![3, 4]));
        // The same nonce in the hands of one of Stile's callers is another matter.
        let again = super::export(lane(), &[ours(3, Suspect)], 5, IDLE, 3, &rows);
        assert_eq!(again, Err(Blocker::Suspect(3)));
    }
}
