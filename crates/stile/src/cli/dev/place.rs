//! The files in the data directory: which belong together, and starting over.

use std::fs::TryLockError;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use stile_devchain::DevChain;
use stile_store::sqlite::SqliteStore;

use super::super::Failure;

/// What is written beside a database.
const BESIDE_STORE: [&str; 5] = ["", "-wal", "-shm", ".lock", ".origin"];

/// A store and the chain that it belongs to. Nonces and receipts of one chain mean nothing on
/// another, so the two are kept, removed and refused together.
#[derive(Debug)]
pub(super) struct Place {
    store: PathBuf,
    /// `None` if the chain is somewhere else.
    chain: Option<PathBuf>,
    /// Whether there was a store before this start.
    had_store: bool,
}

impl Place {
    /// The files for a chain of our own, or for one that is reached by this URL.
    pub(super) fn new(directory: &Path, rpc_url: Option<&str>) -> Result<Self, Failure> {
        let (store, chain) = match rpc_url {
            None => (directory.join("dev.db"), Some(directory.join("dev.chain"))),
            Some(url) => (directory.join(format!("{}.db", name_of(url)?)), None),
        };
        Ok(Self { store, chain, had_store: false })
    }

    /// The file of the store.
    pub(super) fn store(&self) -> &Path {
        &self.store
    }

    /// The file of the chain, if it is ours.
    pub(super) fn chain(&self) -> Option<&Path> {
        self.chain.as_deref()
    }

    /// Removes both with everything that belongs to them, unless somebody is using one of them.
    pub(super) fn remove(&self) -> Result<(), Failure> {
        if self.store.exists() {
            // Taking the server's lock proves that nobody serves it.
            drop(SqliteStore::open(&self.store, true)?);
        }
        if let Some(chain) = &self.chain {
            check_unused(chain)?;
        }
        let mut files: Vec<PathBuf> = self.chain.iter().cloned().collect();
        files.extend(BESIDE_STORE.iter().map(|suffix| {
            let mut path = self.store.as_os_str().to_owned();
            path.push(suffix);
            PathBuf::from(path)
        }));
        for file in files {
            match std::fs::remove_file(&file) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(format!("cannot remove {}: {error}", file.display()).into());
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Makes the directory, and refuses a store without its chain.
    ///
    /// The chain is always made first, so whoever was killed in between leaves no such store.
    pub(super) fn prepare(&mut self, directory: &Path) -> Result<(), Failure> {
        std::fs::create_dir_all(directory)
            .map_err(|e| format!("cannot make {}: {e}", directory.display()))?;
        self.had_store = self.store.exists();
        match &self.chain {
            Some(chain) if self.had_store && !chain.exists() => Err(apart(&self.store, chain)),
            _ => Ok(()),
        }
    }

    /// Refuses a chain with transactions whose store is gone.
    pub(super) fn check_store(&self, chain: Option<&DevChain>) -> Result<(), Failure> {
        match (&self.chain, chain) {
            (Some(file), Some(chain)) if !self.had_store && chain.has_transactions() => {
                Err(apart(file, &self.store))
            }
            _ => Ok(()),
        }
    }
}

fn apart(present: &Path, missing: &Path) -> Failure {
    format!(
        "{} is there, but {}, which belongs to it, is not\n\
         hint: bring it back, or start over with --fresh",
        present.display(),
        missing.display()
    )
    .into()
}

fn check_unused(file: &Path) -> Result<(), Failure> {
    let Ok(opened) = std::fs::File::open(file) else { return Ok(()) };
    match opened.try_lock() {
        Err(TryLockError::WouldBlock) => {
            Err(format!("{} is in use by another process", file.display()).into())
        }
        _ => {
            let _ = opened.unlock();
            Ok(())
        }
    }
}

/// A name for the store of a chain that is reached by this URL: its host and port. The rest of it
/// may be secret.
fn name_of(url: &str) -> Result<String, Failure> {
    let parsed = reqwest::Url::parse(url).map_err(|e| format!("--rpc-url: {e}"))?;
    let host = parsed.host_str().ok_or("--rpc-url: there is no host in it")?;
    let host: String = host
        .trim_matches(['[', ']'])
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() || letter == '.' { letter } else { '-' })
        .collect();
    let port = parsed.port_or_known_default().unwrap_or_default();
    Ok(format!("rpc-{host}-{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_are_named_for_their_chains_and_tell_no_secrets() {
        for (url, name) in [
            ("http://127.0.0.1:8545", "rpc-127.0.0.1-8545"),
            ("https://user:secret@node.example/key/4711", "rpc-node.example-443"),
            ("ws://[::1]:9000", "rpc---1-9000"),
        ] {
            assert_eq!(name_of(url).unwrap(), name, "{url}");
        }
        assert!(name_of("somewhere").is_err());
    }
}
