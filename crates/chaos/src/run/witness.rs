//! The store as somebody sees it who is no node: past the proxies, and only what is committed.
//!
//! The only SQL here. It reads, and knows the tables by the dump in `crates/store/schema`.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Row};

use super::diary::Lost;
use crate::evidence::{
    Attempt, Event, Evidence, Lane, LaneEvent, NonceRow, OnRecord, TokenSample, Tx,
};

/// The longest a look may take.
const PATIENCE: Duration = Duration::from_secs(3);

/// Reads the database, and connects again when it was away or is somewhere else.
#[derive(Debug)]
pub(super) struct Witness {
    place: std::sync::Mutex<Place>,
    client: Mutex<Option<(u64, Arc<Client>)>>,
}

/// Where the database is, and how often it has moved.
#[derive(Debug, Clone)]
struct Place {
    url: String,
    moves: u64,
}

/// Why there was nothing to see.
type Blind = String;

impl Witness {
    pub(super) fn new(url: &str) -> Self {
        let place = Place { url: url.to_owned(), moves: 0 };
        Self { place: std::sync::Mutex::new(place), client: Mutex::default() }
    }

    /// The database is somewhere else from now on. Whatever the old place still answers does not
    /// count: it does not know what has happened since.
    pub(super) fn point_to(&self, url: String) {
        let mut place = self.place.lock().unwrap();
        *place = Place { url, moves: place.moves + 1 };
    }

    fn place(&self) -> Place {
        self.place.lock().unwrap().clone()
    }

    /// A connection, and the move after which it was made.
    async fn client(&self) -> Result<(u64, Arc<Client>), Blind> {
        let mut known = self.client.lock().await;
        let Place { url, moves } = self.place();
        let usable = known.as_ref().filter(|(made, client)| *made == moves && !client.is_closed());
        if let Some(client) = usable {
            return Ok(client.clone());
        }
        let connected = tokio::time::timeout(PATIENCE, tokio_postgres::connect(&url, NoTls));
        let (client, connection) = connected
            .await
            .map_err(|_| "PostgreSQL takes too long".to_owned())?
            .map_err(|error| error.to_string())?;
        tokio::spawn(connection);
        let made = (moves, Arc::new(client));
        *known = Some(made.clone());
        Ok(made)
    }

