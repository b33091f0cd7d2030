//! A database of one's own, and handles on it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use stile_store::postgres::Pooler;
use stile_store::{OpenOptions, Store, open};
use tempfile::TempDir;
use testkit::{PgBouncer, Postgres, TcpProxy};
use tokio::sync::OnceCell;

use super::Raw;
use super::nodes::LEASE;

/// A database that one test has to itself.
#[derive(Debug)]
pub(crate) struct Database {
    url: String,
    /// By way of a pooler, where there is one.
    pooled_url: Option<String>,
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
        Self { url: server.database().await, pooled_url: None, directory: None }
    }

    /// A new database on the shared server, opened by way of a PgBouncer in transaction mode that the
    /// tests of this process share too.
    pub(crate) async fn pooled() -> Self {
        static SHARED: OnceCell<PgBouncer> = OnceCell::const_new();
        let server = Postgres::shared().await;
        let pooler = SHARED.get_or_init(|| PgBouncer::start(server)).await;
        let database = Self::on(server).await;
        Self { pooled_url: Some(pooler.url(&database.url)), ..database }
    }

    /// A new file.
    pub(crate) fn sqlite() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let file = directory.path().join("stile.db");
        let url = format!("sqlite://{}", file.display());
        Self { url, pooled_url: None, directory: Some(directory) }
    }

    /// An empty one of the same kind.
    pub(crate) async fn another(&self) -> Self {
        match (&self.pooled_url, &self.directory) {
            (Some(_), _) => Self::pooled().await,
            (None, None) => Self::postgres().await,
            (None, Some(_)) => Self::sqlite(),
        }
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
        let pooled = self.pooled_url.is_some();
        OpenOptions {
            direct_url: None,
            url: self.pooled_url.as_ref().unwrap_or(&self.url).as_str().into(),
            pool_size: 4,
            statement_timeout: Duration::from_secs(20),
            lock_timeout: Duration::from_secs(15),
            pooler: if pooled { Pooler::Transaction } else { Pooler::None },
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

    pub(crate) async fn pooled() -> Self {
        Self::new(Database::pooled().await).await
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

    /// As a failover to a standby, or a backup, leaves it: with the mark of a history that is lost.
    pub(crate) async fn lose_history(&self) {
        let lost = if self.database.is_postgres() {
            "overlay(stile_timeline() placing '000000FF' from 1)"
        } else {
            "NULL"
        };
        self.raw().await.execute(&format!("UPDATE lane SET timeline = {lost}")).await;
    }

    /// What this database is opened with, by way of a proxy.
    pub(crate) async fn proxied(&self) -> (TcpProxy, OpenOptions) {
        let (proxy, url) = proxied(self.database.url()).await;
        (proxy, OpenOptions { url: url.into(), ..self.database.options() })
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
