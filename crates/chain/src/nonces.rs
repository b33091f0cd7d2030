//! What Stile asks of a chain.

use async_trait::async_trait;
use stile_domain::{ChainId, Counted, Lane, Nonce};

/// The state of the chain that a question is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockTag {
    /// The newest block: what has happened.
    Latest,
    /// The newest block and the node's own pool: what may happen. Differs from node to node and is
    /// never evidence.
    Pending,
}

/// Answers how many transactions an account has made.
#[async_trait]
pub trait NonceSource: Send + Sync + std::fmt::Debug {
    /// The lane's transaction count, which is its next nonce as the chain sees it. Of what is mined
    /// only what the endpoints agree on.
    async fn transaction_count(&self, lane: Lane, at: BlockTag) -> Result<Nonce, ChainError>;

    /// The count of mined transactions as far as it is agreed on, at the moment: within bounds
    /// where endpoints are apart.
    async fn counted(&self, lane: Lane) -> Result<Counted, ChainError> {
        self.transaction_count(lane, BlockTag::Latest).await.map(Counted::exactly)
    }
}

/// A question to a chain that got no answer. All of these may pass; ask again later.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChainError {
    /// No endpoint is configured for the chain.
    #[error("no endpoint is configured for chain {0}: add one under [[chain]] endpoints")]
    NoEndpoint(ChainId),
    /// Every endpoint failed; what each one said.
    #[error("no endpoint of chain {chain} answered: {}", said.join("; "))]
    Unreachable {
        /// The chain.
        chain: ChainId,
        /// One line for each endpoint.
        said: Vec<String>,
    },
    /// Endpoints answered, and too few of them say the same.
    #[error("the endpoints of chain {chain} do not agree: {}", said.join("; "))]
    Disagreed {
        /// The chain.
        chain: ChainId,
        /// One line for each endpoint.
        said: Vec<String>,
    },
}
