//! A count and a duration for every request.

use std::time::Instant;

use axum::extract::{MatchedPath, Request};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;
use metrics::{counter, describe_counter, describe_histogram, histogram};

const REQUESTS: &str = "stile_http_requests_total";
const SECONDS: &str = "stile_http_request_seconds";

pub(crate) fn describe() {
    describe_counter!(REQUESTS, "HTTP requests, by method, route and status");
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
