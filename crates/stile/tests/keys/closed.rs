//! Closed stays closed, and how keys are kept fresh: rotated, ended, bound to addresses, looked after.

use std::net::IpAddr;

use serde_json::{Value, json};
use stile_domain::Token;
use testkit::{eventually, free_port};

use crate::common::{Answer, Database, NodeOptions, StileProcess, run_in, stile};
use crate::support::{Backend, OURS};

on_both_stores!(
    hole_44_a_server_whose_last_key_is_gone_stays_closed,
    hole_44_a_new_server_can_be_closed_from_the_first_moment,
    hole_44_a_rotated_key_overlaps_with_its_successor,
    hole_44_a_key_is_good_only_where_it_may_be_used_from,
    hole_44_when_a_key_was_last_used_is_listed,
);

/// However the last key ended, and whoever starts the server again.
async fn hole_44_a_server_whose_last_key_is_gone_stays_closed(backend: Backend) {
    let short = backend.key_with("short", "read", "all", &["--expires", "1s"]).await;
    let node = backend.node().start().await;
    node.with(&short).until_let_in(false).await;
    node.terminate().await;
    let node = backend.node().start().await;
    assert!(
        !node.without().is_let_in().await,
        "the last key expired, and the server is open to all"
    );
    let said = "no API key lets anybody in";
    assert!(node.process.stderr().contains(said), "{}", node.process.stderr());
    node.terminate().await;

    backend.revoke("short").await;
    let node = backend.node().start().await;
    assert!(!node.without().is_let_in().await, "the last key was revoked");
    let key = backend.key("next", "read", "all").await;
    assert!(node.with(&key).is_let_in().await, "and opens for a new key");
}

async fn hole_44_a_new_server_can_be_closed_from_the_first_moment(backend: Backend) {
    let node = backend.node().set_literal("server.require_key", "true").start().await;
    assert!(!node.without().is_let_in().await);
    let junk = Token::fresh().unwrap();
    assert!(!node.with(junk.reveal()).is_let_in().await);
    let first = json!({ "name": "boss", "operations": ["admin"] });
    assert_eq!(node.without().post("/api/v1/keys", first).await.status, 401);
    let key = backend.key("first", "read", "all").await;
    assert!(node.with(&key).is_let_in().await);
    assert!(!node.without().is_let_in().await);

    // Beyond loopback it starts without a key, since nobody can use it.
    let other = Backend::sqlite();
    let port = free_port();
    let options = other.node().set_literal("server.require_key", "true");
    let (process, _directory) =
        options.set("server.listen", format!("0.0.0.0:{port}")).launch(port);
    let serving = "serving; every call needs an API key";
    process.wait_for_line(|line| line.contains(serving), testkit::DEADLINE).await;
}

async fn hole_44_a_rotated_key_overlaps_with_its_successor(backend: Backend) {
    let boss = backend.key("boss", "admin", "all").await;
    let more = ["--from", "127.0.0.0/8", "--expires", "90d"];
    let old = backend.key_with("shop", "read,send", OURS, &more).await;
    let node = backend.node().start().await;
    let rotated = backend.key_command(&["rotate", "shop"]).await;
    let new = rotated.ok().trim_end().to_owned();
    assert!(rotated.stderr.contains("rotated in the database"), "{rotated:?}");
    for token in [&old, &new] {
        assert!(node.with(token).is_let_in().await, "both are good for a while");
    }
    let listed = node.with(&boss).get("/api/v1/keys").await.ok();
    let shops: Vec<&Value> =
        listed["items"].as_array().unwrap().iter().filter(|key| key["name"] == "shop").collect();
    let [first, second] = shops[..] else { panic!("{listed}") };
    for same in ["operations", "signers", "from"] {
        assert_eq!(first[same], second[same], "{same}");
    }
    assert_eq!((&first["replacedBy"], &second["replacedBy"]), (&second["keyId"], &Value::Null));
    let day = |key: &Value| key["expiresAt"].as_str().unwrap()[..10].to_owned();
    assert!(day(first) < day(second), "the old one ends in a day, the new one in 90: {listed}");

    // Over HTTP, and with an overlap that is soon over.
    let path = |key: &Value| format!("/api/v1/keys/{}/rotate", key["keyId"].as_str().unwrap());
    let admin = node.with(&boss);
    let third = admin.post(&path(second), json!({ "overlapSeconds": 1 })).await;
    assert_eq!((third.status, third.header("cache-control")), (201, Some("no-store")), "{third:?}");
    let token = third.json()["token"].as_str().unwrap().to_owned();
    assert!(node.with(&token).is_let_in().await);
    node.with(&new).until_let_in(false).await;
    assert!(node.with(&token).is_let_in().await && node.with(&old).is_let_in().await);
    let again = admin.post(&path(second), json!({})).await;
    assert_eq!((again.status, again.problem().as_str()), (409, "key-ended"));
    let nobody = json!({ "keyId": "01890000-0000-7000-8000-000000000000" });
    let nobody = admin.post(&path(&nobody), json!({})).await;
    assert_eq!((nobody.status, nobody.problem().as_str()), (404, "key-not-found"));
    let bad = admin.post(&path(second), json!({ "overlapSeconds": 0 })).await;
    assert_eq!((bad.status, bad.fields()), (422, vec!["overlapSeconds".to_owned()]));
    // The name means all of them, and an id one.
    let last = third.json()["keyId"].as_str().unwrap().to_owned();
    let revoked = backend.key_command(&["revoke", &last]).await;
    assert!(revoked.ok().starts_with("revoked shop"), "{revoked:?}");
    assert!(
        revoked.stderr.contains("`stile key revoke "),
        "what else is good is named: {revoked:?}"
    );
    node.with(&token).until_let_in(false).await;
    assert!(node.with(&old).is_let_in().await, "another id");
    let revoked = backend.key_command(&["revoke", "shop"]).await;
    assert!(revoked.ok().starts_with("revoked shop"), "{revoked:?}");
    node.with(&old).until_let_in(false).await;
}

