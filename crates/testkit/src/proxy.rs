//! A TCP proxy that does to connections what networks do.

mod connection;
mod faults;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex as Shared, PoisonError};

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::net::TcpListener;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use self::faults::Faults;
use crate::ports;

/// Stands between a client and a server. Belongs to the runtime it was started on; dropped, it
/// closes everything.
#[derive(Debug)]
pub struct TcpProxy {
    address: SocketAddr,
    target: Arc<Shared<SocketAddr>>,
    faults: Arc<Faults>,
    /// The task that listens, with its connections inside. Empty while cut.
    listening: Mutex<JoinSet<()>>,
}

impl TcpProxy {
    /// Starts forwarding from a free port of 127.0.0.1.
    pub async fn start(target: SocketAddr) -> Self {
        let (listener, address) = bind_anywhere().await;
        let target = Arc::new(Shared::new(target));
        let proxy = Self { address, target, faults: Arc::default(), listening: Mutex::default() };
        proxy.listen(listener, &mut *proxy.listening.lock().await);
        proxy
    }

    /// Where clients connect; the same as long as the proxy lives.
    pub fn addr(&self) -> SocketAddr {
        self.address
    }

    /// Sends new connections to another server. Those that are open stay where they are.
    pub fn point_to(&self, target: SocketAddr) {
        *self.target.lock().unwrap_or_else(PoisonError::into_inner) = target;
    }

    /// Closes every connection and refuses new ones, until [`TcpProxy::heal`].
    pub async fn cut(&self) {
        // Waits for the task to end: then the sockets are closed, not about to be.
        self.listening.lock().await.shutdown().await;
    }

    /// Keeps connections open and accepts new ones, but lets no byte through, until
    /// [`TcpProxy::heal`] lets through whatever has come in the meantime.
    pub fn freeze(&self) {
        self.faults.set_frozen(true);
    }

    /// Ends [`TcpProxy::cut`] and [`TcpProxy::freeze`]. Connections that were cut stay closed.
    ///
    /// Panics if somebody took the port while it was cut.
    pub async fn heal(&self) {
        self.faults.set_frozen(false);
        let mut listening = self.listening.lock().await;
        if listening.is_empty() {
            let listener = TcpListener::bind(self.address).await.expect("listen again");
            self.listen(listener, &mut listening);
        }
    }

    /// The next time the server sends these bytes, on whichever connection, both sides of that
    /// connection are closed and the bytes are not passed on. What the server did, it did; the
    /// client cannot know. `b"COMMIT\0"` loses PostgreSQL's answer to a commit.
    pub fn drop_next_response_containing(&self, pattern: &[u8]) {
        assert!(!pattern.is_empty(), "a response has to contain something");
        self.faults.arm(pattern);
    }

    /// How many responses have been dropped so far.
    pub fn dropped_responses(&self) -> u64 {
        self.faults.dropped_responses()
    }

    fn listen(&self, listener: TcpListener, listening: &mut JoinSet<()>) {
        let (target, faults) = (Arc::clone(&self.target), Arc::clone(&self.faults));
        listening.spawn(async move {
            // Inside this task rather than in tasks of their own: when it has ended, they have.
            let mut connections = FuturesUnordered::new();
            loop {
                tokio::select! {
                    accepted = listener.accept() => {
                        let (client, _) = accepted.expect("accept a connection");
                        let target = *target.lock().unwrap_or_else(PoisonError::into_inner);
                        connections.push(connection::serve(client, target, Arc::clone(&faults)));
                    }
                    Some(()) = connections.next() => {}
                }
            }
        });
    }
}

async fn bind_anywhere() -> (TcpListener, SocketAddr) {
    loop {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, ports::free_port()));
        if let Ok(listener) = TcpListener::bind(address).await {
            return (listener, address);
        }
    }
}
