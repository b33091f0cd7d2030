//! A node inside another program.

use std::collections::HashMap;
use std::sync::Arc;

use stile_chain::{BlockTag, Chains, EndpointError, NonceSource, PoolOptions, TxSigner};
use stile_domain::{Address, ChainId};
use stile_engine::{ChainQuery, Managed, Node, NonceComponent, Settings, Transactions};
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
    signers: HashMap<Address, Arc<dyn TxSigner>>,
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
            signers: HashMap::new(),
        }
    }

    /// The nonces.
    pub fn nonces(&self) -> &NonceComponent {
        self.node.nonces()
    }

    /// The transactions that this node signs and sends itself.
    pub fn transactions(&self) -> &Transactions {
        self.node.transactions()
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

    /// Signs and sends the transactions of this account. They go to the chains that have endpoints.
    pub fn signer(mut self, signer: impl TxSigner + 'static) -> Self {
        self.signers.insert(signer.address(), Arc::new(signer));
        self
    }

    /// Asks this source instead of endpoints about nonces.
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
        let chains = Arc::new(Chains::new(self.endpoints, PoolOptions::default())?);
        let chain = match self.source {
            Some(source) => source,
            None => Arc::clone(&chains) as Arc<dyn NonceSource>,
        };
        let managed = Managed { chains, signers: self.signers };
        Ok(Stile { node: Node::start_managed(self.settings, store, chain, managed).await? })
    }
}
