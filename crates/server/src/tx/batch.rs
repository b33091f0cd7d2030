//! Take many transactions, with an answer for each.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use stile_engine::{Accepted, NonceError, Transactions, TxRequest};
use utoipa::ToSchema;

use crate::access::Access;
use crate::app::Shared;
use crate::extract::{self, Body};
use crate::problem::{Problem, ProblemBody, Problems};
use crate::tx::body::SendBody;
use crate::tx::send::status;
use crate::tx::view::TxView;

/// As many as one call takes.
const MOST_ITEMS: usize = 1000;

/// Transactions to be taken.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = SendTxBatch)]
pub(crate) struct BatchBody {
    /// 1 to 1000 transactions. Each is read by itself, so that a bad one harms no other.
    #[schema(value_type = Vec<SendBody>, min_items = 1, max_items = 1000)]
    items: Vec<Box<RawValue>>,
}

/// What became of each.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TxBatch)]
pub(crate) struct BatchView {
    /// In the order of the request.
    items: Vec<ItemView>,
}

/// What became of one.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TxBatchItem)]
struct ItemView {
    /// The status it would have had alone: 202 for a new one, 200 for one taken before.
    #[schema(example = 202)]
    status: u16,
    /// The transaction, if it was taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    tx: Option<TxView>,
    /// Why it was not taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<Box<ProblemBody>>,
}

impl ItemView {
    fn new(transactions: &Transactions, outcome: Result<Accepted, Problem>) -> Self {
        match outcome {
            Ok(accepted) => Self {
                status: status(accepted.new).as_u16(),
                tx: Some(TxView::new(transactions, accepted.tx)),
                problem: None,
            },
            Err(problem) => {
                let problem = problem.into_body();
                Self { status: problem.status(), tx: None, problem: Some(problem) }
            }
        }
    }
}

/// Hand over many transactions at once.
///
/// Each item is taken or refused by itself. Those of one signer keep their order.
#[utoipa::path(
    post, path = "/api/v1/tx/batch", tag = "transactions", operation_id = "send_tx_batch",
    request_body = BatchBody,
    responses(
        (status = 200, description = "An answer for each, in order", body = BatchView),
        Problems,
    )
)]
pub(crate) async fn batch(
    State(app): State<Shared>,
    access: Access,
    headers: HeaderMap,
    Body(body): Body<BatchBody>,
) -> Result<Json<BatchView>, Problem> {
    if extract::idempotency_key(&headers)?.is_some() {
        let detail = "does not name many transactions at once: give each item a requestId";
        return Err(Problem::field("Idempotency-Key", detail));
    }
    if !(1..=MOST_ITEMS).contains(&body.items.len()) {
        return Err(Problem::field("items", format!("must be 1 to {MOST_ITEMS} transactions")));
    }
    let read = |(place, item): (usize, Box<RawValue>)| {
        let body: Result<SendBody, Problem> = extract::parse(item.get().as_bytes());
        let request = body.and_then(|body| body.request(&app.directory, &access, None));
        request.map_err(|problem| problem.within(&format!("items[{place}]")))
    };
    let requests: Vec<Result<TxRequest, Problem>> =
        body.items.into_iter().enumerate().map(read).collect();
    let transactions = app.node.transactions();
    let good = requests.iter().filter_map(|request| request.as_ref().ok().cloned()).collect();
    let mut answers = transactions.send_all(good).await.into_iter();
    let items = requests.into_iter().enumerate().map(|(place, request)| {
        let outcome = request.and_then(|_| {
            let none = || Err(NonceError::Internal("an item without an answer".into()).into());
            answers
                .next()
                .unwrap_or_else(none)
                .map_err(|error| Problem::from(error).within(&format!("items[{place}]")))
        });
        ItemView::new(transactions, outcome)
    });
    Ok(Json(BatchView { items: items.collect() }))
}
