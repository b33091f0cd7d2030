//! SQLite's raw limit of taking transactions in.

use std::path::PathBuf;
use std::time::Duration;

use rusqlite::{Connection, params};

use super::admission::{AdmissionLimits, Batch, Rate, Rows};
use super::{BULK_ROWS, Meter, beside};
use crate::{Store, StoreError, sqlite};

const WAITING: &str = "INSERT INTO tx (tx_id, tenant, chain_id, signer, request_id, request_hash,
        payload, finality, gas_limit, state, sub_state, events, created_at, updated_at)
    VALUES (?1, '', 1, ?2, ?3, ?4, ?5, '20', 21000, 'CREATED', 'PENDING', 1, 0, 0)";
const BOUND: &str = "INSERT INTO tx (tx_id, tenant, chain_id, signer, request_id, request_hash,
        payload, finality, gas_limit, nonce, tx_hash, next_resubmit_at, state, sub_state, events,
        created_at, updated_at)
    VALUES (?1, '', 1, ?2, ?3, ?4, ?5, '20', 21000, ?6, ?4, 0, 'ALLOCATED', 'PENDING', 2, 0, 0)";
const EVENT: &str = "INSERT INTO tx_event (tx_id, seq, tenant, chain_id, signer, kind, state,
        sub_state, at, node_id, data)
    VALUES (?1, ?2, '', 1, ?3, 'ACCEPTED', 'CREATED', 'PENDING', 0, 'bench', '{}')";
const NONCE: &str = "INSERT INTO nonce (chain_id, signer, nonce, owner_kind, owner_id, status,
        tx_hash, locked_until, fencing_token, created_at, updated_at)
    VALUES (1, ?1, ?2, 'tx', ?3, 'CONSUMED', ?4, 0, 1, 0, 0)";
const ATTEMPT: &str = "INSERT INTO attempt (tx_id, number, hash, raw, fees, gas_limit,
        fencing_token, created_at)
    VALUES (?1, 1, ?2, ?3, ?4, 21000, 1, 0)";

/// In a database of its own beside the given one, on the same disk. There is one writer at a time,
/// so one connection is all there is to try.
pub(super) async fn measure(path: PathBuf, each: Duration) -> Result<AdmissionLimits, StoreError> {
    let place = beside(&path);
    let store = sqlite::SqliteStore::open(&place, false)?;
    store.migrate().await?;
    store.close().await;
    let measured = tokio::task::spawn_blocking(move || {
        let limits = sqlite::connect(&place).and_then(|connection| rates(&connection, each));
        super::remove(&place);
        limits
    });
    measured.await.map_err(|e| StoreError::Internal(e.to_string()))?
}

fn rates(connection: &Connection, each: Duration) -> Result<AdmissionLimits, StoreError> {
    let rate = |rows| {
        let per_second = insert(connection, rows, each)?;
        Ok::<_, StoreError>(Rate { per_second, connections: 1 })
    };
    Ok(AdmissionLimits { waiting: rate(Rows::Waiting)?, bound: rate(Rows::Bound)? })
}

/// Inserts for a lane of its own; transactions a second.
fn insert(connection: &Connection, rows: Rows, each: Duration) -> Result<f64, StoreError> {
    let mut batch = Batch::new();
    let (payload, fees) = (batch.payload.to_string(), batch.fees.to_string());
    let mut meter = Meter::start(each);
    while meter.running() {
        batch.next(meter.count);
        let (signer, raw) = (&batch.signer, &batch.raw);
        connection.execute_batch("BEGIN IMMEDIATE")?;
        let mut waiting = connection.prepare_cached(WAITING)?;
        let mut bound = connection.prepare_cached(BOUND)?;
        let mut event = connection.prepare_cached(EVENT)?;
        let mut nonce = connection.prepare_cached(NONCE)?;
        let mut attempt = connection.prepare_cached(ATTEMPT)?;
        for place in 0..BULK_ROWS {
            let (id, hash) = (batch.ids[place], &batch.hashes[place]);
            let (request_id, number) = (&batch.request_ids[place], batch.nonces[place]);
            match rows {
                Rows::Waiting => {
                    waiting.execute(params![id, signer, request_id, hash, payload])?;
                    event.execute(params![id, 1, signer])?;
                }
                Rows::Bound => {
                    bound.execute(params![id, signer, request_id, hash, payload, number])?;
                    event.execute(params![id, 1, signer])?;
                    event.execute(params![id, 2, signer])?;
                    nonce.execute(params![signer, number, id, hash])?;
                    attempt.execute(params![id, hash, raw, fees])?;
                }
            }
        }
        connection.execute_batch("COMMIT")?;
        meter.count += BULK_ROWS;
    }
    Ok(meter.rate())
}
