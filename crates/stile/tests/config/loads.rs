//! What loads, and as what.

use std::time::Duration;

use stile::config::{
    ChainQueryMode, Config, ConnectionUrl, Finality, FinalityTag, HeldExpiry, LogFormat, NonceMode,
    NotHolder, OutsideUse, RejectPolicy, SecretReference, SignerSource,
};

use super::{ADDRESS, SAMPLE, environment, parse, parse_with};

#[test]
fn the_sample_of_the_design() {
    let config = parse(SAMPLE).expect("the sample");
    assert_eq!(config.node.id.as_deref(), Some("stile-a"));
    assert_eq!(config.redis.url, Some(ConnectionUrl::from("redis://127.0.0.1:6379")));
    assert_eq!(config.cluster.advertise_url, Some(ConnectionUrl::from("https://10.0.0.5:7420")));
    assert_eq!(config.chains[0].id, 31337);
    assert_eq!(config.chains[0].endpoints[0].as_str(), "http://127.0.0.1:8545");
    let key = SecretReference::Environment("STILE_KEY".to_owned());
    assert_eq!(config.signers[0].source, SignerSource::Key { key });

    let only_defaults = Config {
        node: Default::default(),
        redis: Default::default(),
        cluster: Default::default(),
        chains: Vec::new(),
        signers: Vec::new(),
        ..config
    };
    assert_eq!(only_defaults, Config::default(), "everything else in the sample is a default");
}

#[test]
fn defaults_without_a_file() {
    let config = Config::load(None, environment(&[])).expect("defaults");
    assert_eq!(config, Config::default());
    assert_eq!(config.server.listen.to_string(), "127.0.0.1:7420");
    assert_eq!(config.nonce.mode, NonceMode::WorkerQueue);
    assert_eq!(config.nonce.lease.duration.get(), Duration::from_secs(10));
    assert_eq!(config.confirmations.finality, Finality::Confirmations(20));
}

#[test]
fn a_file_from_disk() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("stile.toml");
    std::fs::write(&path, SAMPLE).expect("a file");
    let config = Config::load(Some(&path), environment(&[])).expect("the sample");
    assert_eq!(config, parse(SAMPLE).expect("the sample"));
}

#[test]
fn every_other_choice() {
    let config = parse(
        r#"
        [log]
        format = "json"
        [nonce]
        mode = "basic"
        reject_policy = "caller-waits"
        held_expiry = "reclaim"
        chain_query.mode = "pending"
        [lane]
        outside_use = "follow"
        [cluster]
        not_holder = "reject"
        [confirmations]
        finality = "finalized"
        "#,
    )
    .expect("other choices");
    assert_eq!(config.log.format, LogFormat::Json);
    assert_eq!(config.nonce.mode, NonceMode::Basic);
    assert_eq!(config.nonce.reject_policy, RejectPolicy::CallerWaits);
    assert_eq!(config.nonce.held_expiry, HeldExpiry::Reclaim);
    assert_eq!(config.nonce.chain_query.mode, ChainQueryMode::Pending);
    assert_eq!(config.lane.outside_use, OutsideUse::Follow);
    assert_eq!(config.cluster.not_holder, NotHolder::Reject);
    assert_eq!(config.confirmations.finality, Finality::Tag(FinalityTag::Finalized));
}

#[test]
fn every_kind_of_signer() {
    let config = parse(&format!(
        r#"
        [[chain]]
        id = 1
        [[signer]]
        address = "{ADDRESS}"
        chain = 1
        [[signer]]
        key = "file:/run/secrets/key"
        [[signer]]
        keystore = "key.json"
        password = "env:PASSWORD"
        [[signer]]
        remote = "https://signer.internal"
        address = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
        "#
    ))
    .expect("signers");
    assert_eq!(config.signers[0].chain, Some(1));
    assert_eq!(config.signers[0].address(), Some(ADDRESS));
    assert!(matches!(config.signers[1].source, SignerSource::Key { .. }));
    assert!(matches!(config.signers[2].source, SignerSource::Keystore { password: Some(_), .. }));
    assert!(matches!(config.signers[3].source, SignerSource::Remote { .. }));
}

#[test]
fn a_node_id_made_of_variables() {
    let variables = [("POD_NAME", "stile-3")];
    let config = parse_with("node.id = \"${POD_NAME}.eu\"", &variables).expect("a node id");
    assert_eq!(config.node.id.as_deref(), Some("stile-3.eu"));
}
