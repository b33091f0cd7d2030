//! How nonces are handed out, and what holds for each lane.

use serde::{Deserialize, Serialize};

use crate::config::value::{HumanDuration, choice};

choice! {
    /// How a call for a nonce reaches the store.
    #[derive(Default)]
    pub enum NonceMode {
        /// Each call by itself.
        Basic = "basic",
        /// Through workers that batch what is waiting.
        #[default]
        WorkerQueue = "worker-queue",
    }
}

choice! {
    /// What happens to a call when the queue of its worker is full.
    #[derive(Default)]
    pub enum RejectPolicy {
        /// It is refused at once.
        #[default]
        FailFast = "fail-fast",
        /// It waits for room, up to `caller_wait`.
        CallerWaits = "caller-waits",
    }
}

choice! {
    /// What becomes of a hold whose time is up.
    #[derive(Default)]
    pub enum HeldExpiry {
        /// Its nonce is kept back until the chain, the caller or an operator settles it.
        #[default]
        Suspect = "suspect",
        /// Its nonce is given out again. Safe only where no caller ever sends late.
        Reclaim = "reclaim",
    }
}

/// `[nonce]`: how nonces are handed out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Nonce {
    /// How a call reaches the store.
    pub mode: NonceMode,
    /// The number of workers in worker-queue mode.
    pub worker_count: usize,
    /// The most calls that wait for one worker.
    pub worker_queue_capacity: usize,
    /// What happens to a call when that queue is full.
    pub reject_policy: RejectPolicy,
    /// How often the cursor of a lane is compared with the chain.
    pub state_timeout: HumanDuration,
    /// How long a hold lasts before it expires.
    pub hold_timeout: HumanDuration,
    /// The longest a call waits for room in a full queue.
    pub caller_wait: HumanDuration,
    /// What becomes of a hold that expired.
    pub held_expiry: HeldExpiry,
    /// The lease on a lane.
    pub lease: Lease,
    /// Asking the chain for a signer's nonce.
    pub chain_query: ChainQuery,
}

impl Default for Nonce {
    fn default() -> Self {
        Self {
            mode: NonceMode::default(),
            worker_count: 16,
            worker_queue_capacity: 1024,
            reject_policy: RejectPolicy::default(),
            state_timeout: HumanDuration::from_secs(30),
            hold_timeout: HumanDuration::from_secs(60),
            caller_wait: HumanDuration::from_secs(1),
            held_expiry: HeldExpiry::default(),
            lease: Lease::default(),
            chain_query: ChainQuery::default(),
        }
    }
}

/// `[nonce.lease]`: the right of a node to advance a lane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Lease {
    /// How long it lasts unless renewed.
    pub duration: HumanDuration,
    /// How often it is renewed in the background; below half of the duration.
    pub renew_interval: HumanDuration,
}

impl Default for Lease {
    fn default() -> Self {
        Self { duration: HumanDuration::from_secs(10), renew_interval: HumanDuration::from_secs(3) }
    }
}

choice! {
    /// Which of the chain's two counts a new lane starts at.
    #[derive(Default)]
    pub enum ChainQueryMode {
        /// What is in a block.
        #[default]
        Latest = "latest",
        /// That, and what waits in the pool of the chain node.
        Pending = "pending",
    }
}

/// `[nonce.chain_query]`: asking the chain for a signer's nonce.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ChainQuery {
    /// Whether the chain is asked at all.
    pub enabled: bool,
    /// Which count is taken.
    pub mode: ChainQueryMode,
}

impl Default for ChainQuery {
    fn default() -> Self {
        Self { enabled: true, mode: ChainQueryMode::default() }
    }
}

choice! {
    /// What happens when the chain shows a nonce used that Stile did not hand out.
    #[derive(Default)]
    pub enum OutsideUse {
        /// The lane is paused until an operator resumes it.
        #[default]
        Pause = "pause",
        /// The cursor moves on to where the chain is.
        Follow = "follow",
    }
}

choice! {
    /// What becomes of a request that its account cannot pay for.
    #[derive(Default)]
    pub enum Underfunded {
        /// It is refused.
        #[default]
        Refuse = "refuse",
        /// It is taken, and waits for money.
        Wait = "wait",
    }
}

/// `[lane]`: what holds for each lane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Lane {
    /// The most managed transactions of a lane that are bound and not yet in a block.
    pub max_in_flight: usize,
    /// What happens when somebody else uses the signer.
    pub outside_use: OutsideUse,
    /// What becomes of a request that its account cannot pay for, with what is open on the lane.
    pub underfunded: Underfunded,
    /// How long a request waits at most for what the endpoints say of it.
    pub check_timeout: HumanDuration,
}

impl Default for Lane {
    fn default() -> Self {
        Self {
            max_in_flight: 500,
            outside_use: OutsideUse::default(),
            underfunded: Underfunded::default(),
            check_timeout: HumanDuration::from_secs(1),
        }
    }
}
