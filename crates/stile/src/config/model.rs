//! The configuration as the rest of the program takes it.
//!
//! The defaults here and in the reference table are the same; a test compares them.

mod lists;
mod nonce;
mod registry;
mod server;
mod service;
mod transaction;

use serde::{Deserialize, Serialize};

pub use self::lists::{Chain, IntrinsicGas, Signer, SignerSource};
pub use self::nonce::{
    ChainQuery, ChainQueryMode, HeldExpiry, Lane, Lease, Nonce, NonceMode, OutsideUse,
    RejectPolicy, Underfunded,
};
pub use self::registry::{Invalidation, Redis, Registry};
pub use self::server::{Server, ServerLimits, ServerTls};
pub use self::service::{
    Cluster, Failover, Log, LogFormat, LogLevel, Node, NotHolder, Pooler, Retention, Store,
};
pub use self::transaction::{Confirmations, Finality, FinalityTag, Resubmit, Tx};

/// Everything that can be configured; a section of the file for each field.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Who this process is.
    pub node: Node,
    /// The HTTP server.
    pub server: Server,
    /// What is logged, and how.
    pub log: Log,
    /// The database.
    pub store: Store,
    /// How long what is over is kept.
    pub retention: Retention,
    /// The shared memory of a cluster.
    pub redis: Redis,
    /// The node registry.
    pub registry: Registry,
    /// How nonces are handed out.
    pub nonce: Nonce,
    /// What holds for each lane.
    pub lane: Lane,
    /// How nodes work together.
    pub cluster: Cluster,
    /// How managed transactions are sent.
    pub tx: Tx,
    /// When a transaction is called done.
    pub confirmations: Confirmations,
    /// The chains, `[[chain]]` in the file.
    #[serde(rename = "chain")]
    pub chains: Vec<Chain>,
    /// The signers, `[[signer]]` in the file.
    #[serde(rename = "signer")]
    pub signers: Vec<Signer>,
}
