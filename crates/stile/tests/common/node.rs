//! A real `stile serve` process.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use testkit::{Anvil, Authority, Certified, Launch, Process, Signal, eventually, free_port};

use super::{Answer, CHAIN, Finished, Pending, stile};

/// How often another port is tried when somebody was faster.
const PORT_ATTEMPTS: u32 = 5;

/// The configuration of a node, key by key.
#[derive(Debug, Clone)]
pub(crate) struct NodeOptions {
    id: String,
    keys: BTreeMap<String, String>,
    chain: u64,
    answer_timeout: Option<String>,
    signers: Vec<String>,
    endpoints: Vec<String>,
    max_fee_gwei: Option<f64>,
    own_gas_rules: bool,
    max_concurrency: u32,
    further_chains: Vec<(u64, Vec<String>)>,
    environment: Vec<(String, String)>,
    says_where: bool,
    core_dumps: bool,
    /// Whom its certificate is from, where it speaks TLS.
    authority: Option<PathBuf>,
    /// What a caller shows it, where it asks for a certificate.
    identity: Option<Certified>,
}

impl NodeOptions {
    /// A node on PostgreSQL. Its sessions there carry its name.
    pub(crate) fn postgres(id: &str, database_url: &str, signers: &[String]) -> Self {
        Self::on(id, format!("{database_url}?application_name={id}"), signers)
    }

    /// A node on an SQLite file.
    pub(crate) fn sqlite(file: &Path, signers: &[String]) -> Self {
        Self::on("solo", format!("sqlite://{}", file.display()), signers)
    }

    fn on(id: &str, store_url: String, signers: &[String]) -> Self {
        let options = Self {
            id: id.to_owned(),
            keys: BTreeMap::new(),
            chain: CHAIN,
            answer_timeout: None,
            signers: signers.iter().map(|signer| format!("address = \"{signer}\"")).collect(),
            endpoints: Vec::new(),
            max_fee_gwei: None,
            own_gas_rules: false,
            max_concurrency: 0,
            further_chains: Vec::new(),
            environment: Vec::new(),
            says_where: true,
            core_dumps: false,
            authority: None,
            identity: None,
        };
        options
            .set("node.id", id)
            .set("store.url", store_url)
            // However many tests run at once, their nodes share one server's connections.
            .set_literal("store.pool_size", "6")
            .set("cluster.not_holder", "reject")
            // Whoever has a lane keeps it, unless that is what is tested.
            .set_literal("cluster.move_lanes", "false")
    }

    /// Speaks TLS with this certificate, which is from this authority.
    pub(crate) fn tls(mut self, authority: &Authority, certified: &Certified) -> Self {
        self.authority = Some(authority.file());
        let file = |path: &Path| path.display().to_string();
        self.set("server.tls.cert", file(&certified.certificate))
            .set("server.tls.key", file(&certified.key))
    }

    /// Asks callers for certificates of this authority, and is called with this one.
    pub(crate) fn client_ca(mut self, authority: &Authority, caller: &Certified) -> Self {
        self.identity = Some(caller.clone());
        self.set("server.tls.client_ca", authority.file().display().to_string())
    }

