//! From configuration to running parts.
//!
//! Everything that a configuration says is turned into values here, once; nothing further down
//! reads a file or the environment.

mod registry;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use stile_chain::{BlockTag, Chains, LocalSigner, PoolOptions, RemoteSigner, TxSigner};
use stile_domain::{
    Address, ChainId, EstimatePolicy, Failover, Finality, HeldExpiry, Lane, LeaseTerms, Market,
    NodeId, parse_address, serves,
};
use stile_engine::{
    CallLimits, ChainQuery, Managed, Mode, OutsideUse, QueueSettings, RejectPolicy, Retention,
    Settings, TxSettings,
};
use stile_server::{ClusterOptions, ClusterSecret, Directory, NotHolder};
use stile_store::OpenOptions;
use stile_store::postgres::Pooler;

pub use self::registry::RegistryOptions;
use crate::config::{
    self, ChainQueryMode, Config, FinalityTag, NonceMode, SecretReference, SignerSource,
};

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
    /// The chains, and who signs.
    pub managed: Managed,
    /// The lanes served.
    pub directory: Directory,
    /// How it works together with other nodes.
    pub cluster: ClusterOptions,
    /// The node registry.
    pub registry: RegistryOptions,
}

/// Turns a configuration into parts. `environment` is where `env:` references are looked up.
pub fn parts(config: &Config, environment: &HashMap<String, String>) -> Result<Parts, WiringError> {
    let chains = chains(config)?;
    let mut lanes = Vec::new();
    let mut signers: HashMap<Address, Arc<dyn TxSigner>> = HashMap::new();
    for (place, signer) in config.signers.iter().enumerate() {
        let (address, with_key) = signer_of(&signer.source, environment)
            .map_err(|why| WiringError(format!("signer[{place}]: {why}")))?;
        signers.extend(with_key.map(|with_key| (address, with_key)));
        let on = chains.iter().filter(|(id, _)| signer.chain.is_none_or(|only| id.get() == only));
        lanes.extend(on.map(|(id, _)| Lane::new(*id, address)));
    }
    if !config.signers.is_empty() && chains.is_empty() {
        return Err(WiringError(
            "[[signer]] is given but no [[chain]]: add a chain with its id".into(),
        ));
    }
    let chains = pools(config, chains)?;
    let mut settings = settings(config)?;
    settings.serves = serves(lanes.iter().map(|lane| (*lane, signers.contains_key(&lane.signer))));
    Ok(Parts {
        settings,
        cluster: cluster(config, environment)?,
        store: open_options(config, true),
        registry: registry_options(config, environment)?,
        managed: Managed {
            chains: Arc::new(chains),
            signers,
            calls: call_limits(config),
            ..Managed::default()
        },
        directory: Directory::new(lanes),
    })
}

/// The configured chains, for commands that only ask them.
pub(crate) fn chains_of(config: &Config) -> Result<Chains, WiringError> {
    pools(config, chains(config)?)
}

fn pools(config: &Config, chains: Vec<(ChainId, Vec<String>)>) -> Result<Chains, WiringError> {
    let options = PoolOptions {
        poll_interval: config.confirmations.poll_interval.get(),
        fee_percentile: config.tx.fees.percentile,
        fee_blocks: config.tx.fees.blocks,
        ..PoolOptions::default()
    };
    let quorum =
        |chain: &config::Chain| Some((ChainId::new(chain.id).ok()?, chain.quorum? as usize));
    let quorums = config.chains.iter().filter_map(quorum).collect();
    Chains::with_quorums(chains, &quorums, options)
        .map_err(|e| WiringError(format!("[[chain]] {e}")))
}

fn cluster(
    config: &Config,
    environment: &HashMap<String, String>,
) -> Result<ClusterOptions, WiringError> {
    let secret = config.cluster.secret.as_ref().map(|reference| {
        let text = secret("secret", reference, environment)?;
        ClusterSecret::new(text.trim_end_matches(['\r', '\n'])).map_err(|e| format!("secret: {e}"))
    });
    let secret = secret.transpose().map_err(|why| WiringError(format!("cluster.{why}")))?;
    let not_holder = match config.cluster.not_holder {
        config::NotHolder::Accept => NotHolder::Accept,
        config::NotHolder::Forward => NotHolder::Forward,
        config::NotHolder::Reject => NotHolder::Reject,
    };
    Ok(ClusterOptions { not_holder, secret })
}

fn registry_options(
    config: &Config,
    environment: &HashMap<String, String>,
) -> Result<RegistryOptions, WiringError> {
    let settings = stile_registry::Settings::from(&config.registry);
    settings.check().map_err(|error| WiringError(error.to_string()))?;
    let password = config.redis.password.as_ref();
    let password = password.map(|reference| secret("password", reference, environment));
    let password = password.transpose().map_err(|why| WiringError(format!("redis.{why}")))?;
    let url = config.redis.url.as_ref().map(|url| url.as_str().to_owned());
    let redis_url = match (url, password) {
        (Some(url), Some(password)) => {
            Some(registry::with_password(&url, password.trim_end_matches(['\r', '\n'])))
        }
        (url, _) => url,
    };
    Ok(RegistryOptions { redis_url, settings })
}

/// How many calls may be under way at the endpoints of each chain.
fn call_limits(config: &Config) -> CallLimits {
    let limit = |chain: &config::Chain| Some((ChainId::new(chain.id).ok()?, chain.max_concurrency));
    CallLimits { chains: config.chains.iter().filter_map(limit).collect(), registry: None }
}

