//! What happened to a transaction: history, attempts, confirmations.

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use serde::{Deserialize, Serialize};
use stile_domain::{B256, Fees, MAX_NONCE, Timestamp};
use stile_engine::BlockRef;
use stile_store::{Attempt, TxEvent};
use utoipa::{IntoParams, ToSchema};

use crate::access::Access;
use crate::app::Shared;
use crate::extract::{self, Parts};
use crate::problem::{Problem, Problems};
use crate::schema;
use crate::tx::read::find;

/// An entry of a transaction's history.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = TxEvent)]
pub(crate) struct EventView {
    /// Its number in the history, from 1, without gaps.
    seq: u32,
    /// What happened.
    #[schema(value_type = schema::EventKindName)]
    kind: &'static str,
    /// Where the transaction stood then.
    #[schema(value_type = schema::TxStateName)]
    state: &'static str,
    /// What there was to say about it.
    #[schema(value_type = Option<schema::SubStateName>)]
    sub_state: Option<&'static str>,
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

impl From<TxEvent> for EventView {
    fn from(event: TxEvent) -> Self {
        Self {
            seq: event.seq,
            kind: event.kind.name(),
            state: event.state.name(),
            sub_state: event.sub_state.map(|sub_state| sub_state.name()),
            at: event.at,
            node_id: event.node.0,
            fencing_token: event.fencing_token.map(|token| token.get()),
            data: event.data,
        }
    }
}

/// A whole history.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct History {
    items: Vec<EventView>,
    /// Always null: a history comes whole.
    next: Option<u64>,
}

/// One signed attempt.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Attempt)]
struct AttemptView {
    /// 1 for the first.
    number: u32,
    /// What it is for.
    #[schema(value_type = schema::AttemptKindName)]
    kind: &'static str,
    /// Its hash.
    #[schema(value_type = schema::Hash)]
    tx_hash: String,
    /// The bytes that are sent, and sent again.
    #[schema(value_type = schema::Bytes)]
    raw: String,
    /// EIP-1559: the most wei paid for a unit of gas.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_fee_per_gas: Option<String>,
    /// EIP-1559: the most wei paid on top of the base fee.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_priority_fee_per_gas: Option<String>,
    /// The price of the old kind, in wei.
    #[serde(skip_serializing_if = "Option::is_none")]
    gas_price: Option<String>,
    /// The gas it may use.
    gas_limit: String,
    /// The token it was written under.
    fencing_token: u64,
    /// When it was written; always before it was first sent.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// When it was last sent.
    #[schema(value_type = Option<String>, format = DateTime)]
    last_sent_at: Option<Timestamp>,
    /// How often it was sent.
    sends: u32,
    /// What each endpoint said to it last; null before it was sent.
    #[schema(value_type = Option<Vec<EndpointSaid>>)]
    endpoints: Option<serde_json::Value>,
}

impl From<Attempt> for AttemptView {
    fn from(attempt: Attempt) -> Self {
        let (max_fee, max_tip, gas_price) = match attempt.fees {
            Fees::Market { max_fee_per_gas, max_priority_fee_per_gas } => {
                (Some(max_fee_per_gas), Some(max_priority_fee_per_gas), None)
            }
            Fees::Legacy { gas_price } => (None, None, Some(gas_price)),
        };
        let text = |wei: Option<u128>| wei.map(|wei| wei.to_string());
        Self {
            number: attempt.number,
            kind: attempt.kind.name(),
            tx_hash: attempt.hash.to_string(),
            raw: attempt.raw.to_string(),
            max_fee_per_gas: text(max_fee),
            max_priority_fee_per_gas: text(max_tip),
            gas_price: text(gas_price),
            gas_limit: attempt.gas_limit.to_string(),
            fencing_token: attempt.fencing_token.get(),
            created_at: attempt.created_at,
            last_sent_at: attempt.last_sent_at,
            sends: attempt.sends,
            endpoints: attempt.said,
        }
    }
}

/// What an endpoint said to an attempt. The store keeps it as JSON, so this is for the document.
#[derive(ToSchema)]
#[expect(dead_code, reason = "the store has it ready as JSON")]
struct EndpointSaid {
    /// Host and port.
    endpoint: String,
    /// What it means.
    #[schema(example = "accepted")]
    class: String,
    /// In its own words.
    text: String,
}

