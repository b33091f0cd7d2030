//! The environment lies over the file.

use std::time::Duration;

use stile::config::{Finality, FinalityTag};

use super::{SAMPLE, complaints_with, parse_with};

#[test]
fn keys_of_every_type() {
    let config = parse_with(
        SAMPLE,
        &[
            ("STILE__NONCE__LEASE__DURATION", "7s"),
            ("STILE__NONCE__WORKER_COUNT", "4"),
            ("STILE__NONCE__CHAIN_QUERY__ENABLED", "false"),
            ("STILE__TX__RESUBMIT__BUMP_PERCENT", "20"),
            ("STILE__SERVER__LISTEN", "[::1]:80"),
            ("STILE__NODE__ID", "${HOST}-1"),
            ("STILE__STORE__URL", "postgres://stile@db/stile"),
            ("STILE_KEY", "not ours to look at"),
            ("HOST", "box"),
        ],
    )
    .expect("overrides");
    assert_eq!(config.nonce.lease.duration.get(), Duration::from_secs(7));
    assert_eq!(config.nonce.worker_count, 4);
    assert!(!config.nonce.chain_query.enabled);
    assert!((config.tx.resubmit.bump_percent - 20.0).abs() < f64::EPSILON);
    assert_eq!(config.server.listen.to_string(), "[::1]:80");
    assert_eq!(config.node.id.as_deref(), Some("box-1"));
    assert_eq!(config.store.url.as_str(), "postgres://stile@db/stile");
    assert_eq!(
        config.nonce.lease.renew_interval.get(),
        Duration::from_secs(3),
        "kept from the file"
    );
}

#[test]
fn lists_as_a_whole() {
    let config = parse_with(
        SAMPLE,
        &[
            ("STILE__CHAIN", r#"[{ id = 1, endpoints = ["wss://a"] }, { id = 10 }]"#),
            ("STILE__SIGNER", "[]"),
        ],
    )
    .expect("lists");
    assert_eq!(config.chains.iter().map(|chain| chain.id).collect::<Vec<_>>(), [1, 10]);
    assert!(config.signers.is_empty());
}

#[test]
fn names_of_hosts_as_a_list_or_with_commas() {
    for text in ["a.example, b.example", r#"["a.example", "b.example"]"#] {
        let config = parse_with(SAMPLE, &[("STILE__SERVER__HOSTS", text)]).expect("hosts");
        assert_eq!(config.server.hosts, ["a.example", "b.example"], "{text}");
    }
    for text in ["[1]", "[", "a b", r#"["a:1"]"#] {
        let found = complaints_with(SAMPLE, &[("STILE__SERVER__HOSTS", text)]);
        assert!(found[0].contains("server.hosts"), "{text}: {found:?}");
    }
}

#[test]
fn one_kind_of_finality_by_the_other() {
    let config =
        parse_with(SAMPLE, &[("STILE__CONFIRMATIONS__FINALITY", "safe")]).expect("finality");
    assert_eq!(config.confirmations.finality, Finality::Tag(FinalityTag::Safe));
    let file = "confirmations.finality = \"safe\"";
    let config = parse_with(file, &[("STILE__CONFIRMATIONS__REQUIRED", "3")]).expect("finality");
    assert_eq!(config.confirmations.finality, Finality::Confirmations(3));
}

#[test]
fn problems_name_the_variable() {
    let complaints = complaints_with(
        "",
        &[
            ("STILE__CHAIN", "[{ id = 0 }, { idd = 3 }]"),
            ("STILE__CHAIN__ID", "1"),
            ("STILE__NONCE", "basic"),
            ("STILE__NONCE__HOLD_TIMEOUT", "60"),
            ("STILE__NONCE__LEASE__DURATOIN", "5s"),
            ("STILE__NONCE__WORKER_COUNT", "many"),
            ("STILE__SIGNER", "[{"),
            ("STILE__TELEMETRY__ON", "true"),
        ],
    );
    assert_eq!(
        complaints,
        [
            "environment STILE__CHAIN: chain[0].id: must be a whole number from 1 to 9223372036854775771, not 0",
            "environment STILE__CHAIN: chain[1]: must have id",
            "environment STILE__CHAIN: chain[1].idd: unknown key; did you mean chain.id?",
            "environment STILE__CHAIN__ID: chain.id: a list is set as a whole: STILE__CHAIN holds a TOML array of tables",
            "environment STILE__NONCE: nonce: is a section; its keys are set as STILE__NONCE__…",
            r#"environment STILE__NONCE__HOLD_TIMEOUT: nonce.hold_timeout: must be a duration with a unit, such as "500ms", "10s", "2m", "1h" or "30d", not "60""#,
            "environment STILE__NONCE__LEASE__DURATOIN: nonce.lease.duratoin: unknown key; did you mean nonce.lease.duration (STILE__NONCE__LEASE__DURATION)?",
            r#"environment STILE__NONCE__WORKER_COUNT: nonce.worker_count: must be a whole number from 1 to 1024, not "many""#,
            "environment STILE__SIGNER: signer: must be a TOML array of tables: unclosed inline table, expected `}`",
            "environment STILE__TELEMETRY__ON: telemetry.on: unknown key; the sections are node, server, server.tls, server.limits, log, store, retention, redis, registry, nonce, nonce.lease, nonce.chain_query, lane, cluster, tx.resubmit, tx.fees, tx.estimate, confirmations, chain, signer",
        ]
    );
}
