//! From a URL to a store, and what both stores share about their schemas.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use refinery::{Report, Runner};
use stile_domain::{Secret, Timestamp};

use crate::postgres::{Pooler, PostgresOptions, PostgresStore};
use crate::sqlite::SqliteStore;
use crate::{SchemaReport, Store, StoreError};

/// How to open a store.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// `sqlite://relative.db`, `sqlite:///absolute/path.db` or `postgres://user@host/database`.
    pub url: Secret,
    /// Where notifications are heard, past any pooler (PostgreSQL); `None`: at `url`.
    pub direct_url: Option<Secret>,
    /// Connections at most (PostgreSQL), beside the two that keep leases.
    pub pool_size: usize,
    /// The longest a statement may run; on SQLite, a read.
    pub statement_timeout: Duration,
    /// The longest a statement may wait for a row.
    pub lock_timeout: Duration,
    /// What stands between Stile and PostgreSQL.
    pub pooler: Pooler,
    /// How long leases last; a transaction may not sit idle for half as long.
    pub lease: Duration,
    /// Whether this process is going to serve: an embedded database has one server at a time.
    pub serve: bool,
}

/// Opens the store that the URL names. Does not touch the schema.
pub fn open(options: OpenOptions) -> Result<Arc<dyn Store>, StoreError> {
    if let Some(path) = options.url.reveal().strip_prefix("sqlite://") {
        if path.is_empty() {
            return Err(StoreError::Url("sqlite:// must be followed by a file name".into()));
        }
        let store = SqliteStore::open(&PathBuf::from(path), options.serve)?;
        return Ok(Arc::new(store.with_read_limit(options.statement_timeout)));
    }
    if ["postgres://", "postgresql://"]
        .iter()
        .any(|scheme| options.url.reveal().starts_with(scheme))
    {
        return Ok(Arc::new(PostgresStore::new(PostgresOptions {
            url: options.url,
            direct_url: options.direct_url,
            pool_size: options.pool_size,
            statement_timeout: options.statement_timeout,
            lock_timeout: options.lock_timeout,
            idle_in_transaction_timeout: options.lease * 2 / 5,
            pooler: options.pooler,
        })?));
    }
    Err(StoreError::Url("must begin with sqlite:// or postgres://".into()))
}

/// How long a server is waited for that does not answer at all: past every time-out of its own.
pub fn patience(statement_timeout: Duration) -> Duration {
    statement_timeout * 2 + Duration::from_secs(2)
}

/// The newest migration this binary carries.
pub(crate) fn newest(runner: &Runner) -> i32 {
    runner.get_migrations().iter().map(|migration| migration.version()).max().unwrap_or(0)
}

pub(crate) fn compare_versions(found: i32, runner: &Runner) -> Result<(), StoreError> {
    let known = newest(runner);
    match found.cmp(&known) {
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Greater => Err(StoreError::SchemaTooNew { found, known }),
        std::cmp::Ordering::Less => Err(StoreError::SchemaTooOld { found, known }),
    }
}

pub(crate) fn schema_report(report: &Report, version: i32) -> SchemaReport {
    let applied =
        report.applied_migrations().iter().map(|migration| migration.to_string()).collect();
    SchemaReport { applied, version }
}

/// A point in time after another; both come from the database's clock.
pub(crate) fn after(time: Timestamp, duration: Duration) -> Result<Timestamp, StoreError> {
    time.checked_add(duration)
        .map_err(|e| StoreError::Internal(format!("a time is out of range: {e}")))
}
