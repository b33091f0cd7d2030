//! The routes, and what every handler is given.

use std::sync::Arc;

use axum::extract::DefaultBodyLimit;
use axum::response::IntoResponse;
use axum::{Json, Router, middleware};
use metrics_exporter_prometheus::PrometheusHandle;
use stile_engine::Node;
use tower_http::catch_panic::CatchPanicLayer;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::code::Code;
use crate::directory::Directory;
use crate::problem::Problem;
use crate::{health, measure, nonces, signers};

/// No call needs more.
const BODY_LIMIT_BYTES: usize = 64 * 1024;

/// What every handler is given.
#[derive(Debug)]
pub struct App {
    /// The engine.
    pub node: Arc<Node>,
    /// The lanes served.
    pub directory: Directory,
    /// Renders the metrics.
    pub prometheus: PrometheusHandle,
}

pub(crate) type Shared = Arc<App>;

#[derive(OpenApi)]
#[openapi(info(
    title = "Stile",
    description = "Hands out the nonces of EVM accounts, each exactly once, from one process or many.",
    license(name = "Apache-2.0", identifier = "Apache-2.0")
))]
struct Document;

fn api() -> OpenApiRouter<Shared> {
    OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(nonces::allocate))
        .routes(routes!(nonces::used))
        .routes(routes!(nonces::recyclable))
        .routes(routes!(nonces::list))
        .routes(routes!(signers::list))
        .routes(routes!(signers::show))
        .routes(routes!(signers::pause))
        .routes(routes!(signers::resume))
        .routes(routes!(health::live))
        .routes(routes!(health::ready))
        .routes(routes!(health::metrics))
}

/// The OpenAPI document of all routes.
pub fn openapi() -> utoipa::openapi::OpenApi {
    api().split_for_parts().1
}

/// All routes.
pub fn router(app: App) -> Router {
    measure::describe();
    let (routes, document) = api().split_for_parts();
    routes
        .route("/openapi.json", axum::routing::get(|| async move { Json(document) }))
        .fallback(|| async { Problem::new(Code::NotFound, "there is nothing at this path") })
        .method_not_allowed_fallback(|| async {
            Problem::new(Code::MethodNotAllowed, "this path does not take this method")
        })
        .layer(DefaultBodyLimit::max(BODY_LIMIT_BYTES))
        .layer(CatchPanicLayer::custom(|_| {
            Problem::new(Code::Internal, "see the log").into_response()
        }))
        .layer(middleware::from_fn(measure::measure))
        .with_state(Arc::new(app))
}
