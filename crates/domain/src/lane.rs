//! Lanes: one signer on one chain. Order matters inside a lane and nowhere else.

use std::fmt;
use std::str::FromStr;

use alloy_primitives::Address;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// A chain's id (EIP-155), between 1 and what a signed 64-bit column holds.
///
/// It is written as a number, and read from a number or a text, decimal or hexadecimal: JavaScript
/// rounds numbers above 2^53 - 1, and a text is what was meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(into = "u64")]
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

/// A text that is no chain id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a chain id is a whole number from 1 to 9223372036854775807, or the same as a decimal or 0x text"
)]
pub struct ChainIdTextError;

impl FromStr for ChainId {
    type Err = ChainIdTextError;

    fn from_str(text: &str) -> Result<Self, ChainIdTextError> {
        let (digits, radix) = match text.strip_prefix("0x") {
            Some(digits) => (digits, 16),
            None => (text, 10),
        };
        // A number may have a sign for Rust.
        let are_digits = digits.chars().all(|digit| digit.is_digit(radix));
        let id = u64::from_str_radix(digits, radix).ok().filter(|_| are_digits);
        id.and_then(|id| Self::new(id).ok()).ok_or(ChainIdTextError)
    }
}

impl<'de> Deserialize<'de> for ChainId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Told;

        impl Visitor<'_> for Told {
            type Value = ChainId;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a chain id as a whole number or a text")
            }

            fn visit_u64<E: Error>(self, id: u64) -> Result<ChainId, E> {
                ChainId::new(id).map_err(E::custom)
            }

            fn visit_i64<E: Error>(self, id: i64) -> Result<ChainId, E> {
                let id = u64::try_from(id);
                id.map_err(|_| E::custom(ChainIdTextError)).and_then(|id| self.visit_u64(id))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<ChainId, E> {
                text.parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_any(Told)
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
    fn a_chain_id_is_read_from_a_number_or_a_text_and_never_rounded() {
        let id = 9_007_199_254_740_993;
        for told in ["9007199254740993", "\"9007199254740993\"", "\"0x20000000000001\""] {
            let read: ChainId = serde_json::from_str(told).unwrap();
            assert_eq!(read.get(), id, "{told}");
            assert_eq!(serde_json::to_string(&read).unwrap(), id.to_string());
        }
        for told in [
            "0",
            "-1",
            "1.5",
            "null",
            "\"\"",
            "\"0x\"",
            "\"+1\"",
            "\"0x+1\"",
            "\" 1\"",
            "\"one\"",
            "\"9223372036854775808\"",
            "9223372036854775808",
            "\"0\"",
        ] {
            assert!(serde_json::from_str::<ChainId>(told).is_err(), "{told}");
        }
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
