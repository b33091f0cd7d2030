//! What is secret is neither accepted in the open nor ever repeated.

use std::collections::HashMap;

use super::{ADDRESS, PRIVATE_KEY, complaints, parse, parse_with};

#[test]
fn a_literal_key_is_refused_with_a_hint() {
    let text = format!("[[signer]]\nkey = \"{PRIVATE_KEY}\"");
    assert_eq!(
        complaints(&text),
        [
            r#"stile.toml:2: signer[0].key: must be "env:NAME" or "file:PATH": secrets are given by reference, never written into the configuration"#
        ]
    );
}

#[test]
fn nothing_secret_is_ever_repeated() {
    let digits = PRIVATE_KEY.trim_start_matches("0x");
    for text in [
        format!("[[signer]]\nkey = \"{PRIVATE_KEY}\""),
        format!("[[signer]]\nkey = \"env:{PRIVATE_KEY}\""),
        format!("[[signer]]\nkey = {PRIVATE_KEY}"),
        format!("[[signer]]\nkey = {digits}"),
        format!("[[signer]]\nkey = \"{PRIVATE_KEY}"),
        format!("[[signer]]\nkey = [\"{PRIVATE_KEY}\"]"),
        format!("[[signer]]\naddress = \"{PRIVATE_KEY}\""),
        format!("[[signer]]\nprivate_key = \"{PRIVATE_KEY}\""),
        format!("[[signer]]\nkeystore = \"a\"\npassword = \"{PRIVATE_KEY}\""),
        format!("[[signer]]\nremote = \"{PRIVATE_KEY}\""),
        format!("[[chain]]\nid = 1\nendpoints = [\"rpc/{PRIVATE_KEY}\"]"),
        format!("[store]\nurl = \"mysql://root:{PRIVATE_KEY}@db\""),
        format!("[redis]\nurl = \"http://root:{PRIVATE_KEY}@db\""),
        format!("signer = \"{PRIVATE_KEY}\""),
    ] {
        let errors = parse(&text).expect_err("a secret in the wrong place");
        assert!(!format!("{errors} {errors:?}").contains(digits), "{errors}");
    }
    for variable in ["STILE__SIGNER", "STILE__SIGNER__KEY", "STILE__REDIS__URL", "STILE__SIGNERKEY"]
    {
        for value in [
            PRIVATE_KEY.to_owned(),
            format!("[{{ key = \"{PRIVATE_KEY}\" }}]"),
            format!("[{{ key = \"{PRIVATE_KEY}"),
        ] {
            let errors =
                parse_with("", &[(variable, &value)]).expect_err("a secret in the wrong place");
            assert!(!format!("{errors} {errors:?}").contains(digits), "{errors}");
        }
    }
    let errors = parse_with("node.id = \"${KEY} \"", &[("KEY", PRIVATE_KEY)]).expect_err("a space");
    assert!(!errors.to_string().contains(digits), "{errors}");
}

#[test]
fn what_is_shown_is_masked() {
    let config = parse(&format!(
        r#"
        [store]
        url = "postgres://stile:hunter2@pooler/stile"
        direct_url = "postgresql://stile:hunter2@db/stile?sslmode=require"
        [redis]
        url = "redis://:hunter2@cache"
        [[chain]]
        id = 1
        endpoints = ["https://rpc.example/v3/0123456789abcdef0123456789abcdef"]
        [[signer]]
        keystore = "key.json"
        password = "file:/run/secrets/password"
        address = "{ADDRESS}"
        "#
    ))
    .expect("a configuration");
    assert_eq!(config.store.url.as_str(), "postgres://stile:hunter2@pooler/stile");

    let shown = config.to_toml().expect("TOML");
    for text in [shown.clone(), format!("{config:?}")] {
        assert!(!text.contains("hunter2") && !text.contains("0123456789abcdef"), "{text}");
    }
    for line in [
        r#"url = "postgres://stile:***@pooler/stile""#,
        r#"direct_url = "postgresql://stile:***@db/stile?sslmode=require""#,
        r#"url = "redis://:***@cache""#,
        r#"password = "file:/run/secrets/password""#,
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line}\n{shown}");
    }
    parse(&shown).expect("what is shown loads");
}

/// Whatever somebody should print while looking for a bug: the configuration, the parts that are made of
/// it, and a node to be embedded.
#[test]
fn hole_47_debug_output_has_no_secrets() {
    let config = parse(
        r#"
        [store]
        url = "postgres://stile:canary1@pooler/stile"
        direct_url = "postgresql://stile:canary2@db/stile"
        [redis]
        url = "redis://:canary3@cache"
        password = "env:REDIS"
        [cluster]
        secret = "env:CLUSTER"
        [[chain]]
        id = 1
        endpoints = ["https://canary4:canary5@rpc.example/canary6?canary7=canary8"]
        [[signer]]
        key = "env:KEY"
        [[signer]]
        remote = "https://canary9@signer.example/canary10"
        address = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
        "#,
    )
    .expect("a configuration");
    let environment = [
        ("KEY", PRIVATE_KEY),
        ("REDIS", "canary11"),
        ("CLUSTER", "canary12-Zt5Nf3Hb9Yc1Xs7Jw4Gq2Vk8"),
    ];
    let environment: HashMap<String, String> =
        environment.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let parts = stile::wiring::parts(&config, &environment).expect("parts");
    let builder = stile::Stile::builder("postgres://stile:canary13@db/stile")
        .chain(1, "https://rpc.example/canary14");
    let shown = format!("{config:?} {config:#?} {parts:?} {parts:#?} {builder:?}");
    let digits = PRIVATE_KEY.trim_start_matches("0x");
    assert!(!shown.contains("canary") && !shown.contains(digits), "{shown}");
    assert!(shown.contains("rpc.example"), "{shown}");
}
