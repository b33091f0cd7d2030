//! Keys over HTTP and at a terminal.

use serde_json::{Value, json};
use stile_domain::Token;

use crate::common::{Finished, SIGNER, StileProcess, run, stile};
use crate::support::{Backend, NOBODY, OURS, THEIRS};

on_both_stores!(admins_manage_keys_over_http, keys_are_managed_at_a_terminal);

async fn admins_manage_keys_over_http(backend: Backend) {
    let node = backend.node().start().await;
    // The first one, while everything is still open to this machine.
    let first = json!({ "name": "boss", "operations": ["admin"] });
    let made = node.without().post("/api/v1/keys", first).await;
    assert_eq!((made.status, made.header("cache-control")), (201, Some("no-store")), "{made:?}");
    let boss = made.json();
    assert_eq!((&boss["operations"], &boss["signers"]), (&json!(["admin"]), &json!("all")));
    assert!(!node.without().is_let_in().await, "closed at once");
    let token = boss["token"].as_str().unwrap().to_owned();
    let admin = node.with(&token);

    let wanted =
        json!({ "name": "shop", "signers": [OURS.to_lowercase()], "expiresInSeconds": 3600 });
    let made = admin.post("/api/v1/keys", wanted.clone()).await;
    assert_eq!(made.status, 201, "{made:?}");
    let shop = made.json();
    assert_eq!((&shop["operations"], &shop["signers"]), (&json!(["read", "send"]), &json!([OURS])));
    assert!(shop["expiresAt"].is_string() && shop["revokedAt"].is_null(), "{shop}");
    let shop_token = shop["token"].as_str().unwrap().to_owned();
    let parsed: Token = shop_token.parse().unwrap();
    assert_eq!(shop["hint"], parsed.hint());
    assert!(node.with(&shop_token).is_let_in().await);
    let taken = admin.post("/api/v1/keys", wanted).await;
    assert_eq!((taken.status, taken.problem().as_str()), (409, "key-name-taken"));

    let listed = admin.get("/api/v1/keys").await;
    assert!(!listed.text.contains(&shop_token) && !listed.text.contains("token"), "{listed:?}");
    let items = listed.ok()["items"].as_array().unwrap().clone();
    let mut shown = shop.clone();
    shown.as_object_mut().unwrap().remove("token");
    assert_eq!(items[1], shown);
    assert_eq!(items.len(), 2);

    let path = format!("/api/v1/keys/{}", shop["keyId"].as_str().unwrap());
    for _ in 0..2 {
        let revoked = admin.call("DELETE", &path, None).await;
        assert_eq!((revoked.status, revoked.text.as_str()), (204, ""), "twice is harmless");
        assert!(!node.with(&shop_token).is_let_in().await, "at once on this node");
    }
    assert_eq!(admin.get("/api/v1/keys").await.ok()["items"].as_array().unwrap().len(), 1);
    let all = admin.get("/api/v1/keys?all=true").await.ok();
    assert!(all["items"][1]["revokedAt"].is_string(), "{all}");
    let unknown = "/api/v1/keys/01890000-0000-7000-8000-000000000000";
    let unknown = admin.call("DELETE", unknown, None).await;
    assert_eq!((unknown.status, unknown.problem().as_str()), (404, "key-not-found"));

    for (body, field) in [
        (json!({}), "name"),
        (json!({ "name": "a b", "signers": "all" }), "name"),
        (json!({ "name": "x" }), "signers"),
        (json!({ "name": "x", "signers": [] }), "signers"),
        (json!({ "name": "x", "signers": "some" }), "signers"),
        (json!({ "name": "x", "signers": ["0x12"] }), "signers[0]"),
        (json!({ "name": "x", "signers": [OURS], "operations": ["admin"] }), "signers"),
        (json!({ "name": "x", "signers": "all", "operations": [] }), "operations"),
        (json!({ "name": "x", "signers": "all", "operations": ["write"] }), "operations[0]"),
        (json!({ "name": "x", "signers": "all", "expiresInSeconds": 0 }), "expiresInSeconds"),
        (json!({ "name": "x", "signers": "all", "hash": "y" }), "hash"),
    ] {
        let refused = admin.post("/api/v1/keys", body.clone()).await;
        assert_eq!((refused.status, refused.problem().as_str()), (422, "invalid-field"), "{body}");
        assert_eq!(refused.fields(), [field], "{body}: {refused:?}");
    }
    let bad = admin.call("DELETE", "/api/v1/keys/nonsense", None).await;
    assert_eq!((bad.status, bad.fields()), (422, vec!["keyId".to_owned()]));
}

