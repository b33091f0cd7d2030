//! Those who take what they can.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::StreamExt;
use serde::Serialize;
use stile_domain::Token;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

use super::super::Failure;
use super::super::http::Connection;
use super::AbuseArgs;

/// Connections that wrong keys come over.
const CONNECTIONS: usize = 20;
/// Streams that are opened at one time.
const OPENING: usize = 50;

/// Where each of them comes from; where the system has no such address, from wherever it likes.
const STREAMS_FROM: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const HALF_SENT_FROM: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);
const WRONG_KEYS_FROM: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 4);

/// An attack that goes on. Dropped, it ends.
pub(super) struct Attack {
    tasks: JoinSet<()>,
    counts: Arc<Counts>,
    streams: usize,
}

#[derive(Default)]
struct Counts {
    half_sent: AtomicU64,
    closed: AtomicU64,
    wrong: AtomicU64,
    unauthorized: AtomicU64,
    slowed: AtomicU64,
}

/// What came of it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Outcome {
    pub(super) streams_open: usize,
    pub(super) half_sent: u64,
    /// Of these, so many the server has closed.
    pub(super) half_sent_closed: u64,
    pub(super) wrong_keys: u64,
    /// Answered 401.
    pub(super) wrong_keys_unauthorized: u64,
    /// Answered 429.
    pub(super) wrong_keys_slowed: u64,
}

impl Attack {
    /// Begins it, and returns once all streams are open.
    pub(super) async fn begin(
        server: SocketAddr,
        key: &str,
        args: &AbuseArgs,
    ) -> Result<Self, Failure> {
        let (mut tasks, counts) = (JoinSet::new(), Arc::new(Counts::default()));
        let opening = (0..args.streams).map(|_| stream(server, key));
        let opened: Vec<_> =
            futures::stream::iter(opening).buffer_unordered(OPENING).collect().await;
        let streams: Vec<TcpStream> = opened.into_iter().collect::<Result<_, _>>()?;
        let count = streams.len();
        for stream in streams {
            tasks.spawn(held(stream));
        }
        for _ in 0..args.half_sent {
            tasks.spawn(half_sent(server, Arc::clone(&counts)));
        }
        let every = Duration::from_secs_f64(CONNECTIONS as f64 / args.wrong_keys.max(1) as f64);
        for _ in 0..if args.wrong_keys == 0 { 0 } else { CONNECTIONS } {
            tasks.spawn(wrong_keys(server, every, Arc::clone(&counts)));
        }
        Ok(Self { tasks, counts, streams: count })
    }

    /// Ends it: all connections are closed.
    pub(super) async fn end(mut self) -> Outcome {
        self.tasks.shutdown().await;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Outcome {
            streams_open: self.streams,
            half_sent: count(&self.counts.half_sent),
            half_sent_closed: count(&self.counts.closed),
            wrong_keys: count(&self.counts.wrong),
            wrong_keys_unauthorized: count(&self.counts.unauthorized),
            wrong_keys_slowed: count(&self.counts.slowed),
        }
    }
}

async fn connect(server: SocketAddr, from: Ipv4Addr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    if socket.bind(SocketAddr::from((from, 0))).is_err() {
        return TcpStream::connect(server).await;
    }
    socket.connect(server).await
}

/// An event stream that has begun.
async fn stream(server: SocketAddr, key: &str) -> Result<TcpStream, Failure> {
    let mut stream = connect(server, STREAMS_FROM).await?;
    let head = format!(
        "GET /api/v1/events HTTP/1.1\r\nHost: {server}\r\nAuthorization: Bearer {key}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    let mut line = [0; 12];
    stream.read_exact(&mut line).await?;
    if &line == b"HTTP/1.1 200" {
        return Ok(stream);
    }
    let mut rest = vec![0; 4096];
    let length = stream.read(&mut rest).await?;
    Err(format!("no stream: {}", String::from_utf8_lossy(&rest[..length])).into())
}

/// Reads what comes, and says nothing.
async fn held(mut stream: TcpStream) {
    let mut buffer = [0; 1024];
    while stream.read(&mut buffer).await.is_ok_and(|length| length > 0) {}
}

/// Begins a call, waits until it is given up, and begins the next.
async fn half_sent(server: SocketAddr, counts: Arc<Counts>) {
    loop {
        let Ok(mut stream) = connect(server, HALF_SENT_FROM).await else { return };
        if stream.write_all(b"POST /api/v1/tx HTTP/1.1\r\nHost: loc").await.is_ok() {
            counts.half_sent.fetch_add(1, Ordering::Relaxed);
            held(stream).await;
            counts.closed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Tries keys that nobody has.
async fn wrong_keys(server: SocketAddr, every: Duration, counts: Arc<Counts>) {
    let mut ticks = tokio::time::interval(every);
    loop {
        let Ok(stream) = connect(server, WRONG_KEYS_FROM).await else { return };
        let Ok(mut connection) = Connection::over(stream, server).await else { return };
        loop {
            ticks.tick().await;
            let Ok(token) = Token::fresh() else { return };
            if connection.use_key(token.reveal()).is_err() {
                return;
            }
            let Ok((status, _)) = connection.get("/api/v1/signers").await else { break };
            counts.wrong.fetch_add(1, Ordering::Relaxed);
            match status.as_u16() {
                401 => counts.unauthorized.fetch_add(1, Ordering::Relaxed),
                429 => counts.slowed.fetch_add(1, Ordering::Relaxed),
                _ => 0,
            };
        }
    }
}
