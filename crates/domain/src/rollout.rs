//! Which lanes are Stile's, while they are moved to it one by one.
//!
//! A lane that is named on the list is whose the list says. Of the others those are Stile's whose
//! number is below the chain's share; a chain without a share is Stile's altogether. So where nothing
//! was ever said, everything is.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use alloy_primitives::Address;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::tx::names;
use crate::{ChainId, Lane, UnknownName};

names! {
    /// Whose a lane is, by the list.
    LaneOwner {
        /// Stile gives out its nonces.
        Stile = "stile",
        /// V1 does.
        V1 = "v1",
        /// Nobody does: it was taken from Stile and not given back to V1.
        Stopped = "stopped",
    }
}

names! {
    /// Why Stile gives out none of a lane's nonces.
    Elsewhere {
        /// V1 gives them out.
        V1 = "v1",
        /// It was taken from Stile.
        Stopped = "stopped",
        /// It is not on the list, and its number is not below the chain's share.
        Share = "share",
    }
}

impl Elsewhere {
    /// For the caller who is refused: why, and what to do.
    pub fn words(self) -> &'static str {
        match self {
            Self::V1 => {
                "V1 gives out its nonces. Ask V1, or have an operator move it: stile import-v1 --signer"
            }
            Self::Stopped => {
                "it was taken off Stile's list. An operator gives it back to V1 (stile export-v1) or to Stile \
                 (stile rollout set --add)"
            }
            Self::Share => {
                "it is not on Stile's list and outside of the chain's share. An operator adds it (stile rollout set \
                 --add) or raises the share (stile rollout set --percent)"
            }
        }
    }
}

/// A share of a chain's lanes, in hundredths: 0 to 100.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct Percent(u8);

/// A number that is no share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be a whole number from 0 to 100, not {0}")]
pub struct PercentError(u8);

impl Percent {
    /// Checks the range.
    pub fn new(percent: u8) -> Result<Self, PercentError> {
        if percent > 100 { Err(PercentError(percent)) } else { Ok(Self(percent)) }
    }

    /// The number.
    pub fn get(self) -> u8 {
        self.0
    }

    /// Whether a signer is in it. Whoever is in a share is in every larger one.
    pub fn includes(self, signer: Address) -> bool {
        bucket(signer) < self.0
    }
}

impl TryFrom<u8> for Percent {
    type Error = PercentError;
    fn try_from(percent: u8) -> Result<Self, PercentError> {
        Self::new(percent)
    }
}

impl From<Percent> for u8 {
    fn from(percent: Percent) -> u8 {
        percent.0
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} %", self.0)
    }
}

/// A signer's number, 0 to 99: the same on every machine, in every version, and in the database
/// (`stile_bucket`). Addresses are hashed once more, since some are chosen for how they look.
pub fn bucket(signer: Address) -> u8 {
    let hash = Sha256::digest(signer);
    let number = hash[..3].iter().fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
    (number % 100) as u8
}

/// Which lanes are Stile's, as the database says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rollout {
    /// Rises with every change.
    pub version: u64,
    /// The share of each chain's lanes that are not on the list.
    pub shares: BTreeMap<ChainId, Percent>,
    /// The list.
    pub owners: BTreeMap<Lane, LaneOwner>,
}

impl Rollout {
    /// Why a lane is not Stile's; `None` if it is.
    pub fn elsewhere(&self, lane: Lane) -> Option<Elsewhere> {
        match self.owners.get(&lane) {
            Some(LaneOwner::Stile) => None,
            Some(LaneOwner::V1) => Some(Elsewhere::V1),
            Some(LaneOwner::Stopped) => Some(Elsewhere::Stopped),
            None => {
                let included =
                    self.shares.get(&lane.chain).is_none_or(|share| share.includes(lane.signer));
                (!included).then_some(Elsewhere::Share)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lane(chain: u64, number: u32) -> Lane {
        let mut address = [0; 20];
        address[16..].copy_from_slice(&number.to_be_bytes());
        Lane::new(ChainId::new(chain).unwrap(), Address::from(address))
    }

    fn share(percent: u8) -> Rollout {
        let shares = BTreeMap::from([(ChainId::new(1).unwrap(), Percent::new(percent).unwrap())]);
        Rollout { shares, ..Rollout::default() }
    }

    /// Fixed for all time: the database computes the same.
    #[test]
    fn the_hash_never_changes() {
        let buckets: Vec<u8> = (0..8).map(|number| bucket(lane(1, number).signer)).collect();
        assert_eq!(buckets, [69, 82, 91, 90, 38, 41, 25, 22]);
    }

    #[test]
    fn where_nothing_was_said_everything_is_stiles() {
        assert_eq!(Rollout::default().elsewhere(lane(1, 7)), None);
        assert_eq!(share(0).elsewhere(lane(2, 7)), None, "another chain's share says nothing");
        assert_eq!(share(0).elsewhere(lane(1, 7)), Some(Elsewhere::Share));
    }

    #[test]
    fn the_list_wins_over_the_share() {
        let mut rollout = share(0);
        rollout.owners.insert(lane(1, 1), LaneOwner::Stile);
        assert_eq!(rollout.elsewhere(lane(1, 1)), None);
        let mut rollout = share(100);
        rollout.owners.insert(lane(1, 1), LaneOwner::V1);
        rollout.owners.insert(lane(1, 2), LaneOwner::Stopped);
        assert_eq!(rollout.elsewhere(lane(1, 1)), Some(Elsewhere::V1));
        assert_eq!(rollout.elsewhere(lane(1, 2)), Some(Elsewhere::Stopped));
        assert_eq!(rollout.elsewhere(lane(1, 3)), None);
    }

    #[test]
    fn a_share_is_about_as_large_as_it_says() {
        for percent in [5, 20, 50] {
            let share = Percent::new(percent).unwrap();
            let included = (0..10_000).filter(|number| share.includes(lane(1, *number).signer));
            let found = included.count() / 100;
            assert!(found.abs_diff(usize::from(percent)) <= 2, "{found} of {percent}");
        }
        assert!(Percent::new(101).is_err());
    }

    proptest! {
        /// Raising a share takes no lane away again.
        #[test]
        fn shares_grow(number: u32, small in 0_u8..=100, more in 0_u8..=100) {
            let large = Percent::new(small.saturating_add(more).min(100)).unwrap();
            let small = Percent::new(small).unwrap();
            let signer = lane(1, number).signer;
            prop_assert!(!small.includes(signer) || large.includes(signer));
        }

        #[test]
        fn all_are_in_the_whole(number: u32) {
            prop_assert!(Percent::new(100).unwrap().includes(lane(1, number).signer));
            prop_assert!(!Percent::new(0).unwrap().includes(lane(1, number).signer));
        }
    }
}
