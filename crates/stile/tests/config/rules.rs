//! What is said about keys that contradict each other.

use super::{ADDRESS, complaints, complaints_with, parse};

#[test]
fn the_lease_outlives_a_missed_renewal() {
    let rule = "nonce.lease.renew_interval: must be below half of nonce.lease.duration";
    assert_eq!(
        complaints("[nonce.lease]\nduration = \"10s\"\nrenew_interval = \"5s\""),
        [format!("stile.toml:3: {rule} (10s), not 5s")]
    );
    // The line is that of the key that was given, the other being a default.
    assert_eq!(
        complaints("[nonce.lease]\nduration = \"6s\""),
        [format!("stile.toml:2: {rule} (6s), not 3s")]
    );
    assert_eq!(
        complaints_with("", &[("STILE__NONCE__LEASE__RENEW_INTERVAL", "6s")]),
        [format!("environment STILE__NONCE__LEASE__RENEW_INTERVAL: {rule} (10s), not 6s")]
    );
}

#[test]
fn no_rule_is_applied_to_a_value_nobody_chose() {
    let text = "[nonce.lease]\nduratoin = \"30s\"\nrenew_interval = \"8s\"";
    assert_eq!(
        complaints(text),
        ["stile.toml:2: nonce.lease.duratoin: unknown key; did you mean nonce.lease.duration?"]
    );
}

#[test]
fn the_store() {
    assert_eq!(
        complaints("[store]\ndirect_url = \"postgres://db\"\nlock_timeout = \"6s\""),
        [
            "stile.toml:2: store.direct_url: only goes with a store.url of PostgreSQL",
            "stile.toml:3: store.lock_timeout: must not be above store.statement_timeout (5s), not 6s",
        ]
    );
    assert_eq!(
        complaints("[store]\npooler = \"transaction\""),
        ["stile.toml:2: store.pooler: only goes with a store.url of PostgreSQL"]
    );
}

/// Row 40: whoever is between two nodes reads what they pass on, unless it goes by TLS.
#[test]
fn hole_40_nodes_speak_tls_beyond_their_machine_or_the_network_is_declared_to_be_trusted() {
    let found = complaints("[cluster]\nadvertise_url = \"http://10.0.0.11:7420\"");
    let [found] = &found[..] else { panic!("{found:?}") };
    assert!(found.starts_with("stile.toml:2: cluster.advertise_url: "), "{found}");
    for what_to_do in ["https://", "cluster.trusted_network = true"] {
        assert!(found.contains(what_to_do), "{found}");
    }
    for fine in [
        "advertise_url = \"https://10.0.0.11:7420\"",
        "advertise_url = \"http://127.0.0.1:7420\"",
        "advertise_url = \"http://[::1]:7420\"",
        "advertise_url = \"http://10.0.0.11:7420\"\ntrusted_network = true",
        "",
    ] {
        parse(&format!("[cluster]\n{fine}")).unwrap_or_else(|found| panic!("{fine}: {found:?}"));
    }
}

#[test]
fn the_registry() {
    assert_eq!(
        complaints(
            "[redis]\npassword = \"env:PASSWORD\"\n[registry]\nl2_ttl = \"4s\"\njob_ttl = \"2h\""
        ),
        [
            "stile.toml:2: redis.password: only goes with redis.url",
            "stile.toml:4: registry.l2_ttl: must not be below registry.l1_ttl (5s), not 4s",
            "stile.toml:5: registry.capacity_ttl: must not be below registry.job_ttl (2h), not 1h",
        ]
    );
    assert_eq!(
        complaints("[registry]\nnegative_ttl = \"10s-1s\"\nkey_prefix = \"a b\""),
        [
            r#"stile.toml:2: registry.negative_ttl: must be two durations from 0s to 1h, such as "1s-10s", not "10s-1s""#,
            r#"stile.toml:3: registry.key_prefix: must be 1 to 64 letters, digits, dots, underscores, dashes and colons, not "a b""#,
        ]
    );
}

#[test]
fn forwarding_needs_a_way_back() {
    assert_eq!(
        complaints("[cluster]\nnot_holder = \"forward\""),
        [
            "stile.toml:2: cluster.not_holder: \"forward\" needs cluster.advertise_url, by which the other nodes reach this one"
        ]
    );
}

#[test]
fn finality() {
    assert_eq!(
        complaints("[confirmations]\nrequired = 20\nfinality = \"safe\""),
        [
            "stile.toml:3: confirmations.finality: cannot be given together with confirmations.required"
        ]
    );
    assert_eq!(
        complaints("[confirmations]\nrequired = 200"),
        [
            "stile.toml:2: confirmations.required: must not be above confirmations.reorg_window (128), not 200"
        ]
    );
}

#[test]
fn chains_and_signers() {
    let lower = ADDRESS.to_lowercase();
    let text = format!(
        "[[chain]]\nid = 1\n[[chain]]\nid = 1\n\
         [[signer]]\naddress = \"{ADDRESS}\"\n[[signer]]\naddress = \"{lower}\"\nchain = 5"
    );
    assert_eq!(
        complaints(&text),
        [
            "stile.toml:4: chain[1].id: 1 is already the id of chain[0]",
            "stile.toml:7: signer[1]: is the same signer as signer[0] (stile.toml:5), on the same chain: \
             remove one of them, or give each the chain that it is for",
            "stile.toml:9: signer[1].chain: there is no [[chain]] with the id 5",
        ]
    );
}

#[test]
fn a_quorum_is_one_that_the_endpoints_can_reach() {
    let chain = |quorum: u32| {
        format!(
            "[[chain]]\nid = 1\nendpoints = [\"http://a.example\", \"http://b.example\"]\nquorum = {quorum}"
        )
    };
    assert_eq!(
        complaints(&chain(3)),
        ["stile.toml:4: chain[0].quorum: must not be above the number of endpoints (2), not 3"]
    );
    assert_eq!(complaints(&chain(0)).len(), 1);
}

#[test]
fn what_goes_together_in_a_signer() {
    for (entry, complaint) in [
        ("", "must have one of address, key, keystore and remote"),
        ("key = \"env:A\"\nkeystore = \"b\"", "must have only one of key, keystore and remote"),
        (
            "key = \"env:A\"\naddress = \"ADDRESS\"",
            "address does not go with key, which already determines it",
        ),
        ("remote = \"http://a\"", "remote needs address too"),
        ("key = \"env:A\"\npassword = \"env:B\"", "password only goes with keystore"),
    ] {
        let text = format!("\n[[signer]]\n{}", entry.replace("ADDRESS", ADDRESS));
        assert_eq!(complaints(&text), [format!("stile.toml:2: signer[0]: {complaint}")]);
    }
}
