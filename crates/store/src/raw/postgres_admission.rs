//! PostgreSQL's raw limit of taking transactions in.

use std::time::Duration;

use deadpool_postgres::Pool;
use tokio_postgres::Statement;
use tokio_postgres::types::{Json, ToSql};

use super::admission::{AdmissionLimits, Batch, Rate, Rows};
use super::postgres::{CONNECTIONS, connect, get};
use super::{BULK_ROWS, Meter};
use crate::StoreError;

/// Copies of the tables with all that slows an insert down.
const CREATE: &str = "
    DROP TABLE IF EXISTS raw_tx, raw_event, raw_attempt, raw_nonce;
    CREATE TABLE raw_tx (LIKE tx INCLUDING ALL) WITH (fillfactor = 50);
    CREATE TABLE raw_event (LIKE tx_event INCLUDING ALL);
    CREATE TABLE raw_attempt (LIKE attempt INCLUDING ALL) WITH (fillfactor = 50);
    CREATE TABLE raw_nonce (LIKE nonce INCLUDING ALL)";
const DROP: &str = "DROP TABLE raw_tx, raw_event, raw_attempt, raw_nonce";

const WAITING: &str = "INSERT INTO raw_tx (tx_id, tenant, chain_id, signer, request_id, request_hash,
        payload, finality, gas_limit, state, sub_state, events, created_at, updated_at)
    SELECT tx_id, '', 1, $1, request_id, hash, $5, '20', 21000, 'CREATED', 'PENDING', 1, now(), now()
    FROM unnest($2::uuid[], $3::text[], $4::bytea[]) AS r (tx_id, request_id, hash)";
const BOUND: &str = "INSERT INTO raw_tx (tx_id, tenant, chain_id, signer, request_id, request_hash,
        payload, finality, gas_limit, nonce, tx_hash, next_resubmit_at, state, sub_state, events,
        created_at, updated_at)
    SELECT tx_id, '', 1, $1, request_id, hash, $5, '20', 21000, nonce, hash, now(), 'ALLOCATED',
           'PENDING', 2, now(), now()
    FROM unnest($2::uuid[], $3::text[], $4::bytea[], $6::bigint[]) AS r (tx_id, request_id, hash, nonce)";
const EVENTS: &str = "INSERT INTO raw_event (tx_id, seq, tenant, chain_id, signer, kind, state,
        sub_state, at, node_id, data)
    SELECT tx_id, seq, '', 1, $1, 'ACCEPTED', 'CREATED', 'PENDING', now(), 'bench', '{}'
    FROM unnest($2::uuid[]) AS r (tx_id), generate_series(1, $3::int) AS e (seq)";
const NONCES: &str = "INSERT INTO raw_nonce (chain_id, signer, nonce, owner_kind, owner_id, status,
        tx_hash, locked_until, fencing_token, created_at, updated_at)
    SELECT 1, $1, nonce, 'tx', tx_id, 'CONSUMED', hash, now(), 1, now(), now()
    FROM unnest($2::bigint[], $3::uuid[], $4::bytea[]) AS r (nonce, tx_id, hash)";
const ATTEMPTS: &str = "INSERT INTO raw_attempt (tx_id, number, hash, raw, fees, gas_limit,
        fencing_token, created_at)
    SELECT tx_id, 1, hash, $3, $4, 21000, 1, now()
    FROM unnest($1::uuid[], $2::bytea[]) AS r (tx_id, hash)";

type Value<'v> = &'v (dyn ToSql + Sync);

pub(super) async fn measure(url: &str, each: Duration) -> Result<AdmissionLimits, StoreError> {
    let pool = connect(url)?;
    get(&pool).await?.batch_execute(CREATE).await?;
    let limits = AdmissionLimits {
        waiting: best(&pool, Rows::Waiting, each).await?,
        bound: best(&pool, Rows::Bound, each).await?,
    };
    get(&pool).await?.batch_execute(DROP).await?;
    Ok(limits)
}

async fn best(pool: &Pool, rows: Rows, each: Duration) -> Result<Rate, StoreError> {
    let mut best = Rate { per_second: 0.0, connections: 1 };
    for connections in CONNECTIONS {
        let all = (0..connections).map(|_| insert(pool, rows, each));
        let per_second = futures::future::try_join_all(all).await?.iter().sum();
        if per_second > best.per_second {
            best = Rate { per_second, connections };
        }
    }
    Ok(best)
}

/// Inserts on one connection, for a lane of its own; transactions a second.
async fn insert(pool: &Pool, rows: Rows, each: Duration) -> Result<f64, StoreError> {
    let mut client = get(pool).await?;
    let waiting = client.prepare_cached(WAITING).await?;
    let bound = client.prepare_cached(BOUND).await?;
    let events = client.prepare_cached(EVENTS).await?;
    let nonces = client.prepare_cached(NONCES).await?;
    let attempts = client.prepare_cached(ATTEMPTS).await?;
    let mut batch = Batch::new();
    let (payload, fees) = (Json(batch.payload.clone()), Json(batch.fees.clone()));
    let mut meter = Meter::start(each);
    while meter.running() {
        batch.next(meter.count);
        let Batch { signer, ids, request_ids, nonces: numbers, hashes, raw, .. } = &batch;
        // Statements are sent without waiting for the answers of those before.
        let transaction = client.transaction().await?;
        let all: Vec<(&Statement, Vec<Value<'_>>)> = match rows {
            Rows::Waiting => vec![
                (&waiting, vec![signer, ids, request_ids, hashes, &payload]),
                (&events, vec![signer, ids, &1_i32]),
            ],
            Rows::Bound => vec![
                (&bound, vec![signer, ids, request_ids, hashes, &payload, numbers]),
                (&events, vec![signer, ids, &2_i32]),
                (&nonces, vec![signer, numbers, ids, hashes]),
                (&attempts, vec![ids, hashes, raw, &fees]),
            ],
        };
        let sent = all.iter().map(|(statement, values)| transaction.execute(*statement, values));
        futures::future::try_join_all(sent).await?;
        transaction.commit().await?;
        meter.count += BULK_ROWS;
    }
    Ok(meter.rate())
}
