//! One server at a time.

use std::fs::{File, TryLockError};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::private;
use crate::StoreError;

/// An operating system's lock on a file beside the database. It ends with the process, however
/// that ends. Other commands do without it and write in short transactions.
#[derive(Debug)]
pub(super) struct ServerLock {
    file: File,
}

impl ServerLock {
    pub(super) fn take(database: &Path) -> Result<Self, StoreError> {
        let mut path = database.as_os_str().to_owned();
        path.push(".lock");
        let unavailable = |e: std::io::Error| {
            StoreError::Unavailable(format!("cannot lock {}: {e}", path.to_string_lossy()))
        };
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(private::MODE)
            .open(&path)
            .map_err(unavailable)?;
        match file.try_lock() {
            Ok(()) => {
                file.set_len(0).map_err(unavailable)?;
                write!(file, "process {}", std::process::id()).map_err(unavailable)?;
                Ok(Self { file })
            }
            Err(TryLockError::WouldBlock) => {
                let mut by = String::new();
                let known = file.read_to_string(&mut by).is_ok() && !by.is_empty();
                Err(StoreError::InUse {
                    path: database.display().to_string(),
                    by: if known { by } else { "another process".into() },
                })
            }
            Err(TryLockError::Error(error)) => Err(unavailable(error)),
        }
    }
}

/// A process that is being started by this one has a copy of the descriptor for a moment, and with
/// it the lock: closing the file would not end that.
impl Drop for ServerLock {
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_of_the_descriptor_does_not_keep_the_lock() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("stile.db");
        let first = ServerLock::take(&path).unwrap();
        assert!(matches!(ServerLock::take(&path), Err(StoreError::InUse { .. })));
        let copy = first.file.try_clone().unwrap();
        drop(first);
        ServerLock::take(&path).unwrap();
        drop(copy);
    }
}
