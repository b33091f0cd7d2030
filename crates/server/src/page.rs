//! The page at `/`: lanes and latest transactions, live.

use axum::Router;
use axum::http::header;
use axum::routing::get;

use crate::app::Shared;

const PAGE: &str = include_str!("../assets/index.html");

/// The page brings all it needs and asks nobody but this server.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
                      connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(crate) fn routes() -> Router<Shared> {
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CACHE_CONTROL, "no-cache"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    Router::new().route("/", get(move || async move { (headers, PAGE) }))
}