/// Calls from this address of the machine's own.
async fn signers_from(node: &StileProcess, address: &str, token: &str, signer: &str) -> Answer {
    let from: IpAddr = address.parse().unwrap();
    let client = reqwest::Client::builder().no_proxy().local_address(from).build().unwrap();
    let url = format!("{}/api/v1/nonces/{signer}/allocate", node.url());
    let call = client.post(url).bearer_auth(token).json(&json!({}));
    Answer::of(call.send().await.unwrap()).await.unwrap()
}

async fn hole_44_a_key_is_good_only_where_it_may_be_used_from(backend: Backend) {
    let bound = ["--from", "127.0.0.2", "--from", "2001:db8::/32"];
    let bound = backend.key_with("bound", "read,send", OURS, &bound).await;
    let free = backend.key("free", "read,send", OURS).await;
    let node = backend.node().start().await;
    let good = signers_from(&node, "127.0.0.2", &bound, OURS).await;
    assert_eq!(good.status, 200, "{good:?}");
    let bad = signers_from(&node, "127.0.0.3", &bound, OURS).await;
    let unknown = Token::fresh().unwrap();
    let unknown = signers_from(&node, "127.0.0.3", unknown.reveal(), OURS).await;
    assert_eq!((bad.status, &bad.text), (401, &unknown.text), "as if there was no such key");
    assert_eq!(signers_from(&node, "127.0.0.3", &free, OURS).await.status, 200);
    let said = "an API key was used from where it may not be";
    assert!(node.process.stderr().contains(said), "{}", node.process.stderr());
    for (from, words) in [
        (&["--from", "nowhere"][..], "must be an address or a network"),
        (&["--from", "10.0.0.7/8"], "10.0.0.0/8"),
    ] {
        let wanted = [&["create", "--name", "x", "--signer", "all"], from].concat();
        assert!(backend.key_command(&wanted).await.failure().contains(words));
    }
    let Some(database) = &backend.database else { return };

    // The node that a call comes to first looks at where it comes from; the one that it passes the call
    // on to sees the first node.
    let other = NodeOptions::postgres("o", &database.url, &[OURS.to_owned()])
        .set("cluster.not_holder", "forward")
        .set("cluster.secret", "env:CLUSTER_SECRET")
        .environment("CLUSTER_SECRET", "k8Jv2Qm4Xz7Rn1Tc5Wy9Lb3Hf6Dp0GsA")
        .start()
        .await;
    assert_eq!(signers_from(&other, "127.0.0.3", &bound, OURS).await.status, 401);
    node.terminate().await;
    let holder = NodeOptions::postgres("h", &database.url, &[OURS.to_owned()])
        .set("cluster.secret", "env:CLUSTER_SECRET")
        .environment("CLUSTER_SECRET", "k8Jv2Qm4Xz7Rn1Tc5Wy9Lb3Hf6Dp0GsA")
        .start()
        .await;
    let held = signers_from(&holder, "127.0.0.2", &bound, OURS).await;
    assert_eq!(held.status, 200, "{held:?}");
    let passed_on = eventually("the other node to know the holder", async || {
        let answer = signers_from(&other, "127.0.0.2", &bound, OURS).await;
        (answer.status == 200).then_some(answer)
    })
    .await;
    assert!(passed_on.nonce() > held.nonce(), "{passed_on:?}");
}

async fn hole_44_when_a_key_was_last_used_is_listed(backend: Backend) {
    let boss = backend.key("boss", "admin", "all").await;
    let idle = backend.key("idle", "read", "all").await;
    let bound = backend.key_with("bound", "read", "all", &["--from", "10.0.0.0/8"]).await;
    let node = backend.node().start().await;
    let listed = async || {
        let listed = backend.key_command(&["list", "--json"]).await;
        let listed: Value = serde_json::from_str(listed.ok()).unwrap();
        let used = |name: &str| {
            let items = listed["items"].as_array().unwrap();
            items.iter().find(|key| key["name"] == name).unwrap()["lastUsedAt"].clone()
        };
        ["boss", "idle", "bound"].map(used)
    };
    assert_eq!(listed().await, [Value::Null, Value::Null, Value::Null]);
    assert!(node.with(&boss).is_let_in().await);
    assert!(!node.with(&bound).is_let_in().await);
    let first = eventually("the use to be written", async || {
        let [boss, idle, bound] = listed().await;
        assert_eq!((&idle, &bound), (&Value::Null, &Value::Null), "nobody was let in by them");
        boss.as_str().map(str::to_owned)
    })
    .await;
    // Once a minute for each key, however often it is used.
    assert!(node.with(&boss).is_let_in().await);
    assert!(node.with(&idle).is_let_in().await);
    eventually("the other use to be written", async || listed().await[1].as_str().map(drop)).await;
    assert_eq!(listed().await[0], first.as_str());
}

