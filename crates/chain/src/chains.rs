//! All configured chains.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use stile_domain::{ChainId, Counted, Lane, Nonce};

use crate::{BlockTag, ChainError, ChainPool, EndpointError, NonceSource};

/// How endpoints are asked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PoolOptions {
    /// The longest an endpoint is waited for. A batch is given moderately longer.
    pub answer_timeout: Duration,
    /// How often the chain is looked at, where nobody announces new blocks. Chains that are slow and
    /// regular are looked at less often: a few times for each block.
    pub poll_interval: Duration,
    /// How many calls go into one JSON-RPC batch.
    pub batch_limit: usize,
    /// Which of the tips paid lately counts as the usual one, in hundredths of the gas used: 50 is
    /// the middle, more is quicker and dearer. From 0 to 100.
    pub fee_percentile: f64,
    /// How many of the newest blocks a fee quote is made from.
    pub fee_blocks: u64,
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self {
            answer_timeout: Duration::from_secs(3),
            poll_interval: Duration::from_millis(500),
            batch_limit: 100,
            fee_percentile: 50.0,
            fee_blocks: 5,
        }
    }
}

/// All configured chains, each with its pool of endpoints.
#[derive(Debug, Default)]
pub struct Chains {
    pools: BTreeMap<ChainId, Arc<ChainPool>>,
}

impl Chains {
    /// Takes each chain's endpoint URLs. Connects only when first asked. A chain given without
    /// endpoints is as good as not given.
    pub fn new(
        chains: impl IntoIterator<Item = (ChainId, Vec<String>)>,
        options: PoolOptions,
    ) -> Result<Self, EndpointError> {
        Self::with_quorums(chains, &BTreeMap::new(), |_| options)
    }

    /// The same, with the number of endpoints that have to agree for the chains that have one of
    /// their own, and with each chain's own way of asking. Fails where that is more than there are endpoints.
    pub fn with_quorums(
        chains: impl IntoIterator<Item = (ChainId, Vec<String>)>,
        quorums: &BTreeMap<ChainId, usize>,
        options: impl Fn(ChainId) -> PoolOptions,
    ) -> Result<Self, EndpointError> {
        let mut urls_of: BTreeMap<ChainId, Vec<String>> = BTreeMap::new();
        for (chain, urls) in chains {
            urls_of.entry(chain).or_default().extend(urls);
        }
        let mut pools = BTreeMap::new();
        for (chain, urls) in urls_of {
            if !urls.is_empty() {
                let quorum = quorums.get(&chain).copied();
                pools.insert(chain, ChainPool::new(chain, &urls, quorum, options(chain))?);
            }
        }
        Ok(Self { pools })
    }

    /// A chain's pool; `None` without endpoints.
    pub fn get(&self, chain: ChainId) -> Option<&Arc<ChainPool>> {
        self.pools.get(&chain)
    }

    /// All pools, by chain id.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<ChainPool>> {
        self.pools.values()
    }
}

#[async_trait]
impl NonceSource for Chains {
    async fn transaction_count(&self, lane: Lane, at: BlockTag) -> Result<Nonce, ChainError> {
        let pool = self.get(lane.chain).ok_or(ChainError::NoEndpoint(lane.chain))?;
        pool.transaction_count(lane.signer, at).await
    }

    async fn counted(&self, lane: Lane) -> Result<Counted, ChainError> {
        let pool = self.get(lane.chain).ok_or(ChainError::NoEndpoint(lane.chain))?;
        pool.counted(lane.signer).await
    }
}
