//! Allocate and mark: the nonce component over HTTP.

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use stile_domain::{B256, ChainId, Hold, HoldId, HoldStatus, Timestamp};
use stile_store::{AllocationKey, HoldFilter, MarkVerdict};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use crate::access::Access;
use crate::app::Shared;
use crate::extract::{self, Body, Parts};
use crate::peers::Whole;
use crate::problem::{Problem, Problems};
use crate::schema;

/// Keys say which signers a caller may use; request ids belong to the signer, whoever asks.
pub(crate) const TENANT: &str = "";

/// Reasons are for people; a kilobyte is enough.
const REASON_LIMIT: usize = 1024;

/// A nonce in the hands of a caller.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Hold)]
pub(crate) struct HoldView {
    /// The hold's own id; marks must name it.
    hold_id: Uuid,
    /// The chain.
    #[schema(value_type = schema::ChainId)]
    chain_id: u64,
    /// The same as a text.
    #[schema(value_type = schema::ChainIdText)]
    chain_id_text: String,
    /// The account, with EIP-55 checksum.
    #[schema(value_type = schema::Address)]
    signer: String,
    /// The nonce.
    nonce: u64,
    /// Where it stands.
    #[schema(value_type = schema::HoldState)]
    status: &'static str,
    /// Until when the nonce is the caller's alone.
    #[schema(value_type = String, format = DateTime)]
    locked_until: Timestamp,
    /// The transaction that used it, once told.
    #[schema(value_type = Option<schema::Hash>)]
    tx_hash: Option<String>,
    /// Why it was given back, ran out or was settled.
    reason: Option<String>,
}

impl From<&Hold> for HoldView {
    fn from(hold: &Hold) -> Self {
        Self {
            hold_id: hold.id.0,
            chain_id: hold.lane.chain.get(),
            chain_id_text: hold.lane.chain.to_string(),
            signer: hold.lane.signer.to_string(),
            nonce: hold.nonce,
            status: hold.status.name(),
            locked_until: hold.locked_until,
            tx_hash: hold.tx_hash.map(|hash| hash.to_string()),
            reason: hold.reason.clone(),
        }
    }
}

/// Which nonce is asked for.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct AllocateBody {
    /// May be left out while there is one chain.
    #[schema(value_type = Option<schema::GivenChainId>)]
    chain_id: Option<ChainId>,
}

/// A transaction with the nonce was sent.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct UsedBody {
    /// May be left out while there is one chain.
    #[schema(value_type = Option<schema::GivenChainId>)]
    chain_id: Option<ChainId>,
    /// From the allocation's answer.
    #[schema(value_type = Uuid)]
    hold_id: HoldId,
    /// The transaction's hash.
    #[schema(value_type = schema::Hash)]
    #[serde(deserialize_with = "extract::tx_hash")]
    tx_hash: B256,
}

/// Nothing was sent with the nonce, and nothing will be.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct RecyclableBody {
    /// May be left out while there is one chain.
    #[schema(value_type = Option<schema::GivenChainId>)]
    chain_id: Option<ChainId>,
    /// From the allocation's answer.
    #[schema(value_type = Uuid)]
    hold_id: HoldId,
    /// Why, for whoever reads it later.
    #[schema(value_type = schema::Reason)]
    reason: String,
}

/// Which holds to list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(crate) struct HoldsQuery {
    /// May be left out while there is one chain.
    #[param(value_type = Option<schema::GivenChainId>)]
    chain_id: Option<ChainNumber>,
    /// Only holds that stand so.
    #[param(value_type = Option<schema::HoldState>)]
    status: Option<HoldStatus>,
    /// `next` of the page before.
    #[param(value_type = Option<u64>)]
    cursor: Option<Number>,
    /// 1 to 500; 100 if left out.
    #[param(value_type = Option<schema::Limit>)]
    limit: Option<Number>,
}

/// A page of holds.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HoldList {
    items: Vec<HoldView>,
    /// The cursor of the next page, if there is one.
    next: Option<u64>,
}

/// A number in a query string.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Number(pub(crate) u64);

impl TryFrom<String> for Number {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        // A number may have a sign for Rust; here it is digits.
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        let parsed = text.parse::<i64>().ok().filter(|_| digits);
        let parsed = parsed.and_then(|number| u64::try_from(number).ok());
        parsed.map(Self).ok_or_else(|| "must be a whole number, 0 or more".to_owned())
    }
}

/// `limit` of a list.
pub(crate) fn limit(limit: Option<Number>) -> Result<u32, Problem> {
    match limit.map_or(100, |Number(limit)| limit) {
        limit @ 1..=500 => Ok(limit as u32),
        _ => Err(Problem::field("limit", "must be from 1 to 500")),
    }
}

/// A chain's number in a query string: decimal, or hexadecimal with its `0x`.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct ChainNumber(u64);

impl TryFrom<String> for ChainNumber {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        match text.starts_with("0x") {
            true => text.parse().map(|id: ChainId| Self(id.get())).map_err(|e| e.to_string()),
            false => Number::try_from(text).map(|Number(id)| Self(id)),
        }
    }
}

