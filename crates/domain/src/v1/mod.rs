//! Coming from V1, and going back.
//!
//! V1 keeps a row for every nonce it gave out, with a status and, once its caller said so, a hash;
//! it has no payloads, never asked the chain, and does not know what became of anything. So its word
//! is taken for what it is, and the chain's goes before it.
//!
//! | file | the rule in it |
//! |---|---|
//! | [`import`] | what V1's rows become |
//! | [`export`] | what Stile's ledger becomes, and when it cannot go back |

pub mod export;
pub mod import;

use std::fmt;

use alloy_primitives::B256;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::{HoldId, Lane, Nonce};

/// Where a nonce stands by V1's word. Its two sets of tables have names of their own for the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum V1Status {
    /// With a caller: `RESERVED`, or `HELD`.
    Reserved,
    /// Sent: `USED`, or `CONSUMED`.
    Used,
    /// Given back: `RECYCLABLE`, or `RELEASED`.
    Recyclable,
    /// A text that V1 is not known to write.
    Unknown,
}

impl V1Status {
    /// Reads a status of either set.
    pub fn read(text: &str) -> Self {
        match text.trim().to_ascii_uppercase().as_str() {
            "RESERVED" | "HELD" => Self::Reserved,
            "USED" | "CONSUMED" => Self::Used,
            "RECYCLABLE" | "RELEASED" => Self::Recyclable,
            _ => Self::Unknown,
        }
    }
}

impl fmt::Display for V1Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reserved => "RESERVED",
            Self::Used => "USED",
            Self::Recyclable => "RECYCLABLE",
            Self::Unknown => "unknown",
        })
    }
}

/// A nonce as V1 has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct V1Nonce {
    /// The nonce.
    pub nonce: Nonce,
    /// Where it stands.
    pub status: V1Status,
    /// The transaction that used it, if V1 was told one that can be.
    pub tx_hash: Option<B256>,
}

/// What V1 knows of a signer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct V1Lane {
    /// The nonce that V1 would give out next, if it has the signer's state.
    pub next_local_nonce: Option<Nonce>,
    /// Every nonce it has a row for, lowest first.
    pub nonces: Vec<V1Nonce>,
}

impl V1Lane {
    /// The first nonce that V1 has neither given out nor is about to.
    pub fn end(&self) -> Nonce {
        let above = self.nonces.last().map_or(0, |last| last.nonce + 1);
        above.max(self.next_local_nonce.unwrap_or(0))
    }
}

/// The id of the hold that a nonce of V1's becomes: always the same one, so that importing twice
/// writes the same rows.
pub fn hold_id(lane: Lane, nonce: Nonce) -> HoldId {
    let mut hash = Sha256::new_with_prefix(b"stile import-v1");
    hash.update(lane.chain.get().to_be_bytes());
    hash.update(lane.signer);
    hash.update(nonce.to_be_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.finalize()[..16]);
    HoldId(uuid::Builder::from_custom_bytes(bytes).into_uuid())
}

/// Whether a hold is one that was imported from V1, and has been nobody else's since.
pub fn is_imported(lane: Lane, nonce: Nonce, owner: Uuid) -> bool {
    hold_id(lane, nonce).0 == owner
}
