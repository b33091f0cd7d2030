//! A node inside another program.
//!
//! | file | what is in it |
//! |---|---|
//! | `facade` | the running node: nonces, transactions, waiting, stopping |
//! | `builder` | how it is to run, checked before anything is touched |

mod builder;

use std::net::SocketAddr;
use std::sync::Arc;

use stile_chain::EndpointError;
use stile_domain::{Lane, TxId};
use stile_engine::{Fallen, LaneCare, Node, NonceComponent, Router, Transactions};
use stile_server::ListenError;
use stile_store::{StoreError, Tx};

pub use self::builder::StileBuilder;
use crate::cli::run::Running;

/// Why a node did not start, or a call to it failed.
#[derive(Debug, thiserror::Error)]
pub enum StileError {
    /// What the builder was told makes no sense; every problem that was found. Nothing was touched.
    #[error("this node cannot start: {}", .0.join("; "))]
    Builder(Vec<String>),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A chain's endpoint cannot be used.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The HTTP server cannot listen.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// There is no transaction of that name: it never was, or was removed since.
    #[error("there is no transaction {0}")]
    NoTransaction(TxId),
    /// Anything else.
    #[error(transparent)]
    Other(Box<dyn std::error::Error + Send + Sync>),
}

impl StileError {
    /// Finds out what it was that went wrong.
    fn of(error: Box<dyn std::error::Error + Send + Sync>) -> Self {
        match error.downcast::<StoreError>() {
            Ok(error) => Self::Store(*error),
            Err(error) => match error.downcast::<ListenError>() {
                Ok(error) => Self::Listen(*error),
                Err(error) => Self::Other(error),
            },
        }
    }
}

/// A running node. Dropping it leaves its leases to run out; [`Self::shutdown`] gives them back.
pub struct Stile {
    node: Arc<Node>,
    served: Option<Running>,
    lanes: Vec<Lane>,
}

impl std::fmt::Debug for Stile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stile").field("lanes", &self.lanes).finish_non_exhaustive()
    }
}

impl Stile {
    /// A node on this store: `sqlite://file.db`, or `postgres://user@host/database` to share the
    /// work with other nodes. What is not said has the configuration reference's default.
    pub fn builder(store_url: impl Into<String>) -> StileBuilder {
        StileBuilder::new(store_url.into())
    }

    /// The nonces, for programs that sign and send by themselves.
    pub fn nonces(&self) -> &NonceComponent {
        self.node.nonces()
    }

    /// The transactions that this node signs and sends itself.
    pub fn transactions(&self) -> &Transactions {
        self.node.transactions()
    }

    /// Why lanes do not move, and mending them.
    pub fn care(&self) -> &LaneCare {
        self.node.lanes()
    }

    /// Where lanes are: the node that holds each, and the one that it had best be on.
    pub fn router(&self) -> &Router {
        self.node.router()
    }

    /// The lanes that this node signs and sends for: each signer on each chain, by chain and
    /// address.
    pub fn lanes(&self) -> &[Lane] {
        &self.lanes
    }

    /// Waits until a transaction is done, `CONFIRMED` or `FAILED`, and returns it. Its receipt is
    /// in it. A database or a chain that is away is waited for.
    ///
    /// # Errors
    ///
    /// [`StileError::NoTransaction`] if there is none of that name.
    pub async fn wait(&self, id: TxId) -> Result<Tx, StileError> {
        self.transactions().wait(id).await?.ok_or(StileError::NoTransaction(id))
    }

    /// Where the HTTP server listens, with the port that the system chose if that was left to it;
    /// `None` without [`StileBuilder::listen`].
    pub fn address(&self) -> Option<SocketAddr> {
        self.served.as_ref().map(|served| served.server.address())
    }

    /// Whether the database answers.
    pub async fn ready(&self) -> Result<(), StileError> {
        Ok(self.node.ready().await?)
    }

    /// Waits until a task of the node has panicked, which should never be. The node has stopped then, and
    /// takes no more calls: shut it down, and start another one. What it held is read from the store again,
    /// so nothing is lost.
    pub async fn falls(&self) -> Fallen {
        match &self.served {
            Some(served) => served.falls().await,
            None => self.node.fall().happens().await,
        }
    }

    /// Takes no more calls, finishes what is under way, and gives the leases back.
    pub async fn shutdown(self) {
        match self.served {
            // What has panicked is logged, and was to be seen by `falls`.
            Some(served) => drop(served.stop().await),
            None => drop(self.node.shutdown().await),
        }
    }
}
