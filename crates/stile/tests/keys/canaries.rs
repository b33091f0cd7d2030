//! The canary search: something unmistakable in every place that holds a secret, and then a look at
//! everything that comes out, while all is well and while it is not.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use serde_json::json;
use testkit::{Anvil, AnvilOptions, Postgres, Redis, RpcProxy, Signal, eventually, free_port};

use crate::common::{Finished, NodeOptions, SIGNER, stile};
use crate::support::{THEIRS, transfer};

/// The published example of an encrypted key file, whose password and key everybody knows.
const KEYSTORE: &str = r#"{"crypto": {"cipher": "aes-128-ctr",
    "cipherparams": {"iv": "6087dab2f9fdbbfaddc31a909735c1e6"},
    "ciphertext": "5318b4d5bcd28de64ee5559e671353e16f075ecae9f99c7a79a38af5f869aa46",
    "kdf": "pbkdf2", "kdfparams": {"c": 262144, "dklen": 32, "prf": "hmac-sha256",
    "salt": "ae3cd4e7013836a3df6bd7241b12db061dbe2c6785853cce422d148a624ce0bd"},
    "mac": "517ead924a9d0dc3124507e3393d175ce3ff7c1e96529c6c555ce9e51205e9b2"},
    "id": "3198bc9c-6672-5ab3-d995-4942343ae5b6", "version": 3}"#;
const KEYSTORE_KEY: &str = "7a28b5ba57c53603b0b07b56bba752f7784bf506fa95edc395f5cf6c7514fe9d";
const KEYSTORE_PASSWORD: &str = "testpassword";

const DATABASE_PASSWORD: &str = "cnry-database-8Rk4Wd6";
const REDIS_PASSWORD: &str = "cnry-redis-Qx7vT2mLp";
const CLUSTER_SECRET: &str = "cnry-cluster-Zt5Nf3Hb9Yc1Xs7Jw4Gq2";
const ENDPOINT_USER: &str = "cnryuserEa";
const ENDPOINT_PASSWORD: &str = "cnrypassEb";
/// `user:password` as it is sent, in base 64.
const ENDPOINT_LOGIN: &str = "Y25yeXVzZXJFYTpjbnJ5cGFzc0Vi";
const ENDPOINT_QUERY: &str = "cnryqueryEc";
/// Short, so that nothing takes it for a key by its looks.
const ENDPOINT_PATH: &str = "cnEd";
/// A key with a character missing: somebody's slip of the pen, and all but a key.
const BROKEN_KEY: &str = "0xcccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc9";

/// What must be nowhere.
struct Canaries(Vec<String>);

impl Canaries {
    fn new() -> Self {
        let known = [
            Anvil::key(0).trim_start_matches("0x"),
            KEYSTORE_KEY,
            KEYSTORE_PASSWORD,
            DATABASE_PASSWORD,
            REDIS_PASSWORD,
            CLUSTER_SECRET,
            ENDPOINT_USER,
            ENDPOINT_PASSWORD,
            ENDPOINT_LOGIN,
            ENDPOINT_QUERY,
            ENDPOINT_PATH,
            &BROKEN_KEY[2..],
        ];
        Self(known.map(str::to_owned).to_vec())
    }

    /// A token, without what may be seen of it.
    fn add_token(&mut self, token: &str) {
        self.0.push(token[12..].to_owned());
    }

    #[track_caller]
    fn are_not_in(&self, what: &str, text: &str) {
        let text = text.to_lowercase();
        for canary in &self.0 {
            let Some(place) = text.find(&canary.to_lowercase()) else { continue };
            let around = text[..place].rfind('\n').map_or(0, |line| line + 1);
            panic!("{canary} is in {what}: {}", text[around..].lines().next().unwrap_or_default());
        }
    }
}

