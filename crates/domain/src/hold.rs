//! Holds: bare nonces in the hands of callers who sign and send by themselves.

use std::fmt;
use std::str::FromStr;

use alloy_primitives::B256;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{Lane, Nonce};

/// A hold's own name. A nonce that is given out again comes with a new hold id, so whoever had it
/// before cannot touch it any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HoldId(pub Uuid);

impl HoldId {
    /// A new id. Random, because a rule has no clock to make it from.
    pub fn fresh() -> Self {
        Self(Uuid::new_v4())
    }
}

impl fmt::Display for HoldId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Where a hold stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum HoldStatus {
    /// With its caller, who may be about to send.
    Held,
    /// Sent, as the caller said or the chain shows. Nothing leads out of it.
    Consumed,
    /// Given back unsent. May be given out again under a new hold id.
    Released,
    /// The caller went silent. Its transaction may or may not be on the wire, so the nonce is
    /// given to nobody until the chain or a person settles it.
    Suspect,
}

impl HoldStatus {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Held, Self::Consumed, Self::Released, Self::Suspect];

    /// The name used in the database, in JSON and in logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Held => "HELD",
            Self::Consumed => "CONSUMED",
            Self::Released => "RELEASED",
            Self::Suspect => "SUSPECT",
        }
    }
}

impl fmt::Display for HoldStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for HoldStatus {
    type Err = UnknownStatus;
    fn from_str(name: &str) -> Result<Self, UnknownStatus> {
        Self::ALL
            .into_iter()
            .find(|status| status.name() == name)
            .ok_or_else(|| UnknownStatus(name.to_owned()))
    }
}

/// A text that names no status.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be HELD, CONSUMED, RELEASED or SUSPECT, not {0:?}")]
pub struct UnknownStatus(String);

/// What becomes of a hold whose caller let its time run out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeldExpiry {
    /// It becomes `SUSPECT`. Safe whatever the caller does later.
    Suspect,
    /// It is released. Only for deployments whose callers promise never to send late.
    Reclaim,
}

/// What can happen to a hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoldEvent {
    /// The caller says it sent a transaction with this nonce.
    Used,
    /// The caller, or an operator, says that nothing was sent and nothing will be.
    Recyclable,
    /// `locked_until` has passed.
    Expired(HeldExpiry),
    /// The account's transaction count on chain is above this nonce.
    SeenOnChain,
}

/// A mark that contradicts what is known already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a {status} hold cannot take {event:?}")]
pub struct IllegalMark {
    /// Where the hold stands.
    pub status: HoldStatus,
    /// What was asked of it.
    pub event: HoldEvent,
}

impl HoldStatus {
    /// The one table of how holds change. The stores' statements are checked against it.
    ///
    /// `Released → Consumed` on the caller's word is allowed on purpose: a caller who finds out
    /// late that its transaction did go out must be able to say so, as long as the nonce has not
    /// been given out again (then the hold id no longer fits, and the mark is refused).
    pub fn after(self, event: HoldEvent) -> Result<Self, IllegalMark> {
        use HoldEvent::{Expired, Recyclable, SeenOnChain, Used};
        use HoldStatus::{Consumed, Held, Released, Suspect};
        match (self, event) {
            (Held | Suspect | Released | Consumed, Used) => Ok(Consumed),
            (Held | Suspect | Released, Recyclable) => Ok(Released),
            (Held, Expired(HeldExpiry::Suspect)) => Ok(Suspect),
            (Held, Expired(HeldExpiry::Reclaim)) => Ok(Released),
            (Suspect | Released | Consumed, SeenOnChain) => Ok(Consumed),
            (status, event) => Err(IllegalMark { status, event }),
        }
    }
}

/// A hold, as callers see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// Its own id.
    pub id: HoldId,
    /// The lane it is on.
    pub lane: Lane,
    /// The nonce.
    pub nonce: Nonce,
    /// Where it stands.
    pub status: HoldStatus,
    /// Until when the caller has the nonce to itself, by the database's clock.
    pub locked_until: Timestamp,
    /// The transaction the caller sent with it, once told.
    pub tx_hash: Option<B256>,
    /// Why it was given back, in the caller's words.
    pub reason: Option<String>,
}

/// Why a hold is `CONSUMED` that had been given back: its nonce was used, and not by its caller.
pub const USED_BY_OTHERS: &str = "given back, and used by somebody else";

impl Hold {
    /// Whether its nonce is nobody's as far as Stile knows: its caller gave it back unsent, and the chain
    /// showed it used all the same. If a reorganisation takes that back, nobody here has anything
    /// to send for it.
    pub fn is_nobodys(&self) -> bool {
        self.status == HoldStatus::Consumed
            && self.tx_hash.is_none()
            && self.reason.as_deref() == Some(USED_BY_OTHERS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_given_back_and_used_by_others_is_nobodys() {
        let hold = |status, tx_hash, reason: &str| Hold {
            id: HoldId::fresh(),
            lane: Lane::new(crate::ChainId::new(1).unwrap(), crate::Address::ZERO),
            nonce: 4,
            status,
            locked_until: Timestamp::UNIX_EPOCH,
            tx_hash,
            reason: Some(reason.to_owned()),
        };
        use HoldStatus::{Consumed, Released};
        for (hold, expected) in [
            (hold(Consumed, None, USED_BY_OTHERS), true),
            (hold(Consumed, None, "the chain shows this nonce used"), false),
            (hold(Consumed, Some(B256::ZERO), USED_BY_OTHERS), false),
            (hold(Released, None, USED_BY_OTHERS), false),
        ] {
            assert_eq!(hold.is_nobodys(), expected, "{hold:?}");
        }
    }

    #[test]
    fn consumed_is_absorbing() {
        for event in [
            HoldEvent::Used,
            HoldEvent::Recyclable,
            HoldEvent::Expired(HeldExpiry::Suspect),
            HoldEvent::Expired(HeldExpiry::Reclaim),
            HoldEvent::SeenOnChain,
        ] {
            if let Ok(next) = HoldStatus::Consumed.after(event) {
                assert_eq!(next, HoldStatus::Consumed, "{event:?}");
            }
        }
    }

    #[test]
    fn time_alone_never_frees_a_nonce_by_default() {
        for status in HoldStatus::ALL {
            let after = status.after(HoldEvent::Expired(HeldExpiry::Suspect));
            assert_ne!(after, Ok(HoldStatus::Released), "{status}");
        }
    }

    #[test]
    fn names_read_back() {
        for status in HoldStatus::ALL {
            assert_eq!(status.name().parse(), Ok(status));
        }
        assert!("held".parse::<HoldStatus>().is_err());
    }
}
