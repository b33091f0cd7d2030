//! Copies of the database that cannot be told from the database by themselves.
//!
//! A copy that was taken while the server ran has the stamp of that start, and a whole directory has
//! the stamp beside it as well. The chain is ahead of such a copy.
//!
//! Fails if nonces are bound before the lane is held against its chain, or if what waits in the copy
//! is sent again.

use std::path::{Path, PathBuf};

use crate::support::{Restore, copy, put_back};

fn origin(file: &Path) -> PathBuf {
    PathBuf::from(format!("{}.origin", file.display()))
}

/// Pays two of five, copies the file, pays the rest, ends the server without a word and puts the copy
/// back.
async fn put_back_after_a_crash(with_origin: bool) {
    let setup = Restore::new().await;
    let directory = tempfile::tempdir().unwrap();
    let (file, backup) = (directory.path().join("stile.db"), directory.path().join("backup.db"));
    let node = setup.file(&file).start().await;
    let txs = setup.pay(&node).await;
    copy(&file, &backup);
    std::fs::copy(origin(&file), origin(&backup)).unwrap();
    setup.confirmed(&node, &txs).await;
    node.kill().await;
    put_back(&backup, &file);
    if with_origin {
        std::fs::copy(origin(&backup), origin(&file)).unwrap();
    }
    let node = setup.file(&file).start().await;
    setup.goes_on(&node, &txs).await;
}

#[tokio::test]
async fn hole_20_a_copy_that_is_put_back_after_a_crash_pays_nobody_twice() {
    put_back_after_a_crash(false).await;
}

#[tokio::test]
async fn hole_20_a_whole_directory_that_is_put_back_pays_nobody_twice() {
    put_back_after_a_crash(true).await;
}
