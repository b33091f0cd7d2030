//! What must hold between keys. Each rule says itself in its message.

use stile_server::is_private_way;

use super::Problem;
use super::layer::Layer;
use crate::config::{Config, Finality, NotHolder, Pooler, Signer, SignerSource};

/// Applies every rule to the model and reports to the layer.
pub(super) fn check(config: &Config, layer: &mut Layer) {
    let mut rules = Rules { layer, broken: Vec::new() };
    check_server(config, &mut rules);
    check_lease(config, &mut rules);
    check_store(config, &mut rules);
    check_cluster(config, &mut rules);
    check_registry(config, &mut rules);
    check_confirmations(config, &mut rules);
    check_chains(config, &mut rules);
    check_signers(config, &mut rules);
    let broken = rules.broken;
    layer.problems.extend(broken);
}

/// The rules broken so far. They are kept apart from the problems of single values, so that one
/// broken rule does not cast doubt on the keys of another.
struct Rules<'a> {
    layer: &'a Layer,
    broken: Vec<Problem>,
}

impl Rules<'_> {
    /// Reports `keys[0]` unless the rule holds. A rule is not applied while one of its keys is in
    /// doubt: the default that stands in for it was nobody's choice.
    fn require(&mut self, holds: bool, keys: &[&str], message: String) {
        if !holds && !keys.iter().any(|key| self.layer.is_in_doubt(key)) {
            self.broken.push(Problem {
                origin: self.layer.origin_of(keys),
                key: keys.first().map(|key| (*key).to_owned()),
                message,
            });
        }
    }
}

fn check_server(config: &Config, rules: &mut Rules<'_>) {
    let tls = &config.server.tls;
    for (here, key, other, name) in [
        (&tls.cert, "server.tls.cert", &tls.key, "server.tls.key"),
        (&tls.key, "server.tls.key", &tls.cert, "server.tls.cert"),
        (&tls.client_ca, "server.tls.client_ca", &tls.cert, "server.tls.cert"),
    ] {
        rules.require(here.is_none() || other.is_some(), &[key, name], format!("needs {name}"));
    }
    let url = config.cluster.advertise_url.as_ref();
    rules.require(
        tls.cert.is_none() || url.is_none_or(|url| url.scheme() == "https"),
        &["cluster.advertise_url", "server.tls.cert"],
        "must begin with https://, which is what the server speaks with server.tls".to_owned(),
    );
    let cluster = &config.cluster;
    rules.require(
        tls.client_ca.is_none()
            || url.is_none()
            || cluster.identity.is_some()
            || cluster.not_holder == NotHolder::Reject,
        &["server.tls.client_ca", "cluster.advertise_url", "cluster.identity", "cluster.not_holder"],
        "nodes that pass calls on to each other need a certificate too: name it in cluster.identity, \
         or set cluster.not_holder = \"reject\""
            .to_owned(),
    );
    let limits = &config.server.limits;
    rules.require(
        limits.connections_per_address <= limits.connections,
        &["server.limits.connections_per_address", "server.limits.connections"],
        format!("must not be above server.limits.connections ({})", limits.connections),
    );
}

/// One missed renewal must not lose the lease.
fn check_lease(config: &Config, rules: &mut Rules<'_>) {
    let (renew, duration) = (config.nonce.lease.renew_interval, config.nonce.lease.duration);
    rules.require(
        renew.get().saturating_mul(2) < duration.get(),
        &["nonce.lease.renew_interval", "nonce.lease.duration"],
        format!("must be below half of nonce.lease.duration ({duration}), not {renew}"),
    );
}

fn check_store(config: &Config, rules: &mut Rules<'_>) {
    let store = &config.store;
    rules.require(
        store.direct_url.is_none() || store.url.scheme() != "sqlite",
        &["store.direct_url", "store.url"],
        "only goes with a store.url of PostgreSQL".to_owned(),
    );
    rules.require(
        store.pooler == Pooler::None || store.url.scheme() != "sqlite",
        &["store.pooler", "store.url"],
        "only goes with a store.url of PostgreSQL".to_owned(),
    );
    let (lock, statement) = (store.lock_timeout, store.statement_timeout);
    rules.require(
        lock <= statement,
        &["store.lock_timeout", "store.statement_timeout"],
        format!("must not be above store.statement_timeout ({statement}), not {lock}"),
    );
}