/// `chainId` of a query.
pub(crate) fn chain(chain: Option<ChainNumber>) -> Result<Option<ChainId>, Problem> {
    let chain = chain.map(|ChainNumber(id)| ChainId::new(id)).transpose();
    chain.map_err(|e| Problem::field("chainId", e.to_string()))
}

/// Give out the signer's next nonce.
///
/// The lowest nonce that was given back, else a fresh one. With an `Idempotency-Key` header the
/// same key always answers with the same hold.
#[utoipa::path(
    post, path = "/api/v1/nonces/{signer}/allocate", tag = "nonces",
    // By reference, since a body that is named by its type would be one that must be there.
    request_body(content = ref("#/components/schemas/AllocateBody"), content_type = "application/json"),
    params(
        ("signer" = schema::Address, Path, description = "The account"),
        schema::KeyHeader,
    ),
    responses(
        (status = 200, description = "The hold", body = HoldView),
        Problems,
    )
)]
pub(crate) async fn allocate(
    State(app): State<Shared>,
    access: Access,
    Parts(signer): Parts<String>,
    Whole { body, original }: Whole<AllocateBody>,
) -> Result<Response, Problem> {
    let lane = app.directory.lane(&access, body.chain_id, extract::signer(&signer)?)?;
    let key = original.key()?;
    let key = key.map(|key| AllocationKey { tenant: TENANT.to_owned(), key });
    let here = || {
        let (nonces, key) = (app.node.nonces().clone(), key.clone());
        async move {
            let hold = match key {
                Some(key) => nonces.allocate_once(lane, key).await?,
                None => nonces.allocate(lane).await?,
            };
            Ok(Json(HoldView::from(&hold)))
        }
    };
    app.at_holder(lane, &original, here).await
}

/// Say that a transaction with this nonce was sent.
#[utoipa::path(
    post, path = "/api/v1/nonces/{signer}/{nonce}/used", tag = "nonces", request_body = UsedBody,
    params(("signer" = schema::Address, Path), ("nonce" = u64, Path)),
    responses(
        (status = 200, description = "The hold, CONSUMED", body = HoldView),
        Problems,
    )
)]
pub(crate) async fn used(
    State(app): State<Shared>,
    access: Access,
    Parts((signer, nonce)): Parts<(String, String)>,
    Body(body): Body<UsedBody>,
) -> Result<Json<HoldView>, Problem> {
    let lane = app.directory.lane(&access, body.chain_id, extract::signer(&signer)?)?;
    let nonce = extract::nonce(&nonce)?;
    let verdict = MarkVerdict::Used(body.tx_hash);
    let hold = app.node.nonces().mark(lane, nonce, body.hold_id, verdict).await?;
    Ok(Json(HoldView::from(&hold)))
}

/// Say that nothing was sent with this nonce, and nothing will be.
#[utoipa::path(
    post, path = "/api/v1/nonces/{signer}/{nonce}/recyclable", tag = "nonces", request_body = RecyclableBody,
    params(("signer" = schema::Address, Path), ("nonce" = u64, Path)),
    responses(
        (status = 200, description = "The hold, RELEASED", body = HoldView),
        Problems,
    )
)]
pub(crate) async fn recyclable(
    State(app): State<Shared>,
    access: Access,
    Parts((signer, nonce)): Parts<(String, String)>,
    Body(body): Body<RecyclableBody>,
) -> Result<Json<HoldView>, Problem> {
    let lane = app.directory.lane(&access, body.chain_id, extract::signer(&signer)?)?;
    let nonce = extract::nonce(&nonce)?;
    let reason = reason(body.reason)?;
    let verdict = MarkVerdict::Recyclable(reason);
    let hold = app.node.nonces().mark(lane, nonce, body.hold_id, verdict).await?;
    Ok(Json(HoldView::from(&hold)))
}

/// List a signer's holds, lowest nonce first.
#[utoipa::path(
    get, path = "/api/v1/nonces/{signer}", tag = "nonces", operation_id = "list_holds",
    params(("signer" = schema::Address, Path), HoldsQuery),
    responses(
        (status = 200, description = "A page of holds", body = HoldList),
        Problems,
    )
)]
pub(crate) async fn list(
    State(app): State<Shared>,
    access: Access,
    Parts(signer): Parts<String>,
    uri: Uri,
) -> Result<Json<HoldList>, Problem> {
    let query: HoldsQuery = extract::query(&uri)?;
    let lane = app.directory.lane(&access, chain(query.chain_id)?, extract::signer(&signer)?)?;
    let filter = HoldFilter {
        lane,
        status: query.status,
        after: query.cursor.map(|Number(nonce)| nonce),
        limit: limit(query.limit)?,
    };
    let page = app.node.nonces().holds(filter).await?;
    Ok(Json(HoldList { items: page.holds.iter().map(HoldView::from).collect(), next: page.next }))
}

/// A reason in words: not empty, not endless, and nothing a database would choke on.
pub(crate) fn reason(reason: String) -> Result<String, Problem> {
    if reason.trim().is_empty() || reason.len() > REASON_LIMIT || reason.contains('\0') {
        let detail = format!("must be 1 to {REASON_LIMIT} bytes of text");
        return Err(Problem::field("reason", detail));
    }
    Ok(reason)
}