/// A database that is there and empty is none to make keys in.
#[tokio::test]
async fn hole_44_making_a_key_makes_no_schema() {
    let database = Database::new().await;
    let directory = tempfile::tempdir().unwrap();
    let configuration = format!("[store]\nurl = \"{}\"\n", database.url);
    std::fs::write(directory.path().join("stile.toml"), configuration).unwrap();
    for command in [&["create", "--name", "boss", "--operations", "admin"][..], &["list"]] {
        let command = [&["key"], command, &["--config", "stile.toml"]].concat();
        let refused = run_in(directory.path(), &command).await;
        for part in ["the database is empty", "stile migrate", "start the server"] {
            assert!(refused.failure().contains(part), "{part} is missing: {refused:?}");
        }
    }
    let tables = "SELECT count(*)::text FROM pg_tables WHERE schemaname = 'public'";
    assert_eq!(database.rows(tables).await, [["0"]], "it made a schema");
}

/// Without a configuration the server is asked, and no file is left behind.
#[tokio::test]
async fn hole_44_making_a_key_makes_no_database() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    let files = || std::fs::read_dir(place).unwrap().count();
    let wanted = ["key", "create", "--name", "boss", "--operations", "admin"];
    let nobody = format!("http://127.0.0.1:{}", free_port());
    let refused = run_in(place, &[&wanted[..], &["--url", &nobody]].concat()).await;
    assert!(refused.failure().contains("no server answers at"), "{refused:?}");
    assert_eq!(files(), 0, "it made a store");

    let configuration = format!("[store]\nurl = \"sqlite://{}/new.db\"\n", place.display());
    std::fs::write(place.join("stile.toml"), configuration).unwrap();
    let refused = run_in(place, &[&wanted[..], &["--config", "stile.toml"]].concat()).await;
    for part in ["there is no database at", "new.db", "stile migrate"] {
        assert!(refused.failure().contains(part), "{part} is missing: {refused:?}");
    }
    assert_eq!(files(), 1, "it made a store");
    // Nor in what somebody else has made.
    std::fs::write(place.join("new.db"), "").unwrap();
    let refused = run_in(place, &[&wanted[..], &["--config", "stile.toml"]].concat()).await;
    assert!(refused.failure().contains("there is no database at"), "{refused:?}");
    assert_eq!(std::fs::metadata(place.join("new.db")).unwrap().len(), 0, "it made a store");
    std::fs::remove_file(place.join("new.db")).unwrap();

    let backend = Backend::sqlite();
    let node = backend.node().start().await;
    let made = run_in(place, &[&wanted[..], &["--url", node.url()]].concat()).await;
    let boss = made.ok().trim_end().to_owned();
    for part in [&format!("made in the server {}", node.url()), "never ends", "--expires 90d"] {
        assert!(made.stderr.contains(part), "{part} is missing: {made:?}");
    }
    assert!(node.with(&boss).is_let_in().await && !node.without().is_let_in().await);
    // The rest of the commands, as an admin who only has the server's address and a key.
    let command = async |arguments: &[&str]| {
        let launch = stile(&[&["key"], arguments].concat()).current_directory(place);
        let launch = launch.env("STILE_URL", node.url()).env("STILE_API_KEY", &boss);
        crate::common::Finished::of(&launch.start()).await
    };
    let shop = command(&["create", "--name", "shop", "--signer", OURS, "--expires", "90d"]).await;
    assert!(!shop.stderr.contains("never ends"), "{shop:?}");
    let shop = shop.ok().trim_end().to_owned();
    assert!(node.with(&shop).is_let_in().await);
    let next = command(&["rotate", "shop", "--overlap", "1s"]).await;
    let next = next.ok().trim_end().to_owned();
    node.with(&shop).until_let_in(false).await;
    assert!(node.with(&next).is_let_in().await);
    assert!(command(&["list"]).await.ok().contains("LAST USED"));
    let revoked = command(&["revoke", "shop"]).await;
    assert!(revoked.ok().starts_with("revoked shop"), "{revoked:?}");
    assert!(revoked.stderr.contains("too, which was rotated before"), "{revoked:?}");
    assert!(!node.with(&next).is_let_in().await);
    assert!(command(&["revoke", "shop"]).await.ok().contains("was revoked before"));
    assert_eq!(files(), 1, "it made a store");

    // With the configuration, where it was made is said too.
    let made = backend.key_command(&["create", "--name", "by-file", "--signer", "all"]).await;
    assert!(made.stderr.contains("made in the database sqlite://"), "{made:?}");
}
