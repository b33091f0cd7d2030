//! What a caller is told when a transaction is not taken.

use std::time::Duration;

use stile_domain::{Lane, PayloadError};
use stile_store::{StoreError, Tx};

use crate::NonceError;

/// Why a transaction was not taken. Nothing was written, unless said otherwise.
#[derive(Debug, Clone, thiserror::Error)]
pub enum TxError {
    /// Stile has no key for this signer.
    #[error("there is no key for {}: it has bare nonces only", lane.signer)]
    NoKey {
        /// The lane.
        lane: Lane,
    },
    /// No endpoint is configured for the chain.
    #[error("chain {} has no endpoints, so nothing can be sent to it", lane.chain)]
    NoChain {
        /// The lane.
        lane: Lane,
    },
    /// No chain would take it.
    #[error(transparent)]
    Payload(#[from] PayloadError),
    /// Its execution would be reverted.
    #[error("the estimate says that it would be reverted: {reason}")]
    EstimationReverted {
        /// The contract's words, where it has any.
        reason: String,
        /// What the contract returned, in hexadecimal.
        data: Option<String>,
    },
    /// The chain's nodes refuse to estimate it.
    #[error("its gas could not be estimated: {0}")]
    EstimationFailed(String),
    /// The request id belongs to another request.
    #[error("the request id belongs to transaction {}, which is a different request", tx.id)]
    RequestIdReused {
        /// That transaction.
        tx: Box<Tx>,
    },
    /// What bare nonces share with transactions: queues, leases, the store.
    #[error(transparent)]
    Lane(#[from] NonceError),
}

impl TxError {
    /// How long to wait before trying again; `None` if trying again is pointless.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Lane(error) => error.retry_after(),
            _ => None,
        }
    }
}

impl From<StoreError> for TxError {
    fn from(error: StoreError) -> Self {
        Self::Lane(error.into())
    }
}
