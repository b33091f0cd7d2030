//! Listening and stopping.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use stile_store::StoreError;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::app::{App, routes};
use crate::guard::Guard;

/// Why a server does not listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Anybody on the network could send transactions.
    #[error(
        "server.listen = {0} is reachable from other machines, and there is no API key: anybody could send \
         transactions. Create a key first with `stile key create`, or listen on 127.0.0.1 or [::1]"
    )]
    NotLoopback(SocketAddr),
    /// Without the keys nobody can be let in.
    #[error("the API keys cannot be read: {0}")]
    Keys(#[from] StoreError),
    /// The address is taken or not ours.
    #[error("cannot listen on {0}: {1}")]
    Bind(SocketAddr, std::io::Error),
}

/// An address that is ours, before anything is served there. Callers who connect already wait.
#[derive(Debug)]
pub struct Listening {
    listener: TcpListener,
    /// As it was asked for; the port may be left to the system.
    asked: SocketAddr,
    address: SocketAddr,
}

impl Listening {
    /// Takes the address. To be done before a node starts: a process that cannot serve must not
    /// take lanes from one that does.
    pub async fn bind(listen: SocketAddr) -> Result<Self, ListenError> {
        let listener = TcpListener::bind(listen).await.map_err(|e| ListenError::Bind(listen, e))?;
        let address = listener.local_addr().map_err(|e| ListenError::Bind(listen, e))?;
        Ok(Self { listener, asked: listen, address })
    }

    /// Refuses an address that other machines reach while there is no key. To be asked before a node
    /// starts, for the same reason.
    pub fn check(&self, guard: &Guard) -> Result<(), ListenError> {
        if self.address.ip().is_loopback() || !guard.is_open() {
            return Ok(());
        }
        Err(ListenError::NotLoopback(self.asked))
    }
}

/// A listening server.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Server {
    /// Listens and serves until [`Self::stop`], with the keys in the node's store.
    pub async fn start(listen: SocketAddr, app: App) -> Result<Self, ListenError> {
        let listening = Listening::bind(listen).await?;
        let guard = Guard::load(Arc::clone(app.node.store())).await?;
        listening.check(&guard)?;
        Ok(Self::on(listening, app, guard))
    }

    /// Serves on an address taken before, until [`Self::stop`].
    pub fn on(listening: Listening, app: App, guard: Guard) -> Self {
        let Listening { listener, address, .. } = listening;
        if !address.ip().is_loopback() {
            guard.close();
        }
        let (stop, upkeep) = (CancellationToken::new(), app.prometheus.clone());
        let (stopped, routes) = (stop.clone(), routes(app, guard.clone(), stop.clone()));
        // Made once: a router as it is would be built anew for every connection, a megabyte each.
        let routes = routes.into_make_service();
        let task = tokio::spawn(async move {
            let serving =
                axum::serve(listener, routes).with_graceful_shutdown(stopped.cancelled_owned());
            tokio::select! {
                result = serving => if let Err(error) = result {
                    tracing::error!(%error, "the HTTP server ended");
                },
                // Histograms gather samples until they are folded; nobody may be scraping.
                () = async { loop {
                    tokio::time::sleep(Duration::from_secs(5)).await;
                    upkeep.run_upkeep();
                } } => {}
                () = guard.keep_fresh() => {}
            }
        });
        Self { address, stop, task }
    }

    /// Where it listens; the port that the system chose, if it was left to it.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no more connections, ends streams of events, and lets running requests finish, `grace`
    /// at most.
    pub async fn stop(self, grace: Duration) {
        self.stop.cancel();
        let abort = self.task.abort_handle();
        if tokio::time::timeout(grace, self.task).await.is_err() {
            abort.abort();
            tracing::warn!(?grace, "requests were still running when the server stopped");
        }
    }
}
