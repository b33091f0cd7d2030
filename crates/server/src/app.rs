//! The routes, and what every handler is given.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use axum::extract::DefaultBodyLimit;
use axum::response::IntoResponse;
use axum::{Router, middleware};
use metrics_exporter_prometheus::PrometheusHandle;
use stile_engine::Node;
use stile_registry::Registry;
use tokio_util::sync::CancellationToken;
use tower_http::catch_panic::CatchPanicLayer;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::browsers::Hosts;
use crate::code::Code;
use crate::directory::Directory;
use crate::events::Hub;
use crate::guard::Guard;
use crate::peers::{ClusterOptions, Forwarder};
use crate::problem::Problem;
use crate::rates::Rates;
use crate::readiness::Readiness;
use crate::serve::ServeOptions;
use crate::streams::Streams;
use crate::{
    bearer, chains, docs, events, health, keys, measure, nonces, page, registry, route, schema,
    signers, tx,
};

/// Most calls need no more.
const BODY_LIMIT_BYTES: usize = 64 * 1024;
/// Call data of the largest size that chain nodes take, written as text, and then some.
const TX_LIMIT_BYTES: usize = 512 * 1024;
/// A thousand transactions of the usual size.
pub(crate) const BATCH_LIMIT_BYTES: usize = 16 * 1024 * 1024;

/// What is served.
#[derive(Debug)]
pub struct App {
    /// The engine.
    pub node: Arc<Node>,
    /// The lanes served.
    pub directory: Directory,
    /// Renders the metrics.
    pub prometheus: PrometheusHandle,
    /// The nodes of whatever kind there are.
    pub registry: Registry,
    /// How this node works together with the others.
    pub cluster: ClusterOptions,
}

/// What every handler is given.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) node: Arc<Node>,
    pub(crate) directory: Directory,
    pub(crate) prometheus: PrometheusHandle,
    pub(crate) registry: Registry,
    /// Passes calls on to other nodes.
    pub(crate) forwarder: Forwarder,
    /// Knows who may call.
    pub(crate) guard: Guard,
    /// The names of this server.
    pub(crate) hosts: Hosts,
    /// How often may be called.
    pub(crate) rates: Rates,
    /// The answers that have no end.
    pub(crate) streams: Arc<Streams>,
    /// Reads the stream of events for all its listeners.
    pub(crate) hub: Hub,
    /// Whether its database answers.
    pub(crate) readiness: Readiness,
    /// Whether it was told not to be ready when it was last asked.
    pub(crate) unready: AtomicBool,
    /// The server stops: answers that have no end must end now.
    pub(crate) stopping: CancellationToken,
}

pub(crate) type Shared = Arc<Served>;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Stile",
        description = "Takes transactions for EVM chains and sees that each lands exactly once; hands out bare nonces \
                       to those who sign and send by themselves; and knows the nodes of a fleet and finds one for each job. \
                       Every POST, PUT, PATCH and DELETE needs Content-Type: application/json, even without a body.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    // What is only referred to by name, or by parameters, is not found by itself.
    components(schemas(
        schema::Limit, schema::NodeNames, schema::Requirements, schema::SeenBlock, schema::StreamPosition, events::TxStreamEvent, events::HistoryEventView, events::HistoryView,
        signers::history::SignerEventView, nonces::AllocateBody, signers::care::RepairBody,
        signers::care::ResumeBody, signers::care::ReconcileBody, tx::replace::CancelBody,
        tx::replace::SpeedUpBody, registry::body::NodeBody, registry::body::HeartbeatBody,
        keys::rotate::RotateBody,
    ))
)]
struct Document;

