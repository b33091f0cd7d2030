//! What is open on a lane, as far as its account will be asked to pay for it.

use serde_json::Value;
use stile_domain::{AttemptKind, Fees, Lane, Payload, TxId};

use crate::tx_columns::fees_of;

/// A transaction that waits for its nonce, or has one and is in no block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenCost {
    /// Its name.
    pub id: TxId,
    /// The lane it goes on.
    pub lane: Lane,
    /// What it is to do, without its call data.
    pub payload: Payload,
    /// The gas it may use, if that is known already.
    pub gas_limit: Option<u64>,
    /// Its newest attempt; `None` while it has no nonce.
    pub offer: Option<Offer>,
}

/// What an attempt offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// What it was made for. One that cancels carries no value.
    pub kind: AttemptKind,
    /// What it pays.
    pub fees: Fees,
    /// The gas it may use.
    pub gas_limit: u64,
}

impl Offer {
    /// An attempt's columns. `None` if they cannot be read.
    pub(crate) fn of(kind: &str, fees: &Value, gas_limit: i64) -> Option<Self> {
        let (kind, fees) = (kind.parse().ok()?, fees_of(fees)?);
        Some(Self { kind, fees, gas_limit: gas_limit.unsigned_abs() })
    }
}
