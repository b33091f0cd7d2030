//! A store, keys made on it, and callers who have one.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::{Anvil, AnvilOptions, eventually};

use crate::common::{Answer, Database, Finished, NodeOptions, SIGNER, StileProcess, run};

/// The signer of the keys in these tests, and one that is nobody's business.
pub(crate) const OURS: &str = SIGNER;
pub(crate) const THEIRS: &str = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";
/// Is not served at all.
pub(crate) const NOBODY: &str = "0x90F79bf6EB2c4f870365E785982E1f101E93b906";

/// A store of a test's own, and a configuration that names it.
#[derive(Debug)]
pub(crate) struct Backend {
    pub(crate) database: Option<Database>,
    directory: TempDir,
    is_migrated: AtomicBool,
}

impl Backend {
    fn on(url: impl FnOnce(&Path) -> String, database: Option<Database>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let url = url(directory.path());
        let configuration = format!("[store]\nurl = \"{url}\"\n");
        std::fs::write(directory.path().join("stile.toml"), configuration).unwrap();
        Self { database, directory, is_migrated: AtomicBool::default() }
    }

    pub(crate) fn sqlite() -> Self {
        Self::on(|directory| format!("sqlite://{}", directory.join("stile.db").display()), None)
    }

    pub(crate) async fn postgres() -> Self {
        let database = Database::new().await;
        Self::on(|_| database.url.clone(), Some(Database { url: database.url.clone() }))
    }

    /// Where an embedded database is.
    pub(crate) fn file(&self) -> PathBuf {
        self.directory.path().join("stile.db")
    }

    /// A node that serves both signers and knows no chain.
    pub(crate) fn node(&self) -> NodeOptions {
        self.with_signers(&[OURS.to_owned(), THEIRS.to_owned()])
    }

    fn with_signers(&self, signers: &[String]) -> NodeOptions {
        let options = match &self.database {
            Some(database) => NodeOptions::postgres("n", &database.url, signers),
            None => NodeOptions::sqlite(&self.file(), signers),
        };
        options.set("nonce.hold_timeout", "1h")
    }

    /// A node that sends for both signers on this chain.
    pub(crate) fn node_on(&self, chain: &Anvil) -> NodeOptions {
        self.with_signers(&[])
            .development_keys(2)
            .endpoint(chain.url())
            .set_literal("confirmations.required", "0")
    }

    /// Runs `stile key …` on the store.
    pub(crate) async fn key_command(&self, arguments: &[&str]) -> Finished {
        let file = self.directory.path().join("stile.toml");
        let config = ["--config", file.to_str().unwrap()];
        // Keys are made in databases that are there.
        if !self.is_migrated.swap(true, Ordering::Relaxed) {
            run(&[&["migrate"], &config[..]].concat()).await.ok();
        }
        run(&[&["key"], arguments, &config].concat()).await
    }

    /// Makes a key and returns its token.
    pub(crate) async fn key(&self, name: &str, operations: &str, signer: &str) -> String {
        self.key_with(name, operations, signer, &[]).await
    }

    pub(crate) async fn key_with(
        &self,
        name: &str,
        operations: &str,
        signer: &str,
        more: &[&str],
    ) -> String {
        let wanted = ["create", "--name", name, "--operations", operations, "--signer", signer];
        let made = self.key_command(&[&wanted[..], more].concat()).await;
        made.ok().trim_end().to_owned()
    }

    pub(crate) async fn revoke(&self, name: &str) {
        self.key_command(&["revoke", name]).await.ok();
    }
}

/// A chain that mines at once.
pub(crate) async fn chain() -> Anvil {
    Anvil::start(AnvilOptions::default()).await
}

/// A transfer under this name.
pub(crate) fn transfer(signer: &str, request_id: &str) -> Value {
    json!({
        "signer": signer,
        "requestId": request_id,
        "payload": { "to": NOBODY, "value": "1", "gasLimit": "21000" },
    })
}

/// Somebody with a key, or without one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Caller<'n> {
    pub(crate) node: &'n StileProcess,
    token: Option<&'n str>,
}

impl StileProcess {
    pub(crate) fn with<'n>(&'n self, token: &'n str) -> Caller<'n> {
        Caller { node: self, token: Some(token) }
    }

    pub(crate) fn without(&self) -> Caller<'_> {
        Caller { node: self, token: None }
    }
}

impl Caller<'_> {
    pub(crate) fn request(&self, method: &str, path: &str) -> reqwest::RequestBuilder {
        let request = self.node.request(method, path);
        match self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    pub(crate) async fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        let request = self.request(method, path);
        let request = match body {
            Some(body) => request.json(body),
            None => request,
        };
        let response = request.send().await.unwrap_or_else(|e| panic!("{method} {path}: {e:?}"));
        Answer::of(response).await.unwrap()
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.call("GET", path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.call("POST", path, Some(&body)).await
    }

    /// Hands over a transaction and waits until it is done.
    pub(crate) async fn confirmed(&self, body: &Value) -> String {
        let sent = self.post("/api/v1/tx", body.clone()).await;
        assert_eq!(sent.status, 202, "{sent:?}");
        let id = sent.json()["txId"].as_str().unwrap().to_owned();
        eventually("the transaction to be done", async || {
            let tx = self.get(&format!("/api/v1/tx/{id}")).await.ok();
            (tx["state"] == "CONFIRMED").then_some(())
        })
        .await;
        id
    }

    /// Whether this caller is let in.
    pub(crate) async fn is_let_in(&self) -> bool {
        let answer = self.get("/api/v1/signers").await;
        match answer.status {
            200 => true,
            401 => {
                assert_eq!(answer.problem(), "unauthorized");
                assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
                false
            }
            // Too many unknown ones came from this address, so it was not looked for.
            429 => {
                assert_eq!(answer.problem(), "too-many-wrong-keys");
                false
            }
            _ => panic!("{answer:?}"),
        }
    }

    /// Waits until this caller is let in, or no longer.
    pub(crate) async fn until_let_in(&self, expected: bool) {
        eventually(&format!("let in to be {expected}"), async || {
            (self.is_let_in().await == expected).then_some(())
        })
        .await;
    }
}
