//! Liveness, readiness, metrics.

use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use serde::Serialize;
use stile_engine::NonceError;
use stile_registry::Mode;
use utoipa::ToSchema;

use crate::app::Shared;
use crate::problem::{Problem, ProblemBody, Problems};
use crate::schema;

/// A balancer asks often and waits little.
const PATIENCE: Duration = Duration::from_secs(2);

/// All is well.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Health {
    /// Always `ok`.
    #[schema(example = "ok")]
    status: &'static str,
}

/// It can serve.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Ready {
    /// Always `ok`.
    #[schema(example = "ok")]
    status: &'static str,
    /// How the node registry stands. To tell whoever looks: without Redis a server serves all the
    /// same.
    #[schema(value_type = schema::RegistryMode)]
    registry: Mode,
}

const OK: &str = "ok";

/// The process runs, with all of its tasks.
#[utoipa::path(
    get, path = "/health/live", tag = "operations",
    responses(
        (status = 200, description = "It does", body = Health),
        (status = 503, description = "A task has panicked: the process ends", body = ProblemBody, content_type = "application/problem+json"),
        Problems,
    )
)]
pub(crate) async fn live(State(app): State<Shared>) -> Result<Json<Health>, Problem> {
    is_whole(&app)?;
    Ok(Json(Health { status: OK }))
}

/// A node of which a task has panicked leaves.
fn is_whole(app: &Shared) -> Result<(), Problem> {
    match app.node.fall().fallen() {
        None => Ok(()),
        Some(_) => Err(NonceError::ShuttingDown.into()),
    }
}

/// The process can serve: its database answers, and none of its tasks has panicked.
#[utoipa::path(
    get, path = "/health/ready", tag = "operations",
    responses(
        (status = 200, description = "It does", body = Ready),
        (status = 503, description = "It does not", body = ProblemBody, content_type = "application/problem+json"),
        Problems,
    )
)]
pub(crate) async fn ready(State(app): State<Shared>) -> Result<Json<Ready>, Problem> {
    is_whole(&app)?;
    let look = || async {
        match tokio::time::timeout(PATIENCE, app.node.ready()).await {
            Ok(ready) => ready.map_err(|error| error.to_string()),
            Err(_) => Err(format!("no answer within {PATIENCE:?}")),
        }
    };
    let Err(why) = app.readiness.ask(look).await else {
        app.unready.store(false, Ordering::Relaxed);
        return Ok(Json(Ready { status: OK, registry: app.registry.mode() }));
    };
    // It is asked every few seconds, and logged once.
    if !app.unready.swap(true, Ordering::Relaxed) {
        tracing::warn!(why, "not ready: the database cannot be used");
    }
    // Whoever asks needs no key, so is not told what the database said: it may name hosts and users.
    Err(NonceError::StoreUnavailable("the log says why".to_owned()).into())
}

/// Metrics in Prometheus' text format.
#[utoipa::path(
    get, path = "/metrics", tag = "operations",
    responses((status = 200, description = "The metrics", body = String, content_type = "text/plain"), Problems)
)]
pub(crate) async fn metrics(State(app): State<Shared>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], app.prometheus.render())
}
