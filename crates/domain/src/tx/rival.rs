//! Another transaction at the same nonce.

use alloy_primitives::B256;
use serde::{Deserialize, Serialize};

use super::Successor;

/// A transaction that is on the chain at the nonce of one that Stile manages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rival {
    /// Whose it is.
    pub by: Successor,
    /// Which one; `None` if it was mined too long ago to be found.
    pub tx_hash: Option<B256>,
    /// The height of its block.
    pub block_number: u64,
    /// Its block. It counts only while this is the canonical one at that height.
    pub block_hash: B256,
}
