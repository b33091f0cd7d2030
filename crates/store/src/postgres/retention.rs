//! Removing what is over.
//!
//! Found by a read, removed by one statement that looks at each row again under its lock. Locked
//! rows are skipped, so several nodes share the work, and whoever works a lane waits for nothing.

use std::time::Duration;

use stile_domain::{ChainId, Lane, Nonce};
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::rows;
use super::session::Sessions;
use crate::StoreError;

/// How many more than a batch are looked for, so that two nodes find enough beside each other.
const BESIDE: i64 = 4;

pub(super) async fn sweep_txs(
    sessions: &Sessions,
    chain: ChainId,
    below: u64,
    kept: Duration,
    limit: u32,
) -> Result<u64, StoreError> {
    let below = i64::try_from(below).unwrap_or(i64::MAX);
    let kept = rows::seconds(kept);
    let found = sessions
        .read(
            include_str!("sql/txs_over.sql"),
            &[
                (&chain.get().cast_signed(), Type::INT8),
                (&below, Type::INT8),
                (&kept, Type::FLOAT8),
                (&(i64::from(limit) * BESIDE), Type::INT8),
            ],
        )
        .await?;
    if found.is_empty() {
        return Ok(0);
    }
    let ids: Vec<Uuid> = found.iter().map(|row| row.try_get("tx_id")).collect::<Result<_, _>>()?;
    let removed = sessions
        .write(include_str!("sql/sweep_txs.sql"), &[&ids, &below, &kept, &i64::from(limit)])
        .await?;
    count(&removed)
}

pub(super) async fn lanes_with_old_holds(
    sessions: &Sessions,
    kept: Duration,
) -> Result<Vec<Lane>, StoreError> {
    let found = sessions
        .read(include_str!("sql/lanes_with_old_holds.sql"), &[(&rows::seconds(kept), Type::FLOAT8)])
        .await?;
    found.iter().map(rows::lane).collect()
}

pub(super) async fn sweep_holds(
    sessions: &Sessions,
    lane: Lane,
    below: Nonce,
    kept: Duration,
    limit: u32,
) -> Result<u64, StoreError> {
    let below = i64::try_from(below).unwrap_or(i64::MAX);
    let removed = sessions
        .write(
            include_str!("sql/sweep_holds.sql"),
            &[
                &rows::chain(lane),
                &lane.signer.as_slice(),
                &below,
                &rows::seconds(kept),
                &i64::from(limit),
            ],
        )
        .await?;
    count(&removed)
}

pub(super) async fn sweep_past_holds(
    sessions: &Sessions,
    kept: Duration,
    limit: u32,
) -> Result<u64, StoreError> {
    let removed = sessions
        .write(include_str!("sql/sweep_past_holds.sql"), &[&rows::seconds(kept), &i64::from(limit)])
        .await?;
    count(&removed)
}

fn count(rows: &[Row]) -> Result<u64, StoreError> {
    let row = rows.first().ok_or_else(|| StoreError::Internal("no answer to a sweep".into()))?;
    Ok(row.try_get::<_, i64>("removed")?.unsigned_abs())
}
