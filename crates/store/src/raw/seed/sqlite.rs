//! History on SQLite: prepared statements, a commit for each chunk.

use std::path::PathBuf;

use alloy_primitives::{B256, keccak256};
use rusqlite::{Connection, OptionalExtension, params};
use stile_domain::{Lane, Nonce};
use tokio::sync::mpsc;
use uuid::Uuid;

use super::{AGE_SECONDS, CHUNK, CONFIRMATIONS, DEPTH};
use crate::{StoreError, sqlite};

pub(super) async fn seed(
    path: PathBuf,
    lane: Lane,
    count: u64,
    progress: &impl Fn(u64),
) -> Result<Nonce, StoreError> {
    let (written, mut seen) = mpsc::unbounded_channel();
    let work = tokio::task::spawn_blocking(move || {
        let connection = sqlite::connect(&path)?;
        // Lost commits are no loss here.
        connection.pragma_update(None, "synchronous", "off")?;
        connection.pragma_update(None, "cache_size", -200_000)?;
        connection.pragma_update(None, "wal_autocheckpoint", 50_000)?;
        fill(&connection, lane, count, |count| {
            // Whoever asked may have gone away.
            let _ = written.send(count);
        })
    });
    while let Some(count) = seen.recv().await {
        progress(count);
    }
    work.await.map_err(|e| StoreError::Internal(e.to_string()))?
}

fn fill(
    connection: &Connection,
    lane: Lane,
    count: u64,
    written: impl Fn(u64),
) -> Result<Nonce, StoreError> {
    let (chain, signer) = (lane.chain.get().cast_signed(), lane.signer.as_slice());
    let now = "CAST(unixepoch('subsec') * 1000000 AS INTEGER)";
    let lane_row = format!(
        "INSERT INTO lane (chain_id, signer, owner_node, owner_incarnation, fencing_token, acquired_at,
                           expires_at, updated_at, next_nonce, timeline)
         VALUES (?1, ?2, 'seed', randomblob(16), 1, {now}, {now}, {now}, 0, 'file')
         ON CONFLICT (chain_id, signer) DO UPDATE
         SET next_nonce = coalesce(next_nonce, 0), timeline = coalesce(timeline, 'file')
         RETURNING next_nonce, updated_at"
    );
    let (first, now): (i64, i64) =
        connection
            .query_row(&lane_row, params![chain, signer], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let head: Option<i64> = connection
        .query_row("SELECT max(height) FROM header WHERE chain_id = ?1", params![chain], |row| {
            row.get(0)
        })
        .optional()?
        .flatten();
    let last = first.saturating_add_unsigned(count);
    let history = History {
        lane,
        top: (head.unwrap_or(0) - DEPTH).max(0),
        last,
        ended: now - AGE_SECONDS * 1_000_000,
    };
    let mut from = first;
    while from < last {
        let to = last.min(from.saturating_add_unsigned(CHUNK));
        connection.execute_batch("BEGIN IMMEDIATE")?;
        for nonce in from..to {
            history.write(connection, nonce)?;
        }
        connection
            .prepare_cached("UPDATE lane SET next_nonce = ?3 WHERE chain_id = ?1 AND signer = ?2")?
            .execute(params![chain, signer, to])?;
        connection.execute_batch("COMMIT")?;
        from = to;
        written((to - first).unsigned_abs());
    }
    connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")?;
    Ok(last.unsigned_abs())
}

/// What the transactions of one history have in common.
struct History {
    lane: Lane,
    /// The newest block of any.
    top: i64,
    /// The nonce after the last.
    last: i64,
    /// When the last one was handed over.
    ended: i64,
}

fn block_hash(number: i64) -> B256 {
    keccak256([b"block ".as_slice(), &number.to_be_bytes()].concat())
}

