//! The database is for its owner alone, and so is all that is beside it.

use std::fs::{File, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::StoreError;

/// What every file that the store makes is created with.
pub(super) const MODE: u32 = 0o600;

/// What is beside a database. The log and its index are made by SQLite, with the mode of the database.
const BESIDE: [&str; 5] = ["", "-wal", "-shm", ".lock", ".origin"];

/// Makes the database file, if there is none, for its owner alone.
pub(super) fn make(database: &Path) -> Result<(), StoreError> {
    match File::options().write(true).create_new(true).mode(MODE).open(database) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            let why = format!("cannot open {}: {error}", database.display());
            Err(StoreError::Unavailable(why))
        }
        _ => Ok(()),
    }
}

/// Takes everybody else's rights away where an earlier version, or whoever copied the file, left them
/// some.
pub(super) fn keep(database: &Path) {
    for end in BESIDE {
        let mut path = database.as_os_str().to_owned();
        path.push(end);
        tighten(&PathBuf::from(path));
    }
}

/// Somebody else's file stays as it is; that is told.
fn tighten(file: &Path) {
    let Ok(found) = std::fs::metadata(file) else { return };
    let mode = found.permissions().mode() & 0o777;
    if mode & 0o077 == 0 {
        return;
    }
    let path = file.display();
    match std::fs::set_permissions(file, Permissions::from_mode(mode & 0o700)) {
        Ok(()) => {
            tracing::warn!("{path} could be read by others (its mode was {mode:04o}); no longer")
        }
        Err(error) => tracing::warn!(%error, "{path} can be read by others: run chmod 600 {path}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hole_47_a_database_is_for_its_owner_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("stile.db");
        let mode = |end: &str| {
            let found = std::fs::metadata(format!("{}{end}", path.display())).unwrap();
            found.permissions().mode() & 0o777
        };
        make(&path).unwrap();
        keep(&path);
        assert_eq!(mode(""), 0o600);
        for end in BESIDE {
            let file = format!("{}{end}", path.display());
            std::fs::write(&file, "").unwrap();
            std::fs::set_permissions(&file, Permissions::from_mode(0o664)).unwrap();
        }
        make(&path).unwrap();
        keep(&path);
        for end in BESIDE {
            assert_eq!(mode(end), 0o600, "stile.db{end}");
        }
        assert!(make(&directory.path().join("nowhere/stile.db")).is_err());
    }
}
