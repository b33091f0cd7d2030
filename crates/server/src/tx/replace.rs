//! Withdraw a transaction, or have it mined sooner.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use stile_domain::{Address, Fees, Payload, TxId};
use stile_engine::{Cancelled, ReplaceError};
use utoipa::ToSchema;

use crate::access::Access;
use crate::app::Shared;
use crate::code::Code;
use crate::extract::{Body, Parts};
use crate::problem::{Problem, Problems};
use crate::schema;
use crate::tx::read::{find, missing};
use crate::tx::value::Price;
use crate::tx::view::TxView;

/// There is nothing to say about a withdrawal.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CancelBody {}

/// What to offer. Left out, the policy decides: enough more for chain nodes to take it, and what the
/// chain asks for by now.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct SpeedUpBody {
    /// EIP-1559: the most wei to pay for a unit of gas; together with `maxPriorityFeePerGas`.
    #[schema(value_type = Option<schema::GasPrice>)]
    max_fee_per_gas: Option<Price>,
    /// EIP-1559: the most wei to pay on top of the base fee; together with `maxFeePerGas`.
    #[schema(value_type = Option<schema::GasPrice>)]
    max_priority_fee_per_gas: Option<Price>,
    /// The price of a transaction of the old kind, in wei.
    #[schema(value_type = Option<schema::GasPrice>)]
    gas_price: Option<Price>,
}

impl SpeedUpBody {
    fn fees(&self) -> Result<Option<Fees>, Problem> {
        let price = |price: Option<Price>| price.map(|Price(wei)| wei);
        // The rules about fees are the payload's; whom it goes to is not at issue.
        let payload = Payload {
            to: Some(Address::ZERO),
            max_fee_per_gas: price(self.max_fee_per_gas),
            max_priority_fee_per_gas: price(self.max_priority_fee_per_gas),
            gas_price: price(self.gas_price),
            ..Payload::default()
        };
        payload.check().map_err(|error| Problem::field(error.field, error.why))?;
        match (self.max_fee_per_gas, self.max_priority_fee_per_gas) {
            (Some(_), None) => {
                Err(Problem::field("maxPriorityFeePerGas", "must be given with maxFeePerGas"))
            }
            (None, Some(_)) => {
                Err(Problem::field("maxFeePerGas", "must be given with maxPriorityFeePerGas"))
            }
            _ => Ok(Fees::given(&payload)),
        }
    }
}

/// What a caller is told whose transaction is left as it is.
fn refused(id: TxId) -> impl Fn(ReplaceError) -> Problem {
    move |error| {
        let detail = error.to_string();
        match error {
            ReplaceError::NotFound => missing(id),
            ReplaceError::NoNonceYet(_) => Problem::new(Code::NoNonceYet, detail).about(id),
            ReplaceError::AwaitsWord(_) => Problem::new(Code::AwaitsWord, detail).about(id),
            ReplaceError::TooLate(_) => Problem::new(Code::TooLate, detail).about(id),
            ReplaceError::FeeLimit(_) => Problem::new(Code::FeeLimit, detail).about(id),
            ReplaceError::TooLow { least } => {
                Problem::new(Code::FeeTooLow, too_low(least)).about(id)
            }
            ReplaceError::Store(error) => error.into(),
        }
    }
}

fn too_low(least: Fees) -> String {
    let offer = match least {
        Fees::Market { max_fee_per_gas, max_priority_fee_per_gas } => format!(
            "maxFeePerGas {max_fee_per_gas} and maxPriorityFeePerGas {max_priority_fee_per_gas}"
        ),
        Fees::Legacy { gas_price } => format!("gasPrice {gas_price}"),
    };
    format!("chain nodes take it in place of the attempt before only from {offer} on")
}

