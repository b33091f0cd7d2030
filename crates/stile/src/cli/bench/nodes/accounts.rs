//! As many signers as are wanted, with their keys.

use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt;

use stile_chain::{LocalSigner, TxSigner};
use stile_domain::Address;
use tempfile::TempDir;

use crate::cli::Failure;

/// Keys count up from here. Nothing is ever worth anything that belongs to them.
const FIRST_KEY: u128 = 0x5711_e000_0000_0000_0000;

/// Accounts whose keys are in files, for as long as this is there.
pub(in crate::cli::bench) struct Accounts {
    pub(in crate::cli::bench) addresses: Vec<Address>,
    directory: TempDir,
}

impl Accounts {
    /// The first so many: always the same ones.
    pub(in crate::cli::bench) fn new(count: usize) -> Result<Self, Failure> {
        let directory = tempfile::Builder::new().prefix("stile-bench-keys-").tempdir()?;
        let mut addresses = Vec::with_capacity(count);
        for number in 0..count {
            let key = key(number);
            addresses.push(LocalSigner::from_key(&key)?.address());
            let mut options = std::fs::File::options();
            let options = options.write(true).create_new(true).mode(0o600);
            options.open(directory.path().join(number.to_string()))?.write_all(key.as_bytes())?;
        }
        Ok(Self { addresses, directory })
    }

    /// Who signs for one of them.
    pub(super) fn signer(&self, number: usize) -> Result<LocalSigner, Failure> {
        Ok(LocalSigner::from_key(&key(number))?)
    }

    /// The part of a configuration that makes a node sign for all of them.
    pub(super) fn with_keys(&self) -> String {
        let mut text = String::new();
        for number in 0..self.addresses.len() {
            let file = self.directory.path().join(number.to_string());
            // Writing to a string does not fail.
            let _ = writeln!(text, "[[signer]]\nkey = {:?}", format!("file:{}", file.display()));
        }
        text
    }

    /// The part of a configuration that makes a node give out their nonces only.
    pub(super) fn without_keys(&self) -> String {
        let signers = self.addresses.iter();
        signers.map(|address| format!("[[signer]]\naddress = \"{address}\"\n")).collect()
    }
}

fn key(number: usize) -> String {
    format!("0x{:064x}", FIRST_KEY + number as u128)
}