    fn scheme(&self) -> &'static str {
        if self.authority.is_some() { "https" } else { "http" }
    }

    /// A node that does not say where it is reached.
    pub(crate) fn without_url(mut self) -> Self {
        self.says_where = false;
        self
    }

    /// Sets an environment variable of the process; the last setting wins.
    pub(crate) fn environment(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The environment variables of the process.
    pub(crate) fn variables(&self) -> &[(String, String)] {
        &self.environment
    }

    /// Starts from a shell in which core dumps may be as large as they like.
    pub(crate) fn with_core_dumps(mut self) -> Self {
        self.core_dumps = true;
        self
    }

    /// Sets a key to a text; the last setting wins.
    pub(crate) fn set(self, key: &str, value: impl AsRef<str>) -> Self {
        let value = toml::Value::String(value.as_ref().to_owned()).to_string();
        self.set_literal(key, value)
    }

    /// Sets a key to what is written.
    pub(crate) fn set_literal(mut self, key: &str, literal: impl Into<String>) -> Self {
        self.keys.insert(key.to_owned(), literal.into());
        self
    }

    pub(crate) fn mode(self, mode: &str) -> Self {
        self.set("nonce.mode", mode)
    }

    pub(crate) fn lease(self, duration: &str, renew_interval: &str) -> Self {
        self.set("nonce.lease.duration", duration).set("nonce.lease.renew_interval", renew_interval)
    }

    /// Asks this chain node, instead of none or besides others.
    pub(crate) fn endpoint(mut self, url: &str) -> Self {
        self.endpoints.push(url.to_owned());
        self
    }

    /// Another number for the chain.
    pub(crate) fn chain(mut self, id: u64) -> Self {
        self.chain = id;
        self
    }

    /// How long an endpoint has for an answer.
    pub(crate) fn answer_timeout(mut self, duration: &str) -> Self {
        self.answer_timeout = Some(duration.to_owned());
        self
    }

    /// The most that an attempt may offer on the chain.
    pub(crate) fn max_fee_gwei(mut self, gwei: f64) -> Self {
        self.max_fee_gwei = Some(gwei);
        self
    }

    /// The chain counts gas by rules of its own.
    pub(crate) fn own_gas_rules(mut self) -> Self {
        self.own_gas_rules = true;
        self
    }

    /// How many calls may be under way at each endpoint.
    pub(crate) fn max_concurrency(mut self, calls: u32) -> Self {
        self.max_concurrency = calls;
        self
    }

    /// Leaves a key at its default.
    pub(crate) fn remove(mut self, key: &str) -> Self {
        self.keys.remove(key);
        self
    }

    /// Without the signers so far.
    pub(crate) fn without_signers(mut self) -> Self {
        self.signers.clear();
        self
    }

    /// One more chain, which is not asked.
    pub(crate) fn another_chain(mut self, id: u64) -> Self {
        self.further_chains.push((id, Vec::new()));
        self
    }

    /// One more chain, with its endpoint.
    pub(crate) fn another_chain_at(mut self, id: u64, url: &str) -> Self {
        self.further_chains.push((id, vec![url.to_owned()]));
        self
    }

    /// A signer on one chain only, whose key is in an environment variable.
    pub(crate) fn key_on_chain(mut self, name: &str, key: &str, chain: u64) -> Self {
        self.signers.push(format!("key = \"env:{name}\"\nchain = {chain}"));
        self.environment.push((name.to_owned(), key.to_owned()));
        self
    }

    /// A signer as it is written.
    pub(crate) fn signer_entry(mut self, entry: &str) -> Self {
        self.signers.push(entry.to_owned());
        self
    }

    /// A signer whose key is in an environment variable.
    pub(crate) fn key_in_environment(mut self, name: &str, key: &str) -> Self {
        self.signers.push(format!("key = \"env:{name}\""));
        self.environment.push((name.to_owned(), key.to_owned()));
        self
    }

    /// A signer whose key is in an encrypted file, and its password in an environment variable.
    pub(crate) fn keystore(mut self, file: &Path, name: &str, password: &str) -> Self {
        let path = file.display();
        self.signers.push(format!("keystore = \"{path}\"\npassword = \"env:{name}\""));
        self.environment(name, password)
    }

    /// The signers whose keys every development chain knows: the first so many of its accounts.
    pub(crate) fn development_keys(self, count: usize) -> Self {
        (0..count).fold(self, |options, account| {
            options.key_in_environment(&format!("KEY_{account}"), Anvil::key(account))
        })
    }

    /// A signer whose key is in another process.
    pub(crate) fn remote_signer(mut self, url: &str, address: &str) -> Self {
        self.signers.push(format!("remote = \"{url}\"\naddress = \"{address}\""));
        self
    }

    /// The configuration file of a node that listens on this port.
    pub(crate) fn to_toml(&self, port: u16) -> String {
        let mut text = String::new();
        let defaults = [
            ("server.listen", format!("\"127.0.0.1:{port}\"")),
            ("cluster.advertise_url", format!("\"{}://127.0.0.1:{port}\"", self.scheme())),
            ("nonce.chain_query.enabled", (!self.endpoints.is_empty()).to_string()),
        ];
        let wanted = |key: &str| self.says_where || key != "cluster.advertise_url";
        let defaults = defaults.iter().filter(|(key, _)| wanted(key));
        for (key, value) in defaults.filter(|(key, _)| !self.keys.contains_key(*key)) {
            writeln!(text, "{key} = {value}").expect("write to a string");
        }
        for (key, value) in &self.keys {
            writeln!(text, "{key} = {value}").expect("write to a string");
        }
        writeln!(text, "[[chain]]\nid = {}\nendpoints = {:?}", self.chain, self.endpoints)
            .expect("write to a string");
        if let Some(duration) = &self.answer_timeout {
            writeln!(text, "answer_timeout = \"{duration}\"").expect("write to a string");
        }
        if let Some(gwei) = self.max_fee_gwei {
            writeln!(text, "max_fee_gwei = {gwei:?}").expect("write to a string");
        }
        if self.own_gas_rules {
            writeln!(text, "intrinsic_gas = \"unchecked\"").expect("write to a string");
        }
        if self.max_concurrency > 0 {
            writeln!(text, "max_concurrency = {}", self.max_concurrency)
                .expect("write to a string");
        }
        for (id, endpoints) in &self.further_chains {
            writeln!(text, "[[chain]]\nid = {id}").expect("write to a string");
            if !endpoints.is_empty() {
                writeln!(text, "endpoints = {endpoints:?}").expect("write to a string");
            }
        }
        for signer in &self.signers {
            writeln!(text, "[[signer]]\n{signer}").expect("write to a string");
        }
        text
    }

    /// Starts `stile serve` on this port without waiting for it.
    pub(crate) fn launch(&self, port: u16) -> (Process, TempDir) {
        let directory = tempfile::tempdir().expect("create a temporary directory");
        let file = directory.path().join("stile.toml");
        std::fs::write(&file, self.to_toml(port)).expect("write the configuration");
        let mut launch = if self.core_dumps {
            let script = "ulimit -c unlimited; exec \"$@\"";
            Launch::new("/bin/sh").args(["-c", script, "sh", env!("CARGO_BIN_EXE_stile"), "serve"])
        } else {
            stile(&["serve"])
        };
        launch = launch.arg("--config").arg(file);
        for (name, value) in &self.environment {
            launch = launch.env(name, value);
        }
        (launch.start(), directory)
    }

    /// Starts a node that is expected to refuse.
    pub(crate) async fn refused(&self) -> Finished {
        let (process, _directory) = self.launch(free_port());
        Finished::of(&process).await
    }

    /// Starts a node and waits until it is ready.
    pub(crate) async fn start(&self) -> StileProcess {
        for _ in 0..PORT_ATTEMPTS {
            let port = free_port();
            let (process, directory) = self.launch(port);
            let node = StileProcess::new(self, process, port, directory);
            let ended =
                eventually("the node to be ready", async || match node.process.try_exit() {
                    Some(_) => Some(true),
                    // Somebody else may be answering on this port, until ours says that it does.
                    None if !node.process.stderr().contains("serving; ") => None,
                    None => {
                        let answer = node.try_get("/health/ready").await;
                        answer.is_ok_and(|answer| answer.status == 200).then_some(false)
                    }
                })
                .await;
            if !ended {
                return node;
            }
            let stderr = node.process.stderr();
            assert!(stderr.contains("Address already in use"), "the node ended:\n{stderr}");
        }
        panic!("no free port in {PORT_ATTEMPTS} attempts");
    }
}