/// Withdraw a transaction.
///
/// Before it has a nonce it is withdrawn at once. After that an empty transaction is sent at its
/// nonce, and whichever of the two is mined first wins: follow it until it is `FAILED` or
/// `CONFIRMED`. To ask again changes nothing.
#[utoipa::path(
    post, path = "/api/v1/tx/{txId}/cancel", tag = "transactions", operation_id = "cancel_tx",
    // By reference, since a body that is named by its type would be one that must be there.
    request_body(content = ref("#/components/schemas/CancelBody"), content_type = "application/json"),
    params(("txId" = Uuid, Path)),
    responses(
        (status = 200, description = "It is withdrawn, now or before: it had no nonce", body = TxView),
        (status = 202, description = "On its way: whichever is mined first wins", body = TxView),
        Problems,
    )
)]
pub(crate) async fn cancel(
    State(app): State<Shared>,
    access: Access,
    Parts(id): Parts<String>,
    Body(CancelBody {}): Body<CancelBody>,
) -> Result<(StatusCode, Json<TxView>), Problem> {
    let id = find(&app, &access, &id).await?.id;
    let transactions = app.node.transactions();
    let (status, tx) = match transactions.cancel(id).await.map_err(refused(id))? {
        Cancelled::Withdrawn(tx) => (StatusCode::OK, tx),
        Cancelled::Requested(tx) => (StatusCode::ACCEPTED, tx),
    };
    tracing::info!(txId = %id, signer = %tx.lane.signer, chain = %tx.lane.chain, key = %access, "cancellation asked for");
    Ok((status, Json(TxView::new(transactions, tx))))
}

/// Have a transaction mined sooner.
///
/// The node that holds the signer makes a new attempt at the same nonce that offers more. At most
/// one of the attempts is ever mined.
#[utoipa::path(
    post, path = "/api/v1/tx/{txId}/speed-up", tag = "transactions", operation_id = "speed_up_tx",
    // By reference, since a body that is named by its type would be one that must be there.
    request_body(content = ref("#/components/schemas/SpeedUpBody"), content_type = "application/json"),
    params(("txId" = Uuid, Path)),
    responses(
        (status = 202, description = "On its way", body = TxView),
        Problems,
    )
)]
pub(crate) async fn speed_up(
    State(app): State<Shared>,
    access: Access,
    Parts(id): Parts<String>,
    Body(body): Body<SpeedUpBody>,
) -> Result<(StatusCode, Json<TxView>), Problem> {
    let fees = body.fees()?;
    let id = find(&app, &access, &id).await?.id;
    let transactions = app.node.transactions();
    let tx = transactions.speed_up(id, fees).await.map_err(refused(id))?;
    tracing::info!(txId = %id, signer = %tx.lane.signer, chain = %tx.lane.chain, key = %access, "speed-up asked for");
    Ok((StatusCode::ACCEPTED, Json(TxView::new(transactions, tx))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fees(json: &str) -> Result<Option<Fees>, Problem> {
        serde_json::from_str::<SpeedUpBody>(json).unwrap().fees()
    }

    #[test]
    fn fees_are_whole_or_left_to_the_policy() {
        assert_eq!(fees("{}").unwrap(), None);
        let legacy = fees("{\"gasPrice\": 5}").unwrap();
        assert_eq!(legacy, Some(Fees::Legacy { gas_price: 5 }));
        let market = fees("{\"maxFeePerGas\": \"9\", \"maxPriorityFeePerGas\": \"0x2\"}").unwrap();
        let expected = Fees::Market { max_fee_per_gas: 9, max_priority_fee_per_gas: 2 };
        assert_eq!(market, Some(expected));
    }

    #[test]
    fn fees_that_make_no_sense_are_refused() {
        for json in [
            "{\"maxFeePerGas\": 1}",
            "{\"maxPriorityFeePerGas\": 1}",
            "{\"maxFeePerGas\": 1, \"maxPriorityFeePerGas\": 2}",
            "{\"gasPrice\": 1, \"maxFeePerGas\": 1}",
        ] {
            assert!(fees(json).is_err(), "{json}");
        }
    }
}
