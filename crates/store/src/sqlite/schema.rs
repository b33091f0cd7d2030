//! Migrations.

use std::path::PathBuf;

use rusqlite::{Connection, TransactionBehavior};

use crate::{SchemaReport, StoreError};

mod embedded {
    refinery::embed_migrations!("migrations/sqlite");
}

pub(super) async fn migrate(path: PathBuf) -> Result<SchemaReport, StoreError> {
    tokio::task::spawn_blocking(move || {
        let mut connection = super::connect(&path)?;
        // Two that migrate at once take turns: the second waits for the first one's commit.
        connection.set_transaction_behavior(TransactionBehavior::Immediate);
        run(&mut connection)
    })
    .await
    .map_err(|e| StoreError::Internal(format!("migration was cut short: {e}")))?
}

fn run(connection: &mut Connection) -> Result<SchemaReport, StoreError> {
    // Grouped: a migration and the record of it are one commit.
    let runner = embedded::migrations::runner().set_grouped(true);
    let known = crate::open::newest(&runner);
    loop {
        let found = version(connection)?;
        if found > known {
            return Err(StoreError::SchemaTooNew { found, known });
        }
        match runner.run(connection) {
            Ok(report) => return Ok(crate::open::schema_report(&report, known)),
            // Somebody else applied them in the meantime; there may be nothing left to do.
            Err(_) if version(connection)? > found => {}
            Err(e) => return Err(StoreError::Internal(format!("migration failed: {e}"))),
        }
    }
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
