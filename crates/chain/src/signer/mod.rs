//! Signers: what turns an unsigned transaction into bytes that a chain takes.
//!
//! | file | what it is about |
//! |---|---|
//! | [`unsigned`] | what is signed, and what was |
//! | [`local`] | a key in this process, given in hexadecimal |
//! | [`keystore`] | a key in this process, from an encrypted file |
//! | [`remote`] | a key elsewhere, behind `eth_signTransaction` |

mod keystore;
mod local;
mod remote;
mod unsigned;

use std::fmt::Debug;

use alloy::primitives::{Address, B256, Bytes};
use async_trait::async_trait;

pub use self::keystore::KeystoreError;
pub use self::local::LocalSigner;
pub use self::remote::RemoteSigner;
pub(crate) use self::unsigned::Form;
pub use self::unsigned::UnsignedTx;

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
