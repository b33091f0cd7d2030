//! How much gas a transaction needs.

use alloy::primitives::{Address, Bytes, U256};
use serde_json::{Value, json};
use stile_domain::Payload;

use crate::calls::Method;
use crate::classify::{self, Refusal};
use crate::pool::one;
use crate::rpc::{Call, read_some};
use crate::{ChainError, ChainPool};

/// Why there is no estimate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EstimateError {
    /// The transaction would fail.
    #[error("would be reverted: {reason}")]
    Reverted {
        /// The contract's words, where it gave any that can be read.
        reason: String,
        /// What the contract returned.
        data: Option<Bytes>,
    },
    /// The node understood and said no, as to an account without funds.
    #[error("{0}")]
    Refused(String),
    /// Nobody could be asked. This may pass.
    #[error(transparent)]
    Unavailable(#[from] ChainError),
}

impl ChainPool {
    /// The gas that a transaction from this account would use, on top of what is pending. Its fees
    /// are left out: an estimate is about gas, not about what it costs.
    pub async fn estimate_gas(
        &self,
        from: Address,
        payload: &Payload,
    ) -> Result<u64, EstimateError> {
        let call = Call::new(Method::EstimateGas, json!([request(from, payload), "pending"]));
        let mut said = Vec::new();
        for endpoint in self.usable().await? {
            let error = match read_some::<U256>(one(&endpoint, &call).await) {
                Ok(gas) => match u64::try_from(gas).ok().filter(|gas| *gas <= i64::MAX as u64) {
                    Some(gas) => return Ok(gas),
                    None => {
                        said.push(endpoint.complaint("answered an amount of gas that cannot be"));
                        continue;
                    }
                },
                Err(error) => error,
            };
            match classify::refusal(&error) {
                Some(Refusal::Reverted { reason, data }) => {
                    return Err(EstimateError::Reverted { reason, data });
                }
                Some(Refusal::Refused(why)) => return Err(EstimateError::Refused(why)),
                None => {
                    endpoint.note(&error);
                    said.push(endpoint.complaint(error));
                }
            }
        }
        Err(ChainError::Unreachable { chain: self.chain(), said }.into())
    }
}

fn request(from: Address, payload: &Payload) -> Value {
    let mut request = json!({ "from": from, "value": payload.value });
    if let Some(to) = payload.to {
        request["to"] = json!(to);
    }
    if !payload.data.is_empty() {
        request["data"] = json!(payload.data);
    }
    request
}
