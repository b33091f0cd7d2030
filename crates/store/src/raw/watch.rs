//! PostgreSQL seen from outside while nodes work on it.

use std::collections::BTreeMap;

use deadpool_postgres::Pool;
use stile_domain::{Incarnation, Lane, Timestamp, TxId};
use uuid::Uuid;

use super::postgres::{connect, get};
use crate::StoreError;
use crate::postgres::rows;

const COUNTERS: &str = "SELECT d.xact_commit AS commits,
        (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint AS wal_bytes
    FROM pg_stat_database d WHERE d.datname = current_database()";
const HOLDERS: &str = "SELECT owner_node, count(*) AS lanes FROM lane
    WHERE expires_at > clock_timestamp() GROUP BY owner_node";
const LEFT: &str =
    "SELECT chain_id, signer, owner_incarnation, expires_at FROM lane WHERE owner_node = $1";
const TAKEN: &str = "SELECT chain_id, signer, acquired_at FROM lane
    WHERE owner_incarnation <> $1 AND acquired_at > $2 ORDER BY acquired_at";
const BOUND: &str = "SELECT tx_id, at FROM tx_event WHERE tx_id = ANY($1) AND kind = 'BOUND'";

const UNSENT: &str =
    "SELECT count(*) AS unsent FROM tx WHERE phase = 'OPEN' AND state = 'ALLOCATED'";
const FIRST_SENT: &str = "SELECT w.chain_id, w.signer, max(a.last_sent_at) AS at
    FROM unnest($1::bigint[], $2::bytea[]) AS w (chain_id, signer)
    CROSS JOIN LATERAL (SELECT t.tx_id FROM tx t
                        WHERE t.chain_id = w.chain_id AND t.signer = w.signer AND t.phase = 'OPEN'
                        ORDER BY t.nonce LIMIT 1) t
    JOIN attempt a ON a.tx_id = t.tx_id
    WHERE a.last_sent_at > $3
    GROUP BY w.chain_id, w.signer";

/// Looks at a database that nodes work on. All times are the database's.
#[derive(Debug)]
pub struct Watch {
    pool: Pool,
}

/// What a server has done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counters {
    /// Transactions of this database that ended in a commit, those that only read included.
    /// Sessions tell of theirs about once a second.
    pub commits: u64,
    /// Bytes of write-ahead log, of all databases of the server.
    pub wal_bytes: u64,
}

/// A lane as its dead holder left it.
#[derive(Debug, Clone, Copy)]
pub struct LeftLane {
    /// The lane.
    pub lane: Lane,
    /// Which start of the node held it.
    pub incarnation: Incarnation,
    /// When the lease runs out.
    pub expires_at: Timestamp,
}

impl Watch {
    /// Of the database behind this URL.
    pub fn new(url: &str) -> Result<Self, StoreError> {
        Ok(Self { pool: connect(url)? })
    }

    /// What the server has done so far.
    pub async fn counters(&self) -> Result<Counters, StoreError> {
        let row = get(&self.pool).await?.query_one(COUNTERS, &[]).await?;
        let (commits, wal): (i64, i64) = (row.try_get("commits")?, row.try_get("wal_bytes")?);
        Ok(Counters { commits: commits.unsigned_abs(), wal_bytes: wal.unsigned_abs() })
    }

    /// What time it is.
    pub async fn now(&self) -> Result<Timestamp, StoreError> {
        let row = get(&self.pool).await?.query_one("SELECT clock_timestamp()", &[]).await?;
        Ok(row.try_get(0)?)
    }

    /// How many lanes each node holds. Those that have run out are nobody's.
    pub async fn holders(&self) -> Result<BTreeMap<String, usize>, StoreError> {
        let found = get(&self.pool).await?.query(HOLDERS, &[]).await?;
        let holders = found.iter().map(|row| {
            let lanes: i64 = row.try_get("lanes")?;
            Ok((row.try_get("owner_node")?, usize::try_from(lanes).unwrap_or_default()))
        });
        holders.collect()
    }

    /// The lanes that are in a node's name.
    pub async fn left_by(&self, node: &str) -> Result<Vec<LeftLane>, StoreError> {
        let found = get(&self.pool).await?.query(LEFT, &[&node]).await?;
        let left = found.iter().map(|row| {
            Ok(LeftLane {
                lane: rows::lane(row)?,
                incarnation: Incarnation(row.try_get("owner_incarnation")?),
                expires_at: row.try_get("expires_at")?,
            })
        });
        left.collect()
    }

    /// The lanes that came to others than this start of a node after a moment, and when; the first
    /// first.
    pub async fn taken_after(
        &self,
        incarnation: Incarnation,
        moment: Timestamp,
    ) -> Result<Vec<(Lane, Timestamp)>, StoreError> {
        let found = get(&self.pool).await?.query(TAKEN, &[&incarnation.0, &moment]).await?;
        found.iter().map(|row| Ok((rows::lane(row)?, row.try_get("acquired_at")?))).collect()
    }

    /// Those of these transactions that have their nonce, and since when.
    pub async fn bound(&self, txs: &[TxId]) -> Result<Vec<(TxId, Timestamp)>, StoreError> {
        let ids: Vec<Uuid> = txs.iter().map(|tx| tx.0).collect();
        let found = get(&self.pool).await?.query(BOUND, &[&ids]).await?;
        found.iter().map(|row| Ok((TxId(row.try_get("tx_id")?), row.try_get("at")?))).collect()
    }

    /// How many transactions have a nonce and were not sent yet.
    pub async fn unsent(&self) -> Result<u64, StoreError> {
        let row = get(&self.pool).await?.query_one(UNSENT, &[]).await?;
        Ok(row.try_get::<_, i64>("unsent")?.unsigned_abs())
    }

    /// Those of these lanes whose lowest transaction in flight was sent after a moment, and when.
    pub async fn first_sent_after(
        &self,
        lanes: &[Lane],
        moment: Timestamp,
    ) -> Result<Vec<(Lane, Timestamp)>, StoreError> {
        let chains: Vec<i64> = lanes.iter().map(|lane| lane.chain.get().cast_signed()).collect();
        let signers: Vec<&[u8]> = lanes.iter().map(|lane| lane.signer.as_slice()).collect();
        let client = get(&self.pool).await?;
        let found = client.query(FIRST_SENT, &[&chains, &signers, &moment]).await?;
        found.iter().map(|row| Ok((rows::lane(row)?, row.try_get("at")?))).collect()
    }
}
