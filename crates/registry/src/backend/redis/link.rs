//! The connection to Redis: found out what it is, made again when it is lost.

mod wire;

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use futures::FutureExt;
use redis::aio::MultiplexedConnection;
use redis::cluster::ClusterClientBuilder;
use redis::{
    AsyncConnectionConfig, Client, ConnectionInfo, IntoConnectionInfo, ProtocolVersion, PushInfo,
    RedisError, RedisResult, ServerErrorKind,
};
use tokio::sync::{mpsc, watch};

pub(super) use self::wire::Wire;
use crate::backend::Backend;
use crate::error::BackendError;
use crate::registry::ConnectError;

/// Making a connection takes several round trips, and is waited for by nobody in particular.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// After so many calls in a row without an answer another connection is tried.
const SILENT_CALLS: u32 = 20;

/// What came of the attempts to connect.
#[derive(Debug, Clone, Default)]
struct Attempts {
    under_way: bool,
    error: Option<String>,
}

#[derive(Debug)]
pub(super) struct Link {
    servers: Vec<ConnectionInfo>,
    timeout: Duration,
    wire: ArcSwapOption<Wire>,
    attempts: watch::Sender<Attempts>,
    silent: AtomicU32,
    /// What keys begin with whose changes one server is to tell of, and to whom.
    tracked: Option<(Vec<String>, mpsc::UnboundedSender<PushInfo>)>,
}

impl Link {
    /// Nothing is connected yet.
    pub(super) fn new(
        url: &str,
        timeout: Duration,
        tracked: Option<(Vec<String>, mpsc::UnboundedSender<PushInfo>)>,
    ) -> Result<Self, ConnectError> {
        let invalid = |reason: String| ConnectError::Address { url: without_password(url), reason };
        let urls = url.split(',').map(str::trim).filter(|url| !url.is_empty());
        let servers: RedisResult<Vec<_>> = urls.map(|url| url.into_connection_info()).collect();
        let servers = servers.map_err(|error| invalid(error.to_string()))?;
        if servers.is_empty() {
            return Err(invalid("it is empty".to_owned()));
        }
        Ok(Self {
            servers,
            timeout,
            wire: ArcSwapOption::empty(),
            attempts: watch::Sender::default(),
            silent: AtomicU32::new(0),
            tracked,
        })
    }

    pub(super) fn servers(&self) -> &[ConnectionInfo] {
        &self.servers
    }

    /// Runs one exchange with Redis within a time.
    pub(super) async fn run<T, F>(
        self: &Arc<Self>,
        limit: Duration,
        exchange: impl FnOnce(Wire) -> F,
    ) -> Result<T, BackendError>
    where
        F: Future<Output = RedisResult<T>>,
    {
        let answer = async {
            let wire = self.wire().await?;
            exchange(Wire::clone(&wire)).await.map_err(|error| self.failed(&wire, &error))
        };
        match tokio::time::timeout(limit, answer).await {
            Ok(answer) => {
                self.silent.store(0, Ordering::Relaxed);
                answer
            }
            Err(_) => {
                if self.silent.fetch_add(1, Ordering::Relaxed) >= SILENT_CALLS {
                    self.silent.store(0, Ordering::Relaxed);
                    self.wire.store(None);
                }
                Err(BackendError::TimedOut(limit))
            }
        }
    }

    /// The connection, or a new one. However many wait for it, one is made.
    pub(super) async fn wire(self: &Arc<Self>) -> Result<Arc<Wire>, BackendError> {
        if let Some(wire) = self.wire.load_full() {
            return Ok(wire);
        }
        let mut attempts = self.attempts.subscribe();
        let first = self
            .attempts
            .send_if_modified(|attempts| !std::mem::replace(&mut attempts.under_way, true));
        if first {
            let link = Arc::clone(self);
            // A task of its own: that whoever asked has no more time does not undo the work.
            tokio::spawn(async move {
                let made = tokio::time::timeout(CONNECT_TIMEOUT, link.connect());
                let error = match AssertUnwindSafe(made).catch_unwind().await {
                    Ok(Ok(Ok(wire))) => {
                        link.wire.store(Some(Arc::new(wire)));
                        None
                    }
                    Ok(Ok(Err(error))) => Some(error.to_string()),
                    Ok(Err(_)) => Some(format!("no connection within {CONNECT_TIMEOUT:?}")),
                    // The next one who asks tries again.
                    Err(_) => Some("connecting has panicked; the log says where".to_owned()),
                };
                link.attempts.send_replace(Attempts { under_way: false, error });
            });
        }
        let ended = || BackendError::Failed("the registry is ending".to_owned());
        let made = attempts.wait_for(|attempts| !attempts.under_way).await.map_err(|_| ended())?;
        match (self.wire.load_full(), &made.error) {
            (Some(wire), _) => Ok(wire),
            (None, error) => Err(BackendError::Failed(error.clone().unwrap_or_default())),
        }
    }

