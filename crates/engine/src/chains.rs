//! The chains that this node follows, for people.

use std::time::Duration;

pub use stile_chain::{Capability, CapabilityRow, EndpointCapabilities, EndpointStatus};
use stile_domain::{ChainId, Heads, Quorum};

use crate::core::Core;
use crate::tx::track::Track;

/// How a chain is, as this node sees it. Nothing is asked for it.
#[derive(Debug, Clone)]
pub struct ChainStatus {
    /// The chain.
    pub chain: ChainId,
    /// How far it has come; `None` until it has been seen. `safe` and `finalized` are known while some
    /// transaction asks for them.
    pub heads: Option<Heads>,
    /// The time from one block to the next, as it was measured lately.
    pub block_time: Option<Duration>,
    /// How many endpoints have to agree.
    pub quorum: Quorum,
    /// Its endpoints, in the order of the configuration, and what each of them can do.
    pub endpoints: Vec<(EndpointStatus, EndpointCapabilities)>,
}

impl Core {
    /// All of them, by chain id.
    pub(crate) fn chains(&self) -> Vec<ChainStatus> {
        let mut chains: Vec<_> = self.tracks.iter().map(|track| status(track)).collect();
        chains.sort_by_key(|status| status.chain);
        chains
    }
}

fn status(track: &Track) -> ChainStatus {
    let pool = &track.pool;
    let endpoints = pool.endpoints().into_iter().zip(pool.capabilities());
    ChainStatus {
        chain: pool.chain(),
        heads: track.heads(),
        block_time: pool.block_time(),
        quorum: pool.quorum(),
        endpoints: endpoints.collect(),
    }
}
