//! What a caller hands over.

use serde::Deserialize;
use stile_domain::{ChainId, Payload};
use stile_engine::TxRequest;
use utoipa::ToSchema;

use crate::access::Access;
use crate::directory::Directory;
use crate::extract;
use crate::nonces::TENANT;
use crate::problem::Problem;
use crate::schema;
use crate::tx::finality::FinalityText;
use crate::tx::value::{Account, CallData, Gas, Price, Wei, object};

/// A transaction to be taken.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schema(as = SendTx, example = json!({
    "signer": "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
    "payload": { "to": "0x70997970C51812dc3A010C7d01b50e0d17dc79C8", "value": "1000000000000000" },
}))]
pub(crate) struct SendBody {
    /// May be left out while there is one chain.
    #[schema(value_type = Option<schema::GivenChainId>)]
    chain_id: Option<ChainId>,
    /// The account that sends it.
    #[schema(value_type = schema::Address)]
    signer: Account,
    /// Your own name for it, unique per signer: handing it over again under the same name changes
    /// nothing. The same as the header `Idempotency-Key`.
    #[schema(value_type = Option<schema::RequestId>)]
    request_id: Option<String>,
    /// What it is to do.
    #[serde(deserialize_with = "object")]
    payload: PayloadBody,
    /// When it counts as done; the server's setting if left out.
    finality: Option<FinalityText>,
}

/// What a transaction is to do. Amounts are decimal or `0x` texts, or JSON integers.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schema(as = SendPayload)]
struct PayloadBody {
    /// Whom it goes to; left out to deploy a contract.
    #[schema(value_type = Option<schema::Address>)]
    to: Option<Account>,
    /// Wei to carry; 0 if left out.
    #[schema(value_type = Option<schema::Wei>)]
    value: Option<Wei>,
    /// Call data or a contract's code, as `0x` text.
    #[schema(value_type = Option<schema::Bytes>)]
    data: Option<CallData>,
    /// The most gas it may use; estimated if left out.
    #[schema(value_type = Option<schema::Gas>)]
    gas_limit: Option<Gas>,
    /// EIP-1559: the most wei to pay for a unit of gas.
    #[schema(value_type = Option<schema::GasPrice>)]
    max_fee_per_gas: Option<Price>,
    /// EIP-1559: the most wei to pay on top of the base fee.
    #[schema(value_type = Option<schema::GasPrice>)]
    max_priority_fee_per_gas: Option<Price>,
    /// A transaction of the old kind, at this price in wei.
    #[schema(value_type = Option<schema::GasPrice>)]
    gas_price: Option<Price>,
    /// The most wei that any attempt may offer for a unit of gas. If left out, the stated price is
    /// the limit, and without one the chain's.
    #[schema(value_type = Option<schema::GasPrice>)]
    fee_limit: Option<Price>,
    /// Whether it is made anew, as another transaction, if somebody else's takes its nonce.
    resend_if_replaced: Option<bool>,
}

impl From<PayloadBody> for Payload {
    fn from(body: PayloadBody) -> Self {
        let price = |price: Option<Price>| price.map(|Price(wei)| wei);
        Self {
            to: body.to.map(|Account(address)| address),
            value: body.value.map(|Wei(amount)| amount).unwrap_or_default(),
            data: body.data.map(|CallData(bytes)| bytes).unwrap_or_default(),
            gas_limit: body.gas_limit.map(|Gas(gas)| gas),
            max_fee_per_gas: price(body.max_fee_per_gas),
            max_priority_fee_per_gas: price(body.max_priority_fee_per_gas),
            gas_price: price(body.gas_price),
            fee_limit: price(body.fee_limit),
            resend_if_replaced: body.resend_if_replaced.unwrap_or(false),
        }
    }
}

impl SendBody {
    /// What the engine is asked for. `key` is the `Idempotency-Key` header, another way to give the
    /// request id.
    pub(crate) fn request(
        self,
        directory: &Directory,
        access: &Access,
        key: Option<String>,
    ) -> Result<TxRequest, Problem> {
        let request_id = self.request_id.map(request_id).transpose()?;
        let request_id = match (request_id, key) {
            (Some(id), Some(key)) if id != key => {
                return Err(Problem::field("requestId", "differs from the Idempotency-Key header"));
            }
            (id, key) => id.or(key),
        };
        let payload = Payload::from(self.payload);
        payload.check().map_err(Problem::payload)?;
        let Account(signer) = self.signer;
        Ok(TxRequest {
            tenant: TENANT.to_owned(),
            lane: directory.lane(access, self.chain_id, signer)?,
            request_id,
            payload,
            finality: self.finality.map(|FinalityText(finality)| finality),
        })
    }
}

/// A caller's name for a transaction.
pub(crate) fn request_id(text: String) -> Result<String, Problem> {
    if extract::is_key(&text) {
        Ok(text)
    } else {
        Err(Problem::field("requestId", extract::KEY_RULE))
    }
}
