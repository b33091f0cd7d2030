//! What a node is told about managed transactions, once, at start.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use stile_chain::{Chains, TxSigner};
use stile_domain::{Address, Finality};

/// How managed transactions are sent and followed.
#[derive(Debug, Clone, PartialEq)]
pub struct TxSettings {
    /// How many of a lane may have a nonce and not be in a block; the rest waits.
    pub max_in_flight: usize,
    /// The evidence waited for where a request names none.
    pub finality: Finality,
    /// The silence after which the stored bytes are sent again; `None` for never.
    pub resubmit_after: Option<Duration>,
    /// How often one transaction is sent at most; 0 for no limit.
    pub max_sends: u32,
    /// The silence after which a receipt is asked for by itself.
    pub stale_receipt: Duration,
    /// How many such questions run at one time.
    pub receipt_workers: usize,
    /// Whether the receipt is asked for right after the broadcast.
    pub receipt_upon_entry: bool,
    /// The depth from which a transaction is not reopened any more.
    pub reorg_window: u32,
}

impl Default for TxSettings {
    fn default() -> Self {
        Self {
            max_in_flight: 500,
            finality: Finality::Confirmations(20),
            resubmit_after: Some(Duration::from_secs(60)),
            max_sends: 0,
            stale_receipt: Duration::from_secs(60),
            receipt_workers: 10,
            receipt_upon_entry: false,
            reorg_window: 128,
        }
    }
}

/// What managed transactions need besides a store.
#[derive(Debug, Clone, Default)]
pub struct Managed {
    /// The chains they go to.
    pub chains: Arc<Chains>,
    /// Who signs for which account. Accounts without a signer have bare nonces only.
    pub signers: HashMap<Address, Arc<dyn TxSigner>>,
}