/// Forwarding works only if every node can be reached, this one included.
fn check_cluster(config: &Config, rules: &mut Rules<'_>) {
    let cluster = &config.cluster;
    rules.require(
        cluster.not_holder != NotHolder::Forward || cluster.advertise_url.is_some(),
        &["cluster.not_holder", "cluster.advertise_url"],
        "\"forward\" needs cluster.advertise_url, by which the other nodes reach this one"
            .to_owned(),
    );
    let advertised = cluster.advertise_url.as_ref();
    rules.require(
        cluster.trusted_network || advertised.is_none_or(|url| is_private_way(url.as_str())),
        &["cluster.advertise_url", "cluster.trusted_network"],
        "is on another machine than the nodes that pass calls on to it, and without TLS anybody in \
         between can read and change them: give an https:// URL, or say that nobody is in between with \
         cluster.trusted_network = true"
            .to_owned(),
    );
}

fn check_registry(config: &Config, rules: &mut Rules<'_>) {
    rules.require(
        config.redis.password.is_none() || config.redis.url.is_some(),
        &["redis.password", "redis.url"],
        "only goes with redis.url".to_owned(),
    );
    let registry = &config.registry;
    for (longer, key, shorter, other) in [
        (registry.l2_ttl, "registry.l2_ttl", registry.l1_ttl, "registry.l1_ttl"),
        (registry.capacity_ttl, "registry.capacity_ttl", registry.job_ttl, "registry.job_ttl"),
        (registry.tombstone_ttl, "registry.tombstone_ttl", registry.node_ttl, "registry.node_ttl"),
    ] {
        rules.require(
            longer >= shorter,
            &[key, other],
            format!("must not be below {other} ({shorter}), not {longer}"),
        );
    }
}

/// Confirmations are counted in the window of blocks that is kept.
fn check_confirmations(config: &Config, rules: &mut Rules<'_>) {
    if let Finality::Confirmations(required) = config.confirmations.finality {
        let window = config.confirmations.reorg_window;
        rules.require(
            required <= window,
            &["confirmations.required", "confirmations.reorg_window"],
            format!("must not be above confirmations.reorg_window ({window}), not {required}"),
        );
    }
}

fn check_chains(config: &Config, rules: &mut Rules<'_>) {
    for (index, chain) in config.chains.iter().enumerate() {
        if let Some(first) =
            config.chains[..index].iter().position(|earlier| earlier.id == chain.id)
        {
            let key = format!("chain[{index}].id");
            rules.require(
                false,
                &[&key],
                format!("{} is already the id of chain[{first}]", chain.id),
            );
        }
        let endpoints = chain.endpoints.len();
        if let Some(quorum) = chain.quorum.filter(|quorum| *quorum as usize > endpoints) {
            let key = format!("chain[{index}].quorum");
            rules.require(
                false,
                &[&key],
                format!("must not be above the number of endpoints ({endpoints}), not {quorum}"),
            );
        }
    }
}

fn check_signers(config: &Config, rules: &mut Rules<'_>) {
    for (index, signer) in config.signers.iter().enumerate() {
        let chain_key = format!("signer[{index}].chain");
        if let Some(chain) = signer.chain {
            // Without a list of chains there is nothing to compare with.
            let known =
                config.chains.is_empty() || config.chains.iter().any(|entry| entry.id == chain);
            rules.require(
                known,
                &[&chain_key],
                format!("there is no [[chain]] with the id {chain}"),
            );
        }
        if let Some(first) =
            config.signers[..index].iter().position(|earlier| is_same_lane(earlier, signer))
        {
            let key = format!("signer[{index}]");
            rules.require(
                false,
                &[&key],
                format!(
                    "is the same signer as signer[{first}] ({}), on the same chain: remove one of them, or \
                     give each the chain that it is for",
                    config.signers[first].origin
                ),
            );
        }
    }
}

/// Whether two entries would be one lane, as far as it shows without reading any key.
fn is_same_lane(left: &Signer, right: &Signer) -> bool {
    let same_chain = left.chain.is_none() || right.chain.is_none() || left.chain == right.chain;
    let same_signer = match (left.address(), right.address()) {
        (Some(left), Some(right)) => left.eq_ignore_ascii_case(right),
        (None, None) => match (&left.source, &right.source) {
            (SignerSource::Key { key: left }, SignerSource::Key { key: right }) => left == right,
            (
                SignerSource::Keystore { path: left, .. },
                SignerSource::Keystore { path: right, .. },
            ) => left == right,
            _ => false,
        },
        _ => false,
    };
    same_chain && same_signer
}
