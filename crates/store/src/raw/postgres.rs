//! PostgreSQL's raw limits.

use std::time::Duration;

use deadpool_postgres::Pool;
use uuid::Uuid;

use super::{BULK_ROWS, Meter, RawLimits};
use crate::StoreError;
use crate::postgres::{Pooler, PostgresOptions, connect};

/// Numbers of connections tried for bulk statements.
pub(super) const CONNECTIONS: [usize; 3] = [1, 4, 16];

const INSERT: &str = "INSERT INTO raw_limit (chain_id, signer, nonce, owner_kind, owner_id, status,
        locked_until, fencing_token, created_at, updated_at)
    SELECT 1, $1, nonce, 'hold', owner_id, 'HELD', now(), 1, now(), now()
    FROM unnest($2::bigint[], $3::uuid[]) AS r (nonce, owner_id)";

pub(super) async fn measure(url: &str, each: Duration) -> Result<RawLimits, StoreError> {
    let pool = connect(url)?;
    let client = get(&pool).await?;
    let create =
        "DROP TABLE IF EXISTS raw_limit; CREATE TABLE raw_limit (LIKE nonce INCLUDING ALL)";
    client.batch_execute(create).await?;
    let single_row_commits = insert(&pool, 1, each).await?;
    let (mut bulk_rows, mut bulk_connections) = (0.0, 1);
    for connections in CONNECTIONS {
        let each_one = (0..connections).map(|_| insert(&pool, BULK_ROWS, each));
        let rates = futures::future::try_join_all(each_one).await?;
        let rows: f64 = rates.iter().sum();
        if rows > bulk_rows {
            (bulk_rows, bulk_connections) = (rows, connections);
        }
    }
    client.batch_execute("DROP TABLE raw_limit").await?;
    Ok(RawLimits { single_row_commits, bulk_rows, bulk_connections })
}

/// As many connections as are tried.
pub(super) fn connect(url: &str) -> Result<Pool, StoreError> {
    connect::pool(&PostgresOptions {
        url: url.into(),
        direct_url: None,
        pool_size: CONNECTIONS[CONNECTIONS.len() - 1],
        statement_timeout: Duration::from_secs(30),
        lock_timeout: Duration::from_secs(30),
        idle_in_transaction_timeout: Duration::from_secs(30),
        pooler: Pooler::None,
    })
}

pub(super) async fn get(pool: &Pool) -> Result<deadpool_postgres::Object, StoreError> {
    pool.get().await.map_err(|e| StoreError::Unavailable(e.to_string()))
}

/// Inserts on one connection, for a lane of its own, so many rows a commit; rows a second.
async fn insert(pool: &Pool, rows: usize, each: Duration) -> Result<f64, StoreError> {
    let client = get(pool).await?;
    let statement = client.prepare_cached(INSERT).await?;
    let signer = &Uuid::new_v4().into_bytes().repeat(2)[..20];
    let mut meter = Meter::start(each);
    while meter.running() {
        let first = meter.count as i64;
        let nonces: Vec<i64> = (first..first + rows as i64).collect();
        let owners: Vec<Uuid> = nonces.iter().map(|_| Uuid::now_v7()).collect();
        client.execute(&statement, &[&signer, &nonces, &owners]).await?;
        meter.count += rows;
    }
    Ok(meter.rate())
}
