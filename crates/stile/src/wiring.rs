//! From configuration to running parts.
//!
//! Everything that a configuration says is turned into values here, once; nothing further down
//! reads a file or the environment.

mod registry;
mod serve;

use std::collections::{HashMap, HashSet};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use stile_chain::{BlockTag, Chains, LocalSigner, PoolOptions, RemoteSigner, TxSigner};
use stile_domain::{
    Address, ChainId, EstimatePolicy, Failover, Finality, HeldExpiry, Lane, LeaseTerms, Market,
    NodeId, Secret, parse_address, serves,
};
use stile_engine::{
    CallLimits, ChainQuery, Managed, Mode, OutsideUse, QueueSettings, RESENT_AT_ONCE, RejectPolicy,
    Retention, Settings, Signers, TxSettings, Underfunded,
};
use stile_server::{
    Authorities, ClusterOptions, ClusterSecret, Directory, NodeIdentity, NotHolder, ServeOptions,
};
use stile_store::OpenOptions;
use stile_store::postgres::Pooler;
use zeroize::Zeroizing;

pub use self::registry::RegistryOptions;
use crate::config::{
    self, ChainQueryMode, Config, FinalityTag, NonceMode, SecretReference, SignerSource,
};
use crate::host;

/// A configuration that is well-formed and still cannot be run. Each message names the key.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct WiringError(String);

/// What a node is made of.
#[derive(Debug)]
pub struct Parts {
    /// For the engine.
    pub settings: Settings,
    /// Whether every call needs an API key, before there is any.
    pub require_key: bool,
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
    /// How the server listens, and to whom.
    pub serve: ServeOptions,
}

/// Turns a configuration into parts. `environment` is where `env:` references are looked up.
pub fn parts(config: &Config, environment: &HashMap<String, String>) -> Result<Parts, WiringError> {
    let chains = chains(config)?;
    let mut problems = Vec::new();
    let lanes = kept(&mut problems, lanes(config, &chains, environment));
    if !config.signers.is_empty() && chains.is_empty() {
        problems.push("[[signer]] is given but no [[chain]]: add a chain with its id".to_owned());
    }
    let chains = kept(&mut problems, pools(config, chains));
    let settings = kept(&mut problems, settings(config));
    let cluster = kept(&mut problems, cluster(config, environment));
    let registry = kept(&mut problems, registry_options(config, environment));
    let serve = kept(&mut problems, serve::options(config));
    let (
        Some((lanes, signers)),
        Some(chains),
        Some(mut settings),
        Some(cluster),
        Some(registry),
        Some(serve),
        [],
    ) = (lanes, chains, settings, cluster, registry, serve, &problems[..])
    else {
        return Err(WiringError(problems.join("\n")));
    };
    settings.serves = serves(lanes.iter().map(|lane| (*lane, signers.signs(*lane))));
    Ok(Parts {
        settings,
        require_key: config.server.require_key,
        cluster,
        store: open_options(config, true),
        registry,
        serve,
        managed: Managed {
            chains: Arc::new(chains),
            signers,
            calls: call_limits(config),
            ..Managed::default()
        },
        directory: Directory::new(lanes),
    })
}

/// What was made, or else its problem among the others: all of them are told at once.
fn kept<T>(problems: &mut Vec<String>, made: Result<T, WiringError>) -> Option<T> {
    made.map_err(|WiringError(problem)| problems.push(problem)).ok()
}

/// The lanes that the signers' entries make, and who signs on them. A lane that two entries make is an
/// error: nobody could tell by which of them it is signed for, or whether it is at all.
fn lanes(
    config: &Config,
    chains: &[(ChainId, Vec<String>)],
    environment: &HashMap<String, String>,
) -> Result<(Vec<Lane>, Signers), WiringError> {
    let (mut lanes, mut signers) = (Vec::new(), Signers::new());
    let mut made_by: HashMap<Lane, usize> = HashMap::new();
    let mut problems = Vec::new();
    for (place, entry) in config.signers.iter().enumerate() {
        let error = |why| WiringError(format!("{}: signer[{place}]: {why}", entry.origin));
        let signer = signer_of(&entry.source, environment).map_err(error);
        let Some((address, with_key)) = kept(&mut problems, signer) else { continue };
        let on = chains.iter().filter(|(id, _)| entry.chain.is_none_or(|only| id.get() == only));
        for (chain, _) in on {
            let lane = Lane::new(*chain, address);
            if let Some(first) = made_by.insert(lane, place) {
                let of_first = &config.signers[first].origin;
                let WiringError(problem) = error(format!(
                    "{address} on chain {chain} has two sources, this entry and signer[{first}] ({of_first}): \
                     remove one of them, or give each the chain that it is for"
                ));
                problems.push(problem);
                continue;
            }
            lanes.push(lane);
            if let Some(signer) = &with_key {
                let added = signers.add(*chain, Arc::clone(signer));
                kept(&mut problems, added.map_err(|e| error(e.to_string())));
            }
        }
    }
    if problems.is_empty() { Ok((lanes, signers)) } else { Err(WiringError(problems.join("\n"))) }
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
    let of_chain = |id: ChainId| {
        let chain = config.chains.iter().find(|chain| chain.id == id.get());
        let timeout = chain.and_then(|chain| chain.answer_timeout);
        let answer_timeout = timeout.map_or(options.answer_timeout, |timeout| timeout.get());
        PoolOptions { answer_timeout, ..options }
    };
    Chains::with_quorums(chains, &quorums, of_chain)
        .map_err(|e| WiringError(format!("[[chain]] {e}")))
}

