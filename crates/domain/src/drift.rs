//! How a lane stands to its chain.

use crate::{HoldStatus, MAX_NONCE, Nonce, TxState};

/// The most nonces above its mined ones that an account is believed to have on their way when a
/// lane starts. No pool keeps as many for one account; an endpoint that says more is mistaken.
const MOST_PENDING: u64 = 1000;

/// Where a lane's cursor starts: at the count of mined transactions, or past those that are on
/// their way, if the count of those can be right.
pub fn first_cursor(latest: Nonce, pending: Option<Nonce>) -> Nonce {
    let believable = latest..=latest.saturating_add(MOST_PENDING).min(MAX_NONCE);
    pending.filter(|pending| believable.contains(pending)).unwrap_or(latest)
}

/// Who has the nonce that the chain waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadOwner {
    /// A caller who sends by itself.
    Hold(HoldStatus),
    /// A managed transaction.
    Tx(TxState),
    /// A managed transaction that is on record as mined, in a block that the chain does not have.
    Gone,
}

/// How a lane stands to its chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drift {
    /// Everything that was given out is used or on its way.
    InStep,
    /// The chain has more transactions of the account than nonces were given out.
    OutsideUse,
    /// The chain waits for a nonce that is on record as used: it has lost transactions.
    ChainReset,
    /// The chain waits for a nonce that nobody has, or that was given back.
    Gap,
    /// The chain waits for a nonce in the hands of a caller, and others wait behind it.
    HeldUp(HoldStatus),
}

/// Compares a lane with its chain: `latest` is the account's count of mined transactions, read
/// before the `cursor`, and `head` is who has that nonce.
pub fn drift(latest: Nonce, cursor: Nonce, head: Option<HeadOwner>) -> Drift {
    if latest > cursor {
        return Drift::OutsideUse;
    }
    if latest == cursor {
        return Drift::InStep;
    }
    let others_wait = cursor > latest + 1;
    match head {
        None | Some(HeadOwner::Hold(HoldStatus::Released)) => Drift::Gap,
        Some(HeadOwner::Hold(status)) if others_wait => Drift::HeldUp(status),
        Some(HeadOwner::Hold(_)) => Drift::InStep,
        Some(HeadOwner::Tx(TxState::Confirmed | TxState::Failed) | HeadOwner::Gone) => {
            Drift::ChainReset
        }
        Some(HeadOwner::Tx(_)) => Drift::InStep,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_starts_past_what_is_pending_if_that_can_be() {
        assert_eq!(first_cursor(7, None), 7);
        assert_eq!(first_cursor(7, Some(9)), 9);
        for lie in [0, 6, 7 + 1_000_000_000, Nonce::MAX] {
            assert_eq!(first_cursor(7, Some(lie)), 7);
        }
    }

    #[test]
    fn what_was_given_out_and_is_on_its_way_is_in_step() {
        assert_eq!(drift(5, 5, None), Drift::InStep);
        assert_eq!(drift(5, 9, Some(HeadOwner::Tx(TxState::Submitted))), Drift::InStep);
        assert_eq!(drift(5, 9, Some(HeadOwner::Tx(TxState::Tracking))), Drift::InStep);
        assert_eq!(drift(5, 6, Some(HeadOwner::Hold(HoldStatus::Held))), Drift::InStep);
    }

    #[test]
    fn what_is_out_of_step_is_told_apart() {
        assert_eq!(drift(6, 5, None), Drift::OutsideUse);
        assert_eq!(drift(5, 9, Some(HeadOwner::Tx(TxState::Confirmed))), Drift::ChainReset);
        assert_eq!(drift(5, 9, Some(HeadOwner::Gone)), Drift::ChainReset);
        assert_eq!(drift(5, 6, Some(HeadOwner::Gone)), Drift::ChainReset);
        assert_eq!(drift(5, 9, None), Drift::Gap);
        assert_eq!(drift(5, 6, Some(HeadOwner::Hold(HoldStatus::Released))), Drift::Gap);
        for status in [HoldStatus::Held, HoldStatus::Suspect, HoldStatus::Consumed] {
            assert_eq!(drift(5, 9, Some(HeadOwner::Hold(status))), Drift::HeldUp(status));
        }
    }
}
