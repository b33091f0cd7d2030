//! Why a transaction is not taken, in the words of geth, which every client knows.

use alloy_primitives::U256;

/// Why a transaction is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("{0}")]
    Undecodable(String),
    #[error("transaction type not supported: this chain has no {0}")]
    Unsupported(&'static str),
    #[error("invalid sender")]
    InvalidSender,
    #[error("only replay-protected (EIP-155) transactions allowed over RPC")]
    Unprotected,
    #[error("invalid sender: invalid chain id for signer: have {have} want {want}")]
    OtherChain { have: u64, want: u64 },
    #[error("already known")]
    Known,
    #[error("nonce too low: next nonce {next}, tx nonce {nonce}")]
    NonceTooLow { next: u64, nonce: u64 },
    #[error("nonce has max value: tx nonce {0}")]
    NonceMax(u64),
    #[error("replacement transaction underpriced")]
    ReplacementUnderpriced,
    #[error(
        "insufficient funds for gas * price + value: balance {balance}, tx cost {cost}, \
         overshot {}", cost.saturating_sub(*balance)
    )]
    Funds { balance: U256, cost: U256 },
    #[error(
        "insufficient funds for gas * price + value: balance {balance}, queued cost {queued}, \
         tx cost {cost}, overshot {}", queued.saturating_add(*cost).saturating_sub(*balance)
    )]
    QueuedFunds { balance: U256, queued: U256, cost: U256 },
    #[error("intrinsic gas too low: gas {gas}, minimum needed {needed}")]
    IntrinsicGas { gas: u64, needed: u64 },
    #[error("insufficient gas for floor data gas cost: gas {gas}, minimum needed {needed}")]
    FloorGas { gas: u64, needed: u64 },
    #[error("exceeds block gas limit: gas {gas}, limit {limit}")]
    BlockGas { gas: u64, limit: u64 },
    #[error("max initcode size exceeded: code size {size}, limit {limit}")]
    InitCode { size: usize, limit: usize },
    #[error(
        "max priority fee per gas higher than max fee per gas: maxPriorityFeePerGas {tip}, \
         maxFeePerGas {fee}"
    )]
    TipAboveFee { tip: u128, fee: u128 },
    #[error("sender not an eoa: address has code")]
    SenderHasCode,
    #[error("txpool is full")]
    Full,
}