fn api() -> OpenApiRouter<Shared> {
    // Limits are per path, so a path's methods go together.
    let send = OpenApiRouter::new()
        .routes(routes!(tx::send::send, tx::read::list))
        .layer(DefaultBodyLimit::max(TX_LIMIT_BYTES));
    let batch = OpenApiRouter::new()
        .routes(routes!(tx::batch::batch))
        .layer(DefaultBodyLimit::max(BATCH_LIMIT_BYTES));
    OpenApiRouter::with_openapi(Document::openapi())
        .merge(send)
        .merge(batch)
        .routes(routes!(tx::read::by_request))
        .routes(routes!(tx::read::get))
        .routes(routes!(tx::replace::cancel))
        .routes(routes!(tx::replace::speed_up))
        .routes(routes!(tx::story::history))
        .routes(routes!(tx::story::attempts))
        .routes(routes!(tx::story::confirmations))
        .routes(routes!(events::events))
        .routes(routes!(nonces::allocate))
        .routes(routes!(nonces::used))
        .routes(routes!(nonces::recyclable))
        .routes(routes!(nonces::list))
        .routes(routes!(signers::list))
        .routes(routes!(signers::show))
        .routes(routes!(signers::pause))
        .routes(routes!(signers::history::history))
        .routes(routes!(signers::care::doctor))
        .routes(routes!(signers::care::repair))
        .routes(routes!(signers::care::resume))
        .routes(routes!(signers::care::reconcile))
        .routes(routes!(signers::restored::show, signers::restored::settle))
        .routes(routes!(signers::restored::settle_tx))
        .routes(routes!(chains::list))
        .routes(routes!(chains::show))
        .routes(routes!(route::route))
        .routes(routes!(registry::nodes::list))
        .routes(routes!(registry::nodes::show, registry::nodes::register, registry::nodes::remove))
        .routes(routes!(registry::nodes::heartbeat))
        .routes(routes!(registry::connect::connect))
        .routes(routes!(registry::pools::select))
        .routes(routes!(registry::pools::members))
        .routes(routes!(registry::jobs::dispatch))
        .routes(routes!(registry::jobs::complete))
        .routes(routes!(registry::config::show, registry::config::write))
        .routes(routes!(keys::list, keys::create))
        .routes(routes!(keys::revoke))
        .routes(routes!(keys::rotate::rotate))
        .routes(routes!(health::live))
        .routes(routes!(health::ready))
        .routes(routes!(health::metrics))
}

/// The OpenAPI document of all routes.
pub fn openapi() -> utoipa::openapi::OpenApi {
    parts().1
}

/// The routes, and the document with what each of them needs.
fn parts() -> (Router<Shared>, utoipa::openapi::OpenApi) {
    let (routes, mut document) = api().split_for_parts();
    bearer::document(&mut document);
    (routes, document)
}

/// All routes, and what their handlers are given.
pub(crate) struct Routed {
    pub(crate) routes: Router,
    pub(crate) served: Shared,
}

/// All routes, for a server that may stop.
pub(crate) fn routes(
    app: App,
    guard: Guard,
    stopping: CancellationToken,
    address: SocketAddr,
    options: &ServeOptions,
) -> Routed {
    measure::describe();
    let App { node, directory, prometheus, registry, cluster } = app;
    let forwarder = Forwarder::new(cluster, node.router().own());
    let served = Arc::new(Served {
        node,
        directory,
        prometheus,
        registry,
        forwarder,
        guard,
        hosts: Hosts::new(address, options.advertised.as_deref(), &options.hosts),
        rates: Rates::new(&options.limits),
        streams: Streams::new(options.limits.streams_per_key),
        hub: Hub::default(),
        readiness: Readiness::default(),
        unready: AtomicBool::new(false),
        stopping,
    });
    let (routes, document) = parts();
    let routes = routes
        .merge(docs::document(&document))
        .merge(docs::routes())
        .merge(page::routes())
        .fallback(|| async { Problem::new(Code::NotFound, "there is nothing at this path") })
        .method_not_allowed_fallback(|| async {
            Problem::new(Code::MethodNotAllowed, "this path does not take this method")
        })
        .layer(DefaultBodyLimit::max(BODY_LIMIT_BYTES))
        .layer(middleware::from_fn_with_state(Arc::clone(&served), bearer::check))
        .layer(CatchPanicLayer::custom(|_| {
            Problem::new(Code::Internal, "see the log").into_response()
        }))
        .layer(middleware::from_fn(measure::measure))
        .with_state(Arc::clone(&served))
        // Made once: a router as it is would be built anew for every connection, a megabyte each.
        .with_state(());
    Routed { routes, served }
}
