//! Where the truth is kept: Redis, or this process.

pub(crate) mod local;
pub(crate) mod redis;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

use crate::error::BackendError;
use crate::report::Usage;
use crate::{
    Capacity, Config, ConfigName, Heartbeat, JobId, Node, NodeId, PoolId, Registration, Version,
};

/// A node as it was read or written just now.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    pub(crate) node: Arc<Node>,
    /// How long it lives without another heartbeat.
    pub(crate) remaining: Duration,
    pub(crate) capacity: Capacity,
    /// Rises with every change of the capacity record.
    pub(crate) tick: u64,
}

/// What there is of a node.
#[derive(Debug, Clone)]
pub(crate) enum Found {
    Live(Box<Record>),
    /// It was silent for too long.
    Expired(Version),
    Removed(Version),
    /// Nothing is known of it. If it lived a moment ago, Redis has lost it.
    Absent,
}

/// What a heartbeat says that says nothing new.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Life {
    /// How long the node lives without another one.
    pub(crate) remaining: Duration,
    /// When it was last heard of.
    pub(crate) at_ms: u64,
    pub(crate) usage: Usage,
}

/// What is known of a node's version, of the life of the start that was asked for, and of its slots.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Seen {
    At { version: Version, life: Option<Life>, capacity: Capacity, tick: u64 },
    Removed(Version),
    Absent,
}

/// What became of a node's word.
#[derive(Debug, Clone)]
pub(crate) enum Wrote {
    Done(Box<Record>),
    /// Of the version that its caller knows, and lives on for so long.
    Prolonged(Arc<Node>, Duration),
    Unknown,
    Removed(Version),
    Stale(Version),
}

/// What became of a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Removal {
    Done(Version),
    Unknown,
    Stale(Version),
}

/// What a scheduler knows of the node it wants a slot of. A store that knows less has lost something,
/// perhaps slots, and gives out none.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Known {
    pub(crate) version: Version,
    pub(crate) tick: u64,
}

/// How a slot is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slot {
    /// Promised, to be confirmed.
    Reserved,
    /// Running from the start.
    Running,
}

/// What became of a wish for a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reserve {
    Taken {
        capacity: Capacity,
        tick: u64,
        expires_at_ms: u64,
    },
    Full {
        capacity: Capacity,
        tick: u64,
    },
    /// There is no such node (any more), or it wants no work.
    Gone,
    /// What was reserved before may have been lost: nothing is given out until all of it has run
    /// out.
    Recovering,
}

/// Why a configuration was not written.
#[derive(Debug, Clone)]
pub(crate) enum Swap {
    Done(Config),
    Conflict(u64),
}

/// Something that other instances have changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum News {
    Node(NodeId),
    Config(ConfigName),
}

/// Keeps the truth. Every call is one round trip, or one per hash slot side by side.
#[async_trait]
pub(crate) trait Backend: Send + Sync + std::fmt::Debug {
    /// `floor` is the latest version that this instance has seen: no write goes below it.
    async fn register(
        &self,
        registration: &Registration,
        floor: Version,
    ) -> Result<Wrote, BackendError>;

    /// `known` is the node at that version, if it is remembered: then nothing that it knows has to be
    /// written or sent back.
    async fn heartbeat(
        &self,
        id: &NodeId,
        heartbeat: &Heartbeat,
        floor: Version,
        known: Option<&Node>,
    ) -> Result<Wrote, BackendError>;

    /// `incarnation`: only this start or an earlier one.
    async fn remove(&self, id: &NodeId, incarnation: Option<u64>) -> Result<Removal, BackendError>;

    async fn nodes(&self, ids: &[NodeId]) -> Result<Vec<Found>, BackendError>;

    /// Of each node its version, and whether this incarnation of it lives.
    async fn versions(
        &self,
        starts: &[(NodeId, u64)],
        limit: Duration,
    ) -> Result<Vec<Seen>, BackendError>;

    /// The living in a pool, or of all.
    async fn members(&self, pool: Option<&PoolId>) -> Result<Vec<NodeId>, BackendError>;

    async fn capacity(&self, id: &NodeId) -> Result<Option<Capacity>, BackendError>;

    async fn reserve(&self, job: &JobId, slot: Slot, known: Known)
    -> Result<Reserve, BackendError>;

    /// When the slot now runs out; `None` if the job has none.
    async fn confirm(&self, job: &JobId) -> Result<Option<u64>, BackendError>;

    /// Whether the job had a slot.
    async fn release(&self, job: &JobId) -> Result<bool, BackendError>;

    /// The pool of a session: the one it has, or this one from now on. With `anew` this one whatever
    /// it had.
    async fn session_pool(
        &self,
        session: &str,
        pool: Option<&PoolId>,
        anew: bool,
    ) -> Result<Option<PoolId>, BackendError>;

    async fn config(&self, name: &ConfigName) -> Result<Option<Config>, BackendError>;

    async fn swap_config(
        &self,
        name: &ConfigName,
        expected: u64,
        value: &Value,
        floor: u64,
    ) -> Result<Swap, BackendError>;

    async fn ping(&self) -> Result<(), BackendError>;
}
