//! Take a transaction.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use crate::access::Access;
use crate::app::Shared;
use crate::peers::Whole;
use crate::problem::{Problem, Problems};
use crate::schema;
use crate::tx::body::SendBody;
use crate::tx::view::TxView;

/// Hand over a transaction: it lands exactly once.
///
/// When this answers, the transaction is on record and Stile sees it through, whatever crashes.
/// With a `requestId` (or the header `Idempotency-Key`) it can be handed over again safely: the
/// same request answers with the same transaction, a different one under the same id is refused.
#[utoipa::path(
    post, path = "/api/v1/tx", tag = "transactions", operation_id = "send_tx",
    request_body = SendBody,
    params(schema::KeyHeader),
    responses(
        (status = 202, description = "Taken", body = TxView),
        (status = 200, description = "Taken before, under this request id", body = TxView),
        Problems,
    )
)]
pub(crate) async fn send(
    State(app): State<Shared>,
    access: Access,
    Whole { body, original }: Whole<SendBody>,
) -> Result<Response, Problem> {
    let request = body.request(&app.directory, &access, original.key()?)?;
    let name = request.request_id.as_deref();
    if let Some(answer) = app.instead_of_accepting(request.lane, name, &original).await? {
        return Ok(answer);
    }
    let accepted = app.node.transactions().send(request).await?;
    let view = TxView::new(app.node.transactions(), accepted.tx);
    Ok((status(accepted.new), Json(view)).into_response())
}

/// New is `202`: there is more to come. The same again is `200`.
pub(crate) fn status(new: bool) -> StatusCode {
    if new { StatusCode::ACCEPTED } else { StatusCode::OK }
}
