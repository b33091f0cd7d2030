//! What the endpoints say about a block.

use alloy::primitives::B256;
use futures::future::join_all;
use stile_domain::Votes;

use crate::ChainPool;
use crate::blocks::{With, at_call, read_at};
use crate::endpoint::Endpoint;
use crate::pool::one;

impl ChainPool {
    /// What the endpoints in use say about a block. An endpoint that has not come that far, or
    /// does not answer, has no vote.
    pub async fn votes(&self, height: u64, hash: B256) -> Votes {
        let Ok(endpoints) = self.usable().await else { return Votes::default() };
        let asked = endpoints.iter().map(|endpoint| hash_at(endpoint, height));
        let mut votes = Votes::default();
        for found in join_all(asked).await.into_iter().flatten() {
            if found == hash { votes.agree += 1 } else { votes.disagree += 1 }
        }
        votes
    }
}

/// The hash of an endpoint's block at a height; `None` if it has none or does not answer.
async fn hash_at(endpoint: &Endpoint, height: u64) -> Option<B256> {
    match read_at(one(endpoint, &at_call(height, With::Hashes)).await, height) {
        Ok(block) => block.map(|block| block.header.hash),
        Err(error) => {
            endpoint.note(&error);
            None
        }
    }
}
