//! What a caller is told when a transaction is not taken.

use std::time::Duration;

use stile_domain::{
    BalanceTooLow, ChainId, FeeLimitReached, Finality, GasBelowIntrinsic, GasLimitReached, Lane,
    PayloadError,
};
use stile_store::{StoreError, Tx};

use crate::NonceError;
use crate::tx::tags;

/// Why a transaction was not taken. Nothing was written, unless said otherwise.
#[derive(Debug, Clone, thiserror::Error)]
pub enum TxError {
    /// Stile has no key for this signer.
    #[error(
        "there is no key for {} on chain {}, where it has bare nonces only: name that chain in the \
         [[signer]] entry that has the key, or sign by yourself",
        lane.signer, lane.chain
    )]
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
    /// Its caller states a price above the chain's limit.
    #[error("it offers {} wei for a unit of gas, and the limit is {} wei, {}", reached.wanted, reached.limit, basis(*is_set))]
    FeeLimit {
        /// What it states, and what is allowed.
        reached: FeeLimitReached,
        /// Whether that limit is set, or follows what the chain asks for.
        is_set: bool,
    },
    /// No block has room for it.
    #[error(transparent)]
    GasLimit(#[from] GasLimitReached),
    /// No block would have it: its gas limit is below what it costs before anything of it is run.
    #[error(transparent)]
    GasBelowIntrinsic(#[from] GasBelowIntrinsic),
    /// Its account cannot pay for it, together with what is open on its lane.
    #[error(transparent)]
    InsufficientFunds(#[from] BalanceTooLow),
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
    /// The chain has no block that it calls so.
    #[error("chain {chain} calls no block {}, so it would never be done; the chain gives {}", tags::name(*finality), gives(*has_safe))]
    FinalityUnavailable {
        /// The chain.
        chain: ChainId,
        /// What was asked for, or is configured.
        finality: Finality,
        /// Whether it calls blocks safe.
        has_safe: bool,
    },
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

fn gives(has_safe: bool) -> &'static str {
    match has_safe {
        true => "\"safe\" or a number of blocks: {\"confirmations\": n}",
        false => "a number of blocks only: {\"confirmations\": n}",
    }
}

/// Where a limit comes from.
fn basis(is_set: bool) -> &'static str {
    match is_set {
        true => "as max_fee_gwei of the [[chain]] says",
        false => {
            "ten times what the chain asks for now and 100 gwei at least, as its [[chain]] sets no max_fee_gwei"
        }
    }
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
