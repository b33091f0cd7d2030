//! The tables of V1: read, fenced off, written back. They are never altered or dropped.
//!
//! | file | what is in it |
//! |---|---|
//! | `tables` | which tables there are, and what their columns need |
//! | `fence` | the stop-fence: what makes V1's writes fail |
//! | `read` | what V1 knows |
//! | `write` | the way back |
//! | `sql/` | the statements; `{names}` are put in when it is known how they are called |

mod fence;
mod read;
mod tables;
mod write;

use std::time::Duration;

use deadpool_postgres::{Object, Pool};

pub use fence::{Cutover, CutoverState};
pub use write::WrittenBack;

use crate::StoreError;
use crate::postgres::Pooler;
use crate::postgres::connect::{self, PostgresOptions};
use tables::Tables;

/// What can go wrong with V1's database.
#[derive(Debug, Clone, thiserror::Error)]
pub enum V1Error {
    /// It has no such tables.
    #[error(
        "there is no V1 in this database: neither submitter_nonce_state and submitter_nonce_allocation nor \
         signer_nonce_state and signer_nonce_allocation are in the schemas it looks in. Check the URL, and its \
         search_path (…?options=-csearch_path%3Dname)"
    )]
    NotV1,
    /// It has both sets.
    #[error(
        "this database has both submitter_nonce_… and signer_nonce_… tables: say which schema with the URL's \
         search_path, or move the unused set out of it"
    )]
    Both,
    /// A column is missing that V1 has.
    #[error("V1's table {table} has no column {column}")]
    NoColumn {
        /// The table.
        table: String,
        /// The column.
        column: &'static str,
    },
    /// A column has to be told something that nobody knows.
    #[error(
        "V1's table {table} has a column {column} that must be filled, and Stile does not know with what"
    )]
    Unfillable {
        /// The table.
        table: String,
        /// The column.
        column: String,
    },
    /// A row makes no sense.
    #[error("V1's rows of {signer}: {what}")]
    Rows {
        /// Whose.
        signer: String,
        /// What is wrong.
        what: String,
    },
    /// The database says no, or nothing.
    #[error("V1's database: {0}")]
    Store(#[from] StoreError),
}

impl From<tokio_postgres::Error> for V1Error {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Store(error.into())
    }
}

/// V1's database.
#[derive(Debug)]
pub struct V1 {
    pool: Pool,
    tables: Tables,
}

/// The longest that a statement may wait for V1's writers, and run.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(60);

impl V1 {
    /// Connects and finds V1's tables. `connections` at most.
    pub async fn open(url: &str, connections: usize) -> Result<Self, V1Error> {
        let pool = connect::pool(&PostgresOptions {
            url: url.into(),
            direct_url: None,
            pool_size: connections,
            statement_timeout: STATEMENT_TIMEOUT,
            lock_timeout: LOCK_TIMEOUT,
            idle_in_transaction_timeout: STATEMENT_TIMEOUT,
            pooler: Pooler::None,
        })?;
        let client = client(&pool).await?;
        let tables = Tables::find(&client).await?;
        drop(client);
        Ok(Self { pool, tables })
    }

    async fn client(&self) -> Result<Object, V1Error> {
        client(&self.pool).await
    }
}

async fn client(pool: &Pool) -> Result<Object, V1Error> {
    let got = pool.get().await;
    let client = got.map_err(|error| StoreError::Unavailable(error.to_string()))?;
    Ok(client)
}
