//! Encrypted key files, version 3, as geth and `cast wallet` write them.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use zeroize::Zeroizing;

/// Why a key file could not be opened. It says nothing of what is in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeystoreError {
    /// The file cannot be read.
    #[error("cannot read the key file {}: {why}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        why: String,
    },
    /// It is not an encrypted key of version 3.
    #[error("is not an encrypted key file of version 3: {0}")]
    NotAKeystore(&'static str),
    /// It does not open.
    #[error("the password does not open the key file")]
    WrongPassword,
    /// What is inside is not a private key.
    #[error("what is in the key file is not a private key")]
    NotAKey,
}

/// As much of the file as it takes to know that it can be opened.
#[derive(Deserialize)]
struct Keystore {
    #[serde(default)]
    version: u64,
    crypto: Crypto,
}

#[derive(Deserialize)]
struct Crypto {
    cipher: String,
    ciphertext: String,
    cipherparams: CipherParams,
    kdfparams: KdfParams,
}

#[derive(Deserialize)]
struct CipherParams {
    iv: String,
}

#[derive(Deserialize)]
struct KdfParams {
    dklen: u64,
    #[serde(default)]
    n: Option<u64>,
    #[serde(default)]
    r: Option<u64>,
    #[serde(default)]
    p: Option<u64>,
    #[serde(default)]
    c: Option<u64>,
}

/// The most memory that opening a file may take. geth's own default takes 256 MiB.
const MEMORY_LIMIT: u64 = 1 << 30;

/// The most that scrypt's work may be multiplied by. The usual number is 1.
const PARALLEL_LIMIT: u64 = 64;

/// The most rounds that opening a file may take. The usual number is 262144.
const ROUNDS_LIMIT: u64 = 1 << 26;

/// Decrypts a key file. Takes long by design.
pub(super) fn open(path: &Path, password: &str) -> Result<Zeroizing<Vec<u8>>, KeystoreError> {
    let text = std::fs::read_to_string(path).map_err(|error| KeystoreError::Unreadable {
        path: path.to_owned(),
        why: error.kind().to_string(),
    })?;
    check(&text)?;
    match eth_keystore::decrypt_key(path, password) {
        Ok(key) => Ok(Zeroizing::new(key)),
        Err(eth_keystore::KeystoreError::MacMismatch) => Err(KeystoreError::WrongPassword),
        Err(_) => Err(KeystoreError::NotAKeystore("its parameters are not supported")),
    }
}

/// The library that decrypts takes lengths and costs on trust.
fn check(text: &str) -> Result<(), KeystoreError> {
    use KeystoreError::NotAKeystore;
    let keystore: Keystore =
        serde_json::from_str(text).map_err(|_| NotAKeystore("it has not the right form"))?;
    let Crypto { cipher, ciphertext, cipherparams, kdfparams } = keystore.crypto;
    if keystore.version != 3 {
        return Err(NotAKeystore("it has another version"));
    }
    if cipher != "aes-128-ctr" {
        return Err(NotAKeystore("only the cipher aes-128-ctr is known"));
    }
    if ciphertext.len() != 64 || cipherparams.iv.len() != 32 || kdfparams.dklen != 32 {
        return Err(NotAKeystore("its parts have the wrong length"));
    }
    let memory = kdfparams.n.unwrap_or(1).saturating_mul(kdfparams.r.unwrap_or(1));
    let is_power = kdfparams.n.is_none_or(|n| n.is_power_of_two() && n > 1);
    let too_much = memory.saturating_mul(128) > MEMORY_LIMIT
        || kdfparams.p.is_some_and(|times| times > PARALLEL_LIMIT)
        || kdfparams.c.is_some_and(|rounds| !(1..=ROUNDS_LIMIT).contains(&rounds));
    if !is_power || too_much {
        return Err(NotAKeystore("it would take too long to open"));
    }
    Ok(())
}
