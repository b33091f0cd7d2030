//! How much gas a transaction needs.

use std::sync::{Arc, Mutex, PoisonError};

use alloy::primitives::{Address, Bytes, U256};
use serde_json::{Value, json};
use stile_domain::Payload;

use crate::calls::Method;
use crate::classify::{self, Refusal};
use crate::endpoint::Endpoint;
use crate::in_turn::{Reply, in_turn};
use crate::pool::one;
use crate::rpc::{Answer, Call, CallError, read_some};
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
    /// are left out: an estimate is about gas, not about what it costs. A no is a no if a second
    /// endpoint says so too; where there is no other that answers, one is enough only if one is a
    /// quorum.
    pub async fn estimate_gas(
        &self,
        from: Address,
        payload: &Payload,
    ) -> Result<u64, EstimateError> {
        let call = Call::new(Method::EstimateGas, json!([request(from, payload), "pending"]));
        let endpoints = self.usable().await?;
        let names: Vec<String> = endpoints.iter().map(|it| it.shown().to_owned()).collect();
        let several = endpoints.len() > 1;
        let refused = Mutex::new(None);
        let ask = |endpoint: Arc<Endpoint>| {
            let (call, refused) = (&call, &refused);
            async move {
                let answer = one(&endpoint, call).await;
                // An endpoint is not set aside for being slow here: the question may be too much
                // for anybody, and a look finds out who is away.
                if let Err(gone @ CallError::Unreachable) = &answer {
                    endpoint.note(gone);
                }
                match judge(answer) {
                    Estimated::Known(Err(no)) if several => {
                        let words = endpoint.complaint(&no);
                        match keep(refused, no.clone()) {
                            Some(_) => Reply::Decides(Err(no)),
                            None => Reply::Next(words),
                        }
                    }
                    Estimated::Known(estimate) => Reply::Decides(estimate),
                    Estimated::Unknown(why) => Reply::Next(endpoint.complaint(why)),
                }
            }
        };
        // Whoever waits for an estimate waits for one time limit, however many endpoints hang.
        let limit = self.patience();
        let deadline = tokio::time::Instant::now() + limit;
        let mut said = match in_turn(endpoints, limit, Some(deadline), ask).await {
            Ok(estimate) => return estimate,
            Err(said) => said,
        };
        let refused = refused.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(no) = refused.filter(|_| self.quorum.required() == 1) {
            return Err(no);
        }
        for shown in names {
            if !said.iter().any(|words| words.starts_with(&shown)) {
                said.push(format!("{shown}: no answer in {limit:?} to eth_estimateGas"));
            }
        }
        Err(ChainError::Unreachable { chain: self.chain(), said }.into())
    }

    /// Whether any endpoint can be asked at all, found out by a look that is not older than this
    /// call, or by one under way.
    pub async fn is_reachable(&self) -> bool {
        self.view().await.is_ok()
    }
}

/// Keeps a no, and answers with the one before.
fn keep(refused: &Mutex<Option<EstimateError>>, no: EstimateError) -> Option<EstimateError> {
    refused.lock().unwrap_or_else(PoisonError::into_inner).replace(no)
}

/// What an endpoint's answer comes to.
enum Estimated {
    Known(Result<u64, EstimateError>),
    /// It is no verdict; what it was.
    Unknown(String),
}

fn judge(answer: Answer) -> Estimated {
    let error = match read_some::<U256>(answer) {
        Ok(gas) => {
            let gas = u64::try_from(gas).ok().filter(|gas| *gas <= i64::MAX as u64);
            let impossible =
                || Estimated::Unknown("answered an amount of gas that cannot be".into());
            return gas.map_or_else(impossible, |gas| Estimated::Known(Ok(gas)));
        }
        Err(error) => error,
    };
    match classify::refusal(&error) {
        Some(Refusal::Reverted { reason, data }) => {
            Estimated::Known(Err(EstimateError::Reverted { reason, data }))
        }
        Some(Refusal::Refused(why)) => Estimated::Known(Err(EstimateError::Refused(why))),
        None => Estimated::Unknown(error.to_string()),
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
