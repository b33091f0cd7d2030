//! A database goes by one name: lock, log and stamp are beside it under that name.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::private;
use crate::StoreError;

/// The name of a database file that is made if there is none. A link leads to the file that it names. A
/// file with a second name of its own (a hard link) is refused: under that name another server would
/// have another lock, and another log of the same file.
pub(super) fn of(path: &Path) -> Result<PathBuf, StoreError> {
    let unavailable = |why: &dyn std::fmt::Display| {
        StoreError::Unavailable(format!("cannot open {}: {why}", path.display()))
    };
    private::make(path)?;
    let name = path.canonicalize().map_err(|error| unavailable(&error))?;
    let names = std::fs::metadata(&name).map_err(|error| unavailable(&error))?.nlink();
    if names > 1 {
        return Err(unavailable(&format!(
            "the file has {names} names (hard links), and a database has to have one: copy the file instead, or \
             remove the other names"
        )));
    }
    private::keep(&name);
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::super::SqliteStore;
    use super::*;

    #[test]
    fn a_second_server_does_not_get_in_by_another_name() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let first = SqliteStore::open(&at("stile.db"), true).unwrap();
        std::os::unix::fs::symlink(at("stile.db"), at("link.db")).unwrap();
        let linked = SqliteStore::open(&at("link.db"), true);
        assert!(matches!(linked, Err(StoreError::InUse { .. })), "{linked:?}");
        std::fs::hard_link(at("stile.db"), at("name.db")).unwrap();
        for name in ["stile.db", "name.db"] {
            let error = SqliteStore::open(&at(name), false).unwrap_err().to_string();
            assert!(error.contains("2 names"), "{error}");
        }
        std::fs::remove_file(at("name.db")).unwrap();
        drop(first);
        SqliteStore::open(&at("link.db"), true).unwrap();
        assert!(!at("link.db.lock").exists(), "all of it is beside the file");
    }
}