impl History {
    /// Writes all that belongs to the transaction of one nonce.
    fn write(&self, connection: &Connection, nonce: i64) -> Result<(), StoreError> {
        let (chain, signer) = (self.lane.chain.get().cast_signed(), self.lane.signer.as_slice());
        let hash = keccak256([signer, &nonce.to_be_bytes()].concat());
        let second = keccak256(hash);
        let created = self.ended - (self.last - nonce) * 10_000;
        let confirmed = created + 4_000_000;
        let id = id(created, &hash);
        let block =
            i64::try_from(i128::from(self.top) * i128::from(nonce) / i128::from(self.last.max(1)))
                .unwrap_or(0);
        let told = block.saturating_add_unsigned(CONFIRMATIONS);
        let block_hash_text = block_hash(block);
        let receipt = format!(
            r#"{{"txHash":"{hash}","blockNumber":{block},"blockHash":"{block_hash_text}","transactionIndex":0,"status":true,"gasUsed":21000,"effectiveGasPrice":"1586181641","contractAddress":null}}"#
        );
        connection
            .prepare_cached(
                "INSERT INTO tx (tx_id, tenant, chain_id, signer, request_id, request_hash, payload, finality,
                     gas_limit, nonce, state, outcome, tx_hash, block_number, block_hash, receipt,
                     told_height, told_hash, events, sends, created_at, updated_at, first_submit_at,
                     last_submit_at, confirmed_at)
                 VALUES (?1, '', ?2, ?3, ?4, ?5,
                     '{\"to\":\"0x70997970c51812dc3a010c7d01b50e0d17dc79c8\",\"value\":\"0x38d7ea4c68000\",\"data\":\"0x\"}',
                     ?6, 21000, ?7, 'CONFIRMED', 'success', ?8, ?9, ?10, ?11, ?12, ?13, 5, 1, ?14, ?15, ?14,
                     ?14, ?15)",
            )?
            .execute(params![
                id,
                chain,
                signer,
                format!("seed-{nonce}"),
                second.as_slice(),
                CONFIRMATIONS.to_string(),
                nonce,
                hash.as_slice(),
                block,
                block_hash_text.as_slice(),
                receipt,
                told,
                block_hash(told).as_slice(),
                created,
                confirmed,
            ])?;
        let raw = [hash, second, block_hash_text].concat();
        connection
            .prepare_cached(
                "INSERT INTO attempt (tx_id, number, hash, raw, fees, gas_limit, fencing_token, created_at,
                                      last_sent_at, sends, said)
                 VALUES (?1, 1, ?2, ?3,
                     '{\"maxFeePerGas\":\"2172363282\",\"maxPriorityFeePerGas\":\"1000000000\"}', 21000, 1, ?4, ?4, 1,
                     '[{\"class\":\"accepted\",\"endpoint\":\"127.0.0.1:8545\",\"text\":\"accepted\"}]')",
            )?
            .execute(params![id, hash.as_slice(), [&raw, &hash[..22]].concat(), created])?;
        let mut entry = connection.prepare_cached(
            "INSERT INTO tx_event (tx_id, seq, tenant, chain_id, signer, kind, state, sub_state, at, node_id,
                                   fencing_token, data)
             VALUES (?1, ?2, '', ?3, ?4, ?5, ?6, ?7, ?8, 'seed', ?9, ?10)",
        )?;
        for (seq, (kind, state, sub_state, at, data)) in
            (1..).zip(entries(nonce, &hash, block, created, confirmed))
        {
            let token = (seq > 1).then_some(1);
            entry.execute(params![
                id, seq, chain, signer, kind, state, sub_state, at, token, data
            ])?;
        }
        connection
            .prepare_cached(
                "INSERT INTO nonce (chain_id, signer, nonce, owner_kind, owner_id, status, locked_until, tx_hash,
                                    fencing_token, created_at, updated_at)
                 VALUES (?1, ?2, ?3, 'tx', ?4, 'CONSUMED', ?6, ?5, 1, ?6, ?6)",
            )?
            .execute(params![chain, signer, nonce, id, hash.as_slice(), created])?;
        Ok(())
    }
}

/// A name in order of time, as those of real ones are.
fn id(created: i64, hash: &B256) -> Uuid {
    let mut bytes = [0; 16];
    bytes[..6].copy_from_slice(&(created / 1000).to_be_bytes()[2..]);
    bytes[6..].copy_from_slice(&hash[..10]);
    bytes[6] = 0x70 | (bytes[6] & 0x0f);
    bytes[8] = 0x80 | (bytes[8] & 0x3f);
    Uuid::from_bytes(bytes)
}

type Entry = (&'static str, &'static str, Option<&'static str>, i64, String);

/// The history of one transaction.
fn entries(nonce: i64, hash: &B256, block: i64, created: i64, confirmed: i64) -> [Entry; 5] {
    let at =
        |block: i64| format!(r#"{{"blockHash":"{}","blockNumber":{block}}}"#, block_hash(block));
    let on_top: Vec<String> = (1..=CONFIRMATIONS.cast_signed()).map(|b| at(block + b)).collect();
    let pending = Some("PENDING");
    [
        ("ACCEPTED", "CREATED", pending, created, "{}".to_owned()),
        (
            "BOUND",
            "ALLOCATED",
            pending,
            created,
            format!(
                r#"{{"gasLimit":"21000","maxFeePerGas":"2172363282","maxPriorityFeePerGas":"1000000000","nonce":{nonce},"txHash":"{hash}"}}"#
            ),
        ),
        (
            "SENT",
            "SUBMITTED",
            pending,
            created,
            format!(
                r#"{{"endpoints":[{{"class":"accepted","endpoint":"127.0.0.1:8545","text":"accepted"}}],"txHash":"{hash}"}}"#
            ),
        ),
        (
            "MINED",
            "TRACKING",
            pending,
            created + 1_000_000,
            format!(
                r#"{{"blockHash":"{0}","blockNumber":{block},"confirmations":[{1}],"gasUsed":"21000","newFork":false,"status":true,"txHash":"{hash}"}}"#,
                block_hash(block),
                at(block)
            ),
        ),
        (
            "CONFIRMED",
            "CONFIRMED",
            None,
            confirmed,
            format!(r#"{{"confirmations":[{}],"newFork":false}}"#, on_top.join(",")),
        ),
    ]
}
