//! `stile config check` and `show`.

use crate::Place;
use crate::common::{SIGNER, run};

const GOOD: &str = r#"
[node]
id = "stile-a"
[store]
url = "postgres://stile:hunter2@db.internal/stile"
[[chain]]
id = 31337
endpoints = ["https://rpc.example/v2/0123456789abcdef0123456789abcdef"]
[[signer]]
address = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
"#;

#[tokio::test]
async fn a_good_file_is_ok() {
    let checked = Place::new(GOOD).run(&["config", "check"]).await;
    assert_eq!(checked.ok(), "ok: node stile-a, store postgres://stile:***@db.internal/stile\n");
    assert_eq!(checked.stderr, "");
}

#[tokio::test]
async fn no_file_at_all_is_ok() {
    assert!(run(&["config", "check"]).await.ok().contains("store sqlite://stile.db"));
}

#[tokio::test]
async fn a_typing_error_is_named_with_its_file_line_and_the_nearest_key() {
    let place = Place::new("[nonce]\nmode = \"basic\"\nworker_cuont = 4\n[nonce.leese]\n");
    let checked = place.run(&["config", "check"]).await;
    let said = checked.failure();
    for part in [
        "stile.toml:3: nonce.worker_cuont",
        "worker_count",
        "stile.toml:4: nonce.leese",
        "nonce.lease",
    ] {
        assert!(said.contains(part), "{part} is missing: {said}");
    }
    assert!(place.run(&["serve"]).await.failure().contains("worker_count"));
}

#[tokio::test]
async fn a_missing_file_is_named() {
    let checked = run(&["config", "check", "--config", "no-such-file.toml"]).await;
    assert!(checked.failure().contains("no-such-file.toml"), "{checked:?}");
}

#[tokio::test]
async fn what_is_well_formed_and_still_cannot_run_is_said_too() {
    let signer = format!("[[signer]]\naddress = \"{SIGNER}\"\n");
    let unasked = "[nonce.chain_query]\nenabled = false\n[[chain]]\nid = 31337\n";
    let mistyped = SIGNER.replace("f39F", "f39f");
    for (configuration, parts) in [
        (signer.clone(), ["[[signer]]", "no [[chain]]"]),
        (
            "[[chain]]\nid = 31337\n".to_owned(),
            ["chain 31337 has no endpoints", "chain_query.enabled"],
        ),
        (format!("{unasked}[[signer]]\naddress = \"{mistyped}\"\n"), ["signer[0]", "checksum"]),
        (
            format!("{unasked}[[signer]]\nkey = \"env:NOT_SET\"\n"),
            ["signer[0]", "the environment variable NOT_SET is not set"],
        ),
        (
            format!("{unasked}[[signer]]\nkeystore = \"no-such-keystore.json\"\n"),
            ["signer[0]", "no-such-keystore.json"],
        ),
    ] {
        let checked = Place::new(&configuration).run(&["config", "check"]).await;
        for part in parts {
            assert!(checked.failure().contains(part), "{part} is missing: {checked:?}");
        }
    }
}

#[tokio::test]
async fn all_that_keeps_a_server_from_starting_is_said_at_once() {
    let configuration = "[server]\ntls = { cert = \"no.pem\", key = \"no.key\" }\n\
         [cluster]\nsecret = \"env:NO_SECRET\"\n[redis]\nurl = \"redis://r\"\npassword = \"env:NO_PASSWORD\"\n\
         [nonce.chain_query]\nenabled = false\n[[chain]]\nid = 31337\n\
         [[signer]]\nkey = \"env:NO_KEY\"\n[[signer]]\nkey = \"env:NO_OTHER\"\n";
    let checked = Place::new(configuration).run(&["config", "check"]).await;
    let said = checked.failure();
    for part in ["server.tls", "NO_SECRET", "NO_PASSWORD", "NO_KEY", "NO_OTHER"] {
        assert!(said.contains(part), "{part} is missing: {said}");
    }
}

#[tokio::test]
async fn secrets_are_masked_and_defaults_are_filled_in() {
    let shown = Place::new(GOOD).run(&["config", "show"]).await;
    let shown = shown.ok();
    for secret in ["hunter2", "0123456789abcdef"] {
        assert!(!shown.contains(secret), "{shown}");
    }
    for part in ["postgres://stile:***@db.internal/stile", "worker_count = 16", "id = \"stile-a\""]
    {
        assert!(shown.contains(part), "{part} is missing: {shown}");
    }
}
