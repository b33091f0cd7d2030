//! The store a node runs on.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use stile::B256;
use tempfile::TempDir;

use crate::common::{Database, NodeOptions};

/// A store of a test's own.
#[derive(Debug)]
pub(crate) enum Backend {
    Sqlite(TempDir),
    Postgres(Database),
}

impl Backend {
    pub(crate) fn sqlite() -> Self {
        Self::Sqlite(tempfile::tempdir().expect("create a temporary directory"))
    }

    pub(crate) async fn postgres() -> Self {
        Self::Postgres(Database::new().await)
    }

    /// A node that follows this chain and calls a transaction done when one block is on top of its
    /// own. It still needs signers.
    pub(crate) fn node(&self, endpoint: &str) -> NodeOptions {
        let options = match self {
            Self::Sqlite(directory) => NodeOptions::sqlite(&file(directory.path()), &[]),
            Self::Postgres(database) => NodeOptions::postgres("n", &database.url, &[]),
        };
        options
            .endpoint(endpoint)
            .set("cluster.not_holder", "accept")
            .set_literal("confirmations.required", "1")
    }

    /// Somebody who reads the store without the node's help, and so sees only what is committed.
    pub(crate) async fn witness(&self) -> Witness {
        match self {
            Self::Sqlite(directory) => Witness::Sqlite(file(directory.path())),
            Self::Postgres(database) => Witness::Postgres(Arc::new(database.connect().await)),
        }
    }
}

fn file(directory: &Path) -> PathBuf {
    directory.join("stile.db")
}

/// See [`Backend::witness`].
#[derive(Debug, Clone)]
pub(crate) enum Witness {
    Sqlite(PathBuf),
    Postgres(Arc<tokio_postgres::Client>),
}

impl Witness {
    /// Whether a signed transaction with this hash is on record.
    pub(crate) async fn knows_attempt(&self, hash: B256) -> bool {
        match self {
            Self::Sqlite(file) => {
                let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
                let connection = rusqlite::Connection::open_with_flags(file, flags).unwrap();
                connection.busy_timeout(testkit::DEADLINE).unwrap();
                let sql = "SELECT count(*) FROM attempt WHERE hash = ?1";
                let count: rusqlite::Result<u32> =
                    connection.query_row(sql, [hash.as_slice()], |row| row.get(0));
                count.unwrap_or_else(|error| panic!("{sql}: {error}")) == 1
            }
            Self::Postgres(client) => {
                let sql = "SELECT FROM attempt WHERE hash = $1";
                let rows = client.query(sql, &[&hash.as_slice()]).await;
                rows.unwrap_or_else(|error| panic!("{sql}: {error:?}")).len() == 1
            }
        }
    }
}
