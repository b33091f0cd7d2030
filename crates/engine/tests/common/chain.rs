//! A chain that hangs, fails and counts its questions.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;

use async_trait::async_trait;
use stile_chain::{BlockTag, ChainError, Chains, NonceSource, PoolOptions};
use stile_domain::{Address, ChainId, Lane, Nonce, parse_address};
use testkit::Anvil;
use tokio::sync::watch;

/// Stands for a chain, or in front of a real one.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    /// Who is asked in the end; without one, the counts below.
    real: Option<Chains>,
    counts: Mutex<HashMap<Lane, Nonce>>,
    failing: Mutex<HashSet<Lane>>,
    hanging: watch::Sender<HashSet<Lane>>,
    asked: Mutex<HashMap<Lane, u64>>,
    answered: Mutex<HashMap<Lane, u64>>,
}

impl Chain {
    /// In front of anvil.
    pub(crate) fn of(anvil: &Anvil) -> Self {
        let chain = ChainId::new(31337).expect("in range");
        let real = Chains::new([(chain, vec![anvil.url().to_owned()])], PoolOptions::default());
        Self { real: Some(real.expect("a URL")), ..Self::default() }
    }

    /// The lane's transaction count from now on; 0 if never set.
    pub(crate) fn set(&self, lane: Lane, count: Nonce) {
        self.counts.lock().unwrap().insert(lane, count);
    }

    /// Questions about this lane get no answer until [`Chain::answer`].
    pub(crate) fn hang(&self, lane: Lane) {
        self.hanging.send_modify(|hanging| {
            hanging.insert(lane);
        });
    }

    /// Answers what hangs.
    pub(crate) fn answer(&self, lane: Lane) {
        self.hanging.send_modify(|hanging| {
            hanging.remove(&lane);
        });
    }

    /// Questions about this lane fail, or no longer do.
    pub(crate) fn fail(&self, lane: Lane, fails: bool) {
        let mut failing = self.failing.lock().unwrap();
        if fails {
            failing.insert(lane)
        } else {
            failing.remove(&lane)
        };
    }

    /// How many questions about this lane have come.
    pub(crate) fn asked(&self, lane: Lane) -> u64 {
        self.asked.lock().unwrap().get(&lane).copied().unwrap_or(0)
    }

    /// How many of them were answered with a count.
    pub(crate) fn answered(&self, lane: Lane) -> u64 {
        self.answered.lock().unwrap().get(&lane).copied().unwrap_or(0)
    }
}

#[async_trait]
impl NonceSource for Chain {
    async fn transaction_count(&self, lane: Lane, at: BlockTag) -> Result<Nonce, ChainError> {
        *self.asked.lock().unwrap().entry(lane).or_default() += 1;
        let mut hanging = self.hanging.subscribe();
        hanging.wait_for(|hanging| !hanging.contains(&lane)).await.expect("the sender is in self");
        if self.failing.lock().unwrap().contains(&lane) {
            let said = vec!["told to fail".to_owned()];
            return Err(ChainError::Unreachable { chain: lane.chain, said });
        }
        let count = match &self.real {
            Some(real) => real.transaction_count(lane, at).await?,
            None => self.counts.lock().unwrap().get(&lane).copied().unwrap_or(0),
        };
        *self.answered.lock().unwrap().entry(lane).or_default() += 1;
        Ok(count)
    }
}

/// The lane of an unlocked account of anvil's.
pub(crate) fn lane_of(account: &str) -> Lane {
    let signer: Address = parse_address(account).expect("an address");
    Lane::new(ChainId::new(31337).expect("in range"), signer)
}
