//! A node inside another program.

use std::collections::HashMap;
use std::sync::Arc;

use stile_chain::{BlockTag, EndpointError, JsonRpcNonces, NonceSource};
use stile_domain::ChainId;
use stile_engine::{ChainQuery, Node, NonceComponent, Settings};
use stile_store::{OpenOptions, StoreError};

use crate::wiring::default_open_options;

/// Why a node did not start.
#[derive(Debug, thiserror::Error)]
pub enum StileError {
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A chain's endpoint cannot be used.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
}

/// A running node. Dropping it leaves its leases to run out; [`Self::shutdown`] gives them back.
#[derive(Debug)]
pub struct Stile {
    node: Node,
}

/// How a node is to run. What is not said has the configuration reference's default.
#[derive(Debug)]
pub struct StileBuilder {
    store_url: String,
    settings: Settings,
    endpoints: HashMap<ChainId, Vec<String>>,
    source: Option<Arc<dyn NonceSource>>,
}

impl Stile {
    /// A node on this store: `sqlite://file.db`, or `postgres://user@host/database` to share the
    /// work with other nodes.
    pub fn builder(store_url: impl Into<String>) -> StileBuilder {
        let name = format!("embedded-{}", std::process::id());
        StileBuilder {
            store_url: store_url.into(),
            settings: Settings::new(name),
            endpoints: HashMap::new(),
            source: None,
        }
    }

    /// The nonces.
    pub fn nonces(&self) -> &NonceComponent {
        self.node.nonces()
    }

    /// Finishes what is under way and gives the leases back.
    pub async fn shutdown(self) {
        self.node.shutdown().await;
    }
}

impl StileBuilder {
    /// The node's name. Give each node of a cluster its own and keep it over restarts.
    pub fn node_id(mut self, id: impl Into<String>) -> Self {
        self.settings.node = stile_domain::NodeId(id.into());
        self
    }

    /// Changes any other setting.
    pub fn settings(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self
    }

    /// Asks this endpoint about the chain's nonces: new lanes start where the chain is, and silent
    /// holds are settled by what it shows. May be called again for further endpoints and chains.
    pub fn endpoint(mut self, chain: ChainId, url: impl Into<String>) -> Self {
        self.endpoints.entry(chain).or_default().push(url.into());
        self.settings.chain_query = ChainQuery::Enabled(BlockTag::Latest);
        self
    }

    /// Asks this source instead of endpoints.
    pub fn nonce_source(mut self, source: Arc<dyn NonceSource>) -> Self {
        self.source = Some(source);
        self.settings.chain_query = ChainQuery::Enabled(BlockTag::Latest);
        self
    }

    /// Opens the store, brings its schema up to date, and starts.
    pub async fn start(self) -> Result<Stile, StileError> {
        let store = stile_store::open(OpenOptions {
            lease: self.settings.lease.duration,
            ..default_open_options(&self.store_url, true)
        })?;
        store.migrate().await?;
        let chain = match self.source {
            Some(source) => source,
            None => Arc::new(JsonRpcNonces::new(self.endpoints)?),
        };
        Ok(Stile { node: Node::start(self.settings, store, chain).await? })
    }
}