fn cluster(
    config: &Config,
    environment: &HashMap<String, String>,
) -> Result<ClusterOptions, WiringError> {
    let secret = config.cluster.secret.as_ref().map(|reference| {
        let text = secret("secret", reference, environment)?;
        ClusterSecret::new(text.without_line_end().reveal()).map_err(|e| format!("secret: {e}"))
    });
    let secret = secret.transpose().map_err(|why| WiringError(format!("cluster.{why}")))?;
    let not_holder = match config.cluster.not_holder {
        config::NotHolder::Accept => NotHolder::Accept,
        config::NotHolder::Forward => NotHolder::Forward,
        config::NotHolder::Reject => NotHolder::Reject,
    };
    let authorities = config.cluster.ca.as_ref().map(|path| {
        let shown = path.display();
        let pem = std::fs::read(path).map_err(|e| format!("{shown} cannot be read: {e}"))?;
        Authorities::from_pem(&pem).map_err(|e| format!("{shown} {e}"))
    });
    let authorities =
        authorities.transpose().map_err(|e| WiringError(format!("cluster.ca: {e}")))?;
    let identity = config.cluster.identity.as_deref().map(identity).transpose();
    let identity = identity.map_err(|e| WiringError(format!("cluster.identity: {e}")))?;
    let trusted_network = config.cluster.trusted_network;
    Ok(ClusterOptions { not_holder, secret, authorities, identity, trusted_network })
}

/// What this node shows to others, from a file that nobody else can read.
fn identity(path: &Path) -> Result<NodeIdentity, String> {
    let shown = path.display();
    let unreadable = |e: std::io::Error| format!("{shown} cannot be read: {e}");
    let found = std::fs::metadata(path).map_err(unreadable)?;
    host::check_private(path, &found)?;
    let pem = Zeroizing::new(std::fs::read(path).map_err(unreadable)?);
    NodeIdentity::from_pem(&pem).map_err(|e| format!("{shown} {e}"))
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
    let url = config.redis.url.as_ref().map(config::ConnectionUrl::secret);
    let redis_url = match (url, password) {
        (Some(url), Some(password)) => {
            Some(registry::with_password(url, &password.without_line_end()))
        }
        (url, _) => url.cloned(),
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
        url: config.store.url.secret().clone(),
        direct_url: config.store.direct_url.as_ref().map(|url| url.secret().clone()),
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
        own_gas_rules: config.chains.iter().filter_map(own_gas_rules).collect(),
        underfunded: match config.lane.underfunded {
            config::Underfunded::Refuse => Underfunded::Refuse,
            config::Underfunded::Wait => Underfunded::Wait,
        },
        check_within: config.lane.check_timeout.get(),
        outside_use: match config.lane.outside_use {
            config::OutsideUse::Pause => OutsideUse::Pause,
            config::OutsideUse::Follow => OutsideUse::Follow,
        },
        stale_receipt: confirmations.stale_receipt_timeout.get(),
        receipt_workers: confirmations.receipt_workers,
        receipt_upon_entry: confirmations.fetch_receipt_upon_entry,
        reorg_window: confirmations.reorg_window,
        resent_at_once: RESENT_AT_ONCE,
    }
}

/// The most that an attempt may offer on a chain, in wei.
fn fee_limit(chain: &config::Chain) -> Option<(ChainId, u128)> {
    let wei = (chain.max_fee_gwei? * 1e9).round();
    Some((ChainId::new(chain.id).ok()?, wei as u128))
}

/// A chain that counts gas by rules of its own.
fn own_gas_rules(chain: &config::Chain) -> Option<ChainId> {
    let id = ChainId::new(chain.id).ok()?;
    (chain.intrinsic_gas == config::IntrinsicGas::Unchecked).then_some(id)
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
            let password = password.transpose()?.unwrap_or_default().without_line_end();
            if let Ok(found) = std::fs::metadata(path) {
                host::check_private(path, &found).map_err(|why| format!("keystore: {why}"))?;
            }
            let local = LocalSigner::from_keystore(path, password.reveal())
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
            let local =
                LocalSigner::from_key(text.reveal()).map_err(|e| format!("key: {key} {e}"))?;
            Ok((local.address(), Some(Arc::new(local))))
        }
    }
}

fn parse(address: &str) -> Result<Address, String> {
    parse_address(address).map_err(|e| format!("address: {e}"))
}

/// A secret from where the configuration says it is. A file with one in it is read by nobody else.
fn secret(
    what: &str,
    reference: &SecretReference,
    environment: &HashMap<String, String>,
) -> Result<Secret, String> {
    match reference {
        SecretReference::Environment(name) => environment
            .get(name)
            .map(|value| Secret::new(value.as_str()))
            .ok_or_else(|| format!("{what}: the environment variable {name} is not set")),
        SecretReference::File(path) => {
            let unreadable = |e| format!("{what}: {} cannot be read: {e}", path.display());
            let mut file = std::fs::File::open(path).map_err(unreadable)?;
            let found = file.metadata().map_err(unreadable)?;
            host::check_private(path, &found).map_err(|why| format!("{what}: {why}"))?;
            // As long as the file, so that no copy is left behind when it would have to grow.
            let length = usize::try_from(found.len()).unwrap_or(0);
            let mut text = Zeroizing::new(String::with_capacity(length + 1));
            file.read_to_string(&mut text).map_err(unreadable)?;
            Ok(Secret::from(std::mem::take(&mut *text)))
        }
    }
}