/// A running node. Dropped, it is killed.
#[derive(Debug)]
pub(crate) struct StileProcess {
    pub(crate) process: Process,
    id: String,
    port: u16,
    url: String,
    client: reqwest::Client,
    directory: TempDir,
}

impl StileProcess {
    fn new(options: &NodeOptions, process: Process, port: u16, directory: TempDir) -> Self {
        let mut client = reqwest::Client::builder().no_proxy().timeout(testkit::DEADLINE);
        if let Some(authority) = &options.authority {
            let authority = std::fs::read(authority).expect("read the authority");
            let authority = reqwest::Certificate::from_pem(&authority).expect("a certificate");
            client = client.tls_certs_only([authority]);
        }
        if let Some(identity) = &options.identity {
            let pem = identity.pem();
            client = client.identity(reqwest::Identity::from_pem(&pem).expect("an identity"));
        }
        let client = client.build().expect("build an HTTP client");
        let url = format!("{}://127.0.0.1:{port}", options.scheme());
        Self { process, id: options.id.clone(), port, url, client, directory }
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(crate) fn config_file(&self) -> PathBuf {
        self.directory.path().join("stile.toml")
    }

    /// A request to be completed by the caller.
    pub(crate) fn request(&self, method: &str, path: &str) -> reqwest::RequestBuilder {
        let request = self.client.request(method.parse().expect("a method"), self.at(path));
        match method {
            "GET" | "HEAD" | "OPTIONS" => request,
            // Every change says that it is JSON, even if there is nothing to say.
            _ => request.header("Content-Type", "application/json"),
        }
    }

    /// A request to be completed by the caller, who says of what kind it is.
    pub(crate) fn bare_request(&self, method: &str, path: &str) -> reqwest::RequestBuilder {
        self.client.request(method.parse().expect("a method"), self.at(path))
    }

    fn at(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    pub(crate) async fn try_get(&self, path: &str) -> reqwest::Result<Answer> {
        Answer::of(self.request("GET", path).send().await?).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.try_get(path).await.unwrap_or_else(|error| panic!("GET {path}: {error:?}"))
    }

    /// Posts JSON.
    pub(crate) async fn post(&self, path: &str, body: serde_json::Value) -> Answer {
        let response = self.request("POST", path).json(&body).send().await;
        let response = response.unwrap_or_else(|error| panic!("POST {path}: {error:?}"));
        Answer::of(response).await.expect("a whole answer")
    }

    pub(crate) async fn allocate(&self, signer: &str) -> Answer {
        self.post(&allocate_path(signer), serde_json::json!({})).await
    }

    /// An allocation that waits in the socket until the process gets to it.
    pub(crate) async fn allocate_later(&self, signer: &str) -> Pending {
        Pending::post(&self.address(), &allocate_path(signer), "{}").await
    }

    pub(crate) async fn used(&self, hold: &serde_json::Value, tx_hash: &str) -> Answer {
        let body = serde_json::json!({ "holdId": hold["holdId"], "txHash": tx_hash });
        self.post(&mark_path(hold, "used"), body).await
    }

    pub(crate) async fn recyclable(&self, hold: &serde_json::Value, reason: &str) -> Answer {
        let body = serde_json::json!({ "holdId": hold["holdId"], "reason": reason });
        self.post(&mark_path(hold, "recyclable"), body).await
    }

    /// A signer as `/api/v1/signers/{signer}` shows it.
    pub(crate) async fn signer(&self, signer: &str) -> serde_json::Value {
        self.get(&format!("/api/v1/signers/{signer}")).await.ok()
    }

    /// The value of a series, such as `stile_fence_reject_total{op="renew"}`; the sum of all its
    /// series for a bare name, 0 if there is none.
    pub(crate) async fn metric(&self, series: &str) -> f64 {
        let page = self.get("/metrics").await.text;
        let lines = page.lines().filter_map(|line| line.rsplit_once(' '));
        let found = lines.filter(|(name, _)| {
            *name == series || (!series.contains('{') && name.split('{').next() == Some(series))
        });
        found.map(|(_, value)| value.parse::<f64>().expect("a number")).sum()
    }

    /// Ends the node without a word, and waits until it is gone: its port and its locks are free.
    pub(crate) async fn kill(&self) {
        self.process.signal(Signal::Kill);
        self.process.wait_exit(testkit::DEADLINE).await;
    }

    /// Asks the node to end, and waits until it has.
    pub(crate) async fn terminate(&self) -> Finished {
        self.process.signal(Signal::Term);
        Finished::of(&self.process).await
    }
}

fn allocate_path(signer: &str) -> String {
    format!("/api/v1/nonces/{signer}/allocate")
}

fn mark_path(hold: &serde_json::Value, mark: &str) -> String {
    let (signer, nonce) = (hold["signer"].as_str().expect("a signer"), &hold["nonce"]);
    format!("/api/v1/nonces/{signer}/{nonce}/{mark}")
}
