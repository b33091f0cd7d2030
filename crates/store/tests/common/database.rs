//! A database of one's own, and handles on it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use stile_store::{OpenOptions, Store, open};
use tempfile::TempDir;
use testkit::{Postgres, TcpProxy};

use super::Raw;
use super::nodes::LEASE;

/// A database that one test has to itself.
#[derive(Debug)]
pub(crate) struct Database {
    url: String,
    /// Where an embedded one lives.
    directory: Option<TempDir>,
}

impl Database {
    /// A new database on the server that this process's tests share.
    pub(crate) async fn postgres() -> Self {
        Self::on(Postgres::shared().await).await
    }

    /// A new database on a server.
    pub(crate) async fn on(server: &Postgres) -> Self {
        Self { url: server.database().await, directory: None }
    }

    /// A new file.
    pub(crate) fn sqlite() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let file = directory.path().join("stile.db");
        Self { url: format!("sqlite://{}", file.display()), directory: Some(directory) }
    }

    /// An empty one of the same kind.
    pub(crate) async fn another(&self) -> Self {
        if self.is_postgres() { Self::postgres().await } else { Self::sqlite() }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn is_postgres(&self) -> bool {
        self.directory.is_none()
    }

    /// What to open it with. Waits are longer than any test needs, so that only what is meant to
    /// run out does.
    pub(crate) fn options(&self) -> OpenOptions {
        OpenOptions {
            url: self.url.clone(),
            pool_size: 4,
            statement_timeout: Duration::from_secs(20),
            lock_timeout: Duration::from_secs(15),
            lease: LEASE,
            serve: false,
        }
    }

    /// A handle with connections of its own, as another node would have.
    pub(crate) fn open(&self) -> Arc<dyn Store> {
        open(self.options()).expect("open the store")
    }

    /// SQL past the store.
    pub(crate) async fn raw(&self) -> Raw {
        Raw::connect(&self.url).await
    }
}

/// A database with its schema, and a first node's handle on it.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) database: Database,
    pub(crate) store: Arc<dyn Store>,
}

impl Bench {
    pub(crate) async fn new(database: Database) -> Self {
        let store = database.open();
        store.migrate().await.expect("migrate");
        Self { database, store }
    }

    pub(crate) async fn postgres() -> Self {
        Self::new(Database::postgres().await).await
    }

    pub(crate) async fn sqlite() -> Self {
        Self::new(Database::sqlite()).await
    }

    /// A second node's handle.
    pub(crate) fn second(&self) -> Arc<dyn Store> {
        self.database.open()
    }

    pub(crate) async fn raw(&self) -> Raw {
        self.database.raw().await
    }

    /// What this database is opened with, by way of a proxy.
    pub(crate) async fn proxied(&self) -> (TcpProxy, OpenOptions) {
        let (proxy, url) = proxied(self.database.url()).await;
        (proxy, OpenOptions { url, ..self.database.options() })
    }
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
