//! When a released nonce may be given out again.

use crate::{HoldId, Nonce};

/// A nonce that its caller gave back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Released {
    /// The nonce.
    pub nonce: Nonce,
    /// The hold that gave it back; giving it out again is a compare-and-set on this id.
    pub hold: HoldId,
}

/// What is to be done with a released nonce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReuseFate {
    /// Give it to the next caller, before any fresh nonce.
    Offer,
    /// Later nonces are on the wire already and wait for this one. A bare hold would put the whole
    /// lane in the hands of one slow caller, so it is kept for a transaction that Stile sends
    /// itself.
    KeepForStile,
    /// The chain has seen it used after all.
    UsedOnChain,
}

impl ReuseFate {
    /// Decides.
    ///
    /// * `chain_latest`: the account's transaction count at `latest`, read *after* the nonce was
    ///   released; `None` where no chain is asked.
    /// * `highest_consumed`: the highest nonce of the lane that was broadcast.
    /// * `stile_can_sign`: whether Stile has the lane's key. Where it has none there is nobody but
    ///   the next caller to close the gap, and the nonce is offered.
    pub fn of(
        nonce: Nonce,
        chain_latest: Option<Nonce>,
        highest_consumed: Option<Nonce>,
        stile_can_sign: bool,
    ) -> Self {
        if chain_latest.is_some_and(|latest| nonce < latest) {
            Self::UsedOnChain
        } else if stile_can_sign && highest_consumed.is_some_and(|highest| nonce < highest) {
            Self::KeepForStile
        } else {
            Self::Offer
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_chain_has_seen_is_never_offered() {
        assert_eq!(ReuseFate::of(4, Some(5), None, false), ReuseFate::UsedOnChain);
        assert_eq!(ReuseFate::of(4, Some(5), Some(9), true), ReuseFate::UsedOnChain);
        assert_eq!(ReuseFate::of(5, Some(5), None, false), ReuseFate::Offer);
    }

    #[test]
    fn below_broadcast_nonces_only_stile_itself_may_fill() {
        assert_eq!(ReuseFate::of(5, Some(5), Some(6), true), ReuseFate::KeepForStile);
        assert_eq!(ReuseFate::of(7, Some(5), Some(6), true), ReuseFate::Offer);
    }

    #[test]
    fn without_a_key_the_next_caller_is_the_only_one_who_can_close_the_gap() {
        assert_eq!(ReuseFate::of(5, Some(5), Some(6), false), ReuseFate::Offer);
    }
}
