//! A database, a chain and nodes, and their end.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use stile_devchain::DevChain;
use stile_domain::U256;
use stile_store::raw::{OwnDatabase, Watch};

use super::accounts::Accounts;
use super::in_flight::{self, InFlight};
use super::node::Node;
use super::{CHAIN_ID, GAS_LIMIT, Mode};
use crate::cli::Failure;
use crate::wiring::default_open_options;

/// What nodes do for their signers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli::bench) enum Signers {
    /// They send, to a chain that makes a block each second.
    Send,
    /// They give nonces out, and there is no chain.
    GiveOutNonces,
}

/// How the nodes are set up.
pub(in crate::cli::bench) struct Wanted<'w> {
    /// A database on the server to use.
    pub(in crate::cli::bench) server: &'w str,
    pub(in crate::cli::bench) nodes: usize,
    pub(in crate::cli::bench) accounts: &'w Arc<Accounts>,
    pub(in crate::cli::bench) signers: Signers,
    pub(in crate::cli::bench) mode: Mode,
    /// Further lines of the configuration, before its first table.
    pub(in crate::cli::bench) settings: String,
    /// Such lines for the first node alone.
    pub(in crate::cli::bench) first: &'w str,
    /// What is in flight from the start. The chain makes no blocks then, so that it stays so.
    pub(in crate::cli::bench) in_flight: Option<InFlight>,
}

/// Nodes on a database of their own.
pub(in crate::cli::bench) struct Cluster {
    pub(in crate::cli::bench) nodes: Vec<Node>,
    pub(in crate::cli::bench) accounts: Arc<Accounts>,
    pub(in crate::cli::bench) watch: Watch,
    configuration: String,
    first: String,
    _chain: Option<DevChain>,
}

impl Cluster {
    /// Starts the first node, does the work, and cleans up after it, also when the work fails or is
    /// interrupted.
    pub(in crate::cli::bench) async fn with<T>(
        wanted: Wanted<'_>,
        work: impl AsyncFnOnce(&mut Self) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let database = OwnDatabase::create(wanted.server).await?;
        let all = async {
            let mut cluster = Self::start(database.url(), wanted).await?;
            work(&mut cluster).await
        };
        let done = tokio::select! {
            done = all => done,
            _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
        };
        let removed = database.remove().await;
        let done = done?;
        removed?;
        Ok(done)
    }

    async fn start(url: &str, wanted: Wanted<'_>) -> Result<Self, Failure> {
        let store = stile_store::open(default_open_options(url, false))?;
        store.migrate().await?;
        if let Some(in_flight) = wanted.in_flight {
            in_flight::fill(&*store, wanted.accounts, in_flight).await?;
        }
        store.close().await;
        let blocks = match wanted.in_flight {
            Some(_) => stile_devchain::Blocks::OnDemand,
            None => stile_devchain::Blocks::Every(Duration::from_secs(1)),
        };
        let chain = match wanted.signers {
            Signers::Send => Some(chain(wanted.accounts, blocks).await?),
            Signers::GiveOutNonces => None,
        };
        let mut cluster = Self {
            nodes: Vec::new(),
            accounts: Arc::clone(wanted.accounts),
            watch: Watch::new(url)?,
            configuration: configuration(url, &wanted, chain.as_ref().map(DevChain::url))?,
            first: wanted.first.to_owned(),
            _chain: chain,
        };
        cluster.add().await?;
        if cluster.first.is_empty() {
            cluster.complete(wanted.nodes).await?;
        }
        Ok(cluster)
    }

    /// Starts nodes until there are so many.
    pub(in crate::cli::bench) async fn complete(&mut self, nodes: usize) -> Result<(), Failure> {
        while self.nodes.len() < nodes {
            self.add().await?;
        }
        Ok(())
    }

    async fn add(&mut self) -> Result<(), Failure> {
        let place = self.nodes.len();
        let id = format!("bench-{}", place + 1);
        let own = if place == 0 { &self.first } else { "" };
        self.nodes.push(Node::start(&id, &format!("{own}\n{}", self.configuration)).await?);
        Ok(())
    }

    /// Starts a node anew that has been killed, under its old name.
    pub(in crate::cli::bench) async fn restart(&mut self, place: usize) -> Result<(), Failure> {
        let id = self.nodes[place].id.clone();
        self.nodes[place] = Node::start(&id, &self.configuration).await?;
        Ok(())
    }

    /// The place of a node by its name.
    pub(in crate::cli::bench) fn place(&self, id: &str) -> Option<usize> {
        self.nodes.iter().position(|node| node.id == id)
    }

    /// A counter with one label, by that label's values, of all nodes together.
    pub(in crate::cli::bench) async fn counter(
        &self,
        name: &str,
    ) -> Result<BTreeMap<String, f64>, Failure> {
        let mut sum = BTreeMap::new();
        for node in &self.nodes {
            for (label, value) in node.counter(name).await? {
                *sum.entry(label).or_default() += value;
            }
        }
        Ok(sum)
    }
}

async fn chain(accounts: &Accounts, blocks: stile_devchain::Blocks) -> Result<DevChain, Failure> {
    let ether = U256::from(10).pow(U256::from(18));
    let funded = accounts.addresses.iter();
    let options = stile_devchain::Options {
        chain_id: CHAIN_ID,
        blocks,
        gas_limit: GAS_LIMIT,
        accounts: funded.map(|address| (*address, U256::from(10_000) * ether)).collect(),
        ..stile_devchain::Options::default()
    };
    Ok(DevChain::start(options).await?)
}

/// All that the nodes' configurations have in common.
fn configuration(
    store: &str,
    wanted: &Wanted<'_>,
    chain: Option<String>,
) -> Result<String, Failure> {
    let mut text = String::new();
    writeln!(text, "log.level = \"warn\"\nstore.url = {store:?}\nstore.migrate = false")?;
    writeln!(text, "nonce.mode = \"{}\"\n{}", wanted.mode.name(), wanted.settings)?;
    match (wanted.signers, chain) {
        (Signers::Send, Some(endpoint)) => {
            writeln!(text, "confirmations.required = 1")?;
            writeln!(text, "[[chain]]\nid = {CHAIN_ID}\nendpoints = [{endpoint:?}]")?;
            text += &wanted.accounts.with_keys();
        }
        _ => {
            // Nobody marks the holds; none of them is to run out within the measurement.
            writeln!(text, "nonce.chain_query.enabled = false\nnonce.hold_timeout = \"1h\"")?;
            writeln!(text, "[[chain]]\nid = {CHAIN_ID}\nendpoints = []")?;
            text += &wanted.accounts.without_keys();
        }
    }
    Ok(text)
}