    async fn connect(&self) -> RedisResult<Wire> {
        let mut last = None;
        for server in &self.servers {
            match self.connect_to(server).await {
                Ok(wire) => return Ok(wire),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| RedisError::from((redis::ErrorKind::Client, "no server"))))
    }

    async fn connect_to(&self, server: &ConnectionInfo) -> RedisResult<Wire> {
        let mut config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(None)
            .set_pipeline_buffer_size(1024);
        let mut server = server.clone();
        if let Some((_, tell)) = &self.tracked {
            let settings = server.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
            server = server.set_redis_settings(settings);
            config = config.set_push_sender(tell.clone());
        }
        let client = Client::open(server)?;
        let mut one = client.get_multiplexed_async_connection_with_config(&config).await?;
        let about: String = redis::cmd("INFO").arg("cluster").query_async(&mut one).await?;
        if !about.contains("cluster_enabled:1") {
            self.track(&mut one).await;
            return Ok(Wire::One(one));
        }
        let cluster = ClusterClientBuilder::new(self.servers.clone())
            .connection_timeout(CONNECT_TIMEOUT)
            .response_timeout(self.timeout)
            .retries(2)
            .build()?;
        Ok(Wire::Cluster(cluster.get_async_connection().await?))
    }

    /// Has one server tell what others change, on the connection that this instance writes by: of its
    /// own writes it need not be told.
    async fn track(&self, one: &mut MultiplexedConnection) {
        let Some((prefixes, _)) = &self.tracked else { return };
        let mut tracking = redis::cmd("CLIENT");
        tracking.arg("TRACKING").arg("ON").arg("BCAST").arg("NOLOOP");
        for prefix in prefixes {
            tracking.arg("PREFIX").arg(prefix);
        }
        if let Err(error) = tracking.query_async::<()>(one).await {
            tracing::info!(%error, "Redis does not tell what changes; versions are checked");
        }
    }

    /// A connection that is lost, or leads to a server that may not write, is made anew.
    fn failed(&self, wire: &Arc<Wire>, error: &RedisError) -> BackendError {
        let read_only = error.kind() == redis::ErrorKind::Server(ServerErrorKind::ReadOnly);
        let one = matches!(**wire, Wire::One(_));
        if one && (error.is_unrecoverable_error() || error.is_io_error() || read_only) {
            let current = self.wire.load();
            if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, wire)) {
                self.wire.compare_and_swap(&current, None);
            }
        }
        if error.is_timeout() {
            return BackendError::TimedOut(self.timeout);
        }
        BackendError::Failed(error.to_string())
    }
}

impl super::Redis {
    /// Connects for the first time. That takes several round trips, more with TLS, and so may take
    /// longer than a call.
    pub(crate) async fn reach(&self) -> Result<(), BackendError> {
        self.link.wire().await?;
        self.ping().await
    }
}

fn without_password(url: &str) -> String {
    let safe = |url: &str| match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://…@{host}"),
        _ => url.to_owned(),
    };
    url.split(',').map(safe).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_checked_and_passwords_not_told() {
        let link = |url| Link::new(url, Duration::from_secs(1), None);
        assert_eq!(link("redis://a:1, redis://b:2").unwrap().servers.len(), 2);
        assert!(link("").is_err());
        let error = link("rodis://me:secret@host").unwrap_err().to_string();
        assert!(!error.contains("secret") && error.contains("…@host"), "{error}");
    }
}