/// A node with a canary in every place.
fn options(postgres: &str, redis: &str, endpoints: &[String], keystore: &Path) -> NodeOptions {
    let database = postgres.replace("postgres@", &format!("postgres:{DATABASE_PASSWORD}@"));
    let options = NodeOptions::postgres("canary", &database, &[])
        .key_in_environment("CANARY_KEY", Anvil::key(0))
        .keystore(keystore, "CANARY_PASSWORD", KEYSTORE_PASSWORD)
        .set("redis.url", redis)
        .set("redis.password", "env:CANARY_REDIS")
        .environment("CANARY_REDIS", REDIS_PASSWORD)
        .set("cluster.secret", "env:CANARY_CLUSTER")
        .environment("CANARY_CLUSTER", CLUSTER_SECRET)
        .set("log.level", "trace")
        .set_literal("confirmations.required", "0");
    endpoints.iter().fold(options, |options, url| options.endpoint(url))
}

/// Asks everything that can be asked, and looks at every answer.
async fn ask_all(node: &crate::common::StileProcess, token: &str, canaries: &Canaries) {
    for path in [
        "/",
        "/docs",
        "/openapi.json",
        "/metrics",
        "/health/live",
        "/health/ready",
        "/nowhere",
        "/api/v1/signers",
        &format!("/api/v1/signers/{SIGNER}"),
        &format!("/api/v1/signers/{SIGNER}/doctor"),
        &format!("/api/v1/signers/{SIGNER}/history"),
        &format!("/api/v1/tx?signer={SIGNER}"),
        &format!("/api/v1/nonces/{SIGNER}"),
        "/api/v1/nodes",
        "/api/v1/keys?all=true",
        &format!("/api/v1/route?signer={SIGNER}"),
    ] {
        for caller in [node.with(token), node.without()] {
            let answer = caller.get(path).await;
            canaries.are_not_in(path, &format!("{answer:?}"));
        }
    }
}

