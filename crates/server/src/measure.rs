//! A count and a duration for every request, and counts of what the guard costs and whom it turns away.

use std::time::Instant;

use axum::extract::{MatchedPath, Request};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;
use metrics::{counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};

const REQUESTS: &str = "stile_http_requests_total";
const SECONDS: &str = "stile_http_request_seconds";
const KEY_READS: &str = "stile_api_key_reads_total";
const PASSED_ON: &str = "stile_forward_total";
const WRONG_KEYS: &str = "stile_api_key_refused_total";
const CONNECTIONS: &str = "stile_http_connections";
const CONNECTIONS_REFUSED: &str = "stile_http_connections_refused_total";
const TIMEOUTS: &str = "stile_http_timeouts_total";
const STREAMS: &str = "stile_http_streams";
const STREAM_READS: &str = "stile_stream_reads_total";

pub(crate) fn describe() {
    describe_counter!(REQUESTS, "HTTP requests, by method, route and status");
    describe_counter!(KEY_READS, "How often the API keys were read from the database, by result");
    describe_counter!(PASSED_ON, "Calls passed on to the node that holds their lane, by result");
    for result in ["answered", "moved", "failed", "refused", "absent", "silent", "unsafe"] {
        counter!(PASSED_ON, "result" => result).absolute(0);
    }
    describe_counter!(WRONG_KEYS, "Calls refused for want of a good API key, by reason");
    for what in [WrongKey::Missing, WrongKey::Wrong, WrongKey::TooMany] {
        counter!(WRONG_KEYS, "reason" => what.name()).absolute(0);
    }
    describe_gauge!(CONNECTIONS, "Connections that callers have open");
    describe_counter!(CONNECTIONS_REFUSED, "Connections there was no room for, by limit");
    for limit in ["all", "address"] {
        counter!(CONNECTIONS_REFUSED, "limit" => limit).absolute(0);
    }
    describe_counter!(TIMEOUTS, "Connections and bodies given up because nothing came, by limit");
    for limit in ["headers", "body", "idle", "write", "tls"] {
        counter!(TIMEOUTS, "limit" => limit).absolute(0);
    }
    describe_counter!(
        STREAM_READS,
        "Reads of the stream of events, by reader: all, or one listener"
    );
    for reader in ["all", "one"] {
        counter!(STREAM_READS, "reader" => reader).absolute(0);
    }
    describe_gauge!(STREAMS, "Event streams and WebSockets that callers have open");
    gauge!(STREAMS).set(0.0);
    describe_histogram!(SECONDS, metrics::Unit::Seconds, "Seconds an HTTP request took, by route");
}

/// Labels carry the route's pattern, never the path: paths hold addresses.
pub(crate) async fn measure(request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let route = route.unwrap_or_else(|| "none".to_owned());
    let (method, begun) = (known(request.method()), Instant::now());
    let response = next.run(request).await;
    let status = response.status().as_u16().to_string();
    counter!(REQUESTS, "method" => method, "route" => route.clone(), "status" => status)
        .increment(1);
    histogram!(SECONDS, "route" => route).record(begun.elapsed());
    response
}

/// The API keys were read, or could not be.
pub(crate) fn keys_read(done: bool) {
    counter!(KEY_READS, "result" => if done { "done" } else { "error" }).increment(1);
}

/// A call was passed on to another node.
pub(crate) fn passed_on(result: &'static str) {
    counter!(PASSED_ON, "result" => result).increment(1);
}

/// Why somebody was not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WrongKey {
    Missing,
    Wrong,
    /// Not known, and not looked for.
    TooMany,
}

impl WrongKey {
    fn name(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Wrong => "wrong",
            Self::TooMany => "too-many",
        }
    }
}

/// Somebody was not let in.
pub(crate) fn wrong_key(what: WrongKey) {
    counter!(WRONG_KEYS, "reason" => what.name()).increment(1);
}

/// So many connections are open.
pub(crate) fn connections(open: usize) {
    gauge!(CONNECTIONS).set(open as f64);
}

/// There was no room for a connection.
pub(crate) fn connection_refused(limit: &'static str) {
    counter!(CONNECTIONS_REFUSED, "limit" => limit).increment(1);
}

/// Something was not waited for any longer.
pub(crate) fn timed_out(limit: &'static str) {
    counter!(TIMEOUTS, "limit" => limit).increment(1);
}

/// One more stream is open, or one less.
pub(crate) fn streams_open(change: f64) {
    gauge!(STREAMS).increment(change);
}

/// The stream of events was read, for all listeners or for one that was behind.
pub(crate) fn stream_read(reader: &'static str) {
    counter!(STREAM_READS, "reader" => reader).increment(1);
}

/// A client may make up methods; a label may not.
fn known(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::HEAD => "HEAD",
        Method::OPTIONS => "OPTIONS",
        Method::PATCH => "PATCH",
        _ => "other",
    }
}
