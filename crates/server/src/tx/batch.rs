//! Take many transactions, with an answer for each.

use std::collections::{BTreeMap, HashMap};

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use stile_domain::Lane;
use stile_engine::{Accepted, NonceError, Transactions, TxRequest};
use utoipa::ToSchema;

use crate::access::Access;
use crate::app::Shared;
use crate::extract;
use crate::peers::{NotHolder, Original, Peer, Whole};
use crate::problem::{Problem, ProblemBody, Problems};
use crate::rates::{Budget, Payer};
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
    #[schema(value_type = Vec<ItemView>)]
    items: Vec<Item>,
}

/// An answer of this node, or another node's as it came.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Item {
    Here(Box<ItemView>),
    There(Box<RawValue>),
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
/// Each item is taken or refused by itself. Those of one signer keep their order. Where calls have a
/// rate, each item costs one.
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
    payer: Payer,
    Whole { body, original }: Whole<BatchBody>,
) -> Result<Response, Problem> {
    if original.key()?.is_some() {
        let detail = "does not name many transactions at once: give each item a requestId";
        return Err(Problem::field("Idempotency-Key", detail));
    }
    if !(1..=MOST_ITEMS).contains(&body.items.len()) {
        return Err(Problem::field("items", format!("must be 1 to {MOST_ITEMS} transactions")));
    }
    // The call has cost one. How many are in it nobody knew before it was read.
    let budget = app.rates.take_more(payer, body.items.len() as u32 - 1);
    if let Some(refusal) = budget.and_then(Budget::refusal) {
        return Ok((budget.map(Extension), refusal).into_response());
    }
    let read = |(place, item): (usize, &RawValue)| {
        let body: Result<SendBody, Problem> = extract::parse(item.get().as_bytes());
        let request = body.and_then(|body| body.request(&app.directory, &access, None));
        request.map_err(|problem| problem.within(&format!("items[{place}]")))
    };
    let mut requests: Vec<Result<TxRequest, Problem>> =
        body.items.iter().map(|item| &**item).enumerate().map(read).collect();
    let mut there = match app.forwarder.not_holder() {
        NotHolder::Accept => HashMap::new(),
        NotHolder::Reject => {
            refuse(&app, &mut requests).await?;
            HashMap::new()
        }
        NotHolder::Forward => pass_on(&app, &body.items, &mut requests, &original).await?,
    };
    let transactions = app.node.transactions();
    let here = requests.iter().enumerate().filter(|(place, _)| !there.contains_key(place));
    let here = here.filter_map(|(_, request)| request.as_ref().ok().cloned()).collect();
    let mut answers = transactions.send_all(here).await.into_iter();
    let items = requests.into_iter().enumerate().map(|(place, request)| {
        if let Some(answer) = there.remove(&place) {
            return Item::There(answer);
        }
        let outcome = request.and_then(|_| {
            let none = || Err(NonceError::Internal("an item without an answer".into()).into());
            answers
                .next()
                .unwrap_or_else(none)
                .map_err(|error| Problem::from(error).within(&format!("items[{place}]")))
        });
        Item::Here(Box::new(ItemView::new(transactions, outcome)))
    });
    let answer = Json(BatchView { items: items.collect() });
    Ok((budget.map(Extension), answer).into_response())
}

/// Refuses what only another node takes.
async fn refuse(app: &Shared, requests: &mut [Result<TxRequest, Problem>]) -> Result<(), Problem> {
    for (place, item) in requests.iter_mut().enumerate() {
        let Ok(request) = item else { continue };
        let name = request.request_id.as_deref();
        if let Some(problem) = app.refusal(request.lane, name).await? {
            *item = Err(problem.within(&format!("items[{place}]")));
        }
    }
    Ok(())
}

/// Passes on what other nodes hold the lanes of, each its part. Answers with what they said, by the
/// place in the request; what nobody was there to take is left for this node.
async fn pass_on(
    app: &Shared,
    items: &[Box<RawValue>],
    requests: &mut [Result<TxRequest, Problem>],
    original: &Original,
) -> Result<HashMap<usize, Box<RawValue>>, Problem> {
    let mut places: BTreeMap<Lane, Vec<usize>> = BTreeMap::new();
    for (place, request) in requests.iter().enumerate() {
        if let Ok(request) = request {
            places.entry(request.lane).or_default().push(place);
        }
    }
    let mut parts: Vec<(Peer, Vec<usize>)> = Vec::new();
    for (lane, places) in places {
        let Some(peer) = app.way_to(lane, original).await? else { continue };
        match parts.iter_mut().find(|(known, _)| *known == peer) {
            Some((_, part)) => part.extend(places),
            None => parts.push((peer, places)),
        }
    }
    let mut there = HashMap::new();
    for (peer, mut places) in parts {
        places.sort_unstable();
        let part: Vec<&RawValue> = places.iter().map(|place| &*items[*place]).collect();
        match app.part_of_batch(&peer, &part, original).await {
            Ok(answers) => there.extend(places.into_iter().zip(answers)),
            Err(problem) => {
                // What has a name lands once, wherever it is taken.
                for place in places {
                    let item = &mut requests[place];
                    let named = item.as_ref().is_ok_and(|request| request.request_id.is_some());
                    if let (Some(why), false) = (&problem, named) {
                        *item = Err(app.unreachable(why).within(&format!("items[{place}]")));
                    }
                }
            }
        }
    }
    Ok(there)
}
