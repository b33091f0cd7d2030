//! Where a signer's lane is.

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use serde::{Deserialize, Serialize};
use stile_domain::{Holder, Timestamp};
use utoipa::{IntoParams, ToSchema};

use crate::access::Access;
use crate::app::Shared;
use crate::extract;
use crate::nonces::{ChainNumber, chain};
use crate::problem::{Problem, Problems};
use crate::schema;

/// Whose lane.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(crate) struct RouteQuery {
    /// The account.
    #[param(value_type = schema::Address)]
    signer: String,
    /// May be left out while there is one chain.
    #[param(value_type = Option<schema::GivenChainId>)]
    chain_id: Option<ChainNumber>,
}

/// Where a signer's lane is, and where it had best be.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Route)]
pub(crate) struct RouteView {
    /// The chain.
    #[schema(value_type = schema::ChainId)]
    chain_id: u64,
    /// The same as a text.
    #[schema(value_type = schema::ChainIdText)]
    chain_id_text: String,
    /// The account, with EIP-55 checksum.
    #[schema(value_type = schema::Address)]
    signer: String,
    /// The node that the lane had best be on; null where lanes do not move.
    preferred: Option<PlaceView>,
    /// The node that holds it; null if none does at this moment.
    holder: Option<PlaceView>,
    /// When the holder's lease ends unless it is renewed.
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Timestamp>,
}

/// A node, and where it is reached.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RouteNode)]
struct PlaceView {
    /// Its name.
    node_id: String,
    /// Its URL, if it has told one.
    url: Option<String>,
}

impl From<Holder> for PlaceView {
    fn from(holder: Holder) -> Self {
        Self { node_id: holder.node.0, url: holder.url }
    }
}

/// Which node should be asked about a signer?
///
/// Any node can be asked anything; asking the holder saves a step. A lane may move in the next
/// moment, so this is a hint.
#[utoipa::path(
    get, path = "/api/v1/route", tag = "cluster", operation_id = "route", params(RouteQuery),
    responses(
        (status = 200, description = "Where the lane is", body = RouteView),
        Problems,
    )
)]
pub(crate) async fn route(
    State(app): State<Shared>,
    access: Access,
    uri: Uri,
) -> Result<Json<RouteView>, Problem> {
    let query: RouteQuery = extract::query(&uri)?;
    let signer = extract::signer(&query.signer)?;
    let lane = app.directory.lane(&access, chain(query.chain_id)?, signer)?;
    let route = app.node.router().route(lane).await?;
    Ok(Json(RouteView {
        chain_id: lane.chain.get(),
        chain_id_text: lane.chain.to_string(),
        signer: lane.signer.to_string(),
        preferred: route.preferred.map(PlaceView::from),
        holder: route.holder.map(PlaceView::from),
        expires_at: route.expires_at,
    }))
}
