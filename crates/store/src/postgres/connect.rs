//! The pool, TLS, and what every new connection is asked.

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{
    Hook, HookError, Manager, ManagerConfig, Pool, RecyclingMethod, Runtime, Timeouts,
};
use rustls::ClientConfig;
use rustls_platform_verifier::BuilderVerifierExt;
use stile_domain::Secret;
use tokio_postgres::Config;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::reached::{self, Reached};
use super::statement::Pooler;
use crate::StoreError;

/// How to reach PostgreSQL and how long to wait for it.
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    /// `postgres://user@host/database`, with libpq's parameters after a `?`.
    pub url: Secret,
    /// Where notifications are heard, past any pooler; `None`: at `url`.
    pub direct_url: Option<Secret>,
    /// Connections at most.
    pub pool_size: usize,
    /// The longest a statement may run.
    pub statement_timeout: Duration,
    /// The longest a statement may wait for a row.
    pub lock_timeout: Duration,
    /// The longest a transaction may sit idle before the server ends it. Below half a lease, so
    /// that a process frozen inside a transaction does not keep its lanes from being taken over.
    pub idle_in_transaction_timeout: Duration,
    /// What stands in between.
    pub pooler: Pooler,
}

/// How long a connection may take, and how long a call waits for a free one.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// What a hook says when the server would lose commits; the session layer recognises it.
pub(super) const NOT_DURABLE: &str = "synchronous_commit is off";

/// How to connect to a URL.
pub(super) fn config(url: &str) -> Result<Config, StoreError> {
    let mut config: Config = url.parse().map_err(|e: tokio_postgres::Error| {
        StoreError::Url(format!("not a PostgreSQL URL: {e}"))
    })?;
    config.application_name(config.get_application_name().unwrap_or("stile").to_owned());
    config.connect_timeout(CONNECT_TIMEOUT);
    config.keepalives_idle(Duration::from_secs(10));
    Ok(config)
}

pub(crate) fn pool(options: &PostgresOptions) -> Result<Pool, StoreError> {
    pool_of(options, Arc::default())
}

/// A pool of several: `reached` learns from every new connection how far the database has come.
pub(super) fn pool_of(
    options: &PostgresOptions,
    reached: Arc<Reached>,
) -> Result<Pool, StoreError> {
    let manager = Manager::from_config(
        config(options.url.reveal())?,
        MakeRustlsConnect::new(tls()?),
        ManagerConfig { recycling_method: RecyclingMethod::Fast },
    );
    Pool::builder(manager)
        .max_size(options.pool_size)
        .runtime(Runtime::Tokio1)
        .timeouts(Timeouts {
            wait: Some(options.statement_timeout),
            create: Some(CONNECT_TIMEOUT * 2),
            recycle: Some(CONNECT_TIMEOUT),
        })
        .post_create(check(reached))
        .build()
        .map_err(|e| StoreError::Internal(e.to_string()))
}

/// Asked on every new connection, not only at start: the setting may come from the role or the
/// database and may be changed while we run, and another server may answer than before.
fn check(reached: Arc<Reached>) -> Hook {
    Hook::async_fn(move |client, _| {
        let reached = Arc::clone(&reached);
        Box::pin(async move {
            let before = reached.so_far();
            let answer = client.query_typed_one(reached::ASK, &[]).await;
            let row = answer.map_err(HookError::Backend)?;
            if row.get::<_, &str>("durability") == "off" {
                return Err(HookError::message(NOT_DURABLE));
            }
            reached.connected(before, &row);
            Ok(())
        })
    })
}

/// The system's certificates decide, as for every other client on the machine; the URL's
/// `sslmode` decides whether TLS is used at all.
pub(super) fn tls() -> Result<ClientConfig, StoreError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_platform_verifier())
        .map_err(|e| StoreError::Internal(format!("TLS cannot be set up: {e}")))?;
    Ok(config.with_no_client_auth())
}
