//! Which transactions the endpoints know.

use alloy::primitives::B256;
use futures::future::join_all;
use serde::Deserialize;
use serde_json::json;

use crate::calls::Method;
use crate::endpoint::Endpoint;
use crate::rpc::{Call, CallError, read};
use crate::{ChainError, ChainPool};

impl ChainPool {
    /// Which transactions any endpoint knows, in its pool or on its chain. An error only if none
    /// answered.
    pub async fn known(&self, hashes: &[B256]) -> Result<Vec<bool>, ChainError> {
        let endpoints = self.usable().await?;
        let limit = self.batch_limit();
        let asked = endpoints.iter().map(|endpoint| known(endpoint, hashes, limit));
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
struct Sighting {
    hash: B256,
}

async fn known(endpoint: &Endpoint, hashes: &[B256], limit: usize) -> Result<Vec<bool>, CallError> {
    let mut known = Vec::with_capacity(hashes.len());
    for hashes in hashes.chunks(limit) {
        let call = |hash: &B256| Call::new(Method::TransactionByHash, json!([hash]));
        let calls: Vec<Call> = hashes.iter().map(call).collect();
        for (answer, hash) in endpoint.rpc.batch(&calls).await.into_iter().zip(hashes) {
            match read::<Sighting>(answer)? {
                Some(sighting) if sighting.hash != *hash => {
                    return Err(CallError::Garbled("another transaction than was asked for"));
                }
                sighting => known.push(sighting.is_some()),
            }
        }
    }
    Ok(known)
}
