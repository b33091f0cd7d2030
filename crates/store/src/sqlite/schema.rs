//! Migrations.

use std::path::PathBuf;

use rusqlite::Connection;

use crate::{SchemaReport, StoreError};

mod embedded {
    refinery::embed_migrations!("migrations/sqlite");
}

pub(super) async fn migrate(path: PathBuf) -> Result<SchemaReport, StoreError> {
    tokio::task::spawn_blocking(move || {
        let mut connection = super::connect(&path)?;
        let runner = embedded::migrations::runner();
        let known = crate::open::newest(&runner);
        let found = version(&connection)?;
        if found > known {
            return Err(StoreError::SchemaTooNew { found, known });
        }
        let report = runner
            .run(&mut connection)
            .map_err(|e| StoreError::Internal(format!("migration failed: {e}")))?;
        Ok(crate::open::schema_report(&report, known))
    })
    .await
    .map_err(|e| StoreError::Internal(format!("migration was cut short: {e}")))?
}

pub(super) fn check(connection: &Connection) -> Result<(), StoreError> {
    crate::open::compare_versions(version(connection)?, &embedded::migrations::runner())
}

/// The newest migration applied, 0 for an empty database.
fn version(connection: &Connection) -> Result<i32, StoreError> {
    if !connection.table_exists(None, "refinery_schema_history")? {
        return Ok(0);
    }
    let sql = "SELECT coalesce(max(version), 0) FROM refinery_schema_history";
    Ok(connection.query_row(sql, [], |row| row.get(0))?)
}
