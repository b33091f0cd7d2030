//! The databases past the store: to see all there is.

use std::fmt::Write;
use std::path::Path;

use rusqlite::types::ValueRef;
use testkit::{Postgres, Signal, TcpProxy, eventually};
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use super::StileProcess;

/// Our tables and their keys.
/// Which nodes there are is not one of them: they tell of themselves all the time.
const TABLES: [(&str, &str); 8] = [
    ("lane", "chain_id, signer"),
    ("nonce", "chain_id, signer, nonce"),
    ("past_hold", "hold_id"),
    ("allocation_key", "tenant, chain_id, signer, idempotency_key"),
    ("tx", "tx_id"),
    ("attempt", "tx_id, number"),
    ("tx_event", "tx_id, seq"),
    ("api_key", "key_id"),
];

/// A database of a test's own on PostgreSQL.
#[derive(Debug)]
pub(crate) struct Database {
    pub(crate) url: String,
}

impl Database {
    /// A new one on the server that the tests of this binary share.
    pub(crate) async fn new() -> Self {
        Self { url: Postgres::shared().await.database().await }
    }

    /// A way to it on which the test may hold things up.
    pub(crate) async fn proxied(&self) -> (TcpProxy, String) {
        let (before, after) = self.url.split_once('@').expect("user@host");
        let (host, database) = after.split_once('/').expect("host/database");
        let proxy = TcpProxy::start(host.parse().expect("an address")).await;
        let through = format!("{before}@{}/{database}", proxy.addr());
        (proxy, through)
    }

    pub(crate) async fn connect(&self) -> Client {
        let (client, connection) =
            tokio_postgres::connect(&self.url, NoTls).await.expect("connect");
        tokio::spawn(connection);
        client
    }

    /// The rows of a query, their columns as text.
    pub(crate) async fn rows(&self, sql: &str) -> Vec<Vec<String>> {
        rows(&self.connect().await, sql).await
    }

    /// Runs statements.
    pub(crate) async fn execute(&self, sql: &str) {
        let done = self.connect().await.batch_execute(sql).await;
        done.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    }

    /// Everything in every table of ours.
    pub(crate) async fn dump(&self) -> String {
        let client = self.connect().await;
        let mut dump = String::new();
        for (table, key) in TABLES {
            let rows = rows(&client, &format!("SELECT * FROM {table} ORDER BY {key}")).await;
            write_table(&mut dump, table, &rows);
        }
        dump
    }

    /// Makes a node open so many connections, so that it has them when they are needed at once.
    pub(crate) async fn have_connections(&self, node: &StileProcess, count: usize) {
        let sessions = format!(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database()
             AND application_name = '{}'",
            node.id()
        );
        eventually("enough connections", async || {
            let reads = std::iter::repeat_with(|| node.get("/api/v1/signers")).take(count * 4);
            futures::future::join_all(reads).await;
            (self.rows(&sessions).await.len() >= count).then_some(())
        })
        .await;
    }

    /// Stops a node while it has no transaction under way, so that it keeps no row locked.
    pub(crate) async fn stop_between_transactions(&self, node: &StileProcess) {
        let busy = format!(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database()
             AND application_name = '{}' AND state <> 'idle'",
            node.id()
        );
        eventually("a moment without a transaction", async || {
            node.process.signal(Signal::Stop);
            let idle = self.rows(&busy).await.is_empty();
            if !idle {
                node.process.signal(Signal::Cont);
            }
            idle.then_some(())
        })
        .await;
    }
}

async fn rows(client: &Client, sql: &str) -> Vec<Vec<String>> {
    let answer = client.simple_query(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    let rows = answer.into_iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    rows.map(|row| {
        (0..row.len()).map(|column| row.get(column).unwrap_or("NULL").to_owned()).collect()
    })
    .collect()
}

/// Everything in every table of ours in an SQLite file that somebody else may be serving.
pub(crate) fn dump_sqlite(file: &Path) -> String {
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    let connection = rusqlite::Connection::open_with_flags(file, flags).expect("open the file");
    connection.busy_timeout(testkit::DEADLINE).expect("set the busy timeout");
    let mut dump = String::new();
    for (table, key) in TABLES {
        let sql = format!("SELECT * FROM {table} ORDER BY {key}");
        let mut statement = connection.prepare(&sql).expect(&sql);
        let columns = statement.column_count();
        let rows = statement.query_map([], |row| {
            (0..columns).map(|column| row.get_ref(column).map(text)).collect()
        });
        let rows: rusqlite::Result<Vec<Vec<String>>> = rows.expect(&sql).collect();
        write_table(&mut dump, table, &rows.expect(&sql));
    }
    dump
}

fn text(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
        other => format!("{other:?}"),
    }
}

fn write_table(dump: &mut String, table: &str, rows: &[Vec<String>]) {
    writeln!(dump, "{table}").expect("write to a string");
    for row in rows {
        writeln!(dump, "    {}", row.join(" | ")).expect("write to a string");
    }
}
