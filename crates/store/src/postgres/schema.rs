//! Migrations.

use refinery::Runner;
use tokio_postgres::Client;

use super::session::Sessions;
use crate::{SchemaReport, StoreError};

mod embedded {
    refinery::embed_migrations!("migrations/postgres");
}

/// Any fixed number: nodes that start together take turns by it.
const MIGRATION_LOCK: i64 = 0x0053_5449_4c45;

pub(super) async fn migrate(sessions: &Sessions) -> Result<SchemaReport, StoreError> {
    let mut session = sessions.session().await?;
    session.client().query("SELECT pg_advisory_lock($1)", &[&MIGRATION_LOCK]).await?;
    let report = run(session.client_mut()).await;
    session.client().query("SELECT pg_advisory_unlock($1)", &[&MIGRATION_LOCK]).await?;
    session.finish();
    report
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

fn runner() -> Runner {
    embedded::migrations::runner()
}

/// The newest migration applied, 0 for an empty database.
async fn version(client: &Client) -> Result<i32, StoreError> {
    let there =
        client.query_one("SELECT to_regclass('refinery_schema_history') IS NOT NULL", &[]).await?;
    if !there.get::<_, bool>(0) {
        return Ok(0);
    }
    let row = client
        .query_one("SELECT coalesce(max(version), 0)::int FROM refinery_schema_history", &[])
        .await?;
    Ok(row.get(0))
}
