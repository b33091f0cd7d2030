//! How a node is to run.

use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use stile_chain::{BlockTag, Chains, LocalSigner, NonceSource, PoolOptions, TxSigner};
use stile_domain::{Address, ChainId, Finality, Lane, LeaseTerms, NodeId, serves};
use stile_engine::{ChainQuery, Managed, Node, Settings, Signers};
use stile_server::{ClusterOptions, Directory, ServeOptions, is_private_way};
use stile_store::OpenOptions;

use super::{Stile, StileError};
use crate::cli::run;
use crate::config::ConnectionUrl;
use crate::wiring::{Parts, RegistryOptions, default_open_options};

/// How a node is to run. Nothing happens before [`Self::start`], which first looks at all of it and
/// names every problem there is.
#[derive(Debug)]
pub struct StileBuilder {
    store_url: ConnectionUrl,
    settings: Settings,
    chains: BTreeMap<ChainId, Vec<ConnectionUrl>>,
    source: Option<Arc<dyn NonceSource>>,
    signers: Vec<Given>,
    accounts: HashSet<Address>,
    listen: Option<SocketAddr>,
    cluster: ClusterOptions,
    hosts: Vec<String>,
    registry: RegistryOptions,
    problems: Vec<String>,
}

/// A signer, and the only chain that it is for; `None` for every chain.
#[derive(Debug)]
struct Given {
    chain: Option<u64>,
    signer: Arc<dyn TxSigner>,
}

impl Given {
    fn is_on(&self, chain: ChainId) -> bool {
        self.chain.is_none_or(|only| only == chain.get())
    }

    /// Whether both would sign for the same account on some chain.
    fn meets(&self, other: &Self) -> bool {
        let same_chain = self.chain.is_none() || other.chain.is_none() || self.chain == other.chain;
        same_chain && self.signer.address() == other.signer.address()
    }
}

impl StileBuilder {
    pub(super) fn new(store_url: String) -> Self {
        Self {
            store_url: store_url.into(),
            settings: Settings::new(format!("embedded-{}", std::process::id())),
            chains: BTreeMap::new(),
            source: None,
            signers: Vec::new(),
            accounts: HashSet::new(),
            listen: None,
            cluster: ClusterOptions::default(),
            hosts: Vec::new(),
            registry: RegistryOptions::default(),
            problems: Vec::new(),
        }
    }

    /// Goes to the chain of this id by this endpoint (`http://`, `https://`, `ws://` or `wss://`). May
    /// be called again for further endpoints of the same chain, and for further chains.
    pub fn chain(mut self, id: u64, endpoint: impl Into<String>) -> Self {
        match ChainId::new(id) {
            Ok(chain) => self.chains.entry(chain).or_default().push(endpoint.into().into()),
            Err(error) => self.problems.push(format!("chain({id}, …): {error}")),
        }
        self.settings.chain_query = ChainQuery::Enabled(BlockTag::Latest);
        self
    }

    /// Signs and sends the transactions of this private key's account, on every chain: 64 hexadecimal
    /// digits, with or without `0x`. The key stays in this process.
    pub fn key(mut self, private_key: &str) -> Self {
        match LocalSigner::from_key(private_key) {
            Ok(signer) => self.signer(signer),
            Err(error) => {
                // The text itself is a secret.
                self.problems.push(format!("key(…): {error}"));
                self
            }
        }
    }

    /// Signs and sends the transactions of this account, on every chain: a [`LocalSigner`] from a key
    /// file, a [`RemoteSigner`](crate::RemoteSigner), or one of your own.
    pub fn signer(self, signer: impl TxSigner + 'static) -> Self {
        self.given(None, signer)
    }

    /// Signs and sends the transactions of this account on this chain, and on no other. May be called
    /// again with another signer for another chain.
    pub fn signer_on(self, chain: u64, signer: impl TxSigner + 'static) -> Self {
        self.given(Some(chain), signer)
    }

    fn given(mut self, chain: Option<u64>, signer: impl TxSigner + 'static) -> Self {
        let given = Given { chain, signer: Arc::new(signer) };
        if self.signers.iter().any(|earlier| earlier.meets(&given)) {
            let address = given.signer.address();
            let on = chain.map(|chain| format!(" on chain {chain}")).unwrap_or_default();
            self.problems.push(format!("the signer {address} is given twice{on}"));
        }
        self.signers.push(given);
        self
    }

    /// Serves bare nonces of this account over HTTP: its key is somewhere else. In this process any
    /// account's nonces can be had without it.
    pub fn account(mut self, address: Address) -> Self {
        self.accounts.insert(address);
        self
    }

    /// Calls a transaction done when so many blocks are on top of its own; 20 if not said. Each
    /// request may ask for other evidence.
    pub fn confirmations(self, required: u32) -> Self {
        self.finality(Finality::Confirmations(required))
    }

