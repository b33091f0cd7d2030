//! The API, to browse. Everything it needs is in the binary, so it works without the internet.

use axum::Router;
use axum::body::Bytes;
use axum::http::header;
use axum::response::{IntoResponse, Redirect};
use axum::routing::get;

use crate::app::Shared;

const PAGE: &str = include_str!("../assets/docs.html");
/// Swagger UI, unchanged; see `assets/swagger-ui/README.md`.
const SCRIPT: &str = include_str!("../assets/swagger-ui/swagger-ui-bundle.js");
const STYLE: &str = include_str!("../assets/swagger-ui/swagger-ui.css");

/// Nothing comes from anywhere else, even if an update of the script should try.
const POLICY: &str = "default-src 'none'; style-src 'self' 'unsafe-inline'; script-src 'self' 'unsafe-inline'; \
                      connect-src 'self'; img-src 'self' data:; base-uri 'none'; frame-ancestors 'none'";

pub(crate) fn routes() -> Router<Shared> {
    Router::new()
        .route("/docs", get(|| async { asset("text/html; charset=utf-8", PAGE) }))
        .route("/docs/", get(|| async { Redirect::permanent("/docs") }))
        .route(
            "/docs/swagger-ui.js",
            get(|| async { asset("text/javascript; charset=utf-8", SCRIPT) }),
        )
        .route("/docs/swagger-ui.css", get(|| async { asset("text/css; charset=utf-8", STYLE) }))
}

/// The document, written once: whoever reads it slowly, or not at all, holds no copy of it.
pub(crate) fn document(document: &utoipa::openapi::OpenApi) -> Router<Shared> {
    // Its parts are texts and numbers, and there is no other way to fail.
    let text = Bytes::from(serde_json::to_vec(document).unwrap_or_default());
    let answer = move || {
        let text = text.clone();
        async move { ([(header::CONTENT_TYPE, "application/json")], text) }
    };
    Router::new().route("/openapi.json", get(answer))
}

fn asset(kind: &'static str, text: &'static str) -> impl IntoResponse {
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "no-cache"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, text)
}
