//! Who signs on which lane.
//!
//! A key is for the chains that it was given for, and for no other: signers are kept by lane. Each lane
//! has one source of signatures, so that nobody has to know which of two would be asked.

use std::collections::HashMap;
use std::sync::Arc;

use stile_chain::{SignError, SignedTx, TxSigner};
use stile_domain::{ChainId, Lane};

use crate::tx::sign::Signable;

/// Who signs, by lane. Lanes without a signer have bare nonces only.
#[derive(Debug, Clone, Default)]
pub struct Signers {
    by_lane: HashMap<Lane, LaneSigner>,
}

/// A lane has a source of signatures already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{} on chain {} has two sources of signatures", lane.signer, lane.chain)]
pub struct SecondSource {
    /// The lane.
    pub lane: Lane,
}

impl Signers {
    /// Nobody signs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Signs for its account on this chain, and says which lane that is. An error if somebody does so
    /// already: nothing is changed then.
    pub fn add(&mut self, chain: ChainId, signer: Arc<dyn TxSigner>) -> Result<Lane, SecondSource> {
        let lane = Lane::new(chain, signer.address());
        if self.signs(lane) {
            return Err(SecondSource { lane });
        }
        self.by_lane.insert(lane, LaneSigner { lane, signer });
        Ok(lane)
    }

    /// Whether somebody signs on a lane.
    pub fn signs(&self, lane: Lane) -> bool {
        self.by_lane.contains_key(&lane)
    }

    /// The lanes on which somebody signs.
    pub fn lanes(&self) -> impl Iterator<Item = Lane> + '_ {
        self.by_lane.keys().copied()
    }

    /// Whether nobody signs at all.
    pub fn is_empty(&self) -> bool {
        self.by_lane.is_empty()
    }

    pub(crate) fn get(&self, lane: Lane) -> Option<&LaneSigner> {
        self.by_lane.get(&lane)
    }
}

/// Signs on one lane. Its key is reached by no other way than [`Signable`].
#[derive(Debug, Clone)]
pub(crate) struct LaneSigner {
    lane: Lane,
    signer: Arc<dyn TxSigner>,
}

impl LaneSigner {
    pub(crate) fn lane(&self) -> Lane {
        self.lane
    }

    /// Whether signing is a quick computation in this process.
    pub(crate) fn is_local(&self) -> bool {
        self.signer.is_local()
    }

    /// Whether signing can be done at once, by [`Self::sign_now`].
    pub(crate) fn computes(&self) -> bool {
        self.signer.as_local().is_some()
    }

    /// Signs what is for this lane's chain.
    pub(crate) async fn sign(&self, tx: &Signable) -> Result<SignedTx, SignError> {
        match self.sign_now(tx) {
            Some(signed) => signed,
            None => self.signer.sign(tx.unsigned()).await,
        }
    }

    /// The same by computation; `None` if the key is somewhere else.
    pub(crate) fn sign_now(&self, tx: &Signable) -> Option<Result<SignedTx, SignError>> {
        if tx.unsigned().chain != self.lane.chain {
            let why = format!("the key is for chain {} only", self.lane.chain);
            return Some(Err(SignError::Refused(why)));
        }
        self.signer.as_local().map(|local| local.sign_now(tx.unsigned()))
    }
}

#[cfg(test)]
mod tests {
    use stile_chain::{LocalSigner, UnsignedTx};
    use stile_domain::{Bytes, Ceiling, Fees, U256};

    use super::*;

    const KEY: &str = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";

    fn chain(id: u64) -> ChainId {
        ChainId::new(id).unwrap()
    }

    fn key() -> Arc<dyn TxSigner> {
        Arc::new(LocalSigner::from_key(KEY).unwrap())
    }

    #[test]
    fn hole_41_a_lane_has_one_source_of_signatures() {
        let mut signers = Signers::new();
        let lane = signers.add(chain(1), key()).unwrap();
        assert_eq!(signers.add(chain(1), key()), Err(SecondSource { lane }));
        signers.add(chain(5), key()).unwrap();
        let mut chains: Vec<u64> = signers.lanes().map(|lane| lane.chain.get()).collect();
        chains.sort_unstable();
        assert_eq!(chains, [1, 5]);
    }

    #[tokio::test]
    async fn hole_41_a_key_signs_on_the_chains_that_it_was_given_for() {
        let mut signers = Signers::new();
        let lane = signers.add(chain(1), key()).unwrap();
        assert!(signers.get(Lane::new(chain(5), lane.signer)).is_none());
        let signer = signers.get(lane).unwrap();
        let fees = Fees::Legacy { gas_price: 1 };
        let tx = |id| {
            let (nonce, value, gas_limit) = (0, U256::from(1), 21_000);
            let (to, data) = (Some(lane.signer), Bytes::new());
            let tx = UnsignedTx { chain: chain(id), nonce, to, value, data, gas_limit, fees };
            Signable::new(tx, Ceiling::new(Some(1), None).cut(fees))
        };
        assert!(signer.sign(&tx(1)).await.is_ok());
        let refused = signer.sign(&tx(5)).await;
        let only = SignError::Refused("the key is for chain 1 only".to_owned());
        assert_eq!(refused, Err(only));
    }
}