    /// Calls a transaction done by this evidence.
    pub fn finality(mut self, finality: Finality) -> Self {
        self.settings.tx.finality = finality;
        self
    }

    /// Removes finished transactions, with their request ids, after this time, once no
    /// reorganisation can reopen them. They are kept for ever if not said.
    pub fn keep_finished(mut self, kept: Duration) -> Self {
        self.settings.retention.finished = Some(kept);
        self
    }

    /// Serves the HTTP API here as well, with its live page: the same as `stile serve`. Port 0 takes
    /// any free one; see [`Stile::address`]. The number of files that the process may have open is
    /// raised as far as it may be, since every connection is one.
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.listen = Some(address);
        self
    }

    /// One more name by which the HTTP API is called, beside `localhost` and the address listened on.
    pub fn host(mut self, name: impl Into<String>) -> Self {
        self.hosts.push(name.into());
        self
    }

    /// The node's name in logs and on the lanes it holds. Give each node of a cluster its own and
    /// keep it over restarts: then it takes up its lanes at once.
    pub fn node_id(mut self, id: impl Into<String>) -> Self {
        self.settings.node = NodeId(id.into());
        self
    }

    /// Works together with the other nodes on the same database, which reach this one by this URL:
    /// signers move to the node that they had best be on, and calls for another node's signers that
    /// come over HTTP are treated as the options say. Needs [`Self::listen`].
    pub fn cluster(mut self, advertise_url: impl Into<String>, options: ClusterOptions) -> Self {
        self.settings.url = Some(advertise_url.into());
        self.cluster = options;
        self
    }

    /// Shares a node registry on this Redis (`redis://…`) with the other nodes: they learn of each other
    /// there. A Redis that does not answer is waited for, and everything else goes on without it.
    pub fn redis(mut self, url: impl Into<String>) -> Self {
        self.registry.redis_url = Some(url.into().into());
        self
    }

    /// Asks this source instead of endpoints about nonces.
    pub fn nonce_source(mut self, source: Arc<dyn NonceSource>) -> Self {
        self.source = Some(source);
        self.settings.chain_query = ChainQuery::Enabled(BlockTag::Latest);
        self
    }

    /// Changes any other setting.
    pub fn settings(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self
    }

    /// Opens the store, brings its schema up to date, and starts.
    ///
    /// # Errors
    ///
    /// [`StileError::Builder`] with everything that is wrong with what was said, before anything is
    /// touched; else what the store, an endpoint or the address to listen on refused. A chain that
    /// does not answer is no error: it is waited for.
    pub async fn start(mut self) -> Result<Stile, StileError> {
        self.look_for_problems();
        if !self.problems.is_empty() {
            return Err(StileError::Builder(self.problems));
        }
        let on_every_chain = |address: &Address| {
            let address = *address;
            self.chains.keys().map(move |chain| Lane::new(*chain, address)).collect::<Vec<_>>()
        };
        let mut signers = Signers::new();
        for given in &self.signers {
            for chain in self.chains.keys().filter(|chain| given.is_on(**chain)) {
                let added = signers.add(*chain, Arc::clone(&given.signer));
                added.map_err(|twice| StileError::Builder(vec![twice.to_string()]))?;
            }
        }
        let mut lanes: Vec<Lane> = signers.lanes().collect();
        lanes.sort_unstable();
        let bare: Vec<Lane> = self.accounts.iter().flat_map(on_every_chain).collect();
        let with_keys = lanes.iter().map(|lane| (*lane, true));
        self.settings.serves = serves(with_keys.chain(bare.iter().map(|lane| (*lane, false))));
        let endpoints = self
            .chains
            .into_iter()
            .map(|(chain, urls)| (chain, urls.iter().map(|url| url.as_str().to_owned()).collect()));
        let chains = Arc::new(Chains::new(endpoints, PoolOptions::default())?);
        let store = OpenOptions {
            lease: self.settings.lease.duration,
            ..default_open_options(self.store_url.as_str(), true)
        };
        let chain = Arc::clone(&chains);
        let mut managed = Managed { chains: chain, signers, ..Managed::default() };
        if let Some(listen) = self.listen {
            let directory = Directory::new(lanes.iter().copied().chain(bare));
            let (settings, cluster, registry) = (self.settings, self.cluster, self.registry);
            let advertised = settings.url.clone();
            let serve = ServeOptions { advertised, hosts: self.hosts, ..ServeOptions::default() };
            let require_key = false;
            let parts = Parts {
                settings,
                require_key,
                store,
                managed,
                directory,
                cluster,
                registry,
                serve,
            };
            let served = run::start(parts, listen, true).await.map_err(StileError::of)?;
            return Ok(Stile { node: Arc::clone(&served.node), served: Some(served), lanes });
        }
        let store = stile_store::open(store)?;
        store.migrate().await?;
        let registry = self.registry.open(&mut managed.calls).await;
        managed.registry = Some(registry.map_err(|error| StileError::Other(error.into()))?);
        let source = self.source.unwrap_or(chains);
        let node = Node::start_managed(self.settings, store, source, managed).await?;
        Ok(Stile { node: Arc::new(node), served: None, lanes })
    }

    /// What can be known to be wrong before anything is touched.
    fn look_for_problems(&mut self) {
        let mut problems = std::mem::take(&mut self.problems);
        let url = self.store_url.as_str();
        if !["sqlite://", "postgres://", "postgresql://"].iter().any(|it| url.starts_with(it)) {
            problems.push(
                "the store's URL must begin with sqlite:// (a file of its own) or postgres://"
                    .into(),
            );
        }
        if self.chains.is_empty() && !self.signers.is_empty() {
            problems
                .push("there is a signer and no chain to send to: say chain(id, endpoint)".into());
        }
        for given in &self.signers {
            let (address, chain) = (given.signer.address(), given.chain);
            let is_known = |only: u64| self.chains.keys().any(|chain| chain.get() == only);
            if let Some(only) = chain.filter(|only| !self.chains.is_empty() && !is_known(*only)) {
                problems.push(format!(
                    "signer_on({only}, …): there is no such chain: say chain({only}, endpoint)"
                ));
            }
            let bare = self.accounts.contains(&address);
            if bare && self.chains.keys().any(|chain| given.is_on(*chain)) {
                problems.push(format!(
                    "{address} is given with a key and as account(…), which has none: say one of them"
                ));
            }
        }
        if self.listen.is_some() && self.chains.is_empty() {
            problems.push(
                "the HTTP API has nothing to serve without a chain: say chain(id, endpoint)".into(),
            );
        }
        if self.listen.is_some() && self.source.is_some() {
            problems.push("nonce_source(…) does not go with listen(…)".into());
        }
        let LeaseTerms { duration, renew_interval } = self.settings.lease;
        if let Err(error) = LeaseTerms::new(duration, renew_interval) {
            problems.push(format!("settings.lease: {error}"));
        }
        let advertised = self.settings.url.as_deref();
        if !self.cluster.trusted_network && !advertised.is_none_or(is_private_way) {
            problems.push(
                "cluster(…): other nodes would pass calls on to this URL without TLS: give an https:// one, or \
                 set trusted_network where nobody else is on the network between the nodes"
                    .into(),
            );
        }
        if self.settings.node.0.trim().is_empty() {
            problems.push("node_id(…) must not be empty".into());
        }
        self.problems = problems;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn problems(builder: StileBuilder) -> Vec<String> {
        match builder.start().await {
            Err(StileError::Builder(problems)) => problems,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn every_problem_is_named_at_once_and_nothing_is_touched() {
        let key = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
        let found = problems(
            Stile::builder("stile.db").key(key).key(key).key("hunter2").chain(0, "http://a"),
        )
        .await;
        assert_eq!(found.len(), 5, "{found:#?}");
        let all = found.join("\n");
        for part in ["chain(0, …)", "key(…)", "given twice", "sqlite://", "say chain(id, endpoint)"]
        {
            assert!(all.contains(part), "{part}: {all}");
        }
        assert!(!all.contains("hunter2"), "{all}");
        assert!(!std::path::Path::new("stile.db").exists());
    }

    #[tokio::test]
    async fn hole_41_two_sources_for_one_lane_are_named() {
        const KEY: &str = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
        let key = || LocalSigner::from_key(KEY).unwrap();
        let both = || {
            Stile::builder("sqlite://x.db")
                .chain(1, "http://a.example")
                .chain(5, "http://b.example")
        };
        for (builder, words) in [
            (both().key(KEY).signer_on(5, key()), "is given twice on chain 5"),
            (both().signer_on(1, key()).signer_on(1, key()), "is given twice on chain 1"),
            (both().signer_on(7, key()), "there is no such chain"),
            (both().signer_on(5, key()).account(key().address()), "as account(…)"),
        ] {
            let found = problems(builder).await;
            assert!(found.len() == 1 && found[0].contains(words), "{words}: {found:#?}");
        }
        let mut apart = both().signer_on(1, key()).signer_on(5, key());
        apart.look_for_problems();
        assert!(apart.problems.is_empty(), "{:#?}", apart.problems);
    }

    #[tokio::test]
    async fn what_does_not_go_together_is_named() {
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let found = problems(Stile::builder("sqlite://x.db").node_id(" ").listen(listen)).await;
        assert_eq!(found.len(), 2, "{found:#?}");
        let lease =
            |settings: &mut Settings| settings.lease.renew_interval = Duration::from_secs(9);
        let found = problems(Stile::builder("sqlite://x.db").settings(lease)).await;
        assert!(found[0].starts_with("settings.lease: "), "{found:#?}");
        let cluster = Stile::builder("sqlite://x.db");
        let found = problems(cluster.cluster("http://10.0.0.1:7420", ClusterOptions::default()));
        assert!(found.await[0].contains("https://"));
    }
}
