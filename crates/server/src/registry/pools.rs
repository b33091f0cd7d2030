//! Who is in a pool, and who of them could do a job.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use serde::{Deserialize, Serialize};
use stile_engine::cluster::registered::POOL;
use stile_registry::{LeftOut, Node, NodeId, PoolId, Query};
use utoipa::{IntoParams, ToSchema};

use super::view::{NodeList, NodeView};
use super::{nodes, own, text};
use crate::app::Shared;
use crate::extract::{self, Parts};
use crate::nonces::{self, Number};
use crate::problem::{Problem, Problems};
use crate::schema;

/// Who is looked for.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SelectQuery {
    /// What a node must offer, with commas in between: `asr,nmt:zh`.
    #[param(value_type = Option<schema::Requirements>)]
    services: Option<String>,
    /// 1 to 500; 100 if left out.
    #[param(value_type = Option<schema::Limit>)]
    limit: Option<Number>,
}

/// Which part of a pool.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct MembersQuery {
    /// `next` of the page before.
    #[param(value_type = Option<schema::NodeName>)]
    cursor: Option<String>,
    /// 1 to 500; 100 if left out.
    #[param(value_type = Option<schema::Limit>)]
    limit: Option<Number>,
}

/// The nodes that could do it, the least loaded first.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = NodeSelection)]
pub(crate) struct SelectionView {
    #[schema(value_type = Vec<NodeView>)]
    items: Vec<Arc<Node>>,
    /// Always null: a selection is of one moment.
    #[schema(value_type = Option<schema::NodeName>)]
    next: Option<String>,
    /// How many of the pool each rule left out.
    #[schema(value_type = LeftOutView)]
    left_out: LeftOut,
}

/// How many nodes each rule left out. A node is counted by the first rule that it fails.
#[derive(ToSchema)]
#[schema(as = LeftOut)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "for the document alone")]
struct LeftOutView {
    /// Silent for too long, or removed.
    dead: usize,
    /// No longer in the pool.
    elsewhere: usize,
    /// Offline or not ready, by their own word.
    not_ready: usize,
    /// Without a service that is needed.
    lacking: usize,
}

/// Which nodes of a pool could do a job?
///
/// How loaded they are leaves nobody out: `POST /api/v1/dispatch` asks them for a slot.
#[utoipa::path(
    get, path = "/api/v1/pools/{id}/select", tag = "registry", operation_id = "select_nodes",
    params(("id" = schema::PoolName, Path), SelectQuery),
    responses(
        (status = 200, description = "The nodes, the least loaded first", body = SelectionView),
        Problems,
    )
)]
pub(crate) async fn select(
    State(app): State<Shared>,
    Parts(pool): Parts<String>,
    uri: Uri,
) -> Result<Json<SelectionView>, Problem> {
    let query: SelectQuery = extract::query(&uri)?;
    let query = Query {
        pool: Some(text::name("id", &pool)?),
        services: text::services(query.services.as_deref().unwrap_or_default())?,
        limit: Some(nonces::limit(query.limit)? as usize),
    };
    let mut selection = app.registry.select(&query).await?;
    let ours = app.node.router().nodes();
    selection.nodes.retain(|node| own::is_genuine(node, &ours));
    let left_out = selection.left_out;
    Ok(Json(SelectionView { items: selection.nodes, next: None, left_out }))
}

/// List the living members of a pool, by name.
#[utoipa::path(
    get, path = "/api/v1/pools/{id}/members", tag = "registry", operation_id = "pool_members",
    params(("id" = schema::PoolName, Path), MembersQuery),
    responses(
        (status = 200, description = "A page of nodes", body = NodeList),
        Problems,
    )
)]
pub(crate) async fn members(
    State(app): State<Shared>,
    Parts(pool): Parts<String>,
    uri: Uri,
) -> Result<Json<NodeList>, Problem> {
    let query: MembersQuery = extract::query(&uri)?;
    let pool: PoolId = text::name("id", &pool)?;
    let limit = nonces::limit(query.limit)? as usize;
    let after: Option<NodeId> =
        query.cursor.as_deref().map(|cursor| text::name("cursor", cursor)).transpose()?;
    let members = app.registry.members(&pool).await;
    let members = if pool.as_str() == POOL {
        // Stile's own nodes are known without Redis, too.
        nodes::with_all_of_stile(&app, members.unwrap_or_default())
    } else {
        members?
    };
    Ok(Json(NodeList::page(members, after.as_ref().map(NodeId::as_str), limit)))
}
