//! The process itself and what it stands on: node, log, store, cluster.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::config::value::{ConnectionUrl, HumanDuration, Kept, SecretReference, choice};

/// `[node]`: who this process is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Node {
    /// The name people know this node by, `${NAME}` parts already filled in. `None`: to be made of
    /// the host name and the port listened on, which are not known yet here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

choice! {
    /// How much is logged; each level includes those before it.
    #[derive(Default)]
    pub enum LogLevel {
        /// What needs somebody's attention.
        Error = "error",
        /// What may soon need it.
        Warn = "warn",
        /// What happened, in broad strokes.
        #[default]
        Info = "info",
        /// What happened, step by step.
        Debug = "debug",
        /// Everything.
        Trace = "trace",
    }
}

choice! {
    /// How a line of the log is written.
    #[derive(Default)]
    pub enum LogFormat {
        /// For people.
        #[default]
        Text = "text",
        /// For machines: one JSON object per line.
        Json = "json",
    }
}

/// `[log]`: what is logged, and how.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// How much.
    pub level: LogLevel,
    /// In which form.
    pub format: LogFormat,
}

choice! {
    /// What stands between a node and PostgreSQL.
    #[derive(Default)]
    pub enum Pooler {
        /// Nothing, or a pooler that keeps a connection for each of the node's.
        #[default]
        None = "none",
        /// One that keeps it for a transaction only: PgBouncer in transaction mode.
        Transaction = "transaction",
    }
}

choice! {
    /// What is said about failovers of PostgreSQL.
    #[derive(Default)]
    pub enum Failover {
        /// Nothing: commits may be lost, and a person is asked about what waits.
        #[default]
        Ask = "ask",
        /// They go to a synchronous standby, which has every commit.
        Synchronous = "synchronous",
    }
}

/// `[store]`: the database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Store {
    /// The embedded store (`sqlite://`) or PostgreSQL.
    pub url: ConnectionUrl,
    /// PostgreSQL past a connection pooler, for `LISTEN`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direct_url: Option<ConnectionUrl>,
    /// The connection pooler in between.
    pub pooler: Pooler,
    /// The most connections to PostgreSQL this node opens.
    pub pool_size: usize,
    /// How long one statement may run.
    pub statement_timeout: HumanDuration,
    /// How long a statement may wait for a lock.
    pub lock_timeout: HumanDuration,
    /// What is said about failovers.
    pub failover: Failover,
    /// Whether the server brings the schema up to date when it starts.
    pub migrate: bool,
}

impl Default for Store {
    fn default() -> Self {
        Self {
            url: ConnectionUrl::from("sqlite://stile.db"),
            direct_url: None,
            pooler: Pooler::default(),
            pool_size: 20,
            statement_timeout: HumanDuration::from_secs(5),
            lock_timeout: HumanDuration::from_secs(3),
            failover: Failover::default(),
            migrate: true,
        }
    }
}

/// `[retention]`: how long what is over is kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Retention {
    /// Transactions that are done.
    pub finished: Kept,
    /// Holds that are over.
    pub holds: Kept,
}

choice! {
    /// What a node does with a request for a lane that another node holds.
    #[derive(Default)]
    pub enum NotHolder {
        /// Accepts it durably and leaves the rest to the holder.
        #[default]
        Accept = "accept",
        /// Passes it on to the holder.
        Forward = "forward",
        /// Refuses it and names the holder.
        Reject = "reject",
    }
}

/// `[cluster]`: how nodes work together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Cluster {
    /// The URL other nodes and callers reach this node by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advertise_url: Option<ConnectionUrl>,
    /// What to do with a request for a lane held elsewhere.
    pub not_holder: NotHolder,
    /// What nodes prove themselves to each other by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<SecretReference>,
    /// The certificates of the authorities that sign those of the nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// The certificate that this node shows to others, and its private key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<PathBuf>,
    /// Whether nodes may speak to each other without TLS beyond their own machine.
    pub trusted_network: bool,
    /// Whether lanes move to the node that they had best be on.
    pub move_lanes: bool,
}

impl Default for Cluster {
    fn default() -> Self {
        Self {
            advertise_url: None,
            not_holder: NotHolder::default(),
            secret: None,
            ca: None,
            identity: None,
            trusted_network: false,
            move_lanes: true,
        }
    }
}
