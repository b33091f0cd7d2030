//! What a node is told once, at start.

use std::collections::HashSet;
use std::time::Duration;

use stile_chain::BlockTag;
use stile_domain::{Failover, HeldExpiry, Lane, LeaseTerms, NodeId};

use crate::tx::settings::TxSettings;

/// How a node works its lanes. See the configuration reference for what each part does.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The node's name, for people.
    pub node: NodeId,
    /// Where others reach it.
    pub url: Option<String>,
    /// How long leases last and how often they are renewed.
    pub lease: LeaseTerms,
    /// How calls reach a lane.
    pub mode: Mode,
    /// How long a caller has its nonce to itself.
    pub hold_timeout: Duration,
    /// What becomes of a hold when that time is over.
    pub held_expiry: HeldExpiry,
    /// Whether and how the chain is asked.
    pub chain_query: ChainQuery,
    /// How often lanes with unsettled holds are compared with the chain.
    pub state_timeout: Duration,
    /// The lanes whose keys Stile has.
    pub signs_for: HashSet<Lane>,
    /// How long a caller waits for the store at most. What it asked for is carried through all the
    /// same; asking again under the same key tells.
    pub patience: Duration,
    /// How long a shutdown may take to finish what is queued.
    pub shutdown_grace: Duration,
    /// How managed transactions are sent and followed.
    pub tx: TxSettings,
    /// What the operator says about failovers of the database.
    pub failover: Failover,
    /// How long what is over is kept.
    pub retention: Retention,
    /// What this node serves, see [`stile_domain::serves`]: lanes move between nodes of one text.
    pub serves: String,
    /// Whether lanes move to the node that they had best be on, in worker-queue mode.
    pub moves_lanes: bool,
}

/// How long what is over is kept; `None` for ever.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retention {
    /// Transactions that are done and that no reorganisation can reopen, with their attempts and
    /// their history. A request id is remembered for as long as its transaction.
    pub finished: Option<Duration>,
    /// Holds whose nonce the chain shows used, and holds whose nonce was given back and went to
    /// somebody else, each with its idempotency key.
    pub holds: Option<Duration>,
}

/// How calls reach a lane. Callers see no difference but speed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Each call is its own transaction. Fewest parts.
    Basic,
    /// Calls queue per lane and whatever waits is committed together.
    WorkerQueue(QueueSettings),
}

/// The workers of worker-queue mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueSettings {
    /// How many there are.
    pub workers: usize,
    /// How many calls may wait for each.
    pub capacity: usize,
    /// What happens to a call that finds the queue full.
    pub reject: RejectPolicy,
}

/// What happens to a call that finds the queue full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RejectPolicy {
    /// It is refused at once.
    FailFast,
    /// It waits for room, this long at most.
    CallerWaits(Duration),
}

/// Whether and how the chain is asked about nonces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChainQuery {
    /// Not at all: lanes start at 0 and only callers and operators settle silent holds.
    Disabled,
    /// A new lane starts at the count at this tag. Evidence is always read at `latest`.
    Enabled(BlockTag),
}

impl Settings {
    /// Sound values for a node of this name; change what you need.
    pub fn new(node: impl Into<String>) -> Self {
        Self {
            node: NodeId(node.into()),
            url: None,
            lease: LeaseTerms {
                duration: Duration::from_secs(10),
                renew_interval: Duration::from_secs(3),
            },
            mode: Mode::WorkerQueue(QueueSettings {
                workers: 16,
                capacity: 1024,
                reject: RejectPolicy::FailFast,
            }),
            hold_timeout: Duration::from_secs(60),
            held_expiry: HeldExpiry::Suspect,
            chain_query: ChainQuery::Disabled,
            state_timeout: Duration::from_secs(30),
            signs_for: HashSet::new(),
            patience: Duration::from_secs(12),
            shutdown_grace: Duration::from_secs(20),
            tx: TxSettings::default(),
            failover: Failover::default(),
            retention: Retention::default(),
            serves: String::new(),
            moves_lanes: true,
        }
    }

    /// How often holds are looked through: often enough that one is noticed soon after it ran out.
    pub(crate) fn sweep_interval(&self) -> Duration {
        (self.hold_timeout / 4).clamp(Duration::from_millis(200), Duration::from_secs(5))
    }
}
