//! Signers: what turns an unsigned transaction into bytes that a chain takes.
//!
//! | file | where the key is |
//! |---|---|
//! | [`local`] | in this process, given in hexadecimal |
//! | [`keystore`] | in this process, from an encrypted file |
//! | [`remote`] | elsewhere, behind `eth_signTransaction` |

mod keystore;
mod local;
mod remote;

use std::fmt::Debug;

use alloy::consensus::{TxEip1559, TxLegacy};
use alloy::primitives::{Address, B256, Bytes, TxKind, U256};
use async_trait::async_trait;
use stile_domain::{ChainId, Fees, Nonce};

pub use self::keystore::KeystoreError;
pub use self::local::LocalSigner;
pub use self::remote::RemoteSigner;

/// Signs for one account.
#[async_trait]
pub trait TxSigner: Send + Sync + Debug {
    /// The account.
    fn address(&self) -> Address;

    /// Whether signing is a quick computation in this process.
    fn is_local(&self) -> bool;

    /// Signs exactly this transaction.
    async fn sign(&self, tx: &UnsignedTx) -> Result<SignedTx, SignError>;

    /// The signer as one that computes, so that batches can be signed on a thread for blocking
    /// work.
    fn as_local(&self) -> Option<&LocalSigner> {
        None
    }
}

/// A transaction to be signed. Its fees decide its kind: EIP-1559 or legacy with EIP-155.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsignedTx {
    /// The chain it is for; no other takes it.
    pub chain: ChainId,
    /// The account's nonce.
    pub nonce: Nonce,
    /// Whom it goes to; `None` deploys a contract.
    pub to: Option<Address>,
    /// What it carries, in wei.
    pub value: U256,
    /// Call data, or a contract's code.
    pub data: Bytes,
    /// The most gas it may use.
    pub gas_limit: u64,
    /// What it offers to pay.
    pub fees: Fees,
}

/// A signed transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedTx {
    /// Its hash, by which it is known from here on.
    pub hash: B256,
    /// The bytes that are sent.
    pub raw: Bytes,
}

/// Why there is no signature.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    /// The signer cannot be asked. This may pass.
    #[error("the signer is not available: {0}")]
    Unavailable(String),
    /// The signer will not sign this, or signed something else.
    #[error("the signer refused: {0}")]
    Refused(String),
}

/// A transaction in the form that is hashed and encoded.
pub(crate) enum Form {
    Market(TxEip1559),
    Legacy(TxLegacy),
}

impl UnsignedTx {
    pub(crate) fn form(&self) -> Form {
        let (chain_id, nonce, gas_limit) = (self.chain.get(), self.nonce, self.gas_limit);
        let to = self.to.map_or(TxKind::Create, TxKind::Call);
        let (value, input) = (self.value, self.data.clone());
        match self.fees {
            Fees::Market { max_fee_per_gas, max_priority_fee_per_gas } => Form::Market(TxEip1559 {
                chain_id,
                nonce,
                gas_limit,
                max_fee_per_gas,
                max_priority_fee_per_gas,
                to,
                value,
                access_list: Default::default(),
                input,
            }),
            Fees::Legacy { gas_price } => Form::Legacy(TxLegacy {
                chain_id: Some(chain_id),
                nonce,
                gas_price,
                gas_limit,
                to,
                value,
                input,
            }),
        }
    }
}