/// All attempts of a transaction.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AttemptList {
    items: Vec<AttemptView>,
    /// Always null: attempts come all at once.
    next: Option<u64>,
}

/// What the caller has seen already.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SeenQuery {
    /// `<blockNumber>:<blockHash>` of the newest block seen: only what came since is listed.
    #[param(value_type = Option<schema::SeenBlock>)]
    seen: Option<String>,
}

/// A block that confirms a transaction.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Block)]
struct BlockView {
    /// Its height.
    block_number: u64,
    /// Its hash.
    #[schema(value_type = schema::Hash)]
    block_hash: String,
}

/// The blocks that confirm a transaction, its own first.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Confirmations)]
pub(crate) struct ConfirmationsView {
    /// Whether the block seen is no longer canonical; the list is then the whole one.
    new_fork: bool,
    items: Vec<BlockView>,
    /// Always null: the list comes whole.
    next: Option<u64>,
}

/// What happened to a transaction, oldest first.
#[utoipa::path(
    get, path = "/api/v1/tx/{txId}/history", tag = "transactions", operation_id = "tx_history",
    params(("txId" = Uuid, Path)),
    responses(
        (status = 200, description = "Its history", body = History),
        Problems,
    )
)]
pub(crate) async fn history(
    State(app): State<Shared>,
    access: Access,
    Parts(id): Parts<String>,
) -> Result<Json<History>, Problem> {
    let tx = find(&app, &access, &id).await?;
    let events = app.node.transactions().history(tx.id).await?;
    Ok(Json(History { items: events.into_iter().map(EventView::from).collect(), next: None }))
}

/// The signed attempts of a transaction, oldest first.
///
/// All of them have its nonce, so at most one is ever mined.
#[utoipa::path(
    get, path = "/api/v1/tx/{txId}/attempts", tag = "transactions", operation_id = "tx_attempts",
    params(("txId" = Uuid, Path)),
    responses(
        (status = 200, description = "Its attempts", body = AttemptList),
        Problems,
    )
)]
pub(crate) async fn attempts(
    State(app): State<Shared>,
    access: Access,
    Parts(id): Parts<String>,
) -> Result<Json<AttemptList>, Problem> {
    let tx = find(&app, &access, &id).await?;
    let attempts = app.node.transactions().attempts(tx.id).await?;
    let items = attempts.into_iter().map(AttemptView::from).collect();
    Ok(Json(AttemptList { items, next: None }))
}

/// The blocks that confirm a transaction.
#[utoipa::path(
    get, path = "/api/v1/tx/{txId}/confirmations", tag = "transactions", operation_id = "tx_confirmations",
    params(("txId" = Uuid, Path), SeenQuery),
    responses(
        (status = 200, description = "The blocks", body = ConfirmationsView),
        Problems,
    )
)]
pub(crate) async fn confirmations(
    State(app): State<Shared>,
    access: Access,
    Parts(id): Parts<String>,
    uri: Uri,
) -> Result<Json<ConfirmationsView>, Problem> {
    let query: SeenQuery = extract::query(&uri)?;
    let seen = query.seen.as_deref().map(block).transpose()?;
    let tx = find(&app, &access, &id).await?;
    let list = app.node.transactions().confirmations(&tx, seen).await?;
    let items = list
        .blocks
        .iter()
        .map(|block| BlockView { block_number: block.number, block_hash: block.hash.to_string() });
    Ok(Json(ConfirmationsView { new_fork: list.new_fork, items: items.collect(), next: None }))
}

/// A block as `<blockNumber>:<blockHash>`.
fn block(text: &str) -> Result<BlockRef, Problem> {
    let read = || {
        let (number, hash) = text.split_once(':')?;
        let digits = number.bytes().all(|byte| byte.is_ascii_digit());
        let number = number.parse().ok().filter(|number| digits && *number <= MAX_NONCE)?;
        let digits = hash.strip_prefix("0x").filter(|digits| digits.len() == 64)?;
        Some(BlockRef { number, hash: digits.parse::<B256>().ok()? })
    };
    read().ok_or_else(|| Problem::field("seen", "must be <blockNumber>:<blockHash>"))
}
