//! A node with its HTTP server, from start to the last signal.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use stile_engine::{Fallen, Node};
use stile_registry::Registry;
use stile_server::{App, Guard, Listening, Server};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{Failure, open_files};
use crate::wiring::Parts;

/// How long requests may still take once a task has panicked.
const FALLEN_GRACE: Duration = Duration::from_secs(1);

/// How long a node takes to leave after that, at most.
const LEAVES_WITHIN: Duration = Duration::from_secs(15);

/// A node and its server.
pub(crate) struct Running {
    pub(crate) node: Arc<Node>,
    pub(crate) server: Server,
    registry: Registry,
    /// Whether calls needed no key when it started.
    pub(crate) open: bool,
    grace: Duration,
}

/// Takes the address, opens the store, brings the schema up to date if asked to, starts node and
/// server.
pub(crate) async fn start(
    mut parts: Parts,
    listen: SocketAddr,
    migrate: bool,
) -> Result<Running, Failure> {
    // Every server goes through here, inside another program, too.
    parts.serve.limits = open_files::fit(parts.serve.limits);
    // First of all: a process that cannot listen must not touch the lanes of one that does.
    let listening = Listening::bind(listen, parts.serve).await?;
    let prometheus = recorder()?;
    stile_engine::metrics::describe();
    let store = stile_store::open(parts.store)?;
    if migrate {
        for name in store.migrate().await?.applied {
            tracing::info!(migration = name, "schema migrated");
        }
    }
    store.check_schema().await?;
    let guard = Guard::load(Arc::clone(&store)).await?;
    if parts.require_key {
        guard.close();
    }
    if !guard.is_open() && !guard.has_keys() {
        tracing::warn!(
            "no API key lets anybody in: make one with `stile key create --config FILE`"
        );
    }
    listening.check(&guard)?;
    let grace = parts.settings.shutdown_grace;
    let chain = Arc::clone(&parts.managed.chains);
    let mut managed = parts.managed;
    let registry = parts.registry.open(&mut managed.calls).await?;
    managed.registry = Some(registry.clone());
    let registry = registry.registry().clone();
    let node = Node::start_managed(parts.settings, store, chain, managed).await?;
    let node = Arc::new(node);
    let (directory, cluster) = (parts.directory, parts.cluster);
    let app =
        App { node: Arc::clone(&node), directory, prometheus, registry: registry.clone(), cluster };
    let open = guard.is_open();
    let server = Server::on(listening, app, guard);
    Ok(Running { node, server, registry, open, grace })
}

impl Running {
    /// Serves until a signal, then stops in order: hand lanes over, no new requests, finish what
    /// runs, give the leases back. A second signal ends the process at once. So does a task that
    /// panics, but nothing is handed over then, and it is the process's failure.
    pub(super) async fn until_signal(self) -> Result<(), Failure> {
        let mut signals = Signals::new()?;
        tokio::select! {
            name = signals.next() => {
                tracing::info!(signal = name, "stopping; once more to stop at once");
            }
            fallen = self.falls() => {
                let left = tokio::time::timeout(LEAVES_WITHIN, self.stop()).await;
                if left.is_err() {
                    tracing::error!("not all was given back in time; leases run out by themselves");
                }
                return Err(fallen.into());
            }
        }
        tokio::select! {
            stopped = self.stop() => Ok(stopped?),
            name = signals.next() => {
                tracing::warn!(signal = name, "stopped at once; leases run out by themselves");
                std::process::exit(130);
            }
        }
    }

    /// Waits until a task has panicked without which this is no node.
    pub(crate) async fn falls(&self) -> Fallen {
        tokio::select! {
            fallen = self.node.fall().happens() => fallen,
            fallen = self.registry.fall().happens() => fallen,
        }
    }

    fn fallen(&self) -> Option<Fallen> {
        self.node.fall().fallen().or(self.registry.fall().fallen()).cloned()
    }

    /// Stops in order. After a panic, which it answers with, at once: other nodes take the lanes from
    /// the store.
    pub(crate) async fn stop(self) -> Result<(), Fallen> {
        let mut grace = self.grace;
        match self.fallen() {
            None => self.node.drain().await,
            Some(_) => grace = grace.min(FALLEN_GRACE),
        }
        let fall = (self.node.fall().clone(), self.registry.fall().clone());
        self.server.stop(grace).await;
        let cut_short = self.node.shutdown().await;
        self.registry.shutdown().await;
        tracing::info!(cut_short, "stopped");
        match fall.0.fallen().or(fall.1.fallen()) {
            None => Ok(()),
            Some(fallen) => Err(fallen.clone()),
        }
    }
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }
}

/// Gathers metrics for `/metrics`: all of the process's, from the first call on. In a program that
/// has a recorder of its own they go there, and `/metrics` has nothing to show.
pub(super) fn recorder() -> Result<PrometheusHandle, Failure> {
    static GATHERED: OnceLock<PrometheusHandle> = OnceLock::new();
    if let Some(handle) = GATHERED.get() {
        return Ok(handle.clone());
    }
    let handle = match with_buckets()?.install_recorder() {
        Ok(handle) => handle,
        Err(error) => {
            tracing::info!(%error, "metrics are gathered elsewhere; /metrics is empty");
            with_buckets()?.build_recorder().handle()
        }
    };
    Ok(GATHERED.get_or_init(|| handle).clone())
}

fn with_buckets() -> Result<PrometheusBuilder, Failure> {
    let seconds = [
        0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0,
        2.5, 5.0, 10.0,
    ];
    let sizes = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0];
    let lifetimes = [
        0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0,
        3600.0,
    ];
    let mut builder = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &seconds)?
        .set_buckets_for_metric(Matcher::Suffix("_size".into()), &sizes)?;
    for name in stile_engine::metrics::LIFETIMES {
        builder = builder.set_buckets_for_metric(Matcher::Full(name.into()), &lifetimes)?;
    }
    Ok(builder)
}
