//! What can go wrong with a whole call, and what to do then.

use std::time::Duration;

/// A store call that failed as a whole. (What one lane is refused while others go through is a
/// [`crate::Refusal`].)
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// The database cannot be reached, has no connection to spare, or gave up on a lock or a
    /// statement. Nothing was written. Retry later.
    #[error("the database is not available: {0}")]
    Unavailable(String),
    /// The commit was sent and its answer was lost: it may or may not have happened. Forget what
    /// is cached and read back by key.
    #[error("the fate of a commit is unknown: {0}")]
    CommitUnknown(String),
    /// The database refused: a constraint was about to be broken. Nothing was written.
    #[error("the database refused: {0}")]
    Constraint(String),
    /// The schema is newer than this binary.
    #[error(
        "the database schema is at version {found}, but this binary only knows up to version {known}. \
         A newer Stile has migrated it: run that version or a newer one"
    )]
    SchemaTooNew {
        /// What the database says.
        found: i32,
        /// What this binary knows.
        known: i32,
    },
    /// The schema is older than this binary and was not to be migrated.
    #[error(
        "the database schema is at version {found}, but this binary needs version {known}. \
         Run `stile migrate`, or set store.migrate = true"
    )]
    SchemaTooOld {
        /// What the database says; 0 for an empty database.
        found: i32,
        /// What this binary needs.
        known: i32,
    },
    /// The database would lose commits it has answered.
    #[error(
        "PostgreSQL runs with synchronous_commit = off for this role or database: a crash would take back \
         nonces that were given out. Set it to on (ALTER ROLE … RESET synchronous_commit, or postgresql.conf)"
    )]
    NotDurable,
    /// Another process serves this embedded database.
    #[error(
        "{path} is in use by {by}. One server at a time: stop that one, or use PostgreSQL for several nodes"
    )]
    InUse {
        /// The database file.
        path: String,
        /// Who holds the lock.
        by: String,
    },
    /// The address of the store makes no sense.
    #[error("store.url: {0}")]
    Url(String),
    /// Anything else; a bug or a broken database.
    #[error("unexpected database error: {0}")]
    Internal(String),
}

impl StoreError {
    /// How long a caller should wait before it tries again; `None` if trying again is pointless.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Unavailable(_) | Self::CommitUnknown(_) => Some(Duration::from_secs(1)),
            _ => None,
        }
    }
}
