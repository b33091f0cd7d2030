//! What a node is told about managed transactions, once, at start.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use stile_chain::Chains;
use stile_domain::{ChainId, EstimatePolicy, FeePolicy, Finality, Market};

use crate::cluster::in_registry::NodeRegistry;
use crate::cluster::membership::Membership;
use crate::cluster::shares::CallLimits;
use crate::signers::Signers;

/// How managed transactions are sent and followed.
#[derive(Debug, Clone)]
pub struct TxSettings {
    /// How many of a lane may have a nonce and not be in a block; the rest waits.
    pub max_in_flight: usize,
    /// The evidence waited for where a request names none.
    pub finality: Finality,
    /// The silence after which the stored bytes are sent again; `None` for never.
    pub resubmit_after: Option<Duration>,
    /// How often the gas of a transaction is estimated before it is refused.
    pub estimate: EstimatePolicy,
    /// How often one transaction is sent at most; 0 for no limit.
    pub max_sends: u32,
    /// The silence after which an attempt is made that offers more; `None` for never.
    pub bump_after: Option<Duration>,
    /// How fees are chosen.
    pub fees: Arc<dyn FeePolicy>,
    /// The most that any attempt may offer for a unit of gas, in wei, by chain. On chains that are not
    /// named it is ten times what the chain asks for, see [`stile_domain::Ceiling`].
    pub fee_limits: HashMap<ChainId, u128>,
    /// Chains that count gas by rules of their own. On the others a gas limit below what Ethereum asks for
    /// before anything is run is refused.
    pub own_gas_rules: HashSet<ChainId>,
    /// What becomes of a request that its account cannot pay for.
    pub underfunded: Underfunded,
    /// How long a request waits at most for what the endpoints say of it: what its account has, what
    /// blocks have room for, what the chain asks for. It is taken without their word then.
    pub check_within: Duration,
    /// What is done when somebody else uses a lane's nonces.
    pub outside_use: OutsideUse,
    /// The silence after which a receipt is asked for by itself.
    pub stale_receipt: Duration,
    /// How many such questions run at one time.
    pub receipt_workers: usize,
    /// Whether the receipt is asked for right after the broadcast.
    pub receipt_upon_entry: bool,
    /// The depth from which a transaction is not reopened any more.
    pub reorg_window: u32,
    /// How many transactions that the chain has lost one resumption of a lane sends again.
    pub resent_at_once: usize,
}

/// What [`TxSettings::resent_at_once`] is usually: no burst that endpoints would not take, nor more than
/// a node has in memory without effort.
pub const RESENT_AT_ONCE: usize = 10_000;

impl Default for TxSettings {
    fn default() -> Self {
        Self {
            max_in_flight: 500,
            finality: Finality::Confirmations(20),
            resubmit_after: Some(Duration::from_secs(60)),
            estimate: EstimatePolicy::default(),
            max_sends: 0,
            bump_after: Some(Duration::from_secs(120)),
            fees: Arc::new(Market::default()),
            fee_limits: HashMap::new(),
            own_gas_rules: HashSet::new(),
            underfunded: Underfunded::Refuse,
            check_within: Duration::from_secs(1),
            outside_use: OutsideUse::Pause,
            stale_receipt: Duration::from_secs(60),
            receipt_workers: 10,
            receipt_upon_entry: false,
            reorg_window: 128,
            resent_at_once: RESENT_AT_ONCE,
        }
    }
}

impl TxSettings {
    /// The limit that is set for a chain.
    pub(crate) fn fee_limit(&self, chain: ChainId) -> Option<u128> {
        self.fee_limits.get(&chain).copied()
    }
}

/// What becomes of a request that its account cannot pay for, together with what is open on its lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Underfunded {
    /// It is refused.
    Refuse,
    /// It is taken, and waits until there is money.
    Wait,
}

/// What is done when somebody else uses a lane's nonces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutsideUse {
    /// The lane is paused until a person has looked at it.
    Pause,
    /// The lane's cursor follows the chain.
    Follow,
}

/// What a node that sends transactions needs besides a store.
#[derive(Debug, Clone, Default)]
pub struct Managed {
    /// The chains they go to.
    pub chains: Arc<Chains>,
    /// Who signs on which lane.
    pub signers: Signers,
    /// Where this node is told of; where other nodes are learned from, if it is shared. `None` for the
    /// store alone.
    pub registry: Option<NodeRegistry>,
    /// How many calls may be under way at the chains' endpoints.
    pub calls: CallLimits,
    /// Where other nodes are learned from, whatever else there is.
    pub membership: Option<Arc<dyn Membership>>,
}
