//! Answers are as the OpenAPI document says, whatever is asked.
//!
//! schemathesis reads the document from a running node and makes up calls: what the document gives
//! as examples, what is at its edges, what is random, and calls with what earlier ones answered.
//! Some are as the document says and some are not. It checks that no answer is a 5xx, that its
//! status, content type and body are in the document, that what breaks the document's rules is
//! refused, and that what keeps them is not. It has an API key, and checks that without one, or
//! with a wrong one, it is let in nowhere that the document says asks for one. A second test calls with keys
//! of every other scope: no call succeeds that a key is not for. `schemathesis.toml` has its settings and
//! says where a check does not apply, `schemathesis_hooks.py` what a document cannot say.

use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;
use testkit::{Anvil, AnvilOptions, Launch, eventually, programs};

use crate::common::{NodeOptions, SIGNER, StileProcess};

/// The key of [`SIGNER`], which everybody knows.
const KEY: &str = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
/// Has no key here.
const WATCHED: &str = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC";
const REQUEST_ID: &str = "first";

const SETTINGS: &str = include_str!("schemathesis.toml");
const HOOKS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/http/schemathesis_hooks.py");

/// It takes a minute or three, most of it the tool's own work. A machine may be busy.
const PATIENCE: Duration = Duration::from_secs(900);

/// A transaction with a history, attempts and confirmations to ask for.
async fn confirmed(node: &StileProcess) -> String {
    let payload = json!({ "to": WATCHED, "value": "5" });
    let body = json!({ "signer": SIGNER, "requestId": REQUEST_ID, "payload": payload });
    let sent = node.post("/api/v1/tx", body).await;
    assert_eq!(sent.status, 202, "{sent:?}");
    let id = sent.json()["txId"].as_str().unwrap().to_owned();
    eventually("the transaction to be confirmed", async || {
        let tx = node.get(&format!("/api/v1/tx/{id}")).await.ok();
        (tx["state"] == "CONFIRMED").then_some(())
    })
    .await;
    id
}

/// A job of a worker that takes more, and a configuration.
async fn dispatched(node: &StileProcess) -> String {
    // Its start is the latest there can be, so that the others that the tool makes up are refused as too
    // early and not as unknown.
    let worker = json!({
        "incarnation": 9_000_000_000_000_000_u64,
        "pools": ["speech"], "services": { "asr": ["zh"] }, "resources": { "maxConcurrency": 1000 },
    });
    let config = json!({ "value": { "beam": 5 }, "expectedVersion": 0 });
    for (path, body) in [
        ("/api/v1/nodes/worker", worker.clone()),
        // The name that the document has as its example.
        ("/api/v1/nodes/asr-1", worker.clone()),
        ("/api/v1/nodes/spare", worker),
        ("/api/v1/registry/config/models", config),
    ] {
        let answer = node.request("PUT", path).json(&body).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{path}");
    }
    let job = json!({ "session": "first", "services": ["asr:zh"], "pool": "speech" });
    let job = node.post("/api/v1/dispatch", job).await;
    assert_eq!(job.status, 201, "{job:?}");
    job.json()["jobId"].as_str().unwrap().to_owned()
}

/// A key that may do everything, and the id of one that nobody needs.
struct Keys {
    token: String,
    spare: String,
}

impl Keys {
    /// From the first key on, the node asks for one.
    async fn make(node: &StileProcess) -> Self {
        let tool = json!({ "name": "tool", "operations": ["admin"] });
        let tool = node.post("/api/v1/keys", tool).await.json();
        let token = tool["token"].as_str().unwrap().to_owned();
        let spare = json!({ "name": "spare", "signers": [WATCHED] });
        let spare = node.request("POST", "/api/v1/keys").bearer_auth(&token).json(&spare);
        let spare: serde_json::Value = spare.send().await.unwrap().json().await.unwrap();
        Self { token, spare: spare["keyId"].as_str().unwrap().to_owned() }
    }
}

/// A node with something to ask for, and a key that may do everything.
struct Stage {
    node: StileProcess,
    tx_id: String,
    job_id: String,
    keys: Keys,
    directory: TempDir,
    _chain: Anvil,
}

