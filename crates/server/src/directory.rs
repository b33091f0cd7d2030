//! Which lanes this server serves.

use std::collections::{BTreeSet, HashSet};

use stile_domain::{Address, ChainId, Lane};

use crate::access::Access;
use crate::code::Code;
use crate::problem::Problem;

/// The largest number up to which JavaScript knows every whole one.
const MAX_SAFE_NUMBER: u64 = (1 << 53) - 1;

/// The configured chains and signers. Everything else is unknown here, so a typing error in an
/// address cannot start a lane.
#[derive(Debug, Clone)]
pub struct Directory {
    lanes: BTreeSet<Lane>,
    only_chain: Option<ChainId>,
}

impl Directory {
    /// These lanes and no others.
    pub fn new(lanes: impl IntoIterator<Item = Lane>) -> Self {
        let lanes: BTreeSet<Lane> = lanes.into_iter().collect();
        let chains: HashSet<ChainId> = lanes.iter().map(|lane| lane.chain).collect();
        let only_chain = if chains.len() == 1 { chains.into_iter().next() } else { None };
        Self { lanes, only_chain }
    }

    /// The lane of a signer. The chain may be left out while there is one. A signer that the caller
    /// may not see is as unknown as one that is not served.
    pub(crate) fn lane(
        &self,
        access: &Access,
        chain: Option<ChainId>,
        signer: Address,
    ) -> Result<Lane, Problem> {
        let chain = chain.or(self.only_chain).ok_or_else(|| {
            Problem::new(
                Code::ChainRequired,
                "chainId must be given: more than one chain is served",
            )
        })?;
        let lane = Lane::new(chain, signer);
        if self.shows(access, lane) { Ok(lane) } else { Err(self.unknown(Some(chain), signer)) }
    }

    /// What a caller is told whose signer is not served.
    pub(crate) fn unknown(&self, chain: Option<ChainId>, signer: Address) -> Problem {
        let rounded = match chain {
            Some(chain) if chain.get() > MAX_SAFE_NUMBER => format!(
                ". JavaScript rounds numbers above {MAX_SAFE_NUMBER}: give chainId as a text (\"chainId\": \"{chain}\")"
            ),
            _ => String::new(),
        };
        let chain = chain.map(|chain| format!(" on chain {chain}")).unwrap_or_default();
        let words = format!("signer {signer}{chain} is not served here{rounded}");
        Problem::new(Code::UnknownSigner, words)
    }

    /// Whether a lane is served, and the caller may know.
    pub(crate) fn shows(&self, access: &Access, lane: Lane) -> bool {
        self.lanes.contains(&lane) && access.sees(lane.signer)
    }

    /// The lanes of a chain, of a signer, of both, or all, as far as the caller may see them.
    pub(crate) fn matching<'a>(
        &'a self,
        access: &'a Access,
        chain: Option<ChainId>,
        signer: Option<Address>,
    ) -> impl Iterator<Item = Lane> + 'a {
        self.lanes.iter().copied().filter(move |lane| {
            access.sees(lane.signer)
                && chain.is_none_or(|chain| lane.chain == chain)
                && signer.is_none_or(|signer| lane.signer == signer)
        })
    }

    /// The lanes that the caller may see, in order, after a given one.
    pub(crate) fn after<'a>(
        &'a self,
        access: &'a Access,
        cursor: Option<Lane>,
    ) -> impl Iterator<Item = Lane> + 'a {
        let start = cursor.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        let after = self.lanes.range((start, std::ops::Bound::Unbounded)).copied();
        after.filter(|lane| access.sees(lane.signer))
    }
}
