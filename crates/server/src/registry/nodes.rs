//! Nodes: read, list, register, sign of life, remove.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use serde::Deserialize;
use stile_engine::cluster::registered::as_registered;
use stile_registry::{Node, NodeId, Registration, RegistryError};
use utoipa::IntoParams;

use super::body::{HeartbeatBody, NodeBody, version};
use super::view::{NodeList, NodeView};
use super::{own, text};
use crate::app::Shared;
use crate::extract::{self, Body, Parts};
use crate::nonces::{self, Number};
use crate::problem::{Problem, Problems};
use crate::schema;

/// Which nodes to list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct NodesQuery {
    /// Only these, in this order: names with commas in between. Those that do not live are left out.
    #[param(value_type = Option<schema::NodeNames>)]
    ids: Option<String>,
    /// `next` of the page before.
    #[param(value_type = Option<schema::NodeName>)]
    cursor: Option<String>,
    /// 1 to 500; 100 if left out.
    #[param(value_type = Option<schema::Limit>)]
    limit: Option<Number>,
}

/// Which start of a node.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct RemoveQuery {
    /// Only this start of the node and those before it; every start if left out.
    #[param(value_type = Option<schema::GivenVersion>)]
    incarnation: Option<Number>,
}

/// List the nodes that live, by name: those that registered, and Stile's own.
#[utoipa::path(
    get, path = "/api/v1/nodes", tag = "registry", operation_id = "list_nodes",
    params(NodesQuery),
    responses(
        (status = 200, description = "A page of nodes", body = NodeList),
        Problems,
    )
)]
pub(crate) async fn list(State(app): State<Shared>, uri: Uri) -> Result<Json<NodeList>, Problem> {
    let query: NodesQuery = extract::query(&uri)?;
    let limit = nonces::limit(query.limit)? as usize;
    let after: Option<NodeId> =
        query.cursor.as_deref().map(|cursor| text::name("cursor", cursor)).transpose()?;
    if let Some(ids) = &query.ids {
        let ids = text::ids(ids)?;
        let found = app.registry.get_nodes(&ids).await?;
        let ours = app.node.router().nodes();
        let genuine = |node: &Arc<Node>| own::is_genuine(node, &ours);
        let found = ids.iter().zip(found);
        let found = found.filter_map(|(id, node)| node.filter(genuine).or_else(|| told(&app, id)));
        return Ok(Json(NodeList { items: found.collect(), next: None }));
    }
    let nodes = with_all_of_stile(&app, app.registry.nodes().await?);
    Ok(Json(NodeList::page(nodes, after.as_ref().map(NodeId::as_str), limit)))
}

/// By name, with all of Stile's own nodes, and none that only say that they are.
pub(super) fn with_all_of_stile(app: &Shared, mut nodes: Vec<Arc<Node>>) -> Vec<Arc<Node>> {
    let ours = app.node.router().nodes();
    nodes.retain(|node| own::is_genuine(node, &ours));
    for node in ours.iter().filter_map(as_registered) {
        if !nodes.iter().any(|known| known.id == node.id) {
            nodes.push(Arc::new(node));
        }
    }
    nodes.sort_by(|one, other| one.id.cmp(&other.id));
    nodes
}

/// A Stile node that is not in this registry, as the nodes of the cluster know it.
fn told(app: &Shared, id: &NodeId) -> Option<Arc<Node>> {
    let nodes = app.node.router().nodes();
    let node = nodes.iter().find(|node| node.node().0 == id.as_str())?;
    as_registered(node).map(Arc::new)
}