impl Stage {
    async fn set() -> Self {
        let options = AnvilOptions { block_time_seconds: Some(1), ..AnvilOptions::default() };
        let chain = Anvil::start(options).await;
        let directory = tempfile::tempdir().unwrap();
        let node = NodeOptions::sqlite(&directory.path().join("stile.db"), &[WATCHED.to_owned()])
            .endpoint(chain.url())
            .key_in_environment("TEST_KEY", KEY)
            .set_literal("confirmations.required", "1")
            // Whatever registers stays for as long as the tool looks.
            .set("registry.node_ttl", "1h")
            .set("registry.job_ttl", "1h")
            .start()
            .await;
        let tx_id = confirmed(&node).await;
        let job_id = dispatched(&node).await;
        let keys = Keys::make(&node).await;
        Self { node, tx_id, job_id, keys, directory, _chain: chain }
    }

    /// Runs the tool to its end with this key.
    async fn run(&self, caller: &Caller<'_>, more: &[&str]) {
        let settings = SETTINGS
            .replace("{hooks}", HOOKS)
            .replace("{signer}", SIGNER)
            .replace("{watched}", WATCHED)
            .replace("{txId}", &self.tx_id)
            .replace("{requestId}", REQUEST_ID)
            .replace("{token}", &caller.token)
            .replace("{keyId}", &self.keys.spare)
            .replace("{jobId}", &self.job_id);
        let file = self.directory.path().join(format!("{}.toml", caller.name()));
        std::fs::write(&file, settings).unwrap();
        let tool = Launch::new(programs::schemathesis())
            .arg("--config-file")
            .arg(file)
            .args(["run", "--no-color"])
            .args(more.iter().copied())
            .arg(format!("{}/openapi.json", self.node.url()))
            .env("STILE_TEST_SIGNERS", format!("{SIGNER},{WATCHED}"))
            .env("STILE_TEST_OPERATIONS", caller.operations)
            .env("STILE_TEST_ONLY_SIGNER", caller.only.unwrap_or_default())
            .env("PYTHONUTF8", "1")
            // The hooks are among the sources, where nothing is to be left behind.
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .start();
        let status = tool.wait_exit(PATIENCE).await;
        let name = caller.name();
        assert!(status.success(), "{name}: {status}\n{}\n{}", tool.stdout(), tool.stderr());
    }

    /// What went wrong in a batch or in the background is in no status that the tool sees.
    async fn is_well(&self) {
        let log = self.node.process.stderr();
        assert!(!log.contains("panicked") && !log.contains(" ERROR "), "{log}");
        self.node.get("/health/ready").await.ok();
    }
}

/// A key, and what it is for.
struct Caller<'a> {
    operations: &'a str,
    only: Option<&'a str>,
    token: String,
}

impl Caller<'_> {
    fn name(&self) -> String {
        format!("{}-{}", self.operations, self.only.unwrap_or("all"))
    }
}

#[tokio::test]
async fn every_answer_is_as_the_openapi_document_says() {
    let stage = Stage::set().await;
    let admin = Caller { operations: "admin", only: None, token: stage.keys.token.clone() };
    stage.run(&admin, &[]).await;
    stage.is_well().await;
}

/// Checks that are about the document and not about who is asking: one run makes them.
const OTHER_CHECKS: &str = "status_code_conformance,content_type_conformance,\
    response_headers_conformance,response_schema_conformance,negative_data_rejection,\
    positive_data_acceptance,missing_required_header,unsupported_method,allow_header_conformance,\
    use_after_free,ensure_resource_availability,ignored_auth,object_level_authorization";

/// Whatever is asked, with a key of each scope: no answer is a 5xx, and no call succeeds that the key is
/// not for.
#[tokio::test]
async fn no_call_succeeds_outside_the_scope_of_its_key() {
    let stage = Stage::set().await;
    let mut callers = Vec::new();
    for (operations, only) in [
        ("read", None),
        ("send", None),
        ("operate", None),
        ("read", Some(WATCHED)),
        ("send", Some(WATCHED)),
        ("operate", Some(WATCHED)),
    ] {
        let signers = only.map_or(json!("all"), |signer| json!([signer]));
        let name = format!("{operations}-{}", only.unwrap_or("all"));
        let body = json!({ "name": name, "operations": [operations], "signers": signers });
        let made = stage.node.request("POST", "/api/v1/keys").bearer_auth(&stage.keys.token);
        let made: serde_json::Value = made.json(&body).send().await.unwrap().json().await.unwrap();
        let token = made["token"].as_str().unwrap().to_owned();
        callers.push(Caller { operations, only, token });
    }
    let more =
        ["--phases", "examples,fuzzing", "--max-examples", "2", "--exclude-checks", OTHER_CHECKS];
    for two in callers.chunks(2) {
        futures::future::join_all(two.iter().map(|caller| stage.run(caller, &more))).await;
    }
    stage.is_well().await;
}
