//! Which blocks are canonical.

use rusqlite::{Connection, params};
use stile_domain::{ChainId, Header};

use super::{rows, tx_rows};
use crate::{HeaderUpdate, StoreError};

pub(super) fn headers(connection: &Connection, chain: ChainId) -> Result<Vec<Header>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT height, hash, parent FROM header
         WHERE chain_id = ?1 AND replaced_at IS NULL ORDER BY height",
    )?;
    let found = statement.query_map(params![chain.get().cast_signed()], tx_rows::header)?;
    Ok(found.collect::<Result<_, _>>()?)
}

pub(super) fn replaced(connection: &Connection, chain: ChainId) -> Result<Vec<Header>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT height, hash, parent FROM header
         WHERE chain_id = ?1 AND replaced_at IS NOT NULL ORDER BY height",
    )?;
    let found = statement.query_map(params![chain.get().cast_signed()], tx_rows::header)?;
    Ok(found.collect::<Result<_, _>>()?)
}

pub(super) fn save(connection: &Connection, update: &HeaderUpdate) -> Result<(), StoreError> {
    let chain = update.chain.get().cast_signed();
    let now = match update.replaced.is_empty() {
        true => rows::now(connection)?,
        false => next_tick(connection)?,
    };
    for header in &update.replaced {
        // One that was never written is, so that what stood on it can be told of the fork. The
        // first word on when it happened stays.
        connection
            .prepare_cached(
                "INSERT INTO header (chain_id, height, hash, parent, seen_at, replaced_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?5)
                 ON CONFLICT (chain_id, height, hash) DO UPDATE SET replaced_at = excluded.replaced_at
                 WHERE replaced_at IS NULL",
            )?
            .execute(params![
                chain,
                header.height.cast_signed(),
                header.hash.as_slice(),
                header.parent.as_slice(),
                now
            ])?;
    }
    for header in &update.canonical {
        connection
            .prepare_cached(
                "INSERT INTO header (chain_id, height, hash, parent, seen_at)
                 VALUES (?1, ?2, ?3, ?4, ?5)
                 ON CONFLICT (chain_id, height, hash) DO UPDATE
                 SET replaced_at = NULL, seen_at = excluded.seen_at
                 WHERE replaced_at IS NOT NULL",
            )?
            .execute(params![
                chain,
                header.height.cast_signed(),
                header.hash.as_slice(),
                header.parent.as_slice(),
                now
            ])?;
    }
    let keep_from = i64::try_from(update.keep_from).unwrap_or(i64::MAX);
    connection
        .prepare_cached("DELETE FROM header WHERE chain_id = ?1 AND height < ?2")?
        .execute(params![chain, keep_from])?;
    Ok(())
}

/// A time later than everything written before. The clock counts milliseconds, and a fork is only
/// seen as one if it is later than the last entry of a transaction; forks are rare enough to wait.
fn next_tick(connection: &Connection) -> Result<i64, StoreError> {
    let begun = rows::now(connection)?;
    loop {
        let now = rows::now(connection)?;
        // A clock that was set back is not waited for.
        if now != begun {
            return Ok(now);
        }
        std::thread::sleep(std::time::Duration::from_micros(100));
    }
}
