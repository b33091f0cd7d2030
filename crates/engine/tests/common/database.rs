//! A database of one's own, and handles on it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use stile_store::{OpenOptions, Store, open};
use tempfile::TempDir;
use testkit::{Postgres, TcpProxy};

/// A database that one test has to itself.
#[derive(Debug)]
pub(crate) struct Database {
    url: String,
    /// Where an embedded one lives.
    _directory: Option<TempDir>,
}

impl Database {
    /// A new database on the server that this process's tests share.
    pub(crate) async fn postgres() -> Self {
        Self { url: Postgres::shared().await.database().await, _directory: None }
    }

    /// A new file.
    pub(crate) fn sqlite() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let file = directory.path().join("stile.db");
        Self { url: format!("sqlite://{}", file.display()), _directory: Some(directory) }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// A handle with connections of its own, as another node would have.
    pub(crate) fn open(&self) -> Arc<dyn Store> {
        open_at(self.url.clone())
    }

    /// A handle by way of a proxy (PostgreSQL only).
    pub(crate) async fn open_proxied(&self) -> (TcpProxy, Arc<dyn Store>) {
        let (proxy, url) = proxied(&self.url).await;
        (proxy, open_at(url))
    }

    /// SQL past the store (PostgreSQL only).
    pub(crate) async fn execute(&self, sql: &str) {
        let connected = tokio_postgres::connect(&self.url, tokio_postgres::NoTls).await;
        let (client, connection) = connected.expect("connect");
        let run = async move { client.batch_execute(sql).await };
        let (done, _) = tokio::join!(run, connection);
        done.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    }
}

impl Database {
    /// The first column of the first row, a text (PostgreSQL only).
    pub(crate) async fn value(&self, sql: &str) -> String {
        let connected = tokio_postgres::connect(&self.url, tokio_postgres::NoTls).await;
        let (client, connection) = connected.expect("connect");
        let run = async move { client.query_one(sql, &[]).await.map(|row| row.get(0)) };
        let (value, _) = tokio::join!(run, connection);
        value.unwrap_or_else(|error| panic!("{sql}: {error:?}"))
    }
}

/// Waits are longer than a sound database needs and shorter than the deadline of a test.
fn open_at(url: String) -> Arc<dyn Store> {
    let options = OpenOptions {
        url: url.into(),
        direct_url: None,
        pool_size: 8,
        statement_timeout: Duration::from_secs(10),
        lock_timeout: Duration::from_secs(5),
        pooler: stile_store::postgres::Pooler::None,
        lease: Duration::from_secs(10),
        serve: false,
    };
    open(options).expect("open the store")
}

/// A proxy in front of a PostgreSQL database, and the database's URL by way of it.
pub(crate) async fn proxied(url: &str) -> (TcpProxy, String) {
    let (before, rest) = url.split_once('@').expect("a user in the URL");
    let (address, database) = rest.split_once('/').expect("a database in the URL");
    let target: SocketAddr = address.parse().expect("an address and port in the URL");
    let proxy = TcpProxy::start(target).await;
    let through = format!("{before}@{}/{database}", proxy.addr());
    (proxy, through)
}
