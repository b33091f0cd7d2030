//! A directory for one child, removed with it.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// Where a child keeps its files.
///
/// The path is `/tmp/…` rather than below `TMPDIR` when `TMPDIR` lies in a place that another user
/// cannot enter, since a test that runs as root starts PostgreSQL as somebody else.
pub(crate) fn directory(purpose: &str) -> TempDir {
    tempfile::Builder::new()
        .prefix(&format!("stile-{purpose}-"))
        .tempdir_in(parent())
        .expect("create a temporary directory")
}

fn parent() -> PathBuf {
    let preferred = std::env::temp_dir();
    if preferred.ancestors().all(is_open_to_everybody) { preferred } else { "/tmp".into() }
}

fn is_open_to_everybody(directory: &Path) -> bool {
    directory.as_os_str().is_empty()
        || directory.metadata().is_ok_and(|data| data.permissions().mode() & 0o001 != 0)
}

/// The user who made the directory, which is the user we run as.
pub(crate) fn owner(directory: &TempDir) -> u32 {
    directory.path().metadata().expect("read the temporary directory").uid()
}
