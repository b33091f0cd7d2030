//! One transaction, one by its caller's name for it, a page of them.

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use serde::{Deserialize, Serialize};
use stile_domain::{Lane, TxId, TxState};
use stile_store::{Tx, TxFilter};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use crate::access::Access;
use crate::app::Shared;
use crate::code::Code;
use crate::extract::{self, Parts};
use crate::nonces::{self, ChainNumber, Number, TENANT};
use crate::problem::{Problem, Problems};
use crate::schema;
use crate::tx::body;
use crate::tx::view::TxView;

/// Which transactions to list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(crate) struct TxsQuery {
    /// Only this account's.
    #[param(value_type = Option<schema::Address>)]
    signer: Option<String>,
    /// Only this chain's.
    #[param(value_type = Option<schema::GivenChainId>)]
    chain_id: Option<ChainNumber>,
    /// Only those that stand so.
    #[param(value_type = Option<schema::TxStateName>)]
    state: Option<TxState>,
    /// `next` of the page before.
    #[param(value_type = Option<u64>)]
    cursor: Option<Number>,
    /// 1 to 500; 100 if left out.
    #[param(value_type = Option<schema::Limit>)]
    limit: Option<Number>,
}

/// A caller's name for a transaction.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(crate) struct ByRequestQuery {
    /// The account.
    #[param(value_type = schema::Address)]
    signer: String,
    /// The request id it was handed over with.
    #[param(value_type = schema::RequestId)]
    request_id: String,
    /// May be left out while there is one chain.
    #[param(value_type = Option<schema::GivenChainId>)]
    chain_id: Option<ChainNumber>,
}

/// A page of transactions.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TxList {
    items: Vec<TxView>,
    /// The cursor of the next page, if there is one.
    next: Option<u64>,
}

/// The transaction that a path names, if it is one of this server's and the caller may see it.
pub(crate) async fn find(app: &Shared, access: &Access, text: &str) -> Result<Tx, Problem> {
    let id = tx_id(text)?;
    let found = app.node.transactions().get(id).await?;
    let visible = |tx: &Tx| tx.tenant == TENANT && app.directory.shows(access, tx.lane);
    found.filter(visible).ok_or_else(|| missing(id))
}

/// What a caller is told whose transaction is not here.
pub(crate) fn missing(id: TxId) -> Problem {
    Problem::new(Code::TxNotFound, format!("there is no transaction {id} here"))
}

/// A transaction's name.
pub(crate) fn tx_id(text: &str) -> Result<TxId, Problem> {
    let id = Uuid::try_parse(text).map(TxId);
    id.map_err(|_| {
        Problem::field("txId", "must be a UUID, as the answer to POST /api/v1/tx has it")
    })
}

/// Show one transaction.
#[utoipa::path(
    get, path = "/api/v1/tx/{txId}", tag = "transactions", operation_id = "get_tx",
    params(("txId" = Uuid, Path)),
    responses(
        (status = 200, description = "The transaction", body = TxView),
        Problems,
    )
)]
pub(crate) async fn get(
    State(app): State<Shared>,
    access: Access,
    Parts(id): Parts<String>,
) -> Result<Json<TxView>, Problem> {
    let tx = find(&app, &access, &id).await?;
    Ok(Json(TxView::one(app.node.transactions(), tx).await?))
}

/// Show one transaction by the request id it was handed over with.
#[utoipa::path(
    get, path = "/api/v1/tx/by-request", tag = "transactions", operation_id = "get_tx_by_request",
    params(ByRequestQuery),
    responses(
        (status = 200, description = "The transaction", body = TxView),
        Problems,
    )
)]
pub(crate) async fn by_request(
    State(app): State<Shared>,
    access: Access,
    uri: Uri,
) -> Result<Json<TxView>, Problem> {
    let query: ByRequestQuery = extract::query(&uri)?;
    let request_id = body::request_id(query.request_id)?;
    let lane = app.directory.lane(
        &access,
        nonces::chain(query.chain_id)?,
        extract::signer(&query.signer)?,
    )?;
    let transactions = app.node.transactions();
    let Some(tx) = transactions.by_request(TENANT, lane, &request_id).await? else {
        let detail = format!("{} has no transaction with the request id {request_id}", lane.signer);
        return Err(Problem::new(Code::TxNotFound, detail));
    };
    Ok(Json(TxView::one(transactions, tx).await?))
}

/// List transactions, newest first.
#[utoipa::path(
    get, path = "/api/v1/tx", tag = "transactions", operation_id = "list_txs",
    params(TxsQuery),
    responses(
        (status = 200, description = "A page of transactions", body = TxList),
        Problems,
    )
)]
pub(crate) async fn list(
    State(app): State<Shared>,
    access: Access,
    uri: Uri,
) -> Result<Json<TxList>, Problem> {
    let query: TxsQuery = extract::query(&uri)?;
    let (chain, limit) = (nonces::chain(query.chain_id)?, nonces::limit(query.limit)?);
    let signer = query.signer.as_deref().map(extract::signer).transpose()?;
    let lanes: Vec<Lane> = app.directory.matching(&access, chain, signer).collect();
    if lanes.is_empty() {
        return match signer {
            Some(signer) => Err(app.directory.unknown(chain, signer)),
            None => Ok(Json(TxList { items: Vec::new(), next: None })),
        };
    }
    let filter = TxFilter {
        tenant: TENANT.to_owned(),
        lanes: Some(lanes),
        state: query.state,
        before: query.cursor.map(|Number(position)| position),
        limit,
    };
    let transactions = app.node.transactions();
    let page = transactions.page(&filter).await?;
    let items = TxView::all(transactions, page.txs).await?;
    Ok(Json(TxList { items, next: page.next }))
}
