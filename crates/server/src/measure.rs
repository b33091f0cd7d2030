//! A count and a duration for every request, and a count of what the guard costs.

use std::time::Instant;

use axum::extract::{MatchedPath, Request};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;
use metrics::{counter, describe_counter, describe_histogram, histogram};

const REQUESTS: &str = "stile_http_requests_total";
const SECONDS: &str = "stile_http_request_seconds";
const KEY_READS: &str = "stile_api_key_reads_total";
const PASSED_ON: &str = "stile_forward_total";

pub(crate) fn describe() {
    describe_counter!(REQUESTS, "HTTP requests, by method, route and status");
    describe_counter!(KEY_READS, "How often the API keys were read from the database, by result");
    describe_counter!(PASSED_ON, "Calls passed on to the node that holds their lane, by result");
    for result in ["answered", "moved", "failed", "refused", "absent", "silent"] {
        counter!(PASSED_ON, "result" => result).absolute(0);
    }
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
