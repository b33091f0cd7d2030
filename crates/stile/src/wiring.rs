//! From configuration to running parts.
//!
//! Everything that a configuration says is turned into values here, once; nothing further down
//! reads a file or the environment.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use stile_chain::{BlockTag, JsonRpcNonces};
use stile_domain::{Address, ChainId, HeldExpiry, Lane, LeaseTerms, NodeId, parse_address};
use stile_engine::{ChainQuery, Mode, QueueSettings, RejectPolicy, Settings};
use stile_server::Directory;
use stile_store::OpenOptions;

use crate::config::{self, ChainQueryMode, Config, NonceMode, SecretReference, SignerSource};

/// A configuration that is well-formed and still cannot be run. Each message names the key.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct WiringError(String);

/// What a node is made of.
#[derive(Debug)]
pub struct Parts {
    /// For the engine.
    pub settings: Settings,
    /// For the store.
    pub store: OpenOptions,
    /// Where nonces are asked for.
    pub chain: Arc<JsonRpcNonces>,
    /// The lanes served.
    pub directory: Directory,
}

/// Turns a configuration into parts. `environment` is where `env:` references are looked up.
pub fn parts(config: &Config, environment: &HashMap<String, String>) -> Result<Parts, WiringError> {
    let chains = chains(config)?;
    let mut lanes = Vec::new();
    let mut signs_for = HashSet::new();
    for (place, signer) in config.signers.iter().enumerate() {
        let (address, has_key) = address(&signer.source, environment)
            .map_err(|why| WiringError(format!("signer[{place}]: {why}")))?;
        if has_key {
            signs_for.insert(address);
        }
        let on = chains.iter().filter(|(id, _)| signer.chain.is_none_or(|only| id.get() == only));
        lanes.extend(on.map(|(id, _)| Lane::new(*id, address)));
    }
    if !config.signers.is_empty() && chains.is_empty() {
        return Err(WiringError(
            "[[signer]] is given but no [[chain]]: add a chain with its id".into(),
        ));
    }
    let chain = JsonRpcNonces::new(chains).map_err(|e| WiringError(format!("[[chain]] {e}")))?;
    Ok(Parts {
        settings: settings(config, signs_for)?,
        store: open_options(config, true),
        chain: Arc::new(chain),
        directory: Directory::new(lanes),
    })
}

/// How to open the configured store.
pub fn open_options(config: &Config, serve: bool) -> OpenOptions {
    OpenOptions {
        url: config.store.url.as_str().to_owned(),
        pool_size: config.store.pool_size,
        statement_timeout: config.store.statement_timeout.get(),
        lock_timeout: config.store.lock_timeout.get(),
        lease: config.nonce.lease.duration.get(),
        serve,
    }
}

/// How to open a store of which nothing is said but where it is.
pub fn default_open_options(url: &str, serve: bool) -> OpenOptions {
    let mut config = Config::default();
    config.store.url = url.into();
    open_options(&config, serve)
}

fn chains(config: &Config) -> Result<Vec<(ChainId, Vec<String>)>, WiringError> {
    let chains = config.chains.iter().map(|chain| {
        let id = ChainId::new(chain.id).map_err(|e| WiringError(format!("chain.id: {e}")))?;
        if chain.endpoints.is_empty() && config.nonce.chain_query.enabled {
            return Err(WiringError(format!(
                "chain {id} has no endpoints, so nobody can say where its nonces start: give endpoints, \
                 or set nonce.chain_query.enabled = false to start at 0"
            )));
        }
        Ok((id, chain.endpoints.iter().map(|url| url.as_str().to_owned()).collect()))
    });
    chains.collect()
}

fn settings(config: &Config, signs_for: HashSet<Address>) -> Result<Settings, WiringError> {
    let nonce = &config.nonce;
    let lease = LeaseTerms::new(nonce.lease.duration.get(), nonce.lease.renew_interval.get())
        .map_err(|e| WiringError(format!("nonce.lease: {e}")))?;
    Ok(Settings {
        node: NodeId(node_id(config)),
        url: config.cluster.advertise_url.as_ref().map(|url| url.as_str().to_owned()),
        lease,
        mode: match nonce.mode {
            NonceMode::Basic => Mode::Basic,
            NonceMode::WorkerQueue => Mode::WorkerQueue(QueueSettings {
                workers: nonce.worker_count,
                capacity: nonce.worker_queue_capacity,
                reject: match nonce.reject_policy {
                    config::RejectPolicy::FailFast => RejectPolicy::FailFast,
                    config::RejectPolicy::CallerWaits => {
                        RejectPolicy::CallerWaits(nonce.caller_wait.get())
                    }
                },
            }),
        },
        hold_timeout: nonce.hold_timeout.get(),
        held_expiry: match nonce.held_expiry {
            config::HeldExpiry::Suspect => HeldExpiry::Suspect,
            config::HeldExpiry::Reclaim => HeldExpiry::Reclaim,
        },
        chain_query: match (nonce.chain_query.enabled, nonce.chain_query.mode) {
            (false, _) => ChainQuery::Disabled,
            (true, ChainQueryMode::Latest) => ChainQuery::Enabled(BlockTag::Latest),
            (true, ChainQueryMode::Pending) => ChainQuery::Enabled(BlockTag::Pending),
        },
        state_timeout: nonce.state_timeout.get(),
        signs_for,
        shutdown_grace: config.server.shutdown_grace.get(),
    })
}

/// The configured name, else host name and port.
fn node_id(config: &Config) -> String {
    config.node.id.clone().unwrap_or_else(|| {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let host = host.trim();
        let host = if host.is_empty() { "localhost" } else { host };
        format!("{host}:{}", config.server.listen.port())
    })
}

/// A signer's address, and whether Stile can sign for it.
fn address(
    source: &SignerSource,
    environment: &HashMap<String, String>,
) -> Result<(Address, bool), String> {
    match source {
        SignerSource::HoldOnly { address } => Ok((parse(address)?, false)),
        SignerSource::Remote { address, .. } => Ok((parse(address)?, true)),
        SignerSource::Keystore { address: Some(address), .. } => Ok((parse(address)?, true)),
        SignerSource::Keystore { path, address: None, .. } => Ok((keystore_address(path)?, true)),
        SignerSource::Key { key } => {
            let secret = secret(key, environment)?;
            let address =
                stile_chain::address_of_key(&secret).map_err(|e| format!("key: {key} {e}"))?;
            Ok((address, true))
        }
    }
}

fn parse(address: &str) -> Result<Address, String> {
    parse_address(address).map_err(|e| format!("address: {e}"))
}

fn secret(
    reference: &SecretReference,
    environment: &HashMap<String, String>,
) -> Result<String, String> {
    match reference {
        SecretReference::Environment(name) => environment
            .get(name)
            .cloned()
            .ok_or_else(|| format!("key: the environment variable {name} is not set")),
        SecretReference::File(path) => std::fs::read_to_string(path)
            .map_err(|e| format!("key: {} cannot be read: {e}", path.display())),
    }
}

/// The address that an Ethereum keystore file names. It is not encrypted.
fn keystore_address(path: &Path) -> Result<Address, String> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|e| format!("keystore: {shown}: {e}"))?;
    let json: serde_json::Value =
        serde_json::from_str(&text).map_err(|_| format!("keystore: {shown} is not JSON"))?;
    let address = json.get("address").and_then(|address| address.as_str()).ok_or_else(|| {
        format!("keystore: {shown} does not name its address; give address = \"0x…\" beside it")
    })?;
    parse(&format!("0x{}", address.trim_start_matches("0x")))
        .map_err(|why| format!("keystore: {shown}: {why}"))
}