/// Show one node.
#[utoipa::path(
    get, path = "/api/v1/nodes/{id}", tag = "registry", operation_id = "show_node",
    params(("id" = schema::NodeName, Path)),
    responses(
        (status = 200, description = "The node", body = NodeView),
        Problems,
    )
)]
pub(crate) async fn show(
    State(app): State<Shared>,
    Parts(id): Parts<String>,
) -> Result<Json<Arc<Node>>, Problem> {
    let id: NodeId = text::name("id", &id)?;
    let ours = app.node.router().nodes();
    let found = app.registry.get_node(&id).await;
    let found = found.map(|node| node.filter(|node| own::is_genuine(node, &ours)));
    match (found, told(&app, &id)) {
        (Ok(Some(node)), _) | (_, Some(node)) => Ok(Json(node)),
        (Ok(None), None) => Err(RegistryError::UnknownNode { node: id }.into()),
        (Err(error), None) => Err(error.into()),
    }
}

/// Register a node: a new start of it, or the same start again with other properties.
///
/// From now on it lives for `registry.node_ttl`, and for as long again with each heartbeat.
#[utoipa::path(
    put, path = "/api/v1/nodes/{id}", tag = "registry", operation_id = "register_node",
    request_body = NodeBody,
    params(("id" = schema::NodeName, Path)),
    responses(
        (status = 200, description = "The node as it is known now", body = NodeView),
        Problems,
    )
)]
pub(crate) async fn register(
    State(app): State<Shared>,
    Parts(id): Parts<String>,
    Body(body): Body<NodeBody>,
) -> Result<Json<Arc<Node>>, Problem> {
    let id: NodeId = text::name("id", &id)?;
    if body.id.as_ref().is_some_and(|said| *said != id) {
        return Err(Problem::field("id", format!("is not {id}, which the path names")));
    }
    Ok(Json(registered(&app, body.registration(id)?).await?))
}

pub(super) async fn registered(
    app: &Shared,
    registration: Registration,
) -> Result<Arc<Node>, Problem> {
    own::check_pools(&registration.pools)?;
    own::check_node(app, &registration.id).await?;
    Ok(app.registry.register(&registration).await?)
}

/// Say that a node lives, and what has changed.
#[utoipa::path(
    post, path = "/api/v1/nodes/{id}/heartbeat", tag = "registry", operation_id = "heartbeat",
    request_body = HeartbeatBody,
    params(("id" = schema::NodeName, Path)),
    responses(
        (status = 200, description = "The node as it is known now", body = NodeView),
        Problems,
    )
)]
pub(crate) async fn heartbeat(
    State(app): State<Shared>,
    Parts(id): Parts<String>,
    Body(body): Body<HeartbeatBody>,
) -> Result<Json<Arc<Node>>, Problem> {
    let id: NodeId = text::name("id", &id)?;
    let missing = || Problem::field("incarnation", "missing field `incarnation`");
    let incarnation = body.incarnation.ok_or_else(missing)?;
    Ok(Json(heard(&app, &id, body, incarnation).await?))
}

pub(super) async fn heard(
    app: &Shared,
    id: &NodeId,
    body: HeartbeatBody,
    incarnation: u64,
) -> Result<Arc<Node>, Problem> {
    let heartbeat = own::with_pools(app, id, body.heartbeat(incarnation)?).await?;
    Ok(app.registry.heartbeat(id, &heartbeat).await?)
}

/// Remove a node.
///
/// Heartbeats that are still on their way do not bring it back; a new registration does.
#[utoipa::path(
    delete, path = "/api/v1/nodes/{id}", tag = "registry", operation_id = "remove_node",
    params(("id" = schema::NodeName, Path), RemoveQuery),
    responses(
        (status = 204, description = "It is removed"),
        Problems,
    )
)]
pub(crate) async fn remove(
    State(app): State<Shared>,
    Parts(id): Parts<String>,
    uri: Uri,
) -> Result<StatusCode, Problem> {
    let query: RemoveQuery = extract::query(&uri)?;
    let id: NodeId = text::name("id", &id)?;
    let incarnation = query.incarnation.map(|Number(number)| version("incarnation", number));
    let incarnation = incarnation.transpose()?;
    own::check_node(&app, &id).await?;
    app.registry.remove(&id, incarnation).await?;
    Ok(StatusCode::NO_CONTENT)
}
