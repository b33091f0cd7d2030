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

    /// Where the store is.
    pub(crate) fn url(&self) -> String {
        match self {
            Self::Sqlite(directory) => format!("sqlite://{}", file(directory.path()).display()),
            Self::Postgres(database) => database.url.clone(),
        }
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
    /// How many rows there are: transactions, attempts, entries of histories, nonces. All of one
    /// moment.
    pub(crate) async fn counts(&self) -> [u64; 4] {
        let sql = "SELECT (SELECT count(*) FROM tx), (SELECT count(*) FROM attempt),
                          (SELECT count(*) FROM tx_event), (SELECT count(*) FROM nonce)";
        let counts: [i64; 4] = match self {
            Self::Sqlite(file) => {
                let connection = rusqlite::Connection::open(file).unwrap();
                connection.busy_timeout(testkit::DEADLINE).unwrap();
                let counts = connection.query_row(sql, [], |row| {
                    Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?])
                });
                counts.unwrap_or_else(|error| panic!("{sql}: {error}"))
            }
            Self::Postgres(client) => {
                let row = client.query_one(sql, &[]).await;
                let row = row.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
                [row.get(0), row.get(1), row.get(2), row.get(3)]
            }
        };
        counts.map(i64::unsigned_abs)
    }

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
