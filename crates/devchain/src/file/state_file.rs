//! Appending to the file, one process at a time.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use super::record::Record;
use crate::error::DevChainError;

/// The file, locked until this is dropped or the process ends.
#[derive(Debug)]
pub(crate) struct StateFile {
    file: File,
    /// Where the last whole record ends.
    end: u64,
}

impl StateFile {
    /// Opens or makes a file, and returns what is in it.
    pub(crate) fn open(path: &Path) -> Result<(Self, String), DevChainError> {
        let failed = |source| DevChainError::Io { file: path.to_owned(), source };
        let options = &mut OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(path).map_err(failed)?;
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => DevChainError::InUse(path.to_owned()),
            TryLockError::Error(source) => failed(source),
        })?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(failed)?;
        // A torn end may be anything; every whole line is text.
        let text = String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        let end = text.len() as u64;
        Ok((Self { file, end }, text))
    }

    /// Cuts off what comes after so many bytes.
    pub(crate) fn cut(&mut self, end: u64) -> std::io::Result<()> {
        self.end = end;
        self.file.set_len(end)?;
        self.file.seek(SeekFrom::Start(end)).map(drop)
    }

    /// Writes records: all of them, or none if it fails.
    pub(crate) fn append(&mut self, records: &[Record]) -> std::io::Result<()> {
        let mut bytes = Vec::new();
        for record in records {
            serde_json::to_writer(&mut bytes, record)?;
            bytes.push(b'\n');
        }
        if let Err(error) = self.file.write_all(&bytes) {
            // What was written of it would be taken for a torn end anyway.
            let _ = self.cut(self.end);
            return Err(error);
        }
        self.end += bytes.len() as u64;
        Ok(())
    }
}

/// A process that is being started by this one has a copy of the descriptor for a moment, and with
/// it the lock: closing the file would not end that.
impl Drop for StateFile {
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
        let path = directory.path().join("chain");
        let (first, _) = StateFile::open(&path).unwrap();
        assert!(matches!(StateFile::open(&path), Err(DevChainError::InUse(_))));
        let copy = first.file.try_clone().unwrap();
        drop(first);
        StateFile::open(&path).unwrap();
        drop(copy);
    }
}
