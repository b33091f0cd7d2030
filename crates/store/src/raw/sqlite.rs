//! SQLite's raw limits.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, params};
use uuid::Uuid;

use super::{BULK_ROWS, Meter, RawLimits, beside, remove};
use crate::{StoreError, sqlite};

const INSERT: &str = "INSERT INTO raw_limit (chain_id, signer, nonce, owner_kind, owner_id, status,
        locked_until, fencing_token, created_at, updated_at)
    VALUES (1, ?1, ?2, 'hold', ?3, 'HELD', 0, 1, 0, 0)";

/// In a database of its own beside the given one, on the same disk. There is one writer at a time,
/// so one connection is all there is to try.
pub(super) async fn measure(path: PathBuf, each: Duration) -> Result<RawLimits, StoreError> {
    let measured = tokio::task::spawn_blocking(move || {
        let place = beside(&path);
        let limits = rates(&path, &place, each);
        remove(&place);
        limits
    });
    measured.await.map_err(|e| StoreError::Internal(e.to_string()))?
}

fn rates(path: &Path, place: &Path, each: Duration) -> Result<RawLimits, StoreError> {
    let shape: Vec<String> = sqlite::connect(path)?
        .prepare("SELECT sql FROM sqlite_schema WHERE tbl_name = 'nonce' AND type IN ('table', 'index') AND sql IS NOT NULL ORDER BY type DESC")?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let connection = sqlite::connect(place)?;
    for statement in shape {
        connection.execute_batch(
            &statement.replace(" nonce (", " raw_limit (").replace("ON nonce", "ON raw_limit"),
        )?;
    }
    Ok(RawLimits {
        single_row_commits: insert(&connection, 1, each)?,
        bulk_rows: insert(&connection, BULK_ROWS, each)?,
        bulk_connections: 1,
    })
}

/// Inserts for a lane of its own, so many rows a commit; rows a second.
fn insert(connection: &Connection, rows: usize, each: Duration) -> Result<f64, StoreError> {
    let signer = &Uuid::new_v4().into_bytes().repeat(2)[..20];
    let mut meter = Meter::start(each);
    while meter.running() {
        connection.execute_batch("BEGIN IMMEDIATE")?;
        let mut statement = connection.prepare_cached(INSERT)?;
        for _ in 0..rows {
            statement.execute(params![signer, meter.count as i64, Uuid::now_v7()])?;
            meter.count += 1;
        }
        connection.execute_batch("COMMIT")?;
    }
    Ok(meter.rate())
}
