//! The databases that are measured, started for the run and gone after it.

use clap::ValueEnum;
use testkit::Postgres;

use super::Failure;
use crate::wiring::default_open_options;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum StoreKind {
    Sqlite,
    Postgres,
}

impl StoreKind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        }
    }
}

/// A place where fresh databases can be had.
pub(super) enum Databases {
    /// Files in a directory of their own, on the disk the command was started on.
    Sqlite(tempfile::TempDir),
    /// A server of their own.
    Private(Box<Postgres>),
    /// The one that was named. Every measurement uses signers of its own in it.
    Given(String),
}

impl Databases {
    pub(super) async fn start(kind: StoreKind, given: Option<&str>) -> Result<Self, Failure> {
        match (kind, given) {
            (StoreKind::Sqlite, _) => {
                Ok(Self::Sqlite(tempfile::Builder::new().prefix("stile-bench-").tempdir_in(".")?))
            }
            (StoreKind::Postgres, Some(url)) => Ok(Self::Given(url.to_owned())),
            (StoreKind::Postgres, None) => {
                if testkit::programs::find_postgres("initdb").is_none() {
                    return Err("PostgreSQL is not installed: install it, name a database with \
                                --postgres-url or --store-url, or leave it out with --stores sqlite"
                        .into());
                }
                // Room for the load without a checkpoint in the middle of a measurement.
                let settings = [("shared_buffers", "512MB"), ("max_wal_size", "8GB")];
                Ok(Self::Private(Box::new(Postgres::start(&settings).await)))
            }
        }
    }

    /// The URL of a database on the PostgreSQL server, next to which others can be created.
    pub(super) async fn server(&self) -> Result<String, Failure> {
        match self {
            Self::Sqlite(_) => Err("several nodes need PostgreSQL".into()),
            Self::Private(server) => Ok(server.database().await),
            Self::Given(url) => Ok(url.clone()),
        }
    }

    /// The URL of a database with an up-to-date schema.
    pub(super) async fn fresh(&self, name: &str) -> Result<String, Failure> {
        let url = match self {
            Self::Sqlite(directory) => {
                format!("sqlite://{}", directory.path().join(format!("{name}.db")).display())
            }
            Self::Private(server) => server.database().await,
            Self::Given(url) => url.clone(),
        };
        let store = stile_store::open(default_open_options(&url, false))?;
        store.migrate().await?;
        store.close().await;
        Ok(url)
    }
}