    async fn rows(&self, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Blind> {
        let (moves, client) = self.client().await?;
        let rows = tokio::time::timeout(PATIENCE, client.query(sql, values)).await;
        match rows {
            Ok(_) if self.place().moves != moves => Err("PostgreSQL has moved".to_owned()),
            Ok(Ok(rows)) => Ok(rows),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => {
                *self.client.lock().await = None;
                Err("PostgreSQL takes too long".to_owned())
            }
        }
    }

    /// Whether a signed transaction is committed as an attempt.
    pub(super) async fn on_record(&self, hash: &[u8]) -> OnRecord {
        for _ in 0..2 {
            let found = self.rows("SELECT FROM attempt WHERE hash = $1", &[&hash]).await;
            if let Ok(rows) = found {
                return if rows.is_empty() { OnRecord::No } else { OnRecord::Yes };
            }
        }
        OnRecord::Unknown
    }

    /// The tokens of all lanes, and the time after the look.
    pub(super) async fn tokens(&self) -> Result<Vec<TokenSample>, Blind> {
        let sql = "SELECT '0x' || encode(signer, 'hex'), fencing_token, owner_node,
                          (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
                   FROM lane";
        let rows = self.rows(sql, &[]).await?;
        let samples = rows.iter().map(|row| TokenSample {
            at: row.get(3),
            signer: row.get(0),
            token: number(row.get(1)),
            owner: row.get(2),
        });
        Ok(samples.collect())
    }

    /// How many transactions are not at their end.
    pub(super) async fn open(&self) -> Result<u64, Blind> {
        let rows = self.rows("SELECT count(*) FROM tx WHERE phase <> 'DONE'", &[]).await?;
        Ok(number(rows[0].get(0)))
    }

    /// Accounts whose restore nobody has settled.
    pub(super) async fn restored_lanes(&self) -> Result<Vec<String>, Blind> {
        let sql = "SELECT '0x' || encode(signer, 'hex') FROM lane
                   WHERE restored_at IS NOT NULL AND restore_settled_at IS NULL";
        Ok(self.rows(sql, &[]).await?.iter().map(|row| row.get(0)).collect())
    }

    /// Everything that the checker looks at.
    pub(super) async fn dump(&self, evidence: &mut Evidence) -> Result<(), Blind> {
        evidence.txs = self.txs().await?;
        evidence.attempts = self.attempts().await?;
        evidence.events = self.events().await?;
        evidence.nonces = self.nonces().await?;
        evidence.lanes = self.lanes().await?;
        evidence.lane_events = self.lane_events().await?;
        Ok(())
    }

    /// Everything that would be lost if the database went back now.
    pub(super) async fn all_sent(&self) -> Result<Lost, Blind> {
        Ok(Lost { txs: self.txs().await?, attempts: self.attempts().await? })
    }

    /// All transactions.
    pub(super) async fn txs(&self) -> Result<Vec<Tx>, Blind> {
        let sql = "SELECT tx_id::text, tenant, '0x' || encode(signer, 'hex'), request_id,
                          coalesce(payload ->> 'value', '0x0'), nonce, state, sub_state,
                          '0x' || encode(tx_hash, 'hex'), block_number,
                          '0x' || encode(block_hash, 'hex'), finality, events::bigint,
                          (extract(epoch FROM created_at) * 1000000)::bigint
                   FROM tx ORDER BY position";
        let rows = self.rows(sql, &[]).await?;
        let txs = rows.iter().map(|row| Tx {
            id: row.get(0),
            tenant: row.get(1),
            signer: row.get(2),
            request_id: row.get(3),
            wei: super::chain::decimal(row.get(4)),
            nonce: row.get::<_, Option<i64>>(5).map(number),
            state: row.get(6),
            sub_state: row.get(7),
            tx_hash: row.get(8),
            block_number: row.get::<_, Option<i64>>(9).map(number),
            block_hash: row.get(10),
            finality: row.get(11),
            events: number(row.get(12)),
            created_at: row.get(13),
        });
        Ok(txs.collect())
    }

    async fn attempts(&self) -> Result<Vec<Attempt>, Blind> {
        let sql = "SELECT tx_id::text, number::bigint, kind, '0x' || encode(hash, 'hex'),
                          fencing_token, (extract(epoch FROM created_at) * 1000000)::bigint
                   FROM attempt ORDER BY tx_id, number";
        let rows = self.rows(sql, &[]).await?;
        let attempts = rows.iter().map(|row| Attempt {
            tx_id: row.get(0),
            number: number(row.get(1)),
            kind: row.get(2),
            hash: row.get(3),
            token: number(row.get(4)),
            created_at: row.get(5),
        });
        Ok(attempts.collect())
    }

    async fn events(&self) -> Result<Vec<Event>, Blind> {
        let sql = "SELECT tx_id::text, seq::bigint, entry, '0x' || encode(signer, 'hex'), kind,
                          state, sub_state, (extract(epoch FROM at) * 1000000)::bigint, node_id,
                          fencing_token, data::text
                   FROM tx_event ORDER BY entry";
        let rows = self.rows(sql, &[]).await?;
        let events = rows.iter().map(|row| Event {
            tx_id: row.get(0),
            seq: number(row.get(1)),
            entry: row.get(2),
            signer: row.get(3),
            kind: row.get(4),
            state: row.get(5),
            sub_state: row.get(6),
            at: row.get(7),
            node: row.get(8),
            token: row.get::<_, Option<i64>>(9).map(number),
            data: row.get(10),
        });
        Ok(events.collect())
    }

    /// The nonce ledger.
    pub(super) async fn nonces(&self) -> Result<Vec<NonceRow>, Blind> {
        let sql = "SELECT '0x' || encode(signer, 'hex'), nonce, owner_kind, owner_id::text, status,
                          fencing_token, (extract(epoch FROM updated_at) * 1000000)::bigint
                   FROM nonce ORDER BY signer, nonce";
        let rows = self.rows(sql, &[]).await?;
        let nonces = rows.iter().map(|row| NonceRow {
            signer: row.get(0),
            nonce: number(row.get(1)),
            owner_kind: row.get(2),
            owner_id: row.get(3),
            status: row.get(4),
            token: number(row.get(5)),
            updated_at: row.get(6),
        });
        Ok(nonces.collect())
    }

    async fn lanes(&self) -> Result<Vec<Lane>, Blind> {
        let sql =
            "SELECT '0x' || encode(signer, 'hex'), owner_node, fencing_token, next_nonce, paused
                   FROM lane ORDER BY signer";
        let rows = self.rows(sql, &[]).await?;
        let lanes = rows.iter().map(|row| Lane {
            signer: row.get(0),
            owner: row.get(1),
            token: number(row.get(2)),
            next_nonce: row.get::<_, Option<i64>>(3).map(number),
            paused: row.get(4),
        });
        Ok(lanes.collect())
    }

    async fn lane_events(&self) -> Result<Vec<LaneEvent>, Blind> {
        let sql = "SELECT entry, '0x' || encode(signer, 'hex'), kind,
                          (extract(epoch FROM at) * 1000000)::bigint, node_id, fencing_token,
                          data::text
                   FROM lane_event ORDER BY entry";
        let rows = self.rows(sql, &[]).await?;
        let events = rows.iter().map(|row| LaneEvent {
            entry: row.get(0),
            signer: row.get(1),
            kind: row.get(2),
            at: row.get(3),
            node: row.get(4),
            token: row.get::<_, Option<i64>>(5).map(number),
            data: row.get(6),
        });
        Ok(events.collect())
    }
}

/// None of our columns is negative.
fn number(value: i64) -> u64 {
    value.unsigned_abs()
}
