//! One connection, from its first byte to its last.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tower::Service as _;

use super::accept::Door;
use super::activity::Activity;
use super::body::{Answer, InTime};
use super::doing::{LEAVE, Overdue, Patience, SOON};
use super::options::Limits;
use super::slots::Slot;
use super::socket::Socket;
use super::tls::{Protocol, Tls};
use crate::measure;

/// The longest head of a call. Keys, names and paths need a tenth of it.
const LONGEST_HEAD: usize = 64 * 1024;
/// Calls at once on one connection of HTTP/2.
const MOST_STREAMS: u32 = 200;
/// How often a connection of HTTP/2 with calls on it is asked whether it lives, and how long it may take
/// to say so.
const PING_EVERY: Duration = Duration::from_secs(20);
/// How long a connection of HTTP/2 may take to take leave when the server stops: something of a call
/// that is over may still have to be sent, and what that is it keeps to itself.
const FAREWELL: Duration = Duration::from_secs(1);

/// A connection that was taken.
pub(super) struct Connection {
    routes: Router,
    limits: Limits,
    tls: Option<Arc<Tls>>,
    stop: CancellationToken,
    cut: CancellationToken,
    slot: Slot,
    peer: SocketAddr,
}

impl Connection {
    pub(super) fn new(door: &Door, slot: Slot, peer: SocketAddr) -> Self {
        Self {
            routes: door.routes.clone(),
            limits: door.limits,
            tls: door.tls.clone(),
            stop: door.stop.clone(),
            cut: door.cut.clone(),
            slot,
            peer,
        }
    }

    /// Serves it until either side ends it.
    pub(super) async fn run(self, stream: TcpStream) {
        let Some(tls) = &self.tls else {
            return self.http1(stream).await;
        };
        let agreed = tokio::select! {
            agreed = tokio::time::timeout(self.limits.headers, tls.accept(stream)) => agreed,
            () = self.stop.cancelled() => return,
        };
        match agreed {
            Ok(Ok((stream, Protocol::Http1))) => self.http1(stream).await,
            Ok(Ok((stream, Protocol::Http2))) => self.http2(stream).await,
            Ok(Err(error)) => tracing::debug!(peer = %self.peer, %error, "no TLS was agreed on"),
            Err(_) => measure::timed_out("tls"),
        }
    }

    async fn http1<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(self, stream: S) {
        let activity = Activity::new(false);
        let service = service(self.routes, &activity, self.limits, self.peer);
        let socket = TokioIo::new(Socket::new(stream, Arc::clone(&activity), self.slot));
        // Times are kept here: hyper's own limit for heads would end connections that are only idle.
        let connection = http1::Builder::new()
            .header_read_timeout(None)
            .max_buf_size(LONGEST_HEAD)
            .serve_connection(socket, service)
            .with_upgrades();
        let ends = Ends { stop: self.stop, cut: self.cut, farewell: Duration::ZERO };
        watch(connection, &activity, &self.limits, &ends).await;
    }

    async fn http2<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(self, stream: S) {
        let activity = Activity::new(true);
        let service = service(self.routes, &activity, self.limits, self.peer);
        let socket = TokioIo::new(Socket::new(stream, Arc::clone(&activity), self.slot));
        let connection = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_EVERY)
            .max_concurrent_streams(MOST_STREAMS)
            .max_header_list_size(LONGEST_HEAD as u32)
            .serve_connection(socket, service);
        let ends = Ends { stop: self.stop, cut: self.cut, farewell: FAREWELL };
        watch(connection, &activity, &self.limits, &ends).await;
    }
}

/// Answers the calls of one connection.
fn service(
    routes: Router,
    activity: &Arc<Activity>,
    limits: Limits,
    peer: SocketAddr,
) -> impl Service<
    Request<Incoming>,
    Response = Response<Answer>,
    Error = Infallible,
    Future: Send + 'static,
> + use<> {
    let activity = Arc::clone(activity);
    service_fn(move |mut request: Request<Incoming>| {
        let busy = activity.call();
        request.extensions_mut().insert(ConnectInfo(peer));
        let request = request.map(|body| InTime::new(body, limits.body));
        let answer = routes.clone().call(request);
        async move { answer.await.map(|answer| answer.map(|body| Answer::new(body, busy))) }
    })
}

/// A connection that can be asked to end.
trait Ending: Future<Output = hyper::Result<()>> {
    /// Takes no more calls, and ends with the last.
    fn end(self: Pin<&mut Self>);
}

impl<I, S> Ending for http1::UpgradeableConnection<I, S>
where
    Self: Future<Output = hyper::Result<()>>,
    S: hyper::service::HttpService<Incoming>,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    I: hyper::rt::Read + hyper::rt::Write + Unpin,
    S::ResBody: http_body::Body + 'static,
    <S::ResBody as http_body::Body>::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    fn end(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

impl<I, S, E> Ending for http2::Connection<I, S, E>
where
    Self: Future<Output = hyper::Result<()>>,
    S: hyper::service::HttpService<Incoming>,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    I: hyper::rt::Read + hyper::rt::Write + Unpin,
    S::ResBody: http_body::Body + 'static,
    <S::ResBody as http_body::Body>::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    E: hyper::rt::bounds::Http2ServerConnExec<S::Future, S::ResBody>,
{
    fn end(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

/// How a connection ends with its server.
struct Ends {
    stop: CancellationToken,
    cut: CancellationToken,
    /// How long it may take for that without a call.
    farewell: Duration,
}

/// Runs a connection to its end, and ends it when its time is over.
async fn watch(connection: impl Ending, activity: &Activity, limits: &Limits, ends: &Ends) {
    let Ends { stop, cut, farewell } = ends;
    let mut patience = Patience::new(limits);
    let mut connection = pin!(connection);
    let first_look = activity.judge(&patience).unwrap_or_default();
    let mut timer = pin!(tokio::time::sleep(first_look));
    let (mut stopping, mut leaving) = (false, false);
    loop {
        tokio::select! {
            // How it broke, if it did, concerns the caller.
            _ = connection.as_mut() => return,
            () = cut.cancelled() => return,
            () = stop.cancelled(), if !stopping => {
                stopping = true;
                connection.as_mut().end();
                patience = patience.at_the_end(*farewell);
                timer.as_mut().reset(tokio::time::Instant::now() + SOON);
            }
            () = timer.as_mut() => {
                let wait = match activity.judge(&patience) {
                    Ok(wait) => wait,
                    // Nothing is under way, and the server stops.
                    Err(Overdue::Idle | Overdue::Head) if stopping => return,
                    Err(overdue) if leaving || overdue != Overdue::Idle => {
                        return measure::timed_out(overdue.name());
                    }
                    Err(_) => {
                        leaving = true;
                        connection.as_mut().end();
                        LEAVE
                    }
                };
                timer.as_mut().reset(tokio::time::Instant::now() + wait);
            }
        }
    }
}
