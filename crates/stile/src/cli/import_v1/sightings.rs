//! What the endpoints know of the transactions that V1 names.

use std::collections::{HashMap, HashSet};

use stile_chain::{ChainError, ChainPool, ReceiptAnswer};
use stile_domain::v1::import::Sighting;
use stile_domain::v1::{V1Lane, V1Status};
use stile_domain::{B256, Nonce};

use crate::cli::Failure;

/// What is known so far. Most is learned before V1 is stopped, so that it stands still for as short a
/// time as can be.
#[derive(Debug, Default)]
pub(super) struct Sightings {
    mined: HashSet<B256>,
    pooled: HashMap<B256, bool>,
}

impl Sightings {
    /// Asks for the receipts of all transactions that are not known to be mined, and of those that cannot
    /// be, at or above the chain's count, whether any endpoint has them.
    pub(super) async fn look(
        &mut self,
        pool: &ChainPool,
        v1: &V1Lane,
        latest: Nonce,
    ) -> Result<(), Failure> {
        let named = || {
            let used = v1.nonces.iter().filter(|row| row.status == V1Status::Used);
            used.filter_map(|row| Some((row.nonce, row.tx_hash?)))
        };
        let unseen: Vec<B256> =
            named().map(|(_, hash)| hash).filter(|hash| !self.mined.contains(hash)).collect();
        let receipts = pool.receipts(&unseen).await?;
        if receipts.contains(&ReceiptAnswer::Unreadable) {
            let said = vec!["a receipt that was answered cannot be read".to_owned()];
            return Err(ChainError::Unreachable { chain: pool.chain(), said }.into());
        }
        let found = unseen.iter().zip(receipts);
        let found = found.filter(|(_, answer)| matches!(answer, ReceiptAnswer::Found(_)));
        self.mined.extend(found.map(|(hash, _)| *hash));
        let open: Vec<B256> = named()
            .filter(|(nonce, hash)| *nonce >= latest && !self.mined.contains(hash))
            .map(|(_, hash)| hash)
            .collect();
        if !open.is_empty() {
            let known = pool.known(&open).await?;
            self.pooled.extend(open.into_iter().zip(known));
        }
        Ok(())
    }

    pub(super) fn of(&self, hash: &B256) -> Sighting {
        if self.mined.contains(hash) {
            Sighting::Mined
        } else if self.pooled.get(hash).copied().unwrap_or(false) {
            Sighting::Pooled
        } else {
            Sighting::Unknown
        }
    }
}
