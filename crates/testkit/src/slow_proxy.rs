//! A TCP proxy that takes its time.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::ports;

/// Stands between a client and a server and passes on what the server says after a while. What was
/// said together arrives together: it is slow, not narrow.
#[derive(Debug)]
pub struct SlowProxy {
    address: SocketAddr,
    delay_ms: Arc<AtomicU64>,
    _listening: JoinSet<()>,
}

impl SlowProxy {
    /// Starts forwarding, without a delay, from a free port of 127.0.0.1.
    pub async fn start(target: SocketAddr) -> Self {
        let (listener, address) = loop {
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, ports::free_port()));
            if let Ok(listener) = TcpListener::bind(address).await {
                break (listener, address);
            }
        };
        let delay_ms = Arc::new(AtomicU64::new(0));
        let mut listening = JoinSet::new();
        let delay = Arc::clone(&delay_ms);
        listening.spawn(async move {
            let mut connections = FuturesUnordered::new();
            loop {
                tokio::select! {
                    accepted = listener.accept() => {
                        let (client, _) = accepted.expect("accept a connection");
                        connections.push(serve(client, target, Arc::clone(&delay)));
                    }
                    Some(()) = connections.next() => {}
                }
            }
        });
        Self { address, delay_ms, _listening: listening }
    }

    /// Where clients connect.
    pub fn addr(&self) -> SocketAddr {
        self.address
    }

    /// From now on every answer takes this much longer.
    pub fn set_delay(&self, delay: Duration) {
        let delay = u64::try_from(delay.as_millis()).expect("a short delay");
        self.delay_ms.store(delay, Ordering::Release);
    }
}

async fn serve(mut client: TcpStream, target: SocketAddr, delay: Arc<AtomicU64>) {
    let Ok(mut server) = TcpStream::connect(target).await else {
        return;
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (mut from_client, to_client) = client.split();
    let (from_server, mut to_server) = server.split();
    let requests = async {
        let _ = tokio::io::copy(&mut from_client, &mut to_server).await;
        let _ = to_server.shutdown().await;
    };
    let (hold, held) = mpsc::unbounded_channel();
    let answers = async { tokio::join!(read(from_server, hold, &delay), write(to_client, held)) };
    // Whichever side ends, both sockets close when this returns.
    tokio::select! {
        () = requests => {}
        _ = answers => {}
    }
}

async fn read(
    mut from: ReadHalf<'_>,
    hold: mpsc::UnboundedSender<(Instant, Vec<u8>)>,
    delay: &AtomicU64,
) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(length) = from.read(&mut buffer).await
        && length > 0
    {
        let due = Instant::now() + Duration::from_millis(delay.load(Ordering::Acquire));
        if hold.send((due, buffer[..length].to_vec())).is_err() {
            return;
        }
    }
}

async fn write(mut to: WriteHalf<'_>, mut held: mpsc::UnboundedReceiver<(Instant, Vec<u8>)>) {
    while let Some((due, chunk)) = held.recv().await {
        tokio::time::sleep_until(due).await;
        if to.write_all(&chunk).await.is_err() {
            return;
        }
    }
}
