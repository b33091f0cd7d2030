//! What happened to a lane.

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use serde::{Deserialize, Serialize};
use stile_domain::Timestamp;
use stile_store::{LaneEvent, StreamPosition};
use utoipa::{IntoParams, ToSchema};

use super::care::refused;
use crate::access::Access;
use crate::app::Shared;
use crate::extract::{self, Parts};
use crate::nonces::{self, ChainNumber, Number};
use crate::problem::{Problem, Problems};
use crate::schema;

/// An entry of a signer's history.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = SignerEvent)]
pub(crate) struct SignerEventView {
    /// What happened.
    #[schema(value_type = schema::LaneEventKindName)]
    kind: &'static str,
    /// The chain.
    #[schema(value_type = schema::ChainId)]
    chain_id: u64,
    /// The same as a text.
    #[schema(value_type = schema::ChainIdText)]
    chain_id_text: String,
    /// The account, with EIP-55 checksum.
    #[schema(value_type = schema::Address)]
    signer: String,
    /// When, by the database's clock.
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    /// Who wrote it.
    node_id: String,
    /// Under which token; null for what needs no lease.
    fencing_token: Option<u64>,
    /// More about it.
    #[schema(value_type = Object)]
    data: serde_json::Value,
}

impl From<LaneEvent> for SignerEventView {
    fn from(event: LaneEvent) -> Self {
        Self {
            kind: event.kind.name(),
            chain_id: event.lane.chain.get(),
            chain_id_text: event.lane.chain.to_string(),
            signer: event.lane.signer.to_string(),
            at: event.at,
            node_id: event.node.0,
            fencing_token: event.fencing_token.map(|token| token.get()),
            data: event.data,
        }
    }
}

/// Which part of a history.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(crate) struct HistoryQuery {
    /// May be left out while there is one chain.
    #[param(value_type = Option<schema::GivenChainId>)]
    chain_id: Option<ChainNumber>,
    /// `next` of the page before.
    #[param(value_type = Option<schema::StreamPosition>)]
    cursor: Option<String>,
    /// 1 to 500; 100 if left out.
    #[param(value_type = Option<schema::Limit>)]
    limit: Option<Number>,
}

/// A page of a signer's history.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SignerHistory {
    items: Vec<SignerEventView>,
    /// The cursor of the next page, if there is one.
    #[schema(value_type = Option<schema::StreamPosition>)]
    next: Option<String>,
}

/// What happened to a signer, newest first.
///
/// Its transactions have histories of their own.
#[utoipa::path(
    get, path = "/api/v1/signers/{signer}/history", tag = "signers", operation_id = "signer_history",
    params(("signer" = schema::Address, Path), HistoryQuery),
    responses(
        (status = 200, description = "A page of its history", body = SignerHistory),
        Problems,
    )
)]
pub(crate) async fn history(
    State(app): State<Shared>,
    access: Access,
    Parts(signer): Parts<String>,
    uri: Uri,
) -> Result<Json<SignerHistory>, Problem> {
    let query: HistoryQuery = extract::query(&uri)?;
    let (chain, limit) = (nonces::chain(query.chain_id)?, nonces::limit(query.limit)?);
    let before = query.cursor.as_deref().map(parse_cursor).transpose()?;
    let lane = app.directory.lane(&access, chain, extract::signer(&signer)?)?;
    // One more than is shown tells whether there is a next page.
    let events = app.node.lanes().history(lane, before, limit + 1).await;
    let mut events = events.map_err(refused(lane))?;
    let more = events.len() > limit as usize;
    events.truncate(limit as usize);
    let next = events.last().filter(|_| more).map(|event| event.position.to_string());
    Ok(Json(SignerHistory { items: events.into_iter().map(SignerEventView::from).collect(), next }))
}

fn parse_cursor(text: &str) -> Result<StreamPosition, Problem> {
    text.parse().map_err(|_| Problem::field("cursor", "is not one that this server gave out"))
}
