//! Migrations.

use std::time::Duration;

use refinery::Runner;
use tokio_postgres::Client;
use tokio_postgres::types::{ToSql, Type};

use super::session::Sessions;
use crate::{SchemaReport, StoreError};

mod embedded {
    refinery::embed_migrations!("migrations/postgres");
}

/// Any fixed number: nodes that start together take turns by it.
const MIGRATION_LOCK: i64 = 0x0053_5449_4c45;

/// How often the lock is tried for.
const LOCK_INTERVAL: Duration = Duration::from_millis(100);

pub(super) async fn migrate(sessions: &Sessions) -> Result<SchemaReport, StoreError> {
    let lock = sessions.beside().await?;
    while !is_locked(&lock).await? {
        lock.batch_execute("ROLLBACK").await?;
        tokio::time::sleep(LOCK_INTERVAL).await;
    }
    let mut session = sessions.session().await?;
    let report = run(session.client_mut()).await;
    session.finish();
    lock.batch_execute("COMMIT").await?;
    report
}

/// Tries to lock out others who migrate, for as long as the transaction that this opens. A lock of
/// the session would stay, behind a pooler, with a connection that somebody else gets next. And it is
/// not waited for in the database: nodes that wait would use up the pooler's connections, of which
/// the one that migrates needs another.
async fn is_locked(client: &Client) -> Result<bool, StoreError> {
    client.batch_execute("BEGIN; SET LOCAL idle_in_transaction_session_timeout = 0").await?;
    let key: (&(dyn ToSql + Sync), Type) = (&MIGRATION_LOCK, Type::INT8);
    let row = client.query_typed_one("SELECT pg_try_advisory_xact_lock($1)", &[key]).await?;
    Ok(row.try_get(0)?)
}

async fn run(client: &mut Client) -> Result<SchemaReport, StoreError> {
    let runner = embedded::migrations::runner();
    let known = crate::open::newest(&runner);
    let found = version(client).await?;
    if found > known {
        return Err(StoreError::SchemaTooNew { found, known });
    }
    let report = runner
        .run_async(client)
        .await
        .map_err(|e| StoreError::Internal(format!("migration failed: {e}")))?;
    Ok(crate::open::schema_report(&report, known))
}

pub(super) async fn check(sessions: &Sessions) -> Result<(), StoreError> {
    let found = sessions
        .within(StoreError::Unavailable, async {
            let session = sessions.session().await?;
            let found = version(session.client()).await?;
            session.finish();
            Ok(found)
        })
        .await?;
    crate::open::compare_versions(found, &runner())
}

/// The unique indexes that what is promised rests on, each with its table.
const UNIQUE: [(&str, &str); 10] = [
    ("api_key_name", "api_key"),
    ("attempt_hash", "attempt"),
    ("attempt_pkey", "attempt"),
    ("lane_pkey", "lane"),
    ("lost_tx_claimed_by_key", "lost_tx"),
    ("nonce_pkey", "nonce"),
    ("tx_open", "tx"),
    ("tx_pkey", "tx"),
    ("tx_replaces", "tx"),
    ("tx_request", "tx"),
];

/// Refuses a database in which one of them is not in force, as after a backup that was loaded while
/// nodes wrote: a request id would make several transactions. An index whose creation failed is there
/// by its name and keeps nothing out.
pub(super) async fn check_whole(sessions: &Sessions) -> Result<(), StoreError> {
    let (names, tables): (Vec<&str>, Vec<&str>) = UNIQUE.into_iter().unzip();
    let missing: Option<String> = sessions
        .within(StoreError::Unavailable, async {
            let session = sessions.session().await?;
            let list = |list| -> (&(dyn ToSql + Sync), Type) { (list, Type::TEXT_ARRAY) };
            let row =
                session.client().query_typed_one(WHOLE, &[list(&names), list(&tables)]).await?;
            session.finish();
            Ok(row.try_get(0)?)
        })
        .await?;
    match missing {
        None => Ok(()),
        Some(names) => Err(StoreError::Internal(format!(
            "the database was not restored whole, indexes are missing or not valid ({names}): restore it again, into \
             an empty database, while no node runs"
        ))),
    }
}

/// The names of those that are not in force.
const WHOLE: &str = "SELECT string_agg(w.name, ', ') FROM unnest($1::text[], $2::text[]) AS w (name, on_table)
     WHERE NOT EXISTS (SELECT FROM pg_index i
                       WHERE i.indexrelid = to_regclass(w.name) AND i.indrelid = to_regclass(w.on_table)
                         AND i.indisunique AND i.indisvalid)";

fn runner() -> Runner {
    embedded::migrations::runner()
}

/// The newest migration applied, 0 for an empty database.
async fn version(client: &Client) -> Result<i32, StoreError> {
    let there = client
        .query_typed_one("SELECT to_regclass('refinery_schema_history') IS NOT NULL", &[])
        .await?;
    if !there.get::<_, bool>(0) {
        return Ok(0);
    }
    let row = client
        .query_typed_one("SELECT coalesce(max(version), 0)::int FROM refinery_schema_history", &[])
        .await?;
    Ok(row.get(0))
}
