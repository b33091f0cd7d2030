//! Lanes: one signer on one chain. Order matters inside a lane and nowhere else.

use std::fmt;

use alloy_primitives::Address;
use serde::{Deserialize, Serialize};

/// A chain's id (EIP-155), between 1 and what a signed 64-bit column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct ChainId(u64);

/// A number that cannot be a chain id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a chain id is a whole number from 1 to 9223372036854775807, not {0}")]
pub struct LaneError(u64);

impl ChainId {
    /// Checks the range.
    pub fn new(id: u64) -> Result<Self, LaneError> {
        if id == 0 || id > i64::MAX as u64 { Err(LaneError(id)) } else { Ok(Self(id)) }
    }

    /// The number.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl TryFrom<u64> for ChainId {
    type Error = LaneError;
    fn try_from(id: u64) -> Result<Self, LaneError> {
        Self::new(id)
    }
}

impl From<ChainId> for u64 {
    fn from(id: ChainId) -> u64 {
        id.0
    }
}

impl fmt::Display for ChainId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One signer on one chain. Lanes sort by chain, then address: every statement that locks several
/// lane rows does so in this order, so that two of them cannot deadlock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane {
    /// The chain.
    pub chain: ChainId,
    /// The account whose nonces these are.
    pub signer: Address,
}

impl Lane {
    /// A lane.
    pub fn new(chain: ChainId, signer: Address) -> Self {
        Self { chain, signer }
    }

    /// The worker this lane belongs to. The hash (FNV-1a) is unsigned and fixed for all time, so
    /// the same lane meets the same worker on every node and after every restart.
    pub fn worker(&self, worker_count: usize) -> usize {
        const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
        const PRIME: u64 = 0x0000_0100_0000_01b3;
        let bytes = self.chain.0.to_be_bytes().into_iter().chain(self.signer.into_array());
        let hash = bytes.fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME));
        (hash % worker_count.max(1) as u64) as usize
    }
}

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.signer, self.chain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chain_ids_fit_the_column() {
        assert!(ChainId::new(1).is_ok());
        assert!(ChainId::new(i64::MAX as u64).is_ok());
        assert!(ChainId::new(0).is_err());
        assert!(ChainId::new(u64::MAX).is_err());
    }

    #[test]
    fn every_lane_has_a_worker_and_workers_share_the_lanes() -> Result<(), LaneError> {
        let chain = ChainId::new(31337)?;
        let mut lanes_of_worker = [0usize; 16];
        for n in 0..4096u16 {
            let mut bytes = [0u8; 20];
            bytes[18..].copy_from_slice(&n.to_be_bytes());
            lanes_of_worker[Lane::new(chain, Address::from(bytes)).worker(16)] += 1;
        }
        assert!(lanes_of_worker.iter().all(|n| (128..=512).contains(n)), "{lanes_of_worker:?}");
        assert_eq!(Lane::new(chain, Address::ZERO).worker(0), 0);
        Ok(())
    }
}