async fn keys_are_managed_at_a_terminal(backend: Backend) {
    // Before any server has ever run.
    let create = ["create", "--name", "shop", "--signer", OURS, "--signer", THEIRS];
    let made = backend.key_command(&create).await;
    let token = made.ok().strip_suffix('\n').unwrap().to_owned();
    assert!(token.parse::<Token>().is_ok(), "the token alone: {made:?}");
    assert!(!made.stderr.contains(&token), "and once: {made:?}");
    for part in ["shop", "read,send", OURS, THEIRS, "never", "only time"] {
        assert!(made.stderr.contains(part), "{part} is missing: {made:?}");
    }
    let json = ["create", "--name", "boss", "--operations", "admin", "--expires", "90d", "--json"];
    let boss: Value = serde_json::from_str(backend.key_command(&json).await.ok()).unwrap();
    assert_eq!((&boss["signers"], &boss["operations"]), (&json!("all"), &json!(["admin"])));
    let boss_token = boss["token"].as_str().unwrap();

    // While a server runs.
    let node = backend.node().start().await;
    let listed = backend.key_command(&["list"]).await;
    for part in ["shop", "boss", "read,send", "admin", &format!("stile_{}…", &token[6..12])] {
        assert!(listed.ok().contains(part), "{part} is missing: {listed:?}");
    }
    let listed: Value =
        serde_json::from_str(backend.key_command(&["list", "--json"]).await.ok()).unwrap();
    assert_eq!(listed, node.with(boss_token).get("/api/v1/keys").await.ok(), "as over HTTP");

    let taken = backend.key_command(&create).await;
    assert!(taken.failure().contains("there is a key named shop already"), "{taken:?}");
    let revoked = backend.key_command(&["revoke", boss["keyId"].as_str().unwrap()]).await;
    assert!(revoked.ok().starts_with("revoked boss"), "{revoked:?}");
    let again = backend.key_command(&["revoke", "boss"]).await;
    assert!(again.ok().contains("was revoked before"), "{again:?}");
    node.with(boss_token).until_let_in(false).await;
    assert!(!backend.key_command(&["list"]).await.ok().contains("boss"));
    assert!(backend.key_command(&["list", "--all"]).await.ok().contains("boss"));
    let nobody = backend.key_command(&["revoke", "nobody"]).await;
    assert!(nobody.failure().contains("there is no key nobody"), "{nobody:?}");

    for (arguments, words) in [
        (&["create", "--name", "x"][..], "--signer all"),
        (&["create", "--name", "x", "--signer", OURS, "--signer", "all"], "not both"),
        (&["create", "--name", "x", "--signer", OURS, "--operations", "admin"], "must be all"),
    ] {
        let refused = backend.key_command(arguments).await;
        assert!(refused.failure().contains(words), "{refused:?}");
    }
    for arguments in [
        &["create", "--name", "a b", "--signer", "all"][..],
        &["create", "--name", "x", "--signer", "0x12"],
        &["create", "--name", "x", "--signer", "all", "--operations", "write"],
        &["create", "--name", "x", "--signer", "all", "--expires", "soon"],
    ] {
        assert_eq!(backend.key_command(arguments).await.code, Some(2), "{arguments:?}");
    }
    let blind = backend.key("blind", "send", OURS).await;
    client_commands(&node, &token, &blind).await;
}

/// `stile tx` and `stile signer` with a key, without one, and with one that is not for it.
async fn client_commands(node: &StileProcess, token: &str, blind: &str) {
    let show = ["signer", "show", SIGNER, "--url", node.url()];
    let without = run(&show).await;
    for part in ["unauthorized", "STILE_API_KEY", "--api-key", "stile key create"] {
        assert!(without.failure().contains(part), "{part} is missing: {without:?}");
    }
    run(&[&show[..], &["--api-key", token]].concat()).await.ok();
    let launch = stile(&show).env("STILE_API_KEY", token).start();
    Finished::of(&launch).await.ok();
    let help = stile(&["signer", "show", "--help"]).env("STILE_API_KEY", token);
    let help = Finished::of(&help.start()).await;
    assert!(help.ok().contains("STILE_API_KEY") && !help.ok().contains(token), "{help:?}");

    let forbidden = run(&[&show[..], &["--api-key", blind]].concat()).await;
    for part in ["forbidden", "needs the operation read", "use another key"] {
        assert!(forbidden.failure().contains(part), "{part} is missing: {forbidden:?}");
    }
    let stranger = ["tx", "list", "--signer", NOBODY, "--url", node.url(), "--api-key", token];
    assert!(run(&stranger).await.failure().contains("unknown-signer"));
    let broken = &token[..token.len() - 1];
    let refused = run(&[&show[..], &["--api-key", broken]].concat()).await;
    assert!(refused.failure().contains("--api-key is not an API key"), "{refused:?}");
    assert!(!refused.stderr.contains(broken), "it may be a key with a character missing");
}
