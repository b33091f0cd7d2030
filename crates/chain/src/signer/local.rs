//! A key in this process.

use std::fmt;
use std::path::Path;

use alloy::consensus::SignableTransaction;
use alloy::eips::eip2718::Encodable2718;
use alloy::primitives::{Address, Bytes, Signature, hex};
use alloy::signers::SignerSync;
use alloy::signers::local::Secp256k1Signer;
use async_trait::async_trait;
use zeroize::Zeroizing;

use super::keystore::{self, KeystoreError};
use super::{Form, SignError, SignedTx, TxSigner, UnsignedTx};
use crate::KeyError;

/// Signs with a key in memory. Shows its address and nothing else.
pub struct LocalSigner {
    signer: Secp256k1Signer,
}

impl LocalSigner {
    /// Takes a private key in hexadecimal, with or without `0x`.
    pub fn from_key(key: &str) -> Result<Self, KeyError> {
        let mut bytes = Zeroizing::new([0; 32]);
        hex::decode_to_slice(key.trim(), bytes.as_mut_slice()).map_err(|_| KeyError)?;
        Self::from_bytes(bytes.as_slice())
    }

    /// Opens an encrypted key file (version 3, as geth and `cast wallet` write it). Takes about a
    /// second of computation by design, so it belongs on a thread for blocking work.
    pub fn from_keystore(path: &Path, password: &str) -> Result<Self, KeystoreError> {
        let key = keystore::open(path, password)?;
        Self::from_bytes(&key).map_err(|_| KeystoreError::NotAKey)
    }

    fn from_bytes(key: &[u8]) -> Result<Self, KeyError> {
        Ok(Self { signer: Secp256k1Signer::from_slice(key).map_err(|_| KeyError)? })
    }

    /// Signs. Blocks for about a tenth of a millisecond of computation.
    pub fn sign_now(&self, tx: &UnsignedTx) -> Result<SignedTx, SignError> {
        match tx.form() {
            Form::Market(tx) => self.sign_form(tx),
            Form::Legacy(tx) => self.sign_form(tx),
        }
    }

    fn sign_form<T>(&self, tx: T) -> Result<SignedTx, SignError>
    where
        T: SignableTransaction<Signature>,
        alloy::consensus::Signed<T>: Encodable2718,
    {
        let signature = self.signer.sign_hash_sync(&tx.signature_hash());
        // The signer's own words could say more than they should.
        let signature = signature.map_err(|_| SignError::Refused("cannot sign".to_owned()))?;
        let signed = tx.into_signed(signature);
        let raw = Bytes::from(signed.encoded_2718());
        Ok(SignedTx { hash: signed.trie_hash(), raw })
    }
}

#[async_trait]
impl TxSigner for LocalSigner {
    fn address(&self) -> Address {
        self.signer.address()
    }

    fn is_local(&self) -> bool {
        true
    }

    async fn sign(&self, tx: &UnsignedTx) -> Result<SignedTx, SignError> {
        self.sign_now(tx)
    }

    fn as_local(&self) -> Option<&LocalSigner> {
        Some(self)
    }
}

impl fmt::Debug for LocalSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LocalSigner({})", self.signer.address())
    }
}
