//! SQL past the store: to plant what the store would never write, and to see all there is.

use std::fmt::Write;

use rusqlite::types::ValueRef;
use stile_domain::{Lane, Nonce};
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};
use uuid::Uuid;

/// A connection of the test's own.
pub(crate) enum Raw {
    Postgres(Client),
    Sqlite(rusqlite::Connection),
}

impl Raw {
    pub(crate) async fn connect(url: &str) -> Self {
        if let Some(path) = url.strip_prefix("sqlite://") {
            let connection = rusqlite::Connection::open(path).expect("open the file");
            connection.busy_timeout(testkit::DEADLINE).expect("set the busy timeout");
            return Self::Sqlite(connection);
        }
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("connect");
        tokio::spawn(connection);
        Self::Postgres(client)
    }

    /// The client, where the test is about PostgreSQL.
    pub(crate) fn client(&self) -> &Client {
        match self {
            Self::Postgres(client) => client,
            Self::Sqlite(_) => panic!("not a connection to PostgreSQL"),
        }
    }

    /// Runs statements; what the database said if it refused one.
    pub(crate) async fn attempt(&self, sql: &str) -> Result<(), String> {
        match self {
            Self::Postgres(client) => client.batch_execute(sql).await.map_err(|error| {
                error.as_db_error().map_or_else(|| error.to_string(), |e| e.message().to_owned())
            }),
            Self::Sqlite(connection) => connection.execute_batch(sql).map_err(|e| e.to_string()),
        }
    }

    /// Runs statements that must go through.
    pub(crate) async fn execute(&self, sql: &str) {
        self.attempt(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    /// The rows of a query, their columns as text.
    pub(crate) async fn rows(&self, sql: &str) -> Vec<Vec<String>> {
        match self {
            Self::Postgres(client) => postgres_rows(client, sql).await,
            Self::Sqlite(connection) => sqlite_rows(connection, sql).expect(sql),
        }
    }

    /// The first column of the first row.
    pub(crate) async fn value(&self, sql: &str) -> String {
        let rows = self.rows(sql).await;
        rows.first().and_then(|row| row.first()).expect(sql).clone()
    }

    /// Everything in every table of ours.
    pub(crate) async fn dump(&self) -> String {
        let mut dump = String::new();
        for (table, key) in [
            ("lane", "chain_id, signer"),
            ("nonce", "chain_id, signer, nonce"),
            ("past_hold", "hold_id"),
            ("allocation_key", "tenant, chain_id, signer, idempotency_key"),
            ("tx", "position"),
            ("attempt", "tx_id, number"),
            ("tx_event", "tx_id, seq"),
            ("lane_event", "entry"),
            ("header", "chain_id, height, hash"),
            ("api_key", "key_id"),
            ("rollout_share", "chain_id"),
            ("rollout_lane", "chain_id, signer"),
        ] {
            writeln!(dump, "{table}").expect("write to a string");
            for row in self.rows(&format!("SELECT * FROM {table} ORDER BY {key}")).await {
                writeln!(dump, "    {}", row.join(" | ")).expect("write to a string");
            }
        }
        dump
    }

    /// A condition that finds a lane's rows.
    pub(crate) fn of(&self, lane: Lane) -> String {
        format!("chain_id = {} AND signer = {}", lane.chain, self.bytes(lane.signer.as_slice()))
    }

    /// Bytes as a literal.
    pub(crate) fn bytes(&self, bytes: &[u8]) -> String {
        let hex = bytes.iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
        match self {
            Self::Postgres(_) => format!("'\\x{hex}'::bytea"),
            Self::Sqlite(_) => format!("x'{hex}'"),
        }
    }

    /// A UUID as a literal.
    pub(crate) fn uuid(&self, uuid: Uuid) -> String {
        match self {
            Self::Postgres(_) => format!("'{uuid}'::uuid"),
            Self::Sqlite(_) => self.bytes(uuid.as_bytes()),
        }
    }

    /// The database's clock as an expression.
    pub(crate) fn now(&self) -> &'static str {
        match self {
            Self::Postgres(_) => "clock_timestamp()",
            Self::Sqlite(_) => "CAST(unixepoch('subsec') * 1000000 AS INTEGER)",
        }
    }

    /// Inserts a nonce that no plan knows of.
    pub(crate) async fn plant(
        &self,
        lane: Lane,
        nonce: Nonce,
        kind: &str,
        status: &str,
    ) -> Result<(), String> {
        let now = self.now();
        self.attempt(&format!(
            "INSERT INTO nonce (chain_id, signer, nonce, owner_kind, owner_id, status, locked_until,
                                fencing_token, created_at, updated_at)
             VALUES ({}, {}, {nonce}, '{kind}', {}, '{status}', {now}, 1, {now}, {now})",
            lane.chain,
            self.bytes(lane.signer.as_slice()),
            self.uuid(Uuid::now_v7()),
        ))
        .await
    }
}

async fn postgres_rows(client: &Client, sql: &str) -> Vec<Vec<String>> {
    let answer = client.simple_query(sql).await.unwrap_or_else(|e| panic!("{sql}: {e:?}"));
    let rows = answer.into_iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    rows.map(|row| {
        (0..row.len()).map(|column| row.get(column).unwrap_or("NULL").to_owned()).collect()
    })
    .collect()
}

fn sqlite_rows(connection: &rusqlite::Connection, sql: &str) -> rusqlite::Result<Vec<Vec<String>>> {
    let mut statement = connection.prepare(sql)?;
    let columns = statement.column_count();
    let rows = statement.query_map([], |row| {
        (0..columns).map(|column| row.get_ref(column).map(|value| text(&value))).collect()
    })?;
    rows.collect()
}

fn text(value: &ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "NULL".into(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => number.to_string(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
        ValueRef::Blob(bytes) => format!("{bytes:02x?}"),
    }
}