#[tokio::test]
async fn hole_47_no_secret_comes_out_anywhere() {
    let chain = Anvil::start(AnvilOptions::default()).await;
    let mut postgres = Postgres::start(&[]).await;
    let redis = Redis::start_with(&["--requirepass", REDIS_PASSWORD]).await;
    let directory = tempfile::tempdir().unwrap();
    let keystore = directory.path().join("keystore.json");
    std::fs::write(&keystore, KEYSTORE).unwrap();
    std::fs::set_permissions(&keystore, PermissionsExt::from_mode(0o600)).unwrap();
    // Two that work, one that refuses everything, and one that is not there.
    let proxy = RpcProxy::start(chain.url()).await;
    proxy.fail_all(500);
    let with_login =
        |url: &str| url.replace("://", &format!("://{ENDPOINT_USER}:{ENDPOINT_PASSWORD}@"));
    let endpoints = [
        format!("{}/?token={ENDPOINT_QUERY}", with_login(chain.url())),
        format!("{}/?key={ENDPOINT_QUERY}", chain.url()),
        format!("{}/{ENDPOINT_PATH}?key={ENDPOINT_QUERY}", with_login(&proxy.url())),
    ];
    let database = postgres.database().await;
    let options = options(&database, &redis.url(), &endpoints, &keystore);
    let node = options.clone().with_core_dumps().start().await;
    let mut canaries = Canaries::new();
    let boss = json!({ "name": "boss", "operations": ["admin"] });
    let boss = node.without().post("/api/v1/keys", boss).await.json();
    let boss = boss["token"].as_str().unwrap();
    let rotated = node.with(boss).get("/api/v1/keys").await.ok();
    let path = format!("/api/v1/keys/{}/rotate", rotated["items"][0]["keyId"].as_str().unwrap());
    let next = node.with(boss).post(&path, json!({})).await.json();
    let next = next["token"].as_str().unwrap();
    let wrong = stile_domain::Token::fresh().unwrap();
    for token in [boss, next, wrong.reveal()] {
        canaries.add_token(token);
    }

    // While all is well.
    node.with(next).confirmed(&transfer(SIGNER, "well")).await;
    ask_all(&node, next, &canaries).await;
    // A wrong key, a signer that is none of ours, nonsense.
    ask_all(&node, wrong.reveal(), &canaries).await;
    for body in [transfer(THEIRS, "theirs"), json!({ "signer": SIGNER, "key": "x" }), json!([])] {
        let refused = node.with(next).post("/api/v1/tx", body).await;
        canaries.are_not_in("a refusal", &format!("{refused:?}"));
    }
    // While the endpoints are down, then Redis, then the database.
    let doctor = format!("/api/v1/signers/{SIGNER}/doctor");
    chain.process().signal(Signal::Kill);
    let endpoint_log = eventually("the endpoints to be missed", async || {
        let answer = node.with(next).get(&doctor).await;
        canaries.are_not_in("the doctor", &format!("{answer:?}"));
        let log = node.process.stderr();
        log.contains("127.0.0.1").then_some(log)
    })
    .await;
    canaries.are_not_in("the log", &endpoint_log);
    let refused = node.with(next).post("/api/v1/tx", transfer(SIGNER, "no chain")).await;
    canaries.are_not_in("a call without a chain", &format!("{refused:?}"));
    redis.process().signal(Signal::Kill);
    postgres.stop_immediate().await;
    ask_all(&node, next, &canaries).await;
    // What was found out a moment ago is not asked for again.
    let unready = eventually("the node not to be ready", async || {
        let answer = node.get("/health/ready").await;
        (answer.status != 200).then_some(answer)
    })
    .await;
    assert_eq!((unready.status, unready.problem().as_str()), (503, "store-unavailable"));
    let detail = unready.json()["detail"].as_str().unwrap().to_owned();
    let words = postgres.port().to_string();
    assert!(!detail.contains("onnect") && !detail.contains(&words), "the store's error: {detail}");

    // A crash: nothing on the terminal, no core file, whatever the limits of the shell are.
    node.process.signal(Signal::Abort);
    let status = node.process.wait_exit(testkit::DEADLINE).await;
    assert_eq!((status.signal(), status.core_dumped()), (Some(6), false), "{status}");
    let files = std::fs::read_dir(node.process.directory()).unwrap();
    let names: Vec<_> = files.map(|file| file.unwrap().file_name()).collect();
    assert!(!names.iter().any(|name| name.to_string_lossy().contains("core")), "{names:?}");
    let log = node.process.stderr();
    assert!(log.contains("DEBUG") && log.contains("API key rotated"), "the log is there");
    canaries.are_not_in("the log", &log);
    canaries.are_not_in("standard output", &node.process.stdout());

    // What does not start, or does not need to.
    canaries.are_not_in("a start without a database", &format!("{:?}", options.refused().await));
    let wrong_password = options.clone().environment("CANARY_PASSWORD", REDIS_PASSWORD);
    let refused = wrong_password.refused().await;
    assert!(refused.failure().contains("the password does not open"), "{refused:?}");
    canaries.are_not_in("a wrong password", &format!("{refused:?}"));
    let refused = options.clone().environment("CANARY_KEY", BROKEN_KEY).refused().await;
    assert!(refused.failure().contains("signer[0]"), "{refused:?}");
    canaries.are_not_in("a broken key", &format!("{refused:?}"));
    let refused = options.clone().environment("CANARY_CLUSTER", "cnEd").refused().await;
    assert!(refused.failure().contains("cluster.secret"), "{refused:?}");
    canaries.are_not_in("a short secret", &format!("{refused:?}"));
    let file = directory.path().join("stile.toml");
    std::fs::write(&file, options.to_toml(free_port())).unwrap();
    let file = file.to_str().unwrap();
    for arguments in [
        &["config", "show", "--config", file][..],
        &["config", "check", "--config", file],
        &["migrate", "--config", file],
        &["key", "list", "--config", file],
        &[
            "key",
            "list",
            "--url",
            &format!("http://{ENDPOINT_USER}:{ENDPOINT_PASSWORD}@127.0.0.1:1"),
        ],
        &["serve", "--help"],
        &["key", "create", "--help"],
        &["tx", "list", "--help"],
        &["tx", "list", "--api-key", &wrong.reveal()[1..]],
        &["serve", "--no-such-option"],
    ] {
        let launch = options.variables().iter().fold(stile(arguments), |launch, (name, value)| {
            launch.env(name.as_str(), value.as_str())
        });
        let finished = Finished::of(&launch.env("STILE_API_KEY", wrong.reveal()).start()).await;
        canaries.are_not_in(&arguments.join(" "), &format!("{finished:?}"));
    }
}
