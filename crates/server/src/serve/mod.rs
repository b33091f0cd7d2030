//! Listening and stopping.
//!
//! | file | what is in it |
//! |---|---|
//! | `options` | what a server is told beside what it serves |
//! | `accept` | connections: taking them, and ending all of them |
//! | `slots` | how many there are, in all and from each address |
//! | `connection` | one connection, from its first byte to its last |
//! | `doing` | what it is doing, and the rule for when it is ended |
//! | `activity` | how its socket, its calls and its timer tell each other |
//! | `farewell` | what those are told that there is no room for |
//! | `socket` | notes what is read and written |
//! | `body` | bodies come in time, and last as long as they are read |
//! | `tls` | certificate and key, read anew when they change |
//!
//! A connection is plain HTTP/1.1 or, inside TLS, what both sides agree on before the first byte of a
//! call. So it is never guessed from what comes, which somebody who sends nothing could hold up.

mod accept;
mod activity;
mod body;
mod connection;
mod doing;
mod farewell;
mod options;
mod slots;
mod socket;
mod tls;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use stile_store::StoreError;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use self::accept::Door;
pub(crate) use self::body::BodyError;
pub use self::options::{Limits, ServeOptions, TlsFiles};
pub(crate) use self::slots::source;
use self::tls::Tls;
pub use self::tls::TlsError;
use crate::app::{App, Routed, routes};
use crate::guard::Guard;

/// Why a server does not listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Anybody on the network could send transactions.
    #[error(
        "server.listen = {0} is reachable from other machines, and there is no API key: anybody could send \
         transactions. Set server.require_key = true, or create a key first: `stile migrate` makes the database, \
         `stile key create --config FILE` the key. Or listen on 127.0.0.1 or [::1]"
    )]
    NotLoopback(SocketAddr),
    /// Without the keys nobody can be let in.
    #[error("the API keys cannot be read: {0}")]
    Keys(#[from] StoreError),
    /// The address is taken or not ours.
    #[error("cannot listen on {0}: {1}")]
    Bind(SocketAddr, std::io::Error),
    /// The certificate or the key is not usable.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// An address that is ours, before anything is served there. Callers who connect already wait.
#[derive(Debug)]
pub struct Listening {
    listener: TcpListener,
    /// As it was asked for; the port may be left to the system.
    asked: SocketAddr,
    address: SocketAddr,
    options: ServeOptions,
    tls: Option<Arc<Tls>>,
}

impl Listening {
    /// Takes the address and reads the certificate. To be done before a node starts: a process that
    /// cannot serve must not take lanes from one that does.
    pub async fn bind(listen: SocketAddr, options: ServeOptions) -> Result<Self, ListenError> {
        let tls = options.tls.clone().map(Tls::load).transpose()?.map(Arc::new);
        let listener = TcpListener::bind(listen).await.map_err(|e| ListenError::Bind(listen, e))?;
        let address = listener.local_addr().map_err(|e| ListenError::Bind(listen, e))?;
        Ok(Self { listener, asked: listen, address, options, tls })
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
    is_tls: bool,
    stop: CancellationToken,
    cut: CancellationToken,
    task: JoinHandle<Option<()>>,
}

impl Server {
    /// Listens and serves until [`Self::stop`], with the keys in the node's store.
    pub async fn start(listen: SocketAddr, app: App) -> Result<Self, ListenError> {
        let listening = Listening::bind(listen, ServeOptions::default()).await?;
        let guard = Guard::load(Arc::clone(app.node.store())).await?;
        listening.check(&guard)?;
        Ok(Self::on(listening, app, guard))
    }

    /// Serves on an address taken before, until [`Self::stop`].
    pub fn on(listening: Listening, app: App, guard: Guard) -> Self {
        let Listening { listener, address, options, tls, .. } = listening;
        if !address.ip().is_loopback() {
            guard.close();
        }
        let (stop, cut) = (CancellationToken::new(), CancellationToken::new());
        let (upkeep, is_tls) = (app.prometheus.clone(), tls.is_some());
        let fall = app.node.fall().clone();
        let Routed { routes, served } = routes(app, guard.clone(), stop.clone(), address, &options);
        let door = Door {
            routes,
            limits: options.limits,
            tls: tls.clone(),
            stop: stop.clone(),
            cut: cut.clone(),
        };
        // Without its upkeep a server goes by old keys, and shows old events.
        let task = tokio::spawn(fall.guard("server", async move {
            tokio::select! {
                () = door.serve(listener) => {}
                // Histograms gather samples until they are folded; nobody may be scraping.
                () = async { loop {
                    tokio::time::sleep(Duration::from_secs(5)).await;
                    upkeep.run_upkeep();
                } } => {}
                () = guard.keep_fresh() => {}
                () = served.hub.run(served.node.transactions()) => {}
                () = served.streams.end_those_of_old_keys(&guard) => {}
                () = async { match &tls {
                    Some(tls) => tls.keep_fresh().await,
                    None => std::future::pending().await,
                } } => {}
            }
        }));
        Self { address, is_tls, stop, cut, task }
    }

    /// Where it listens; the port that the system chose, if it was left to it.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether it speaks TLS.
    pub fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// Takes no more connections, ends streams of events, and lets running requests finish, `grace`
    /// at most.
    pub async fn stop(self, grace: Duration) {
        self.stop.cancel();
        let abort = self.task.abort_handle();
        if tokio::time::timeout(grace, self.task).await.is_err() {
            self.cut.cancel();
            abort.abort();
            tracing::warn!(?grace, "requests were still running when the server stopped");
        }
    }
}
