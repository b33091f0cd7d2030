//! Which transactions the endpoints know.

use alloy::primitives::B256;
use futures::future::join_all;
use serde::Deserialize;
use serde_json::json;

use crate::batches::ask_each;
use crate::calls::Method;
use crate::rpc::{Answer, Call, CallError, read};
use crate::{ChainError, ChainPool};

impl ChainPool {
    /// Which transactions each endpoint knows, in its pool or on its chain, in the order of the
    /// configuration. `None` for an endpoint that does not answer or did not say.
    pub async fn known_by_each(&self, hashes: &[B256]) -> Vec<Option<Vec<bool>>> {
        let limit = self.batch_limit();
        // Endpoints that were set aside come back into use by being looked at, if that is due.
        let _ = self.usable().await;
        let asked = self.endpoints.iter().map(async |endpoint| {
            if !endpoint.answers() {
                return None;
            }
            match ask_each(endpoint, limit, hashes, known_call, read_known).await {
                Ok(known) => Some(known),
                Err(error) => {
                    endpoint.note(&error);
                    None
                }
            }
        });
        join_all(asked).await
    }

    /// Which transactions any endpoint knows, in its pool or on its chain. An error only if none
    /// answered.
    pub async fn known(&self, hashes: &[B256]) -> Result<Vec<bool>, ChainError> {
        let endpoints = self.usable().await?;
        let limit = self.batch_limit();
        let asked = endpoints
            .iter()
            .map(|endpoint| ask_each(endpoint, limit, hashes, known_call, read_known));
        let mut all: Option<Vec<bool>> = None;
        let mut said = Vec::new();
        for (endpoint, answer) in endpoints.iter().zip(join_all(asked).await) {
            match answer {
                Ok(known) => {
                    let all = all.get_or_insert_with(|| vec![false; hashes.len()]);
                    all.iter_mut().zip(known).for_each(|(one, known)| *one |= known);
                }
                Err(error) => {
                    endpoint.note(&error);
                    said.push(endpoint.complaint(error));
                }
            }
        }
        all.ok_or(ChainError::Unreachable { chain: self.chain(), said })
    }
}

#[derive(Deserialize)]
struct Title {
    hash: B256,
}

/// Asks for a transaction.
pub(crate) fn known_call(hash: B256) -> Call {
    Call::new(Method::TransactionByHash, json!([hash]))
}

/// Reads whether there is such a transaction. Another one is an error.
pub(crate) fn read_known(answer: Answer, hash: B256) -> Result<bool, CallError> {
    match read::<Title>(answer)? {
        Some(title) if title.hash != hash => {
            Err(CallError::Garbled("another transaction than was asked for"))
        }
        title => Ok(title.is_some()),
    }
}
