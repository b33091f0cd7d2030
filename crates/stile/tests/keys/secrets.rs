//! Tokens are nowhere but with their owners: not in logs at their loudest, not in the database, not
//! in answers to anybody.

use serde_json::json;

use crate::support::{Backend, OURS, THEIRS};

on_both_stores!(a_token_is_in_no_log_and_in_no_database);

#[track_caller]
fn assert_clean(what: &str, bytes: &[u8], tokens: &[&str]) {
    for token in tokens {
        // All of it after the hint, which may be seen.
        let secret = &token.as_bytes()[12..];
        let found = bytes.windows(secret.len()).any(|window| window == secret);
        assert!(!found, "{token} is in {what}");
    }
}

async fn a_token_is_in_no_log_and_in_no_database(backend: Backend) {
    let node = backend.node().set("log.level", "trace").start().await;
    let made = json!({ "name": "boss", "operations": ["admin"] });
    let boss = node.without().post("/api/v1/keys", made).await.json();
    let boss = boss["token"].as_str().unwrap();
    let shop = backend.key("shop", "read,send", OURS).await;
    let gone = backend.key("gone", "read", "all").await;
    let unknown = stile_domain::Token::fresh().unwrap();
    let tokens = [boss, &shop, &gone, unknown.reveal()];
    for token in tokens {
        for path in ["/api/v1/signers", "/api/v1/keys?all=true", "/metrics", "/nowhere"] {
            let answer = node.with(token).get(path).await;
            assert_clean(path, format!("{answer:?}").as_bytes(), &tokens);
        }
        let path = format!("/api/v1/nonces/{THEIRS}/allocate");
        let answer = node.with(token).post(&path, json!({})).await;
        assert_clean(&path, format!("{answer:?}").as_bytes(), &tokens);
    }
    backend.revoke("gone").await;
    node.with(&gone).until_let_in(false).await;
    let listed = backend.key_command(&["list", "--all"]).await;
    assert_clean("a list", listed.ok().as_bytes(), &tokens);

    match &backend.database {
        Some(database) => {
            let rows = database.rows("SELECT k::text FROM api_key k").await;
            assert_eq!(rows.len(), 3);
            assert_clean("the table", format!("{rows:?}").as_bytes(), &tokens);
        }
        None => {
            for suffix in ["", "-wal"] {
                let mut file = backend.file().into_os_string();
                file.push(suffix);
                let bytes = std::fs::read(&file).unwrap();
                assert_clean("the database file", &bytes, &tokens);
            }
        }
    }
    let ended = node.terminate().await;
    assert!(ended.stderr.contains("API key made") && ended.stderr.contains("DEBUG"), "{ended:?}");
    assert_clean("the log", format!("{ended:?}").as_bytes(), &tokens);
    if backend.database.is_none() {
        let bytes = std::fs::read(backend.file()).unwrap();
        assert!(bytes.windows(4).any(|window| window == b"shop"), "the keys are in it");
        assert_clean("the database file", &bytes, &tokens);
    }
}