/// How to open the configured store.
pub fn open_options(config: &Config, serve: bool) -> OpenOptions {
    OpenOptions {
        url: config.store.url.as_str().to_owned(),
        direct_url: config.store.direct_url.as_ref().map(|url| url.as_str().to_owned()),
        pool_size: config.store.pool_size,
        statement_timeout: config.store.statement_timeout.get(),
        lock_timeout: config.store.lock_timeout.get(),
        pooler: match config.store.pooler {
            config::Pooler::None => Pooler::None,
            config::Pooler::Transaction => Pooler::Transaction,
        },
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

fn settings(config: &Config) -> Result<Settings, WiringError> {
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
        signs_for: HashSet::new(),
        patience: stile_store::patience(config.store.statement_timeout.get()),
        shutdown_grace: config.server.shutdown_grace.get(),
        tx: tx_settings(config),
        failover: match config.store.failover {
            config::Failover::Ask => Failover::Ask,
            config::Failover::Synchronous => Failover::Synchronous,
        },
        retention: Retention {
            finished: config.retention.finished.get(),
            holds: config.retention.holds.get(),
        },
        // Known once the signers are.
        serves: String::new(),
        moves_lanes: config.cluster.move_lanes,
    })
}

fn tx_settings(config: &Config) -> TxSettings {
    let (resubmit, confirmations) = (&config.tx.resubmit, &config.confirmations);
    TxSettings {
        max_in_flight: config.lane.max_in_flight,
        finality: match confirmations.finality {
            config::Finality::Confirmations(required) => Finality::Confirmations(required),
            config::Finality::Tag(FinalityTag::Safe) => Finality::Safe,
            config::Finality::Tag(FinalityTag::Finalized) => Finality::Finalized,
        },
        resubmit_after: resubmit.enabled.then(|| resubmit.interval.get()),
        estimate: EstimatePolicy {
            tries: config.tx.estimate.tries,
            first_pause: config.tx.estimate.interval.get(),
            longest_pause: config.tx.estimate.max_interval.get(),
        },
        max_sends: resubmit.max_attempts,
        bump_after: resubmit.enabled.then(|| resubmit.bump_after.get()),
        fees: Arc::new(Market { bump_permille: (resubmit.bump_percent * 10.0).ceil() as u32 }),
        fee_limits: config.chains.iter().filter_map(fee_limit).collect(),
        outside_use: match config.lane.outside_use {
            config::OutsideUse::Pause => OutsideUse::Pause,
            config::OutsideUse::Follow => OutsideUse::Follow,
        },
        stale_receipt: confirmations.stale_receipt_timeout.get(),
        receipt_workers: confirmations.receipt_workers,
        receipt_upon_entry: confirmations.fetch_receipt_upon_entry,
        reorg_window: confirmations.reorg_window,
    }
}

/// The most that an attempt may offer on a chain, in wei.
fn fee_limit(chain: &config::Chain) -> Option<(ChainId, u128)> {
    let wei = (chain.max_fee_gwei? * 1e9).round();
    Some((ChainId::new(chain.id).ok()?, wei as u128))
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

/// How long a signer in another process is waited for.
const SIGNER_TIMEOUT: Duration = Duration::from_secs(5);

/// A signer's address, and who signs for it; `None` where callers do that themselves.
fn signer_of(
    source: &SignerSource,
    environment: &HashMap<String, String>,
) -> Result<(Address, Option<Arc<dyn TxSigner>>), String> {
    match source {
        SignerSource::HoldOnly { address } => Ok((parse(address)?, None)),
        SignerSource::Remote { url, address } => {
            let address = parse(address)?;
            let remote = RemoteSigner::new(url.as_str(), address, SIGNER_TIMEOUT);
            Ok((address, Some(Arc::new(remote.map_err(|e| format!("remote: {e}"))?))))
        }
        SignerSource::Keystore { path, password, address } => {
            let password = password.as_ref().map(|p| secret("password", p, environment));
            let password = password.transpose()?.unwrap_or_default();
            let local = LocalSigner::from_keystore(path, password.trim_end_matches(['\r', '\n']))
                .map_err(|e| format!("keystore: {e}"))?;
            let found = local.address();
            match address.as_deref().map(parse).transpose()? {
                Some(said) if said != found => Err(format!(
                    "keystore: {} holds the key of {found}, not of {said}",
                    path.display()
                )),
                _ => Ok((found, Some(Arc::new(local)))),
            }
        }
        SignerSource::Key { key } => {
            let text = secret("key", key, environment)?;
            let local = LocalSigner::from_key(&text).map_err(|e| format!("key: {key} {e}"))?;
            Ok((local.address(), Some(Arc::new(local))))
        }
    }
}

fn parse(address: &str) -> Result<Address, String> {
    parse_address(address).map_err(|e| format!("address: {e}"))
}

fn secret(
    what: &str,
    reference: &SecretReference,
    environment: &HashMap<String, String>,
) -> Result<String, String> {
    match reference {
        SecretReference::Environment(name) => environment
            .get(name)
            .cloned()
            .ok_or_else(|| format!("{what}: the environment variable {name} is not set")),
        SecretReference::File(path) => std::fs::read_to_string(path)
            .map_err(|e| format!("{what}: {} cannot be read: {e}", path.display())),
    }
}
