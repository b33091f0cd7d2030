//! History on PostgreSQL: one statement for each chunk.

use std::time::Duration;

use stile_domain::{Lane, Nonce};

use super::{AGE_SECONDS, CHUNK, CONFIRMATIONS, DEPTH};
use crate::StoreError;
use crate::postgres::{Pooler, PostgresOptions, connect};

/// A lane that nobody holds, if there is none; answers with where its cursor stands.
const LANE: &str = "INSERT INTO lane (chain_id, signer, owner_node, owner_incarnation, fencing_token,
                          acquired_at, expires_at, updated_at, next_nonce, timeline)
    VALUES ($1, $2, 'seed', gen_random_uuid(), 1, clock_timestamp(), clock_timestamp(), clock_timestamp(), 0,
            stile_timeline())
    ON CONFLICT (chain_id, signer) DO UPDATE
        SET next_nonce = coalesce(lane.next_nonce, 0), timeline = coalesce(lane.timeline, stile_timeline())
    RETURNING next_nonce,
              greatest(coalesce((SELECT max(height) FROM header WHERE chain_id = $1), 0) - $3, 0) AS top";

pub(super) async fn seed(
    url: &str,
    lane: Lane,
    count: u64,
    progress: &impl Fn(u64),
) -> Result<Nonce, StoreError> {
    let forever = Duration::from_secs(24 * 3600);
    let pool = connect::pool(&PostgresOptions {
        url: url.into(),
        direct_url: None,
        pool_size: 1,
        statement_timeout: forever,
        lock_timeout: forever,
        idle_in_transaction_timeout: forever,
        pooler: Pooler::None,
    })?;
    let client = pool.get().await.map_err(|e| StoreError::Unavailable(e.to_string()))?;
    let (chain, signer) = (lane.chain.get().cast_signed(), lane.signer.to_vec());
    let row = client.query_one(LANE, &[&chain, &signer, &DEPTH]).await?;
    let (first, top): (i64, i64) = (row.try_get("next_nonce")?, row.try_get("top")?);
    let last = first.saturating_add_unsigned(count);
    let insert = client.prepare_cached(include_str!("seed.sql")).await?;
    let mut from = first;
    while from < last {
        let to = last.min(from.saturating_add_unsigned(CHUNK));
        // Lost commits are no loss here.
        client
            .batch_execute(
                "BEGIN; SET LOCAL synchronous_commit = off; SET LOCAL work_mem = '256MB'",
            )
            .await?;
        let confirmations = CONFIRMATIONS.cast_signed();
        client
            .execute(
                &insert,
                &[&chain, &signer, &from, &to, &last, &top, &confirmations, &(AGE_SECONDS as f64)],
            )
            .await?;
        let cursor = "UPDATE lane SET next_nonce = $3 WHERE chain_id = $1 AND signer = $2";
        client.execute(cursor, &[&chain, &signer, &to]).await?;
        client.batch_execute("COMMIT").await?;
        from = to;
        progress((to - first).unsigned_abs());
    }
    client.batch_execute("VACUUM ANALYZE tx, attempt, tx_event, nonce, lane").await?;
    // What was written is on its way to the disk for minutes otherwise, beside whatever is measured
    // next. Who may not ask for it measures that as well.
    if let Err(error) = client.batch_execute("CHECKPOINT").await {
        tracing::debug!(%error, "no checkpoint");
    }
    Ok(last.unsigned_abs())
}
