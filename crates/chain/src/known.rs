//! Which transactions the endpoints know.

use alloy::primitives::B256;
use futures::future::join_all;
use serde::Deserialize;
use serde_json::json;

use crate::batches::{ask_each, ask_each_apart};
use crate::calls::Method;
use crate::rpc::{Answer, Bad, Call, CallError, read_checked};
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
    /// answered. One of which an endpoint tells what cannot be read counts as known: to one that it
    /// does not know it says that there is none.
    pub async fn known(&self, hashes: &[B256]) -> Result<Vec<bool>, ChainError> {
        let endpoints = self.usable().await?;
        let limit = self.batch_limit();
        let asked = endpoints
            .iter()
            .map(|endpoint| ask_each_apart(endpoint, limit, hashes, known_call, read_known));
        let mut all: Option<Vec<bool>> = None;
        let mut said = Vec::new();
        for (endpoint, answer) in endpoints.iter().zip(join_all(asked).await) {
            match answer.and_then(known_or_unread) {
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

/// What an endpoint knows; an error if nothing that it said can be read.
fn known_or_unread(told: Vec<Result<bool, CallError>>) -> Result<Vec<bool>, CallError> {
    let is_read = told.is_empty() || told.iter().any(Result::is_ok);
    told.into_iter().map(|known| if is_read { Ok(known.unwrap_or(true)) } else { known }).collect()
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
    let check = |title: Title| (title.hash == hash).then_some(()).ok_or(ANOTHER);
    Ok(read_checked(answer, check)?.is_some())
}

const ANOTHER: Bad = Bad { field: "hash", words: "another transaction than was asked for" };
